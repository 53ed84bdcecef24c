//! CRTP, the Crazyflie's radio protocol: packets, and typed contents of every port.
//!
//! Each port has a module with a `Request` of the host and a `Reply` of the drone, which encode and
//! decode themselves, so that the firmware, the PC and the emulated drone share one implementation.
//! Decoding never panics; errors are [`Malformed`].
//!
//! Angles, rates and frames are the project's (radians, right-handed) in the typed values; degrees
//! and the Crazyflie's inverted pitch exist only in the bytes.

pub mod console;
pub mod high_level;
pub mod link;
pub mod localization;
pub mod log;
pub mod memory;
pub mod param;
pub mod platform;
pub mod quaternion;
pub mod setpoint;
pub mod supervisor;
pub mod toc;

use crate::bytes::{Reader, Writer};

/// Version of the protocol spoken, as the platform port tells it.
pub const PROTOCOL_VERSION: i32 = 12;

/// Error numbers in answers.
pub mod errno {
    /// No such thing.
    pub const ENOENT: u8 = 2;
    /// Reading or writing failed.
    pub const EIO: u8 = 5;
    /// Too long.
    pub const E2BIG: u8 = 7;
    /// Unknown command.
    pub const ENOEXEC: u8 = 8;
    /// No room.
    pub const ENOMEM: u8 = 12;
    /// Not allowed.
    pub const EACCES: u8 = 13;
    /// Not now.
    pub const EBUSY: u8 = 16;
    /// Already there.
    pub const EEXIST: u8 = 17;
    /// Wrong type or value.
    pub const EINVAL: u8 = 22;
}

/// The ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Port {
    /// Text from the drone.
    Console = 0x0,
    /// Parameters.
    Param = 0x2,
    /// Roll, pitch, yaw rate and thrust.
    Commander = 0x3,
    /// Memories.
    Memory = 0x4,
    /// Log variables.
    Log = 0x5,
    /// Motion capture.
    Localization = 0x6,
    /// Set-points.
    Setpoint = 0x7,
    /// Take-off, landing, trajectories.
    HighLevel = 0x8,
    /// Arming and emergencies.
    Supervisor = 0x9,
    /// Versions.
    Platform = 0xD,
    /// Echo and null packets.
    Link = 0xF,
}

impl Port {
    /// Every port.
    pub const ALL: [Self; 11] = [
        Self::Console,
        Self::Param,
        Self::Commander,
        Self::Memory,
        Self::Log,
        Self::Localization,
        Self::Setpoint,
        Self::HighLevel,
        Self::Supervisor,
        Self::Platform,
        Self::Link,
    ];

    /// The port of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|p| *p as u8 == number)
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Another port or channel than expected.
    Port,
    /// Too short or too long for its command.
    Length,
    /// A command that does not exist, or is not supported.
    Command(u8),
    /// Text that is not UTF-8 or lacks its end.
    Text,
    /// A value outside its range.
    Value,
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Port => write!(f, "unexpected port or channel"),
            Self::Length => write!(f, "wrong length"),
            Self::Command(c) => write!(f, "unknown command {c:#04x}"),
            Self::Text => write!(f, "text without an end or not UTF-8"),
            Self::Value => write!(f, "value out of range"),
        }
    }
}

impl core::error::Error for Malformed {}

/// The contents do not fit into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "more than fits into a packet")
    }
}

impl core::error::Error for TooLong {}

/// One packet: a header byte and up to 31 bytes of data (CRTP proper uses up to 30).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    bytes: [u8; Self::MAX_BYTES],
    length: u8,
}

impl core::fmt::Debug for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// Link bits of the header, which receivers must ignore: safelink's numbers, up and down.
const LINK_BITS: u8 = UP_BIT | DOWN_BIT;
const UP_BIT: u8 = 0x08;
const DOWN_BIT: u8 = 0x04;
/// Port and channel of a null packet.
const NULL: u8 = 0xF3;

impl Packet {
    /// Maximum bytes of a packet with its header: what fits into one radio payload.
    pub const MAX_BYTES: usize = 32;
    /// Maximum data bytes in CRTP proper.
    pub const MAX_DATA: usize = 30;
    /// An empty packet, which only polls the other side.
    pub const NULL: Self = {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[0] = 0xFF;
        Self { bytes, length: 1 }
    };

    /// From its bytes, header first; `None` when there are none or too many.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let length = u8::try_from(bytes.len()).ok().filter(|n| *n > 0)?;
        let mut packet = Self { bytes: [0; Self::MAX_BYTES], length };
        packet.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(packet)
    }

    /// Data for a port and channel; `None` when they are too many.
    #[must_use]
    pub fn new(port: Port, channel: u8, data: &[u8]) -> Option<Self> {
        Builder::new(port, channel).put(data).finish().ok()
    }

    /// Its bytes, header first.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> u8 {
        let [header, ..] = self.bytes;
        header
    }

    /// The bytes after the header.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.bytes().split_first().map_or(&[], |(_, data)| data)
    }

    /// The port's number.
    #[must_use]
    pub fn port_number(&self) -> u8 {
        self.header() >> 4
    }

    /// The port, where its number is known.
    #[must_use]
    pub fn port(&self) -> Option<Port> {
        Port::from_number(self.port_number())
    }

    /// The channel, 0 to 3.
    #[must_use]
    pub fn channel(&self) -> u8 {
        self.header() & 3
    }

    /// Safelink's numbers: of this packet on its way up, and of the last one that came down.
    #[must_use]
    pub fn numbers(&self) -> (bool, bool) {
        (self.header() & UP_BIT != 0, self.header() & DOWN_BIT != 0)
    }

    /// The same packet with these numbers.
    #[must_use]
    pub fn numbered(mut self, up: bool, down: bool) -> Self {
        let [header, ..] = &mut self.bytes;
        *header = *header & !LINK_BITS | u8::from(up) << 3 | u8::from(down) << 2;
        self
    }

    /// True for packets that only poll.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.header() & NULL == NULL
    }

    /// The data when this is the port and channel, else [`Malformed::Port`].
    fn expect(&self, port: Port, channel: u8) -> Result<Reader<'_>, Malformed> {
        if self.header() & !LINK_BITS == (port as u8) << 4 | channel {
            Ok(Reader::new(self.data()))
        } else {
            Err(Malformed::Port)
        }
    }
}

/// Puts a packet together.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    bytes: [u8; Packet::MAX_BYTES],
    length: usize,
    limit: usize,
    overflowed: bool,
}

impl Builder {
    /// Starts with the header of a port and channel; up to 30 bytes of data.
    #[must_use]
    pub fn new(port: Port, channel: u8) -> Self {
        Self::with_header((port as u8) << 4 | channel & 3, 1 + Packet::MAX_DATA)
    }

    /// Starts with any header byte (for bootloader packets) and a limit on all bytes.
    pub(crate) fn with_header(header: u8, limit: usize) -> Self {
        let mut builder = Self { bytes: [0; Packet::MAX_BYTES], length: 0, limit, overflowed: false };
        builder.put(&[header]);
        builder
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.length.saturating_add(bytes.len());
        match self.bytes.get_mut(self.length..end) {
            Some(room) if end <= self.limit => {
                room.copy_from_slice(bytes);
                self.length = end;
            }
            _ => self.overflowed = true,
        }
        self
    }

    /// Appends a number.
    pub fn f32(&mut self, value: f32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Appends a number.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Appends a number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Appends text and a NUL.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.put(text.as_bytes()).put(&[0])
    }

    /// Appends a value.
    pub fn value(&mut self, value: crate::value::Value) -> &mut Self {
        let mut bytes = [0; 4];
        let mut w = Writer::new(&mut bytes);
        value.write(&mut w);
        let length = w.len().unwrap_or(0);
        self.put(bytes.get(..length).unwrap_or(&[]))
    }

    /// Room that is left, bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.length)
    }

    /// Encodes the packet.
    ///
    /// # Errors
    /// If something did not fit.
    pub fn finish(&self) -> Result<Packet, TooLong> {
        if self.overflowed { Err(TooLong) } else { Ok(self.packet()) }
    }

    /// The packet, for contents of a fixed size that always fit.
    pub(crate) fn packet(&self) -> Packet {
        Packet { bytes: self.bytes, length: u8::try_from(self.length).unwrap_or(1) }
    }
}

/// The next `N` numbers.
fn floats<const N: usize>(r: &mut Reader<'_>) -> Result<[f32; N], Malformed> {
    let mut values = [0.0; N];
    for value in &mut values {
        *value = r.f32().ok_or(Malformed::Length)?;
    }
    Ok(values)
}

/// A byte that means yes or no.
fn flag(r: &mut Reader<'_>) -> Result<bool, Malformed> {
    Ok(r.u8().ok_or(Malformed::Length)? != 0)
}

/// Text up to and without its NUL.
fn text<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let rest = r.rest();
    let end = rest.iter().position(|b| *b == 0).ok_or(Malformed::Text)?;
    let (text, after) = rest.split_at_checked(end).ok_or(Malformed::Text)?;
    *r = Reader::new(after.split_first().map_or(&[], |(_, rest)| rest));
    core::str::from_utf8(text).map_err(|_| Malformed::Text)
}

/// Fails when bytes are left over.
fn end(r: &Reader<'_>) -> Result<(), Malformed> {
    if r.rest().is_empty() { Ok(()) } else { Err(Malformed::Length) }
}

#[cfg(test)]
mod tests;
