//! Time: what happens when, and what then.

use super::wiring::{DATA_READY, FLOW, SPI1_DR, USART6_DR};
use super::{Board, Stop, TICKS_PER_MS, TICKS_PER_US};
use crate::chip::dma::Wire;
use crate::chip::rcc::ResetCause;
use crate::cortex::unicorn::Memory;

/// How long the gyroscope's data-ready pin stays high.
const DATA_READY_TICKS: u64 = 300 * TICKS_PER_US;

/// Where to look for what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Tick,
    Timer0,
    Timer1,
    Timer2,
    Timer3,
    Timer4,
    Timer5,
    Usart,
    UsartRx,
    I2c1,
    I2c3,
    Spi,
    Watchdog,
    Plant,
    DataReadyEnd,
    Nrf,
    Ring,
    Limit,
}

pub(super) const SLOTS: [Slot; 18] = [
    Slot::Tick,
    Slot::Timer0,
    Slot::Timer1,
    Slot::Timer2,
    Slot::Timer3,
    Slot::Timer4,
    Slot::Timer5,
    Slot::Usart,
    Slot::UsartRx,
    Slot::I2c1,
    Slot::I2c3,
    Slot::Spi,
    Slot::Watchdog,
    Slot::Plant,
    Slot::DataReadyEnd,
    Slot::Nrf,
    Slot::Ring,
    Slot::Limit,
];

impl Board {
    pub(super) fn set_due(&mut self, slot: Slot, time: u64) {
        let before = std::mem::replace(&mut self.due[slot as usize], time);
        if time <= self.deadline {
            self.deadline = time;
        } else if before == self.deadline {
            self.deadline = self.due.iter().copied().min().unwrap_or(u64::MAX);
        }
    }

    /// The run ends at this time.
    pub fn set_limit(&mut self, time: u64) {
        self.set_due(Slot::Limit, time);
    }

    /// When something happens next.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Lets a sleeping core's time pass until `time`.
    pub fn sleep_until(&mut self, memory: &mut Memory<'_>, time: u64) {
        self.effort.asleep += time.saturating_sub(self.now);
        self.now = self.now.max(time);
        self.events(memory);
    }

    /// Everything that is due happens, in the order of time and then of the slots.
    pub(super) fn events(&mut self, memory: &mut Memory<'_>) {
        while self.deadline <= self.now {
            let deadline = self.deadline;
            let Some(slot) = SLOTS.into_iter().find(|s| self.due[*s as usize] == deadline) else { return };
            self.event_of(slot, memory);
            if slot == Slot::Limit || self.stop.is_some() {
                return;
            }
        }
    }

    fn event_of(&mut self, slot: Slot, memory: &mut Memory<'_>) {
        let now = self.now;
        match slot {
            Slot::Tick => {
                self.system.tick(&mut self.nvic);
                self.set_due(Slot::Tick, self.system.tick_due());
            }
            Slot::Timer0 | Slot::Timer1 | Slot::Timer2 | Slot::Timer3 | Slot::Timer4 | Slot::Timer5 => {
                let index = slot as usize - Slot::Timer0 as usize;
                self.timers[index].sync(now);
                self.after_timer(index);
            }
            Slot::Usart => {
                self.usart.advance(now);
                while let Some(byte) = self.usart.sent.pop_front() {
                    self.against_flow = if self.gpio.level(FLOW) { self.against_flow + 1 } else { 0 };
                    self.bytes_against_flow = self.bytes_against_flow.max(self.against_flow);
                    self.nrf.serial(byte, now);
                }
                self.apply_nrf();
                self.after_usart(memory);
            }
            Slot::UsartRx => {
                if let Some(byte) = self.on_line.take()
                    && self.usart.arrive(byte, now)
                    && self.dma.give(Wire::Usart6Rx, USART6_DR, byte, memory)
                {
                    self.usart.fetch();
                }
                self.set_due(Slot::UsartRx, u64::MAX);
                self.wake_receiver();
                self.after_usart(memory);
            }
            Slot::I2c1 => {
                let left = self.dma.left(Wire::I2c1Rx);
                self.i2c1.advance(&mut self.eeprom, left, now);
                self.after_i2c1(memory);
            }
            Slot::I2c3 => {
                let left = self.dma.left(Wire::I2c3Rx);
                self.i2c3.advance(&mut self.sensors, left, now);
                self.after_i2c3(memory);
            }
            Slot::Spi => {
                if let Some(byte) = self.spi.outgoing(now) {
                    let answer = if self.card_selected { self.card.exchange(byte, now) } else { 0xFF };
                    if self.spi.finish(answer, now) && self.dma.give(Wire::Spi1Rx, SPI1_DR, answer, memory) {
                        self.spi.fetch();
                    }
                }
                self.after_spi(memory);
            }
            Slot::Watchdog => {
                self.set_due(Slot::Watchdog, u64::MAX);
                self.stop = Some(Stop::Reset(ResetCause::Watchdog));
            }
            Slot::Plant => self.plant_event(memory),
            Slot::DataReadyEnd => {
                self.gpio.drive(DATA_READY, false);
                self.set_due(Slot::DataReadyEnd, u64::MAX);
                self.after_gpio();
            }
            Slot::Nrf => {
                self.nrf.tick(memory.flash, now);
                self.apply_nrf();
                let next = self.nrf.due(now);
                self.set_due(Slot::Nrf, next);
            }
            Slot::Ring => self.serve_ring(memory),
            Slot::Limit => {}
        }
    }

    /// A millisecond of the world outside.
    fn plant_event(&mut self, memory: &mut Memory<'_>) {
        self.set_due(Slot::Plant, self.now - self.now % TICKS_PER_MS + TICKS_PER_MS);
        // The outside acts on the board, so it is taken out for the time being.
        let mut outside = std::mem::replace(&mut self.outside, Box::new(crate::outside::Nothing));
        outside.step(self, memory);
        self.outside = outside;
        if self.sensors.has_data_ready_pin() {
            self.gpio.drive(DATA_READY, true);
            self.set_due(Slot::DataReadyEnd, self.now + DATA_READY_TICKS);
            self.after_gpio();
        }
        self.apply_nrf();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::card::Card;
    use crate::board::eeprom::Eeprom;
    use crate::board::nrf::Nrf;
    use crate::outside::Nothing;

    #[test]
    fn the_deadline_is_always_the_first_of_all() {
        let mut board = Board::new(Card::new(None), Eeprom::default(), Nrf::new(false), Box::new(Nothing));
        let mut state = 1_u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = SLOTS[(state >> 33) as usize % SLOTS.len()];
            // Few values, so that several are due at once.
            let time = [u64::MAX, 3, 5, 8, 13, 21][(state >> 45) as usize % 6];
            board.set_due(slot, time);
            assert_eq!(Some(board.deadline()), board.due.iter().copied().min());
        }
    }
}
