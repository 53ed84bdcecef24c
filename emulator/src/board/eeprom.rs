//! The 8 KiB EEPROM on the deck bus (24AA64): pages of 32 bytes, 5 ms to write one.

use crate::chip::i2c::Slaves;

/// Bytes it holds.
pub const LEN: usize = 8192;
const ADDRESS: u8 = 0x50;
const PAGE: usize = 32;
/// Time of a write cycle, ticks of 168 MHz.
const WRITE_TICKS: u64 = 5 * 168_000;

/// The memory and its state.
#[derive(Clone, Debug)]
pub struct Eeprom {
    bytes: Box<[u8]>,
    pointer: usize,
    address_bytes: u8,
    wrote: bool,
    busy_until: u64,
    /// Page writes so far.
    pub writes: u64,
}

impl Default for Eeprom {
    fn default() -> Self {
        Self::with(&[])
    }
}

impl Eeprom {
    /// A memory with these first bytes, the rest blank.
    #[must_use]
    pub fn with(content: &[u8]) -> Self {
        let mut bytes = vec![0xFF; LEN].into_boxed_slice();
        for (place, byte) in bytes.iter_mut().zip(content) {
            *place = *byte;
        }
        Self { bytes, pointer: 0, address_bytes: 0, wrote: false, busy_until: 0, writes: 0 }
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Slaves for Eeprom {
    fn start(&mut self, address: u8, is_read: bool, now: u64) -> bool {
        if !is_read {
            self.address_bytes = 0;
        }
        address == ADDRESS && now >= self.busy_until
    }

    fn write(&mut self, byte: u8, _now: u64) -> bool {
        if self.address_bytes < 2 {
            self.pointer = (self.pointer << 8 | usize::from(byte)) & (LEN - 1);
            self.address_bytes += 1;
        } else {
            self.bytes[self.pointer] = byte;
            // The pointer stays within its page.
            self.pointer = self.pointer / PAGE * PAGE + (self.pointer + 1) % PAGE;
            self.wrote = true;
        }
        true
    }

    fn read(&mut self, _now: u64) -> u8 {
        let byte = self.bytes[self.pointer];
        self.pointer = (self.pointer + 1) & (LEN - 1);
        byte
    }

    fn stop(&mut self, now: u64) {
        if self.wrote {
            self.wrote = false;
            self.writes += 1;
            self.busy_until = now + WRITE_TICKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wrap_in_their_page_and_take_time() {
        let mut e = Eeprom::default();
        assert!(!e.start(0x51, false, 0));
        assert!(e.start(ADDRESS, false, 0));
        for byte in [0x04, 0x1F, 1, 2] {
            e.write(byte, 0);
        }
        e.stop(0);
        assert_eq!((e.bytes()[0x41F], e.bytes()[0x400]), (1, 2));
        assert!(!e.start(ADDRESS, false, WRITE_TICKS - 1));
        assert!(e.start(ADDRESS, false, WRITE_TICKS));
        for byte in [0x04, 0x1F] {
            e.write(byte, 0);
        }
        e.start(ADDRESS, true, WRITE_TICKS);
        assert_eq!((e.read(0), e.read(0)), (1, 0xFF));
    }
}
