//! What survives a restart: the radio's configuration and the parameters a client has kept.
//!
//! | address | contents |
//! |---|---|
//! | 0 | configuration block, 21 bytes, in the official layout |
//! | 64 | a second copy of it |
//! | 1024 to 8191 | entries in the official layout: u16 length of all, u8 key length, key, value; key length 0 is a hole, length 0xFFFF the end |
//!
//! A write that the power cuts may leave anything in the bytes it was about, so nothing that counts is
//! ever overwritten. The block's copy is written first; a new value goes into a hole or behind the
//! end, is read back, and only then made visible by its last write; the old entry becomes a hole
//! afterwards. Whenever power fails, there is the old value or the new one.

use heapless::String;
use steady_common::bytes::Reader;
use steady_common::config_block::{self, ConfigBlock};

use crate::services::{StoreDone, StoreJob, StoreRequest};
use crate::settings::Settings;
use crate::toc::{self, Set};
use steady_common::crtp::param::Raw;
use steady_common::gain_table::PROVEN_KEY;

/// Bytes an EEPROM has.
pub const SIZE: usize = 8192;
/// Where the entries begin.
const ENTRIES: usize = 1024;
/// Where the block and its copy are.
const BLOCKS: [usize; 2] = [0, 64];
/// Length and key length of an entry.
const HEAD: usize = 3;
const END: u16 = 0xFFFF;
/// Longest key: `prm/` and the longest name of a parameter.
const MAX_KEY: usize = 32;
/// Longest value that is read.
const MAX_VALUE: usize = 8;
/// Longest entry of a sane store; more is damage.
const MAX_ENTRY: usize = HEAD + 255 + 255;

/// Bytes that survive a restart.
#[allow(async_fn_in_trait, reason = "used with one executor, never across threads")]
pub trait Eeprom {
    /// Reads bytes.
    async fn read(&mut self, at: usize, into: &mut [u8]) -> Result<(), Failed>;
    /// Writes bytes and waits until they are there.
    async fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failed>;
}

/// The EEPROM does not do what it should, or has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl<B, D> Eeprom for crate::drivers::eeprom24::Eeprom<B, D>
where
    B: embedded_hal_async::i2c::I2c,
    D: embedded_hal_async::delay::DelayNs,
{
    async fn read(&mut self, at: usize, into: &mut [u8]) -> Result<(), Failed> {
        Self::read(self, at, into).await.map_err(|_| Failed)
    }

    async fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        Self::write(self, at, bytes).await.map_err(|_| Failed)
    }
}

/// An entry found in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: usize,
    length: usize,
    key_length: usize,
}

impl Entry {
    fn value_length(&self) -> usize {
        self.length.saturating_sub(HEAD + self.key_length)
    }
}

/// Everything that is kept.
#[derive(Debug)]
pub struct Store<E> {
    eeprom: E,
}

impl<E: Eeprom> Store<E> {
    /// In an EEPROM.
    pub fn new(eeprom: E) -> Self {
        Self { eeprom }
    }

    /// The EEPROM.
    pub fn into_inner(self) -> E {
        self.eeprom
    }

    /// The radio's configuration: the block, else its copy, else the defaults. What was missing or
    /// damaged is written again.
    pub async fn radio_config(&mut self) -> ConfigBlock {
        let mut found = [None; 2];
        for (slot, at) in found.iter_mut().zip(BLOCKS) {
            let mut block = [0; config_block::SIZE];
            if self.eeprom.read(at, &mut block).await.is_ok() {
                *slot = ConfigBlock::decode(&block).ok();
            }
        }
        let [main, copy] = found;
        let config = main.or(copy).unwrap_or_default();
        if main != copy || main.is_none() {
            // A drone without a working EEPROM flies with the defaults.
            let _ = self.set_radio_config(&config).await;
        }
        config
    }

    /// Keeps a configuration; what was written is read back.
    pub async fn set_radio_config(&mut self, config: &ConfigBlock) -> Result<(), Failed> {
        let [main, copy] = BLOCKS;
        self.write_checked(copy, &config.encode()).await?;
        self.write_checked(main, &config.encode()).await
    }

    /// The entry at an address, if there is one.
    async fn entry(&mut self, at: usize) -> Result<Option<Entry>, Failed> {
        let mut head = [0; HEAD];
        if at + HEAD > SIZE {
            return Ok(None);
        }
        self.eeprom.read(at, &mut head).await?;
        let [low, high, key_length] = head;
        let length = u16::from_le_bytes([low, high]);
        let (length, key_length) = (usize::from(length), usize::from(key_length));
        // An impossible key length is what a cut write left of an entry: a hole.
        let key_length = if HEAD + key_length <= length { key_length } else { 0 };
        let sane = length != END.into() && (HEAD..=MAX_ENTRY).contains(&length) && at + length <= SIZE;
        Ok(sane.then_some(Entry { at, length, key_length }))
    }

    async fn has_key(&mut self, entry: &Entry, key: &str) -> Result<bool, Failed> {
        let mut bytes = [0; MAX_KEY];
        if entry.key_length != key.len() {
            return Ok(false);
        }
        let Some(bytes) = bytes.get_mut(..key.len()) else { return Ok(false) };
        self.eeprom.read(entry.at + HEAD, bytes).await?;
        Ok(bytes == key.as_bytes())
    }

    /// The kept value of a key and its length; nothing when there is none, or one that is too long.
    pub async fn look(&mut self, key: &str) -> Result<Option<([u8; MAX_VALUE], usize)>, Failed> {
        let (mut at, mut found) = (ENTRIES, None);
        while let Some(entry) = self.entry(at).await? {
            if self.has_key(&entry, key).await? {
                found = Some(entry);
            }
            at += entry.length;
        }
        let Some(entry) = found else { return Ok(None) };
        let mut value = [0; MAX_VALUE];
        let Some(room) = value.get_mut(..entry.value_length()) else { return Ok(None) };
        self.eeprom.read(entry.at + HEAD + entry.key_length, room).await?;
        Ok(Some((value, entry.value_length())))
    }

    /// Keeps a value.
    pub async fn keep(&mut self, key: &str, value: &[u8]) -> Result<(), Failed> {
        if self.look(key).await?.is_some_and(|(old, n)| old.get(..n) == Some(value)) {
            return Ok(());
        }
        let length = HEAD + key.len() + value.len();
        let (mut at, mut hole) = (ENTRIES, None);
        while let Some(entry) = self.entry(at).await? {
            if entry.key_length == 0 && entry.length == length {
                hole = hole.or(Some(at));
            }
            at += entry.length;
        }
        let place = hole.unwrap_or(at);
        if key.is_empty() || key.len() > MAX_KEY || place + length > SIZE {
            return Err(Failed);
        }
        // Key and value first: readers do not look there yet.
        self.write_checked(place + HEAD, key.as_bytes()).await?;
        self.write_checked(place + HEAD + key.len(), value).await?;
        let key_length = [u8::try_from(key.len()).map_err(|_| Failed)?];
        if hole.is_some() {
            self.eeprom.write(place + 2, &key_length).await?;
        } else {
            if place + length + 2 <= SIZE {
                self.write_checked(place + length, &END.to_le_bytes()).await?;
            }
            self.write_checked(place + 2, &key_length).await?;
            let length = u16::try_from(length).map_err(|_| Failed)?;
            self.eeprom.write(place, &length.to_le_bytes()).await?;
        }
        self.drop_entries(key, Some(place)).await
    }

    /// Keeps nothing under a key.
    pub async fn forget(&mut self, key: &str) -> Result<(), Failed> {
        self.drop_entries(key, None).await
    }

    /// Makes holes of all entries of a key but one.
    async fn drop_entries(&mut self, key: &str, but: Option<usize>) -> Result<(), Failed> {
        let mut at = ENTRIES;
        while let Some(entry) = self.entry(at).await? {
            if Some(at) != but && self.has_key(&entry, key).await? {
                self.eeprom.write(at + 2, &[0]).await?;
            }
            at += entry.length;
        }
        Ok(())
    }

    /// Writes bytes and reads them back.
    async fn write_checked(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        self.eeprom.write(at, bytes).await?;
        let mut read = [0; MAX_KEY];
        let read = read.get_mut(..bytes.len()).ok_or(Failed)?;
        self.eeprom.read(at, read).await?;
        if read == bytes { Ok(()) } else { Err(Failed) }
    }

    /// Gives all kept parameters their values; returns how many. Values that are no longer possible
    /// are left out.
    pub async fn load_params(&mut self, settings: &mut Settings) -> Result<u16, Failed> {
        let (mut at, mut count) = (ENTRIES, 0);
        while let Some(entry) = self.entry(at).await? {
            at += entry.length;
            let mut bytes = [0; MAX_KEY + MAX_VALUE];
            let Some(bytes) = bytes.get_mut(..entry.length - HEAD) else { continue };
            self.eeprom.read(entry.at + HEAD, bytes).await?;
            let Some((key, value)) = bytes.split_at_checked(entry.key_length) else { continue };
            let set = param_of(key).and_then(|p| Some((p.set?, Raw::new(value)?.value(p.kind)?)));
            if let Some((set, value)) = set {
                count += u16::from(set(settings, value) == Set::Done);
            }
        }
        Ok(count)
    }

    /// Does a job for a client.
    pub async fn run(&mut self, job: StoreJob) -> StoreDone {
        let result = match (job.request, toc::param(job.id)) {
            (StoreRequest::Configure(block), _) => match ConfigBlock::decode(&block) {
                Ok(config) => self.set_radio_config(&config).await.map(|()| None),
                Err(_) => Err(Failed),
            },
            (_, Some(param)) => self.run_on(&param_key(param.group, param.name), job.request).await,
            (_, None) => Err(Failed),
        };
        StoreDone { job, result: result.map_err(|_| ()) }
    }

    async fn run_on(&mut self, key: &str, request: StoreRequest) -> Result<Option<Raw>, Failed> {
        match request {
            StoreRequest::Keep(value) => self.keep(key, value.bytes()).await.map(|()| Some(value)),
            StoreRequest::Forget => self.forget(key).await.map(|()| None),
            // Not about a key.
            StoreRequest::Configure(_) => Err(Failed),
            StoreRequest::Look => {
                let found = self.look(key).await?;
                Ok(found.and_then(|(value, n)| Raw::new(value.get(..n)?)))
            }
        }
    }

    /// Sequence number of the last gain table that has completed a flight, 0 for none.
    pub async fn proven_table(&mut self) -> u32 {
        let found = self.look(PROVEN_KEY).await.ok().flatten();
        found.and_then(|(value, n)| Reader::new(value.get(..n)?).u32()).unwrap_or(0)
    }

    /// Keeps that number.
    pub async fn keep_proven_table(&mut self, sequence: u32) -> Result<(), Failed> {
        self.keep(PROVEN_KEY, &sequence.to_le_bytes()).await
    }
}

/// The key of a parameter.
fn param_key(group: &str, name: &str) -> String<MAX_KEY> {
    let mut key = String::new();
    for part in ["prm/", group, ".", name] {
        // Names fit: the tables' tests see to it.
        let _ = key.push_str(part);
    }
    key
}

/// The parameter of a key, if it is one that may be kept.
fn param_of(key: &[u8]) -> Option<&'static toc::Param> {
    let (group, name) = core::str::from_utf8(key).ok()?.strip_prefix("prm/")?.split_once('.')?;
    toc::param_id(group, name).and_then(toc::param).filter(|p| p.persistent)
}
