//! Links carry packets to a drone and back.

#[cfg(feature = "dongle")]
mod dongle;
mod esb;
mod udp;
mod usb;

use std::time::Duration;

use steady_common::crtp::Packet;

use crate::error::Result;
use crate::uri::Uri;

#[cfg(feature = "dongle")]
pub use dongle::Dongle;
pub use esb::{Ack, Esb, Transmitter};
pub use udp::Udp;
pub use usb::{Cable, Usb};
#[cfg(feature = "dongle")]
pub use usb::{Socket, scan as scan_usb};

/// File of the udev rules that let the group `plugdev` use a Crazyradio, and a drone on a cable.
pub const UDEV_FILE: &str = "/etc/udev/rules.d/99-bitcraze.rules";
/// Line of that file for the Crazyradio.
pub const UDEV_RULE: &str =
    r#"SUBSYSTEM=="usb", ATTRS{idVendor}=="1915", ATTRS{idProduct}=="7777", MODE="0664", GROUP="plugdev""#;
/// Line of that file for a drone on a cable.
pub const UDEV_RULE_DRONE: &str =
    r#"SUBSYSTEM=="usb", ATTRS{idVendor}=="0483", ATTRS{idProduct}=="5740", MODE="0664", GROUP="plugdev""#;

/// Advice when access to a device is denied.
#[cfg(feature = "dongle")]
fn permission(what: &str, rule: &str) -> String {
    format!(
        "the {what} is there, but the system does not allow its use. Put this line into {UDEV_FILE} (as root):\n  \
         {rule}\nthen run\n  sudo udevadm control --reload-rules && sudo udevadm trigger\n  \
         sudo usermod -a -G plugdev $USER\nand log in again. It need not, and should not, run as root."
    )
}

/// Traffic statistics of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Packets sent, with repeats but without polls.
    pub sent: u64,
    /// Packets received, without empty ones.
    pub received: u64,
    /// Radio: acknowledged transmissions, and all transmissions; polls included.
    pub acknowledged: Option<(u64, u64)>,
    /// Radio: mean signal strength of the acknowledgements, dBm, if the dongle reports it.
    pub rssi_dbm: Option<f64>,
}

impl Traffic {
    /// Fraction of the transmissions that were acknowledged, if the link knows it.
    #[must_use]
    pub fn quality(&self) -> Option<f64> {
        self.acknowledged.filter(|(_, all)| *all > 0).map(|(good, all)| good as f64 / all as f64)
    }
}

/// One of a drone's two programs. On the radio they have different addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The firmware, at the address of the URI.
    Firmware,
    /// The bootloader, on channel 0 at 2 Mbit/s.
    Bootloader {
        /// Radio address.
        address: [u8; 5],
    },
}

/// Carries packets. It may lose, duplicate, delay and reorder them.
pub trait Link {
    /// Sends a packet. A lost packet is not an error.
    ///
    /// # Errors
    /// If the link itself is gone.
    fn send(&mut self, packet: &Packet) -> Result<()>;

    /// Waits for a packet, at most for `wait`.
    ///
    /// # Errors
    /// If the link itself is gone.
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>>;

    /// Time since the link was opened. All timeouts use it, so that a link may run in virtual time.
    fn now(&self) -> Duration;

    /// Statistics so far.
    fn traffic(&self) -> Traffic;

    /// Lets the radio processor repeat answers that were lost, until it is told otherwise. Another program
    /// cannot talk to the drone well at the same time. Links without losses of their own ignore it.
    ///
    /// # Errors
    /// If the link itself is gone.
    fn set_safelink(&mut self, _on: bool) -> Result<()> {
        Ok(())
    }

    /// False when the radio processor, and with it the bootloader, is out of its reach.
    fn has_radio_processor(&self) -> bool {
        true
    }

    /// Talks to this program from now on.
    ///
    /// # Errors
    /// If the link itself is gone.
    fn switch_to(&mut self, peer: Peer) -> Result<()>;
}

/// Opens a link.
///
/// # Errors
/// If there is no such dongle, cable or network address.
pub fn open(uri: &Uri) -> Result<Box<dyn Link>> {
    match uri {
        Uri::Udp(address) => Ok(Box::new(Udp::open(address)?)),
        #[cfg(feature = "dongle")]
        Uri::Radio(uri) => Ok(Box::new(Dongle::open(uri)?)),
        #[cfg(feature = "dongle")]
        Uri::Usb(uri) => Ok(Box::new(Socket::open(uri)?)),
        #[cfg(not(feature = "dongle"))]
        Uri::Radio(_) | Uri::Usb(_) => Err(crate::Error::Dongle(
            "this program was built without Crazyradio and USB; build it with `--features radio`".to_owned(),
        )),
    }
}
