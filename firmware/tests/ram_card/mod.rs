//! A card in memory with a FAT32 of its own making, that fails on purpose, and a reader for it.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every access fails, as without a card.
    Dead,
    /// Power is cut in the write of this block (counted from the start), of which so many bytes
    /// arrive. Everything afterwards fails.
    PowerCut {
        write: u32,
        bytes: usize,
    },
    /// Every so many write commands take so many milliseconds.
    Stall {
        every: u32,
        ms: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "broken on purpose")
    }
}

impl std::error::Error for Broken {}

const PARTITION: u32 = 2048;
const RESERVED: u32 = 32;
const CLUSTERS: u32 = 70_000;
const TABLE_BLOCKS: u32 = (CLUSTERS + 2).div_ceil(128);
const TABLE: u32 = PARTITION + RESERVED;
const DATA: u32 = TABLE + 2 * TABLE_BLOCKS;

/// The card. Blocks that were never written hold old log-like bytes, as a used card does.
#[derive(Debug)]
pub(crate) struct RamCard {
    blocks: RefCell<BTreeMap<u32, [u8; 512]>>,
    per_cluster: u32,
    fault: Cell<Fault>,
    dead: Cell<bool>,
    writes: Cell<u32>,
    commands: Cell<u32>,
    reads: Cell<u32>,
    read_limit: Cell<u32>,
    busy_ms: Cell<u32>,
}

impl RamCard {
    fn empty(per_cluster: u32) -> Self {
        Self {
            blocks: RefCell::new(BTreeMap::new()),
            per_cluster,
            fault: Cell::new(Fault::None),
            dead: Cell::new(false),
            writes: Cell::new(0),
            commands: Cell::new(0),
            reads: Cell::new(0),
            read_limit: Cell::new(u32::MAX),
            busy_ms: Cell::new(0),
        }
    }

    /// A fresh FAT32 with so many blocks per cluster.
    pub(crate) fn formatted(per_cluster: u32) -> Self {
        let card = Self::empty(per_cluster);
        card.format();
        card
    }

    /// Makes the file system anew.
    pub(crate) fn reformat(&self) {
        self.blocks.borrow_mut().clear();
        self.format();
    }

    /// Overwrites one byte of a block of a kind: partition table, boot sector, information sector,
    /// one of the first blocks of the tables, one of the root directory's.
    pub(crate) fn corrupt(&self, kind: usize, which: u32, offset: usize, value: u8) {
        let at = match kind {
            0 => 0,
            1 => PARTITION,
            2 => PARTITION + 1,
            3 => TABLE,
            4 => TABLE + which % 3,
            _ => DATA + which % 2,
        };
        let mut block = self.get(at);
        block[offset] = value;
        self.put(at, block);
    }

    /// Every read after so many fails, until the limit is set anew.
    pub(crate) fn limit_reads(&self, reads: u32) {
        self.read_limit.set(self.reads.get().saturating_add(reads));
    }

    fn format(&self) {
        let (card, per_cluster) = (self, self.per_cluster);
        let total = DATA - PARTITION + CLUSTERS * per_cluster;
        let mut mbr = [0; 512];
        mbr[446 + 4] = 0x0C;
        mbr[454..458].copy_from_slice(&PARTITION.to_le_bytes());
        mbr[458..462].copy_from_slice(&total.to_le_bytes());
        mbr[510..].copy_from_slice(&[0x55, 0xAA]);
        card.put(0, mbr);
        let mut boot = [0; 512];
        boot[..3].copy_from_slice(&[0xEB, 0x58, 0x90]);
        boot[3..11].copy_from_slice(b"MSWIN4.1");
        boot[11..13].copy_from_slice(&512_u16.to_le_bytes());
        boot[13] = u8::try_from(per_cluster).unwrap();
        boot[14..16].copy_from_slice(&u16::try_from(RESERVED).unwrap().to_le_bytes());
        boot[16] = 2;
        boot[21] = 0xF8;
        boot[24..28].copy_from_slice(&[63, 0, 255, 0]);
        boot[28..32].copy_from_slice(&PARTITION.to_le_bytes());
        boot[32..36].copy_from_slice(&total.to_le_bytes());
        boot[36..40].copy_from_slice(&TABLE_BLOCKS.to_le_bytes());
        boot[44..48].copy_from_slice(&2_u32.to_le_bytes());
        boot[48..52].copy_from_slice(&[1, 0, 6, 0]);
        boot[64..67].copy_from_slice(&[0x80, 0, 0x29]);
        boot[71..82].copy_from_slice(b"NO NAME    ");
        boot[82..90].copy_from_slice(b"FAT32   ");
        boot[510..].copy_from_slice(&[0x55, 0xAA]);
        card.put(PARTITION, boot);
        card.put(PARTITION + 6, boot);
        let mut info = [0; 512];
        info[..4].copy_from_slice(b"RRaA");
        info[484..488].copy_from_slice(b"rrAa");
        info[488..492].copy_from_slice(&(CLUSTERS - 1).to_le_bytes());
        info[492..496].copy_from_slice(&3_u32.to_le_bytes());
        info[510..].copy_from_slice(&[0x55, 0xAA]);
        card.put(PARTITION + 1, info);
        for block in 0..2 * TABLE_BLOCKS {
            card.put(TABLE + block, [0; 512]);
        }
        for (cluster, entry) in [(0, 0x0FFF_FFF8), (1, 0x0FFF_FFFF), (2, 0x0FFF_FFFF)] {
            card.set_entry(cluster, entry);
        }
        for block in 0..per_cluster {
            card.put(DATA + block, [0; 512]);
        }
    }

    /// A card whose blocks are noise, some with the marks of a file system here and there.
    pub(crate) fn nonsense(seed: u32) -> Self {
        let card = if seed.is_multiple_of(2) { Self::empty(8) } else { Self::formatted(8) };
        let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        // The fields that hold sizes and places.
        const VITAL: [(u32, usize, usize); 9] = [
            (0, 454, 4),
            (0, 510, 2),
            (PARTITION, 11, 2),
            (PARTITION, 13, 1),
            (PARTITION, 16, 1),
            (PARTITION, 32, 4),
            (PARTITION, 36, 4),
            (PARTITION, 44, 4),
            (PARTITION, 510, 2),
        ];
        let (block, at, length) = VITAL[(seed / 2) as usize % VITAL.len()];
        let mut bytes = card.get(block);
        let before = bytes;
        let values: [u32; 4] = [0, u32::MAX, random(), random() & 0xFFFF_0000];
        let value = values[(seed / 18) as usize % 4].to_le_bytes();
        bytes[at..at + length].copy_from_slice(&value[..length]);
        let harmless = bytes == before || (at == 16 && bytes[16] == 1);
        if harmless {
            bytes[at] = bytes[at].wrapping_add(3);
        }
        card.put(block, bytes);
        card
    }

    fn put(&self, at: u32, block: [u8; 512]) {
        self.blocks.borrow_mut().insert(at, block);
    }

    fn get(&self, at: u32) -> [u8; 512] {
        self.blocks.borrow().get(&at).copied().unwrap_or([b'S'; 512])
    }

    fn set_entry(&self, cluster: u32, entry: u32) {
        for copy in 0..2 {
            let at = TABLE + copy * TABLE_BLOCKS + cluster / 128;
            let mut block = self.get(at);
            block[4 * (cluster % 128) as usize..][..4].copy_from_slice(&entry.to_le_bytes());
            self.put(at, block);
        }
    }

    fn entry(&self, cluster: u32) -> u32 {
        let block = self.get(TABLE + cluster / 128);
        u32::from_le_bytes(block[4 * (cluster % 128) as usize..][..4].try_into().unwrap()) & 0x0FFF_FFFF
    }

    /// Adds a file of at most one cluster, name as in the directory.
    pub(crate) fn add_file(&self, name: &str, contents: &[u8]) {
        assert!(name.len() == 11 && contents.len() <= 512 * self.per_cluster as usize);
        let cluster = (3..).find(|c| self.entry(*c) == 0).unwrap();
        self.set_entry(cluster, 0x0FFF_FFFF);
        for (n, chunk) in contents.chunks(512).enumerate() {
            let mut block = [0; 512];
            block[..chunk.len()].copy_from_slice(chunk);
            self.put(DATA + (cluster - 2) * self.per_cluster + n as u32, block);
        }
        for block in DATA..DATA + self.per_cluster {
            let mut bytes = self.get(block);
            if let Some(entry) = bytes.chunks_exact_mut(32).find(|e| e[0] == 0) {
                entry[..11].copy_from_slice(name.as_bytes());
                entry[11] = 0x20;
                entry[20..22].copy_from_slice(&cluster.to_le_bytes()[2..]);
                entry[26..28].copy_from_slice(&cluster.to_le_bytes()[..2]);
                entry[28..].copy_from_slice(&u32::try_from(contents.len()).unwrap().to_le_bytes());
                self.put(block, bytes);
                return;
            }
        }
        panic!("the directory is full");
    }

    /// Takes all clusters but so many, in one chain that belongs to a file.
    pub(crate) fn fill_all_but(&self, free: u32) {
        self.add_file("FILLER  BIN", b"x");
        let last = CLUSTERS + 1 - free;
        for cluster in 3..last {
            self.set_entry(cluster, cluster + 1);
        }
        self.set_entry(last, 0x0FFF_FFFF);
        let mut root = self.get(DATA);
        let size = (last - 2) * self.per_cluster * 512;
        root[28..32].copy_from_slice(&size.to_le_bytes());
        self.put(DATA, root);
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.fault.set(fault);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    pub(crate) fn writes(&self) -> u32 {
        self.writes.get()
    }

    pub(crate) fn write_commands(&self) -> u32 {
        self.commands.get()
    }

    pub(crate) fn reads(&self) -> u32 {
        self.reads.get()
    }

    pub(crate) fn busy_ms(&self) -> u32 {
        self.busy_ms.get()
    }

    /// Name, first cluster and size of the files in the root directory.
    fn files(&self) -> Vec<(String, u32, u32)> {
        let mut files = Vec::new();
        let mut cluster = 2;
        while (2..0x0FFF_FFF0).contains(&cluster) {
            for block in 0..self.per_cluster {
                let bytes = self.get(DATA + (cluster - 2) * self.per_cluster + block);
                for entry in bytes.chunks_exact(32) {
                    if entry[0] == 0 {
                        return files;
                    }
                    if entry[0] == 0xE5 || entry[11] & 0x08 != 0 {
                        continue;
                    }
                    let name = String::from_utf8_lossy(&entry[..11]).trim_end().to_owned();
                    let first = u32::from_le_bytes([entry[26], entry[27], entry[20], entry[21]]);
                    files.push((name, first, u32::from_le_bytes(entry[28..32].try_into().unwrap())));
                }
            }
            cluster = self.entry(cluster);
        }
        files
    }

    fn chain(&self, first: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut cluster = first;
        while (2..CLUSTERS + 2).contains(&cluster) && chain.len() <= CLUSTERS as usize {
            chain.push(cluster);
            cluster = self.entry(cluster);
        }
        chain
    }

    /// The contents of a file, as any computer would read it.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        let (_, first, size) = self.files().into_iter().find(|f| f.0 == name)?;
        let mut bytes = Vec::new();
        for cluster in self.chain(first) {
            for block in 0..self.per_cluster {
                if bytes.len() < size as usize {
                    bytes.extend_from_slice(&self.get(DATA + (cluster - 2) * self.per_cluster + block));
                }
            }
        }
        assert!(bytes.len() >= size as usize, "{name}: the chain is shorter than the size");
        bytes.truncate(size as usize);
        Some(bytes)
    }

    /// Everything that is wrong with the file system.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut owned: HashSet<u32> = HashSet::from([2]);
        for (name, first, size) in self.files() {
            let chain = self.chain(first);
            let needed = size.div_ceil(512 * self.per_cluster) as usize;
            if chain.len() != needed.max(1) {
                problems.push(format!("{name}: {} clusters for {size} bytes", chain.len()));
            }
            for cluster in &chain {
                if !owned.insert(*cluster) {
                    problems.push(format!("{name}: cluster {cluster} belongs to another file"));
                }
            }
            if chain.last().is_some_and(|c| self.entry(*c) < 0x0FFF_FFF8) {
                problems.push(format!("{name}: the chain does not end"));
            }
        }
        for cluster in 2..CLUSTERS + 2 {
            if self.entry(cluster) != 0 && !owned.contains(&cluster) {
                problems.push(format!("cluster {cluster} belongs to nobody"));
            }
        }
        for block in 0..TABLE_BLOCKS {
            if self.get(TABLE + block) != self.get(TABLE + TABLE_BLOCKS + block) {
                problems.push(format!("the tables differ in block {block}"));
            }
        }
        problems.truncate(10);
        problems
    }

    /// Writes the partition to a sparse file.
    pub(crate) fn save_partition(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        file.set_len(u64::from(DATA - PARTITION + CLUSTERS * self.per_cluster) * 512)?;
        for (at, block) in self.blocks.borrow().iter().filter(|(at, _)| **at >= PARTITION) {
            file.seek(SeekFrom::Start(u64::from(at - PARTITION) * 512))?;
            file.write_all(block)?;
        }
        Ok(())
    }
}

impl BlockDevice for RamCard {
    type Error = Broken;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Broken> {
        if self.fault.get() == Fault::Dead || self.dead.get() {
            return Err(Broken);
        }
        for (n, block) in (0..).zip(blocks) {
            if self.reads.get() >= self.read_limit.get() {
                return Err(Broken);
            }
            self.reads.set(self.reads.get() + 1);
            block.contents = self.get(start.0 + n);
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Broken> {
        if self.fault.get() == Fault::Dead || self.dead.get() {
            return Err(Broken);
        }
        self.commands.set(self.commands.get() + 1);
        if let Fault::Stall { every, ms } = self.fault.get()
            && self.commands.get().is_multiple_of(every)
        {
            self.busy_ms.set(self.busy_ms.get() + ms);
        }
        for (n, block) in (0..).zip(blocks) {
            if let Fault::PowerCut { write, bytes } = self.fault.get()
                && self.writes.get() == write
            {
                let mut torn = self.get(start.0 + n);
                torn[..bytes].copy_from_slice(&block.contents[..bytes]);
                self.put(start.0 + n, torn);
                self.dead.set(true);
                return Err(Broken);
            }
            self.writes.set(self.writes.get() + 1);
            self.put(start.0 + n, block.contents);
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Broken> {
        if self.fault.get() == Fault::Dead || self.dead.get() {
            return Err(Broken);
        }
        Ok(BlockCount(DATA + CLUSTERS * self.per_cluster))
    }
}
