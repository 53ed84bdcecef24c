//! The SD card as blocks: embedded-sdmmc's protocol over the card's bus.
//!
//! The select line stays low for a whole operation and goes high between operations. A card that fails
//! is started again at the next operation: it may have been pulled and put back.

use core::cell::Cell;

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorKind, ErrorType, Operation, SpiBus, SpiDevice};
use embedded_sdmmc::sdcard::spi::AcquireOpts;
use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx, SdCard, SdCardError};

use stm32f4xx_hal::rcc::Rcc;

use super::spi::{Port, Speed, Spi};

/// Times a missing card is called; each takes a tenth of a second.
const CALLS: u32 = 2;

/// The card.
pub(crate) struct Card {
    sd: SdCard<Wire, Busy>,
    started: Cell<bool>,
}

impl Card {
    /// Starts the bus. To be called only when the deck is there: other decks use the pins differently.
    pub(crate) fn new(port: Port, rcc: &mut Rcc) -> Self {
        let options = AcquireOpts { use_crc: true, acquire_retries: CALLS };
        let sd = SdCard::new_with_options(Wire(Spi::new(port, rcc)), Busy, options);
        Self { sd, started: Cell::new(false) }
    }

    /// Brings the card up: slow clock, at least 74 clocks unselected, then the fast clock.
    fn start(&self) -> Result<(), SdCardError> {
        self.sd.mark_card_uninit();
        self.sd
            .spi(|wire| {
                wire.0.set_speed(Speed::Start);
                wire.0.select(false);
                wire.0.write(&[0xFF; 10])
            })
            .map_err(|_| SdCardError::Transport)?;
        // Any question makes the protocol start the card.
        self.sd.num_bytes()?;
        self.sd.spi(|wire| wire.0.set_speed(Speed::Full));
        self.started.set(true);
        Ok(())
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&SdCard<Wire, Busy>) -> Result<T, SdCardError>,
    ) -> Result<T, SdCardError> {
        let started = if self.started.get() { Ok(()) } else { self.start() };
        let result = started.and_then(|()| work(&self.sd));
        // One more byte makes the card let go of its data line.
        let release = |wire: &mut Wire| {
            wire.0.select(false);
            wire.0.write(&[0xFF])
        };
        let released = self.sd.spi(release).is_ok();
        self.started.set(result.is_ok() && released);
        result
    }
}

impl BlockDevice for Card {
    type Error = SdCardError;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), SdCardError> {
        self.run(|sd| sd.read(blocks, start))
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), SdCardError> {
        self.run(|sd| sd.write(blocks, start))
    }

    fn num_blocks(&self) -> Result<BlockCount, SdCardError> {
        self.run(SdCard::num_blocks)
    }
}

/// The bus with the card selected: from the first transfer until [`Card`] lets go.
struct Wire(Spi);

impl ErrorType for Wire {
    type Error = ErrorKind;
}

impl SpiDevice for Wire {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), ErrorKind> {
        self.0.select(true);
        for operation in operations {
            match operation {
                Operation::Read(words) => self.0.read(words)?,
                Operation::Write(words) => self.0.write(words)?,
                Operation::Transfer(read, write) => self.0.transfer(read, write)?,
                Operation::TransferInPlace(words) => self.0.transfer_in_place(words)?,
                Operation::DelayNs(ns) => Busy.delay_ns(*ns),
            }
        }
        Ok(())
    }
}

/// Waiting in the thread, where there is nothing else to do until the card answers.
struct Busy;

impl DelayNs for Busy {
    fn delay_ns(&mut self, ns: u32) {
        // 168 cycles a microsecond, rounded up; what interrupts take comes on top.
        cortex_m::asm::delay((ns / 1000).saturating_add(1).saturating_mul(168));
    }
}
