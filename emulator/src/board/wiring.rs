//! Wires: which pin and register belongs to what, and what a change in one part means for the others.

use super::schedule::{SLOTS, Slot};
use super::{Board, Stop, TICKS_PER_S, TICKS_PER_US};
use crate::chip::dma::{Dma, Wire};
use crate::chip::gpio::Pin;
use crate::chip::i2c::I2c;
use crate::cortex::unicorn::Memory;

/// Interrupts of TIM2 to TIM7.
const TIMER_INTERRUPTS: [u8; 6] = [28, 29, 30, 50, 54, 55];
pub(super) const USART6_DR: u32 = 0x4001_1404;
pub(super) const SPI1_DR: u32 = 0x4001_300C;
pub(super) const I2C1_DR: u32 = 0x4000_5410;
pub(super) const I2C3_DR: u32 = 0x4000_5C10;
const TIM3: usize = 1;
const TIM3_CCR2: u32 = 0x4000_0438;
/// TIM3's channels that can ask for the next length of a pulse of the LED ring, and where.
const RING_REQUESTS: [(u32, Wire); 2] = [(2, Wire::Tim3Compare2), (3, Wire::Tim3Compare3)];
/// The LED ring's data line: TIM3 channel 2.
const RING_DATA: Pin = Pin(1, 5);
/// Time of a byte from the radio processor: ten bits at 1 Mbaud.
const LINE_FRAME: u64 = 10 * TICKS_PER_US;
/// Gyroscope's data ready.
pub(super) const DATA_READY: Pin = Pin(2, 14);
/// The radio processor's flow control.
pub(super) const FLOW: Pin = Pin(0, 4);
/// The line from the radio processor, and the register where it is seen.
pub(super) const RADIO_LINE: Pin = Pin(2, 7);
pub(super) const GPIOC_IDR: u32 = 0x4002_0810;
/// The buses' wires.
pub(super) const SENSOR_SCL: Pin = Pin(0, 8);
pub(super) const SENSOR_SDA: Pin = Pin(2, 9);
pub(super) const DECK_SCL: Pin = Pin(1, 6);
pub(super) const DECK_SDA: Pin = Pin(1, 7);
/// The card's chip select.
const CARD_SELECT: Pin = Pin(2, 12);
/// Motors M1 to M4: pin, alternate function, index of the timer, channel.
pub(super) const MOTORS: [(Pin, u8, usize, usize); 4] =
    [(Pin(0, 1), 1, 0, 2), (Pin(1, 11), 1, 0, 4), (Pin(0, 15), 1, 0, 1), (Pin(1, 9), 2, 2, 4)];

impl Board {
    pub(super) fn wake_receiver(&mut self) {
        if self.on_line.is_none()
            && let Some(byte) = self.nrf.next_byte()
        {
            self.on_line = Some(byte);
            self.set_due(Slot::UsartRx, self.now + LINE_FRAME);
        }
    }

    /// The levels that the bootloader looks at: the line from the radio processor, and flow control.
    pub fn boot_lines(&self) -> (bool, bool) {
        let line = self.on_line.is_none_or(|byte| {
            // Start bit, eight bits from the lowest on, stop bit.
            let left = self.due[Slot::UsartRx as usize].saturating_sub(self.now);
            let bit = LINE_FRAME.saturating_sub(left) / (LINE_FRAME / 10);
            (u32::from(byte) << 1 | 1 << 9) >> bit.min(9) & 1 != 0
        });
        (line, self.gpio.level(FLOW))
    }

    /// What the radio processor wants of the chip's pins.
    pub(super) fn apply_nrf(&mut self) {
        let flow = self.nrf.is_flow_stopped(self.now);
        if self.gpio.level(FLOW) != flow {
            self.gpio.drive(FLOW, flow);
            self.after_gpio();
        }
        if let Some(stop) = self.nrf.take_request() {
            self.stop = Some(stop);
        }
        let next = self.nrf.due(self.now);
        self.set_due(Slot::Nrf, next);
        self.wake_receiver();
    }

    pub(super) fn after_gpio(&mut self) {
        for (irq, level) in self.gpio.interrupts() {
            self.nvic.set_line(irq, level);
        }
        self.event |= std::mem::take(&mut self.gpio.event);
        let selected = !self.gpio.level(CARD_SELECT) && self.gpio.is_output(CARD_SELECT);
        if self.card_selected && !selected {
            self.card.deselect();
        }
        self.card_selected = selected;
    }

    pub(super) fn after_timer(&mut self, index: usize) {
        let timer = &self.timers[index];
        let (due, level) = (timer.due(), timer.interrupt());
        self.nvic.set_line(TIMER_INTERRUPTS[index], level);
        self.set_due(SLOTS[Slot::Timer0 as usize + index], due);
        if index == TIM3 {
            self.wake_ring();
        }
    }

    fn after_dma(&mut self, controller: usize) {
        if self.dma.has_changed(controller) {
            self.dma_lines(controller);
        }
        if let Some(misuse) = self.dma.misuse.take() {
            self.stop = Some(Stop::Dma(misuse));
        }
    }

    fn dma_lines(&mut self, controller: usize) {
        for (irq, level) in self.dma.interrupts(controller) {
            self.nvic.set_line(irq, level);
        }
    }

    pub(super) fn after_usart(&mut self, memory: &mut Memory<'_>) {
        while self.usart.wants_byte()
            && let Some(byte) = self.dma.take(Wire::Usart6Tx, USART6_DR, memory)
        {
            self.usart.put(byte, self.now);
        }
        self.nvic.set_line(71, self.usart.interrupt());
        self.set_due(Slot::Usart, self.usart.due());
        self.after_dma(1);
    }

    pub(super) fn after_spi(&mut self, memory: &mut Memory<'_>) {
        while self.spi.wants_byte()
            && let Some(byte) = self.dma.take(Wire::Spi1Tx, SPI1_DR, memory)
        {
            self.spi.put(byte, self.now);
        }
        self.nvic.set_line(35, self.spi.interrupt());
        self.set_due(Slot::Spi, self.spi.due());
        self.after_dma(1);
    }

    pub(super) fn after_i2c1(&mut self, memory: &mut Memory<'_>) {
        serve_i2c(&mut self.i2c1, &mut self.dma, [Wire::I2c1Rx, Wire::I2c1Tx], I2C1_DR, memory, self.now);
        let (event, error) = self.i2c1.interrupts();
        self.nvic.set_line(31, event);
        self.nvic.set_line(32, error);
        self.set_due(Slot::I2c1, self.i2c1.due());
        self.after_dma(0);
    }

    pub(super) fn after_i2c3(&mut self, memory: &mut Memory<'_>) {
        serve_i2c(&mut self.i2c3, &mut self.dma, [Wire::I2c3Rx, Wire::I2c3Tx], I2C3_DR, memory, self.now);
        let (event, error) = self.i2c3.interrupts();
        self.nvic.set_line(72, event);
        self.nvic.set_line(73, error);
        self.set_due(Slot::I2c3, self.i2c3.due());
        self.after_dma(0);
    }

    /// While the timer asks and a stream answers, a length comes at the end of every period.
    pub(super) fn wake_ring(&mut self) {
        let timer = &self.timers[TIM3];
        let is_fed =
            RING_REQUESTS.iter().any(|(channel, wire)| timer.asks_dma(*channel) && self.dma.left(*wire) > 0);
        let due = if is_fed { timer.period_end() } else { u64::MAX };
        self.set_due(Slot::Ring, due);
    }

    /// The timer's DMA puts the length of the next pulse for the LED ring into the compare register.
    pub(super) fn serve_ring(&mut self, memory: &Memory<'_>) {
        self.timers[TIM3].sync(self.now);
        let mut has_length = false;
        for (channel, wire) in RING_REQUESTS {
            if self.timers[TIM3].asks_dma(channel)
                && let Some(counts) = self.dma.take_half(wire, TIM3_CCR2, memory)
            {
                self.timers[TIM3].write(TIM3_CCR2 & 0x3FF, u32::from(counts), self.now);
                has_length = true;
            }
        }
        if has_length && self.gpio.alternate(RING_DATA) == Some(2) {
            self.ring.pulse(self.timers[TIM3].high_ns(2), self.now * 1000 / TICKS_PER_US);
        }
        self.after_dma(0);
        self.after_timer(TIM3);
    }

    pub(super) fn after_rcc(&mut self) {
        self.otg.has_clock = self.rcc.usb_hz() == 48_000_000;
        let core = self.rcc.core_hz().max(1);
        self.scale = (2 * TICKS_PER_S / core).max(2);
        let (apb1, apb1_timers) = self.rcc.apb1_hz();
        for index in 0..self.timers.len() {
            let timer = &mut self.timers[index];
            if timer.clock_hz != apb1_timers {
                timer.sync(self.now);
                timer.clock_hz = apb1_timers;
                let due = timer.due();
                self.set_due(SLOTS[Slot::Timer0 as usize + index], due);
            }
        }
        (self.i2c1.clock_hz, self.i2c3.clock_hz) = (apb1, apb1);
        (self.usart.clock_hz, self.spi.clock_hz) = (self.rcc.apb2_hz(), self.rcc.apb2_hz());
        // Peripherals held in reset lose their state.
        for (bit, port) in [(21, &mut self.i2c1), (23, &mut self.i2c3)] {
            if self.rcc.is_set(0x20, bit) {
                port.reset();
            }
        }
        if self.rcc.is_set(0x24, 5) {
            self.usart.reset();
        }
        if self.rcc.is_set(0x24, 12) {
            self.spi.reset();
        }
    }
}

/// DMA for an I²C port in both directions.
fn serve_i2c(
    port: &mut I2c,
    dma: &mut Dma,
    [rx, tx]: [Wire; 2],
    register: u32,
    memory: &mut Memory<'_>,
    now: u64,
) {
    while let Some(byte) = port.has_byte() {
        if !dma.give(rx, register, byte, memory) {
            break;
        }
        port.fetch(now);
    }
    while port.wants_byte() {
        match dma.take(tx, register, memory) {
            Some(byte) => port.put(byte, now),
            None => break,
        }
    }
}
