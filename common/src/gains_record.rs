//! The log record of the gains that fly: what a log needs so that its steps can be computed again from
//! the file alone.
//!
//! A file has one before its first control step, and one wherever the gains change: another table,
//! try-out gains, or the guard's way back to the last proven table. Its bytes are the gain table's own
//! ([`gain_table`](crate::gain_table)), then the try-out flag, then the record's CRC-16.

use crate::bytes::{Reader, Writer};
use crate::gain_table::{GainTable, TABLE_SIZE, TableError};
use crate::gains::GAINS;
use crate::transition::{CRC, CRC_NAME};
use crate::usdlog::Type;
use crate::usdlog::write::{self, Sink, record_prefix};

/// Name of the event in a uSD log.
pub const EVENT_NAME: &str = "gains";
/// Id of the event in a uSD log: `SG` in the file's byte order.
pub const EVENT_ID: u16 = u16::from_le_bytes(*b"SG");
/// Bytes of one record, from the event id to the CRC.
pub const RECORD_SIZE: usize = PREFIX_SIZE + TABLE_SIZE + 1 + 2;
const PREFIX_SIZE: usize = 10;

/// What stands before the gains in a table: name and type.
const HEAD: [(&str, Type); 8] = [
    ("gains.magic", Type::U32),
    ("gains.format", Type::U16),
    ("gains.lawVersion", Type::U16),
    ("gains.table", Type::U32),
    ("gains.boundsId", Type::U32),
    ("gains.sourceLow", Type::U32),
    ("gains.sourceHigh", Type::U32),
    ("gains.massKg", Type::F32),
];
/// The integral limits.
const LIMITS: [&str; 8] = [
    "position.xy",
    "position.z",
    "velocity.xy",
    "velocity.z",
    "attitude.xy",
    "attitude.z",
    "rate.xy",
    "rate.z",
];
/// What stands behind the gains.
const TAIL: [(&str, Type); 3] =
    [("gains.crc32", Type::U32), ("gains.tryOut", Type::U8), (CRC_NAME, Type::U16)];

/// Gains that fly from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainsRecord {
    /// Since when, µs since boot.
    pub time_us: u64,
    /// The table, with the try-out gains in it where they fly.
    pub table: GainTable,
    /// Gains set by parameter fly instead of the table's.
    pub try_out: bool,
}

impl GainsRecord {
    /// The record's bytes in a uSD log.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_SIZE] {
        let mut record = [0; RECORD_SIZE];
        let mut w = Writer::new(&mut record);
        w.put(&record_prefix(EVENT_ID, self.time_us))
            .put(&self.table.encode_head())
            .put(&[u8::from(self.try_out)]);
        if let Some((covered, crc)) = record.split_last_chunk_mut::<2>() {
            *crc = CRC.checksum(covered).to_le_bytes();
        }
        record
    }

    /// Reads a record that comes from a [`Scanner`](crate::usdlog::Scanner), which has tested its CRC.
    pub fn decode_proven(record: &[u8]) -> Result<Self, TableError> {
        let short = TableError::Length(record.len());
        let mut r = Reader::new(record);
        let _event = r.u16().ok_or(short)?;
        let time_us = r.u64().ok_or(short)?;
        let (table, rest) = r.rest().split_at_checked(TABLE_SIZE).ok_or(short)?;
        let [try_out, _, _] = *rest else { return Err(short) };
        Ok(Self { time_us, table: GainTable::decode_head(table)?, try_out: try_out != 0 })
    }
}

/// The event in a file's header.
pub fn event(sink: &mut impl Sink) {
    let count = HEAD.len() + LIMITS.len() + GAINS.len() + TAIL.len();
    write::event(sink, EVENT_ID, EVENT_NAME, u16::try_from(count).unwrap_or(u16::MAX));
    for (name, kind) in HEAD {
        write::variable(sink, &[name], kind);
    }
    for name in LIMITS {
        write::variable(sink, &["limit.", name], Type::F32);
    }
    for gain in &GAINS {
        write::variable(sink, &["gain.", gain.name], Type::F32);
    }
    for (name, kind) in TAIL {
        write::variable(sink, &[name], kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usdlog::{Header, Layout, Scanner, write::begin};
    use std::vec::Vec;

    fn record() -> GainsRecord {
        let mut table = GainTable { sequence: 9, source: 0x0123_4567_89AB_CDEF, ..GainTable::built_in() };
        table.gains.rate.p.z *= 1.1;
        GainsRecord { time_us: 77_000_000, table, try_out: true }
    }

    #[test]
    fn survives_the_round_trip_through_a_file() {
        let built_in = GainsRecord { table: GainTable::built_in(), try_out: false, ..record() };
        let mut file = Vec::new();
        let mut sink = |b: &[u8]| file.extend_from_slice(b);
        begin(&mut sink, 1);
        event(&mut sink);
        for r in [built_in, record()] {
            file.extend_from_slice(&r.encode());
        }
        let header = Header::parse(&file).unwrap();
        let event = header.events().next().unwrap();
        assert_eq!(10 + event.values_size(), RECORD_SIZE);
        let value = |name: &str, bytes: &[u8]| {
            let v = event.variables().find(|v| v.name == name).unwrap();
            v.kind.read(&bytes[10 + v.offset..]).unwrap().to_f64()
        };
        let bytes = record().encode();
        assert_eq!(value("gains.table", &bytes), 9.0);
        assert_eq!(value("gain.rate.p.z", &bytes), f64::from(record().table.gains.rate.p.z));
        assert_eq!(value("limit.rate.z", &bytes), f64::from(record().table.vehicle.integral_limits[3].z));
        let mut read = Vec::new();
        let scanner = Scanner::new(Layout::new(&header).unwrap(), &file[..header.length()]);
        scanner.finish(&file[header.length()..], |r| read.push(GainsRecord::decode_proven(r.bytes).unwrap()));
        assert_eq!(read, [built_in, record()]);
    }

    #[test]
    fn what_may_not_fly_is_no_record() {
        let mut wild = record();
        wild.table.gains.attitude.p.xy = f32::NAN;
        assert!(matches!(GainsRecord::decode_proven(&wild.encode()), Err(TableError::Gain(_))));
        let bytes = record().encode();
        for length in 0..RECORD_SIZE {
            assert_eq!(GainsRecord::decode_proven(&bytes[..length]), Err(TableError::Length(length)));
        }
        let mut torn = bytes;
        torn[30] ^= 1;
        assert!(matches!(GainsRecord::decode_proven(&torn), Err(TableError::Crc { .. })));
    }
}
