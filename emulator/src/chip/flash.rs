//! The flash: sectors, programming that only clears bits, erasing that takes its time.

/// Length of the sectors.
pub const SECTORS: [u32; 12] = {
    let k = 1024;
    [16 * k, 16 * k, 16 * k, 16 * k, 64 * k, 128 * k, 128 * k, 128 * k, 128 * k, 128 * k, 128 * k, 128 * k]
};

/// Offset and length of a sector.
#[must_use]
pub fn sector(number: usize) -> Option<(usize, usize)> {
    let len = *SECTORS.get(number)?;
    Some((SECTORS[..number].iter().sum::<u32>() as usize, len as usize))
}

/// The sector that begins at an offset, if one does.
#[must_use]
pub fn sector_at(offset: usize) -> Option<usize> {
    (0..SECTORS.len()).find(|&n| sector(n).is_some_and(|(start, _)| start == offset))
}

/// Time to erase a sector, ticks of 168 MHz: typical values at 32 bits of parallelism.
#[must_use]
pub fn erase_ticks(len: usize) -> u64 {
    const MS: u64 = 168_000;
    match len / 1024 {
        0..=16 => 250 * MS,
        17..=64 => 550 * MS,
        _ => 1000 * MS,
    }
}

/// Time to program a word, ticks of 168 MHz.
pub const PROGRAM_TICKS: u64 = 16 * 168;

/// Programs bytes: a bit that is 0 stays 0 until its sector is erased.
pub fn program(flash: &mut [u8], offset: usize, bytes: &[u8]) {
    for (place, byte) in flash.iter_mut().skip(offset).zip(bytes) {
        *place &= byte;
    }
}

/// Erases a sector; false when there is no such one.
pub fn erase(flash: &mut [u8], number: usize) -> bool {
    let Some((start, len)) = sector(number) else { return false };
    match flash.get_mut(start..start + len) {
        Some(bytes) => {
            bytes.fill(0xFF);
            true
        }
        None => false,
    }
}

/// Bits of the status register.
mod status {
    pub(super) const END: u32 = 1;
    pub(super) const ALIGNMENT: u32 = 1 << 5;
    pub(super) const PARALLELISM: u32 = 1 << 6;
    pub(super) const SEQUENCE: u32 = 1 << 7;
    pub(super) const BUSY: u32 = 1 << 16;
    pub(super) const CLEARED_BY_WRITING: u32 = 0xF3;
}

/// Bits of the control register.
mod control {
    pub(super) const PROGRAM: u32 = 1;
    pub(super) const ERASE_SECTOR: u32 = 1 << 1;
    pub(super) const ERASE_ALL: u32 = 1 << 2;
    pub(super) const START: u32 = 1 << 16;
    pub(super) const REPORT_END: u32 = 1 << 24;
    pub(super) const LOCK: u32 = 1 << 31;
    pub(super) const WRITABLE: u32 = 0x0300_03FF;
}

/// The flash interface: wait states, the lock, programming and erasing. The content changes at once; the
/// operation takes its time.
#[derive(Clone, Debug)]
pub struct FlashInterface {
    acr: u32,
    status: u32,
    control: u32,
    keys: u32,
    /// The lock stays until a reset after a wrong key.
    is_jammed: bool,
}

impl Default for FlashInterface {
    fn default() -> Self {
        Self { acr: 0x705, status: 0, control: control::LOCK, keys: 0, is_jammed: false }
    }
}

impl FlashInterface {
    /// A store into flash would program it.
    #[must_use]
    pub fn is_programming(&self) -> bool {
        self.control & (control::LOCK | control::PROGRAM) == control::PROGRAM
    }

    /// Reads a register. The core cannot see the flash busy: it runs from it.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.acr,
            0x0C => self.status & !status::BUSY,
            0x10 => self.control,
            0x14 => 0x0FFF_AAED,
            _ => return None,
        })
    }

    /// Writes a register; `None` for what is not modelled, else until when the flash is busy, if it is.
    #[allow(clippy::option_option)]
    pub fn write(&mut self, flash: &mut [u8], offset: u32, value: u32, now: u64) -> Option<Option<u64>> {
        match offset {
            0x00 => self.acr = value,
            0x04 => match (self.keys, value) {
                _ if self.is_jammed => {}
                (0, 0x4567_0123) => self.keys = 1,
                (1, 0xCDEF_89AB) => {
                    self.control &= !control::LOCK;
                    self.keys = 0;
                }
                _ => self.is_jammed = true,
            },
            0x0C => self.status &= !(value & status::CLEARED_BY_WRITING),
            0x10 if self.control & control::LOCK != 0 => {}
            0x10 => {
                self.control = value & (control::WRITABLE | control::LOCK);
                if value & control::START != 0 {
                    return Some(self.erase(flash, now));
                }
            }
            _ => return None,
        }
        Some(None)
    }

    fn erase(&mut self, flash: &mut [u8], now: u64) -> Option<u64> {
        let number = (self.control >> 3 & 0xF) as usize;
        let (from, len) = if self.control & control::ERASE_ALL != 0 {
            (0, flash.len())
        } else if self.control & control::ERASE_SECTOR != 0 {
            sector(number)?
        } else {
            return None;
        };
        flash.get_mut(from..from + len)?.fill(0xFF);
        self.finish();
        Some(now + if len == flash.len() { 8000 * 168_000 } else { erase_ticks(len) })
    }

    /// A store into flash: programs it, or tells by a flag why not. Until when it is busy, if it is.
    pub fn store(&mut self, flash: &mut [u8], offset: usize, size: u32, value: u32, now: u64) -> Option<u64> {
        if !self.is_programming() {
            self.status |= status::SEQUENCE;
            return None;
        }
        if size != 1 << (self.control >> 8 & 3) {
            self.status |= status::PARALLELISM;
            return None;
        }
        if !offset.is_multiple_of(size as usize) {
            self.status |= status::ALIGNMENT;
            return None;
        }
        program(flash, offset, &value.to_le_bytes()[..size as usize]);
        self.finish();
        Some(now + PROGRAM_TICKS)
    }

    fn finish(&mut self) {
        if self.control & control::REPORT_END != 0 {
            self.status |= status::END;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_cover_the_flash() {
        assert_eq!(SECTORS.iter().sum::<u32>(), 1024 * 1024);
        assert_eq!(sector(11), Some((0xE_0000, 0x2_0000)));
        assert_eq!(sector_at(0xC_0000), Some(10));
        assert_eq!(sector_at(0xC_0400), None);
        assert_eq!(sector(12), None);
    }

    #[test]
    fn programming_clears_bits_and_erasing_sets_them() {
        let mut flash = vec![0xFF; 1024 * 1024];
        program(&mut flash, 0xE_0010, &[0xF0, 0x0F]);
        program(&mut flash, 0xE_0010, &[0x3C, 0xFF]);
        assert_eq!(flash[0xE_0010..0xE_0012], [0x30, 0x0F]);
        assert!(erase(&mut flash, 11));
        assert!(flash.iter().all(|&b| b == 0xFF));
    }

    #[test]
    fn the_image_programs_its_own_flash_only_with_the_keys_and_the_right_width() {
        let (mut f, mut flash) = (FlashInterface::default(), vec![0xFF; 1024 * 1024]);
        let at = 0xE_0010;
        assert_eq!(f.store(&mut flash, at, 4, 0, 0), None);
        assert_eq!(f.read(0x0C), Some(status::SEQUENCE));
        f.write(&mut flash, 0x0C, status::SEQUENCE, 0).unwrap();
        for key in [0x4567_0123, 0xCDEF_89AB] {
            f.write(&mut flash, 0x04, key, 0).unwrap();
        }
        // Words.
        f.write(&mut flash, 0x10, 2 << 8 | control::PROGRAM, 0).unwrap();
        assert_eq!(f.store(&mut flash, at, 4, 0xFFFF_00F0, 5), Some(5 + PROGRAM_TICKS));
        assert_eq!(f.store(&mut flash, at, 4, 0xFFFF_FF3C, 5), Some(5 + PROGRAM_TICKS));
        assert_eq!(flash[at..at + 4], [0x30, 0x00, 0xFF, 0xFF], "bits only become 0");
        assert_eq!(f.store(&mut flash, at, 1, 0, 0), None);
        assert_eq!(f.store(&mut flash, at + 2, 4, 0, 0), None);
        assert_eq!(f.read(0x0C), Some(status::PARALLELISM | status::ALIGNMENT));
        let busy = f.write(&mut flash, 0x10, control::START | 11 << 3 | control::ERASE_SECTOR, 7).unwrap();
        assert_eq!(busy, Some(7 + erase_ticks(128 * 1024)));
        assert!(flash.iter().all(|b| *b == 0xFF));
        f.write(&mut flash, 0x10, control::LOCK, 0).unwrap();
        f.write(&mut flash, 0x04, 1, 0).unwrap();
        for key in [0x4567_0123, 0xCDEF_89AB] {
            f.write(&mut flash, 0x04, key, 0).unwrap();
        }
        assert_eq!(f.read(0x10), Some(control::LOCK), "a wrong key locks it until the next reset");
    }
}
