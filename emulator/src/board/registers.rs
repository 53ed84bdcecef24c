//! Registers: which peripheral an address belongs to.

use super::schedule::Slot;
use super::wiring::{GPIOC_IDR, RADIO_LINE};
use super::{Board, Stop};
use crate::chip::rcc::ResetCause;
use crate::cortex::system::Request;
use crate::cortex::unicorn::{Memory, Registers};

/// The USB controller.
const OTG_FS: u32 = 0x5000_0000;
const OTG_FS_END: u32 = 0x5003_FFFF;
/// The analogue converters, which measure nothing.
const ADC: u32 = 0x4001_2000;

impl Board {
    /// Reads a whole register.
    pub(super) fn register(&mut self, memory: &mut Memory<'_>, address: u32) -> Option<u32> {
        let (base, offset, now) = (address & !0x3FF, address & 0x3FF, self.now);
        match base {
            0x4000_0000..=0x4000_17FF => {
                let index = (base >> 10 & 7) as usize;
                let value = self.timers[index].read(offset, now);
                self.after_timer(index);
                value
            }
            0x4000_2800 => match offset {
                0x00..=0x9F => Some(self.backup[offset as usize / 4]),
                _ => None,
            },
            0x4000_3000 => self.watchdog.read(offset),
            0x4000_5400 => {
                let value = self.i2c1.read(offset, now);
                self.after_i2c1(memory);
                value
            }
            0x4000_5C00 => {
                let value = self.i2c3.read(offset, now);
                self.after_i2c3(memory);
                value
            }
            0x4000_7000 => match offset {
                0 => Some(self.power_control),
                // The regulator is always ready.
                4 => Some(0x0000_4000),
                _ => None,
            },
            0x4001_1400 => {
                let value = self.usart.read(offset);
                self.nvic.set_line(71, self.usart.interrupt());
                value
            }
            0x4001_3000 => {
                let value = self.spi.read(offset);
                self.nvic.set_line(35, self.spi.interrupt());
                value
            }
            0x4001_3800 => self.gpio.read_syscfg(offset),
            0x4001_3C00 => self.gpio.read_exti(offset),
            0x4002_0000..=0x4002_1FFF => {
                if address == GPIOC_IDR {
                    // The line changes with every bit: its level is found when somebody looks.
                    let (level, _) = self.boot_lines();
                    self.gpio.drive(RADIO_LINE, level);
                }
                self.gpio.read((base >> 10 & 7) as usize, offset)
            }
            0x4002_3800 => self.rcc.read(offset),
            0x4002_3C00 => self.flash.read(offset),
            0x4002_6000 => self.dma.read(0, offset),
            0x4002_6400 => self.dma.read(1, offset),
            OTG_FS..=OTG_FS_END => {
                let value = self.otg.read(address - OTG_FS);
                self.nvic.set_line(67, self.otg.interrupt());
                Some(value)
            }
            ADC => Some(self.stubs.get(&address).copied().unwrap_or(0)),
            _ => None,
        }
    }

    /// Writes a whole register.
    pub(super) fn set_register(&mut self, memory: &mut Memory<'_>, address: u32, value: u32) -> Option<()> {
        let (base, offset, now) = (address & !0x3FF, address & 0x3FF, self.now);
        match base {
            0x4000_0000..=0x4000_17FF => {
                let index = (base >> 10 & 7) as usize;
                self.timers[index].write(offset, value, now)?;
                self.after_timer(index);
            }
            0x4000_2800 => *self.backup.get_mut(offset as usize / 4)? = value,
            0x4000_3000 => {
                self.watchdog.write(offset, value, now)?;
                self.set_due(Slot::Watchdog, self.watchdog.due());
            }
            0x4000_5400 => {
                self.i2c1.write(&mut self.eeprom, offset, value, now)?;
                self.after_i2c1(memory);
            }
            0x4000_5C00 => {
                self.i2c3.write(&mut self.sensors, offset, value, now)?;
                self.after_i2c3(memory);
            }
            0x4000_7000 if offset == 0 => self.power_control = value,
            0x4000_7000 if offset == 4 => {}
            0x4001_1400 => {
                self.usart.write(offset, value, now)?;
                self.after_usart(memory);
            }
            0x4001_3000 => {
                self.spi.write(offset, value, now)?;
                self.after_spi(memory);
            }
            0x4001_3800 => self.gpio.write_syscfg(offset, value)?,
            0x4001_3C00 => {
                self.gpio.write_exti(offset, value)?;
                self.after_gpio();
            }
            0x4002_0000..=0x4002_1FFF => {
                self.gpio.write((base >> 10 & 7) as usize, offset, value)?;
                self.after_gpio();
            }
            0x4002_3800 => {
                self.rcc.write(offset, value)?;
                self.after_rcc();
            }
            0x4002_3C00 => {
                if let Some(until) = self.flash.write(memory.flash, offset, value, now)? {
                    self.wait_for_flash(until);
                }
            }
            0x4002_6000 => {
                self.dma.write(0, offset, value)?;
                self.after_i2c1(memory);
                self.after_i2c3(memory);
                self.wake_ring();
            }
            0x4002_6400 => {
                self.dma.write(1, offset, value)?;
                self.after_usart(memory);
                self.after_spi(memory);
            }
            OTG_FS..=OTG_FS_END => {
                self.otg.write(address - OTG_FS, value);
                self.nvic.set_line(67, self.otg.interrupt());
            }
            ADC => {
                self.stubs.insert(address, value);
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn core_register(&mut self, address: u32, size: u32, registers: Registers<'_>) -> Option<u32> {
        match address {
            // ICSR, whose VECTPENDING knows BASEPRI and FAULTMASK, but not PRIMASK.
            0xE000_ED04..=0xE000_ED07 => {
                let masks = registers.masks();
                let next = self.nvic.next_in_line(masks.basepri, masks.faultmask);
                let word = self.system.read(&self.nvic, 0xE000_ED04, self.now)?;
                Some(part(word | u32::from(next.unwrap_or(0)) << 12, address, size))
            }
            0xE000_E100..=0xE000_E4EF => Some(self.nvic.read(address - 0xE000_E100, size)),
            0xE004_2000 => Some(0x1003_6413),
            0xE004_2004..=0xE004_200F => Some(self.debug_freeze[(address as usize - 0xE004_2004) / 4]),
            _ => {
                let word = self.system.read(&self.nvic, address & !3, self.now)?;
                Some(part(word, address, size))
            }
        }
    }

    pub(super) fn set_core_register(&mut self, address: u32, size: u32, value: u32) -> Option<()> {
        match address {
            0xE000_E100..=0xE000_E4EF => self.nvic.write(address - 0xE000_E100, size, value),
            // Priorities of system exceptions may be written byte by byte.
            0xE000_ED18..=0xE000_ED23 => {
                self.nvic.set_priorities(4 + (address as usize - 0xE000_ED18), size, value);
            }
            0xE004_2004..=0xE004_200F => self.debug_freeze[(address as usize - 0xE004_2004) / 4] = value,
            _ => {
                let request = self.system.write(&mut self.nvic, address, value, self.now)?;
                if request == Request::Reset {
                    self.stop = Some(Stop::Reset(ResetCause::Software));
                }
                self.set_due(Slot::Tick, self.system.tick_due());
            }
        }
        Some(())
    }
}

/// The bytes of a word that an access of `size` at `address` means.
pub(super) fn part(word: u32, address: u32, size: u32) -> u32 {
    let shifted = word >> (8 * (address & 3));
    match size {
        1 => shifted & 0xFF,
        2 => shifted & 0xFFFF,
        _ => word,
    }
}
