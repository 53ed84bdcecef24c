//! The Crazyflie's uSD log format, version 2 (version 1 is read too), for files of any size.
//!
//! # File (little-endian)
//!
//! | field | type |
//! |---|---|
//! | magic | u8 0xBC |
//! | version | u16 |
//! | event types | u16 |
//! | per event | u16 id, name NUL, u16 variables, per variable `group.name(T)` NUL |
//! | records | u16 event id, u64 timestamp in µs (version 1: u32 in ms), values without padding |
//! | CRC-32 (ISO-HDLC) | u32 over everything before it, the file's last four bytes |
//!
//! # Reading
//!
//! [`Header::parse`] takes the beginning of a file. A [`Scanner`] then takes the rest in chunks of
//! any size and gives the records in them; its memory is bounded. It survives damage: where a
//! record cannot be right it looks for the next one that can, and counts the bytes it left out.
//! Events whose last field is [`RECORD_CRC_NAME`] prove each record by its own checksum; others are
//! judged by event ids and timestamps. Our own events are decoded by the names of their fields in the
//! header: [`transition::Decoder`](crate::transition::Decoder) and
//! [`gains_record::Decoder`](crate::gains_record::Decoder).
//!
//! # Writing
//!
//! [`mod@write`] makes headers and record prefixes; the file's checksum is [`FILE_CRC`].

mod header;
mod scan;
pub(crate) mod schema;
pub mod write;

pub use crate::value::{Type, Value};
pub use header::{Event, Header, HeaderError, Variable};
pub use scan::{Ending, Layout, LayoutError, MAX_RECORD, Record, Scanner, Summary};
pub use schema::{Field, RECORD_CRC, RECORD_CRC_NAME, SchemaError};

/// First byte of a file.
pub const MAGIC: u8 = 0xBC;
/// Version that is written.
pub const VERSION: u16 = 2;
/// Id of the official firmware's event `fixedFrequency`.
pub const FIXED_FREQUENCY_ID: u16 = 0xFFFF;
/// Checksum at the end of a file.
pub static FILE_CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

#[cfg(test)]
mod tests;
