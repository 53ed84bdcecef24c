//! Why a sensor is not fit to fly with.

use core::fmt;

/// A chip on the sensor bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// BMI088, the gyroscope's half.
    Gyroscope,
    /// BMI088, the accelerometer's half.
    Accelerometer,
    /// BMP388 or BMP390.
    Barometer,
}

impl Chip {
    /// Its seven-bit bus address.
    #[must_use]
    pub const fn address(self) -> u8 {
        match self {
            Self::Gyroscope => 0x69,
            Self::Accelerometer => 0x18,
            Self::Barometer => 0x77,
        }
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gyroscope => "gyroscope",
            Self::Accelerometer => "accelerometer",
            Self::Barometer => "barometer",
        })
    }
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It does not answer.
    Silent(Chip),
    /// It says to be another chip.
    Identity(Chip, u8),
    /// It does not keep what is written to this register.
    Setting(Chip, u8),
    /// Its own test failed, or did not end.
    SelfTest(Chip),
    /// It gives the same numbers for too long.
    Stuck(Chip),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(chip) => write!(f, "{chip} does not answer"),
            Self::Identity(chip, id) => write!(f, "{chip} has the wrong identity {id:#04x}"),
            Self::Setting(chip, register) => write!(f, "{chip} does not keep register {register:#04x}"),
            Self::SelfTest(chip) => write!(f, "{chip} fails its self-test"),
            Self::Stuck(chip) => write!(f, "{chip} is stuck"),
        }
    }
}
