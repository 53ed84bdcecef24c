//! The header: which events a file has, and which variables each of them has.

use super::{MAGIC, Type};
use crate::bytes::Reader;

/// Why the beginning of a file is not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The bytes end within the header: more are needed, or the file is cut off.
    Incomplete,
    /// The first byte is not 0xBC: not a uSD log.
    Magic(u8),
    /// A version other than 1 and 2.
    Version(u16),
    /// A name that is not UTF-8, at this offset.
    Text(usize),
    /// A variable without its type in brackets, or with an unknown one, at this offset.
    Variable(usize),
}

impl core::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Incomplete => write!(f, "the file ends within its header"),
            Self::Magic(m) => {
                write!(f, "byte 0 is {m:#04x}, a uSD log begins with {MAGIC:#04x}: not a uSD log")
            }
            Self::Version(v) => write!(f, "version {v} at offset 1; this program reads 1 and 2"),
            Self::Text(at) => write!(f, "the name at offset {at} is not UTF-8"),
            Self::Variable(at) => write!(f, "the variable at offset {at} has no known type in brackets"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// A checked header, within the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    version: u16,
    event_count: u16,
    /// From the first event's id to the end of the header.
    events: &'a [u8],
    length: usize,
}

/// One event of a header.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Id in records.
    pub id: u16,
    /// Name.
    pub name: &'a str,
    variable_count: u16,
    variables: &'a [u8],
}

/// One variable of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Name without its type.
    pub name: &'a str,
    /// Type.
    pub kind: Type,
    /// First byte in a record's values.
    pub offset: usize,
}

/// Text up to its NUL; the offset is for the message.
fn text<'a>(r: &mut Reader<'a>, offset: usize) -> Result<&'a str, HeaderError> {
    let rest = r.rest();
    let end = rest.iter().position(|b| *b == 0).ok_or(HeaderError::Incomplete)?;
    let (name, after) = rest.split_at_checked(end).ok_or(HeaderError::Incomplete)?;
    *r = Reader::new(after.split_first().map_or(&[], |(_, after)| after));
    core::str::from_utf8(name).map_err(|_| HeaderError::Text(offset))
}

/// A name and the type that follows it in brackets.
fn split_type(text: &str) -> Option<(&str, Type)> {
    let (name, kind) = text.strip_suffix(')')?.rsplit_once('(')?;
    let [letter] = *kind.as_bytes() else { return None };
    Some((name, Type::from_letter(letter)?))
}

impl<'a> Header<'a> {
    /// Reads a header from the beginning of a file, which may go on after it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let short = HeaderError::Incomplete;
        let mut r = Reader::new(bytes);
        let magic = r.u8().ok_or(short)?;
        if magic != MAGIC {
            return Err(HeaderError::Magic(magic));
        }
        let version = r.u16().ok_or(short)?;
        if !matches!(version, 1 | 2) {
            return Err(HeaderError::Version(version));
        }
        let event_count = r.u16().ok_or(short)?;
        let events = r.rest();
        let at = |r: &Reader<'_>| bytes.len() - r.rest().len();
        for _ in 0..event_count {
            r.u16().ok_or(short)?;
            let offset = at(&r);
            text(&mut r, offset)?;
            for _ in 0..r.u16().ok_or(short)? {
                let offset = at(&r);
                split_type(text(&mut r, offset)?).ok_or(HeaderError::Variable(offset))?;
            }
        }
        Ok(Self { version, event_count, events, length: at(&r) })
    }

    /// Version of the format.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Length in bytes: where the first record begins.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The events in the order of the file.
    pub fn events(&self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        let mut r = Reader::new(self.events);
        // Everything was checked when the header was read; an error here ends the iteration.
        (0..self.event_count).map_while(move |_| {
            let id = r.u16()?;
            let name = text(&mut r, 0).ok()?;
            let variable_count = r.u16()?;
            let variables = r.rest();
            for _ in 0..variable_count {
                text(&mut r, 0).ok()?;
            }
            Some(Event { id, name, variable_count, variables })
        })
    }
}

impl<'a> Event<'a> {
    /// The variables in the order of the record.
    pub fn variables(&self) -> impl Iterator<Item = Variable<'a>> + use<'a> {
        let mut r = Reader::new(self.variables);
        let mut offset = 0;
        (0..self.variable_count).map_while(move |_| {
            let (name, kind) = split_type(text(&mut r, 0).ok()?)?;
            let variable = Variable { name, kind, offset };
            offset += kind.size();
            Some(variable)
        })
    }

    /// Bytes of a record's values.
    #[must_use]
    pub fn values_size(&self) -> usize {
        self.variables().map(|v| v.kind.size()).sum()
    }
}
