//! `steady scan`: look for drones.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use steady_radio::{Error, Uri, scan};

/// Look for drones: virtual ones on this machine, on its USB, and on the air through a Crazyradio.
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
        let (usb, radio) = (scan::usb(), scan::radio(self.dongle, wanted.address));
        for drones in [&usb, &radio].into_iter().flatten() {
            found.extend(drones.iter().cloned());
        }
        if self.json {
            let uris: Vec<String> = found.iter().map(Uri::to_string).collect();
            println!(
                "{}",
                json!({
                    "found": uris,
                    "usb_error": usb.as_ref().err().map(Error::to_string),
                    "radio_error": radio.as_ref().err().map(Error::to_string),
                })
            );
        } else {
            found.iter().for_each(|uri| println!("{uri}"));
        }
        if let (Err(error), false) = (&usb, self.json) {
            eprintln!("note: {error}");
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
