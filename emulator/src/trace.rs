//! What the firmware says: RTT's ring buffer in memory, decoded by defmt with the image's texts.

use anyhow::{Context, Result};
use defmt_decoder::{DecodeError, StreamDecoder, Table};

use crate::cortex::unicorn::Memory;
use crate::image::Image;

/// Offset of the first up channel in the control block: id of 16 bytes and two counts.
const UP: u32 = 24;
/// First bytes of a control block that is in use.
const ID: &[u8] = b"SEGGER RTT";

/// The texts of an image, if it has any.
#[derive(Debug)]
pub struct Texts(Option<Table>);

impl Texts {
    /// Reads the texts.
    ///
    /// # Errors
    /// If they are there, but of a version that is not understood.
    pub fn of(image: &Image) -> Result<Self> {
        if !image.is_elf {
            return Ok(Self(None));
        }
        Table::parse(&image.file).map(Self).context("cannot read the firmware's log texts")
    }
}

/// Takes out what was written, and decodes it.
pub struct Trace<'t> {
    control: Option<u32>,
    decoder: Option<Box<dyn StreamDecoder + Send + Sync + 't>>,
    /// Frames that could not be decoded.
    pub damaged: u64,
}

impl<'t> Trace<'t> {
    /// A reader for an image with its texts.
    #[must_use]
    pub fn new(image: &Image, texts: &'t Texts) -> Self {
        let decoder = texts.0.as_ref().map(Table::new_stream_decoder);
        Self { control: image.rtt, decoder, damaged: 0 }
    }

    /// Lines written since the last call.
    pub fn poll(&mut self, memory: &mut Memory<'_>) -> Vec<String> {
        let Some(bytes) = self.control.and_then(|at| take(at, memory)) else { return Vec::new() };
        let Some(decoder) = &mut self.decoder else { return Vec::new() };
        decoder.received(&bytes);
        let mut lines = Vec::new();
        loop {
            match decoder.decode() {
                Ok(frame) => lines.push(frame.display(false).to_string()),
                Err(DecodeError::UnexpectedEof) => return lines,
                Err(DecodeError::Malformed) => self.damaged += 1,
            }
        }
    }
}

/// Takes the unread bytes out of the first up channel.
fn take(control: u32, memory: &mut Memory<'_>) -> Option<Vec<u8>> {
    if !memory.at(control)?.starts_with(ID) {
        return None;
    }
    let field = |i: u32| memory.word(control + UP + 4 * i);
    let (buffer, size, write, read) = (field(1)?, field(2)?, field(3)?, field(4)?);
    if size == 0 || write >= size || read >= size || write == read {
        return None;
    }
    let mut bytes = Vec::new();
    let mut at = read;
    while at != write {
        bytes.push(*memory.at(buffer + at)?.first()?);
        at = (at + 1) % size;
    }
    memory.set_word(control + UP + 16, write);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cortex::map::SRAM;

    #[test]
    fn bytes_are_taken_out_of_the_ring_once() {
        let mut sram = vec![0; 256];
        sram[..10].copy_from_slice(ID);
        sram[128..136].copy_from_slice(b"fghXXcde");
        let mut memory = Memory { flash: &mut [], sram: &mut sram, ccm: &mut [], system: &mut [] };
        for (i, word) in [(1, SRAM + 128), (2, 8), (3, 3), (4, 5)] {
            memory.set_word(SRAM + UP + 4 * i, word);
        }
        assert_eq!(take(SRAM, &mut memory).unwrap(), b"cdefgh");
        assert_eq!(take(SRAM, &mut memory), None);
        memory.set_word(SRAM + UP + 12, 9);
        assert_eq!(take(SRAM, &mut memory), None, "nonsense in the control block");
    }
}
