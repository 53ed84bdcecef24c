//! Port 4: the trajectory memory, the configuration block and the LED ring's colours; for reading the
//! gain tables and the decks' one-wire memories.

use steady_common::commander::{Command, TRAJECTORY_CHUNK};
use steady_common::config_block::{self, ConfigBlock};
use steady_common::crtp::memory::{Data, Kind, MAX_READ, Reply, Request};
use steady_common::crtp::{Malformed, Packet, errno};
use steady_common::syslink::{Deck, DeckId, ONE_WIRE_SIZE};
use steady_common::{gain_table, planner};

use super::{Context, Outcome, Services, StoreJob, StoreRequest};
use crate::drivers::nrf51::MAX_DECKS;
use crate::ring::{ColourMemory, LedMemory, TimingMemory};
use crate::route::Route;

/// Id of the trajectory memory.
const TRAJECTORY: u8 = 0;
/// Id of the gain tables' memory.
const GAIN_TABLES: u8 = 1;
/// Id of the configuration block.
const CONFIG: u8 = 2;
/// Id of the first deck's memory. The LED ring's comes after the decks.
const FIRST_DECK: u8 = 3;
/// In the supervisor's information: armed.
const ARMED: u16 = 1 << 1;

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
    /// What the EEPROM holds.
    pub(super) config: ConfigBlock,
    /// A block on its way to the EEPROM, and whom the answer is for.
    job: Option<(Route, [u8; config_block::SIZE])>,
    pub(super) leds: LedMemory,
}

impl core::fmt::Debug for Memories {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memories").finish_non_exhaustive()
    }
}

impl Memories {
    pub(super) fn new() -> Self {
        Self {
            trajectory: [0; planner::MEMORY_LEN],
            decks: heapless::Vec::new(),
            config: ConfigBlock::default(),
            job: None,
            leds: LedMemory::default(),
        }
    }

    pub(super) fn next_job(&mut self) -> Option<StoreJob> {
        let (route, block) = self.job.take()?;
        Some(StoreJob { id: 0, route, request: StoreRequest::Configure(block) })
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
        self.led_ring() + if self.has_led_ring() { 2 } else { 0 }
    }

    fn has_led_ring(&self) -> bool {
        self.decks.iter().any(|deck| deck.id == DeckId::LED_RING)
    }

    /// Id of the LED ring's colours; that of its show is the next.
    fn led_ring(&self) -> u8 {
        FIRST_DECK + self.decks.len() as u8
    }

    fn is_led_ring(&self, id: u8) -> bool {
        id == self.led_ring() && self.has_led_ring()
    }

    fn is_led_timings(&self, id: u8) -> bool {
        id == self.led_ring() + 1 && self.has_led_ring()
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
            CONFIG => Some((Kind::Eeprom, config_block::SIZE as u32, [0; 8])),
            _ if self.is_led_ring(id) => Some((Kind::LedRing, ColourMemory::SIZE as u32, [0; 8])),
            _ if self.is_led_timings(id) => Some((Kind::LedTimings, TimingMemory::SIZE as u32, [0; 8])),
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
            Request::Write { id: CONFIG, address, data } => {
                match self.configure(address, &data, context) {
                    // The answer comes when the EEPROM has it.
                    Ok(()) => return Ok(None),
                    Err(error) => Reply::Write { id: CONFIG, address, error },
                }
            }
            Request::Write { id, address, data } if self.memories.is_led_ring(id) => {
                let done = self.memories.leds.colours.write(address, data.bytes());
                Reply::Write { id, address, error: if done { 0 } else { errno::EIO } }
            }
            Request::Write { id, address, data } if self.memories.is_led_timings(id) => {
                let done = self.memories.leds.timings.write(address, data.bytes());
                Reply::Write { id, address, error: if done { 0 } else { errno::EIO } }
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
            CONFIG => self.memories.config.encode().as_slice().read(address, bytes),
            _ if self.memories.is_led_ring(id) => self.memories.leds.colours.bytes().read(address, bytes),
            _ if self.memories.is_led_timings(id) => self.memories.leds.timings.bytes().read(address, bytes),
            GAIN_TABLES => address + bytes.len() <= TABLES_SIZE && context.flash.read(address, bytes),
            _ => self.memories.deck(id).is_some_and(|deck| deck.memory.as_slice().read(address, bytes)),
        };
        done.then(|| Data::new(bytes))?
    }

    /// A client writes the configuration block: as a whole, so that it is valid at every moment.
    fn configure(&mut self, address: u32, data: &Data, context: &Context<'_>) -> Result<(), u8> {
        let refused = |services: &mut Self, why: core::fmt::Arguments<'_>, error| {
            let mut line = heapless::String::<128>::new();
            // Cut at the line's end.
            let _ = core::fmt::write(&mut line, format_args!("radio settings were not written: {why}\n"));
            services.console.print(&line);
            Err(error)
        };
        if context.telemetry.supervisor_info & ARMED != 0 {
            return refused(self, format_args!("the drone is armed"), errno::EACCES);
        }
        let Ok(block) = <&[u8; config_block::SIZE]>::try_from(data.bytes()) else {
            let why = format_args!("{} bytes, not {}", data.bytes().len(), config_block::SIZE);
            return refused(self, why, errno::EINVAL);
        };
        if address != 0 {
            return refused(self, format_args!("they begin at 0, not at {address}"), errno::EINVAL);
        }
        match ConfigBlock::decode(block) {
            Ok(_) => {
                self.memories.job = Some((context.route, *block));
                Ok(())
            }
            Err(why) => refused(self, format_args!("{why}"), errno::EINVAL),
        }
    }

    /// The EEPROM has a block, or has failed.
    pub(super) fn configured(&mut self, block: &[u8; config_block::SIZE], done: bool) -> Packet {
        if let (true, Ok(config)) = (done, ConfigBlock::decode(block)) {
            self.memories.config = config;
            self.console.print("radio settings were written; they count from the next start on\n");
        }
        Reply::Write { id: CONFIG, address: 0, error: if done { 0 } else { errno::EIO } }.encode()
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
