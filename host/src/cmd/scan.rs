//! `steady scan`: look for drones.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steady_radio::{Error, Uri, scan};

/// Look for drones: virtual ones on this machine, and on the air through a Crazyradio.
///
/// Virtual drones are looked for on the ports 19850 to 19859 of 127.0.0.1, or of the host that
/// SCAN_ADDRESS names. Exit status 3 when none was found.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Radio address to look for, ten hexadecimal digits.
    #[arg(long, default_value = "E7E7E7E7E7")]
    address: String,
    /// Which Crazyradio, from 0.
    #[arg(long, default_value_t = 0)]
    dongle: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let Uri::Radio(wanted) = format!("radio://{}/80/2M/{}", self.dongle, self.address).parse()? else {
            return Ok(());
        };
        let host = std::env::var("SCAN_ADDRESS").unwrap_or_else(|_| "127.0.0.1".to_owned());
        let mut found = scan::udp(&host)?;
        let radio = scan::radio(self.dongle, wanted.address);
        if let Ok(drones) = &radio {
            found.extend(drones.iter().cloned());
        }
        if self.json {
            let uris: Vec<String> = found.iter().map(Uri::to_string).collect();
            println!(
                "{}",
                json!({ "found": uris, "radio_error": radio.as_ref().err().map(Error::to_string) })
            );
        } else {
            found.iter().for_each(|uri| println!("{uri}"));
        }
        match radio {
            Err(error) if found.is_empty() => Err(error.into()),
            Err(error) => {
                eprintln!("note: {error}");
                Ok(())
            }
            Ok(_) if found.is_empty() => Err(Error::Dongle(format!(
                "no drone answers at {}: switch it on, or start `virtual-crazyflie serve`",
                self.address
            ))
            .into()),
            Ok(_) => Ok(()),
        }
    }
}
