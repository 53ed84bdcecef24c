//! `steady arm`, `disarm`, `stop` and `recover`.

use anyhow::Result;
use clap::Args;

use super::drone::Address;

/// Arm the drone: its motors may turn from then on. It tells what stands against it.
#[derive(Debug, Args)]
pub(crate) struct Arm {
    #[command(flatten)]
    address: Address,
}

/// Disarm the drone.
#[derive(Debug, Args)]
pub(crate) struct Disarm {
    #[command(flatten)]
    address: Address,
}

/// Stop the motors at once, until the drone is switched off and on. It falls if it flies.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    address: Address,
}

/// Leave the state after a crash, once the drone stands upright again.
#[derive(Debug, Args)]
pub(crate) struct Recover {
    #[command(flatten)]
    address: Address,
}

impl Arm {
    pub(crate) fn run(self) -> Result<()> {
        self.address.connect()?.arm(true)?;
        println!("armed");
        Ok(())
    }
}

impl Disarm {
    pub(crate) fn run(self) -> Result<()> {
        self.address.connect()?.arm(false)?;
        println!("disarmed");
        Ok(())
    }
}

impl Stop {
    pub(crate) fn run(self) -> Result<()> {
        self.address.connect()?.stop()?;
        println!("stopped and locked until it is switched off and on");
        Ok(())
    }
}

impl Recover {
    pub(crate) fn run(self) -> Result<()> {
        self.address.connect()?.recover()?;
        println!("recovered");
        Ok(())
    }
}
