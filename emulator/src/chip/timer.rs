//! General-purpose timers: counter, compare registers, PWM.

/// Time that counts: ticks of 168 MHz.
const TICKS_PER_S: u64 = 168_000_000;

/// `value * by / over`, rounded down or up. Divisions of 128 bits are slow, and needed once in minutes.
fn scaled(value: u64, by: u64, over: u64, up: bool) -> u64 {
    let more = if up { over - 1 } else { 0 };
    match value.checked_mul(by).and_then(|product| product.checked_add(more)) {
        Some(product) => product / over,
        None => {
            let wide = (u128::from(value) * u128::from(by) + u128::from(more)) / u128::from(over);
            u64::try_from(wide).unwrap_or(u64::MAX)
        }
    }
}

/// One timer. The counter is computed from the time when somebody looks.
#[derive(Clone, Debug)]
pub struct Timer {
    is_wide: bool,
    /// Counts per second of the timer's clock, before the prescaler.
    pub clock_hz: u64,
    cr1: u32,
    cr2: u32,
    smcr: u32,
    dier: u32,
    status: u32,
    ccmr: [u32; 2],
    ccer: u32,
    /// Prescaler in use, and the one that the next update puts in use.
    prescaler: u64,
    next_prescaler: u64,
    reload: u32,
    compare: [u32; 4],
    /// Count, without wrapping, at `base_time`.
    base_count: u64,
    base_time: u64,
    /// A debugger holds the core, and the counter with it.
    is_frozen: bool,
}

impl Timer {
    /// A timer of 16 or 32 bits.
    #[must_use]
    pub fn new(is_wide: bool) -> Self {
        Self {
            is_wide,
            clock_hz: 84_000_000,
            cr1: 0,
            cr2: 0,
            smcr: 0,
            dier: 0,
            status: 0,
            ccmr: [0; 2],
            ccer: 0,
            prescaler: 1,
            next_prescaler: 1,
            reload: if is_wide { u32::MAX } else { 0xFFFF },
            compare: [0; 4],
            base_count: 0,
            base_time: 0,
            is_frozen: false,
        }
    }

    fn period(&self) -> u64 {
        u64::from(self.reload) + 1
    }

    fn is_running(&self) -> bool {
        self.cr1 & 1 != 0 && !self.is_frozen
    }

    /// A debugger holds the core and this counter, or lets both go. The outputs stay as they are.
    pub fn freeze(&mut self, frozen: bool, now: u64) {
        self.sync(now);
        (self.is_frozen, self.base_time) = (frozen, now);
    }

    /// Count without wrapping at a time.
    fn count(&self, now: u64) -> u64 {
        if !self.is_running() {
            return self.base_count;
        }
        let gone = now.saturating_sub(self.base_time);
        self.base_count + scaled(gone, self.clock_hz, TICKS_PER_S * self.prescaler, false)
    }

    /// First time at which the count without wrapping is at least `count`.
    fn time_of(&self, count: u64) -> u64 {
        let left = count.saturating_sub(self.base_count);
        let ticks = scaled(left, TICKS_PER_S * self.prescaler, self.clock_hz, true);
        self.base_time.saturating_add(ticks)
    }

    /// Brings the flags up to date.
    pub fn sync(&mut self, now: u64) {
        let (old, new) = (self.base_count, self.count(now));
        if new == old {
            return;
        }
        let period = self.period();
        let wraps = |offset: u64| {
            if new < period && old < period {
                return old < offset && offset <= new;
            }
            (new + period - offset) / period > (old + period - offset) / period
        };
        if wraps(0) {
            self.status |= 1;
            if self.cr1 & 8 != 0 {
                self.cr1 &= !1;
            }
        }
        for (i, compare) in self.compare.into_iter().enumerate() {
            if u64::from(compare) < period && wraps(u64::from(compare)) {
                self.status |= 2 << i;
            }
        }
        self.base_time = self.time_of(new);
        self.base_count = new % period;
        if wraps(0) {
            self.prescaler = self.next_prescaler;
        }
    }

    /// When an enabled interrupt next has a reason.
    #[must_use]
    pub fn due(&self) -> u64 {
        if !self.is_running() {
            return u64::MAX;
        }
        let period = self.period();
        let mut due = u64::MAX;
        if self.dier & 1 != 0 && self.status & 1 == 0 {
            due = self.period_end();
        }
        for (i, compare) in self.compare.into_iter().enumerate() {
            let (flag, compare) = (2 << i, u64::from(compare));
            if self.dier & flag != 0 && self.status & flag == 0 && compare < period {
                let first = self.base_count - self.base_count % period + compare;
                let next = if first > self.base_count { first } else { first + period };
                due = due.min(self.time_of(next));
            }
        }
        due
    }

    /// Level of the interrupt line.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.status & self.dier & 0x5F != 0
    }

    /// Counts of a period that a channel (1 to 4) is high; 0 when the channel is off.
    fn high_counts(&self, channel: usize) -> u64 {
        let index = channel - 1;
        let mode = self.ccmr[index / 2] >> (8 * (index % 2) + 4) & 7;
        let is_on = self.ccer >> (4 * index) & 1 != 0;
        if self.cr1 & 1 == 0 || !is_on || mode != 6 {
            return 0;
        }
        u64::from(self.compare[index]).min(self.period())
    }

    /// Time of a period that a channel (1 to 4) is high, ns.
    #[must_use]
    pub fn high_ns(&self, channel: usize) -> u64 {
        let counts = u128::from(self.high_counts(channel)) * u128::from(self.prescaler);
        (counts * 1_000_000_000 / u128::from(self.clock_hz.max(1))) as u64
    }

    /// Part of the time that a channel (1 to 4) is on, of 65536; 0 when the channel is off.
    #[must_use]
    pub fn duty(&self, channel: usize) -> u32 {
        let compare = self.high_counts(channel);
        if self.is_frozen {
            return if self.base_count % self.period() < compare { 65536 } else { 0 };
        }
        (compare * 65536 / self.period()) as u32
    }

    /// True while a channel (1 to 4) asks DMA for an item in every period.
    #[must_use]
    pub fn asks_dma(&self, channel: u32) -> bool {
        self.is_running() && self.dier >> (8 + channel) & 1 != 0
    }

    /// When the period ends that it is in.
    #[must_use]
    pub fn period_end(&self) -> u64 {
        self.time_of((self.base_count / self.period() + 1) * self.period())
    }

    /// PWM frequency, Hz.
    #[must_use]
    pub fn frequency_hz(&self) -> f64 {
        self.clock_hz as f64 / (self.prescaler as f64 * self.period() as f64)
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u32, now: u64) -> Option<u32> {
        self.sync(now);
        Some(match offset {
            0x00 => self.cr1,
            0x04 => self.cr2,
            0x08 => self.smcr,
            0x0C => self.dier,
            0x10 => self.status,
            0x14 => 0,
            0x18 | 0x1C => self.ccmr[(offset as usize - 0x18) / 4],
            0x20 => self.ccer,
            0x24 => (self.base_count % self.period()) as u32,
            0x28 => (self.next_prescaler - 1) as u32,
            0x2C => self.reload,
            0x34..=0x40 => self.compare[(offset as usize - 0x34) / 4],
            // BDTR, which only the advanced timers have: what is common code for all of them meets nothing.
            0x44 => 0,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) -> Option<()> {
        self.sync(now);
        let wide = |value: u32| if self.is_wide { value } else { value & 0xFFFF };
        match offset {
            0x00 => {
                if value & 1 != 0 && !self.is_running() {
                    self.base_time = now;
                }
                self.cr1 = value & 0x3FF;
            }
            0x04 => self.cr2 = value,
            0x08 => self.smcr = value,
            0x0C => self.dier = value,
            0x10 => self.status &= value,
            0x14 => {
                if value & 1 != 0 {
                    self.prescaler = self.next_prescaler;
                    (self.base_count, self.base_time) = (0, now);
                    if self.cr1 & 4 == 0 {
                        self.status |= 1;
                    }
                }
                self.status |= value & 0x5E;
            }
            0x18 | 0x1C => self.ccmr[(offset as usize - 0x18) / 4] = value,
            0x20 => self.ccer = value,
            0x24 => (self.base_count, self.base_time) = (u64::from(wide(value)), now),
            0x28 => self.next_prescaler = u64::from(value & 0xFFFF) + 1,
            0x2C => self.reload = wide(value),
            0x34..=0x40 => self.compare[(offset as usize - 0x34) / 4] = wide(value),
            0x44 | 0x48 | 0x4C | 0x50 => {}
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_microseconds_and_fires_at_the_compare_value() {
        let mut timer = Timer::new(true);
        timer.write(0x28, 83, 0).unwrap();
        timer.write(0x00, 4, 0).unwrap();
        timer.write(0x14, 1, 0).unwrap();
        timer.write(0x00, 5, 1000).unwrap();
        assert_eq!(timer.read(0x24, 1000 + 168 * 50 - 1), Some(49));
        assert_eq!(timer.read(0x24, 1000 + 168 * 50), Some(50));
        timer.write(0x34, 70, 1000 + 168 * 50).unwrap();
        timer.write(0x0C, 2, 1000 + 168 * 50).unwrap();
        assert_eq!(timer.due(), 1000 + 168 * 70);
        timer.sync(1000 + 168 * 70);
        assert!(timer.interrupt());
        timer.write(0x10, !2, 1000 + 168 * 71).unwrap();
        assert!(!timer.interrupt());
        assert_eq!(timer.read(0x24, 1000 + 168 * 3_000_000_000), Some(3_000_000_000));
    }

    #[test]
    fn wraps_and_says_so() {
        let mut timer = Timer::new(false);
        timer.write(0x2C, 99, 0).unwrap();
        timer.write(0x0C, 1, 0).unwrap();
        timer.write(0x00, 1, 0).unwrap();
        assert_eq!(timer.due(), 200);
        assert_eq!(timer.read(0x24, 199), Some(99));
        assert!(!timer.interrupt());
        assert_eq!(timer.read(0x24, 200), Some(0));
        assert!(timer.interrupt());
    }

    #[test]
    fn flags_are_those_of_every_count_that_passes() {
        // Two ticks a count. Whatever is passed in one look: compare values hit are flagged, others are not.
        let looks = [1, 2, 30, 31, 99, 100, 101, 130, 131, 250, 999];
        for compare in [0, 1, 30, 31, 98, 99, 100] {
            for first in looks {
                for second in looks {
                    let mut timer = Timer::new(false);
                    timer.write(0x2C, 99, 0).unwrap();
                    timer.write(0x34, compare, 0).unwrap();
                    timer.write(0x00, 1, 0).unwrap();
                    timer.sync(2 * first);
                    timer.write(0x10, 0, 2 * first).unwrap();
                    let status = timer.read(0x10, 2 * (first + second)).unwrap();
                    let hit = |at: u32| (first + 1..=first + second).any(|n| n % 100 == u64::from(at));
                    assert_eq!(status & 1 != 0, hit(0), "{compare} {first} {second}");
                    assert_eq!(status & 2 != 0, hit(compare), "{compare} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn scaling_does_not_overflow() {
        assert_eq!(scaled(7, 84, 168, false), 3);
        assert_eq!(scaled(7, 84, 168, true), 4);
        assert_eq!(scaled(8, 84, 168, true), 4);
        let far = 1 << 60;
        assert_eq!(scaled(far, 84_000_000, 168_000_000, false), far / 2);
        assert_eq!(scaled(far + 1, 84_000_000, 168_000_000, true), far / 2 + 1);
    }

    #[test]
    fn duty_needs_mode_channel_and_counter() {
        let mut timer = Timer::new(true);
        timer.write(0x2C, 255, 0).unwrap();
        timer.write(0x38, 64, 0).unwrap();
        timer.write(0x18, 0x6800, 0).unwrap();
        timer.write(0x20, 0x10, 0).unwrap();
        assert_eq!(timer.duty(2), 0);
        timer.write(0x00, 1, 0).unwrap();
        assert_eq!(timer.duty(2), 16384);
        assert_eq!(timer.frequency_hz(), 328_125.0);
    }

    #[test]
    fn a_frozen_timer_leaves_its_pin_as_it_is() {
        let mut timer = Timer::new(true);
        for (register, value) in [(0x2C, 255), (0x38, 64), (0x18, 0x6800), (0x20, 0x10), (0x00, 1)] {
            timer.write(register, value, 0).unwrap();
        }
        // Two ticks a count: high for 64 counts of 256.
        for (count, duty) in [(10, 65536), (63, 65536), (64, 0), (200, 0)] {
            let mut frozen = timer.clone();
            frozen.freeze(true, 2 * count);
            assert_eq!(frozen.duty(2), duty, "at {count}");
            frozen.freeze(false, 1_000_000);
            assert_eq!(frozen.duty(2), 16384);
        }
    }
}
