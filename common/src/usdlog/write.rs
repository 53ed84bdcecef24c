//! Making headers and records.

use super::{MAGIC, Type, VERSION};
use crate::transition;

/// Where bytes of a file go, piece by piece.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl<F: FnMut(&[u8])> Sink for F {
    fn put(&mut self, bytes: &[u8]) {
        self(bytes);
    }
}

/// The beginning of a file with so many events.
pub fn begin(sink: &mut impl Sink, events: u16) {
    sink.put(&[MAGIC]);
    sink.put(&VERSION.to_le_bytes());
    sink.put(&events.to_le_bytes());
}

/// The beginning of an event with so many variables.
pub fn event(sink: &mut impl Sink, id: u16, name: &str, variables: u16) {
    sink.put(&id.to_le_bytes());
    sink.put(name.as_bytes());
    sink.put(&[0]);
    sink.put(&variables.to_le_bytes());
}

/// A variable; its name may come in parts.
pub fn variable(sink: &mut impl Sink, name: &[&str], kind: Type) {
    for part in name {
        sink.put(part.as_bytes());
    }
    sink.put(&[b'(', kind.letter(), b')', 0]);
}

/// The event of transitions.
pub fn transition_event(sink: &mut impl Sink) {
    let count = u16::try_from(transition::FIELDS.len()).unwrap_or(u16::MAX);
    event(sink, transition::EVENT_ID, transition::EVENT_NAME, count);
    for field in transition::FIELDS {
        variable(sink, &[field.name], field.kind);
    }
}

/// Bytes of the event id and the timestamp before the values of a record.
pub(crate) const RECORD_PREFIX_SIZE: usize = 10;

/// The event id and the timestamp before the values of a record.
#[must_use]
pub fn record_prefix(id: u16, time_us: u64) -> [u8; RECORD_PREFIX_SIZE] {
    let ([a, b], [c, d, e, f, g, h, i, j]) = (id.to_le_bytes(), time_us.to_le_bytes());
    [a, b, c, d, e, f, g, h, i, j]
}
