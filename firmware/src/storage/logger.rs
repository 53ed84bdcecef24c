//! The log writer: a state machine that takes records and keeps a complete file on the card.
//!
//! Records gather in a buffer of whole blocks. A commit writes the blocks, the file's checksum
//! behind them, and then the new size. The next commit overwrites the checksum. So the file is
//! complete at every commit, and each commit is a few block writes.

use steady_common::gains_record;
use steady_common::inputs_record;
use steady_common::transition::RECORD_SIZE;
use steady_common::usdlog::{FILE_CRC, write};

use super::card::{Block, Card, CardError};
use super::config::{Config, ConfigError, MAX_BYTES};
use super::queue::{Drain, Item};
use super::status::{State, Status};
use crate::toc;

/// Blocks that gather before they must be written.
const BLOCKS: usize = 20;
/// Bytes of the file's checksum.
const CRC_SIZE: usize = 4;
/// Longest time between two commits, ms: with the writing itself a power cut loses less than 100 ms.
const COMMIT_MS: u32 = 60;
/// How often a missing or broken card is tried again, ms.
const RETRY_MS: u32 = 1000;
/// Most bytes that an item of the queue has as records.
const MAX_ITEM: usize =
    if RECORD_SIZE > inputs_record::MAX_SIZE { RECORD_SIZE } else { inputs_record::MAX_SIZE };
/// Records taken in one go, so that a commit is never far.
const BATCH: usize = 64;

/// Bytes on their way into the file, from a block's start.
#[derive(Debug)]
struct Buffer {
    /// One block more than records may fill: the checksum may stand in it.
    blocks: [Block; BLOCKS + 1],
    length: usize,
    /// Number in the file of the buffer's first block.
    first: u32,
    /// Records in it that are not yet committed.
    records: u32,
}

impl Buffer {
    fn new() -> Self {
        Self { blocks: core::array::from_fn(|_| Block::new()), length: 0, first: 0, records: 0 }
    }

    fn room(&self) -> usize {
        BLOCKS * Block::LEN - self.length
    }

    /// Appends bytes at a place behind `length`; those that do not fit are left out.
    fn put_at(&mut self, at: usize, mut bytes: &[u8]) {
        let mut at = at;
        while let Some(block) = self.blocks.get_mut(at / Block::LEN) {
            let Some(room) = block.contents.get_mut(at % Block::LEN..) else { return };
            let count = room.len().min(bytes.len());
            let (Some(to), Some((now, rest))) = (room.get_mut(..count), bytes.split_at_checked(count)) else {
                return;
            };
            to.copy_from_slice(now);
            (at, bytes) = (at + count, rest);
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// The blocks that hold so many bytes.
    fn blocks(&self, bytes: usize) -> &[Block] {
        self.blocks.get(..bytes.div_ceil(Block::LEN)).unwrap_or(&self.blocks)
    }

    /// Size of the file with so many bytes behind the buffer's.
    fn file_size(&self, more: usize) -> Option<u32> {
        let bytes = u32::try_from(self.length + more).ok()?;
        self.first.checked_mul(512)?.checked_add(bytes)
    }

    /// Forgets the full blocks, which are on the card.
    fn advance(&mut self) {
        let full = self.length / Block::LEN;
        if full > 0 && full < self.blocks.len() {
            self.blocks.swap(0, full);
        }
        self.length -= full * Block::LEN;
        self.first += u32::try_from(full).unwrap_or(0);
        self.records = 0;
    }
}

/// The log writer.
pub struct Logger<C> {
    card: C,
    config: Config,
    config_error: Option<ConfigError>,
    status: Status,
    buffer: Buffer,
    crc: crc::Digest<'static, u32>,
    last_commit_ms: u32,
    last_try_ms: Option<u32>,
    /// The card is full: nothing is tried before logging was switched off.
    give_up: bool,
}

impl<C: core::fmt::Debug> core::fmt::Debug for Logger<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Logger")
            .field("card", &self.card)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl<C: Card> Logger<C> {
    /// For a card that has not been looked at.
    pub fn new(card: C) -> Self {
        Self {
            card,
            config: Config::default(),
            config_error: None,
            status: Status::default(),
            buffer: Buffer::new(),
            crc: FILE_CRC.digest(),
            last_commit_ms: 0,
            last_try_ms: None,
            give_up: false,
        }
    }

    /// What others may know.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// What the card asks for.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Why the card's `config.txt` is not used, if it has one that is not.
    #[must_use]
    pub fn config_error(&self) -> Option<ConfigError> {
        self.config_error
    }

    /// The card.
    pub fn card(&self) -> &C {
        &self.card
    }

    /// Does what is to be done now: `wanted` says whether a log should be written. To be called every
    /// few milliseconds; a call takes as long as the card needs.
    pub fn poll(&mut self, now_ms: u32, wanted: bool, drain: &mut Drain<'_>) {
        self.give_up &= wanted;
        match self.status.state {
            State::NoCard | State::Failed => self.try_mount(now_ms),
            State::Ready | State::Full if wanted && !self.give_up => {
                let result = self.start(now_ms, drain);
                self.settle(result);
            }
            State::Ready | State::Full | State::Logging => {}
        }
        let mut taken = 0;
        while taken < BATCH {
            let Some(item) = drain.pop() else { break };
            taken += 1;
            let result = if self.status.state == State::Logging { self.take(&item) } else { Ok(false) };
            if result != Ok(true) {
                self.status.lost_on_card = self.status.lost_on_card.wrapping_add(1);
            }
            self.settle(result.map(|_| ()));
        }
        if self.status.state == State::Logging {
            let result = if !wanted && taken < BATCH {
                self.finish()
            } else if self.buffer.records > 0 && now_ms.wrapping_sub(self.last_commit_ms) >= COMMIT_MS {
                self.last_commit_ms = now_ms;
                self.commit()
            } else {
                // Between the commits, a little at a time.
                self.card.reserve_more().map(|_| ())
            };
            self.settle(result);
        }
        (self.status.produced, self.status.lost_in_queue) = drain.counters();
        self.status.can_log = matches!(self.status.state, State::Ready | State::Logging);
    }

    /// Looks for a card, now and then.
    fn try_mount(&mut self, now_ms: u32) {
        if self.last_try_ms.is_some_and(|t| now_ms.wrapping_sub(t) < RETRY_MS) {
            return;
        }
        self.last_try_ms = Some(now_ms);
        let mounted = self.card.mount().and_then(|()| self.read_config());
        match mounted.and_then(|()| self.card.find_name(&self.config.base)) {
            Ok(()) => {
                self.status.state = State::Ready;
            }
            Err(error) => {
                self.status.error = Some(error);
                if error == CardError::Full {
                    self.status.state = State::Full;
                }
            }
        }
    }

    fn read_config(&mut self) -> Result<(), CardError> {
        let mut bytes = [0; MAX_BYTES];
        let length = self.card.read_config(&mut bytes)?;
        let file = length.and_then(|n| bytes.get(..n.min(MAX_BYTES)));
        let parsed = file.map_or_else(|| Ok(Config::default()), Config::parse);
        self.config_error = parsed.as_ref().err().copied();
        self.config = parsed.unwrap_or_default();
        Ok(())
    }

    /// Creates a file and puts its header into the buffer; a file that begins in flight begins with
    /// the gains that fly.
    fn start(&mut self, now_ms: u32, drain: &Drain<'_>) -> Result<(), CardError> {
        self.status.file_number = self.card.create(&self.config.base)?;
        self.status.state = State::Logging;
        self.status.file_bytes = 0;
        self.crc = FILE_CRC.digest();
        (self.buffer.length, self.buffer.first, self.buffer.records) = (0, 0, 0);
        let plan = self.config.plan;
        let (buffer, crc) = (&mut self.buffer, &mut self.crc);
        let mut sink = |bytes: &[u8]| {
            crc.update(bytes);
            buffer.put_at(buffer.length, bytes);
            buffer.length += bytes.len();
        };
        let count = |n: usize| u16::try_from(n).unwrap_or(0);
        let inputs = if plan.inputs { inputs_record::EVENTS } else { 0 };
        write::begin(&mut sink, 2 + inputs + count(plan.events().count()));
        write::transition_event(&mut sink);
        gains_record::event(&mut sink);
        if plan.inputs {
            inputs_record::events(&mut sink);
        }
        for (trigger, variables) in plan.events() {
            let payload = trigger.payload();
            let total = variables.len() + usize::from(payload.is_some());
            write::event(&mut sink, trigger.id(), trigger.name(), count(total));
            if let Some((name, kind)) = payload {
                write::variable(&mut sink, &[name], kind);
            }
            for log in variables.iter().filter_map(|id| toc::log(*id)) {
                write::variable(&mut sink, &[log.group, ".", log.name], log.kind);
            }
        }
        if let Some(gains) = drain.gains() {
            self.append(&gains.encode());
        }
        self.last_commit_ms = now_ms;
        self.commit()
    }

    /// Puts a record into the buffer; false when the file has no place for it.
    fn take(&mut self, item: &Item) -> Result<bool, CardError> {
        if self.buffer.room() < MAX_ITEM {
            self.commit()?;
        }
        match item {
            Item::Transition(transition) => self.append(&transition.encode()),
            // Without a plan the header knows no such event.
            Item::Extra(_) if self.config.plan.is_off() => return Ok(false),
            Item::Extra(extra) => self.append(extra.bytes()),
            Item::Gains(gains) => self.append(&gains.encode()),
            Item::Inputs(_) if !self.config.plan.inputs => return Ok(false),
            Item::Inputs(inputs) => inputs.encode(|bytes| self.append(bytes)),
        }
        self.buffer.records += 1;
        Ok(true)
    }

    fn append(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.buffer.put_at(self.buffer.length, bytes);
        self.buffer.length += bytes.len();
    }

    /// Writes what has gathered, with the checksum behind it; gives the file's size.
    fn write_out(&mut self) -> Result<u32, CardError> {
        let crc = self.crc.clone().finalize().to_le_bytes();
        self.buffer.put_at(self.buffer.length, &crc);
        self.card.write(self.buffer.first, self.buffer.blocks(self.buffer.length + CRC_SIZE))?;
        self.buffer.file_size(CRC_SIZE).ok_or(CardError::Full)
    }

    fn commit(&mut self) -> Result<(), CardError> {
        let size = self.write_out()?;
        self.card.commit(size)?;
        self.committed(size);
        Ok(())
    }

    fn committed(&mut self, size: u32) {
        self.status.written = self.status.written.wrapping_add(self.buffer.records);
        self.status.file_bytes = size;
        self.buffer.advance();
    }

    /// The end of the log.
    fn finish(&mut self) -> Result<(), CardError> {
        let size = self.write_out()?;
        // The records are safe with the size; giving back room may still fail.
        self.card.commit(size)?;
        self.committed(size);
        self.status.state = State::Ready;
        self.card.close(size)
    }

    /// What an error means for the log: it ends, and its uncommitted records are lost.
    fn settle(&mut self, result: Result<(), CardError>) {
        let Err(error) = result else { return };
        self.status.error = Some(error);
        self.status.lost_on_card = self.status.lost_on_card.wrapping_add(self.buffer.records);
        (self.buffer.records, self.buffer.length) = (0, 0);
        self.status.state = match error {
            CardError::Full | CardError::Names => {
                // What was committed stays; there is nothing to do about a second failure.
                let _ = self.card.close(self.status.file_bytes);
                self.give_up = true;
                State::Full
            }
            // Looked for again in a second; a new log then begins in a new file.
            _ => State::Failed,
        };
    }
}
