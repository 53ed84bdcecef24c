//! The gain table: a policy as one flash page, and the append log of such pages on the drone.
//!
//! # Page (1024 bytes, little-endian)
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u32 | magic `STDY` |
//! | 4 | u16 | format version |
//! | 6 | u16 | control law version |
//! | 8 | u32 | sequence number, 1 and up; `u32::MAX` is never used |
//! | 12 | u32 | id of the bounds the gains were checked against |
//! | 16 | u64 | source: hash of the run that made it, 0 for built-in |
//! | 24 | f32 | mass, kg |
//! | 28 | 8 × f32 | integral limits: position, velocity, attitude, rate, each xy then z |
//! | 60 | 24 × f32 | gains in the order of [`GAINS`](crate::gains::GAINS) |
//! | 156 | u32 | CRC-32 (ISO-HDLC) of bytes 0..156 |
//! | 160 | | 0xFF to the end |
//!
//! # Append log
//!
//! Two flash sectors of 128 pages each. A new table goes to the next blank page of the sector in
//! use; when that is full, to the first page of the other one (whose writing erases that sector).
//! So the newest valid table is never erased or overwritten, and a valid one exists at every
//! instant of every update. [`scan`] finds the newest valid table and the page for the next.

use crate::bytes::{Reader, Writer};
use crate::gains::{Axes, GAIN_COUNT, Gains, OutOfBounds};
use crate::law::{LAW_VERSION, Vehicle};

/// Bytes in a page of the radio bootloader.
pub const PAGE_SIZE: usize = 1024;
/// Pages in one of the two flash sectors.
pub const PAGES_PER_SECTOR: usize = 128;
/// Pages in the table area: sectors 10 and 11.
pub const PAGE_COUNT: usize = 2 * PAGES_PER_SECTOR;
/// Bootloader page number of the area's first page (address 0x080C_0000).
pub const FIRST_FLASH_PAGE: u16 = 768;
/// Address of the area's first page.
pub const FLASH_ADDRESS: u32 = 0x080C_0000;
/// Key under which the drone remembers the last table that has completed a flight. Every image of the firmware
/// holds this text, so it also tells such an image from others.
pub const PROVEN_KEY: &str = "steady/proven";

/// Version of the page layout.
pub const FORMAT_VERSION: u16 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"STDY");
const CRC_OFFSET: usize = 156;
/// Bytes of a page that the table takes; the rest is blank.
pub const TABLE_SIZE: usize = CRC_OFFSET + 4;
const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// Masses the drone accepts, kg.
const MASS_RANGE: core::ops::RangeInclusive<f32> = 0.015..=0.06;
/// Largest integral limit the drone accepts.
const MAX_INTEGRAL_LIMIT: f32 = 10.0;

/// A page of the table area.
pub type Page = [u8; PAGE_SIZE];

/// A gain table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainTable {
    /// Newer tables have higher numbers.
    pub sequence: u32,
    /// Bounds the gains were checked against when the table was made.
    pub bounds_id: u32,
    /// Hash of the run that made it; 0 for the built-in gains.
    pub source: u64,
    /// Mass and integral limits.
    pub vehicle: Vehicle,
    /// The gains.
    pub gains: Gains,
}

/// Why a page is not a usable gain table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TableError {
    /// Never written.
    Blank,
    /// Not 1024 bytes.
    Length(usize),
    /// Does not begin with the magic number.
    Magic(u32),
    /// Another layout.
    Format(u16),
    /// The checksum does not match: torn or corrupt.
    Crc {
        /// Checksum in the page.
        stored: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// Something other than 0xFF after the table, first at this offset.
    Trailing(usize),
    /// Made for another control law.
    Law(u16),
    /// Sequence number 0 or `u32::MAX`.
    Sequence(u32),
    /// A gain outside its bounds.
    Gain(OutOfBounds),
    /// A mass no Crazyflie has, kg.
    Mass(f32),
    /// An integral limit that is negative, too large or NaN (index in table order).
    IntegralLimit(usize, f32),
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Blank => write!(f, "the page is blank (all 0xFF)"),
            Self::Length(n) => write!(f, "{n} bytes instead of {PAGE_SIZE}"),
            Self::Magic(m) => {
                write!(f, "magic at offset 0 is {m:#010x}, not {MAGIC:#010x}: not a gain table")
            }
            Self::Format(v) => {
                write!(f, "format version {v} at offset 4; this program reads {FORMAT_VERSION}")
            }
            Self::Crc { stored, computed } => {
                write!(
                    f,
                    "CRC at offset {CRC_OFFSET} is {stored:#010x}, the bytes give {computed:#010x}: torn or corrupt"
                )
            }
            Self::Trailing(at) => write!(f, "byte at offset {at} is not 0xFF"),
            Self::Law(v) => {
                write!(f, "control law version {v} at offset 6; this program flies {LAW_VERSION}")
            }
            Self::Sequence(n) => write!(f, "sequence number {n} at offset 8 is not allowed"),
            Self::Gain(e) => write!(f, "gain {e}"),
            Self::Mass(m) => {
                write!(f, "mass_kg = {m} is outside [{}, {}]", MASS_RANGE.start(), MASS_RANGE.end())
            }
            Self::IntegralLimit(i, v) => {
                write!(f, "integral limit {i} = {v} is outside [0, {MAX_INTEGRAL_LIMIT}]")
            }
        }
    }
}

impl core::error::Error for TableError {}

impl GainTable {
    /// The gains compiled into the firmware, which fly when the area holds no valid table.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            sequence: 0,
            bounds_id: crate::gains::BOUNDS_ID,
            source: 0,
            vehicle: Vehicle::NOMINAL,
            gains: Gains::nominal(),
        }
    }

    /// Refuses values the drone must not fly.
    pub fn check(&self) -> Result<(), TableError> {
        self.gains.check().map_err(TableError::Gain)?;
        if !MASS_RANGE.contains(&self.vehicle.mass) {
            return Err(TableError::Mass(self.vehicle.mass));
        }
        let limits = self.vehicle.integral_limits.iter().flat_map(|a| [a.xy, a.z]);
        for (index, limit) in limits.enumerate() {
            if !(0.0..=MAX_INTEGRAL_LIMIT).contains(&limit) {
                return Err(TableError::IntegralLimit(index, limit));
            }
        }
        Ok(())
    }

    /// The page's bytes. Encodes anything; [`decode`](Self::decode) is what refuses.
    #[must_use]
    pub fn encode(&self) -> Page {
        let mut page = [0xFF; PAGE_SIZE];
        Writer::new(&mut page).put(&self.encode_head());
        page
    }

    /// The table's own bytes, without the blank rest of the page.
    #[must_use]
    pub fn encode_head(&self) -> [u8; TABLE_SIZE] {
        let mut head = [0; TABLE_SIZE];
        let mut w = Writer::new(&mut head);
        w.put(&MAGIC.to_le_bytes())
            .put(&FORMAT_VERSION.to_le_bytes())
            .put(&LAW_VERSION.to_le_bytes())
            .put(&self.sequence.to_le_bytes())
            .put(&self.bounds_id.to_le_bytes())
            .put(&self.source.to_le_bytes())
            .put(&self.vehicle.mass.to_le_bytes());
        for limit in self.vehicle.integral_limits {
            w.put(&limit.xy.to_le_bytes()).put(&limit.z.to_le_bytes());
        }
        for gain in self.gains.to_array() {
            w.put(&gain.to_le_bytes());
        }
        if let Some((covered, crc)) = head.split_last_chunk_mut::<4>() {
            *crc = CRC.checksum(covered).to_le_bytes();
        }
        head
    }

    /// Reads a page and refuses everything that must not fly.
    pub fn decode(page: &[u8]) -> Result<Self, TableError> {
        if page.len() != PAGE_SIZE {
            return Err(TableError::Length(page.len()));
        }
        if is_blank(page) {
            return Err(TableError::Blank);
        }
        let table = Self::decode_head(page)?;
        if let Some(at) = page.iter().skip(TABLE_SIZE).position(|b| *b != 0xFF) {
            return Err(TableError::Trailing(TABLE_SIZE + at));
        }
        if table.sequence == 0 || table.sequence == u32::MAX {
            return Err(TableError::Sequence(table.sequence));
        }
        Ok(table)
    }

    /// Reads the table at the front of some bytes, as a log holds it. The built-in gains, which have
    /// the sequence number 0, are a table here too.
    pub fn decode_head(bytes: &[u8]) -> Result<Self, TableError> {
        Self::read(bytes).unwrap_or(Err(TableError::Length(bytes.len())))
    }

    /// `None` when there are too few bytes.
    fn read(bytes: &[u8]) -> Option<Result<Self, TableError>> {
        let mut r = Reader::new(bytes);
        let magic = r.u32()?;
        if magic != MAGIC {
            return Some(Err(TableError::Magic(magic)));
        }
        // Everything after the versions, the position of the checksum included, depends on the format.
        let (format, law) = (r.u16()?, r.u16()?);
        if format != FORMAT_VERSION {
            return Some(Err(TableError::Format(format)));
        }
        let (covered, rest) = bytes.split_at_checked(CRC_OFFSET)?;
        let (stored, computed) = (Reader::new(rest).u32()?, CRC.checksum(covered));
        if stored != computed {
            return Some(Err(TableError::Crc { stored, computed }));
        }
        if law != LAW_VERSION {
            return Some(Err(TableError::Law(law)));
        }
        let (sequence, bounds_id, source, mass) = (r.u32()?, r.u32()?, r.u64()?, r.f32()?);
        let mut integral_limits = [Axes::default(); 4];
        for limit in &mut integral_limits {
            *limit = Axes { xy: r.f32()?, z: r.f32()? };
        }
        let mut gains = [0.0; GAIN_COUNT];
        for gain in &mut gains {
            *gain = r.f32()?;
        }
        let table = Self {
            sequence,
            bounds_id,
            source,
            vehicle: Vehicle { mass, integral_limits },
            gains: Gains::from_array(gains),
        };
        Some(table.check().map(|()| table))
    }
}

fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|b| *b == 0xFF)
}

/// Reads pages: memory-mapped flash on the drone, the radio on the PC.
pub trait PageSource {
    /// Why a page could not be read.
    type Error;

    /// Reads page `index` (0..[`PAGE_COUNT`]) of the table area.
    fn read(&mut self, index: usize, page: &mut Page) -> Result<(), Self::Error>;
}

/// A page for the next table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPage {
    /// Index in the table area.
    pub index: usize,
    /// True when writing it erases its sector first (the first page of a sector).
    pub erases: bool,
}

/// Content of a table area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// Page and table with the highest sequence number.
    pub newest: Option<(usize, GainTable)>,
    /// Page and table before it: what the drone falls back to.
    pub previous: Option<(usize, GainTable)>,
    /// Where the next table goes.
    pub next: NextPage,
    /// Pages with a valid table.
    pub valid: usize,
    /// Pages that are neither valid nor blank: torn, corrupt, or for another law.
    pub damaged: usize,
}

impl Scan {
    /// Sequence number of the next table.
    #[must_use]
    pub fn next_sequence(&self) -> u32 {
        self.newest.map_or(1, |(_, table)| table.sequence.saturating_add(1))
    }
}

/// Scans the whole area.
pub fn scan<P: PageSource>(source: &mut P) -> Result<Scan, P::Error> {
    let mut page = [0xFF; PAGE_SIZE];
    let (mut newest, mut previous): (Option<(usize, GainTable)>, _) = (None, None);
    let (mut valid, mut damaged) = (0, 0);
    for index in 0..PAGE_COUNT {
        source.read(index, &mut page)?;
        match GainTable::decode(&page) {
            Ok(table) => {
                valid += 1;
                let newer_than = |other: &Option<(usize, GainTable)>| {
                    other.is_none_or(|(_, o)| table.sequence > o.sequence)
                };
                if newer_than(&newest) {
                    previous = newest;
                    newest = Some((index, table));
                } else if newer_than(&previous) {
                    previous = Some((index, table));
                }
            }
            Err(TableError::Blank) => {}
            Err(_) => damaged += 1,
        }
    }
    let next = next_page(source, newest.map(|(index, _)| index))?;
    Ok(Scan { newest, previous, next, valid, damaged })
}

/// The valid table with a sequence number, if the area still holds it.
pub fn find<P: PageSource>(source: &mut P, sequence: u32) -> Result<Option<GainTable>, P::Error> {
    let mut page = [0xFF; PAGE_SIZE];
    for index in 0..PAGE_COUNT {
        source.read(index, &mut page)?;
        if let Ok(table) = GainTable::decode(&page)
            && table.sequence == sequence
        {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// The first blank page after the newest table in its sector, else the start of the other sector.
fn next_page<P: PageSource>(source: &mut P, newest: Option<usize>) -> Result<NextPage, P::Error> {
    let Some(newest) = newest else {
        return Ok(NextPage { index: 0, erases: true });
    };
    let sector = newest / PAGES_PER_SECTOR;
    let mut page = [0; PAGE_SIZE];
    for index in newest + 1..(sector + 1) * PAGES_PER_SECTOR {
        source.read(index, &mut page)?;
        if is_blank(&page) {
            return Ok(NextPage { index, erases: false });
        }
    }
    Ok(NextPage { index: (1 - sector.min(1)) * PAGES_PER_SECTOR, erases: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// Flash that behaves like the drone's under the bootloader: programming clears bits, writing a
    /// sector's first page erases the sector first, and the power may fail in the middle.
    struct Flash(Vec<Page>);

    impl PageSource for Flash {
        type Error = core::convert::Infallible;
        fn read(&mut self, index: usize, page: &mut Page) -> Result<(), Self::Error> {
            *page = self.0[index];
            Ok(())
        }
    }

    /// Where a write is cut off.
    #[derive(Clone, Copy, Debug)]
    enum Cut {
        Never,
        /// During the erase: the sector is left with this pattern in some of its pages.
        Erasing(u8, usize),
        /// After this many words of the page.
        Words(usize),
    }

    impl Flash {
        fn blank() -> Self {
            Self(vec![[0xFF; PAGE_SIZE]; PAGE_COUNT])
        }

        fn write(&mut self, index: usize, page: &Page, cut: Cut) {
            if index.is_multiple_of(PAGES_PER_SECTOR) {
                let sector = &mut self.0[index..index + PAGES_PER_SECTOR];
                if let Cut::Erasing(pattern, pages) = cut {
                    for p in sector.iter_mut().take(pages) {
                        p.iter_mut().for_each(|b| *b |= pattern);
                    }
                    return;
                }
                sector.fill([0xFF; PAGE_SIZE]);
            }
            let words = match cut {
                Cut::Never => PAGE_SIZE / 4,
                Cut::Erasing(..) => 0,
                Cut::Words(n) => n,
            };
            for (old, new) in self.0[index].iter_mut().zip(page).take(4 * words) {
                *old &= new;
            }
        }

        fn scan(&mut self) -> Scan {
            let Ok(scan) = scan(self);
            scan
        }

        /// Appends a table as the host does; returns its sequence number.
        fn append(&mut self, cut: Cut) -> u32 {
            let scan = self.scan();
            let table = GainTable { sequence: scan.next_sequence(), ..GainTable::built_in() };
            self.write(scan.next.index, &table.encode(), cut);
            table.sequence
        }
    }

    fn table(sequence: u32) -> GainTable {
        GainTable { sequence, source: 0x0123_4567_89AB_CDEF, ..GainTable::built_in() }
    }

    #[test]
    fn a_table_is_found_by_its_number() {
        let mut flash = Flash::blank();
        for _ in 0..5 {
            flash.append(Cut::Never);
        }
        let Ok(third) = find(&mut flash, 3);
        assert_eq!(third.map(|t| t.sequence), Some(3));
        let Ok(none) = find(&mut flash, 6);
        assert_eq!(none, None);
    }

    #[test]
    fn survives_the_round_trip() {
        let page = table(7).encode();
        assert_eq!(GainTable::decode(&page), Ok(table(7)));
        assert!(page[TABLE_SIZE..].iter().all(|b| *b == 0xFF));
    }

    #[test]
    fn layout_is_what_the_docs_say() {
        let page = table(7).encode();
        assert_eq!(&page[..8], b"STDY\x01\x00\x01\x00");
        assert_eq!(page[8..12], 7_u32.to_le_bytes());
        assert_eq!(page[24..28], 0.027_f32.to_le_bytes());
        assert_eq!(page[28..32], 2.0_f32.to_le_bytes());
        assert_eq!(page[60..64], 0.4_f32.to_le_bytes());
        assert_eq!(page[152..156], crate::gains::GAINS[23].nominal.to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let page = table(7).encode();
        for bit in 0..8 * PAGE_SIZE {
            let mut bad = page;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(GainTable::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn dangerous_values_are_refused_even_with_a_good_checksum() {
        let mut bad = table(7);
        bad.gains.rate.p.xy = 100.0;
        assert!(matches!(GainTable::decode(&bad.encode()), Err(TableError::Gain(_))));
        let mut bad = table(7);
        bad.vehicle.mass = 0.5;
        assert_eq!(GainTable::decode(&bad.encode()), Err(TableError::Mass(0.5)));
        let mut bad = table(7);
        bad.vehicle.integral_limits[1].z = f32::NAN;
        assert!(matches!(GainTable::decode(&bad.encode()), Err(TableError::IntegralLimit(3, _))));
        assert_eq!(GainTable::decode(&table(0).encode()), Err(TableError::Sequence(0)));
        assert_eq!(GainTable::decode(&table(u32::MAX).encode()), Err(TableError::Sequence(u32::MAX)));
        assert_eq!(GainTable::decode(&[0xFF; PAGE_SIZE]), Err(TableError::Blank));
        assert_eq!(GainTable::decode(&[0; 3]), Err(TableError::Length(3)));
    }

    #[test]
    fn log_walks_through_both_sectors_for_ever() {
        let mut flash = Flash::blank();
        for n in 1..=3 * PAGE_COUNT as u32 {
            assert_eq!(flash.append(Cut::Never), n);
            let scan = flash.scan();
            assert_eq!(scan.newest.map(|(_, t)| t.sequence), Some(n));
            assert_eq!(scan.previous.map(|(_, t)| t.sequence), (n > 1).then(|| n - 1));
            assert_eq!(scan.damaged, 0);
        }
    }

    fn cut() -> impl Strategy<Value = Cut> {
        prop_oneof![
            3 => Just(Cut::Never),
            1 => (any::<u8>(), 0..=PAGES_PER_SECTOR).prop_map(|(p, n)| Cut::Erasing(p, n)),
            2 => (0..PAGE_SIZE / 4).prop_map(Cut::Words),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Whatever is cut off when: the active table is the old or the new one, valid, always.
        #[test]
        fn power_cuts_never_lose_the_table(cuts in prop::collection::vec(cut(), 1..400)) {
            let mut flash = Flash::blank();
            let mut active = 0;
            for cut in cuts {
                let new = flash.append(cut);
                let now = flash.scan().newest.map_or(0, |(_, t)| t.sequence);
                prop_assert!(now == active || now == new, "{active} became {now}, not {new}");
                if matches!(cut, Cut::Never) {
                    prop_assert_eq!(now, new);
                }
                active = now;
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(page in prop::collection::vec(any::<u8>(), 0..1100)) {
            let _ = GainTable::decode(&page);
        }

        /// Corrupting any pages leaves the newest of those that remain.
        #[test]
        fn newest_intact_table_wins(
            count in 1_u32..200,
            hits in prop::collection::vec((0_usize..200, 0..TABLE_SIZE, 1_u8..), 0..30),
        ) {
            let mut flash = Flash::blank();
            for _ in 0..count { flash.append(Cut::Never); }
            for (page, byte, flip) in hits { flash.0[page][byte] ^= flip; }
            let expected = flash.0.iter().filter_map(|p| GainTable::decode(p).ok()).map(|t| t.sequence).max();
            prop_assert_eq!(flash.scan().newest.map(|(_, t)| t.sequence), expected);
        }
    }
}
