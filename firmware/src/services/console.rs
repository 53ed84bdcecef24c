//! Text for the client.

use heapless::Deque;
use steady_common::crtp::console::MAX_TEXT;
use steady_common::crtp::{Packet, Port};

/// Bytes that wait for a client.
const ROOM: usize = 512;

/// Lines that wait to be sent. What does not fit is left out as whole texts.
#[derive(Debug)]
pub struct Console {
    bytes: Deque<u8, ROOM>,
    /// Ends of lines in `bytes`.
    lines: usize,
    lost: u32,
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

impl Console {
    /// Nothing to say.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Deque::new(), lines: 0, lost: 0 }
    }

    /// Says something; it is sent once its line is complete or a packet is full. False when there
    /// was no room.
    pub fn print(&mut self, text: &str) -> bool {
        if text.len() > ROOM - self.bytes.len() {
            self.lost = self.lost.wrapping_add(1);
            return false;
        }
        for byte in text.bytes() {
            self.lines += usize::from(byte == b'\n');
            let _ = self.bytes.push_back(byte);
        }
        true
    }

    /// Texts for which there was no room.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// The next packet: up to the end of a line, or as much as fits without splitting a character.
    pub(super) fn poll(&mut self) -> Option<Packet> {
        if self.lines == 0 && self.bytes.len() < MAX_TEXT {
            return None;
        }
        let mut length = 0;
        for byte in self.bytes.iter().take(MAX_TEXT) {
            length += 1;
            if *byte == b'\n' {
                break;
            }
        }
        let continues = |at: usize| self.bytes.iter().nth(at).is_some_and(|b| b & 0xC0 == 0x80);
        while length > 1 && continues(length) {
            length -= 1;
        }
        let mut text: heapless::Vec<u8, MAX_TEXT> = heapless::Vec::new();
        for _ in 0..length {
            if let Some(byte) = self.bytes.pop_front() {
                self.lines -= usize::from(byte == b'\n');
                let _ = text.push(byte);
            }
        }
        Packet::new(Port::Console, 0, &text)
    }
}

impl core::fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        if self.print(text) { Ok(()) } else { Err(core::fmt::Error) }
    }
}
