//! `cargo xtask images`: the programs that check the virtual Crazyflie against the manuals.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;
use steady_test_support::ARCHITECTURE;

use crate::firmware::{publish, write};
use crate::sh;

/// Build the programs of emulator/images into target/images, for the virtual Crazyflie's tests.
#[derive(Args)]
pub(crate) struct Cmd {}

impl Cmd {
    /// Builds and says where the image is.
    pub(crate) fn run(self) -> Result<()> {
        let bytes = publish(ARCHITECTURE, "architecture-image", |elf| {
            let bytes = fs::read(elf).with_context(|| format!("cannot read {}", elf.display()))?;
            write(sh::root().join(ARCHITECTURE.elf), &bytes)?;
            Ok(bytes.len())
        })?;
        println!("{:<28} {bytes:>7} bytes", ARCHITECTURE.elf);
        Ok(())
    }
}
