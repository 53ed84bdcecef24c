//! Talks to a Crazyflie from the PC.
//!
//! A [`link::Link`] carries packets: to the virtual Crazyflie over UDP, through a Crazyradio
//! dongle, or by a drone's own cable. On top of it are a [`client::Client`] for the firmware's services and a
//! [`bootloader::Bootloader`] for the flash; [`tables`] and [`firmware`] put gain tables and firmware
//! on the drone with them.
//!
//! Links lose, duplicate, delay and reorder packets. Every request is repeated until it is answered or
//! times out, every reply is matched with its request, and written flash is read back. No packet makes
//! this crate panic.
#![forbid(unsafe_code)]

mod ask;
pub mod bootloader;
pub mod client;
mod error;
pub mod firmware;
pub mod link;
pub mod motors;
pub mod scan;
pub mod tables;
pub mod toc;
mod uri;

pub use error::{Error, Result};
pub use uri::{DataRate, RadioUri, Uri, UsbUri};

/// Text from a drone without control characters, safe for a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c };
    text.chars().map(shown).collect()
}
