//! The two DMA controllers. Peripherals offer and ask for items; streams move them to and from memory.

use crate::cortex::map;
use crate::cortex::unicorn::Memory;

/// Which of the many wires between peripherals and streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Received byte of USART6.
    Usart6Rx,
    /// USART6 can take a byte.
    Usart6Tx,
    /// Received byte of SPI1.
    Spi1Rx,
    /// SPI1 can take a byte.
    Spi1Tx,
    /// Received byte of I2C1.
    I2c1Rx,
    /// I2C1 can take a byte.
    I2c1Tx,
    /// Received byte of I2C3.
    I2c3Rx,
    /// I2C3 can take a byte.
    I2c3Tx,
    /// TIM3's second compare value is reached. Moves half-words.
    Tim3Compare2,
    /// TIM3's third compare value is reached. Moves half-words.
    Tim3Compare3,
}

impl Wire {
    /// Controller (0 or 1), stream and channel where it arrives (reference manual RM0090, tables 42, 43).
    fn ends(self) -> &'static [(usize, usize, u32)] {
        match self {
            Self::Usart6Rx => &[(1, 1, 5), (1, 2, 5)],
            Self::Usart6Tx => &[(1, 6, 5), (1, 7, 5)],
            Self::Spi1Rx => &[(1, 0, 3), (1, 2, 3)],
            Self::Spi1Tx => &[(1, 3, 3), (1, 5, 3)],
            Self::I2c1Rx => &[(0, 0, 1), (0, 5, 1)],
            Self::I2c1Tx => &[(0, 6, 1), (0, 7, 1)],
            Self::I2c3Rx => &[(0, 2, 3)],
            Self::I2c3Tx => &[(0, 4, 3)],
            Self::Tim3Compare2 => &[(0, 5, 5)],
            Self::Tim3Compare3 => &[(0, 7, 5)],
        }
    }

    /// What the size fields of a stream must say: bytes, or half-words on both sides.
    fn sizes(self) -> u32 {
        if matches!(self, Self::Tim3Compare2 | Self::Tim3Compare3) { 0b0101 } else { 0 }
    }
}

/// A mistake that real hardware would make something silent and ugly of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// Controller, 1 or 2.
    pub controller: usize,
    /// Stream.
    pub stream: usize,
    /// What is wrong.
    pub what: &'static str,
    /// The address concerned.
    pub address: u32,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    control: u32,
    left: u32,
    /// Items to move, as written: what a circular transfer starts again with.
    total: u32,
    peripheral: u32,
    memory: [u32; 2],
    fifo: u32,
}

impl Default for Stream {
    fn default() -> Self {
        // FCR's threshold is half of the FIFO after a reset.
        Self { control: 0, left: 0, total: 0, peripheral: 0, memory: [0; 2], fifo: 1 }
    }
}

const ENABLE: u32 = 1;
const CIRCULAR: u32 = 1 << 8;
const MEMORY_INCREMENT: u32 = 1 << 10;
const DOUBLE_BUFFER: u32 = 1 << 18;
const CURRENT_TARGET: u32 = 1 << 19;
/// Flags within a stream's six bits.
const HALF: u8 = 1 << 4;
const COMPLETE: u8 = 1 << 5;

impl Stream {
    fn is_on(&self) -> bool {
        self.control & ENABLE != 0
    }

    /// Address of the next item.
    fn next(&self) -> u32 {
        let target = usize::from(self.control & DOUBLE_BUFFER != 0 && self.control & CURRENT_TARGET != 0);
        let done = if self.control & MEMORY_INCREMENT != 0 { self.total - self.left } else { 0 };
        self.memory[target].wrapping_add(done << (self.control >> 13 & 3))
    }

    /// Counts an item and gives the flags that this raises.
    fn count(&mut self) -> u8 {
        self.left -= 1;
        let mut flags = 0;
        if self.left == self.total / 2 {
            flags |= HALF;
        }
        if self.left == 0 {
            flags |= COMPLETE;
            if self.control & DOUBLE_BUFFER != 0 {
                self.control ^= CURRENT_TARGET;
                self.left = self.total;
            } else if self.control & CIRCULAR != 0 {
                self.left = self.total;
            } else {
                self.control &= !ENABLE;
            }
        }
        flags
    }
}

/// One controller.
#[derive(Clone, Debug, Default)]
struct Controller {
    streams: [Stream; 8],
    flags: [u8; 8],
    /// Flags or interrupt enables may have changed since somebody looked at the interrupt lines.
    has_changed: bool,
}

impl Controller {
    /// Position of a stream's flags in LISR or HISR.
    const SHIFT: [u32; 4] = [0, 6, 16, 22];

    fn status(&self, high: bool) -> u32 {
        let first = if high { 4 } else { 0 };
        (0..4).fold(0, |sum, i| sum | u32::from(self.flags[first + i]) << Self::SHIFT[i])
    }

    fn clear(&mut self, high: bool, value: u32) {
        let first = if high { 4 } else { 0 };
        for (i, shift) in Self::SHIFT.into_iter().enumerate() {
            self.flags[first + i] &= !((value >> shift & 0x3D) as u8);
        }
    }

    fn raise(&mut self, i: usize, flags: u8) {
        self.flags[i] |= flags;
        self.has_changed |= flags != 0;
    }

    fn interrupt(&self, i: usize) -> bool {
        let (control, flags) = (self.streams[i].control, u32::from(self.flags[i]));
        // TCIE, HTIE, TEIE, DMEIE are bits 4, 3, 2, 1; the flags are bits 5, 4, 3, 2.
        (control & 0x1E) << 1 & flags & 0x3C != 0
    }
}

/// Both controllers.
#[derive(Clone, Debug, Default)]
pub struct Dma {
    controllers: [Controller; 2],
    /// The first mistake seen.
    pub misuse: Option<Misuse>,
    /// What the chip puts up with is no mistake: a start with old flags, a change of a stream that has not
    /// moved anything.
    pub is_lenient: bool,
}

/// Interrupt numbers of the streams.
const INTERRUPTS: [[u8; 8]; 2] = [[11, 12, 13, 14, 15, 16, 17, 47], [56, 57, 58, 59, 60, 68, 69, 70]];

impl Dma {
    /// The stream that serves a wire now.
    fn find(&mut self, wire: Wire, register: u32, to_memory: bool) -> Option<(usize, usize)> {
        for &(c, s, channel) in wire.ends() {
            let stream = self.controllers[c].streams[s];
            if !stream.is_on() || stream.control >> 25 != channel || stream.left == 0 {
                continue;
            }
            let direction = stream.control >> 6 & 3;
            let what = if direction != u32::from(!to_memory) {
                "moves data in the wrong direction"
            } else if stream.peripheral != register {
                "points to another peripheral register"
            } else if stream.control >> 11 & 0xF != wire.sizes() {
                "moves items of the wrong size"
            } else {
                return Some((c, s));
            };
            self.blame(c, s, what, stream.peripheral);
        }
        None
    }

    fn blame(&mut self, controller: usize, stream: usize, what: &'static str, address: u32) {
        self.misuse.get_or_insert(Misuse { controller: controller + 1, stream, what, address });
    }

    /// A peripheral offers a received byte; true when a stream took it.
    pub fn give(&mut self, wire: Wire, register: u32, byte: u8, memory: &mut Memory<'_>) -> bool {
        let Some((c, s)) = self.find(wire, register, true) else { return false };
        let stream = &mut self.controllers[c].streams[s];
        let address = stream.next();
        let flags = stream.count();
        self.controllers[c].raise(s, flags);
        match address.checked_sub(map::SRAM).and_then(|o| memory.sram.get_mut(o as usize)) {
            Some(place) => *place = byte,
            None => self.blame(c, s, "writes outside the SRAM (DMA does not reach CCM)", address),
        }
        true
    }

    /// A peripheral asks for a byte to send.
    pub fn take(&mut self, wire: Wire, register: u32, memory: &Memory<'_>) -> Option<u8> {
        self.take_item(wire, register, memory).map(|[low, _]| low)
    }

    /// A peripheral asks for a half-word.
    pub fn take_half(&mut self, wire: Wire, register: u32, memory: &Memory<'_>) -> Option<u16> {
        self.take_item(wire, register, memory).map(u16::from_le_bytes)
    }

    /// The next item, and what follows it in memory if it is a byte.
    fn take_item(&mut self, wire: Wire, register: u32, memory: &Memory<'_>) -> Option<[u8; 2]> {
        let (c, s) = self.find(wire, register, false)?;
        let stream = &mut self.controllers[c].streams[s];
        let address = stream.next();
        let flags = stream.count();
        self.controllers[c].raise(s, flags);
        let in_ccm = address.checked_sub(map::CCM).is_some_and(|o| (o as usize) < map::CCM_LEN);
        let bytes = memory.at(address).filter(|_| !in_ccm);
        match bytes.and_then(|m| Some([*m.first()?, m.get(1).copied().unwrap_or(0)])) {
            Some(item) => Some(item),
            None => {
                self.blame(c, s, "reads where DMA does not reach (CCM or nowhere)", address);
                Some([0; 2])
            }
        }
    }

    /// Items a wire's stream still has to move; 0 when none serves it.
    #[must_use]
    pub fn left(&self, wire: Wire) -> u32 {
        wire.ends()
            .iter()
            .map(|&(c, s, channel)| (self.controllers[c].streams[s], channel))
            .find(|(stream, channel)| stream.is_on() && stream.control >> 25 == *channel)
            .map_or(0, |(stream, _)| stream.left)
    }

    /// Whether the interrupt lines of one controller may have changed since this was asked last.
    pub fn has_changed(&mut self, controller: usize) -> bool {
        std::mem::take(&mut self.controllers[controller].has_changed)
    }

    /// The interrupt lines of one controller: number and level.
    pub fn interrupts(&self, controller: usize) -> impl Iterator<Item = (u8, bool)> + '_ {
        let c = &self.controllers[controller];
        INTERRUPTS[controller].into_iter().enumerate().map(|(i, irq)| (irq, c.interrupt(i)))
    }

    /// Reads a register of a controller.
    #[must_use]
    pub fn read(&self, controller: usize, offset: u32) -> Option<u32> {
        let c = &self.controllers[controller];
        Some(match offset {
            0x00 => c.status(false),
            0x04 => c.status(true),
            0x08 | 0x0C => 0,
            0x10..=0xCF => {
                let stream = &c.streams[(offset as usize - 0x10) / 0x18];
                match (offset - 0x10) % 0x18 {
                    0x00 => stream.control,
                    0x04 => stream.left,
                    0x08 => stream.peripheral,
                    0x0C => stream.memory[0],
                    0x10 => stream.memory[1],
                    _ => stream.fifo | 0x20,
                }
            }
            _ => return None,
        })
    }

    /// Writes a register of a controller.
    pub fn write(&mut self, controller: usize, offset: u32, value: u32) -> Option<()> {
        self.controllers[controller].has_changed = true;
        match offset {
            0x00 | 0x04 => {}
            0x08 => self.controllers[controller].clear(false, value),
            0x0C => self.controllers[controller].clear(true, value),
            0x10..=0xCF => {
                self.write_stream(controller, (offset as usize - 0x10) / 0x18, (offset - 0x10) % 0x18, value)
            }
            _ => return None,
        }
        Some(())
    }

    fn write_stream(&mut self, controller: usize, index: usize, register: u32, value: u32) {
        let c = &mut self.controllers[controller];
        let stream = &mut c.streams[index];
        let was_on = stream.is_on();
        let is_frozen = was_on && !(self.is_lenient && stream.left == stream.total);
        match register {
            0x00 => {
                stream.control = value & 0x0FEF_FFFF;
                if !was_on && stream.is_on() {
                    stream.total = stream.left;
                    if c.flags[index] != 0 && !self.is_lenient {
                        self.blame(controller, index, "was started with its flags set", value);
                    }
                } else if was_on && !stream.is_on() {
                    // Stopping early raises the completion flag too.
                    c.flags[index] |= COMPLETE;
                }
            }
            0x04 if !is_frozen => (stream.left, stream.total) = (value & 0xFFFF, value & 0xFFFF),
            0x08 if !is_frozen => stream.peripheral = value,
            0x0C if !is_frozen || stream.control & DOUBLE_BUFFER != 0 => stream.memory[0] = value,
            0x10 if !is_frozen || stream.control & DOUBLE_BUFFER != 0 => stream.memory[1] = value,
            0x14 => stream.fifo = value & 0x87,
            _ => self.blame(controller, index, "was configured while it ran", value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DR: u32 = 0x4001_1404;

    fn with_memory(test: impl FnOnce(&mut Memory<'_>)) {
        let (mut sram, mut ccm) = (vec![0; 64], vec![0; 64]);
        test(&mut Memory { flash: &mut [], sram: &mut sram, ccm: &mut ccm, system: &mut [] });
    }

    fn receiver(dma: &mut Dma, memory: u32, count: u32, more: u32) {
        let stream1 = 0x10 + 0x18;
        dma.write(1, stream1 + 8, DR).unwrap();
        dma.write(1, stream1 + 0xC, memory).unwrap();
        dma.write(1, stream1 + 4, count).unwrap();
        dma.write(1, stream1, 5 << 25 | MEMORY_INCREMENT | more | ENABLE).unwrap();
    }

    #[test]
    fn a_circular_stream_fills_its_buffer_again_and_again() {
        with_memory(|memory| {
            let mut dma = Dma::default();
            receiver(&mut dma, map::SRAM + 4, 4, CIRCULAR | 0x18);
            for byte in 1..=6 {
                assert!(dma.give(Wire::Usart6Rx, DR, byte, memory));
            }
            assert_eq!(&memory.sram[4..8], &[5, 6, 3, 4]);
            assert_eq!(dma.read(1, 0x10 + 0x18 + 4), Some(2));
            assert_eq!(dma.read(1, 0), Some(0x30 << 6));
            assert!(dma.interrupts(1).any(|line| line == (57, true)));
            dma.write(1, 8, 0x3D << 6).unwrap();
            assert!(dma.interrupts(1).all(|(_, level)| !level));
            assert_eq!(dma.misuse, None);
        });
    }

    #[test]
    fn what_the_bus_cannot_do_is_named() {
        with_memory(|memory| {
            let mut dma = Dma::default();
            receiver(&mut dma, map::CCM, 4, 0);
            dma.give(Wire::Usart6Rx, DR, 1, memory);
            assert!(dma.misuse.unwrap().what.contains("CCM"));

            let mut dma = Dma::default();
            receiver(&mut dma, map::SRAM, 4, 0);
            assert!(dma.take(Wire::Usart6Tx, DR, memory).is_none());
            dma.give(Wire::Usart6Rx, DR + 4, 1, memory);
            assert!(dma.misuse.unwrap().what.contains("another"));
        });
    }
}
