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

/// The flash interface: wait states and the lock. Programming by the firmware itself is not modelled
/// and stops the run with its address, because the firmware never does it.
#[derive(Clone, Debug)]
pub struct FlashInterface {
    acr: u32,
    is_locked: bool,
    keys: u32,
}

impl Default for FlashInterface {
    fn default() -> Self {
        Self { acr: 0x705, is_locked: true, keys: 0 }
    }
}

impl FlashInterface {
    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.acr,
            0x0C => 0,
            0x10 => u32::from(self.is_locked) << 31,
            0x14 => 0x0FFF_AAED,
            _ => return None,
        })
    }

    /// Writes a register; `None` for what is not modelled.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<()> {
        match offset {
            0x00 => self.acr = value,
            0x04 => {
                self.keys = match (self.keys, value) {
                    (0, 0x4567_0123) => 1,
                    (1, 0xCDEF_89AB) => {
                        self.is_locked = false;
                        0
                    }
                    _ => 0,
                };
            }
            0x0C => {}
            0x10 if value & (1 << 31) != 0 => self.is_locked = true,
            _ => return None,
        }
        Some(())
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
}
