//! Values of parameters and log variables: their types, and their bytes in records and packets.

use crate::bytes::{Reader, Writer};

/// Type of a value, with its letter in the uSD log's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `B`.
    U8,
    /// `b`.
    I8,
    /// `H`.
    U16,
    /// `h`.
    I16,
    /// `I`.
    U32,
    /// `i`.
    I32,
    /// `f`.
    F32,
    /// `e`: half precision.
    F16,
}

impl Type {
    /// Every type.
    pub const ALL: [Self; 8] =
        [Self::U8, Self::I8, Self::U16, Self::I16, Self::U32, Self::I32, Self::F32, Self::F16];

    /// The letter in the header.
    #[must_use]
    pub const fn letter(self) -> u8 {
        match self {
            Self::U8 => b'B',
            Self::I8 => b'b',
            Self::U16 => b'H',
            Self::I16 => b'h',
            Self::U32 => b'I',
            Self::I32 => b'i',
            Self::F32 => b'f',
            Self::F16 => b'e',
        }
    }

    /// Name in Rust.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }

    /// The type of a letter.
    #[must_use]
    pub fn from_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.letter() == letter)
    }

    /// Bytes in a record.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
        }
    }

    /// Reads a value from the front of a slice; `None` when it is too short.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Option<Value> {
        let mut r = Reader::new(bytes);
        Some(match self {
            Self::U8 => Value::U8(r.u8()?),
            Self::I8 => Value::I8(i8::from_le_bytes(r.array()?)),
            Self::U16 => Value::U16(r.u16()?),
            Self::I16 => Value::I16(i16::from_le_bytes(r.array()?)),
            Self::U32 => Value::U32(r.u32()?),
            Self::I32 => Value::I32(i32::from_le_bytes(r.array()?)),
            Self::F32 => Value::F32(r.f32()?),
            Self::F16 => Value::F32(f32_from_f16(r.u16()?)),
        })
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    I32(i32),
    /// Single precision (half precision is widened when read).
    F32(f32),
}

impl Value {
    /// Its type.
    #[must_use]
    pub const fn kind(self) -> Type {
        match self {
            Self::U8(_) => Type::U8,
            Self::I8(_) => Type::I8,
            Self::U16(_) => Type::U16,
            Self::I16(_) => Type::I16,
            Self::U32(_) => Type::U32,
            Self::I32(_) => Type::I32,
            Self::F32(_) => Type::F32,
        }
    }

    /// Appends its bytes.
    pub fn write(self, w: &mut Writer<'_>) {
        match self {
            Self::U8(v) => w.put(&v.to_le_bytes()),
            Self::I8(v) => w.put(&v.to_le_bytes()),
            Self::U16(v) => w.put(&v.to_le_bytes()),
            Self::I16(v) => w.put(&v.to_le_bytes()),
            Self::U32(v) => w.put(&v.to_le_bytes()),
            Self::I32(v) => w.put(&v.to_le_bytes()),
            Self::F32(v) => w.put(&v.to_le_bytes()),
        };
    }

    /// Converts to another type: clamped to its range, fractions truncated, NaN as zero.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    pub fn convert(self, kind: Type) -> Self {
        let v = self.to_f64();
        match kind {
            Type::U8 => Self::U8(v as u8),
            Type::I8 => Self::I8(v as i8),
            Type::U16 => Self::U16(v as u16),
            Type::I16 => Self::I16(v as i16),
            Type::U32 => Self::U32(v as u32),
            Type::I32 => Self::I32(v as i32),
            Type::F32 | Type::F16 => match self {
                Self::F32(v) => Self::F32(v),
                _ => Self::F32(v as f32),
            },
        }
    }

    /// Appends its bytes as another type.
    pub fn write_as(self, kind: Type, w: &mut Writer<'_>) {
        match (kind, self.convert(kind)) {
            (Type::F16, Self::F32(v)) => {
                w.put(&f16_from_f32(v).to_le_bytes());
            }
            (_, value) => value.write(w),
        }
    }

    /// As a double, which holds every one of them exactly.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::F32(v) => v.into(),
        }
    }
}

/// IEEE half precision, widened exactly.
#[must_use]
pub fn f32_from_f16(half: u16) -> f32 {
    let (sign, exponent, mantissa) =
        (u32::from(half >> 15) << 31, u32::from(half >> 10) & 0x1F, u32::from(half) & 0x3FF);
    match (exponent, mantissa) {
        (0, 0) => f32::from_bits(sign),
        // Subnormal: mantissa · 2⁻²⁴, which single precision holds as a normal number.
        (0, _) => {
            let shift = mantissa.leading_zeros() - 21;
            f32::from_bits(sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3FF) << 13))
        }
        (31, _) => f32::from_bits(sign | 0x7F80_0000 | (mantissa << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13)),
    }
}

/// The nearest half-precision number (ties away from zero); too large becomes infinite.
#[must_use]
pub fn f16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, exponent, mantissa) = ((bits >> 16) & 0x8000, (bits >> 23) & 0xFF, bits & 0x7F_FFFF);
    let half = match exponent {
        255 if mantissa != 0 => 0x7E00,
        // The rounding bit may carry into the exponent, which is what rounding up means there.
        113..143 => ((exponent - 112) << 10) + ((mantissa + 0x1000) >> 13),
        102..113 => {
            let shift = 126 - exponent;
            ((mantissa | 0x80_0000) + (1 << (shift - 1))) >> shift
        }
        0..102 => 0,
        _ => 0x7C00,
    };
    #[allow(clippy::cast_possible_truncation, reason = "both parts are within 16 bits")]
    let half = (sign | half) as u16;
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_types_are_one_to_one() {
        for t in Type::ALL {
            assert_eq!(Type::from_letter(t.letter()), Some(t));
            assert!(t.read(&[0; 4][..t.size()]).is_some());
            assert!(t.read(&[0; 4][..t.size() - 1]).is_none());
        }
        assert_eq!(Type::from_letter(b'Q'), None);
    }

    #[test]
    fn halves_survive_the_round_trip_and_mean_what_they_should() {
        for half in 0..=u16::MAX {
            let wide = f32_from_f16(half);
            if wide.is_nan() {
                assert!(f32_from_f16(f16_from_f32(wide)).is_nan());
            } else {
                assert_eq!(f16_from_f32(wide), half, "{half:#06x} {wide}");
            }
        }
        assert_eq!(f32_from_f16(0x3C00), 1.0);
        assert_eq!(f32_from_f16(0x0001), 5.960_464_5e-8);
        assert_eq!(f32_from_f16(0xC500), -5.0);
        assert_eq!(f16_from_f32(70000.0), 0x7C00);
        assert_eq!(f16_from_f32(1e-9), 0);
    }
}
