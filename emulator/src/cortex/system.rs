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

/// The cycle counter of the trace unit (DWT_CYCCNT).
#[derive(Clone, Debug, Default)]
struct Cycles {
    is_on: bool,
    /// The count while it is off, the time when it was 0 while it is on.
    base: u64,
}

impl Cycles {
    fn count(&self, now: u64) -> u64 {
        if self.is_on { now.wrapping_sub(self.base) } else { self.base }
    }

    fn set(&mut self, count: u64, now: u64) {
        self.base = if self.is_on { now.wrapping_sub(count) } else { count };
    }

    fn switch(&mut self, is_on: bool, now: u64) {
        let count = self.count(now);
        self.is_on = is_on;
        self.set(count, now);
    }
}

/// The system timer (SysTick).
#[derive(Clone, Debug, Default)]
struct SystemTimer {
    /// ENABLE, TICKINT, CLKSOURCE.
    control: u32,
    reload: u32,
    /// The counter while the timer is off.
    value: u32,
    /// When the counter reaches 0, while the timer is on.
    zero_at: u64,
    /// COUNTFLAG.
    has_wrapped: bool,
}

impl SystemTimer {
    const ENABLE: u32 = 1;
    const INTERRUPT: u32 = 1 << 1;
    const CORE_CLOCK: u32 = 1 << 2;

    fn is_on(&self) -> bool {
        self.control & Self::ENABLE != 0
    }

    /// Ticks of a count: a core's cycle, or eight.
    fn divider(&self) -> u64 {
        if self.control & Self::CORE_CLOCK != 0 { 1 } else { 8 }
    }

    /// Counts until the counter is 0 from this value on. 0 itself is followed by the reload value.
    fn counts_from(&self, value: u32) -> u64 {
        if value == 0 { u64::from(self.reload) + 1 } else { u64::from(value) }
    }

    fn value(&self, now: u64) -> u32 {
        if !self.is_on() {
            return self.value;
        }
        // Just at 0, or written: the reload value comes with the next count.
        let left = self.zero_at.saturating_sub(now).div_ceil(self.divider());
        u32::try_from(left).ok().filter(|left| *left <= self.reload).unwrap_or(0)
    }

    fn start(&mut self, value: u32, now: u64) {
        self.zero_at = now + self.counts_from(value) * self.divider();
    }

    fn set_control(&mut self, control: u32, now: u64) {
        let value = self.value(now);
        let was = std::mem::replace(&mut self.control, control & 7);
        self.value = value;
        let differs = (was ^ control) & (Self::ENABLE | Self::CORE_CLOCK) != 0;
        if self.is_on() && differs {
            self.start(value, now);
        }
    }

    fn due(&self) -> u64 {
        if self.is_on() && self.reload != 0 { self.zero_at } else { u64::MAX }
    }
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
    cycles: Cycles,
    timer: SystemTimer,
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
            cycles: Cycles::default(),
            timer: SystemTimer::default(),
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

    /// True when a floating-point instruction does nothing but compute: the unit is on, and no state waits to be
    /// saved.
    #[must_use]
    pub fn is_fpu_plain(&self) -> bool {
        self.has_fpu() && self.fpccr & 1 == 0
    }

    /// True when a return from an exception to thread mode goes to sleep.
    #[must_use]
    pub fn sleeps_on_exit(&self) -> bool {
        self.scr & 2 != 0
    }

    /// An exception has left room for the floating-point registers at this address. What the chip saves there when
    /// they are first used is there already; only the registers tell of the difference.
    pub fn reserve_floats(&mut self, address: u32) {
        self.fpcar = address & !7;
        // LSPACT, when LSPEN is set.
        self.fpccr = self.fpccr & !1 | self.fpccr >> 30 & 1;
    }

    /// No floating-point state waits to be saved any more.
    #[inline]
    pub fn forget_lazy_state(&mut self) {
        self.fpccr &= !1;
    }

    /// True when a fault has its own handler instead of the hard fault's.
    #[must_use]
    pub fn is_fault_enabled(&self, number: u8) -> bool {
        (exception::MEM_MANAGE..=exception::USAGE_FAULT).contains(&number)
            && self.shcsr >> (12 + number) & 1 != 0
    }

    /// When the system timer next wraps.
    #[must_use]
    pub fn tick_due(&self) -> u64 {
        self.timer.due()
    }

    /// The system timer reaches 0.
    pub fn tick(&mut self, nvic: &mut Nvic) {
        let timer = &mut self.timer;
        timer.zero_at += timer.counts_from(0) * timer.divider();
        timer.has_wrapped = true;
        if timer.control & SystemTimer::INTERRUPT != 0 {
            nvic.pend(exception::SYS_TICK);
        }
    }

    /// Cycles are counted when both DEMCR.TRCENA and DWT_CTRL.CYCCNTENA are set.
    fn count_cycles(&mut self, now: u64) {
        self.cycles.switch(self.demcr >> 24 & 1 != 0 && self.dwt_control & 1 != 0, now);
    }

    /// Reads a word; `None` when there is no such register.
    pub fn read(&mut self, nvic: &Nvic, address: u32, now: u64) -> Option<u32> {
        Some(match address {
            0xE000_E010 => {
                let has_wrapped = std::mem::take(&mut self.timer.has_wrapped);
                self.timer.control | u32::from(has_wrapped) << 16
            }
            0xE000_E014 => self.timer.reload,
            0xE000_E018 => self.timer.value(now),
            0xE000_E01C => 0xC000_0000,
            0xE000_E004 => 2,
            0xE000_ED00 => 0x410F_C241,
            0xE000_ED04 => {
                let (interrupt_pends, is_alone) = nvic.overview();
                u32::from(nvic.current())
                    | u32::from(is_alone) << 11
                    | u32::from(interrupt_pends) << 22
                    | u32::from(nvic.is_pending(exception::SYS_TICK)) << 26
                    | u32::from(nvic.is_pending(exception::PEND_SV)) << 28
                    | u32::from(nvic.is_pending(exception::NMI)) << 31
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
            0xE000_1004 => self.cycles.count(now) as u32,
            // Trace hardware that nobody listens to.
            0xE000_0000..=0xE000_0FFF | 0xE000_1008..=0xE000_101B => 0,
            _ => return None,
        })
    }

    /// Writes a word; `None` when there is no such register.
    pub fn write(&mut self, nvic: &mut Nvic, address: u32, value: u32, now: u64) -> Option<Request> {
        match address {
            0xE000_E010 => self.timer.set_control(value, now),
            0xE000_E014 => {
                // With 0 it stands still at 0.
                let stood = std::mem::replace(&mut self.timer.reload, value & 0x00FF_FFFF) == 0;
                if stood {
                    self.timer.start(0, now);
                }
            }
            // Whatever is written, the counter and COUNTFLAG become 0.
            0xE000_E018 => {
                (self.timer.value, self.timer.has_wrapped) = (0, false);
                self.timer.start(0, now);
            }
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
            0xE000_ED10 => {
                self.scr = value & 0x16;
                nvic.event_on_pend = value & 0x10 != 0;
            }
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
            0xE000_EDFC => {
                self.demcr = value;
                self.count_cycles(now);
            }
            0xE000_EF00 => nvic.pend(16 + (value as u8 & 0x7F)),
            0xE000_EF34 => self.fpccr = value,
            0xE000_EF38 => self.fpcar = value,
            0xE000_EF3C => self.fpdscr = value,
            0xE000_1000 => {
                self.dwt_control = value;
                self.count_cycles(now);
            }
            0xE000_1004 => self.cycles.set(u64::from(value), now),
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
