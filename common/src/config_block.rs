//! The configuration block of the EEPROM, in the official layout: how the radio is tuned, and the trims.

use core::fmt;

use crate::bytes::{Reader, Writer};
use crate::math;

/// Bytes of the block.
pub const SIZE: usize = 21;
const MAGIC: u32 = 0x4342_7830;
const VERSION: u8 = 1;
/// Highest channel.
pub const MAX_CHANNEL: u8 = 125;
/// Highest data rate: 2 Mbit/s.
pub const MAX_SPEED: u8 = 2;
/// Largest trim, degrees.
pub const MAX_TRIM_DEG: f32 = 45.0;
/// Largest address: 40 bits.
pub const MAX_ADDRESS: u64 = 0xFF_FFFF_FFFF;

/// The configuration block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigBlock {
    /// Radio channel, 0 to 125.
    pub channel: u8,
    /// 0 for 250 kbit/s, 1 for 1 Mbit/s, 2 for 2 Mbit/s.
    pub speed: u8,
    /// Trim of the pitch, degrees.
    pub pitch_trim_deg: f32,
    /// Trim of the roll, degrees.
    pub roll_trim_deg: f32,
    /// Radio address, 40 bits.
    pub address: u64,
}

impl Default for ConfigBlock {
    fn default() -> Self {
        Self { channel: 80, speed: 2, pitch_trim_deg: 0.0, roll_trim_deg: 0.0, address: 0xE7_E7E7_E7E7 }
    }
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BadBlock {
    /// Not a block, or a damaged one.
    Damaged,
    /// Another version of the layout.
    Version(u8),
    /// No such channel.
    Channel(u8),
    /// No such data rate.
    Speed(u8),
    /// A trim that is not a small angle, degrees.
    Trim(f32),
    /// An address of more than 40 bits.
    Address(u64),
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => write!(f, "no configuration block (magic or checksum)"),
            Self::Version(version) => write!(f, "layout {version} is not known, only {VERSION}"),
            Self::Channel(channel) => write!(f, "channel {channel} is not in 0 to {MAX_CHANNEL}"),
            Self::Speed(speed) => write!(f, "speed {speed} is not 0, 1 or 2 (250K, 1M, 2M)"),
            Self::Trim(deg) => {
                let most = Degrees(MAX_TRIM_DEG);
                write!(f, "trim {} is not in -{most} to {most} degrees", Degrees(*deg))
            }
            Self::Address(address) => write!(f, "address {address:#x} has more than 5 bytes"),
        }
    }
}

impl core::error::Error for BadBlock {}

/// An angle for a text, with two decimals. The formatting of `f32` would need 30 KiB of the firmware's flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Degrees(pub f32);

impl fmt::Display for Degrees {
    #[allow(clippy::cast_possible_truncation, reason = "float casts saturate")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return write!(f, "not a number");
        }
        let sign = if self.0 < 0.0 { "-" } else { "" };
        let hundredths = (math::abs(self.0) * 100.0 + 0.5) as i32;
        write!(f, "{sign}{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

impl ConfigBlock {
    /// What no radio can do, or no trim is.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn check(&self) -> Result<(), BadBlock> {
        if self.channel > MAX_CHANNEL {
            return Err(BadBlock::Channel(self.channel));
        }
        if self.speed > MAX_SPEED {
            return Err(BadBlock::Speed(self.speed));
        }
        if self.address > MAX_ADDRESS {
            return Err(BadBlock::Address(self.address));
        }
        let bad = |trim: &&f32| !(-MAX_TRIM_DEG..=MAX_TRIM_DEG).contains(*trim);
        match [self.pitch_trim_deg, self.roll_trim_deg].iter().find(bad) {
            Some(trim) => Err(BadBlock::Trim(*trim)),
            None => Ok(()),
        }
    }

    /// The block's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut block = [0; SIZE];
        let [a0, a1, a2, a3, a4, ..] = self.address.to_le_bytes();
        let mut w = Writer::new(&mut block);
        w.put(&MAGIC.to_le_bytes())
            .put(&[VERSION, self.channel, self.speed])
            .put(&self.pitch_trim_deg.to_le_bytes())
            .put(&self.roll_trim_deg.to_le_bytes())
            .put(&[a4, a0, a1, a2, a3]);
        if let Some((last, covered)) = block.split_last_mut() {
            *last = checksum(covered);
        }
        block
    }

    /// Reads a block.
    ///
    /// # Errors
    /// If it is damaged, or holds what [`Self::check`] refuses.
    pub fn decode(block: &[u8; SIZE]) -> Result<Self, BadBlock> {
        let (sum, covered) = block.split_last().ok_or(BadBlock::Damaged)?;
        let mut r = Reader::new(covered);
        let mut byte = || r.u8().ok_or(BadBlock::Damaged);
        let magic = [byte()?, byte()?, byte()?, byte()?];
        if checksum(covered) != *sum || magic != MAGIC.to_le_bytes() {
            return Err(BadBlock::Damaged);
        }
        let (version, channel, speed) = (byte()?, byte()?, byte()?);
        if version != VERSION {
            return Err(BadBlock::Version(version));
        }
        let (pitch, roll) = (r.f32(), r.f32());
        let (high, low) = (r.u8(), r.u32());
        let (Some(pitch_trim_deg), Some(roll_trim_deg)) = (pitch, roll) else {
            return Err(BadBlock::Damaged);
        };
        let (Some(high), Some(low)) = (high, low) else { return Err(BadBlock::Damaged) };
        let address = u64::from(high) << 32 | u64::from(low);
        let block = Self { channel, speed, pitch_trim_deg, roll_trim_deg, address };
        block.check().map(|()| block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_official_layout_and_what_is_wrong_by_name() {
        let block = ConfigBlock {
            channel: 100,
            speed: 1,
            pitch_trim_deg: -1.5,
            roll_trim_deg: 2.0,
            address: 0xE7_0102_0304,
        };
        let bytes = block.encode();
        assert_eq!(bytes[..7], [0x30, 0x78, 0x42, 0x43, 1, 100, 1]);
        assert_eq!(bytes[15..20], [0xE7, 4, 3, 2, 1]);
        assert_eq!(ConfigBlock::decode(&bytes), Ok(block));
        for at in 0..SIZE {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert_eq!(ConfigBlock::decode(&damaged), Err(BadBlock::Damaged), "byte {at}");
        }
        for (bad, why) in [
            (ConfigBlock { channel: 126, ..block }, BadBlock::Channel(126)),
            (ConfigBlock { speed: 3, ..block }, BadBlock::Speed(3)),
            (ConfigBlock { roll_trim_deg: 46.0, ..block }, BadBlock::Trim(46.0)),
        ] {
            assert_eq!(ConfigBlock::decode(&bad.encode()), Err(why));
        }
        let not_a_number = ConfigBlock { pitch_trim_deg: f32::NAN, ..block };
        assert!(matches!(ConfigBlock::decode(&not_a_number.encode()), Err(BadBlock::Trim(_))));
        let text = std::format!("{}, {}, {}", BadBlock::Trim(-46.5), Degrees(f32::NAN), Degrees(-0.256));
        assert_eq!(text, "trim -46.50 is not in -45.00 to 45.00 degrees, not a number, -0.26");
        let mut other = bytes;
        other[4] = 0;
        other[20] = other[20].wrapping_sub(1);
        assert_eq!(ConfigBlock::decode(&other), Err(BadBlock::Version(0)));
    }
}
