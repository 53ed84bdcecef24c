//! `steady check-motors`: turns each motor alone and says which shakes, is weak or stands still.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use steady_radio::motors::{self, POWER, Verdict};

use super::drone::{Address, Consent};

/// Turn one motor after the other, and judge motors and propellers by the vibration.
///
/// The drone stands on the floor, disarmed, with its propellers on and nothing near them.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    consent: Consent,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let mut client = self.address.connect()?;
        let percent = 100 * u32::from(POWER) / 65536;
        if !self.consent.ask(&format!("Turn the motors of {} at {percent} %?", self.address.uri))? {
            return Ok(());
        }
        let shaking = motors::check(&mut client, |motor| eprintln!("motor {motor} turns"))?;
        let verdicts = shaking.verdicts();
        if self.json {
            let texts = verdicts.map(Verdict::text);
            println!("{}", json!({ "rest": shaking.rest, "motors": shaking.motors, "verdicts": texts }));
        } else {
            println!("at rest {:10.5} (m/s²)²", shaking.rest);
            for (n, (variance, verdict)) in shaking.motors.iter().zip(verdicts).enumerate() {
                println!("M{}      {variance:10.5} (m/s²)²  {}", n + 1, verdict.text());
            }
        }
        match verdicts.iter().filter(|v| **v != Verdict::Good).count() {
            0 => Ok(()),
            count => bail!("{count} of 4 motors are not good: do not fly"),
        }
    }
}
