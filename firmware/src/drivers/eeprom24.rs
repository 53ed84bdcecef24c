//! 24AA64 EEPROM: 8 KiB, written in pages of 32 bytes.

use embedded_hal_async::delay::DelayNs;
use embedded_hal_async::i2c::I2c;

/// Bytes it holds.
pub const SIZE: usize = 8192;
/// Bytes that can be written at once, aligned.
pub const PAGE_SIZE: usize = 32;

const ADDRESS: u8 = 0x50;
/// Bytes read at once: what the bus takes.
const READ_CHUNK: usize = 32;
/// Times a busy chip is asked again, a millisecond apart; writing a page takes up to 5 ms.
const ATTEMPTS: u8 = 12;

/// Why the EEPROM did not do what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It does not answer.
    Silent,
    /// Beyond its last byte.
    Range,
}

/// The chip on its bus.
#[derive(Debug)]
pub struct Eeprom<B, D> {
    bus: B,
    delay: D,
}

impl<B: I2c, D: DelayNs> Eeprom<B, D> {
    /// On a bus that is all its own.
    pub fn new(bus: B, delay: D) -> Self {
        Self { bus, delay }
    }

    /// Reads bytes.
    pub async fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        check(offset, into.len())?;
        let mut at = offset;
        for chunk in into.chunks_mut(READ_CHUNK) {
            let pointer = pointer(at);
            let mut attempts = ATTEMPTS;
            while self.bus.write_read(ADDRESS, &pointer, chunk).await.is_err() {
                self.wait(&mut attempts).await?;
            }
            at += chunk.len();
        }
        Ok(())
    }

    /// Writes bytes, page by page, and waits until the chip has done it. Bytes that are already there
    /// are not written again: a page lives for a million writes.
    pub async fn write(&mut self, offset: usize, mut bytes: &[u8]) -> Result<(), Error> {
        check(offset, bytes.len())?;
        let mut at = offset;
        while !bytes.is_empty() {
            let room = PAGE_SIZE - at % PAGE_SIZE;
            let (page, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.write_page(at, page).await?;
            at += page.len();
            bytes = rest;
        }
        Ok(())
    }

    async fn write_page(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let mut present = [0; PAGE_SIZE];
        let present = present.get_mut(..bytes.len()).ok_or(Error::Range)?;
        self.read(offset, present).await?;
        if present == bytes {
            return Ok(());
        }
        let mut message = [0; 2 + PAGE_SIZE];
        let (address, data) = message.split_at_mut(2);
        address.copy_from_slice(&pointer(offset));
        data.get_mut(..bytes.len()).ok_or(Error::Range)?.copy_from_slice(bytes);
        let message = message.get(..2 + bytes.len()).ok_or(Error::Range)?;
        let mut attempts = ATTEMPTS;
        while self.bus.write(ADDRESS, message).await.is_err() {
            self.wait(&mut attempts).await?;
        }
        // Read back: the chip does not answer until the page is written.
        let mut found = [0; PAGE_SIZE];
        let found = found.get_mut(..bytes.len()).ok_or(Error::Range)?;
        self.read(offset, found).await?;
        if found == bytes { Ok(()) } else { Err(Error::Silent) }
    }

    async fn wait(&mut self, attempts: &mut u8) -> Result<(), Error> {
        *attempts = attempts.checked_sub(1).ok_or(Error::Silent)?;
        self.delay.delay_ms(1).await;
        Ok(())
    }
}

fn check(offset: usize, length: usize) -> Result<(), Error> {
    match offset.checked_add(length) {
        Some(end) if end <= SIZE => Ok(()),
        _ => Err(Error::Range),
    }
}

/// The address as the chip takes it, most significant byte first.
fn pointer(offset: usize) -> [u8; 2] {
    let [high, low] = u16::try_from(offset).unwrap_or(0).to_be_bytes();
    [high, low]
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use embedded_hal_async::i2c::{ErrorKind, ErrorType, NoAcknowledgeSource, Operation};
    use proptest::prelude::*;

    use super::super::fake::{NoDelay, now};
    use super::*;

    /// The chip: wraps inside a page, is deaf while it writes, and may lose its power.
    struct Chip {
        bytes: Vec<u8>,
        busy: u8,
        page_writes: u32,
        dead: bool,
    }

    impl Chip {
        fn new() -> Self {
            Self { bytes: vec![0xFF; SIZE], busy: 0, page_writes: 0, dead: false }
        }
    }

    impl ErrorType for &mut Chip {
        type Error = ErrorKind;
    }

    impl I2c for &mut Chip {
        async fn transaction(
            &mut self,
            address: u8,
            operations: &mut [Operation<'_>],
        ) -> Result<(), ErrorKind> {
            assert_eq!(address, 0x50);
            if self.dead || self.busy > 0 {
                self.busy = self.busy.saturating_sub(1);
                return Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address));
            }
            let mut at = 0;
            for operation in operations {
                match operation {
                    Operation::Write(message) => {
                        at = usize::from(u16::from_be_bytes([message[0], message[1]]));
                        if message.len() > 2 {
                            assert!(message.len() <= 2 + PAGE_SIZE);
                            let page = at / PAGE_SIZE * PAGE_SIZE;
                            for (i, byte) in message[2..].iter().enumerate() {
                                self.bytes[page + (at - page + i) % PAGE_SIZE] = *byte;
                            }
                            self.busy = 5;
                            self.page_writes += 1;
                        }
                    }
                    Operation::Read(into) => {
                        for byte in into.iter_mut() {
                            *byte = self.bytes[at % SIZE];
                            at += 1;
                        }
                    }
                }
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            offset in 0..SIZE, bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut chip = Chip::new();
            let mut expected = chip.bytes.clone();
            let result = now(Eeprom::new(&mut chip, NoDelay).write(offset, &bytes));
            if offset + bytes.len() <= SIZE {
                prop_assert_eq!(result, Ok(()));
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                let mut read = vec![0; bytes.len()];
                prop_assert_eq!(now(Eeprom::new(&mut chip, NoDelay).read(offset, &mut read)), Ok(()));
                prop_assert_eq!(read, bytes);
            } else {
                prop_assert_eq!(result, Err(Error::Range));
            }
            prop_assert_eq!(&chip.bytes, &expected);
        }
    }

    #[test]
    fn what_is_there_is_not_written_again() {
        let mut chip = Chip::new();
        let mut eeprom = Eeprom::new(&mut chip, NoDelay);
        for _ in 0..3 {
            now(eeprom.write(100, &[1, 2, 3])).unwrap();
        }
        assert_eq!(chip.page_writes, 1);
    }

    #[test]
    fn a_dead_chip_is_told() {
        let mut chip = Chip::new();
        chip.dead = true;
        assert_eq!(now(Eeprom::new(&mut chip, NoDelay).read(0, &mut [0; 8])), Err(Error::Silent));
        assert_eq!(now(Eeprom::new(&mut chip, NoDelay).write(0, &[0; 8])), Err(Error::Silent));
    }
}
