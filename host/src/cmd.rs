//! The verbs of `steady`, one file each.

pub mod console;
#[cfg(feature = "train")]
pub mod cycle;
pub mod demo;
pub mod drone;
pub mod flash;
pub mod fly;
pub mod gains;
pub mod info;
pub mod log;
pub mod param;
pub mod report;
pub mod scan;
pub mod supervise;
pub mod sweep;
mod tables;
pub mod world;

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::files;

/// Where a text goes.
#[derive(Debug, Args)]
struct Output {
    /// Where it goes; standard output if not given.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

impl Output {
    fn write(&self, text: &str) -> Result<()> {
        match &self.output {
            Some(path) => files::write_new(path, text.as_bytes(), self.force)?,
            None => print!("{text}"),
        }
        Ok(())
    }
}

/// Checks every one of `names`, says what is wrong with each, and fails if anything is.
fn check_each<E: Display>(
    what: &str,
    names: &[String],
    check: impl Fn(&str) -> Result<String, E>,
) -> Result<()> {
    let mut refused = 0;
    for name in names {
        match check(name) {
            Ok(found) => println!("{name}: ok, {found}"),
            Err(error) => {
                refused += 1;
                eprintln!("{error}");
            }
        }
    }
    if refused > 0 {
        bail!("{refused} of {} {what} refused", names.len());
    }
    Ok(())
}
