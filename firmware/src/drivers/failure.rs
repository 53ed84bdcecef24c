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

/// What the chips' own tests find doubtful. It is told, and no reason not to fly: the official firmware
/// does not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The gyroscope's self-test does not call its rates plausible.
    pub gyro_rate: bool,
    /// The accelerometer's self-test does not move its masses enough.
    pub accelerometer_push: bool,
}

impl Doubts {
    /// As `steady.selfTest` has them: bit 0 gyroscope, bit 1 accelerometer; 0 is none.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.gyro_rate) | u8::from(self.accelerometer_push) << 1
    }

    /// For people, one line each.
    pub fn lines(self) -> impl Iterator<Item = &'static str> {
        let gyro = self.gyro_rate.then_some("gyroscope: doubtful rate in its self-test");
        let push = self.accelerometer_push.then_some("accelerometer: moves too little in its self-test");
        [gyro, push].into_iter().flatten()
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
    /// Its own test failed, or did not end (the gyroscope's).
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
