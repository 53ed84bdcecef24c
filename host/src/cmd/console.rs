//! `steady console`: the drone's console.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::drone::Address;

/// Print the drone's console until Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(flatten)]
    address: Address,
    /// End after this many seconds.
    #[arg(long)]
    seconds: Option<f64>,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let mut client = self.address.connect()?;
        client.platform()?;
        let started = Instant::now();
        while self.seconds.is_none_or(|s| started.elapsed().as_secs_f64() < s) {
            print!("{}", client.console(Duration::from_millis(200))?);
            crate::out::flush();
        }
        Ok(())
    }
}
