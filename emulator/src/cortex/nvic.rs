//! Exceptions: which are pending, enabled and active, and which comes next.

/// Exceptions of the STM32F405: 16 of the core and 82 interrupts.
pub const EXCEPTIONS: usize = 16 + 82;

/// Exception numbers of the core.
pub mod exception {
    /// Non-maskable interrupt.
    pub const NMI: u8 = 2;
    /// Hard fault.
    pub const HARD_FAULT: u8 = 3;
    /// Memory management fault.
    pub const MEM_MANAGE: u8 = 4;
    /// Bus fault.
    pub const BUS_FAULT: u8 = 5;
    /// Usage fault.
    pub const USAGE_FAULT: u8 = 6;
    /// Supervisor call.
    pub const SV_CALL: u8 = 11;
    /// Pendable service call.
    pub const PEND_SV: u8 = 14;
    /// System timer.
    pub const SYS_TICK: u8 = 15;
}

/// Bits of a priority that the F405 implements.
const IMPLEMENTED: u8 = 0xF0;

/// Priority below every configurable one: nothing is active.
pub const IDLE_PRIORITY: i16 = 256;

/// The interrupt controller.
#[derive(Clone, Debug)]
pub struct Nvic {
    enabled: u128,
    pending: u128,
    active: u128,
    /// Level of the request lines.
    lines: u128,
    priority: [u8; EXCEPTIONS],
    /// Exceptions that are being handled, outermost first.
    stack: Vec<u8>,
    /// Bits of a priority that decide which exception interrupts which (AIRCR.PRIGROUP).
    group_mask: u8,
    /// Best candidate: priority and number; kept up to date by every change.
    best: Option<(i16, u8)>,
    /// Priority that a new exception must beat, without the mask registers.
    running: i16,
    /// The best candidate beats what is running.
    wants: bool,
    /// An interrupt that becomes pending is an event (SCR.SEVONPEND).
    pub event_on_pend: bool,
    /// Such an event has happened.
    pub event: bool,
    /// Exception entries so far.
    pub entries: u64,
    /// Deepest nesting so far.
    pub deepest: usize,
}

impl Default for Nvic {
    fn default() -> Self {
        let core = 0xFFFF;
        Self {
            enabled: core,
            pending: 0,
            active: 0,
            lines: 0,
            priority: [0; EXCEPTIONS],
            stack: Vec::new(),
            group_mask: !1,
            best: None,
            running: IDLE_PRIORITY,
            wants: false,
            event_on_pend: false,
            event: false,
            entries: 0,
            deepest: 0,
        }
    }
}

impl Nvic {
    /// As after power-on; the statistics go on.
    pub fn reset(&mut self) {
        *self = Self { entries: self.entries, deepest: self.deepest, ..Self::default() };
    }

    fn priority_of(&self, number: u8) -> i16 {
        match number {
            1 => -3,
            exception::NMI => -2,
            exception::HARD_FAULT => -1,
            n => i16::from(self.priority.get(usize::from(n)).copied().unwrap_or(0)),
        }
    }

    fn update(&mut self) {
        self.best = None;
        let mut left = self.pending & self.enabled;
        while left != 0 {
            let number = left.trailing_zeros() as u8;
            left &= left - 1;
            let priority = self.priority_of(number);
            if self.best.is_none_or(|(best, _)| priority < best) {
                self.best = Some((priority, number));
            }
        }
        let active = self.stack.iter().map(|&n| self.group(self.priority_of(n)));
        self.running = active.min().unwrap_or(IDLE_PRIORITY);
        self.wants = self.best.is_some_and(|(priority, _)| self.group(priority) < self.running);
    }

    /// The part of a priority that decides who interrupts whom.
    fn group(&self, priority: i16) -> i16 {
        if priority < 0 { priority } else { priority & i16::from(self.group_mask) }
    }

    /// Chooses how priorities divide: the lowest `field + 1` bits only order what is pending.
    pub fn set_priority_grouping(&mut self, field: u32) {
        self.group_mask = !((2_u32 << (field & 7)) - 1) as u8;
        self.update();
    }

    /// True when something could interrupt, were it not for the mask registers.
    #[inline]
    #[must_use]
    pub fn wants(&self) -> bool {
        self.wants
    }

    /// The exception to take now, with the core's mask registers.
    #[must_use]
    pub fn next(&self, primask: bool, basepri: u8, faultmask: bool) -> Option<u8> {
        let (priority, number) = self.best?;
        (self.group(priority) < self.limit(primask, basepri, faultmask)).then_some(number)
    }

    /// The priority that the mask registers give to what is running.
    fn mask(&self, primask: bool, basepri: u8, faultmask: bool) -> i16 {
        let mut limit = IDLE_PRIORITY;
        // The F405 implements the upper four bits of BASEPRI, as of every priority.
        if basepri & IMPLEMENTED != 0 {
            limit = self.group(i16::from(basepri & IMPLEMENTED));
        }
        if primask {
            limit = limit.min(0);
        }
        if faultmask {
            limit = limit.min(-1);
        }
        limit
    }

    /// The priority that an exception has to beat.
    fn limit(&self, primask: bool, basepri: u8, faultmask: bool) -> i16 {
        self.running.min(self.mask(primask, basepri, faultmask))
    }

    /// True when an exception would interrupt what is running, with the core's mask registers.
    #[must_use]
    pub fn preempts(&self, number: u8, primask: bool, basepri: u8, faultmask: bool) -> bool {
        self.group(self.priority_of(number)) < self.limit(primask, basepri, faultmask)
    }

    /// The most urgent exception that is pending, enabled and not held back by these two masks.
    #[must_use]
    pub fn next_in_line(&self, basepri: u8, faultmask: bool) -> Option<u8> {
        let (priority, number) = self.best?;
        (self.group(priority) < self.mask(false, basepri, faultmask)).then_some(number)
    }

    /// True while an interrupt is pending, and while only one exception is active.
    #[must_use]
    pub fn overview(&self) -> (bool, bool) {
        (self.pending >> 16 != 0, self.stack.len() == 1)
    }

    /// Makes exceptions pending.
    fn pend_all(&mut self, bits: u128) {
        self.event |= self.event_on_pend && bits & !self.pending != 0;
        self.pending |= bits;
    }

    /// Makes an exception pending.
    pub fn pend(&mut self, number: u8) {
        self.pend_all(1 << number);
        self.update();
    }

    /// Withdraws a pending exception; a line that is still high pends it again.
    pub fn unpend(&mut self, number: u8) {
        self.pending &= !(1 << number) | (self.lines & !self.active);
        self.update();
    }

    /// True while an exception is pending.
    #[must_use]
    pub fn is_pending(&self, number: u8) -> bool {
        self.pending & (1 << number) != 0
    }

    /// True while an exception is active.
    #[must_use]
    pub fn is_active(&self, number: u8) -> bool {
        self.active & (1 << number) != 0
    }

    /// Sets the level of an interrupt's request line.
    #[inline]
    pub fn set_line(&mut self, irq: u8, level: bool) {
        let bit = 1u128 << (irq + 16);
        if level == (self.lines & bit != 0) {
            return;
        }
        self.lines ^= bit;
        if level {
            self.pend_all(bit);
            self.update();
        }
    }

    /// Begins an exception.
    pub fn enter(&mut self, number: u8) {
        self.pending &= !(1 << number);
        self.active |= 1 << number;
        self.stack.push(number);
        self.entries += 1;
        self.deepest = self.deepest.max(self.stack.len());
        self.update();
    }

    /// Ends the innermost exception, and tells which it was.
    pub fn leave(&mut self) -> Option<u8> {
        let number = self.stack.pop()?;
        self.active &= !(1 << number);
        self.pend_all(self.lines & (1 << number));
        self.update();
        Some(number)
    }

    /// How many exceptions are nested at the moment.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.stack.len()
    }

    /// The innermost active exception; 0 in thread mode.
    #[must_use]
    pub fn current(&self) -> u8 {
        self.stack.last().copied().unwrap_or(0)
    }

    /// A word of 32 interrupts from one of the bit registers.
    fn word(bits: u128, index: u32) -> u32 {
        (bits >> (16 + 32 * index.min(2))) as u32
    }

    /// Reads ISER, ICER, ISPR, ICPR, IABR or IPR; `offset` counts from 0xE000_E100.
    #[must_use]
    pub fn read(&self, offset: u32, size: u32) -> u32 {
        let index = (offset & 0x7F) / 4;
        match offset >> 7 {
            0 | 1 => Self::word(self.enabled, index),
            2 | 3 => Self::word(self.pending, index),
            4 => Self::word(self.active, index),
            6 | 7 => {
                let first = 16 + (offset - 0x300) as usize;
                (0..size as usize).fold(0, |sum, i| {
                    sum | u32::from(self.priority.get(first + i).copied().unwrap_or(0)) << (8 * i)
                })
            }
            _ => 0,
        }
    }

    /// Writes one of the registers that [`Self::read`] reads.
    pub fn write(&mut self, offset: u32, size: u32, value: u32) {
        let index = ((offset & 0x7F) / 4).min(2);
        let bits = u128::from(value) << (16 + 32 * index);
        match offset >> 7 {
            0 => self.enabled |= bits,
            1 => self.enabled &= !bits,
            2 => self.pend_all(bits),
            3 => self.pending &= !bits | (self.lines & !self.active),
            6 | 7 => self.set_priorities(16 + (offset - 0x300) as usize, size, value),
            _ => {}
        }
        self.update();
    }

    /// Priorities of system exceptions (SHPR, first byte is exception 4) and interrupts. The F405
    /// implements the upper four bits.
    pub fn set_priorities(&mut self, first: usize, size: u32, value: u32) {
        for (i, byte) in value.to_le_bytes().into_iter().take(size as usize).enumerate() {
            if let Some(priority) = self.priority.get_mut(first + i) {
                *priority = byte & IMPLEMENTED;
            }
        }
        self.update();
    }

    /// Priorities of system exceptions as a register.
    #[must_use]
    pub fn system_priorities(&self, first: usize) -> u32 {
        let byte = |i| self.priority.get(first + i).copied().unwrap_or(0);
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    }

    /// Enables or disables a configurable system exception (SHCSR).
    pub fn enable_system(&mut self, number: u8, on: bool) {
        if on {
            self.enabled |= 1 << number;
        } else {
            self.enabled &= !(1 << number);
        }
        self.update();
    }

    /// True when an exception is enabled.
    #[must_use]
    pub fn is_enabled(&self, number: u8) -> bool {
        self.enabled & (1 << number) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_urgent_interrupts_the_less_urgent_and_equals_wait() {
        let mut nvic = Nvic::default();
        nvic.write(0x000, 4, 0b111);
        nvic.write(0x300, 4, 0x0020_4040);
        nvic.set_line(0, true);
        assert_eq!(nvic.next(false, 0, false), Some(16));
        assert_eq!(nvic.next(true, 0, false), None);
        assert_eq!(nvic.next(false, 0x40, false), None);
        assert_eq!(nvic.next(false, 0x50, false), Some(16));
        nvic.enter(16);
        nvic.set_line(1, true);
        assert_eq!(nvic.next(false, 0, false), None, "same priority waits");
        nvic.set_line(2, true);
        assert_eq!(nvic.next(false, 0, false), Some(18));
        nvic.enter(18);
        assert_eq!(nvic.deepest, 2);
        nvic.set_line(2, false);
        assert_eq!(nvic.leave(), Some(18));
        nvic.set_line(0, false);
        assert_eq!(nvic.leave(), Some(16));
        assert_eq!(nvic.next(false, 0, false), Some(17));
    }

    #[test]
    fn the_low_bits_of_basepri_do_not_count() {
        let mut nvic = Nvic::default();
        nvic.write(0x000, 4, 1);
        nvic.write(0x300, 4, 0x50);
        nvic.set_line(0, true);
        assert_eq!(nvic.next(false, 0x5F, false), None, "0x5F is 0x50");
        assert_eq!(nvic.next(false, 0x0F, false), Some(16), "0x0F is off");
        assert_eq!(nvic.next(false, 0x60, false), Some(16));
    }

    #[test]
    fn priorities_of_one_group_do_not_interrupt_each_other() {
        let mut nvic = Nvic::default();
        nvic.write(0x000, 4, 0b111);
        nvic.write(0x300, 4, 0x0030_6050);
        // Two bits of group, two of subpriority.
        nvic.set_priority_grouping(5);
        nvic.set_line(1, true);
        nvic.enter(17);
        nvic.set_line(0, true);
        assert_eq!(nvic.next(false, 0, false), None, "0x50 and 0x60 are one group");
        nvic.set_line(2, true);
        assert_eq!(nvic.next(false, 0, false), Some(18), "0x30 is another");
        assert_eq!(nvic.next(false, 0x20, false), None, "BASEPRI has groups too");
        nvic.set_line(1, false);
        nvic.set_line(2, false);
        nvic.unpend(18);
        nvic.leave();
        nvic.set_line(1, true);
        assert_eq!(nvic.next(false, 0, false), Some(16), "of what is pending the lower value comes first");
    }

    #[test]
    fn a_line_that_stays_high_comes_again() {
        let mut nvic = Nvic::default();
        nvic.write(0x000, 4, 1);
        nvic.set_line(0, true);
        nvic.enter(16);
        assert!(!nvic.wants());
        nvic.leave();
        assert!(nvic.wants());
        nvic.set_line(0, false);
        nvic.unpend(16);
        assert!(!nvic.wants());
    }
}
