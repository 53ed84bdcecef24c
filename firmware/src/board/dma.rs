//! DMA streams: one transfer at a time between a peripheral's data register and a static buffer.
//!
//! Own, because the HAL's transfer owns stream, peripheral and buffer: here a task starts a transfer, an
//! interrupt ends it, another one pauses its requests, and a ring is read while the stream fills it.
//!
//! | stream | channel | what |
//! |---|---|---|
//! | DMA1 stream 2 | 3 | I2C3 receive (sensors) |
//! | DMA1 stream 5 | 1 | I2C1 receive (EEPROM) |
//! | DMA1 stream 7 | 5 | TIM3 compare 3 (LED ring), items of 16 bits |
//! | DMA2 stream 1 | 5 | USART6 receive, circular |
//! | DMA2 stream 7 | 5 | USART6 transmit |
//! | DMA2 stream 0 | 3 | SPI1 receive (card) |
//! | DMA2 stream 5 | 3 | SPI1 transmit (card) |

use core::sync::atomic::{Ordering, compiler_fence};

use stm32f4xx_hal::pac::dma2;

use super::reg;

/// One stream of one of the two controllers.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) controller: Controller,
    pub(crate) number: u8,
    pub(crate) channel: u8,
}

/// A DMA controller.
#[derive(Clone, Copy)]
pub(crate) enum Controller {
    One,
    Two,
}

/// What a stream does.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// Address of the peripheral's data register.
    pub(crate) peripheral: u32,
    /// First byte of the buffer. It must stay valid until the stream has stopped, and be in SRAM.
    pub(crate) memory: u32,
    /// Items.
    pub(crate) length: u16,
    /// Items of 16 bits instead of bytes.
    pub(crate) wide: bool,
    /// From memory to the peripheral.
    pub(crate) to_peripheral: bool,
    /// The address in memory advances.
    pub(crate) advance: bool,
    /// Starts over at the end, with an interrupt at half of the buffer as well.
    pub(crate) circular: bool,
    /// Interrupt at the end and at errors.
    pub(crate) interrupt: bool,
}

/// How a transfer ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) complete: bool,
    pub(crate) error: bool,
}

impl Stream {
    fn block(self) -> &'static dma2::RegisterBlock {
        match self.controller {
            Controller::One => reg::dma1(),
            Controller::Two => reg::dma2(),
        }
    }

    fn stream(self) -> &'static dma2::ST {
        // The number is one of the constants above; the mask shows it to the compiler.
        self.block().st(usize::from(self.number & 7))
    }

    /// Starts a transfer.
    pub(crate) fn start(self, transfer: Transfer) {
        self.stop();
        let stream = self.stream();
        // SAFETY: the addresses are a data register's and a static buffer's, which is the caller's promise.
        unsafe {
            stream.par().write(|w| w.pa().bits(transfer.peripheral));
            stream.m0ar().write(|w| w.m0a().bits(transfer.memory));
        }
        stream.ndtr().write(|w| w.ndt().set(transfer.length));
        // The buffer's bytes are in memory before the stream may read them.
        compiler_fence(Ordering::SeqCst);
        // Direct mode, low priority.
        stream.cr().write(|w| {
            w.chsel().set(self.channel & 7);
            if transfer.wide {
                w.msize().bits16().psize().bits16();
            }
            if transfer.to_peripheral {
                w.dir().memory_to_peripheral();
            }
            w.minc().bit(transfer.advance).circ().bit(transfer.circular);
            w.tcie().bit(transfer.interrupt).teie().bit(transfer.interrupt);
            w.htie().bit(transfer.interrupt && transfer.circular)
        });
        stream.cr().modify(|_, w| w.en().set_bit());
    }

    /// Stops the stream and clears its flags.
    pub(crate) fn stop(self) {
        let stream = self.stream();
        stream.cr().modify(|_, w| w.en().clear_bit());
        // The byte in transfer is finished first: a few bus cycles.
        for _ in 0..100 {
            if stream.cr().read().en().bit_is_clear() {
                break;
            }
        }
        self.take_flags();
        // What the stream wrote is read only after this.
        compiler_fence(Ordering::SeqCst);
    }

    /// Bytes still to transfer.
    pub(crate) fn remaining(self) -> u16 {
        self.stream().ndtr().read().bits() as u16
    }

    /// Reads and clears the flags.
    pub(crate) fn take_flags(self) -> Flags {
        let block = self.block();
        // Where the stream's six flags are in its register.
        let shift = [0, 6, 16, 22].get(usize::from(self.number & 3)).copied().unwrap_or(0);
        let status = if self.number < 4 { block.lisr().read().bits() } else { block.hisr().read().bits() };
        let mine = status & (0x3D << shift);
        // SAFETY: writing a one clears that flag, zeros leave the other streams' flags.
        unsafe {
            if self.number < 4 {
                block.lifcr().write(|w| w.bits(mine));
            } else {
                block.hifcr().write(|w| w.bits(mine));
            }
        }
        let flags = mine >> shift;
        Flags { complete: flags & (1 << 5) != 0, error: flags & (1 << 3) != 0 }
    }
}
