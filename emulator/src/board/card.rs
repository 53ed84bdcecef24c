//! The micro-SD card in SPI mode, on an image file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a block.
pub const BLOCK: usize = 512;
const US: u64 = 168;

/// How a card behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From a read command to the data.
    pub read_us: u64,
    /// Busy after an ordinary block was written.
    pub write_us: u64,
    /// Every so many written blocks …
    pub pause_every: u64,
    /// … the card rearranges its flash for so long.
    pub pause_us: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { read_us: 300, write_us: 250, pause_every: 256, pause_us: 20_000 }
    }
}

/// What the card is doing with the bytes it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    /// Waits for a command.
    Command,
    /// Waits for the token before the data of a block to be written.
    Token { block: u32, many: bool },
    /// Takes the data of a block and its CRC.
    Data { block: u32, many: bool, bytes: Vec<u8> },
    /// Sends blocks until it is told to stop.
    Reading { next: u32 },
}

/// What the card sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    /// A byte.
    Byte(u8),
    /// Ones for a time, µs: the card is fetching data.
    Wait(u64),
    /// Zeros for a time, µs: the card is busy.
    Busy(u64),
}

/// The card.
#[derive(Debug)]
pub struct Card {
    image: Option<File>,
    blocks: u32,
    /// Behaviour in time.
    pub timing: Timing,
    /// Pulled out of its holder.
    pub is_pulled: bool,
    is_ready: bool,
    is_spi: bool,
    polls: u32,
    is_application: bool,
    mode: Mode,
    command: Vec<u8>,
    answer: VecDeque<Out>,
    /// Until when the card sends the same byte, and which.
    hold: (u64, u8),
    written: u64,
    /// The image could not be read or written.
    pub error: Option<io::ErrorKind>,
    /// Blocks read and written.
    pub traffic: (u64, u64),
    /// Refuses to be written (a fault).
    pub is_write_protected: bool,
}

/// CRC-7 of a command, as in its last byte.
fn crc7(bytes: &[u8]) -> u8 {
    let mut crc = 0u8;
    for byte in bytes {
        let mut byte = *byte;
        for _ in 0..8 {
            crc <<= 1;
            if (byte ^ crc) & 0x80 != 0 {
                crc ^= 0x09;
            }
            byte <<= 1;
        }
    }
    crc << 1 | 1
}

/// CRC-16 (CCITT, from 0) of a block.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| {
                if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 }
            },
        )
    })
}

impl Card {
    /// A card on an image; `None` for an empty holder.
    #[must_use]
    pub fn new(image: Option<File>) -> Self {
        let len = image.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        Self {
            image,
            blocks: u32::try_from(len / BLOCK as u64).unwrap_or(u32::MAX),
            timing: Timing::default(),
            is_pulled: false,
            is_ready: false,
            is_spi: false,
            polls: 0,
            is_application: false,
            mode: Mode::Command,
            command: Vec::new(),
            answer: VecDeque::new(),
            hold: (0, 0xFF),
            written: 0,
            error: None,
            traffic: (0, 0),
            is_write_protected: false,
        }
    }

    /// Power went away: the card forgets everything but its blocks.
    pub fn power_off(&mut self) {
        let image = self.image.take();
        *self = Self {
            timing: self.timing,
            is_pulled: self.is_pulled,
            traffic: self.traffic,
            error: self.error,
            ..Self::new(image)
        };
    }

    /// The card is no longer selected.
    pub fn deselect(&mut self) {
        self.command.clear();
        if self.mode == Mode::Command {
            self.answer.clear();
        }
    }

    /// Exchanges a byte with the selected card.
    pub fn exchange(&mut self, byte: u8, now: u64) -> u8 {
        if self.is_pulled || self.image.is_none() {
            return 0xFF;
        }
        let out = self.outgoing(now);
        // A busy card takes nothing.
        if out != 0x00 || now >= self.hold.0 {
            self.incoming(byte);
        }
        out
    }

    fn outgoing(&mut self, now: u64) -> u8 {
        if now < self.hold.0 {
            return self.hold.1;
        }
        match self.answer.pop_front() {
            Some(Out::Byte(byte)) => byte,
            Some(Out::Wait(us)) => {
                self.hold = (now + us * US, 0xFF);
                0xFF
            }
            Some(Out::Busy(us)) => {
                self.hold = (now + us * US, 0x00);
                0x00
            }
            None => {
                if let Mode::Reading { next } = self.mode {
                    self.mode = Mode::Reading { next: next.wrapping_add(1) };
                    self.send_block(next);
                }
                0xFF
            }
        }
    }

    fn say(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.answer.extend(bytes.into_iter().map(Out::Byte));
    }

    fn incoming(&mut self, byte: u8) {
        match &mut self.mode {
            Mode::Token { block, many } => {
                let (block, many) = (*block, *many);
                match byte {
                    0xFE if !many => self.mode = Mode::Data { block, many, bytes: Vec::with_capacity(514) },
                    0xFC if many => self.mode = Mode::Data { block, many, bytes: Vec::with_capacity(514) },
                    0xFD if many => {
                        self.mode = Mode::Command;
                        self.answer.extend([Out::Byte(0xFF), Out::Busy(self.timing.write_us)]);
                    }
                    _ => {}
                }
            }
            Mode::Data { block, many, bytes } => {
                bytes.push(byte);
                if bytes.len() == BLOCK + 2 {
                    let (block, many, bytes) = (*block, *many, std::mem::take(bytes));
                    self.store(block, &bytes);
                    self.mode =
                        if many { Mode::Token { block: block.wrapping_add(1), many } } else { Mode::Command };
                }
            }
            Mode::Command | Mode::Reading { .. } => {
                if self.command.is_empty() && byte & 0xC0 != 0x40 {
                    return;
                }
                self.command.push(byte);
                if self.command.len() == 6 {
                    let command = std::mem::take(&mut self.command);
                    self.execute(&command);
                }
            }
        }
    }

    fn store(&mut self, block: u32, bytes: &[u8]) {
        let (data, crc) = bytes.split_at(BLOCK);
        // Checking is off unless the host asks for it, and many hosts send ones or zeros.
        let crc = u16::from_be_bytes([crc[0], crc[1]]);
        let is_damaged = crc != 0xFFFF && crc != 0 && crc != crc16(data);
        let response = if is_damaged {
            0x0B
        } else if self.is_write_protected || block >= self.blocks || !self.write_image(block, data) {
            0x0D
        } else {
            0x05
        };
        self.written += 1;
        let pause = self.timing.pause_every > 0 && self.written.is_multiple_of(self.timing.pause_every);
        let busy_us = self.timing.write_us + if pause { self.timing.pause_us } else { 0 };
        self.answer.extend([Out::Byte(response), Out::Busy(busy_us)]);
    }

    fn write_image(&mut self, block: u32, data: &[u8]) -> bool {
        let Some(image) = &self.image else { return false };
        match image.write_all_at(data, u64::from(block) * BLOCK as u64) {
            Ok(()) => {
                self.traffic.1 += 1;
                true
            }
            Err(error) => {
                self.error = Some(error.kind());
                false
            }
        }
    }

    fn send_block(&mut self, block: u32) {
        let mut data = [0; BLOCK];
        let read = match &self.image {
            Some(image) if block < self.blocks => {
                image.read_exact_at(&mut data, u64::from(block) * BLOCK as u64).map_err(|e| e.kind())
            }
            _ => Err(io::ErrorKind::UnexpectedEof),
        };
        self.answer.push_back(Out::Wait(self.timing.read_us));
        match read {
            Ok(()) => {
                self.traffic.0 += 1;
                self.send_data(&data);
            }
            Err(error) => {
                if block < self.blocks {
                    self.error = Some(error);
                }
                self.say([0x08]); // out of range
            }
        }
    }

    fn send_data(&mut self, data: &[u8]) {
        self.say([0xFE]);
        self.say(data.iter().copied());
        self.say(crc16(data).to_be_bytes());
    }

    fn execute(&mut self, command: &[u8]) {
        let argument = u32::from_be_bytes([command[1], command[2], command[3], command[4]]);
        let number = command[0] & 0x3F;
        let is_application = std::mem::replace(&mut self.is_application, false);
        if !self.is_spi && number != 0 || self.mode != Mode::Command && number != 12 {
            return;
        }
        self.answer.clear();
        // One byte of delay before the response.
        self.say([0xFF]);
        let idle = u8::from(!self.is_ready);
        if matches!(number, 0 | 8) && crc7(&command[..5]) != command[5] {
            self.say([idle | 0x08]);
            return;
        }
        match (number, is_application) {
            (0, _) => {
                (self.is_spi, self.is_ready, self.polls) = (true, false, 0);
                self.say([0x01]);
            }
            (8, _) => self.say([idle, 0, 0, 1, argument as u8]),
            (59, _) => self.say([idle]),
            (55, _) => {
                self.is_application = true;
                self.say([idle]);
            }
            (41, true) => {
                // The card takes a few polls to get ready, and is ready only for hosts that take
                // block addresses.
                self.polls += 1;
                if self.polls > 3 && argument & (1 << 30) != 0 {
                    self.is_ready = true;
                }
                self.say([u8::from(!self.is_ready)]);
            }
            (58, _) => {
                let ocr: u32 = 0x00FF_8000 | u32::from(self.is_ready) << 31 | u32::from(self.is_ready) << 30;
                self.say([idle]);
                self.say(ocr.to_be_bytes());
            }
            _ if !self.is_ready => self.say([0x05]),
            (9 | 10, _) => {
                let register = if number == 9 { self.csd() } else { Self::cid() };
                self.say([0x00, 0xFF]);
                self.send_data(&register);
            }
            (12, _) => {
                self.mode = Mode::Command;
                self.say([0xFF, 0x00]);
            }
            (13, _) => self.say([0x00, 0x00]),
            (16, _) | (23 | 42, true) => self.say([0x00]),
            (17, _) => {
                self.say([0x00]);
                self.send_block(argument);
            }
            (18, _) => {
                self.say([0x00]);
                self.mode = Mode::Reading { next: argument };
            }
            (24 | 25, _) => {
                self.say([0x00]);
                self.mode = Mode::Token { block: argument, many: number == 25 };
            }
            _ => self.say([0x04]),
        }
    }

    /// Card-specific data, version 2: the capacity in units of 512 KiB.
    fn csd(&self) -> [u8; 16] {
        let size = (self.blocks / 1024).saturating_sub(1);
        let mut csd = [0x40, 0x0E, 0x00, 0x32, 0x5B, 0x59, 0, 0, 0, 0, 0x7F, 0x80, 0x0A, 0x40, 0x00, 0x00];
        csd[7..10].copy_from_slice(&size.to_be_bytes()[1..]);
        csd[15] = crc7(&csd[..15]);
        csd
    }

    fn cid() -> [u8; 16] {
        let mut cid = *b"\x03SDVCARD\x10\0\0\0\x01\x01\x6A\0";
        cid[15] = crc7(&cid[..15]);
        cid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host {
        card: Card,
        now: u64,
    }

    impl Host {
        fn new() -> Self {
            let file = tempfile::tempfile().unwrap();
            file.set_len(8 * 1024 * 1024).unwrap();
            Self { card: Card::new(Some(file)), now: 0 }
        }
        fn byte(&mut self, byte: u8) -> u8 {
            self.now += 64;
            self.card.exchange(byte, self.now)
        }
        fn command(&mut self, number: u8, argument: u32) -> u8 {
            self.card.deselect();
            let mut frame = vec![0x40 | number];
            frame.extend(argument.to_be_bytes());
            frame.push(crc7(&frame));
            frame.iter().for_each(|b| _ = self.byte(*b));
            self.until(|b| b & 0x80 == 0)
        }
        fn until(&mut self, good: impl Fn(u8) -> bool) -> u8 {
            (0..100_000).map(|_| self.byte(0xFF)).find(|b| good(*b)).expect("an answer")
        }
        fn start(&mut self) {
            assert_eq!(self.command(0, 0), 1);
            assert_eq!(self.command(8, 0x1AA), 1);
            assert_eq!([0; 4].map(|_| self.byte(0xFF)), [0, 0, 1, 0xAA]);
            while {
                self.command(55, 0);
                self.command(41, 1 << 30) != 0
            } {}
            assert_eq!(self.command(58, 0), 0);
            assert_eq!(self.byte(0xFF) & 0xC0, 0xC0);
        }
        fn write(&mut self, block: u32, fill: u8) -> u8 {
            assert_eq!(self.command(24, block), 0);
            self.byte(0xFE);
            (0..512).for_each(|_| _ = self.byte(fill));
            (0..2).for_each(|_| _ = self.byte(0xFF));
            let response = self.until(|b| b != 0xFF);
            self.until(|b| b == 0xFF);
            response
        }
    }

    #[test]
    fn starts_writes_and_reads_back() {
        let mut host = Host::new();
        host.start();
        assert_eq!(host.write(77, 0x5A), 0x05);
        assert_eq!(host.command(17, 77), 0);
        assert_eq!(host.until(|b| b != 0xFF), 0xFE);
        let data: Vec<u8> = (0..512).map(|_| host.byte(0xFF)).collect();
        assert!(data.iter().all(|b| *b == 0x5A));
        assert_eq!(u16::from_be_bytes([host.byte(0xFF), host.byte(0xFF)]), crc16(&data));
        assert_eq!(host.card.traffic, (1, 1));
    }

    #[test]
    fn says_its_size_and_refuses_what_is_beyond() {
        let mut host = Host::new();
        host.start();
        assert_eq!(host.command(9, 0), 0);
        assert_eq!(host.until(|b| b != 0xFF), 0xFE);
        let csd: Vec<u8> = (0..16).map(|_| host.byte(0xFF)).collect();
        let size = u32::from_be_bytes([0, csd[7], csd[8], csd[9]]);
        assert_eq!((size + 1) * 1024, 8 * 1024 * 2);
        assert_eq!(host.write(1 << 20, 1), 0x0D);
        host.card.is_pulled = true;
        assert_eq!(host.byte(0), 0xFF);
    }

    #[test]
    fn checksums_are_the_standard_ones() {
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0x95);
        assert_eq!(crc7(&[0x48, 0, 0, 1, 0xAA]), 0x87);
        assert_eq!(crc16(&[0xFF; 512]), 0x7FA1);
    }
}
