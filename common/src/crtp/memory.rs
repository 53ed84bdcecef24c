//! Port 4: memories of the drone: trajectories, decks, gain tables.

use super::{Builder, Malformed, Packet, Port, end};

const INFO: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// Maximum bytes one read brings.
pub const MAX_READ: usize = 24;
/// Maximum bytes one write takes.
pub const MAX_WRITE: usize = 25;

/// What a memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The configuration block of the EEPROM.
    Eeprom = 0x00,
    /// The one-wire memory of a deck.
    OneWire = 0x01,
    /// Colours of the LED ring's LEDs.
    LedRing = 0x10,
    /// A show of the LED ring: colours one after the other.
    LedTimings = 0x17,
    /// Polynomial pieces of trajectories.
    Trajectory = 0x12,
    /// The last log file on the SD card.
    MicroSd = 0x16,
    /// For applications: Steady's gain tables, the whole area of
    /// [`PAGE_COUNT`](crate::gain_table::PAGE_COUNT) pages, read only.
    App = 0x18,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Eeprom,
        Self::OneWire,
        Self::LedRing,
        Self::LedTimings,
        Self::Trajectory,
        Self::MicroSd,
        Self::App,
    ];

    /// The kind of a type byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|k| *k as u8 == byte)
    }
}

/// Bytes of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    bytes: [u8; MAX_WRITE],
    length: u8,
}

impl Data {
    /// From a slice; `None` when it is too long.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut data = Self { bytes: [0; MAX_WRITE], length: u8::try_from(bytes.len()).ok()? };
        data.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(data)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// How many memories there are.
    Count,
    /// What a memory is.
    Info(u8),
    /// Bytes of a memory.
    Read {
        /// The memory.
        id: u8,
        /// First byte.
        address: u32,
        /// How many, at most [`MAX_READ`].
        length: u8,
    },
    /// Bytes into a memory.
    Write {
        /// The memory.
        id: u8,
        /// First byte.
        address: u32,
        /// The bytes.
        data: Data,
    },
}

/// Reply of the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Count`].
    Count(u8),
    /// To [`Request::Info`].
    Info {
        /// The memory.
        id: u8,
        /// Type byte, see [`Kind`].
        kind: u8,
        /// Size, bytes.
        size: u32,
        /// Serial number of one-wire memories, else zeros.
        serial: [u8; 8],
    },
    /// To [`Request::Read`]: bytes, or an error number.
    Read {
        /// The memory.
        id: u8,
        /// First byte.
        address: u32,
        /// The bytes.
        data: Result<Data, u8>,
    },
    /// To [`Request::Write`]: 0, or an error number.
    Write {
        /// The memory.
        id: u8,
        /// First byte.
        address: u32,
        /// 0, or an error number.
        error: u8,
    },
}

impl Request {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        match *self {
            Self::Count => Builder::new(Port::Memory, INFO).put(&[1]).packet(),
            Self::Info(id) => Builder::new(Port::Memory, INFO).put(&[2, id]).packet(),
            Self::Read { id, address, length } => {
                Builder::new(Port::Memory, READ).put(&[id]).u32(address).put(&[length]).packet()
            }
            Self::Write { id, address, data } => {
                Builder::new(Port::Memory, WRITE).put(&[id]).u32(address).put(data.bytes()).packet()
            }
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let short = Malformed::Length;
        if let Ok(mut r) = packet.expect(Port::Memory, READ) {
            let (id, address) = (r.u8().ok_or(short)?, r.u32().ok_or(short)?);
            let length = r.u8().ok_or(short)?;
            end(&r)?;
            if usize::from(length) > MAX_READ {
                return Err(Malformed::Value);
            }
            return Ok(Self::Read { id, address, length });
        }
        if let Ok(mut r) = packet.expect(Port::Memory, WRITE) {
            let (id, address) = (r.u8().ok_or(short)?, r.u32().ok_or(short)?);
            return Ok(Self::Write { id, address, data: Data::new(r.rest()).ok_or(short)? });
        }
        let mut r = packet.expect(Port::Memory, INFO)?;
        match r.u8().ok_or(short)? {
            1 => Ok(Self::Count),
            2 => Ok(Self::Info(r.u8().ok_or(short)?)),
            c => Err(Malformed::Command(c)),
        }
    }
}

impl Reply {
    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        match *self {
            Self::Count(n) => Builder::new(Port::Memory, INFO).put(&[1, n]).packet(),
            Self::Info { id, kind, size, serial } => {
                Builder::new(Port::Memory, INFO).put(&[2, id, kind]).u32(size).put(&serial).packet()
            }
            Self::Read { id, address, data } => {
                let mut b = Builder::new(Port::Memory, READ);
                b.put(&[id]).u32(address);
                match data {
                    Ok(data) => b.put(&[0]).put(data.bytes()),
                    Err(error) => b.put(&[error]),
                };
                b.packet()
            }
            Self::Write { id, address, error } => {
                Builder::new(Port::Memory, WRITE).put(&[id]).u32(address).put(&[error]).packet()
            }
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let short = Malformed::Length;
        if let Ok(mut r) = packet.expect(Port::Memory, READ) {
            let (id, address) = (r.u8().ok_or(short)?, r.u32().ok_or(short)?);
            let data = match r.u8().ok_or(short)? {
                0 => Ok(Data::new(r.rest()).ok_or(short)?),
                error => Err(error),
            };
            return Ok(Self::Read { id, address, data });
        }
        if let Ok(mut r) = packet.expect(Port::Memory, WRITE) {
            let (id, address) = (r.u8().ok_or(short)?, r.u32().ok_or(short)?);
            return Ok(Self::Write { id, address, error: r.u8().ok_or(short)? });
        }
        let mut r = packet.expect(Port::Memory, INFO)?;
        match r.u8().ok_or(short)? {
            1 => Ok(Self::Count(r.u8().ok_or(short)?)),
            2 => {
                let (id, kind) = (r.u8().ok_or(short)?, r.u8().ok_or(short)?);
                let (size, serial) = (r.u32().ok_or(short)?, r.array().ok_or(short)?);
                Ok(Self::Info { id, kind, size, serial })
            }
            c => Err(Malformed::Command(c)),
        }
    }
}
