//! Port 4: the trajectory memory; for reading the gain tables and the decks' one-wire memories.

use steady_common::commander::{Command, TRAJECTORY_CHUNK};
use steady_common::crtp::memory::{Data, Kind, MAX_READ, Reply, Request};
use steady_common::crtp::{Malformed, Packet, errno};
use steady_common::syslink::{Deck, ONE_WIRE_SIZE};
use steady_common::{gain_table, planner};

use super::{Context, Outcome, Services};
use crate::drivers::nrf51::MAX_DECKS;

/// Id of the trajectory memory.
const TRAJECTORY: u8 = 0;
/// Id of the gain tables' memory.
const GAIN_TABLES: u8 = 1;
/// Id of the first deck's memory.
const FIRST_DECK: u8 = 2;

/// The flash with the gain tables, from its first byte.
pub trait Flash {
    /// Copies bytes; false when they lie outside.
    fn read(&self, offset: usize, into: &mut [u8]) -> bool;
}

/// No flash at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFlash;

impl Flash for NoFlash {
    fn read(&self, _: usize, _: &mut [u8]) -> bool {
        false
    }
}

impl Flash for &[u8] {
    fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let bytes = offset.checked_add(into.len()).and_then(|end| self.get(offset..end));
        bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
    }
}

/// What clients have written: a copy, because the original belongs to the flight task.
pub(super) struct Memories {
    trajectory: [u8; planner::MEMORY_LEN],
    decks: heapless::Vec<Deck, MAX_DECKS>,
}

impl core::fmt::Debug for Memories {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memories").finish_non_exhaustive()
    }
}

impl Memories {
    pub(super) const fn new() -> Self {
        Self { trajectory: [0; planner::MEMORY_LEN], decks: heapless::Vec::new() }
    }

    /// The decks whose memories are whole: clients read them when they connect, and stumble over others.
    pub(super) fn set_decks(&mut self, decks: &[Deck]) {
        self.decks.clear();
        for deck in decks.iter().filter(|deck| deck.is_whole()) {
            // As many places as decks that are asked.
            let _ = self.decks.push(*deck);
        }
    }

    fn count(&self) -> u8 {
        FIRST_DECK + self.decks.len() as u8
    }

    fn deck(&self, id: u8) -> Option<&Deck> {
        self.decks.get(usize::from(id.checked_sub(FIRST_DECK)?))
    }

    /// Kind, size and number of a memory.
    #[allow(clippy::cast_possible_truncation, reason = "a few hundred kilobytes")]
    fn info(&self, id: u8) -> Option<(Kind, u32, [u8; 8])> {
        match id {
            TRAJECTORY => Some((Kind::Trajectory, planner::MEMORY_LEN as u32, [0; 8])),
            GAIN_TABLES => Some((Kind::App, TABLES_SIZE as u32, [0; 8])),
            _ => self.deck(id).map(|deck| (Kind::OneWire, ONE_WIRE_SIZE as u32, deck.serial)),
        }
    }
}

/// Size of the gain tables' memory.
const TABLES_SIZE: usize = gain_table::PAGE_COUNT * gain_table::PAGE_SIZE;

impl Services {
    pub(super) fn memory(&mut self, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        let reply = match Request::decode(packet)? {
            Request::Count => Reply::Count(self.memories.count()),
            Request::Info(id) => match self.memories.info(id) {
                Some((kind, size, serial)) => Reply::Info { id, kind: kind as u8, size, serial },
                None => return Err(Malformed::Value),
            },
            Request::Read { id, address, length } => {
                let data = self.read(id, address, length, context).ok_or(errno::EIO);
                Reply::Read { id, address, data }
            }
            Request::Write { id, address, data } => {
                let error = if self.write(id, address, &data, context) { 0 } else { errno::EIO };
                Reply::Write { id, address, error }
            }
        };
        Ok(Some(reply.encode()))
    }

    fn read(&self, id: u8, address: u32, length: u8, context: &Context<'_>) -> Option<Data> {
        let mut bytes = [0; MAX_READ];
        let bytes = bytes.get_mut(..usize::from(length))?;
        let address = usize::try_from(address).ok()?;
        let done = match id {
            TRAJECTORY => self.memories.trajectory.as_slice().read(address, bytes),
            GAIN_TABLES => address + bytes.len() <= TABLES_SIZE && context.flash.read(address, bytes),
            _ => self.memories.deck(id).is_some_and(|deck| deck.memory.as_slice().read(address, bytes)),
        };
        done.then(|| Data::new(bytes))?
    }

    fn write(&mut self, id: u8, address: u32, data: &Data, context: &mut Context<'_>) -> bool {
        let (Ok(offset), bytes) = (u16::try_from(address), data.bytes()) else { return false };
        let start = usize::from(offset);
        let Some(room) = self.memories.trajectory.get_mut(start..start + bytes.len()) else { return false };
        if id != TRAJECTORY {
            return false;
        }
        let mut chunk = [0; TRAJECTORY_CHUNK];
        let (Some(part), Ok(length)) = (chunk.get_mut(..bytes.len()), u8::try_from(bytes.len())) else {
            return false;
        };
        part.copy_from_slice(bytes);
        // The client hears of bytes the flight task has no room for, and writes them again.
        if !(context.send)(Command::WriteTrajectory { offset, length, bytes: chunk }) {
            return false;
        }
        room.copy_from_slice(bytes);
        true
    }
}
