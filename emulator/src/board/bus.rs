//! What the core does to the board: blocks of code that run, loads and stores.

use super::registers::part;
use super::schedule::Slot;
use super::wiring::{I2C1_DR, I2C3_DR, SPI1_DR, USART6_DR};
use super::{Board, Plain, Stop};
use crate::cortex::cost::{self, BRANCH_REFILL, EXCEPTION_ENTRY, EXCEPTION_RETURN, Traits};
use crate::cortex::map;
use crate::cortex::unicorn::{Bus, Memory, Registers};

impl Board {
    /// An exception begins. That takes its time, which is no function's.
    pub fn enter_exception(&mut self, number: u8) {
        self.nvic.enter(number);
        self.event = true;
        self.meters.at_depth(self.nvic.depth(), self.effort);
        self.charge_exception(EXCEPTION_ENTRY);
    }

    /// The innermost exception ends.
    pub fn leave_exception(&mut self) {
        self.nvic.leave();
        self.event = true;
        self.meters.at_depth(self.nvic.depth(), self.effort);
        self.charge_exception(EXCEPTION_RETURN);
    }

    fn charge_exception(&mut self, cycles: u64) {
        self.meters.leave_out(cycles);
        self.charge(cycles);
    }

    fn charge(&mut self, cycles: u64) {
        self.effort.cycles += cycles;
        self.now += cycles * self.scale / 2;
    }

    /// Finds out again which blocks only take their time.
    fn look_around(&mut self) {
        let waits = self.nvic.wants()
            || self.stop.is_some()
            || self.locks.written.is_some()
            || self.profile.is_some();
        let fpu = if self.system.is_fpu_plain() { Traits::NONE } else { Traits::USES_FPU };
        self.plain = Plain {
            until: if waits { 0 } else { self.deadline },
            not: Traits::BEGINS_FUNCTION.and(fpu),
            // No block begins at an odd address.
            not_at: self.meters.back().unwrap_or(1),
        };
    }

    /// Charges the block that has run, and forgets it.
    #[inline]
    pub fn settle(&mut self, next: Option<u32>) {
        let Some((cost, end)) = self.running.take() else { return };
        let mut cycles = u64::from(cost.cycles);
        if next.is_some_and(|next| next != end) {
            cycles += BRANCH_REFILL;
        }
        self.event |= cost.traits.has(Traits::SENDS_EVENT);
        if cost.traits.has(Traits::WRITES_MASK) {
            self.locks.written = Some((self.now, self.block_address));
        }
        self.effort.instructions += u64::from(cost.instructions);
        if let Some(profile) = &mut self.profile
            && let Some(entry) = profile.get_mut((self.block_address.wrapping_sub(map::FLASH) / 2) as usize)
        {
            entry.0 += u64::from(cost.instructions);
            entry.1 += cycles;
        }
        self.charge(cycles);
    }

    /// Something is due or pending: true when the core must stop for it.
    #[cold]
    fn interrupts(&mut self, memory: &mut Memory<'_>, registers: Registers<'_>) -> bool {
        if self.now >= self.deadline {
            self.events(memory);
        }
        if self.stop.is_some() || self.now >= self.due[Slot::Limit as usize] {
            return true;
        }
        self.nvic.wants() && {
            let masks = registers.masks();
            self.nvic.next(masks.primask, masks.basepri, masks.faultmask).is_some()
        }
    }

    /// The code is in the flash, which cannot be read while it is written.
    pub(super) fn wait_for_flash(&mut self, until: u64) {
        self.flash_changed = true;
        self.refuse(Stop::Stall(until));
    }

    /// A block that may need more than to be counted.
    fn special_block(
        &mut self,
        memory: &mut Memory<'_>,
        address: u32,
        size: u32,
        registers: Registers<'_>,
    ) -> bool {
        self.settle(Some(address));
        if self.locks.written.is_some() {
            self.locks.look(registers.primask(), self.now);
        }
        if self.stop.is_some() {
            return true;
        }
        if (self.now >= self.deadline || self.nvic.wants()) && self.interrupts(memory, registers) {
            return true;
        }
        let cost = if address >= map::SRAM {
            self.ram_costs.get(memory.sram, address, size)
        } else if address >= map::CCM {
            // System memory; nothing runs there for long.
            cost::of_block(memory.at(address).and_then(|m| m.get(..size as usize)).unwrap_or(&[0, 0]))
        } else {
            let address = if address < map::FLASH { address + map::FLASH } else { address };
            self.costs.get(memory.flash, address, size)
        };
        if cost.traits.has(Traits::USES_FPU) {
            if !self.system.has_fpu() {
                self.refuse(Stop::FpuOff);
                return true;
            }
            self.system.forget_lazy_state();
        }
        self.meters.block(address, self.effort);
        if cost.function > 0 {
            self.meters.enter(usize::from(cost.function) - 1, registers.link() & !1, self.effort);
        }
        self.block_address = address;
        self.running = Some((cost, address.wrapping_add(size)));
        false
    }

    fn load(
        &mut self,
        memory: &mut Memory<'_>,
        address: u32,
        size: u32,
        registers: Registers<'_>,
    ) -> Option<u32> {
        match address {
            0x2200_0000..=0x23FF_FFFF => {
                let bit = (address - 0x2200_0000) / 4;
                memory.sram.get(bit as usize / 8).map(|byte| u32::from(byte >> (bit % 8) & 1))
            }
            0x4200_0000..=0x43FF_FFFF => {
                let bit = (address - 0x4200_0000) / 4;
                let target = 0x4000_0000 + bit / 8;
                self.register(memory, target & !3).map(|word| word >> (bit % 32) & 1)
            }
            0xE000_0000.. => self.core_register(address, size, registers),
            _ if !self.rcc.has_clock(address) => {
                self.unclocked.insert(self.block_address, address);
                Some(0)
            }
            _ => self.register(memory, address & !3).map(|word| part(word, address, size)),
        }
    }

    fn store(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, value: u32) -> Option<()> {
        match address {
            0x2200_0000..=0x23FF_FFFF => {
                let bit = (address - 0x2200_0000) / 4;
                memory.sram.get_mut(bit as usize / 8).map(|byte| {
                    *byte = *byte & !(1 << (bit % 8)) | ((value & 1) as u8) << (bit % 8);
                })
            }
            0x4200_0000..=0x43FF_FFFF => {
                let bit = (address - 0x4200_0000) / 4;
                let target = (0x4000_0000 + bit / 8) & !3;
                self.register(memory, target).and_then(|word| {
                    let word = word & !(1 << (bit % 32)) | (value & 1) << (bit % 32);
                    self.set_register(memory, target, word)
                })
            }
            0xE000_0000.. => self.set_core_register(address, size, value),
            _ if !self.rcc.has_clock(address) => {
                self.unclocked.insert(self.block_address, address);
                Some(())
            }
            // Narrow stores into the data registers of the serial ports go as they are; elsewhere
            // the other bytes of the word keep their value.
            _ if size == 4 || matches!(address, USART6_DR | SPI1_DR | I2C1_DR | I2C3_DR) => {
                self.set_register(memory, address & !3, value)
            }
            _ => self.register(memory, address & !3).and_then(|word| {
                let shift = 8 * (address & 3);
                let mask = if size == 1 { 0xFF } else { 0xFFFF } << shift;
                self.set_register(memory, address & !3, word & !mask | value << shift & mask)
            }),
        }
    }

    fn refuse(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }
}

impl Bus for Board {
    #[inline]
    fn plain_block(&mut self, address: u32, size: u32) -> bool {
        let Some((cost, end)) = self.running else { return false };
        let Some(next) = self.costs.known(address, size) else { return false };
        let mut cycles = u64::from(cost.cycles);
        if address != end {
            cycles += BRANCH_REFILL;
        }
        let now = self.now + cycles * self.scale / 2;
        let is_plain = now < self.plain.until
            && !cost.traits.has(Traits::ENDS_SPECIAL)
            && !next.traits.has(self.plain.not)
            && address != self.plain.not_at;
        if !is_plain {
            return false;
        }
        self.now = now;
        self.effort.instructions += u64::from(cost.instructions);
        self.effort.cycles += cycles;
        self.block_address = address;
        self.running = Some((next, address.wrapping_add(size)));
        true
    }

    fn block(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, registers: Registers<'_>) -> bool {
        let stops = self.special_block(memory, address, size, registers);
        self.look_around();
        stops
    }

    fn resume(&mut self) {
        self.look_around();
    }

    #[inline]
    fn has_set_special(&self) -> bool {
        self.running.is_some_and(|(cost, _)| cost.traits.has(Traits::SETS_SPECIAL))
    }

    fn read(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, registers: Registers<'_>) -> u32 {
        let value = self.load(memory, address, size, registers).unwrap_or_else(|| {
            self.refuse(Stop::Unmodelled { address, is_write: false });
            0
        });
        self.look_around();
        value
    }

    fn write(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, value: u32) {
        if self.store(memory, address, size, value).is_none() {
            self.refuse(Stop::Unmodelled { address, is_write: true });
        }
        self.look_around();
    }

    fn must_stop(&self) -> bool {
        // After a wait the code goes on behind the access.
        self.stop.as_ref().is_some_and(|stop| !matches!(stop, Stop::Stall(_)))
    }

    fn store_to_flash(&mut self, memory: &mut Memory<'_>, offset: usize, size: u32, value: u32) -> bool {
        if self.is_strict && !self.flash.is_programming() {
            return false;
        }
        if let Some(until) = self.flash.store(memory.flash, offset, size, value, self.now) {
            self.wait_for_flash(until);
        }
        self.look_around();
        true
    }
}
