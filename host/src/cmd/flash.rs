//! `steady flash`: firmware over the radio.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steady_radio::bootloader::Bootloader;
use steady_radio::client::Client;
use steady_radio::firmware::{self, Image};
use steady_radio::tables::{self, MIN_BATTERY_V, Phase};
use steady_radio::{Error, printable};

use super::drone::{Address, Consent, Progress};
use crate::interrupt::InBootloader;

/// Put firmware on a drone, read it back, and start it.
///
/// The file is checked before the drone leaves its firmware. The gain tables stay. A flash that was
/// interrupted leaves the drone in its bootloader, where the same command finds it.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// A binary for 0x08004000 (.bin), or a package as the official client has them (.zip).
    firmware: PathBuf,
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    consent: Consent,
    /// The drone is in its bootloader already: its button was held for 3 s at power-on.
    #[arg(long)]
    cold: bool,
    /// Refuse below this battery voltage.
    #[arg(long, value_name = "V", default_value_t = MIN_BATTERY_V)]
    min_battery: f32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Without a firmware nobody can ask it.
const UNKNOWN_BOARD: &str = "which board it is cannot be read: be sure that it is a Crazyflie 2.1 or 2.1+";

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let image = Image::load(&self.firmware)?;
        let release = image.release.clone().unwrap_or_else(|| "no release named".to_owned());
        eprintln!("{}: {} bytes, {release}", self.firmware.display(), image.len());
        for name in &image.left_out {
            eprintln!("note: {name} in the package is not for the STM32 and is left out");
        }
        let mut client = self.address.connect()?;
        if self.cold {
            eprintln!("the drone is taken to be in its bootloader; {UNKNOWN_BOARD}");
        } else {
            self.look(&mut client)?;
        }
        if !self.consent.ask(&format!("Write it to {}?", self.address.uri))? {
            return Ok(());
        }
        let (started, before) = (client.now(), client.traffic());
        {
            let _waits = InBootloader::begin();
            let mut progress = Progress::new();
            self.write(&mut client, &image, &mut |step| progress.step(step))?;
        }
        client.forget();
        let platform = client.platform()?;
        let (seconds, after) = ((client.now() - started).as_secs_f64(), client.traffic());
        let packets = (after.sent - before.sent, after.received - before.received);
        if self.json {
            println!(
                "{}",
                json!({
                    "bytes": image.len(),
                    "release": image.release,
                    "firmware": platform.firmware,
                    "seconds": seconds,
                    "packets_sent": packets.0,
                    "packets_received": packets.1,
                })
            );
        } else {
            println!(
                "{} bytes written, read back and started in {seconds:.1} s with {} packets sent and {} received; \
                 the drone runs {}",
                image.len(),
                packets.0,
                packets.1,
                printable(&platform.firmware)
            );
        }
        Ok(())
    }

    /// Prints the drone's present state, and refuses where a restart would be dangerous.
    fn look(&self, client: &mut Client) -> Result<()> {
        let battery_v = client.battery_v()?;
        let flags = match client.platform() {
            Ok(platform) => {
                eprintln!("on the drone now: {} {}, {battery_v:.2} V", platform.device, platform.firmware);
                platform.check_board()?;
                Some(client.flags()?)
            }
            // The radio processor answers: that is enough to write a firmware.
            Err(Error::NoAnswer { .. }) => {
                eprintln!("on the drone now: no firmware that answers, {battery_v:.2} V; {UNKNOWN_BOARD}");
                None
            }
            Err(error) => return Err(error.into()),
        };
        Ok(tables::check_state(flags, battery_v, self.min_battery)?)
    }

    fn write(&self, client: &mut Client, image: &Image, observe: &mut dyn FnMut(Phase)) -> Result<(), Error> {
        observe(Phase::Entering);
        let mut loader =
            if self.cold { Bootloader::cold(client.link()) } else { Bootloader::enter(client.link()) }?;
        let outcome = firmware::write(&mut loader, image, observe);
        observe(Phase::Leaving);
        let back = loader.leave();
        let again = format!(
            "Run the same command again: it finds the drone in its bootloader. If it does not, hold the drone's button \
             for 3 s at power-on until the blue LED blinks slowly, and run\n  steady flash {} --cold --uri {}",
            self.firmware.display(),
            self.address.uri
        );
        match (outcome, back) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(error), Ok(())) => Err(Error::Stranded {
                cause: Box::new(error),
                state: format!(
                    "A firmware runs on the drone, but it may be incomplete: do not fly it. {again}"
                ),
            }),
            (Err(error), Err(_)) => Err(Error::Stranded {
                cause: Box::new(error),
                state: format!("The drone has no complete firmware and stays in its bootloader. {again}"),
            }),
            (Ok(()), Err(error)) => Err(Error::Stranded {
                cause: Box::new(error),
                state: format!(
                    "The firmware was written and read back, but does not answer. Switch the drone off and on. If it \
                     stays silent, it is no firmware for this drone. {again}"
                ),
            }),
        }
    }
}
