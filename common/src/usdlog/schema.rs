//! Finds the fields that a program knows in a file's header, by name.
//!
//! Firmware may add fields, drop optional ones and change their order: offsets and record sizes are
//! always the header's.

use super::scan::MAX_RECORD;
use super::{Header, Type};

/// Checksum of a record: CRC-16/IBM-3740 over everything before it.
pub const RECORD_CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_IBM_3740);
/// Name of the checksum's field, the last one of its event.
pub const RECORD_CRC_NAME: &str = "steady.crc16";

/// A field of one of our events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in the header.
    pub name: &'static str,
    /// Type in the record.
    pub kind: Type,
    /// Unit; empty for counts and codes.
    pub unit: &'static str,
    /// The value in logs without this field, as written in the source; `None` for a required field.
    pub default: Option<&'static str>,
}

impl Field {
    pub(crate) const fn required(name: &'static str, kind: Type) -> Self {
        Self { name, kind, unit: "", default: None }
    }
}

/// Why an event of ours cannot be decoded. Names the event and the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each variant says it")]
pub enum SchemaError {
    DuplicateEvent { event: &'static str },
    Version { event: &'static str, version: u16 },
    Size { event: &'static str, bytes: usize },
    Missing { event: &'static str, field: &'static str },
    Duplicate { event: &'static str, field: &'static str },
    Type { event: &'static str, field: &'static str, found: Type, expected: Type },
    CrcNotLast { event: &'static str },
}

impl core::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::DuplicateEvent { event } => write!(f, "two events are named `{event}`"),
            Self::Version { event, version } => {
                write!(f, "event `{event}` in a file of version {version}; it needs version 2")
            }
            Self::Size { event, bytes } => {
                write!(f, "event `{event}`: records of {bytes} bytes; at most {MAX_RECORD} are possible")
            }
            Self::Missing { event, field } => {
                write!(f, "event `{event}`: the required field `{field}` is missing")
            }
            Self::Duplicate { event, field } => write!(f, "event `{event}`: two fields are named `{field}`"),
            Self::Type { event, field, found, expected } => write!(
                f,
                "event `{event}`: field `{field}` is {}, expected {}",
                found.name(),
                expected.name()
            ),
            Self::CrcNotLast { event } => {
                write!(f, "event `{event}`: the checksum `{RECORD_CRC_NAME}` is not the last field")
            }
        }
    }
}

impl core::error::Error for SchemaError {}

/// Where the known fields of an event are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<const N: usize> {
    /// Which event, in the order of the header.
    pub(crate) event: usize,
    /// Bytes of a record's values.
    pub(crate) values_size: usize,
    /// First byte of each field in a record's values; `None` for a missing optional field.
    pub(crate) offsets: [Option<u16>; N],
}

impl<const N: usize> Located<N> {
    /// Looks for `fields`, the last of which is the checksum, in the event of this name. `None` when
    /// the file has no such event.
    pub(crate) fn find(
        header: &Header<'_>,
        event: &'static str,
        fields: &[Field; N],
    ) -> Result<Option<Self>, SchemaError> {
        let mut events = header.events().enumerate().filter(|(_, e)| e.name == event);
        let Some((index, found)) = events.next() else { return Ok(None) };
        if events.next().is_some() {
            return Err(SchemaError::DuplicateEvent { event });
        }
        let version = header.version();
        if version != 2 {
            return Err(SchemaError::Version { event, version });
        }
        let values_size = found.values_size();
        let bytes = super::write::RECORD_PREFIX_SIZE + values_size;
        if bytes > MAX_RECORD {
            return Err(SchemaError::Size { event, bytes });
        }
        let mut offsets = [None; N];
        for variable in found.variables() {
            let mut known = fields.iter().zip(&mut offsets);
            let Some((field, offset)) = known.find(|(field, _)| field.name == variable.name) else {
                continue;
            };
            if variable.kind != field.kind {
                let (field, expected) = (field.name, field.kind);
                return Err(SchemaError::Type { event, field, found: variable.kind, expected });
            }
            if offset.replace(variable.offset as u16).is_some() {
                return Err(SchemaError::Duplicate { event, field: field.name });
            }
        }
        if let Some((field, _)) =
            fields.iter().zip(&offsets).find(|(f, o)| o.is_none() && f.default.is_none())
        {
            return Err(SchemaError::Missing { event, field: field.name });
        }
        if found.variables().last().is_none_or(|v| v.name != RECORD_CRC_NAME) {
            return Err(SchemaError::CrcNotLast { event });
        }
        Ok(Some(Self { event: index, values_size, offsets }))
    }
}
