//! `cargo xtask fuzz`: hostile input for everything on the drone that reads bytes from outside.

use anyhow::Result;
use clap::Args;

use crate::sh;

/// Attack the decoders of the firmware with damaged input: CRTP, syslink, config.txt, gain tables,
/// EEPROM, log files, and cards with a damaged file system.
///
/// Runs `firmware/examples/fuzz.rs`, with arithmetic checked for overflow. A case that breaks something
/// prints the arguments that repeat it. The exit status is 1 then.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Cases in all, damaged cards not counted.
    #[arg(long, default_value_t = 12_000_000, value_name = "COUNT")]
    cases: u64,
    /// The same seed gives the same cases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Attack only this: crtp, syslink, config, gain_table, eeprom, usd_log or card.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Begin with this episode, as the message of a failure says.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    episode: u64,
}

/// Cases of damaged cards for each other case: they take a thousand times as long.
const CARD_PART: u64 = 500;

impl Cmd {
    /// Runs the attacks.
    pub(crate) fn run(self) -> Result<()> {
        let is_card = self.target.as_deref() == Some("card");
        if !is_card {
            self.attack("test", self.target.as_deref(), self.cases)?;
        }
        if is_card || self.target.is_none() {
            // Without checks of overflow: embedded-sdmmc's arithmetic overflows on damaged cards, as on
            // the drone, and the storage refuses what comes out of it.
            let cases = if is_card { self.cases } else { self.cases / CARD_PART };
            self.attack("release", Some("card"), cases)?;
        }
        Ok(())
    }

    fn attack(&self, profile: &str, target: Option<&str>, cases: u64) -> Result<()> {
        let mut command = sh::cargo();
        command.args(["run", "--quiet", "--locked", "--package", "steady-firmware", "--example", "fuzz"]);
        command.args(["--profile", profile, "--"]);
        for (name, value) in [("--cases", cases), ("--seed", self.seed), ("--episode", self.episode)] {
            command.arg(name).arg(value.to_string());
        }
        if let Some(target) = target {
            command.args(["--target", target]);
        }
        sh::run(&mut command)
    }
}
