//! The card's bus: SPI1 with the select line PC12. Long transfers go by DMA while the processor sleeps,
//! short ones byte by byte.
//!
//! It blocks, and therefore belongs to the thread: whatever else the drone does runs in interrupts.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use embedded_hal::spi::{ErrorKind, ErrorType, SpiBus};
use stm32f4xx_hal::pac::interrupt;

use super::dma::{Controller, Stream, Transfer};
use super::gpio::{Drive, Pin, Port, Pull, Speed as Edges};
use super::{reg, time};

const SELECT: Pin = Pin(Port::C, 12);
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
    Start = 0b111,
    /// 84 MHz / 4 = 21 MHz.
    Full = 0b001,
}

struct DmaBuffer(UnsafeCell<[u8; BUFFER]>);
// SAFETY: used only by the one `Spi`, and by its streams while that waits for them.
unsafe impl Sync for DmaBuffer {}

static OUT: DmaBuffer = DmaBuffer(UnsafeCell::new([0xFF; BUFFER]));
static IN: DmaBuffer = DmaBuffer(UnsafeCell::new([0; BUFFER]));
static DONE: AtomicBool = AtomicBool::new(false);

/// The bus. The card's select line is [`select`].
pub(crate) struct Spi(());

/// Starts the bus at its slowest. To be called once.
pub(crate) fn init() -> Spi {
    reg::rcc().apb2enr().modify(|_, w| w.spi1en().set_bit());
    SELECT.set(true);
    SELECT.output(Drive::PushPull);
    Pin(Port::A, 5).alternate(5, Drive::PushPull, Pull::None);
    // A missing card reads as ones, which no answer begins with.
    Pin(Port::A, 6).alternate(5, Drive::PushPull, Pull::Up);
    Pin(Port::A, 7).alternate(5, Drive::PushPull, Pull::None);
    for number in 5..=7 {
        Pin(Port::A, number).speed(Edges::Fast);
    }
    let mut spi = Spi(());
    spi.set_speed(Speed::Start);
    spi
}

impl Spi {
    /// Changes the clock.
    pub(crate) fn set_speed(&mut self, speed: Speed) {
        let spi = reg::spi1();
        // Mode 0, 8 bits, most significant first, master; the select line is ours.
        spi.cr1().write(|w| w);
        // SAFETY: the divider is one of the field's eight values.
        spi.cr1()
            .write(|w| unsafe { w.mstr().set_bit().ssm().set_bit().ssi().set_bit().br().bits(speed as u8) });
        spi.cr1().modify(|_, w| w.spe().set_bit());
    }

    fn exchange(&mut self, byte: u8) -> Result<u8, ErrorKind> {
        let spi = reg::spi1();
        spi.dr8().write(|w| w.dr().set(byte));
        // A byte at the slow clock takes 24 µs; far fewer polls than this.
        let mut polls = 20_000_u32;
        while spi.sr().read().rxne().bit_is_clear() {
            polls = polls.checked_sub(1).ok_or(ErrorKind::Other)?;
        }
        Ok(spi.dr8().read().dr().bits())
    }

    /// Moves up to a block: `out` (or ones) to the card, its answer to `IN`.
    fn move_block(&mut self, out: Option<&[u8]>, length: usize) -> Result<(), ErrorKind> {
        let length = length.min(BUFFER);
        // SAFETY: both streams are stopped, so nobody else uses the buffer.
        let outbox = unsafe { &mut *OUT.0.get() };
        match out {
            Some(bytes) => outbox.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
            None => outbox.iter_mut().take(length).for_each(|to| *to = 0xFF),
        }
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
        RECEIVE.start(transfer(IN.0.get() as u32, false));
        TRANSMIT.start(transfer(OUT.0.get() as u32, true));
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
        // SAFETY: the receiving stream is stopped.
        let inbox = unsafe { &*IN.0.get() };
        into.iter_mut().zip(inbox).for_each(|(to, from)| *to = *from);
    }
}

impl ErrorType for Spi {
    type Error = ErrorKind;
}

impl SpiBus for Spi {
    fn read(&mut self, words: &mut [u8]) -> Result<(), ErrorKind> {
        for part in words.chunks_mut(BUFFER) {
            if part.len() < SHORT {
                for word in part {
                    *word = self.exchange(0xFF)?;
                }
            } else {
                self.move_block(None, part.len())?;
                Self::copy_in(part);
            }
        }
        Ok(())
    }

    fn write(&mut self, words: &[u8]) -> Result<(), ErrorKind> {
        for part in words.chunks(BUFFER) {
            if part.len() < SHORT {
                for word in part {
                    self.exchange(*word)?;
                }
            } else {
                self.move_block(Some(part), part.len())?;
            }
        }
        Ok(())
    }

    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), ErrorKind> {
        let length = read.len().max(write.len());
        for i in 0..length {
            let answer = self.exchange(write.get(i).copied().unwrap_or(0xFF))?;
            if let Some(word) = read.get_mut(i) {
                *word = answer;
            }
        }
        Ok(())
    }

    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), ErrorKind> {
        for part in words.chunks_mut(BUFFER) {
            if part.len() < SHORT {
                for word in part {
                    *word = self.exchange(*word)?;
                }
            } else {
                self.move_block(Some(part), part.len())?;
                Self::copy_in(part);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        let start = time::now_us_low();
        while reg::spi1().sr().read().bsy().bit_is_set() {
            if time::now_us_low().wrapping_sub(start) > LIMIT_US {
                return Err(ErrorKind::Other);
            }
        }
        Ok(())
    }
}

/// Selects the card, or lets it go.
pub(crate) fn select(on: bool) {
    SELECT.set(!on);
}

#[interrupt]
fn DMA2_STREAM0() {
    let flags = RECEIVE.take_flags();
    if flags.complete || flags.error {
        DONE.store(true, Ordering::Release);
        cortex_m::asm::sev();
    }
}
