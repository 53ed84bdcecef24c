//! Finds records in bytes and skips damage.

use super::schema::RECORD_CRC_NAME;
use super::{Header, Type};
use crate::bytes::Reader;
use crc::{Crc, Table};

/// Events a file may have. The official firmware's limit is 20.
const MAX_EVENTS: usize = 32;
/// Maximum bytes of one record; more is taken for damage of the header.
pub const MAX_RECORD: usize = 8192;
/// Bytes of the checksum at the end of a file.
const FILE_CRC_SIZE: usize = 4;
/// How far a timestamp may be ahead of the one before, µs.
const MAX_AHEAD_US: u64 = 60_000_000;
/// How far a timestamp may be behind the one before, µs: events come from several tasks.
const MAX_BEHIND_US: u64 = 1_000_000;

/// Tables for long inputs: a file of gigabytes is read at the speed of the disk.
static FAST_FILE_CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&crc::CRC_32_ISO_HDLC);
static FAST_RECORD_CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&crc::CRC_16_IBM_3740);

/// Why a header, though well formed, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// More events than any writer makes.
    Events(usize),
    /// A record of so many bytes.
    Record(usize),
    /// Two events with this id.
    DuplicateId(u16),
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Events(n) => write!(f, "{n} events; at most {MAX_EVENTS} are possible"),
            Self::Record(n) => write!(f, "records of {n} bytes; at most {MAX_RECORD} are possible"),
            Self::DuplicateId(id) => write!(f, "two events have the id {id:#06x}"),
        }
    }
}

impl core::error::Error for LayoutError {}

#[derive(Clone, Copy, Debug, Default)]
struct EventLayout {
    id: u16,
    /// Whole record with id and timestamp, bytes.
    size: usize,
    /// The record ends with its own checksum.
    has_crc: bool,
}

/// Ids and record sizes of the events in a header.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    version: u16,
    prefix: usize,
    header_length: usize,
    count: usize,
    events: [EventLayout; MAX_EVENTS],
}

impl Layout {
    /// The layout of a header.
    pub fn new(header: &Header<'_>) -> Result<Self, LayoutError> {
        let prefix = if header.version() == 1 { 2 + 4 } else { 2 + 8 };
        let mut events = [EventLayout::default(); MAX_EVENTS];
        let mut count = 0;
        for event in header.events() {
            let size = prefix + event.values_size();
            if size > MAX_RECORD {
                return Err(LayoutError::Record(size));
            }
            if events.iter().take(count).any(|e| e.id == event.id) {
                return Err(LayoutError::DuplicateId(event.id));
            }
            let is_crc = |v: super::Variable<'_>| v.name == RECORD_CRC_NAME && v.kind == Type::U16;
            let has_crc = header.version() == 2 && event.variables().last().is_some_and(is_crc);
            *events.get_mut(count).ok_or(LayoutError::Events(count + 1))? =
                EventLayout { id: event.id, size, has_crc };
            count += 1;
        }
        Ok(Self { version: header.version(), prefix, header_length: header.length(), count, events })
    }

    fn event(&self, id: u16) -> Option<(usize, &EventLayout)> {
        self.events.iter().take(self.count).enumerate().find(|(_, e)| e.id == id)
    }
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Which event, counted in the order of the header.
    pub event: usize,
    /// Timestamp, µs.
    pub time_us: u64,
    /// The values' bytes.
    pub values: &'a [u8],
    /// The whole record's bytes, from the event id.
    pub bytes: &'a [u8],
    /// Where in the file the record begins.
    pub offset: u64,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the right checksum: closed properly, and not damaged.
    Complete,
    /// With four bytes that are not the checksum: closed properly, then damaged.
    WrongCrc {
        /// Checksum in the file.
        stored: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// In the middle of something: power was cut, or the card pulled.
    Cut,
}

/// Result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Valid records.
    pub records: u64,
    /// Places with bytes that are not a record.
    pub damaged_places: u64,
    /// Number of these bytes, including a cut record at the end.
    pub skipped_bytes: u64,
    /// How the file ends.
    pub ending: Ending,
}

/// Finds the records in a file, chunk by chunk.
#[derive(Clone)]
pub struct Scanner {
    layout: Layout,
    crc: crc::Digest<'static, u32, Table<16>>,
    /// Position in the file of the next byte.
    offset: u64,
    last_time_us: Option<u64>,
    in_damage: bool,
    records: u64,
    damaged_places: u64,
    skipped_bytes: u64,
}

impl core::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Scanner").field("offset", &self.offset).field("records", &self.records).finish()
    }
}

/// What some bytes begin with.
enum Look {
    Record {
        event: usize,
        size: usize,
        time_us: u64,
    },
    /// No record.
    Damage,
    /// More bytes are needed to tell.
    Short,
}

impl Scanner {
    /// Starts after a header, which is part of the file's checksum.
    #[must_use]
    pub fn new(layout: Layout, header: &[u8]) -> Self {
        let mut crc = FAST_FILE_CRC.digest();
        let header = header.get(..layout.header_length).unwrap_or(header);
        crc.update(header);
        Self {
            layout,
            crc,
            offset: header.len() as u64,
            last_time_us: None,
            in_damage: false,
            records: 0,
            damaged_places: 0,
            skipped_bytes: 0,
        }
    }

    /// Calls `take` with every complete record in `bytes` and returns how many bytes it consumed. The
    /// rest must come again, at the front of the next chunk, which must be longer than the rest.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Record<'_>)) -> usize {
        // The last bytes may be the file's checksum or need a look ahead; `finish` has them.
        self.run(bytes, false, &mut take)
    }

    /// Calls `take` with the records in the last bytes of the file, and returns the result of the scan.
    pub fn finish(mut self, bytes: &[u8], mut take: impl FnMut(Record<'_>)) -> Summary {
        let done = self.run(bytes, true, &mut take);
        let rest = bytes.get(done..).unwrap_or(&[]);
        let ending = self.ending(rest);
        Summary {
            records: self.records,
            damaged_places: self.damaged_places,
            skipped_bytes: self.skipped_bytes,
            ending,
        }
    }

    fn run(&mut self, bytes: &[u8], last: bool, take: &mut impl FnMut(Record<'_>)) -> usize {
        let mut at = 0;
        while let Some(here) = bytes.get(at..) {
            match self.look(here, last) {
                Look::Record { event, size, time_us } => {
                    let record = here.get(..size).unwrap_or(&[]);
                    let values = record.get(self.layout.prefix..).unwrap_or(&[]);
                    let offset = self.offset + at as u64;
                    take(Record { event, time_us, values, bytes: record, offset });
                    self.records += 1;
                    self.in_damage = false;
                    self.last_time_us = Some(time_us);
                    at += size;
                }
                Look::Damage => {
                    self.damaged_places += u64::from(!self.in_damage);
                    self.in_damage = true;
                    self.skipped_bytes += 1;
                    at += 1;
                }
                Look::Short => break,
            }
        }
        self.crc.update(bytes.get(..at).unwrap_or(&[]));
        self.offset += at as u64;
        at
    }

    /// What these bytes begin with.
    fn look(&self, here: &[u8], last: bool) -> Look {
        let mut r = Reader::new(here);
        let Some(id) = r.u16() else { return Look::Short };
        let Some((event, layout)) = self.layout.event(id) else {
            // The file's checksum looks like this too.
            return if here.len() <= FILE_CRC_SIZE { Look::Short } else { Look::Damage };
        };
        let Some(record) = here.get(..layout.size) else {
            // Cut off, or the file's checksum by chance, or damage that hides complete records.
            return if last && self.hides_records(here) { Look::Damage } else { Look::Short };
        };
        let Some(time_us) = self.time(record) else { return Look::Damage };
        if layout.has_crc {
            let proven = record
                .split_last_chunk::<2>()
                .is_some_and(|(covered, crc)| FAST_RECORD_CRC.checksum(covered).to_le_bytes() == *crc);
            return if proven { Look::Record { event, size: layout.size, time_us } } else { Look::Damage };
        }
        // Without a checksum: valid if its time fits the record before, or the one after.
        let after = here.get(layout.size..).unwrap_or(&[]);
        let fits_before = self.last_time_us.is_none_or(|t| plausible(t, time_us));
        if fits_before && !self.in_damage {
            return Look::Record { event, size: layout.size, time_us };
        }
        match self.peek_time(after) {
            Peek::Time(next) if plausible(time_us, next) && (fits_before || !self.in_damage) => {
                Look::Record { event, size: layout.size, time_us }
            }
            Peek::Time(_) | Peek::Nothing => Look::Damage,
            Peek::Short if !last => Look::Short,
            Peek::Short if fits_before && after.len() <= FILE_CRC_SIZE => {
                Look::Record { event, size: layout.size, time_us }
            }
            Peek::Short => Look::Damage,
        }
    }

    /// True when a record with a valid checksum may begin after the first of these last bytes.
    fn hides_records(&self, here: &[u8]) -> bool {
        let crc_events = self.layout.events.iter().take(self.layout.count).filter(|e| e.has_crc);
        crc_events.map(|e| e.size).min().is_some_and(|size| here.len() > size + FILE_CRC_SIZE)
    }

    fn time(&self, record: &[u8]) -> Option<u64> {
        let mut r = Reader::new(record);
        r.u16()?;
        if self.layout.version == 1 { r.u32().map(|ms| u64::from(ms) * 1000) } else { r.u64() }
    }

    fn peek_time(&self, here: &[u8]) -> Peek {
        let mut r = Reader::new(here);
        let Some(id) = r.u16() else { return Peek::Short };
        if self.layout.event(id).is_none() {
            return if here.len() <= FILE_CRC_SIZE { Peek::Short } else { Peek::Nothing };
        }
        self.time(here).map_or(Peek::Short, Peek::Time)
    }

    fn ending(&mut self, rest: &[u8]) -> Ending {
        let Some((before, stored)) = rest.split_last_chunk::<FILE_CRC_SIZE>() else {
            self.skipped_bytes += rest.len() as u64;
            return Ending::Cut;
        };
        self.crc.update(before);
        let (stored, computed) = (u32::from_le_bytes(*stored), self.crc.clone().finalize());
        match (stored == computed, before.is_empty()) {
            (true, _) => {
                self.skipped_bytes += before.len() as u64;
                Ending::Complete
            }
            // Four bytes are left when a file was closed, and seldom otherwise.
            (false, true) => Ending::WrongCrc { stored, computed },
            (false, false) => {
                self.skipped_bytes += rest.len() as u64;
                Ending::Cut
            }
        }
    }
}

enum Peek {
    Time(u64),
    Nothing,
    Short,
}

fn plausible(before: u64, after: u64) -> bool {
    after.saturating_add(MAX_BEHIND_US) >= before && after <= before.saturating_add(MAX_AHEAD_US)
}
