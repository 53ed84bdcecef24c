//! The card's bus: SPI1 with the select line PC12. Long transfers go by DMA while the processor sleeps,
//! short ones byte by byte.
//!
//! The HAL sets the bus up and does the short transfers; the long ones are here, because the HAL's DMA has no
//! limit of time and cannot sleep.
//!
//! It blocks, and therefore belongs to the thread: whatever else the drone does runs in interrupts.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use embedded_hal::spi::{Error, ErrorKind, ErrorType, MODE_0, SpiBus};
use stm32f4xx_hal::gpio::{Output, PA5, PA6, PA7, PC12, PinState, Pull, Speed as Edges};
use stm32f4xx_hal::pac::{SPI1, interrupt};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;
use stm32f4xx_hal::spi::Spi as HalSpi;

use super::dma::{Controller, Stream, Transfer};
use super::{reg, time};

const RECEIVE: Stream = Stream { controller: Controller::Two, number: 0, channel: 3 };
const TRANSMIT: Stream = Stream { controller: Controller::Two, number: 5, channel: 3 };

/// Transfers below this go without DMA.
const SHORT: usize = 16;
/// A block of the card.
const BUFFER: usize = 512;
/// Longest time a transfer may take, µs: a block at the slow clock takes 12.5 ms.
const LIMIT_US: u32 = 20_000;

/// How fast the clock runs.
#[derive(Clone, Copy)]
pub(crate) enum Speed {
    /// 84 MHz / 256 = 328 kHz: a card must be started below 400 kHz.
    Start,
    /// 84 MHz / 4 = 21 MHz.
    Full,
}

/// The port and its pins: clock, from the card, to the card, select.
pub(crate) struct Port {
    pub(crate) spi: SPI1,
    pub(crate) pins: (PA5, PA6, PA7),
    pub(crate) select: PC12,
}

// The DMA's buffers.
static OUT: [AtomicU8; BUFFER] = [const { AtomicU8::new(0) }; BUFFER];
static IN: [AtomicU8; BUFFER] = [const { AtomicU8::new(0) }; BUFFER];
static DONE: AtomicBool = AtomicBool::new(false);

/// The bus.
pub(crate) struct Spi {
    port: HalSpi<SPI1>,
    select: PC12<Output>,
}

impl Spi {
    /// Starts the bus at its slowest, the card not selected.
    pub(crate) fn new(port: Port, rcc: &mut Rcc) -> Self {
        let select = port.select.into_push_pull_output_in_state(PinState::High);
        let (clock, input, output) = port.pins;
        let clock = clock.into_alternate::<5>().speed(Edges::High);
        // A missing card reads as ones, which no answer begins with.
        let input = input.into_alternate::<5>().speed(Edges::High).internal_resistor(Pull::Up);
        let output = output.into_alternate::<5>().speed(Edges::High);
        let pins = (Some(clock), Some(input), Some(output));
        Self { port: HalSpi::new(port.spi, pins, MODE_0, 400.kHz(), rcc), select }
    }

    /// Changes the clock, which the HAL sets only once.
    pub(crate) fn set_speed(&mut self, speed: Speed) {
        let spi = reg::spi1();
        spi.cr1().modify(|_, w| w.spe().clear_bit());
        spi.cr1().modify(|_, w| match speed {
            Speed::Start => w.br().div256(),
            Speed::Full => w.br().div4(),
        });
        spi.cr1().modify(|_, w| w.spe().set_bit());
    }

    /// Selects the card, or lets it go.
    pub(crate) fn select(&mut self, on: bool) {
        self.select.set_state((!on).into());
    }

    /// Moves up to a block to the card, its answer to `IN`.
    fn move_block(&mut self, out: &[u8]) -> Result<(), ErrorKind> {
        let length = out.len().min(BUFFER);
        OUT.iter().zip(out).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        let spi = reg::spi1();
        let transfer = |memory: u32, to_peripheral| Transfer {
            peripheral: spi.dr().as_ptr() as u32,
            memory,
            length: length as u16,
            wide: false,
            to_peripheral,
            advance: true,
            circular: false,
            interrupt: !to_peripheral,
        };
        DONE.store(false, Ordering::Release);
        RECEIVE.start(transfer(IN.as_ptr() as u32, false));
        TRANSMIT.start(transfer(OUT.as_ptr() as u32, true));
        let start = time::now_us_low();
        spi.cr2().write(|w| w.rxdmaen().set_bit().txdmaen().set_bit());
        let mut in_time = true;
        while in_time && !DONE.load(Ordering::Acquire) {
            // Any interrupt wakes it; the flight loop's come a thousand times a second.
            cortex_m::asm::wfe();
            in_time = time::now_us_low().wrapping_sub(start) < LIMIT_US;
        }
        spi.cr2().write(|w| w);
        TRANSMIT.stop();
        RECEIVE.stop();
        if in_time { Ok(()) } else { Err(ErrorKind::Other) }
    }

    fn copy_in(into: &mut [u8]) {
        into.iter_mut().zip(&IN).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    }
}

impl ErrorType for Spi {
    type Error = ErrorKind;
}

impl SpiBus for Spi {
    fn read(&mut self, words: &mut [u8]) -> Result<(), ErrorKind> {
        words.fill(0xFF);
        self.transfer_in_place(words)
    }

    fn write(&mut self, words: &[u8]) -> Result<(), ErrorKind> {
        for part in words.chunks(BUFFER) {
            if part.len() < SHORT {
                part.iter().try_for_each(|word| self.transfer_in_place(&mut [*word]))?;
            } else {
                self.move_block(part)?;
            }
        }
        Ok(())
    }

    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), ErrorKind> {
        for i in 0..read.len().max(write.len()) {
            let mut word = [write.get(i).copied().unwrap_or(0xFF)];
            self.transfer_in_place(&mut word)?;
            if let (Some(place), [word]) = (read.get_mut(i), word) {
                *place = word;
            }
        }
        Ok(())
    }

    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), ErrorKind> {
        for part in words.chunks_mut(BUFFER) {
            if part.len() < SHORT {
                self.port.transfer_in_place(part).map_err(|error| error.kind())?;
            } else {
                self.move_block(part)?;
                Self::copy_in(part);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        SpiBus::flush(&mut self.port).map_err(|error| error.kind())
    }
}

#[interrupt]
fn DMA2_STREAM0() {
    let flags = RECEIVE.take_flags();
    if flags.complete || flags.error {
        DONE.store(true, Ordering::Release);
        cortex_m::asm::sev();
    }
}
