//! The Crazyradio dongle.

use std::time::{Duration, Instant};

use crazyradio::{Channel, Crazyradio, Datarate};
use steady_common::crtp::Packet;

use super::esb::{Ack, Esb, Transmitter};
use super::{Peer, UDEV_RULE, permission};
use crate::error::{Error, Result};
use crate::uri::{DataRate, RadioUri};

const MISSING: &str = "no Crazyradio was found: plug it in, and see whether `lsusb -d 1915:7777` shows it; \
the virtual Crazyflie needs none: --uri udp://127.0.0.1:19850";

/// A dongle.
pub struct Dongle {
    radio: Crazyradio,
    uri: RadioUri,
    opened: Instant,
}

fn explain(error: &crazyradio::Error) -> Error {
    let text = match error {
        crazyradio::Error::NotFound => MISSING.to_owned(),
        error => {
            let text = error.to_string();
            if text.contains("Access") {
                permission("Crazyradio", UDEV_RULE)
            } else if text.contains("Busy") {
                "the Crazyradio is in use by another program: close it (cfclient, another steady)".to_owned()
            } else if text.contains("NoDevice") {
                "the Crazyradio was unplugged: plug it in and try again".to_owned()
            } else {
                format!("the Crazyradio fails ({text}): unplug it, plug it in and try again")
            }
        }
    };
    Error::Dongle(text)
}

fn rate_of(rate: DataRate) -> Datarate {
    match rate {
        DataRate::K250 => Datarate::Dr250K,
        DataRate::M1 => Datarate::Dr1M,
        DataRate::M2 => Datarate::Dr2M,
    }
}

fn channel_of(number: u8) -> Result<Channel> {
    Channel::from_number(number)
        .map_err(|_| Error::Dongle(format!("the Crazyradio has no channel {number}: use 0 to 100")))
}

impl Dongle {
    /// Opens the dongle and tunes it.
    ///
    /// # Errors
    /// If there is none, or it may not be used; the text says what to do.
    pub fn open(uri: &RadioUri) -> Result<Esb<Self>> {
        let radio = Crazyradio::open_nth(uri.dongle).map_err(|e| explain(&e))?;
        Esb::new(Self { radio, uri: *uri, opened: Instant::now() })
    }

    /// Channels and rates on which a drone acknowledges at this address.
    ///
    /// # Errors
    /// If the dongle fails.
    pub fn scan(dongle: usize, address: [u8; 5]) -> Result<Vec<RadioUri>> {
        let mut radio = Crazyradio::open_nth(dongle).map_err(|e| explain(&e))?;
        radio.set_address(&address).map_err(|e| explain(&e))?;
        let (first, last) = (channel_of(0)?, channel_of(100)?);
        let mut found = Vec::new();
        for rate in DataRate::ALL {
            // Newer dongles do not support 250 kbit/s and report an error.
            if radio.set_datarate(rate_of(rate)).is_err() {
                continue;
            }
            for channel in radio.scan_channels(first, last, &[0xFF]).map_err(|e| explain(&e))? {
                found.push(RadioUri { dongle, channel: channel.into(), rate, address });
            }
        }
        Ok(found)
    }
}

impl Transmitter for Dongle {
    fn transmit(&mut self, packet: &Packet) -> Result<Option<Ack>> {
        let mut answer = [0; 64];
        let ack = self.radio.send_packet(packet.bytes(), &mut answer).map_err(|e| explain(&e))?;
        let packet = answer.get(..ack.length).and_then(Packet::from_bytes);
        Ok(ack.received.then(|| Ack { packet, rssi_dbm: ack.rssi_dbm.map(f64::from) }))
    }

    fn tune(&mut self, peer: Peer) -> Result<()> {
        let (channel, rate, address) = match peer {
            Peer::Firmware => (self.uri.channel, self.uri.rate, self.uri.address),
            Peer::Bootloader { address } => (0, DataRate::M2, address),
        };
        let channel = channel_of(channel)?;
        self.radio
            .set_channel(channel)
            .and_then(|()| self.radio.set_datarate(rate_of(rate)))
            .and_then(|()| self.radio.set_address(&address))
            .map_err(|e| explain(&e))
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usb_errors_end_in_what_to_do() {
        let usb = |error| explain(&crazyradio::Error::UsbError(error));
        for (error, words) in [
            (usb(rusb::Error::Access), &["99-bitcraze.rules", "1915", "7777", "udevadm", "plugdev"][..]),
            (usb(rusb::Error::Busy), &["another program"]),
            (usb(rusb::Error::NoDevice), &["plug it in"]),
            (usb(rusb::Error::Pipe), &["Pipe", "plug it in"]),
            (explain(&crazyradio::Error::NotFound), &["lsusb -d 1915:7777", "udp://127.0.0.1:19850"]),
        ] {
            assert_eq!(error.exit_code(), 3);
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
