//! Addresses of drones.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Data rate of the radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataRate {
    /// 250 kbit/s.
    K250,
    /// 1 Mbit/s.
    M1,
    /// 2 Mbit/s.
    M2,
}

impl DataRate {
    /// Every rate.
    pub const ALL: [Self; 3] = [Self::K250, Self::M1, Self::M2];

    /// Name in URIs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::K250 => "250K",
            Self::M1 => "1M",
            Self::M2 => "2M",
        }
    }
}

/// Address of a drone on the radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioUri {
    /// Which dongle, from 0.
    pub dongle: usize,
    /// Channel, 0 to 125.
    pub channel: u8,
    /// Speed.
    pub rate: DataRate,
    /// Address, most significant byte first.
    pub address: [u8; 5],
}

/// Address of a drone on a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsbUri {
    /// Which of those that are plugged in, from 0.
    Number(usize),
    /// The drone with this serial number: 24 hexadecimal digits.
    Serial(String),
}

impl UsbUri {
    /// True when this means the drone with that place in the list and that serial number.
    #[must_use]
    pub fn matches(&self, number: usize, serial: &str) -> bool {
        match self {
            Self::Number(wanted) => *wanted == number,
            Self::Serial(wanted) => wanted.eq_ignore_ascii_case(serial),
        }
    }
}

impl fmt::Display for UsbUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Serial(serial) => write!(f, "{serial}"),
        }
    }
}

/// Address of a drone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// Through a Crazyradio.
    Radio(RadioUri),
    /// On a cable.
    Usb(UsbUri),
    /// On the network: host and port.
    Udp(String),
}

impl Uri {
    /// Default address of a drone.
    pub const DEFAULT: Self =
        Self::Radio(RadioUri { dongle: 0, channel: 80, rate: DataRate::M2, address: [0xE7; 5] });
    /// Default address of a virtual drone.
    pub const VIRTUAL: &'static str = "udp://127.0.0.1:19850";
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Usb(uri) => write!(f, "usb://{uri}"),
            Self::Radio(RadioUri { dongle, channel, rate, address }) => {
                write!(f, "radio://{dongle}/{channel}/{}/", rate.name())?;
                address.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::Uri { uri: text.to_owned(), why: why.to_owned() };
        // Options of other clients follow a question mark; they are ignored.
        let (place, _options) = text.split_once('?').unwrap_or((text, ""));
        if let Some(address) = place.strip_prefix("udp://") {
            let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
            if host.is_empty() || port.parse::<u16>().is_err() {
                return Err(bad("HOST:PORT is expected after udp://"));
            }
            return Ok(Self::Udp(address.to_owned()));
        }
        if let Some(drone) = place.strip_prefix("usb://") {
            if drone.len() == SERIAL_DIGITS && drone.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Ok(Self::Usb(UsbUri::Serial(drone.to_owned())));
            }
            let number = drone.parse::<u8>().map_err(|_| {
                bad("after usb:// a number from 0 is expected, or a serial number of 24 hexadecimal digits")
            })?;
            return Ok(Self::Usb(UsbUri::Number(number.into())));
        }
        let Some(rest) = place.strip_prefix("radio://") else {
            return Err(bad("it begins with none of radio://, usb:// and udp://"));
        };
        let mut parts = rest.split('/').filter(|part| !part.is_empty());
        let mut uri = RadioUri { dongle: 0, channel: 80, rate: DataRate::M2, address: [0xE7; 5] };
        if let Some(dongle) = parts.next() {
            uri.dongle = dongle.parse().map_err(|_| bad("the dongle is a number from 0"))?;
        }
        if let Some(channel) = parts.next() {
            uri.channel =
                channel.parse().ok().filter(|c| *c <= 125).ok_or_else(|| bad("channels are 0 to 125"))?;
        }
        if let Some(rate) = parts.next() {
            let known = DataRate::ALL.into_iter().find(|r| r.name() == rate);
            uri.rate = known.ok_or_else(|| bad("rates are 250K, 1M and 2M"))?;
        }
        if let Some(address) = parts.next() {
            uri.address =
                parse_address(address).ok_or_else(|| bad("an address has ten hexadecimal digits"))?;
        }
        if parts.next().is_some() {
            return Err(bad("there is something behind the address"));
        }
        Ok(Self::Radio(uri))
    }
}

/// Digits of a drone's serial number.
const SERIAL_DIGITS: usize = 24;

fn parse_address(text: &str) -> Option<[u8; 5]> {
    if text.len() != 10 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(text, 16).ok()?;
    let [_, _, _, address @ ..] = number.to_be_bytes();
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        for text in [
            "radio://0/80/2M/E7E7E7E7E7",
            "radio://1/5/250K/0123456789",
            "udp://127.0.0.1:19850",
            "usb://0",
            "usb://2",
            "usb://001A00323333510C30353935",
        ] {
            assert_eq!(text.parse::<Uri>().unwrap().to_string(), text);
        }
        assert_eq!("radio://0/80/2M".parse::<Uri>().unwrap(), Uri::DEFAULT);
        assert_eq!("radio://0/80/2M/E7E7E7E7E7?safelink=0".parse::<Uri>().unwrap(), Uri::DEFAULT);
    }

    #[test]
    fn a_drone_on_a_cable_is_meant_by_place_or_serial_number() {
        let Ok(Uri::Usb(second)) = "usb://1".parse() else { panic!() };
        assert!(second.matches(1, "AB") && !second.matches(0, "AB"));
        let Ok(Uri::Usb(by_serial)) = "usb://001a00323333510c30353935".parse() else { panic!() };
        assert!(by_serial.matches(7, "001A00323333510C30353935"));
        assert!(!by_serial.matches(7, "001A00323333510C30353936"));
    }

    #[test]
    fn nonsense_is_named() {
        for (text, why) in [
            ("", "begins with none"),
            ("tcp://0", "begins with none"),
            ("usb://", "a number from 0"),
            ("usb://-1", "a number from 0"),
            ("usb://001A00323333510C3035393G", "24 hexadecimal"),
            ("udp://127.0.0.1", "port is missing"),
            ("udp://:5", "HOST:PORT"),
            ("udp://a:99999", "HOST:PORT"),
            ("radio://x", "dongle"),
            ("radio://0/126/2M", "0 to 125"),
            ("radio://0/80/3M", "rates are"),
            ("radio://0/80/2M/E7", "ten hexadecimal"),
            ("radio://0/80/2M/E7E7E7E7E7/x", "behind the address"),
        ] {
            let error = text.parse::<Uri>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
