//! A sensor bus for tests: three chips as register files, that can be silent, slow to wake, or wrong.

extern crate std;
use std::collections::{BTreeMap, BTreeSet};

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_hal_async::delay::DelayNs;
use embedded_hal_async::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};

use super::Chip;

/// Runs a future that never has to wait.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the fake bus answers at once"),
    }
}

/// Time that passes at once.
pub(super) struct NoDelay;

impl DelayNs for NoDelay {
    async fn delay_ns(&mut self, _: u32) {}
}

/// Time that passes at once, and how much of it, ms.
#[derive(Default)]
pub(super) struct Waits(pub(super) std::vec::Vec<u32>);

impl DelayNs for Waits {
    async fn delay_ns(&mut self, ns: u32) {
        self.0.push(ns / 1_000_000);
    }
    async fn delay_ms(&mut self, ms: u32) {
        self.0.push(ms);
    }
}

/// The bus with its chips.
pub(super) struct Board {
    registers: BTreeMap<(u8, u8), u8>,
    fixed: BTreeSet<(u8, u8)>,
    silent: BTreeSet<u8>,
    silent_for: u32,
    /// How far the accelerometer's self-test moves its axes, counts.
    pub(super) push: [i16; 3],
}

impl Board {
    /// All chips well.
    pub(super) fn healthy() -> Self {
        let mut board = Self {
            registers: BTreeMap::new(),
            fixed: BTreeSet::new(),
            silent: BTreeSet::new(),
            silent_for: 0,
            push: [900, 900, 500],
        };
        board.fix(Chip::Gyroscope, 0x00, 0x0F);
        board.fix(Chip::Gyroscope, 0x3C, 0b1_0010);
        board.registers.insert((0x69, 0x16), 0x0F);
        board.fix(Chip::Accelerometer, 0x00, 0x1E);
        board.fix(Chip::Barometer, 0x00, 0x50);
        board
    }

    /// A register that keeps a value whatever is written.
    pub(super) fn fix(&mut self, chip: Chip, register: u8, value: u8) {
        self.registers.insert((chip.address(), register), value);
        self.fixed.insert((chip.address(), register));
    }

    /// What a register holds.
    pub(super) fn register(&self, chip: Chip, register: u8) -> u8 {
        self.registers.get(&(chip.address(), register)).copied().unwrap_or(0)
    }

    /// Sets registers from one on.
    pub(super) fn set_bytes(&mut self, chip: Chip, register: u8, bytes: &[u8]) {
        for (register, byte) in (register..).zip(bytes) {
            self.registers.insert((chip.address(), register), *byte);
        }
    }

    /// Sets three axes from a register on.
    pub(super) fn set_axes(&mut self, chip: Chip, register: u8, axes: [i16; 3]) {
        let bytes: std::vec::Vec<u8> = axes.iter().flat_map(|axis| axis.to_le_bytes()).collect();
        self.set_bytes(chip, register, &bytes);
    }

    /// The accelerometer's self-test: about gravity, one way or the other.
    fn push_accelerometer(&mut self, value: u8) {
        let way = match value {
            0x0D => 1,
            0x09 => -1,
            _ => 0,
        };
        let [x, y, z] = self.push.map(|counts| way * counts);
        self.set_axes(Chip::Accelerometer, 0x12, [x, y, 1365 + z]);
    }

    /// A chip that no longer answers.
    pub(super) fn silence(&mut self, chip: Chip) {
        self.silent.insert(chip.address());
    }

    /// A chip that answers again.
    pub(super) fn wake(&mut self, chip: Chip) {
        self.silent.remove(&chip.address());
    }

    /// No chip answers to the next so many transfers.
    pub(super) fn silence_for(&mut self, transfers: u32) {
        self.silent_for = transfers;
    }
}

impl ErrorType for Board {
    type Error = ErrorKind;
}

impl I2c for Board {
    async fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), ErrorKind> {
        if self.silent_for > 0 {
            self.silent_for -= 1;
            return Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address));
        }
        if self.silent.contains(&address) {
            return Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address));
        }
        let mut pointer = 0;
        for operation in operations {
            match operation {
                Operation::Write(bytes) => {
                    let (register, mut values) = bytes.split_first().unwrap();
                    pointer = *register;
                    while let Some((value, rest)) = values.split_first() {
                        values = rest;
                        if !self.fixed.contains(&(address, pointer)) {
                            // Bit 7 of the gyroscope's bandwidth register always reads as 1.
                            let held = if (address, pointer) == (0x69, 0x10) { value | 0x80 } else { *value };
                            self.registers.insert((address, pointer), held);
                            if (address, pointer) == (0x18, 0x6D) {
                                self.push_accelerometer(*value);
                            }
                        }
                        pointer += 1;
                        if let (0x77, Some((register, rest))) = (address, values.split_first()) {
                            // The barometer takes pairs of register and value.
                            (pointer, values) = (*register, rest);
                        }
                        if *value == 0xB6 {
                            // A reset goes before it has acknowledged.
                            return Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data));
                        }
                    }
                }
                Operation::Read(bytes) => {
                    for byte in bytes.iter_mut() {
                        *byte = self.registers.get(&(address, pointer)).copied().unwrap_or(0);
                        pointer += 1;
                    }
                }
            }
        }
        Ok(())
    }
}
