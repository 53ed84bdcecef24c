//! Port 5: log variables, in blocks that the drone sends at a period. The table of contents is in
//! [`toc`](super::toc).

use super::{Builder, Malformed, Packet, Port, TooLong};
use crate::value::Type;

const CONTROL: u8 = 1;
const DATA: u8 = 2;

/// Blocks a drone has.
pub const MAX_BLOCKS: u8 = 16;
/// Variables a drone logs in all blocks together.
pub const MAX_VARIABLES: u8 = 128;
/// Variables one create or append request can carry.
pub const MAX_PER_REQUEST: usize = 9;
/// Maximum bytes of values in one block.
pub const MAX_PAYLOAD: usize = 26;

/// The type byte of a log variable.
#[must_use]
pub const fn type_code(kind: Type) -> u8 {
    match kind {
        Type::U8 => 1,
        Type::U16 => 2,
        Type::U32 => 3,
        Type::I8 => 4,
        Type::I16 => 5,
        Type::I32 => 6,
        Type::F32 => 7,
        Type::F16 => 8,
    }
}

/// The type of a type byte; its high bits tell how the variable is stored and are ignored.
#[must_use]
pub fn type_of(byte: u8) -> Option<Type> {
    Type::ALL.into_iter().find(|t| type_code(*t) == byte & 0x0F)
}

/// A variable of a block: the type it is sent as, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Type byte as sent: the low half is the type to send.
    pub kind: u8,
    /// Number in the table of contents.
    pub id: u16,
}

/// Variables of a create or append request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    items: [Option<Variable>; MAX_PER_REQUEST],
}

impl Variables {
    /// From a list; `None` when it is too long.
    #[must_use]
    pub fn new(list: &[Variable]) -> Option<Self> {
        let mut items = [None; MAX_PER_REQUEST];
        for (n, variable) in list.iter().enumerate() {
            *items.get_mut(n)? = Some(*variable);
        }
        Some(Self { items })
    }

    /// The variables.
    pub fn iter(&self) -> impl Iterator<Item = Variable> + '_ {
        self.items.iter().flatten().copied()
    }
}

/// Request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new block.
    Create(u8, Variables),
    /// More variables for a block.
    Append(u8, Variables),
    /// Delete a block.
    Delete(u8),
    /// Send a block from now on, every so many ms; 0 sends it once.
    Start {
        /// The block.
        block: u8,
        /// Period, ms.
        period_ms: u16,
        /// The older command, whose period counts in 10 ms.
        old: bool,
    },
    /// Stop sending a block.
    Stop(u8),
    /// Delete all blocks.
    Reset,
}

/// Reply or data from the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To a request: its command byte, the block, 0 or an error number.
    Control {
        /// The request's command byte.
        command: u8,
        /// The block.
        block: u8,
        /// 0, or an error number.
        error: u8,
    },
    /// Values of a block.
    Data {
        /// The block.
        block: u8,
        /// Time since boot, ms, 24 bits.
        time_ms: u32,
        /// Values in the order of creation.
        values: &'a [u8],
    },
}

impl Request {
    /// The command byte.
    #[must_use]
    pub const fn command(&self) -> u8 {
        match self {
            Self::Delete(_) => 2,
            Self::Start { old: true, .. } => 3,
            Self::Stop(_) => 4,
            Self::Reset => 5,
            Self::Create(..) => 6,
            Self::Append(..) => 7,
            Self::Start { old: false, .. } => 8,
        }
    }

    /// Encodes the packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let mut b = Builder::new(Port::Log, CONTROL);
        b.put(&[self.command()]);
        match *self {
            Self::Create(block, variables) | Self::Append(block, variables) => {
                b.put(&[block]);
                for variable in variables.iter() {
                    b.put(&[variable.kind]).u16(variable.id);
                }
            }
            Self::Delete(block) | Self::Stop(block) => {
                b.put(&[block]);
            }
            Self::Start { block, period_ms, old: false } => {
                b.put(&[block]).u16(period_ms);
            }
            Self::Start { block, period_ms, old: true } => {
                b.put(&[block, u8::try_from(period_ms / 10).unwrap_or(u8::MAX)]);
            }
            Self::Reset => {}
        }
        b.packet()
    }

    /// Decodes a packet. A stray byte after the last variable, which a client sends, is ignored.
    pub fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let mut r = packet.expect(Port::Log, CONTROL)?;
        let short = Malformed::Length;
        let command = r.u8().ok_or(short)?;
        if command == 5 {
            return Ok(Self::Reset);
        }
        let block = r.u8().ok_or(short)?;
        match command {
            2 => Ok(Self::Delete(block)),
            3 => {
                let period_ms = 10 * u16::from(r.u8().ok_or(short)?);
                Ok(Self::Start { block, period_ms, old: true })
            }
            4 => Ok(Self::Stop(block)),
            6 | 7 => {
                let mut items = [None; MAX_PER_REQUEST];
                for item in &mut items {
                    let (Some(kind), Some(id)) = (r.u8(), r.u16()) else { break };
                    *item = Some(Variable { kind, id });
                }
                let variables = Variables { items };
                Ok(if command == 6 { Self::Create(block, variables) } else { Self::Append(block, variables) })
            }
            8 => Ok(Self::Start { block, period_ms: r.u16().ok_or(short)?, old: false }),
            c => Err(Malformed::Command(c)),
        }
    }
}

impl<'a> Reply<'a> {
    /// Encodes the packet.
    pub fn encode(&self) -> Result<Packet, TooLong> {
        match *self {
            Self::Control { command, block, error } => {
                Builder::new(Port::Log, CONTROL).put(&[command, block, error]).finish()
            }
            Self::Data { block, time_ms, values } => {
                let [a, b, c, _] = time_ms.to_le_bytes();
                Builder::new(Port::Log, DATA).put(&[block, a, b, c]).put(values).finish()
            }
        }
    }

    /// Decodes a packet.
    pub fn decode(packet: &'a Packet) -> Result<Self, Malformed> {
        let short = Malformed::Length;
        if let Ok(mut r) = packet.expect(Port::Log, CONTROL) {
            let [command, block, error] = r.array().ok_or(short)?;
            return Ok(Self::Control { command, block, error });
        }
        let mut r = packet.expect(Port::Log, DATA)?;
        let [block, a, b, c] = r.array().ok_or(short)?;
        Ok(Self::Data { block, time_ms: u32::from_le_bytes([a, b, c, 0]), values: r.rest() })
    }
}
