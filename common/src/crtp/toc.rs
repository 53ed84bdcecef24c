//! Tables of contents (version 2), the same on the parameter and the log port, channel 0.

use super::{Builder, Malformed, Packet, Port, TooLong, end, text};
use crate::bytes::Reader;

/// Channel of the table of contents on both ports.
pub const CHANNEL: u8 = 0;
const ITEM: u8 = 2;
const INFO: u8 = 3;
/// Maximum bytes of group and name with their two NULs.
pub const MAX_NAMES: usize = 26;

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// How many items there are.
    Info,
    /// One item.
    Item(u16),
}

/// How many items a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Number of items.
    pub count: u16,
    /// Changes whenever an item does: clients keep tables by it.
    pub crc: u32,
}

/// One item of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its number.
    pub id: u16,
    /// Type byte; what it means depends on the port.
    pub kind: u8,
    /// Group.
    pub group: &'a str,
    /// Name in the group.
    pub name: &'a str,
}

/// Reply of the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To [`Request::Info`].
    Info(Info),
    /// To [`Request::Item`].
    Item(Item<'a>),
    /// To [`Request::Item`] beyond the table's end.
    NoItem,
}

impl Request {
    /// The packet, for the parameter or the log port.
    #[must_use]
    pub fn encode(&self, port: Port) -> Packet {
        let mut b = Builder::new(port, CHANNEL);
        match *self {
            Self::Info => b.put(&[INFO]),
            Self::Item(id) => b.put(&[ITEM]).u16(id),
        };
        b.packet()
    }

    /// Decodes a packet of the parameter or the log port.
    pub fn decode(packet: &Packet, port: Port) -> Result<Self, Malformed> {
        let mut r = packet.expect(port, CHANNEL)?;
        match r.u8().ok_or(Malformed::Length)? {
            INFO => Ok(Self::Info),
            ITEM => Ok(Self::Item(r.u16().ok_or(Malformed::Length)?)),
            c => Err(Malformed::Command(c)),
        }
    }
}

impl<'a> Reply<'a> {
    /// The packet; the log port's info has two more numbers, its limits.
    pub fn encode(&self, port: Port) -> Result<Packet, TooLong> {
        let mut b = Builder::new(port, CHANNEL);
        match *self {
            Self::Info(Info { count, crc }) => {
                b.put(&[INFO]).u16(count).u32(crc);
                if port == Port::Log {
                    b.put(&[super::log::MAX_BLOCKS, super::log::MAX_VARIABLES]);
                }
            }
            Self::Item(Item { id, kind, group, name }) => {
                b.put(&[ITEM]).u16(id).put(&[kind]).text(group).text(name);
            }
            Self::NoItem => {
                b.put(&[ITEM]);
            }
        }
        b.finish()
    }

    /// Decodes a packet of the parameter or the log port.
    pub fn decode(packet: &'a Packet, port: Port) -> Result<Self, Malformed> {
        let mut r = packet.expect(port, CHANNEL)?;
        let short = Malformed::Length;
        match r.u8().ok_or(short)? {
            INFO => Ok(Self::Info(Info { count: r.u16().ok_or(short)?, crc: r.u32().ok_or(short)? })),
            ITEM if r.rest().is_empty() => Ok(Self::NoItem),
            ITEM => item(&mut r).map(Self::Item),
            c => Err(Malformed::Command(c)),
        }
    }
}

fn item<'a>(r: &mut Reader<'a>) -> Result<Item<'a>, Malformed> {
    let (id, kind) = (r.u16().ok_or(Malformed::Length)?, r.u8().ok_or(Malformed::Length)?);
    let (group, name) = (text(r)?, text(r)?);
    end(r)?;
    Ok(Item { id, kind, group, name })
}

/// The checksum of a table, as the official firmware chains it: over every item's type and name, and
/// over the begin and end of every group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TocCrc(pub u32);

impl TocCrc {
    /// Type byte of a group's beginning.
    pub const GROUP_START: u8 = 0x81;
    /// Type byte of a group's end.
    pub const GROUP_STOP: u8 = 0x80;

    /// With one more entry.
    #[must_use]
    pub fn with(self, kind: u8, name: &str) -> Self {
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
        let mut digest = crc.digest();
        digest.update(&self.0.to_le_bytes());
        digest.update(&[kind]);
        digest.update(name.as_bytes());
        Self(digest.finalize())
    }
}
