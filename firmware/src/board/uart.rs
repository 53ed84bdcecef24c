//! The line to the radio processor: USART6 at 1 Mbaud, DMA both ways.
//!
//! Received bytes land in a ring that the DMA fills without end; an idle line, half of the ring or its
//! end wakes the reader. Sending pauses while the radio processor raises its flow-control line: the
//! interrupt of that line only switches the USART's requests to the DMA off and on.
//!
//! The HAL sets the port up. Its transfers cannot be paused, and cannot be read while they fill a ring, so
//! that the traffic itself is here.

use core::sync::atomic::{AtomicU8, Ordering};

use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use embassy_time::{Duration, with_timeout};
use steady_common::syslink;
use stm32f4xx_hal::gpio::{PC6, PC7, Pull, Speed};
use stm32f4xx_hal::pac::{USART6, interrupt};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;
use stm32f4xx_hal::serial::config::{Config, DmaConfig};
use stm32f4xx_hal::serial::{Event, Serial};

use super::dma::{Controller, Stream, Transfer};
use super::{exti, reg};

const TRANSMIT: Stream = Stream { controller: Controller::Two, number: 7, channel: 5 };
const RECEIVE: Stream = Stream { controller: Controller::Two, number: 1, channel: 5 };

/// 5 ms of line time.
const RING_SIZE: usize = 512;
/// Longest time one frame may wait for the radio processor.
const PATIENCE: Duration = Duration::from_millis(50);

// The DMA's buffers. Atomic, because it writes the ring whenever it likes.
static RING: [AtomicU8; RING_SIZE] = [const { AtomicU8::new(0) }; RING_SIZE];
static OUTBOX: [AtomicU8; syslink::MAX_FRAME] = [const { AtomicU8::new(0) }; syslink::MAX_FRAME];
static ARRIVED: Signal<CriticalSectionRawMutex, ()> = Signal::new();
static SENT: Signal<CriticalSectionRawMutex, ()> = Signal::new();

/// Takes bytes from the line.
pub(crate) struct Receiver {
    position: usize,
}

/// Puts frames on the line.
pub(crate) struct Sender(());

/// The port and its pins.
pub(crate) struct Port {
    usart: USART6,
    tx: PC6,
    rx: PC7,
}

impl Port {
    pub(crate) fn new(usart: USART6, tx: PC6, rx: PC7) -> Self {
        Self { usart, tx, rx }
    }
}

/// Starts the line; `None` when the HAL finds the settings impossible.
pub(crate) fn init(port: Port, rcc: &mut Rcc) -> Option<(Receiver, Sender)> {
    let config = Config::default().baudrate(1_000_000.bps()).dma(DmaConfig::TxRx);
    let tx = port.tx.into_alternate::<8>().speed(Speed::Medium);
    let rx = port.rx.into_alternate::<8>().internal_resistor(Pull::Up);
    let mut serial: Serial<USART6> = Serial::new(port.usart, (tx, rx), config, rcc).ok()?;
    serial.listen(Event::Idle);
    let usart = reg::usart6();
    RECEIVE.start(Transfer {
        peripheral: usart.dr().as_ptr() as u32,
        memory: RING.as_ptr() as u32,
        length: RING_SIZE as u16,
        wide: false,
        to_peripheral: false,
        advance: true,
        circular: true,
        interrupt: true,
    });
    Some((Receiver { position: 0 }, Sender(())))
}

/// Holds back or resumes sending; from the flow-control line's interrupt.
pub(crate) fn hold(full: bool) {
    reg::usart6().cr3().modify(|_, w| w.dmat().bit(!full));
}

/// A channel that nobody sends on.
const QUIET_CHANNEL: u8 = 125;

/// Makes the radio processor quiet for some milliseconds, before a reset: the bootloader takes a line that
/// is low, as it is while a byte is on its way, for a missing radio processor, and stays in the ROM's
/// bootloader. Off the ground's channel nothing arrives, and right after a battery report the next one is
/// 10 ms away. The firmware that starts sets the channel again. Works without interrupts and from any
/// state, and ends after 30 ms whatever happens.
pub(crate) fn quiet_radio() {
    let usart = reg::usart6();
    if usart.cr1().read().ue().bit_is_clear() {
        // Nobody has spoken to it yet, and it does not speak first.
        return;
    }
    // The frame on its way would swallow the next one.
    wait(5000, || {
        hold(exti::radio_is_full());
        TRANSMIT.remaining() == 0
    });
    TRANSMIT.stop();
    if let Some(frame) = syslink::Frame::new(syslink::Kind::RadioChannel, &[QUIET_CHANNEL]) {
        let (bytes, length) = frame.encode();
        for byte in bytes.iter().take(length) {
            let free = || usart.sr().read().txe().bit_is_set() && !exti::radio_is_full();
            if !wait(1000, free) {
                break;
            }
            usart.dr().write(|w| w.dr().set(u16::from(*byte)));
        }
    }
    // Its answer, and what was on the way to it.
    wait(3000, || false);
    // The next report, and that it is over.
    wait(11_000, || !line_is_high());
    let mut quiet_us = 0_u32;
    wait(5000, || {
        quiet_us = if line_is_high() { quiet_us + 1 } else { 0 };
        quiet_us > 300
    });
}

/// The level of the line from the radio processor.
fn line_is_high() -> bool {
    reg::gpioc().idr().read().idr7().is_high()
}

/// Waits, about a microsecond at a time; false when the limit has passed. Needs no timer.
fn wait(limit_us: u32, mut ready: impl FnMut() -> bool) -> bool {
    for _ in 0..limit_us {
        if ready() {
            return true;
        }
        cortex_m::asm::delay(168);
    }
    false
}

impl Receiver {
    /// Takes what has arrived since the last call, byte by byte; waits for the first one.
    pub(crate) async fn receive(&mut self, mut take: impl FnMut(u8)) {
        ARRIVED.wait().await;
        loop {
            // The DMA counts down to the end of the ring.
            let end = RING_SIZE.saturating_sub(usize::from(RECEIVE.remaining())) % RING_SIZE;
            if self.position == end {
                return;
            }
            while self.position != end {
                take(RING.get(self.position).map_or(0, |byte| byte.load(Ordering::Relaxed)));
                self.position = (self.position + 1) % RING_SIZE;
            }
        }
    }
}

impl Sender {
    /// Sends a frame; false when the radio processor does not take it in time.
    pub(crate) async fn send(&mut self, frame: &syslink::Frame) -> bool {
        let (bytes, length) = frame.encode();
        // The stream is stopped: every call ends with that.
        OUTBOX.iter().zip(bytes).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        SENT.reset();
        TRANSMIT.start(Transfer {
            peripheral: reg::usart6().dr().as_ptr() as u32,
            memory: OUTBOX.as_ptr() as u32,
            length: length as u16,
            wide: false,
            to_peripheral: true,
            advance: true,
            circular: false,
            interrupt: true,
        });
        let sent = with_timeout(PATIENCE, SENT.wait()).await.is_ok();
        TRANSMIT.stop();
        sent
    }
}

#[interrupt]
fn USART6() {
    // Reading status, then data, clears the idle flag (and errors, which the frames' checksums find).
    // This must happen before the next byte is complete, or it could be lost to the DMA: hence the
    // interrupt's high priority.
    let usart = reg::usart6();
    let _ = usart.sr().read();
    let _ = usart.dr().read();
    ARRIVED.signal(());
}

#[interrupt]
fn DMA2_STREAM1() {
    RECEIVE.take_flags();
    ARRIVED.signal(());
}

#[interrupt]
fn DMA2_STREAM7() {
    let flags = TRANSMIT.take_flags();
    if flags.complete || flags.error {
        SENT.signal(());
    }
}

/// The line to the flow control is looked at once at the start: it may be high before its first edge.
pub(crate) fn follow_flow_control() {
    critical_section::with(|_| hold(exti::radio_is_full()));
}
