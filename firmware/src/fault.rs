//! The record of a panic or fault, reported at the next start.
//!
//! The record lies in memory that no start-up code clears. A check word tells a record from the noise
//! of a cold start; reading it takes it away, so that each is reported once.

use core::fmt;

/// Why the processor started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// Power came up.
    PowerOn,
    /// The supply sagged.
    BrownOut,
    /// The radio processor (or a debugger) pulled the reset line.
    Pin,
    /// The firmware asked for it: after a panic or fault.
    Software,
    /// The flight loop stopped meeting its deadline.
    Watchdog,
    /// No flag was set.
    Unknown,
}

impl fmt::Display for ResetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PowerOn => "power-on",
            Self::BrownOut => "brown-out",
            Self::Pin => "reset line",
            Self::Software => "software",
            Self::Watchdog => "watchdog",
            Self::Unknown => "unknown",
        })
    }
}

/// What stopped the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A panic: the text says where and why.
    Panic = 1,
    /// A hard fault: program counter and fault registers say where.
    HardFault = 2,
    /// An interrupt without a handler.
    Unhandled = 3,
    /// The flight loop stood still, though interrupts went on.
    Late = 4,
}

/// Registers of a hard fault; zero for other kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// Program counter, as far as the stack was readable.
    pub pc: u32,
    /// Return address.
    pub lr: u32,
    /// Configurable fault status.
    pub cfsr: u32,
    /// Hard fault status.
    pub hfsr: u32,
    /// Address of the access that failed.
    pub address: u32,
}

/// Bytes of text kept.
pub const TEXT_SIZE: usize = 96;
const MAGIC: u32 = u32::from_le_bytes(*b"FLT1");

/// The record. Valid only as long as its check word is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    magic: u32,
    kind: u32,
    uptime_ms: u32,
    registers: Registers,
    length: u32,
    text: [u8; TEXT_SIZE],
    check: u32,
}

impl Record {
    /// A record of what just happened; the text is cut to what fits.
    #[must_use]
    pub fn new(kind: Kind, uptime_ms: u32, registers: Registers, text: fmt::Arguments<'_>) -> Self {
        let mut buffer = Text { bytes: [0; TEXT_SIZE], length: 0 };
        // It never fails: what does not fit is cut off.
        let _ = fmt::write(&mut buffer, text);
        let mut record = Self {
            magic: MAGIC,
            kind: kind as u32,
            uptime_ms,
            registers,
            length: buffer.length as u32,
            text: buffer.bytes,
            check: 0,
        };
        record.check = record.computed();
        record
    }

    /// No record: what [`take`](Self::take) leaves.
    #[must_use]
    pub const fn none() -> Self {
        let registers = Registers { pc: 0, lr: 0, cfsr: 0, hfsr: 0, address: 0 };
        Self { magic: 0, kind: 0, uptime_ms: 0, registers, length: 0, text: [0; TEXT_SIZE], check: 0 }
    }

    /// The record, if this is one; none is left behind.
    pub fn take(&mut self) -> Option<Self> {
        let found =
            (self.magic == MAGIC && self.kind().is_some() && self.check == self.computed()).then_some(*self);
        *self = Self::none();
        found
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        [Kind::Panic, Kind::HardFault, Kind::Unhandled, Kind::Late]
            .into_iter()
            .find(|kind| *kind as u32 == self.kind)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        let bytes = self.text.get(..self.length as usize).unwrap_or(&[]);
        // Cutting may have split a character; what is before it is still readable.
        core::str::from_utf8(bytes).unwrap_or_else(|error| {
            bytes.get(..error.valid_up_to()).map_or("", |b| core::str::from_utf8(b).unwrap_or(""))
        })
    }

    /// FNV-1a over everything before the check word.
    fn computed(&self) -> u32 {
        let r = &self.registers;
        let words =
            [self.magic, self.kind, self.uptime_ms, r.pc, r.lr, r.cfsr, r.hfsr, r.address, self.length];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(self.text)
            .fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = &self.registers;
        match self.kind() {
            Some(Kind::Panic) => write!(f, "panic")?,
            Some(Kind::HardFault) => write!(
                f,
                "hard fault pc={:08x} lr={:08x} cfsr={:08x} hfsr={:08x} addr={:08x}",
                r.pc, r.lr, r.cfsr, r.hfsr, r.address
            )?,
            Some(Kind::Unhandled) => write!(f, "unhandled interrupt")?,
            Some(Kind::Late) => write!(f, "flight loop late")?,
            None => return f.write_str("no fault"),
        }
        write!(f, " after {} ms: {}", self.uptime_ms, self.text())
    }
}

/// A text buffer that cuts what does not fit.
struct Text {
    bytes: [u8; TEXT_SIZE],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.length..).unwrap_or(&mut []);
        let n = s.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..n), s.as_bytes().get(..n)) {
            to.copy_from_slice(from);
            self.length += n;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_record_is_told_once() {
        let mut place = Record::new(
            Kind::Panic,
            1234,
            Registers::default(),
            format_args!("at {}:{}: {}", "a.rs", 7, "why"),
        );
        let told = place.take().unwrap();
        assert_eq!(told.to_string(), "panic after 1234 ms: at a.rs:7: why");
        assert_eq!(place.take(), None);
    }

    #[test]
    fn noise_is_no_record() {
        let good = Record::new(
            Kind::HardFault,
            5,
            Registers { pc: 0x0800_4321, ..Registers::default() },
            format_args!("x"),
        );
        assert!(good.to_string().contains("pc=08004321"));
        for damage in [
            |r: &mut Record| r.check ^= 1,
            |r: &mut Record| r.registers.pc ^= 4,
            |r: &mut Record| r.text[50] = 1,
            |r: &mut Record| r.length = u32::MAX,
            |r: &mut Record| r.kind = 77,
            |r: &mut Record| r.magic = 0,
        ] {
            let mut record = good;
            damage(&mut record);
            assert_eq!(record.take(), None);
        }
        assert_eq!(Record::none().take(), None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "ä".repeat(TEXT_SIZE);
        let record = Record::new(Kind::Panic, 0, Registers::default(), format_args!("a{long}"));
        assert_eq!(record.text().chars().count(), 1 + (TEXT_SIZE - 1) / 2);
    }
}
