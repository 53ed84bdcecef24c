//! Talking to a Crazyflie, from the PC.
//!
//! A [`link::Link`] carries packets: to the virtual Crazyflie over UDP, or through a Crazyradio
//! dongle. On top of it are a [`client::Client`] for the firmware's services and a
//! [`bootloader::Bootloader`] for the flash; [`tables`] and [`firmware`] put gain tables and firmware
//! on the drone with them.
//!
//! Links lose, double, delay and reorder packets. Every question here is repeated until it is
//! answered or patience ends, every answer is matched with its question, and what was written to the
//! flash is read back. Nothing a drone says makes this crate panic.
#![forbid(unsafe_code)]

mod ask;
pub mod bootloader;
pub mod client;
mod error;
pub mod firmware;
pub mod link;
pub mod scan;
pub mod tables;
pub mod toc;
mod uri;

pub use error::{Error, Result};
pub use uri::{DataRate, RadioUri, Uri};

/// Text from a drone as it may be shown: control characters would play with the terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c };
    text.chars().map(shown).collect()
}
