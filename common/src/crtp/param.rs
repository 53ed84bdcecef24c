//! Port 2: parameters. The table of contents is in [`toc`](super::toc).

use super::{Builder, Malformed, Packet, Port, TooLong, end, text};
use crate::bytes::{Reader, Writer};
use crate::value::{Type, Value};

const READ: u8 = 1;
const WRITE: u8 = 2;
const MISC: u8 = 3;

/// Bit of the type byte: more is known of the parameter, namely that it is persistent.
pub const EXTENDED: u8 = 0x10;
/// Bit of the type byte: it belongs to the firmware's stable interface.
pub const CORE: u8 = 0x20;
/// Bit of the type byte: it cannot be written.
pub const READ_ONLY: u8 = 0x40;

/// The low bits of a parameter's type byte.
#[must_use]
pub const fn type_code(kind: Type) -> u8 {
    match kind {
        Type::U8 => 0x08,
        Type::U16 => 0x09,
        Type::U32 => 0x0A,
        Type::I8 => 0x00,
        Type::I16 => 0x01,
        Type::I32 => 0x02,
        Type::F16 => 0x05,
        Type::F32 => 0x06,
    }
}

/// The type of a parameter's type byte.
#[must_use]
pub fn type_of(byte: u8) -> Option<Type> {
    Type::ALL.into_iter().find(|t| type_code(*t) == byte & 0x0F)
}

/// A value whose type is in the table of contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    bytes: [u8; 8],
    length: u8,
}

impl Raw {
    /// From bytes; `None` when they are too many.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut raw = Self { bytes: [0; 8], length: u8::try_from(bytes.len()).ok()? };
        raw.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(raw)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// As a value of a type; `None` when the length is another.
    #[must_use]
    pub fn value(&self, kind: Type) -> Option<Value> {
        (self.bytes().len() == kind.size()).then(|| kind.read(self.bytes()))?
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        let mut bytes = [0; 8];
        let mut w = Writer::new(&mut bytes);
        value.write(&mut w);
        let length = w.len().and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
        Self { bytes, length }
    }
}

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The value.
    Read(u16),
    /// A new value.
    Write(u16, Raw),
    /// A new value for a parameter by its name.
    SetByName {
        /// Group.
        group: &'a str,
        /// Name in the group.
        name: &'a str,
        /// Type byte.
        kind: u8,
        /// The value.
        value: Raw,
    },
    /// Whether it is persistent (protocol versions before 11).
    ExtendedTypeOld(u16),
    /// Store its current value persistently.
    Store(u16),
    /// Default value, and the stored one if there is one.
    StoredState(u16),
    /// Clear the stored value.
    Clear(u16),
    /// Default value (protocol versions before 11).
    DefaultOld(u16),
    /// Whether it is persistent.
    ExtendedType(u16),
    /// Default value.
    Default(u16),
}

/// Reply or notification from the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To [`Request::Read`]: the value, or an error number.
    Read(u16, Result<Raw, u8>),
    /// To [`Request::Write`]: the value in force afterwards. For an unknown parameter it is the
    /// byte 2, which only the table of contents tells from a value.
    Write(u16, Raw),
    /// To [`Request::SetByName`].
    SetByName {
        /// Group.
        group: &'a str,
        /// Name in the group.
        name: &'a str,
        /// 0, or an error number.
        error: u8,
    },
    /// Without being asked: a value has changed.
    Changed(u16, Raw),
    /// To [`Request::ExtendedTypeOld`]: 1 for persistent, 2 for nothing known.
    ExtendedTypeOld(u16, u8),
    /// To [`Request::Store`]: 0, or an error number.
    Store(u16, u8),
    /// To [`Request::StoredState`]: default, and the stored value if there is one.
    StoredState(u16, Result<(Raw, Option<Raw>), u8>),
    /// To [`Request::Clear`]: 0, or an error number.
    Clear(u16, u8),
    /// To [`Request::DefaultOld`]: the value, or the byte 2 for an unknown parameter.
    DefaultOld(u16, Raw),
    /// To [`Request::ExtendedType`]: 1 for persistent.
    ExtendedType(u16, Result<u8, u8>),
    /// To [`Request::Default`].
    Default(u16, Result<Raw, u8>),
}

fn id(r: &mut Reader<'_>) -> Result<u16, Malformed> {
    r.u16().ok_or(Malformed::Length)
}

fn rest(r: &Reader<'_>) -> Result<Raw, Malformed> {
    Raw::new(r.rest()).ok_or(Malformed::Length)
}

fn byte(r: &mut Reader<'_>) -> Result<u8, Malformed> {
    r.u8().ok_or(Malformed::Length)
}

impl<'a> Request<'a> {
    /// Encodes the packet.
    pub fn encode(&self) -> Result<Packet, TooLong> {
        let misc = |command: u8, id: u16| Builder::new(Port::Param, MISC).put(&[command]).u16(id).finish();
        match *self {
            Self::Read(id) => Builder::new(Port::Param, READ).u16(id).finish(),
            Self::Write(id, value) => Builder::new(Port::Param, WRITE).u16(id).put(value.bytes()).finish(),
            Self::SetByName { group, name, kind, value } => Builder::new(Port::Param, MISC)
                .put(&[0])
                .text(group)
                .text(name)
                .put(&[kind])
                .put(value.bytes())
                .finish(),
            Self::ExtendedTypeOld(id) => misc(2, id),
            Self::Store(id) => misc(3, id),
            Self::StoredState(id) => misc(4, id),
            Self::Clear(id) => misc(5, id),
            Self::DefaultOld(id) => misc(6, id),
            Self::ExtendedType(id) => misc(7, id),
            Self::Default(id) => misc(8, id),
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Param, READ) {
            let request = Self::Read(id(&mut r)?);
            return end(&r).map(|()| request);
        }
        if let Ok(mut r) = packet.expect(Port::Param, WRITE) {
            return Ok(Self::Write(id(&mut r)?, rest(&r)?));
        }
        let mut r = packet.expect(Port::Param, MISC)?;
        let command = byte(&mut r)?;
        if command == 0 {
            let (group, name, kind) = (text(&mut r)?, text(&mut r)?, byte(&mut r)?);
            return Ok(Self::SetByName { group, name, kind, value: rest(&r)? });
        }
        let request: fn(u16) -> Self = match command {
            2 => Self::ExtendedTypeOld,
            3 => Self::Store,
            4 => Self::StoredState,
            5 => Self::Clear,
            6 => Self::DefaultOld,
            7 => Self::ExtendedType,
            8 => Self::Default,
            c => return Err(Malformed::Command(c)),
        };
        let id = id(&mut r)?;
        end(&r).map(|()| request(id))
    }
}

impl<'a> Reply<'a> {
    /// Encodes the packet.
    pub fn encode(&self) -> Result<Packet, TooLong> {
        let misc = |command: u8, id: u16| *Builder::new(Port::Param, MISC).put(&[command]).u16(id);
        match *self {
            Self::Read(id, Ok(value)) => {
                Builder::new(Port::Param, READ).u16(id).put(&[0]).put(value.bytes()).finish()
            }
            Self::Read(id, Err(error)) => Builder::new(Port::Param, READ).u16(id).put(&[error]).finish(),
            Self::Write(id, value) => Builder::new(Port::Param, WRITE).u16(id).put(value.bytes()).finish(),
            Self::SetByName { group, name, error } => {
                Builder::new(Port::Param, MISC).put(&[0]).text(group).text(name).put(&[error]).finish()
            }
            Self::Changed(id, value) => misc(1, id).put(value.bytes()).finish(),
            Self::ExtendedTypeOld(id, kind) => misc(2, id).put(&[kind]).finish(),
            Self::Store(id, error) => misc(3, id).put(&[error]).finish(),
            Self::StoredState(id, Err(error)) => misc(4, id).put(&[error]).finish(),
            Self::StoredState(id, Ok((default, stored))) => {
                let mut b = misc(4, id);
                b.put(&[u8::from(stored.is_some())]).put(default.bytes());
                if let Some(stored) = stored {
                    b.put(stored.bytes());
                }
                b.finish()
            }
            Self::Clear(id, error) => misc(5, id).put(&[error]).finish(),
            Self::DefaultOld(id, value) => misc(6, id).put(value.bytes()).finish(),
            Self::ExtendedType(id, Ok(kind)) => misc(7, id).put(&[0, kind]).finish(),
            Self::ExtendedType(id, Err(error)) => misc(7, id).put(&[error]).finish(),
            Self::Default(id, Ok(value)) => misc(8, id).put(&[0]).put(value.bytes()).finish(),
            Self::Default(id, Err(error)) => misc(8, id).put(&[error]).finish(),
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a Packet) -> Result<Self, Malformed> {
        if let Ok(mut r) = packet.expect(Port::Param, READ) {
            let id = id(&mut r)?;
            return match byte(&mut r)? {
                0 => Ok(Self::Read(id, Ok(rest(&r)?))),
                error => Ok(Self::Read(id, Err(error))),
            };
        }
        if let Ok(mut r) = packet.expect(Port::Param, WRITE) {
            return Ok(Self::Write(id(&mut r)?, rest(&r)?));
        }
        let mut r = packet.expect(Port::Param, MISC)?;
        let command = byte(&mut r)?;
        if command == 0 {
            let (group, name, error) = (text(&mut r)?, text(&mut r)?, byte(&mut r)?);
            return Ok(Self::SetByName { group, name, error });
        }
        let id = id(&mut r)?;
        Ok(match command {
            1 => Self::Changed(id, rest(&r)?),
            2 => Self::ExtendedTypeOld(id, byte(&mut r)?),
            3 => Self::Store(id, byte(&mut r)?),
            4 => match byte(&mut r)? {
                0 => Self::StoredState(id, Ok((rest(&r)?, None))),
                // Two values of one type: half of the bytes each.
                1 => {
                    let bytes = r.rest();
                    let (default, stored) =
                        bytes.split_at_checked(bytes.len() / 2).ok_or(Malformed::Length)?;
                    let raw = |b| Raw::new(b).ok_or(Malformed::Length);
                    Self::StoredState(id, Ok((raw(default)?, Some(raw(stored)?))))
                }
                error => Self::StoredState(id, Err(error)),
            },
            5 => Self::Clear(id, byte(&mut r)?),
            6 => Self::DefaultOld(id, rest(&r)?),
            7 => match byte(&mut r)? {
                0 => Self::ExtendedType(id, Ok(byte(&mut r)?)),
                error => Self::ExtendedType(id, Err(error)),
            },
            8 => match byte(&mut r)? {
                0 => Self::Default(id, Ok(rest(&r)?)),
                error => Self::Default(id, Err(error)),
            },
            c => return Err(Malformed::Command(c)),
        })
    }
}
