//! Reads, writes and verifies the gain tables of a drone.
//!
//! The table area is an append log in flash ([`gain_table`]). It is read through the firmware, whose
//! memory service exposes it, or through the bootloader without one. To save time, only the first bytes
//! of each page are read, then the rest of the tables that count; the next page to be written is read
//! completely.

use steady_common::cload::SECTOR_FIRST_PAGES;
use steady_common::crtp::memory::Kind;
use steady_common::gain_table::{
    self, FIRST_FLASH_PAGE, GainTable, PAGE_COUNT, PAGE_SIZE, PAGES_PER_SECTOR, Page, PageSource, Scan,
    TABLE_SIZE, TableError,
};
use steady_common::gains::GAINS;
use steady_common::value::Value;

use crate::bootloader::Bootloader;
use crate::client::{Active, Client, Flags, Param};
use crate::error::{Error, Result};
use crate::link::Traffic;

/// Bytes that tell a blank page from a used one. Pages are written from their first byte on, so a
/// page that was begun shows it there.
const HEAD: usize = 24;
/// Below this voltage flashing is refused: the drone might switch off in the middle.
pub const MIN_BATTERY_V: f32 = 3.4;
/// Attempts to write a page.
const ATTEMPTS: usize = 8;

/// Phase of a transfer, with parts done and all parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading.
    Reading(usize, usize),
    /// Restarting into the bootloader.
    Entering,
    /// Writing.
    Writing(usize, usize),
    /// Reading back.
    Verifying(usize, usize),
    /// Restarting into the firmware.
    Leaving,
    /// Asking the firmware what it flies.
    Asking,
}

/// Content of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PageContent {
    /// Erased.
    Blank,
    /// A table.
    Table(GainTable),
    /// Torn, corrupt, or for another law.
    Damaged(TableError),
}

/// The table area. Bytes that were not read count as blank.
#[derive(Clone, PartialEq, Eq)]
pub struct Area {
    pages: Vec<Page>,
}

impl std::fmt::Debug for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Area").finish_non_exhaustive()
    }
}

impl PageSource for &Area {
    type Error = std::convert::Infallible;

    fn read(&mut self, index: usize, page: &mut Page) -> std::result::Result<(), Self::Error> {
        if let Some(found) = self.pages.get(index) {
            *page = *found;
        }
        Ok(())
    }
}

impl Area {
    /// An erased area.
    #[must_use]
    pub fn blank() -> Self {
        Self { pages: vec![[0xFF; PAGE_SIZE]; PAGE_COUNT] }
    }

    /// Content of a page.
    #[must_use]
    pub fn page(&self, index: usize) -> PageContent {
        match self.pages.get(index).map(|p| GainTable::decode(p)) {
            Some(Ok(table)) => PageContent::Table(table),
            Some(Err(TableError::Blank)) | None => PageContent::Blank,
            Some(Err(error)) => PageContent::Damaged(error),
        }
    }

    /// All tables with their pages, oldest first.
    #[must_use]
    pub fn tables(&self) -> Vec<(usize, GainTable)> {
        let mut tables: Vec<(usize, GainTable)> = (0..self.pages.len())
            .filter_map(|index| match self.page(index) {
                PageContent::Table(table) => Some((index, table)),
                _ => None,
            })
            .collect();
        tables.sort_by_key(|(_, table)| table.sequence);
        tables
    }

    /// Scans it as the firmware does.
    #[must_use]
    pub fn scan(&self) -> Scan {
        let Ok(scan) = gain_table::scan(&mut &*self);
        scan
    }

    /// Bytes of a page.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Option<&Page> {
        self.pages.get(index)
    }

    fn put(&mut self, start: usize, bytes: &[u8]) {
        let places = self.pages.iter_mut().flatten().skip(start);
        places.zip(bytes).for_each(|(place, byte)| *place = *byte);
    }

    /// Takes over the content of a page that was read back.
    fn written(&mut self, index: usize, erased: bool, now: &Page) {
        if erased {
            let sector = index / PAGES_PER_SECTOR * PAGES_PER_SECTOR;
            self.pages.iter_mut().skip(sector).take(PAGES_PER_SECTOR).for_each(|p| *p = [0xFF; PAGE_SIZE]);
        }
        self.put(index * PAGE_SIZE, now);
    }

    /// Reads as much as is needed; `read` gets parts of the area by offset and length.
    fn fetch(mut read: impl FnMut(&[(usize, usize)]) -> Result<Vec<Vec<u8>>>) -> Result<Self> {
        let mut area = Self::blank();
        let mut take = |area: &mut Self, parts: &[(usize, usize)]| -> Result<()> {
            for ((start, _), bytes) in parts.iter().zip(read(parts)?) {
                area.put(*start, &bytes);
            }
            Ok(())
        };
        let heads: Vec<(usize, usize)> = (0..PAGE_COUNT).map(|n| (n * PAGE_SIZE, HEAD)).collect();
        take(&mut area, &heads)?;
        let used: Vec<(usize, usize)> = (0..PAGE_COUNT)
            .filter(|n| area.page(*n) != PageContent::Blank)
            .map(|n| (n * PAGE_SIZE + HEAD, TABLE_SIZE - HEAD))
            .collect();
        take(&mut area, &used)?;
        // The newest table and the next page must be read completely, which may change which pages these
        // are.
        let mut known = [false; PAGE_COUNT];
        loop {
            let scan = area.scan();
            let newest = scan.newest.map(|(index, _)| index);
            let next = (!scan.next.erases).then_some(scan.next.index);
            let unknown: Vec<usize> = newest.into_iter().chain(next).filter(|n| !known[*n]).collect();
            if unknown.is_empty() {
                return Ok(area);
            }
            let parts: Vec<(usize, usize)> =
                unknown.iter().map(|n| (n * PAGE_SIZE + HEAD, PAGE_SIZE - HEAD)).collect();
            take(&mut area, &parts)?;
            unknown.into_iter().for_each(|n| known[n] = true);
        }
    }
}

/// State of a drone before it is flashed.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Its tables.
    pub area: Area,
    /// The gains that fly; `None` without the firmware.
    pub active: Option<Active>,
    /// The supervisor's flags; `None` without the firmware.
    pub flags: Option<Flags>,
    /// Battery voltage, V.
    pub battery_v: f32,
}

impl Survey {
    /// Reads it through the firmware.
    ///
    /// # Errors
    /// If the drone does not answer, is not a Crazyflie 2.1, or it is not Steady's firmware.
    pub fn take(client: &mut Client, observe: &mut dyn FnMut(Phase)) -> Result<Self> {
        client.platform()?.check_board()?;
        let battery_v = client.battery_v()?;
        let flags = Some(client.flags()?);
        let active = Some(client.active_table()?);
        Ok(Self { area: read(client, observe)?, active, flags, battery_v })
    }

    /// Refuses a drone that is armed or flies, or whose battery is low.
    ///
    /// # Errors
    /// With what is wrong, and what to do.
    pub fn check(&self, min_battery_v: f32) -> Result<()> {
        check_state(self.flags, self.battery_v, min_battery_v)
    }
}

/// Refuses to restart a drone that is armed or flies, or whose battery is low.
///
/// # Errors
/// With what is wrong, and what to do.
pub fn check_state(flags: Option<Flags>, battery_v: f32, min_battery_v: f32) -> Result<()> {
    let refused = |why: String| Err(Error::Refused(why));
    if flags.is_some_and(Flags::is_flying) {
        return refused("the drone is flying: land it first".to_owned());
    }
    // The official firmware is always armed on a Crazyflie 2.1; what counts there is that it does not fly.
    if flags.is_some_and(|f| f.is_armed() && !f.arms_itself()) {
        return refused("the drone is armed: `steady disarm` first".to_owned());
    }
    // Written so that NaN is refused too.
    if !matches!(
        battery_v.partial_cmp(&min_battery_v),
        Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal)
    ) {
        return refused(format!(
            "the battery has {battery_v:.2} V, less than {min_battery_v:.2} V: charge it first (or --min-battery V)"
        ));
    }
    Ok(())
}

/// Reads the table area through the firmware.
///
/// # Errors
/// If the drone does not answer, or it is not Steady's firmware.
pub fn read(client: &mut Client, observe: &mut dyn FnMut(Phase)) -> Result<Area> {
    let missing = || {
        Error::Refused(
            "the drone shows no gain tables: is Steady's firmware on it? `steady flash` puts it there"
                .to_owned(),
        )
    };
    let (id, size) = client.find_memory(Kind::App)?.ok_or_else(missing)?;
    if usize::try_from(size) != Ok(PAGE_COUNT * PAGE_SIZE) {
        return Err(missing());
    }
    Area::fetch(|parts| {
        let parts: Vec<(u32, usize)> =
            parts.iter().map(|(start, len)| (u32::try_from(*start).unwrap_or(u32::MAX), *len)).collect();
        client.read_memory(id, &parts, &mut |done, of| observe(Phase::Reading(done, of)))
    })
}

/// Reads the table area through the bootloader.
///
/// # Errors
/// If the drone does not answer.
pub fn read_flash(loader: &mut Bootloader<'_>, observe: &mut dyn FnMut(Phase)) -> Result<Area> {
    Area::fetch(|parts| {
        let base = usize::from(FIRST_FLASH_PAGE) * PAGE_SIZE;
        let parts: Vec<(usize, usize)> = parts.iter().map(|(start, len)| (base + start, *len)).collect();
        loader.read(&parts, &mut |done, of| observe(Phase::Reading(done, of)))
    })
}

/// A table that was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Its sequence number.
    pub sequence: u32,
    /// Its page in the area.
    pub page: usize,
    /// A sector was erased for it.
    pub erased: bool,
    /// Pages that failed verification before.
    pub bad_pages: usize,
    /// Time from entering the bootloader until the firmware reported that it flies the table, s.
    pub seconds: f64,
    /// Traffic in that time.
    pub packets: (u64, u64),
}

/// Adds a table, reads it back, restarts the firmware and asks which table it flies. The table gets
/// the next sequence number.
///
/// # Errors
/// In every case the drone is restarted into its firmware, which then flies the new table or the one
/// before; if that fails, the text says how to do it.
pub fn write(
    client: &mut Client,
    survey: &Survey,
    table: &GainTable,
    observe: &mut dyn FnMut(Phase),
) -> Result<Written> {
    let mut area = survey.area.clone();
    let scan = area.scan();
    let table = GainTable { sequence: scan.next_sequence(), ..*table };
    let page = table.encode();
    GainTable::decode(&page)
        .map_err(|error| Error::Refused(format!("the table cannot be written: {error}")))?;
    let before = scan.newest.map_or(0, |(_, t)| t.sequence);
    let (started, traffic) = (client.now(), client.traffic());

    observe(Phase::Entering);
    let mut loader = Bootloader::enter(client.link()).map_err(|error| stranded(error, before))?;
    let outcome = program(&mut loader, &mut area, &page, observe);
    observe(Phase::Leaving);
    let back = loader.leave();
    client.forget();
    let (index, erased, bad_pages) = match (outcome, back) {
        (Ok(done), Ok(())) => done,
        (Err(error), Ok(())) => {
            // The new table may be complete although it could not be verified: the firmware knows.
            let flies = client
                .active_table()
                .map_or_else(|_| "its newest whole table".to_owned(), |a| name(a.sequence));
            return Err(Error::Stranded {
                cause: Box::new(error),
                state: format!("The drone is back in its firmware and flies {flies}."),
            });
        }
        (Ok(_), Err(error)) => {
            return Err(Error::Stranded {
                cause: Box::new(error),
                state: format!(
                    "Table {} was written and read back, but the firmware does not answer. Switch the drone off \
                     and on: it starts with table {}.",
                    table.sequence, table.sequence
                ),
            });
        }
        (Err(error), Err(_)) => return Err(stranded(error, before)),
    };
    observe(Phase::Asking);
    let active = client.active_table()?;
    if active.sequence != table.sequence {
        return Err(Error::Verification(format!(
            "table {} is in the drone's flash, but the firmware flies {}: its bounds or its control law are not this \
             program's. Put the firmware of this version on it with `steady flash`",
            table.sequence,
            name(active.sequence)
        )));
    }
    let sent = |t: Traffic| (t.sent, t.received);
    let ((s0, r0), (s1, r1)) = (sent(traffic), sent(client.traffic()));
    Ok(Written {
        sequence: table.sequence,
        page: index,
        erased,
        bad_pages,
        seconds: (client.now() - started).as_secs_f64(),
        packets: (s1 - s0, r1 - r0),
    })
}

fn name(sequence: u32) -> String {
    if sequence == 0 { "the built-in gains".to_owned() } else { format!("table {sequence}") }
}

fn stranded(error: Error, before: u32) -> Error {
    Error::Stranded {
        cause: Box::new(error),
        state: format!(
            "The drone may be in its bootloader. Switch it off and on: it starts its firmware with {}, or with the \
             new table if that was complete. Then try again.",
            name(before)
        ),
    }
}

/// Writes to the next page of the append log, and to the one after it if that fails.
fn program(
    loader: &mut Bootloader<'_>,
    area: &mut Area,
    page: &Page,
    observe: &mut dyn FnMut(Phase),
) -> Result<(usize, bool, usize)> {
    let mut failure = None;
    for bad_pages in 0..ATTEMPTS {
        let next = area.scan().next;
        let flash_page = FIRST_FLASH_PAGE + u16::try_from(next.index).unwrap_or(u16::MAX);
        debug_assert_eq!(next.erases, SECTOR_FIRST_PAGES.contains(&flash_page));
        observe(Phase::Writing(0, 1));
        // Every time: a bootloader that restarted in between has lost its buffer.
        loader.load(&[*page])?;
        let written = loader.write(flash_page, 1);
        observe(Phase::Verifying(0, 1));
        let now = loader.read_page(flash_page)?;
        if now == *page {
            return Ok((next.index, next.erases, bad_pages));
        }
        area.written(next.index, next.erases, &now);
        failure = written.err();
    }
    Err(failure.unwrap_or_else(|| {
        Error::Verification(format!(
            "{ATTEMPTS} pages of the drone's flash do not hold what is written to them"
        ))
    }))
}

/// Names of the try-out parameters, in table order.
pub const TRY_OUT: [&str; 24] = [
    "gain.posPxy",
    "gain.posPz",
    "gain.posIxy",
    "gain.posIz",
    "gain.posDxy",
    "gain.posDz",
    "gain.velPxy",
    "gain.velPz",
    "gain.velIxy",
    "gain.velIz",
    "gain.velDxy",
    "gain.velDz",
    "gain.attPxy",
    "gain.attPz",
    "gain.attIxy",
    "gain.attIz",
    "gain.attDxy",
    "gain.attDz",
    "gain.ratePxy",
    "gain.ratePz",
    "gain.rateIxy",
    "gain.rateIz",
    "gain.rateDxy",
    "gain.rateDz",
];
/// Parameter that activates the try-out gains.
pub const TRY_OUT_SWITCH: &str = "gain.tryOut";

/// Flies a table's gains without writing the flash. The firmware takes them over while it is disarmed
/// or hovers, under its gain guard.
///
/// # Errors
/// If the drone does not answer, a gain is refused, or the firmware does not take them over.
pub fn try_out(client: &mut Client, table: &GainTable) -> Result<()> {
    let switch = client.param(TRY_OUT_SWITCH)?;
    // Off first: gains are taken over all together.
    client.set(TRY_OUT_SWITCH, switch, Value::U8(0))?;
    let mut params = Vec::new();
    for (name, value) in TRY_OUT.into_iter().zip(table.gains.to_array()) {
        let param = client.param(name)?;
        client.set(name, param, Value::F32(value))?;
        params.push(param);
    }
    let values = client.values(&params, &mut |_| {})?;
    for ((gain, wanted), found) in GAINS.iter().zip(table.gains.to_array()).zip(values) {
        if found != Value::F32(wanted) {
            return Err(Error::Refused(format!(
                "the drone has {} = {} instead of {wanted}: try again",
                gain.name,
                crate::client::show(found)
            )));
        }
    }
    client.set(TRY_OUT_SWITCH, switch, Value::U8(1))?;
    await_try_out(client, true)
}

/// Goes back to the table in flash.
///
/// # Errors
/// If the drone does not answer, or the firmware does not let go of the gains.
pub fn end_try_out(client: &mut Client) -> Result<()> {
    let switch: Param = client.param(TRY_OUT_SWITCH)?;
    client.set(TRY_OUT_SWITCH, switch, Value::U8(0))?;
    await_try_out(client, false)
}

/// Waits until the firmware has changed its gains, which it does only while disarmed or hovering.
fn await_try_out(client: &mut Client, wanted: bool) -> Result<()> {
    let until = client.now() + std::time::Duration::from_secs(3);
    loop {
        if client.active_table()?.is_try_out == wanted {
            return Ok(());
        }
        if client.now() >= until {
            let what = if wanted { "take over" } else { "let go of" };
            return Err(Error::Refused(format!(
                "the drone does not {what} the gains: it must be disarmed or hover, and its guard must not have refused them"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flash behind a reader that counts the bytes.
    fn fetch(flash: &[Page]) -> (Area, usize) {
        let bytes: Vec<u8> = flash.iter().flatten().copied().collect();
        let mut count = 0;
        let area = Area::fetch(|parts| {
            count += parts.iter().map(|(_, len)| len).sum::<usize>();
            Ok(parts.iter().map(|(start, len)| bytes[*start..start + len].to_vec()).collect())
        });
        (area.unwrap(), count)
    }

    fn table(sequence: u32) -> GainTable {
        GainTable { sequence, ..GainTable::built_in() }
    }

    #[test]
    fn the_area_is_seen_as_the_firmware_sees_it_with_a_fraction_of_the_bytes() {
        let mut flash = vec![[0xFF; PAGE_SIZE]; PAGE_COUNT];
        for (page, n) in flash.iter_mut().zip(1..=5) {
            *page = table(n).encode();
        }
        // Torn at a word, and a stray byte at the very end of the page that would be next.
        flash[5][..40].copy_from_slice(&table(6).encode()[..40]);
        flash[6][PAGE_SIZE - 1] = 0;
        let (area, bytes) = fetch(&flash);
        let whole = Area { pages: flash };
        assert_eq!(area.scan(), whole.scan());
        assert_eq!(area.scan().next.index, 7);
        assert_eq!(area.tables().len(), 5);
        assert!(
            matches!(area.page(5), PageContent::Damaged(_))
                && matches!(area.page(6), PageContent::Damaged(_))
        );
        assert!(bytes < 12_000, "{bytes}");
    }

    #[test]
    fn a_table_with_something_behind_it_is_not_the_newest() {
        let mut flash = vec![[0xFF; PAGE_SIZE]; PAGE_COUNT];
        flash[0] = table(1).encode();
        flash[1] = table(2).encode();
        flash[1][500] = 0;
        let (area, _) = fetch(&flash);
        assert_eq!(area.scan().newest.map(|(n, _)| n), Some(0));
        assert_eq!(area.scan(), Area { pages: flash }.scan());
    }

    #[test]
    fn a_drone_that_flies_or_is_empty_is_refused() {
        assert!(check_state(Some(Flags(0)), 4.0, 3.4).is_ok());
        assert!(check_state(Some(Flags(0b110)), 4.0, 3.4).is_ok(), "armed always, and not flying");
        assert!(check_state(Some(Flags(0b1_0110)), 4.0, 3.4).is_err());
        for (flags, volts, word) in
            [(1 << 4 | 2, 4.0, "flying"), (2, 4.0, "armed"), (0, 3.3, "battery"), (0, f32::NAN, "battery")]
        {
            let error = check_state(Some(Flags(flags)), volts, 3.4).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(error.exit_code(), 1);
        }
    }
}
