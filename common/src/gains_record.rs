//! The log record of the gains that fly, so that a log can be replayed from the file alone.
//!
//! A file has one before its first control step, and one wherever the gains change: another table,
//! try-out gains, or the guard's fallback to the last proven table. Its bytes are the gain table's own
//! ([`gain_table`](crate::gain_table)), then the try-out flag, then the record's CRC-16.

use crate::bytes::Writer;
use crate::gain_table::{GainTable, TABLE_SIZE, TableError};
use crate::gains::GAINS;
use crate::usdlog::schema::{Located, RECORD_CRC, RECORD_CRC_NAME};
use crate::usdlog::write::{self, RECORD_PREFIX_SIZE, Sink, record_prefix};
use crate::usdlog::{Field, Header, Record, SchemaError, Type};

/// Name of the event in a uSD log.
pub const EVENT_NAME: &str = "gains";
/// Id of the event in a uSD log: `SG` in the file's byte order.
pub const EVENT_ID: u16 = u16::from_le_bytes(*b"SG");
/// Bytes of a record as this firmware writes it, from the event id to the CRC.
pub const RECORD_SIZE: usize = RECORD_PREFIX_SIZE + TABLE_SIZE + 1 + 2;
/// The gain table's first field. The table's bytes are read as one piece: it has a version of its own.
const TABLE_FIELD: &str = "gains.magic";
const TRY_OUT_FIELD: &str = "gains.tryOut";

/// Fields before the gains: name and type.
const HEAD: [(&str, Type); 8] = [
    (TABLE_FIELD, Type::U32),
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
/// Fields after the gains.
const TAIL: [(&str, Type); 3] =
    [("gains.crc32", Type::U32), (TRY_OUT_FIELD, Type::U8), (RECORD_CRC_NAME, Type::U16)];

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
            *crc = RECORD_CRC.checksum(covered).to_le_bytes();
        }
        record
    }
}

/// Reads the gains of one file, by the names in its header.
#[derive(Clone, Copy, Debug)]
pub struct Decoder(Located<3>);

impl Decoder {
    /// The decoder for a file with this header; `None` when it has no gains.
    ///
    /// # Errors
    /// If the event lacks a required field, or a field has another type.
    pub fn new(header: &Header<'_>) -> Result<Option<Self>, SchemaError> {
        let fields = [
            Field::required(TABLE_FIELD, Type::U32),
            Field::required(TRY_OUT_FIELD, Type::U8),
            Field::required(RECORD_CRC_NAME, Type::U16),
        ];
        Ok(Located::find(header, EVENT_NAME, &fields)?.map(Self))
    }

    /// The gains in a record from a [`Scanner`](crate::usdlog::Scanner), which has tested its CRC;
    /// `None` for records of other events.
    #[must_use]
    pub fn decode(&self, record: &Record<'_>) -> Option<Result<GainsRecord, TableError>> {
        if record.event != self.0.event {
            return None;
        }
        let [Some(table), Some(try_out), _] = self.0.offsets.map(|o| o.map(usize::from)) else { return None };
        let try_out = *record.values.get(try_out)? != 0;
        let table = GainTable::decode_head(record.values.get(table..)?);
        Some(table.map(|table| GainsRecord { time_us: record.time_us, table, try_out }))
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
        let decoder = Decoder::new(&header).unwrap().unwrap();
        scanner.finish(&file[header.length()..], |r| read.push(decoder.decode(&r).unwrap().unwrap()));
        assert_eq!(read, [built_in, record()]);
    }

    #[test]
    fn tables_that_must_not_fly_are_refused() {
        let mut file = Vec::new();
        let mut sink = |b: &[u8]| file.extend_from_slice(b);
        begin(&mut sink, 1);
        event(&mut sink);
        let decoder = Decoder::new(&Header::parse(&file).unwrap()).unwrap().unwrap();
        let decode = |bytes: &[u8]| {
            let values = bytes.get(RECORD_PREFIX_SIZE..).unwrap_or(&[]);
            decoder.decode(&Record { event: 0, time_us: 0, values, bytes, offset: 0 })
        };
        let mut wild = record();
        wild.table.gains.attitude.p.xy = f32::NAN;
        assert!(matches!(decode(&wild.encode()), Some(Err(TableError::Gain(_)))));
        let bytes = record().encode();
        for length in 0..RECORD_SIZE - 2 {
            assert_eq!(decode(&bytes[..length]), None, "the try-out flag is missing");
        }
        let mut torn = bytes;
        torn[30] ^= 1;
        assert!(matches!(decode(&torn), Some(Err(TableError::Crc { .. }))));
    }
}
