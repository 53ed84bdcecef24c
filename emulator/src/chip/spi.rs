//! SPI master: full duplex bytes at the bus clock over a power of two.

const RXNE: u32 = 1;
const TXE: u32 = 2;
const OVR: u32 = 1 << 6;
const BSY: u32 = 1 << 7;

/// The port. The slave answers each byte in [`Spi::due`]'s moment by [`Spi::finish`].
#[derive(Clone, Debug)]
pub struct Spi {
    /// Clock of the bus, Hz.
    pub clock_hz: u64,
    cr1: u32,
    cr2: u32,
    status: u32,
    received: u8,
    shift: Option<u8>,
    waiting: Option<u8>,
    done: u64,
    read_data_after_overrun: bool,
}

impl Default for Spi {
    fn default() -> Self {
        Self {
            clock_hz: 84_000_000,
            cr1: 0,
            cr2: 0,
            status: TXE,
            received: 0,
            shift: None,
            waiting: None,
            done: u64::MAX,
            read_data_after_overrun: false,
        }
    }
}

impl Spi {
    /// Held in reset.
    pub fn reset(&mut self) {
        *self = Self { clock_hz: self.clock_hz, ..Self::default() };
    }

    /// Clock on the wire, Hz.
    #[must_use]
    pub fn rate_hz(&self) -> u64 {
        (self.clock_hz >> ((self.cr1 >> 3 & 7) + 1)).max(1)
    }

    /// When the byte in the shift register has been exchanged.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.done
    }

    fn load(&mut self, now: u64) {
        if self.cr1 & (1 << 6) == 0 || self.shift.is_some() {
            return;
        }
        if let Some(byte) = self.waiting.take() {
            self.shift = Some(byte);
            self.done = now + 8 * 168_000_000 / self.rate_hz();
            self.status |= TXE | BSY;
        }
    }

    fn queue(&mut self, byte: u8, now: u64) {
        self.waiting = Some(byte);
        self.status &= !TXE;
        self.load(now);
    }

    /// The byte that has been sent, when its time has come.
    #[must_use]
    pub fn outgoing(&self, now: u64) -> Option<u8> {
        self.shift.filter(|_| self.done <= now)
    }

    /// The slave's answer to the byte that has been sent; true when DMA may fetch it.
    pub fn finish(&mut self, answer: u8, now: u64) -> bool {
        self.shift = None;
        self.done = u64::MAX;
        if self.status & RXNE != 0 {
            self.status |= OVR;
        } else {
            self.received = answer;
            self.status |= RXNE;
        }
        self.load(now);
        if self.shift.is_none() {
            self.status &= !BSY;
        }
        self.cr2 & 1 != 0
    }

    /// DMA fetched the byte.
    pub fn fetch(&mut self) -> u8 {
        self.status &= !RXNE;
        self.received
    }

    /// True when the port asks DMA for a byte.
    #[must_use]
    pub fn wants_byte(&self) -> bool {
        self.cr2 & 2 != 0 && self.status & TXE != 0 && self.cr1 & (1 << 6) != 0
    }

    /// DMA brings a byte.
    pub fn put(&mut self, byte: u8, now: u64) {
        self.queue(byte, now);
    }

    /// Level of the interrupt line.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        let on = |bit: u32| self.cr2 >> bit & 1 != 0;
        (on(6) && self.status & RXNE != 0)
            || (on(7) && self.status & TXE != 0)
            || (on(5) && self.status & OVR != 0)
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.cr1,
            0x04 => self.cr2,
            0x08 => {
                let status = self.status;
                if self.read_data_after_overrun {
                    self.status &= !OVR;
                    self.read_data_after_overrun = false;
                }
                status
            }
            0x0C => {
                self.status &= !RXNE;
                self.read_data_after_overrun = self.status & OVR != 0;
                u32::from(self.received)
            }
            0x10 => 7,
            0x14 | 0x18 | 0x1C | 0x20 => 0,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) -> Option<()> {
        match offset {
            0x00 => {
                self.cr1 = value;
                self.load(now);
            }
            0x04 => self.cr2 = value,
            0x08 => {}
            0x0C => self.queue(value as u8, now),
            0x10 | 0x1C | 0x20 => {}
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_exchanged_in_eight_clocks() {
        let mut spi = Spi::default();
        spi.write(0, 1 << 6 | 1 << 2 | 1 << 3, 0).unwrap();
        assert_eq!(spi.rate_hz(), 21_000_000);
        spi.write(0x0C, 0x40, 100).unwrap();
        assert_eq!(spi.due(), 100 + 64);
        assert_eq!(spi.outgoing(163), None);
        assert_eq!(spi.outgoing(164), Some(0x40));
        assert!(!spi.finish(0xAB, 164));
        assert_eq!(spi.read(8), Some(TXE | RXNE));
        assert_eq!(spi.read(0xC), Some(0xAB));
    }
}
