//! Radio link through a Crazyradio dongle.
//!
//! The dongle sends, the drone answers with the acknowledgement; so there is one thread and no queue
//! but the answers that came while sending. Safelink stays off: every question is repeated until it
//! is answered anyway, and the bootloader does not know it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crazyradio::{Channel, Crazyradio, Datarate};
use steady_common::crtp::Packet;

use super::{Link, Peer, Traffic, UDEV_FILE, UDEV_RULE};
use crate::error::{Error, Result};
use crate::uri::{DataRate, RadioUri};

/// How often a packet is sent before it is taken for lost; each time the dongle itself tries four times.
const TRIES: usize = 10;
/// Empty answers in a row after which polling slows down.
const EMPTY_POLLS: u32 = 10;
/// Pause between polls then.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// Advice when access to the dongle is denied.
fn permission() -> String {
    format!(
        "the Crazyradio is there, but the system does not allow its use. Put this line into {UDEV_FILE} (as root):\n  \
         {UDEV_RULE}\nthen run\n  sudo udevadm control --reload-rules && sudo udevadm trigger\n  \
         sudo usermod -a -G plugdev $USER\nand log in again. It need not, and should not, run as root."
    )
}

const MISSING: &str = "no Crazyradio was found: plug it in, and see whether `lsusb -d 1915:7777` shows it; \
the virtual Crazyflie needs none: --uri udp://127.0.0.1:19850";

/// A link through a dongle.
pub struct Dongle {
    radio: Crazyradio,
    uri: RadioUri,
    answers: VecDeque<Packet>,
    empty: u32,
    opened: Instant,
    traffic: Traffic,
    rssi: (f64, u64),
}

fn explain(error: &crazyradio::Error) -> Error {
    let text = match error {
        crazyradio::Error::NotFound => MISSING.to_owned(),
        error => {
            let text = error.to_string();
            if text.contains("Access") {
                permission()
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
    pub fn open(uri: &RadioUri) -> Result<Self> {
        let radio = Crazyradio::open_nth(uri.dongle).map_err(|e| explain(&e))?;
        let mut link = Self {
            radio,
            uri: *uri,
            answers: VecDeque::new(),
            empty: 0,
            opened: Instant::now(),
            traffic: Traffic { acknowledged: Some((0, 0)), ..Traffic::default() },
            rssi: (0.0, 0),
        };
        link.switch_to(Peer::Firmware)?;
        Ok(link)
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

    /// One transmission; true when it was acknowledged.
    fn exchange(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut answer = [0; 64];
        let ack = self.radio.send_packet(bytes, &mut answer).map_err(|e| explain(&e))?;
        if let Some((good, all)) = &mut self.traffic.acknowledged {
            *all += 1;
            *good += u64::from(ack.received);
        }
        if !ack.received {
            return Ok(false);
        }
        if let Some(rssi) = ack.rssi_dbm {
            self.rssi = (self.rssi.0 + f64::from(rssi), self.rssi.1 + 1);
            self.traffic.rssi_dbm = Some(self.rssi.0 / self.rssi.1 as f64);
        }
        // A lone header is an echoed poll.
        match answer.get(..ack.length).and_then(Packet::from_bytes) {
            Some(packet) if ack.length > 1 => {
                self.empty = 0;
                self.traffic.received += 1;
                self.answers.push_back(packet);
            }
            _ => self.empty = self.empty.saturating_add(1),
        }
        Ok(true)
    }
}

impl Link for Dongle {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        self.traffic.sent += 1;
        self.empty = 0;
        for _ in 0..TRIES {
            if self.exchange(packet.bytes())? {
                break;
            }
        }
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let until = Instant::now() + wait;
        loop {
            if let Some(packet) = self.answers.pop_front() {
                return Ok(Some(packet));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if self.empty > EMPTY_POLLS {
                std::thread::sleep(left.min(IDLE_POLL));
            }
            self.exchange(Packet::NULL.bytes())?;
        }
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        let (channel, rate, address) = match peer {
            Peer::Firmware => (self.uri.channel, self.uri.rate, self.uri.address),
            Peer::Bootloader { address } => (0, DataRate::M2, address),
        };
        self.answers.clear();
        let channel = channel_of(channel)?;
        self.radio
            .set_channel(channel)
            .and_then(|()| self.radio.set_datarate(rate_of(rate)))
            .and_then(|()| self.radio.set_address(&address))
            .map_err(|e| explain(&e))
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
