//! Registers of the core besides the interrupt controller: system timer, system control block,
//! floating-point and debug registers.

use super::map::FIRMWARE;
use super::nvic::{Nvic, exception};

/// What a write asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    None,
    /// A reset of the whole chip.
    Reset,
}

/// The registers.
#[derive(Clone, Debug)]
pub struct System {
    /// Vector table.
    pub vtor: u32,
    scr: u32,
    ccr: u32,
    /// AIRCR.PRIGROUP.
    priority_grouping: u32,
    shcsr: u32,
    /// Configurable fault status; the firmware's fault handler reads it.
    pub cfsr: u32,
    /// Hard fault status.
    pub hfsr: u32,
    /// Address of the latest bus fault.
    pub bfar: u32,
    cpacr: u32,
    fpccr: u32,
    fpcar: u32,
    fpdscr: u32,
    demcr: u32,
    dwt_control: u32,
    /// CYCCNT counts cycles minus this.
    dwt_base: u64,
    tick_control: u32,
    tick_reload: u32,
    /// When the system timer was at its reload value.
    tick_base: u64,
    tick_wrapped: bool,
    mpu: [u32; 8],
}

impl Default for System {
    fn default() -> Self {
        Self {
            vtor: FIRMWARE,
            scr: 0,
            ccr: 0x200,
            priority_grouping: 0,
            shcsr: 0,
            cfsr: 0,
            hfsr: 0,
            bfar: 0,
            cpacr: 0,
            fpccr: 0xC000_0000,
            fpcar: 0,
            fpdscr: 0,
            demcr: 0,
            dwt_control: 0x4000_0000,
            dwt_base: 0,
            tick_control: 0,
            tick_reload: 0,
            tick_base: 0,
            tick_wrapped: false,
            mpu: [0; 8],
        }
    }
}

impl System {
    /// True when the floating-point unit was switched on.
    #[must_use]
    pub fn has_fpu(&self) -> bool {
        self.cpacr >> 20 & 0xF == 0xF
    }

    /// True when a return from an exception to thread mode goes to sleep.
    #[must_use]
    pub fn sleeps_on_exit(&self) -> bool {
        self.scr & 2 != 0
    }

    /// True when an interrupt that becomes pending is an event.
    #[must_use]
    pub fn event_on_pend(&self) -> bool {
        self.scr & 0x10 != 0
    }

    /// True when a fault has its own handler instead of the hard fault's.
    #[must_use]
    pub fn is_fault_enabled(&self, number: u8) -> bool {
        (exception::MEM_MANAGE..=exception::USAGE_FAULT).contains(&number)
            && self.shcsr >> (12 + number) & 1 != 0
    }

    fn tick_period(&self) -> u64 {
        // Bit 2 chooses the core's clock; without it the timer counts every eighth cycle.
        let divider = if self.tick_control & 4 != 0 { 1 } else { 8 };
        (u64::from(self.tick_reload) + 1) * divider
    }

    /// When the system timer next wraps.
    #[must_use]
    pub fn tick_due(&self) -> u64 {
        if self.tick_control & 1 == 0 || self.tick_reload == 0 {
            return u64::MAX;
        }
        self.tick_base + self.tick_period()
    }

    /// The system timer wraps.
    pub fn tick(&mut self, nvic: &mut Nvic) {
        self.tick_base += self.tick_period();
        self.tick_wrapped = true;
        if self.tick_control & 2 != 0 {
            nvic.pend(exception::SYS_TICK);
        }
    }

    /// Reads a word; `None` when there is no such register.
    pub fn read(&mut self, nvic: &Nvic, address: u32, now: u64) -> Option<u32> {
        Some(match address {
            0xE000_E010 => {
                let value = self.tick_control | u32::from(self.tick_wrapped) << 16;
                self.tick_wrapped = false;
                value
            }
            0xE000_E014 => self.tick_reload,
            0xE000_E018 => {
                let gone = (now.saturating_sub(self.tick_base)) * (u64::from(self.tick_reload) + 1)
                    / self.tick_period();
                self.tick_reload.saturating_sub(gone as u32)
            }
            0xE000_E01C => 0xC000_0000,
            0xE000_E004 => 2,
            0xE000_ED00 => 0x410F_C241,
            0xE000_ED04 => {
                u32::from(nvic.current())
                    | u32::from(nvic.is_pending(exception::SYS_TICK)) << 26
                    | u32::from(nvic.is_pending(exception::PEND_SV)) << 28
            }
            0xE000_ED08 => self.vtor,
            0xE000_ED0C => 0xFA05_0000 | self.priority_grouping << 8,
            0xE000_ED10 => self.scr,
            0xE000_ED14 => self.ccr,
            0xE000_ED18..=0xE000_ED23 => nvic.system_priorities(4 + (address - 0xE000_ED18) as usize),
            0xE000_ED24 => self.shcsr,
            0xE000_ED28 => self.cfsr,
            0xE000_ED2C => self.hfsr,
            0xE000_ED34 | 0xE000_ED38 => self.bfar,
            0xE000_ED30 | 0xE000_EDF0 | 0xE000_ED3C => 0,
            0xE000_ED88 => self.cpacr,
            0xE000_ED90 => 0x0000_0800,
            0xE000_ED94..=0xE000_EDA3 => self.mpu[(address as usize - 0xE000_ED94) / 4],
            0xE000_EDFC => self.demcr,
            0xE000_EF34 => self.fpccr,
            0xE000_EF38 => self.fpcar,
            0xE000_EF3C => self.fpdscr,
            0xE000_EF40 => 0x1011_0021,
            0xE000_EF44 => 0x1100_0011,
            0xE000_1000 => self.dwt_control,
            0xE000_1004 => now.wrapping_sub(self.dwt_base) as u32,
            // Trace hardware that nobody listens to.
            0xE000_0000..=0xE000_0FFF | 0xE000_1008..=0xE000_101B => 0,
            _ => return None,
        })
    }

    /// Writes a word; `None` when there is no such register.
    pub fn write(&mut self, nvic: &mut Nvic, address: u32, value: u32, now: u64) -> Option<Request> {
        match address {
            0xE000_E010 => {
                if value & 1 != 0 && self.tick_control & 1 == 0 {
                    self.tick_base = now;
                }
                self.tick_control = value & 7;
            }
            0xE000_E014 => self.tick_reload = value & 0x00FF_FFFF,
            0xE000_E018 => (self.tick_base, self.tick_wrapped) = (now, false),
            0xE000_ED04 => {
                for (bit, number, set) in [
                    (28, exception::PEND_SV, true),
                    (27, exception::PEND_SV, false),
                    (26, exception::SYS_TICK, true),
                    (25, exception::SYS_TICK, false),
                    (31, exception::NMI, true),
                ] {
                    if value >> bit & 1 != 0 {
                        if set { nvic.pend(number) } else { nvic.unpend(number) }
                    }
                }
            }
            0xE000_ED08 => self.vtor = value & 0x3FFF_FF80,
            0xE000_ED0C => {
                // Without its key a write does nothing.
                if value >> 16 == 0x05FA {
                    if value & 4 != 0 {
                        return Some(Request::Reset);
                    }
                    self.priority_grouping = value >> 8 & 7;
                    nvic.set_priority_grouping(self.priority_grouping);
                }
            }
            0xE000_ED10 => self.scr = value & 0x16,
            0xE000_ED14 => self.ccr = value,
            0xE000_ED18..=0xE000_ED23 => {
                nvic.set_priorities(4 + (address - 0xE000_ED18) as usize, 4, value);
            }
            0xE000_ED24 => {
                self.shcsr = value & 0x0007_0000;
                for (bit, number) in
                    [(16, exception::MEM_MANAGE), (17, exception::BUS_FAULT), (18, exception::USAGE_FAULT)]
                {
                    nvic.enable_system(number, value >> bit & 1 != 0);
                }
            }
            0xE000_ED28 => self.cfsr &= !value,
            0xE000_ED2C => self.hfsr &= !value,
            0xE000_ED88 => self.cpacr = value,
            0xE000_ED94..=0xE000_EDA3 => self.mpu[(address as usize - 0xE000_ED94) / 4] = value,
            0xE000_EDFC => self.demcr = value,
            0xE000_EF00 => nvic.pend(16 + (value as u8 & 0x7F)),
            0xE000_EF34 => self.fpccr = value,
            0xE000_EF38 => self.fpcar = value,
            0xE000_EF3C => self.fpdscr = value,
            0xE000_1000 => self.dwt_control = value,
            0xE000_1004 => self.dwt_base = now.wrapping_sub(u64::from(value)),
            0xE000_0000..=0xE000_0FFF
            | 0xE000_1008..=0xE000_101B
            | 0xE000_ED30
            | 0xE000_ED34
            | 0xE000_ED38 => {}
            0xE000_1FB0 => {}
            _ => return None,
        }
        Some(Request::None)
    }
}
