//! The independent watchdog, on an oscillator of its own.

/// Frequency of its oscillator, Hz: the typical value of 17 to 47 kHz.
const OSCILLATOR_HZ: u64 = 32_000;

/// The watchdog.
#[derive(Clone, Debug)]
pub struct Watchdog {
    prescaler: u32,
    reload: u32,
    /// What the counter starts from: 0xFFF, or the reload value at the latest feeding.
    loaded: u32,
    is_unlocked: bool,
    /// When it bites; `None` while it sleeps.
    deadline: Option<u64>,
    /// It stands still, with so much left.
    frozen: Option<u64>,
    /// Shortest time that was left when it was fed, ticks.
    pub closest: Option<u64>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            prescaler: 0,
            reload: 0xFFF,
            loaded: 0xFFF,
            is_unlocked: false,
            deadline: None,
            frozen: None,
            closest: None,
        }
    }
}

impl Watchdog {
    fn period(&self) -> u64 {
        (u64::from(self.loaded) + 1) * (4 << self.prescaler.min(6)) * 168_000_000 / OSCILLATOR_HZ
    }

    /// A debugger holds the core, and the watchdog with it, or lets both go.
    pub fn freeze(&mut self, frozen: bool, now: u64) {
        if frozen {
            self.frozen = self.frozen.or(self.deadline.map(|deadline| deadline.saturating_sub(now)));
        } else if let Some(left) = self.frozen.take() {
            self.deadline = Some(now + left);
        }
    }

    /// When it bites.
    #[must_use]
    pub fn due(&self) -> u64 {
        if self.frozen.is_some() {
            return u64::MAX;
        }
        self.deadline.unwrap_or(u64::MAX)
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0 | 0xC => 0,
            4 => self.prescaler,
            8 => self.reload,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) -> Option<()> {
        match offset {
            0 => match value {
                0x5555 => self.is_unlocked = true,
                0xAAAA => {
                    self.is_unlocked = false;
                    if let Some(deadline) = &mut self.deadline {
                        let left = deadline.saturating_sub(now);
                        self.closest = Some(self.closest.map_or(left, |c| c.min(left)));
                    }
                    self.loaded = self.reload;
                    let period = self.period();
                    self.deadline = self.deadline.map(|_| now + period);
                }
                0xCCCC => {
                    self.is_unlocked = false;
                    // It cannot be stopped, nor started again.
                    let period = self.period();
                    self.deadline.get_or_insert(now + period);
                }
                _ => self.is_unlocked = false,
            },
            4 if self.is_unlocked => self.prescaler = value & 7,
            8 if self.is_unlocked => self.reload = value & 0xFFF,
            4 | 8 | 0xC => {}
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bites_when_it_is_not_fed() {
        let mut dog = Watchdog::default();
        assert_eq!(dog.due(), u64::MAX);
        for (offset, value) in [(0, 0x5555), (4, 3), (8, 188), (0, 0xAAAA), (0, 0xCCCC)] {
            dog.write(offset, value, 0).unwrap();
        }
        let period = 189 * 32 * 168_000 / 32; // 189 ms
        assert_eq!(dog.due(), period);
        dog.write(0, 0xAAAA, 1000).unwrap();
        assert_eq!((dog.due(), dog.closest), (1000 + period, Some(period - 1000)));
    }
}
