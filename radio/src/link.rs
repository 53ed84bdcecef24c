//! Links: what carries packets to a drone and back.

#[cfg(feature = "dongle")]
mod dongle;
mod udp;

use std::time::Duration;

use steady_common::crtp::Packet;

use crate::error::Result;
use crate::uri::Uri;

#[cfg(feature = "dongle")]
pub use dongle::Dongle;
pub use udp::Udp;

/// The file of the rule with which Linux lets users of the group `plugdev` use a Crazyradio.
pub const UDEV_FILE: &str = "/etc/udev/rules.d/99-bitcraze.rules";
/// The rule.
pub const UDEV_RULE: &str =
    r#"SUBSYSTEM=="usb", ATTRS{idVendor}=="1915", ATTRS{idProduct}=="7777", MODE="0664", GROUP="plugdev""#;

/// What went over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Packets with contents that were sent, repetitions included.
    pub sent: u64,
    /// Packets with contents that came back.
    pub received: u64,
    /// Radio: transmissions that were acknowledged, of how many; polls included.
    pub acknowledged: Option<(u64, u64)>,
    /// Radio: mean strength of the acknowledgements, dBm, where the dongle tells.
    pub rssi_dbm: Option<f64>,
}

impl Traffic {
    /// Part of the transmissions that were acknowledged, where the link knows.
    #[must_use]
    pub fn quality(&self) -> Option<f64> {
        self.acknowledged.filter(|(_, all)| *all > 0).map(|(good, all)| good as f64 / all as f64)
    }
}

/// Which of a drone's two programs is meant; on the air they have different addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The firmware, at the address of the URI.
    Firmware,
    /// The bootloader, on channel 0 at 2 Mbit/s.
    Bootloader {
        /// Radio address.
        address: [u8; 5],
    },
}

/// Carries packets. It may lose, double, delay and reorder them.
pub trait Link {
    /// Sends a packet. That it was lost is no error.
    ///
    /// # Errors
    /// When the link itself is gone.
    fn send(&mut self, packet: &Packet) -> Result<()>;

    /// Waits for a packet, at most so long.
    ///
    /// # Errors
    /// When the link itself is gone.
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>>;

    /// Time since the link was opened. All waiting is measured by it, so that a link may live in
    /// virtual time.
    fn now(&self) -> Duration;

    /// What went over the link so far.
    fn traffic(&self) -> Traffic;

    /// Talks to the other program from now on.
    ///
    /// # Errors
    /// When the link itself is gone.
    fn aim(&mut self, aim: Aim) -> Result<()>;
}

/// Opens a link.
///
/// # Errors
/// When there is no such dongle or network address.
pub fn open(uri: &Uri) -> Result<Box<dyn Link>> {
    match uri {
        Uri::Udp(address) => Ok(Box::new(Udp::open(address)?)),
        #[cfg(feature = "dongle")]
        Uri::Radio(uri) => Ok(Box::new(Dongle::open(uri)?)),
        #[cfg(not(feature = "dongle"))]
        Uri::Radio(_) => Err(crate::Error::Dongle(
            "this program was built without the Crazyradio; build it with `--features radio`".to_owned(),
        )),
    }
}
