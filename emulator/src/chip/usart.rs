//! A serial port: one byte in the shift register, one waiting, DMA, idle-line detection.

use std::collections::VecDeque;

const TXE: u32 = 1 << 7;
const TC: u32 = 1 << 6;
const RXNE: u32 = 1 << 5;
const IDLE: u32 = 1 << 4;
const ORE: u32 = 1 << 3;

/// The port. Who is at the other end calls [`Usart::arrive`] and takes [`Usart::sent`].
#[derive(Clone, Debug)]
pub struct Usart {
    /// Clock of the bus, Hz.
    pub clock_hz: u64,
    status: u32,
    brr: u32,
    cr: [u32; 3],
    gtpr: u32,
    received: u8,
    /// Status was read with these flags set: reading the data register clears them.
    seen: u32,
    shift: Option<u8>,
    waiting: Option<u8>,
    shift_done: u64,
    /// When the line will have been quiet for one frame; `MAX` when that was said already.
    idle_at: u64,
    /// Bytes that left the port.
    pub sent: VecDeque<u8>,
    /// Bytes lost because nobody fetched the one before.
    pub overruns: u64,
}

impl Default for Usart {
    fn default() -> Self {
        Self {
            clock_hz: 84_000_000,
            status: TXE | TC,
            brr: 0,
            cr: [0; 3],
            gtpr: 0,
            received: 0,
            seen: 0,
            shift: None,
            waiting: None,
            shift_done: u64::MAX,
            idle_at: u64::MAX,
            sent: VecDeque::new(),
            overruns: 0,
        }
    }
}

impl Usart {
    /// Held in reset.
    pub fn reset(&mut self) {
        *self = Self { clock_hz: self.clock_hz, overruns: self.overruns, ..Self::default() };
    }

    /// Time of one frame of ten bits, in ticks of 168 MHz.
    #[must_use]
    pub fn frame_ticks(&self) -> u64 {
        (u64::from(self.brr.max(16)) * 10 * 168_000_000).div_ceil(self.clock_hz)
    }

    /// Baud rate.
    #[must_use]
    pub fn baud(&self) -> u64 {
        self.clock_hz / u64::from(self.brr.max(16))
    }

    fn is_on(&self, bit: u32) -> bool {
        self.cr[0] & (1 << 13) != 0 && self.cr[0] & (1 << bit) != 0
    }

    /// True when the receiver is enabled.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        self.is_on(2)
    }

    /// When something next happens by itself.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.shift_done.min(self.idle_at)
    }

    /// The next byte is sent when there is one.
    fn load(&mut self, now: u64) {
        if self.shift.is_none()
            && let Some(byte) = self.waiting.take()
        {
            self.shift = Some(byte);
            self.shift_done = now + self.frame_ticks();
            self.status |= TXE;
            self.status &= !TC;
        }
    }

    fn queue(&mut self, byte: u8, now: u64) {
        if !self.is_on(3) {
            return;
        }
        self.waiting = Some(byte);
        self.status &= !(TXE | TC);
        self.load(now);
    }

    /// True when the port asks DMA for a byte.
    #[must_use]
    pub fn wants_byte(&self) -> bool {
        self.cr[2] & (1 << 7) != 0 && self.status & TXE != 0 && self.is_on(3)
    }

    /// DMA brings a byte.
    pub fn put(&mut self, byte: u8, now: u64) {
        self.queue(byte, now);
    }

    /// What is due happens.
    pub fn advance(&mut self, now: u64) {
        if self.shift_done <= now {
            self.sent.extend(self.shift.take());
            self.shift_done = u64::MAX;
            self.load(now);
            if self.shift.is_none() {
                self.status |= TC;
            }
        }
        if self.idle_at <= now {
            self.idle_at = u64::MAX;
            self.status |= IDLE;
        }
    }

    /// A byte arrives; true when DMA may fetch it with [`Self::fetch`].
    pub fn arrive(&mut self, byte: u8, now: u64) -> bool {
        if !self.is_receiving() {
            return false;
        }
        self.idle_at = now + self.frame_ticks();
        if self.status & RXNE != 0 {
            self.status |= ORE;
            self.overruns += 1;
            return false;
        }
        self.received = byte;
        self.status |= RXNE;
        self.cr[2] & (1 << 6) != 0
    }

    /// DMA fetched the byte.
    pub fn fetch(&mut self) {
        self.status &= !RXNE;
    }

    /// Level of the interrupt line.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        let enabled = self.cr[0] & (TXE | TC | RXNE | IDLE);
        let mut reasons = self.status & enabled;
        if self.cr[0] & RXNE != 0 || self.cr[2] & 1 != 0 && self.cr[2] & (1 << 6) != 0 {
            reasons |= self.status & ORE;
        }
        self.cr[0] & (1 << 13) != 0 && reasons != 0
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => {
                self.seen = self.status & (IDLE | ORE);
                self.status
            }
            0x04 => {
                self.status &= !(RXNE | self.seen);
                self.seen = 0;
                u32::from(self.received)
            }
            0x08 => self.brr,
            0x0C..=0x14 => self.cr[(offset as usize - 0x0C) / 4],
            0x18 => self.gtpr,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) -> Option<()> {
        match offset {
            // Flags are cleared by writing 0: only these two.
            0x00 => self.status &= value | !(RXNE | TC),
            0x04 => self.queue(value as u8, now),
            0x08 => self.brr = value & 0xFFFF,
            0x0C..=0x14 => self.cr[(offset as usize - 0x0C) / 4] = value,
            0x18 => self.gtpr = value,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Usart {
        let mut port = Usart::default();
        port.write(0x08, 84, 0).unwrap();
        port.write(0x0C, 1 << 13 | 1 << 3 | 1 << 2 | RXNE | IDLE, 0).unwrap();
        port
    }

    #[test]
    fn a_byte_takes_ten_microseconds_at_one_megabaud() {
        let mut port = port();
        assert_eq!(port.baud(), 1_000_000);
        port.write(0x04, 0x55, 1000).unwrap();
        assert_eq!(port.due(), 1000 + 1680);
        port.write(0x04, 0x66, 1001).unwrap();
        assert_eq!(port.read(0).unwrap() & (TXE | TC), 0);
        port.advance(2680);
        assert_eq!(port.read(0).unwrap() & TXE, TXE);
        port.advance(port.due());
        assert_eq!(port.sent, [0x55, 0x66]);
        assert_eq!(port.read(0).unwrap() & TC, TC);
    }

    #[test]
    fn a_quiet_line_is_reported_once_and_a_lost_byte_is_counted() {
        let mut port = port();
        port.arrive(7, 0);
        port.arrive(8, 1680);
        assert_eq!(port.overruns, 1);
        port.advance(port.due());
        assert!(port.interrupt());
        assert_eq!(port.read(0).unwrap() & (IDLE | ORE | RXNE), IDLE | ORE | RXNE);
        assert_eq!(port.read(4), Some(7));
        assert!(!port.interrupt());
        assert_eq!(port.due(), u64::MAX);
    }
}
