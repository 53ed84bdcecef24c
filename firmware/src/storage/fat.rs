//! A card with FAT32.
//!
//! Mounting, listing and creating files are embedded-sdmmc's. Writing the stream is done here, on
//! blocks: a file gets contiguous clusters, a few when it is created, so that its first records are
//! safe in a moment, and in the next second enough for many minutes. In flight there is then nothing
//! but writes of several blocks at once and, per commit, one write of the directory's block. No cluster
//! is searched, no table is changed, and a write never needs a read.
//!
//! The order of writes keeps the file system usable after a power cut at any of them: the file
//! exists, empty, before it owns clusters; its clusters are chained before the directory names the
//! first; its size grows only after the data are on the card. At worst clusters stay reserved.

use core::cell::Cell;
use core::ops::Range;

use embedded_sdmmc::{
    BlockCount, BlockDevice, BlockIdx, Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};
use heapless::Vec;

use super::card::{Block, Card, CardError};

/// Reserved for a file before anything is written to it.
const FIRST_BYTES: u32 = 256 << 10;
/// Reserved ahead of what is written, bit by bit …
const RESERVE_BYTES: u32 = 64 << 20;
/// … and again when only this is left of it.
const LOW_BYTES: u32 = 1 << 20;
/// Less than this in one piece counts as full.
const MIN_RUN_BYTES: u32 = FIRST_BYTES;
/// Clusters in one piece that are worth taking when a file grows.
const MIN_RUN: u32 = 16;
/// Pieces a file may have.
const MAX_EXTENTS: usize = 64;
/// Largest file: what every reader can open.
const MAX_FILE_BYTES: u32 = 0x7FFF_0000;
/// Entries in a block of the allocation table.
const ENTRIES: u32 = 128;
/// The bits of an entry that count.
const ENTRY_MASK: u32 = 0x0FFF_FFFF;
const END_OF_CHAIN: u32 = 0x0FFF_FFFF;
/// First cluster that exists.
const FIRST_CLUSTER: u32 = 2;
/// Directory entry: flags that make the name appear in small letters.
const SMALL_LETTERS: u8 = 0x08;
/// Blocks that looking through a root directory may take.
const MAX_READS: u32 = 20_000;
const CONFIG_NAME: &str = "CONFIG.TXT";
/// Names with two digits.
const MAX_FILES: u8 = 100;

/// Where things are on the card, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    /// First block of the first allocation table.
    table: u32,
    /// Blocks of one table.
    table_blocks: u32,
    /// Number of equal tables.
    tables: u32,
    /// First block of cluster 2.
    data: u32,
    blocks_per_cluster: u32,
    clusters: u32,
    info: Option<u32>,
    /// First block of the partition.
    start: u32,
}

fn u16_at(block: &Block, at: usize) -> u32 {
    block.contents.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from(u16::from_le_bytes(*b)))
}

fn u32_at(block: &Block, at: usize) -> u32 {
    block.contents.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u8_at(block: &Block, at: usize) -> u8 {
    block.contents.get(at).copied().unwrap_or(0)
}

fn put(block: &mut Block, at: usize, bytes: &[u8]) {
    if let Some(room) = block.contents.get_mut(at..at + bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

impl Geometry {
    /// Reads and checks everything that later arithmetic relies on, here and in embedded-sdmmc.
    fn read<D: BlockDevice>(device: &D) -> Result<Self, CardError> {
        let total = device.num_blocks().map_err(|_| CardError::Missing)?.0;
        let mut block = Block::new();
        let mut load = |at: u32| {
            device.read(core::slice::from_mut(&mut block), BlockIdx(at)).map_err(|_| CardError::Missing)?;
            Ok(block.clone())
        };
        let signed = |block: &Block| u16_at(block, 510) == 0xAA55;
        let mbr = load(0)?;
        if !signed(&mbr) || !matches!(u8_at(&mbr, 450), 0x0B | 0x0C) || u8_at(&mbr, 446) & 0x7F != 0 {
            return Err(CardError::Format);
        }
        let start = u32_at(&mbr, 454);
        if start == 0 || start >= total {
            return Err(CardError::Format);
        }
        let boot = load(start)?;
        let (per_cluster, reserved) = (u32::from(u8_at(&boot, 13)), u16_at(&boot, 14));
        let (tables, blocks, table_blocks) =
            (u32::from(u8_at(&boot, 16)), u32_at(&boot, 32), u32_at(&boot, 36));
        let root = u32_at(&boot, 44);
        let info = u16_at(&boot, 48);
        let small = [u16_at(&boot, 17), u16_at(&boot, 19), u16_at(&boot, 22)];
        let sane = signed(&boot)
            && u16_at(&boot, 11) == 512
            && per_cluster.is_power_of_two()
            && (1..=2).contains(&tables)
            && reserved > 0
            && small == [0; 3]
            && blocks <= total - start;
        let meta = table_blocks.checked_mul(tables).and_then(|t| t.checked_add(reserved));
        let (true, Some(meta)) = (sane, meta.filter(|m| *m < blocks)) else { return Err(CardError::Format) };
        let clusters = (blocks - meta) / per_cluster;
        let held = table_blocks.saturating_mul(ENTRIES);
        // Fewer clusters would make it a FAT16 for everybody else.
        if !(65_525..=0x0FFF_FFF0).contains(&clusters) || held < clusters + FIRST_CLUSTER {
            return Err(CardError::Format);
        }
        if !(FIRST_CLUSTER..clusters + FIRST_CLUSTER).contains(&root) {
            return Err(CardError::Format);
        }
        let info = Some(info).filter(|i| *i > 0 && *i < reserved).map(|i| start + i);
        Ok(Self {
            table: start + reserved,
            table_blocks,
            tables,
            data: start + meta,
            blocks_per_cluster: per_cluster,
            clusters,
            info,
            start,
        })
    }

    fn cluster_block(&self, cluster: u32) -> u32 {
        self.data + (cluster - FIRST_CLUSTER) * self.blocks_per_cluster
    }

    fn partition(&self) -> Range<u32> {
        self.start..self.data + self.clusters * self.blocks_per_cluster
    }

    /// One past the last cluster.
    fn end(&self) -> u32 {
        self.clusters + FIRST_CLUSTER
    }

    fn clusters_for(&self, bytes: u32) -> u32 {
        bytes.div_ceil(512 * self.blocks_per_cluster)
    }
}

/// Contiguous clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    count: u32,
}

impl Run {
    fn last(self) -> u32 {
        self.first + self.count - 1
    }
}

/// The open file.
#[derive(Debug)]
struct Open {
    /// The directory's block with the file's entry, as it is on the card.
    directory: Block,
    directory_at: u32,
    entry: usize,
    runs: Vec<Run, MAX_EXTENTS>,
    /// One past the last block written.
    written: u32,
    /// Room is being reserved.
    reserves: bool,
    /// The card has no more to reserve: looking again would take seconds.
    exhausted: bool,
}

impl Open {
    /// Clusters it owns.
    fn clusters(&self) -> u32 {
        self.runs.iter().map(|run| run.count).sum()
    }
}

/// What embedded-sdmmc may do on the card: nothing outside the partition, and not for ever. A damaged
/// file system leads it to both.
struct Fenced<'a, D> {
    device: &'a D,
    partition: Range<u32>,
    reads_left: Cell<u32>,
}

/// Why an access did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FencedError {
    Device,
    Fence,
}

impl core::fmt::Display for FencedError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Device => "the card failed",
            Self::Fence => "outside the partition, or without end",
        })
    }
}

impl core::error::Error for FencedError {}

impl<D> Fenced<'_, D> {
    fn check(&self, start: BlockIdx, count: usize) -> Result<(), FencedError> {
        let end = u32::try_from(count).ok().and_then(|count| start.0.checked_add(count));
        let inside = end.is_some_and(|end| end <= self.partition.end) && self.partition.contains(&start.0);
        if inside { Ok(()) } else { Err(FencedError::Fence) }
    }
}

impl<D: BlockDevice> BlockDevice for Fenced<'_, D> {
    type Error = FencedError;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), FencedError> {
        // The partition table is the one thing outside that it must read.
        if start.0 != 0 {
            self.check(start, blocks.len())?;
        }
        self.reads_left.set(self.reads_left.get().checked_sub(1).ok_or(FencedError::Fence)?);
        self.device.read(blocks, start).map_err(|_| FencedError::Device)
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), FencedError> {
        self.check(start, blocks.len())?;
        self.device.write(blocks, start).map_err(|_| FencedError::Device)
    }

    fn num_blocks(&self) -> Result<BlockCount, FencedError> {
        self.device.num_blocks().map_err(|_| FencedError::Device)
    }
}

/// A drone does not know the date: all files are of 2026-01-01.
#[derive(Debug)]
struct NoClock;

impl TimeSource for NoClock {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 56,
            zero_indexed_month: 0,
            zero_indexed_day: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        }
    }
}

type Manager<'a, D> = VolumeManager<Fenced<'a, D>, NoClock, 1, 1, 1>;

/// A card with FAT32 on any block device.
#[derive(Debug)]
pub struct FatCard<D> {
    device: D,
    geometry: Option<Geometry>,
    open: Option<Open>,
    /// Where free clusters are looked for first.
    hint: u32,
    /// Digits of the next file's name: those below are taken.
    next_number: u8,
}

fn failed(error: embedded_sdmmc::Error<FencedError>) -> CardError {
    match error {
        embedded_sdmmc::Error::DeviceError(FencedError::Device) => CardError::Device,
        embedded_sdmmc::Error::NotEnoughSpace | embedded_sdmmc::Error::DiskFull => CardError::Full,
        _ => CardError::Format,
    }
}

impl<D: BlockDevice> FatCard<D> {
    /// A card that has not been looked at.
    pub fn new(device: D) -> Self {
        Self { device, geometry: None, open: None, hint: FIRST_CLUSTER, next_number: 0 }
    }

    /// The block device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn load(&self, at: u32, block: &mut Block) -> Result<(), CardError> {
        self.device.read(core::slice::from_mut(block), BlockIdx(at)).map_err(|_| CardError::Device)
    }

    fn store(&self, at: u32, block: &Block) -> Result<(), CardError> {
        self.device.write(core::slice::from_ref(block), BlockIdx(at)).map_err(|_| CardError::Device)
    }

    fn geometry(&self) -> Result<Geometry, CardError> {
        self.geometry.ok_or(CardError::Missing)
    }

    /// Free clusters in one piece: the first piece of `wanted`, else the longest there is, but not
    /// fewer than `least`.
    fn find_run(&self, wanted: u32, least: u32) -> Result<Run, CardError> {
        let g = self.geometry()?;
        let hint = if (FIRST_CLUSTER..g.end()).contains(&self.hint) { self.hint } else { FIRST_CLUSTER };
        let mut best = Run { first: 0, count: 0 };
        for (from, to) in [(hint, g.end()), (FIRST_CLUSTER, hint)] {
            let found = self.find_run_between(&g, from, to, wanted)?;
            if found.count > best.count {
                best = found;
            }
            if best.count >= wanted {
                break;
            }
        }
        if best.count < least { Err(CardError::Full) } else { Ok(best) }
    }

    fn find_run_between(&self, g: &Geometry, from: u32, to: u32, wanted: u32) -> Result<Run, CardError> {
        let (mut best, mut run) = (Run { first: 0, count: 0 }, Run { first: from, count: 0 });
        let mut block = Block::new();
        let mut loaded = None;
        for cluster in from..to {
            if loaded != Some(cluster / ENTRIES) {
                self.load(g.table + cluster / ENTRIES, &mut block)?;
                loaded = Some(cluster / ENTRIES);
            }
            if u32_at(&block, 4 * (cluster % ENTRIES) as usize) & ENTRY_MASK == 0 {
                if run.count == 0 {
                    run.first = cluster;
                }
                run.count += 1;
                if run.count > best.count {
                    best = run;
                }
                if best.count >= wanted {
                    break;
                }
            } else {
                run.count = 0;
            }
        }
        Ok(best)
    }

    /// Sets the table's entries of `first..=last` to what `value` says, in every copy of the table.
    fn set_entries(
        &self,
        g: &Geometry,
        first: u32,
        last: u32,
        value: impl Fn(u32) -> u32,
    ) -> Result<(), CardError> {
        let mut block = Block::new();
        for index in first / ENTRIES..=last / ENTRIES {
            self.load(g.table + index, &mut block)?;
            let in_block = index * ENTRIES..(index + 1) * ENTRIES;
            for cluster in first.max(in_block.start)..=last.min(in_block.end - 1) {
                let at = 4 * (cluster % ENTRIES) as usize;
                let kept = u32_at(&block, at) & !ENTRY_MASK;
                put(&mut block, at, &(kept | value(cluster) & ENTRY_MASK).to_le_bytes());
            }
            for copy in (0..g.tables).rev() {
                self.store(g.table + copy * g.table_blocks + index, &block)?;
            }
        }
        Ok(())
    }

    /// Chains a run of clusters, and links it to what was before it.
    fn reserve(&mut self, wanted: u32, least: u32, after: Option<u32>) -> Result<Run, CardError> {
        let g = self.geometry()?;
        let mut run = self.find_run(wanted, least)?;
        run.count = run.count.min(wanted);
        let last = run.last();
        self.set_entries(&g, run.first, last, |c| if c == last { END_OF_CHAIN } else { c + 1 })?;
        if let Some(before) = after {
            self.set_entries(&g, before, before, |_| run.first)?;
        }
        self.hint = last + 1;
        Ok(run)
    }

    /// Says that the number of free clusters is not known, which makes every reader count them.
    fn forget_free_count(&self, g: &Geometry) -> Result<(), CardError> {
        let Some(info) = g.info else { return Ok(()) };
        let mut block = Block::new();
        self.load(info, &mut block)?;
        if u32_at(&block, 0) != 0x4161_5252 || u32_at(&block, 484) != 0x6141_7272 {
            return Ok(());
        }
        put(&mut block, 488, &u32::MAX.to_le_bytes());
        put(&mut block, 492, &self.hint.to_le_bytes());
        self.store(info, &block)
    }

    /// Runs something on the root directory with embedded-sdmmc.
    fn in_root<R>(
        &self,
        work: impl FnOnce(&Manager<'_, D>, embedded_sdmmc::RawDirectory) -> Result<R, CardError>,
    ) -> Result<R, CardError> {
        let partition = self.geometry()?.partition();
        let reads_left = Cell::new(MAX_READS);
        let fenced = Fenced { device: &self.device, partition, reads_left };
        let manager: Manager<'_, D> = VolumeManager::new_with_limits(fenced, NoClock, 1);
        let volume = manager.open_raw_volume(VolumeIdx(0)).map_err(failed)?;
        let root = manager.open_root_dir(volume).map_err(failed)?;
        work(&manager, root)
        // Dropping the manager closes everything: it holds no state that the card does not have.
    }

    /// The file's block as a block of the card.
    fn locate(&self, g: &Geometry, block: u32) -> Option<(u32, u32)> {
        let mut start = 0;
        for run in &self.open.as_ref()?.runs {
            let length = run.count * g.blocks_per_cluster;
            if block < start + length {
                let at = block - start;
                return Some((g.cluster_block(run.first) + at, length - at));
            }
            start += length;
        }
        None
    }

    /// So many more clusters for the open file, if they are in one piece; else fewer. Gives their number.
    fn extend(&mut self, clusters: u32) -> Result<u32, CardError> {
        let before = self.open.as_ref().and_then(|o| o.runs.last()).map(|r| r.last());
        if self.open.as_ref().is_none_or(|o| o.runs.is_full()) {
            return Err(CardError::Full);
        }
        let run = self.reserve(clusters, MIN_RUN, before)?;
        let Some(open) = &mut self.open else { return Err(CardError::Closed) };
        match open.runs.last_mut() {
            Some(last) if last.last() + 1 == run.first => last.count += run.count,
            // There is room: checked above.
            _ => _ = open.runs.push(run),
        }
        Ok(run.count)
    }
}

fn numbered<'n>(base: &str, number: u8, into: &'n mut [u8; 8]) -> Option<&'n str> {
    let base = base.as_bytes().get(..base.len().min(6))?;
    let digits = [b'0' + number / 10, b'0' + number % 10];
    into.get_mut(..base.len())?.copy_from_slice(base);
    into.get_mut(base.len()..base.len() + 2)?.copy_from_slice(&digits);
    core::str::from_utf8(into.get(..base.len() + 2)?).ok()
}

impl<D: BlockDevice> Card for FatCard<D> {
    fn mount(&mut self) -> Result<(), CardError> {
        (self.geometry, self.open, self.next_number) = (None, None, 0);
        self.geometry = Some(Geometry::read(&self.device)?);
        let least = self.geometry()?.clusters_for(MIN_RUN_BYTES);
        let run = self.find_run(least, least)?;
        self.hint = run.first;
        Ok(())
    }

    fn read_config(&mut self, into: &mut [u8]) -> Result<Option<usize>, CardError> {
        self.in_root(|manager, root| {
            let file = match manager.open_file_in_dir(root, CONFIG_NAME, Mode::ReadOnly) {
                Ok(file) => file,
                Err(embedded_sdmmc::Error::NotFound) => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            let length = manager.file_length(file).map_err(failed)? as usize;
            let mut done = 0;
            while done < into.len().min(length) {
                let Some(room) = into.get_mut(done..) else { break };
                match manager.read(file, room).map_err(failed)? {
                    0 => break,
                    n => done += n,
                }
            }
            Ok(Some(length))
        })
    }

    fn find_name(&mut self, base: &str) -> Result<(), CardError> {
        self.next_number = self.in_root(|manager, root| {
            let mut text = [0; 8];
            for number in 0..MAX_FILES {
                let name = numbered(base, number, &mut text).ok_or(CardError::Names)?;
                match manager.find_directory_entry(root, name) {
                    Ok(_) => {}
                    Err(embedded_sdmmc::Error::NotFound) => return Ok(number),
                    Err(error) => return Err(failed(error)),
                }
            }
            // Said when a file is wanted.
            Ok(MAX_FILES)
        })?;
        Ok(())
    }

    fn create(&mut self, base: &str) -> Result<u8, CardError> {
        let g = self.geometry()?;
        self.open = None;
        let first = self.next_number;
        let (number, at, offset) = self.in_root(|manager, root| {
            let mut text = [0; 8];
            for number in first..MAX_FILES {
                let name = numbered(base, number, &mut text).ok_or(CardError::Names)?;
                match manager.find_directory_entry(root, name) {
                    Ok(_) => continue,
                    Err(embedded_sdmmc::Error::NotFound) => {}
                    Err(error) => return Err(failed(error)),
                }
                let file = manager.open_file_in_dir(root, name, Mode::ReadWriteCreate).map_err(failed)?;
                manager.close_file(file).map_err(failed)?;
                let entry = manager.find_directory_entry(root, name).map_err(failed)?;
                return Ok((number, entry.entry_block.0, entry.entry_offset as usize));
            }
            Err(CardError::Names)
        })?;
        self.next_number = number + 1;
        let first = g.clusters_for(FIRST_BYTES);
        let run = self.reserve(first, first, None)?;
        self.forget_free_count(&g)?;
        let mut directory = Block::new();
        self.load(at, &mut directory)?;
        let [c0, c1, c2, c3] = run.first.to_le_bytes();
        put(&mut directory, offset + 12, &[SMALL_LETTERS]);
        put(&mut directory, offset + 20, &[c2, c3]);
        put(&mut directory, offset + 26, &[c0, c1, 0, 0, 0, 0]);
        self.store(at, &directory)?;
        let mut runs = Vec::new();
        let _ = runs.push(run);
        self.open = Some(Open {
            directory,
            directory_at: at,
            entry: offset,
            runs,
            written: 0,
            reserves: true,
            exhausted: false,
        });
        Ok(number)
    }

    fn reserve_more(&mut self) -> Result<bool, CardError> {
        let g = self.geometry()?;
        let hint = self.hint;
        let Some(open) = &mut self.open else { return Ok(false) };
        let ahead = (open.clusters() * g.blocks_per_cluster).saturating_sub(open.written);
        open.reserves = ahead < if open.reserves { RESERVE_BYTES } else { LOW_BYTES } / 512;
        if !open.reserves || open.exhausted {
            return Ok(false);
        }
        // To the end of a block of the table: one block of each of its copies changes.
        let clusters = (ENTRIES - hint % ENTRIES).max(g.clusters_for(MIN_RUN_BYTES));
        let found = match self.extend(clusters) {
            Err(CardError::Full) => 0,
            other => other?,
        };
        // The longest piece is short: what there is must do. When it is used up the log ends, and that
        // is said then.
        if let Some(open) = &mut self.open
            && found < clusters
        {
            open.exhausted = true;
        }
        Ok(found > 0)
    }

    fn write(&mut self, first: u32, mut blocks: &[Block]) -> Result<(), CardError> {
        let g = self.geometry()?;
        let mut block = first;
        if self.open.is_none() {
            return Err(CardError::Closed);
        }
        while !blocks.is_empty() {
            let Some((at, room)) = self.locate(&g, block) else {
                self.extend(g.clusters_for(FIRST_BYTES))?;
                continue;
            };
            let count = blocks.len().min(room as usize);
            let (now, rest) = blocks.split_at_checked(count).ok_or(CardError::Closed)?;
            self.device.write(now, BlockIdx(at)).map_err(|_| CardError::Device)?;
            blocks = rest;
            block += u32::try_from(count).unwrap_or(0);
        }
        if let Some(open) = &mut self.open {
            open.written = open.written.max(block);
        }
        Ok(())
    }

    fn commit(&mut self, size: u32) -> Result<(), CardError> {
        if size > MAX_FILE_BYTES {
            return Err(CardError::Full);
        }
        let open = self.open.as_mut().ok_or(CardError::Closed)?;
        put(&mut open.directory, open.entry + 28, &size.to_le_bytes());
        let blocks = core::slice::from_ref(&open.directory);
        self.device.write(blocks, BlockIdx(open.directory_at)).map_err(|_| CardError::Device)
    }

    fn close(&mut self, size: u32) -> Result<(), CardError> {
        let g = self.geometry()?;
        self.commit(size)?;
        let Some(open) = self.open.take() else { return Ok(()) };
        // Clusters behind the last used one are free again.
        let mut used = g.clusters_for(size).max(1);
        for run in &open.runs {
            let keep = used.min(run.count);
            used -= keep;
            if keep > 0 && used == 0 {
                let last = run.first + keep - 1;
                self.set_entries(&g, last, last, |_| END_OF_CHAIN)?;
                self.hint = last + 1;
            }
            if keep < run.count {
                self.set_entries(&g, run.first + keep, run.last(), |_| 0)?;
            }
        }
        self.forget_free_count(&g)
    }
}
