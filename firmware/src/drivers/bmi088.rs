//! BMI088: gyroscope at 1000 Hz with its data-ready line, accelerometer at 1600 Hz.
//!
//! Ranges, rates and the order of the start are the official firmware's. Axes need no change: body x
//! forward, y left, z up.

use embedded_hal_async::delay::DelayNs;
use embedded_hal_async::i2c::I2c;
use steady_common::GRAVITY_M_S2;
use steady_common::Vec3;

use super::{Chip, Failure};

/// rad/s of one count: ±2000 °/s over 16 bits.
const GYRO_SCALE: f32 = 4000.0 / 65536.0 * core::f32::consts::PI / 180.0;
/// m/s² of one count: ±24 g over 16 bits.
const ACCELEROMETER_SCALE: f32 = 48.0 / 65536.0 * GRAVITY_M_S2;

/// Registers of the gyroscope.
mod gyro {
    pub(super) const CHIP_ID: u8 = 0x00;
    pub(super) const RATE_X: u8 = 0x02;
    pub(super) const RANGE: u8 = 0x0F;
    pub(super) const BANDWIDTH: u8 = 0x10;
    pub(super) const POWER: u8 = 0x11;
    pub(super) const SOFT_RESET: u8 = 0x14;
    pub(super) const INTERRUPT_CONTROL: u8 = 0x15;
    pub(super) const INTERRUPT_PINS: u8 = 0x16;
    pub(super) const INTERRUPT_MAP: u8 = 0x18;
    pub(super) const SELF_TEST: u8 = 0x3C;

    pub(super) const ID: u8 = 0x0F;
    /// ±2000 °/s.
    pub(super) const RANGE_2000: u8 = 0x00;
    /// 1000 Hz through a filter of 116 Hz.
    pub(super) const RATE_1000_FILTER_116: u8 = 0x02;
}

/// Registers of the accelerometer.
mod accelerometer {
    pub(super) const CHIP_ID: u8 = 0x00;
    pub(super) const ACC_X: u8 = 0x12;
    pub(super) const CONFIGURATION: u8 = 0x40;
    pub(super) const RANGE: u8 = 0x41;
    pub(super) const SELF_TEST: u8 = 0x6D;
    pub(super) const POWER_CONFIGURATION: u8 = 0x7C;
    pub(super) const POWER_CONTROL: u8 = 0x7D;
    pub(super) const SOFT_RESET: u8 = 0x7E;

    pub(super) const ID: u8 = 0x1E;
    /// 1600 Hz with four-fold oversampling (145 Hz bandwidth).
    pub(super) const RATE_1600_OSR4: u8 = 0x8C;
    /// 1600 Hz without more filtering, as the self-test wants it.
    pub(super) const RATE_1600_NORMAL: u8 = 0xAC;
    /// ±24 g.
    pub(super) const RANGE_24G: u8 = 0x03;
    /// The self-test pushes the sensing masses one way, the other way, or not at all.
    pub(super) const PUSH_POSITIVE: u8 = 0x0D;
    pub(super) const PUSH_NEGATIVE: u8 = 0x09;
    pub(super) const PUSH_OFF: u8 = 0x00;
    /// Smallest difference between both pushes on each axis, counts of 1/1365 g: 1 g, 1 g, 0.5 g.
    pub(super) const PUSH_COUNTS: [i32; 3] = [1366, 1366, 683];
}

const RESET: u8 = 0xB6;

/// Starts the gyroscope: reset, identity, self-test, settings, data-ready line INT3 (active high). False
/// when its self-test finds the rates implausible, which is no failure.
pub async fn start_gyro<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<bool, Failure> {
    const CHIP: Chip = Chip::Gyroscope;
    reset(bus, CHIP, gyro::SOFT_RESET).await;
    delay.delay_ms(30).await;
    check_identity(bus, CHIP, gyro::CHIP_ID, gyro::ID).await?;
    write(bus, CHIP, gyro::POWER, 0x00).await?;
    delay.delay_ms(30).await;
    let rate_ok = self_test(bus, delay).await?;

    set(bus, CHIP, gyro::RANGE, gyro::RANGE_2000, 0xFF).await?;
    // Bit 7 reads as 1 whatever is written.
    set(bus, CHIP, gyro::BANDWIDTH, gyro::RATE_1000_FILTER_116, 0x7F).await?;
    let pins = read_byte(bus, CHIP, gyro::INTERRUPT_PINS).await?;
    // INT3: bit 0 active high, bit 1 push-pull.
    set(bus, CHIP, gyro::INTERRUPT_PINS, (pins & !0b10) | 0b01, 0b11).await?;
    set(bus, CHIP, gyro::INTERRUPT_MAP, 0x01, 0x01).await?;
    write(bus, CHIP, gyro::INTERRUPT_CONTROL, 0x80).await?;
    delay.delay_ms(50).await;
    read_gyro(bus).await?;
    Ok(rate_ok)
}

/// The chip's own test of its rate sensor; whether it calls the rates plausible. As in the official
/// firmware, only *ready* and *failed* decide.
async fn self_test<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<bool, Failure> {
    const TRIGGER: u8 = 1;
    const READY: u8 = 1 << 1;
    const FAILED: u8 = 1 << 2;
    // Bit 4 by the data sheet, bit 3 by the vendor's header.
    const RATE_OK: u8 = 1 << 4 | 1 << 3;
    let failure = Failure::SelfTest(Chip::Gyroscope);
    write(bus, Chip::Gyroscope, gyro::SELF_TEST, TRIGGER).await?;
    for _ in 0..20 {
        delay.delay_ms(5).await;
        let status = read_byte(bus, Chip::Gyroscope, gyro::SELF_TEST).await?;
        if status & READY != 0 {
            return if status & FAILED == 0 { Ok(status & RATE_OK != 0) } else { Err(failure) };
        }
    }
    Err(failure)
}

/// Pushes the accelerometer's masses electrically, both ways, and looks whether they move enough. With the
/// vendor's waiting times.
async fn push_test<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<bool, Failure> {
    use accelerometer as a;
    const CHIP: Chip = Chip::Accelerometer;
    set(bus, CHIP, a::RANGE, a::RANGE_24G, 0x03).await?;
    set(bus, CHIP, a::CONFIGURATION, a::RATE_1600_NORMAL, 0xFF).await?;
    delay.delay_ms(20).await;
    let mut found = [Counts::default(); 2];
    for (push, found) in [a::PUSH_POSITIVE, a::PUSH_NEGATIVE].into_iter().zip(&mut found) {
        write(bus, CHIP, a::SELF_TEST, push).await?;
        delay.delay_ms(100).await;
        *found = read_accelerometer(bus).await?;
    }
    write(bus, CHIP, a::SELF_TEST, a::PUSH_OFF).await?;
    delay.delay_ms(55).await;
    let [Counts(positive), Counts(negative)] = found;
    let pairs = positive.iter().zip(&negative).zip(&a::PUSH_COUNTS);
    Ok(pairs.fold(true, |all, ((p, n), least)| all && (i32::from(*p) - i32::from(*n)).abs() >= *least))
}

/// Starts the accelerometer: reset, power, identity, self-test, settings. False when the self-test does not
/// move its masses enough, which is no failure.
pub async fn start_accelerometer<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<bool, Failure> {
    use accelerometer as a;
    const CHIP: Chip = Chip::Accelerometer;
    reset(bus, CHIP, a::SOFT_RESET).await;
    delay.delay_ms(5).await;
    write(bus, CHIP, a::POWER_CONTROL, 0x04).await?;
    delay.delay_ms(5).await;
    check_identity(bus, CHIP, a::CHIP_ID, a::ID).await?;
    write(bus, CHIP, a::POWER_CONFIGURATION, 0x00).await?;
    delay.delay_ms(1).await;
    write(bus, CHIP, a::POWER_CONTROL, 0x04).await?;
    delay.delay_ms(10).await;
    let moves = push_test(bus, delay).await?;
    set(bus, CHIP, a::CONFIGURATION, a::RATE_1600_OSR4, 0xFF).await?;
    set(bus, CHIP, a::RANGE, a::RANGE_24G, 0x03).await?;
    delay.delay_ms(5).await;
    read_accelerometer(bus).await?;
    Ok(moves)
}

/// Raw counts and what they mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [i16; 3]);

impl Counts {
    fn scaled(self, scale: f32) -> Vec3 {
        let [x, y, z] = self.0.map(|count| f32::from(count) * scale);
        Vec3::new(x, y, z)
    }

    /// Of the gyroscope: rad/s.
    #[must_use]
    pub fn angular_velocity(self) -> Vec3 {
        self.scaled(GYRO_SCALE)
    }

    /// Of the accelerometer: m/s².
    #[must_use]
    pub fn specific_force(self) -> Vec3 {
        self.scaled(ACCELEROMETER_SCALE)
    }
}

/// Reads the angular velocity.
pub async fn read_gyro<B: I2c>(bus: &mut B) -> Result<Counts, Failure> {
    read_axes(bus, Chip::Gyroscope, gyro::RATE_X).await
}

/// Reads the specific force.
pub async fn read_accelerometer<B: I2c>(bus: &mut B) -> Result<Counts, Failure> {
    read_axes(bus, Chip::Accelerometer, accelerometer::ACC_X).await
}

async fn read_axes<B: I2c>(bus: &mut B, chip: Chip, register: u8) -> Result<Counts, Failure> {
    let mut bytes = [0; 6];
    bus.write_read(chip.address(), &[register], &mut bytes).await.map_err(|_| Failure::Silent(chip))?;
    let [x0, x1, y0, y1, z0, z1] = bytes;
    Ok(Counts([[x0, x1], [y0, y1], [z0, z1]].map(i16::from_le_bytes)))
}

async fn write<B: I2c>(bus: &mut B, chip: Chip, register: u8, value: u8) -> Result<(), Failure> {
    bus.write(chip.address(), &[register, value]).await.map_err(|_| Failure::Silent(chip))
}

/// Resets a chip. Some go before they have acknowledged the command; one that is not there is found by
/// what follows.
pub(super) async fn reset<B: I2c>(bus: &mut B, chip: Chip, register: u8) {
    let _ = write(bus, chip, register, RESET).await;
}

pub(super) async fn read_byte<B: I2c>(bus: &mut B, chip: Chip, register: u8) -> Result<u8, Failure> {
    let mut byte = [0];
    bus.write_read(chip.address(), &[register], &mut byte).await.map_err(|_| Failure::Silent(chip))?;
    let [byte] = byte;
    Ok(byte)
}

/// Writes a setting and reads it back.
pub(super) async fn set<B: I2c>(
    bus: &mut B,
    chip: Chip,
    register: u8,
    value: u8,
    mask: u8,
) -> Result<(), Failure> {
    write(bus, chip, register, value).await?;
    let found = read_byte(bus, chip, register).await?;
    if found & mask == value & mask { Ok(()) } else { Err(Failure::Setting(chip, register)) }
}

async fn check_identity<B: I2c>(bus: &mut B, chip: Chip, register: u8, id: u8) -> Result<(), Failure> {
    let found = read_byte(bus, chip, register).await?;
    if found == id { Ok(()) } else { Err(Failure::Identity(chip, found)) }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Board, NoDelay, Waits, now};
    use super::*;

    #[test]
    fn a_healthy_chip_starts_with_the_right_settings() {
        let mut board = Board::healthy();
        now(start_gyro(&mut board, &mut NoDelay)).unwrap();
        now(start_accelerometer(&mut board, &mut NoDelay)).unwrap();
        for (register, value) in [(0x0F, 0x00), (0x10, 0x82), (0x15, 0x80), (0x18, 0x01), (0x11, 0x00)] {
            assert_eq!(board.register(Chip::Gyroscope, register), value, "{register:#x}");
        }
        assert_eq!(board.register(Chip::Gyroscope, 0x16) & 0b11, 0b01);
        for (register, value) in [(0x40, 0x8C), (0x41, 0x03), (0x6D, 0x00), (0x7C, 0x00), (0x7D, 0x04)] {
            assert_eq!(board.register(Chip::Accelerometer, register), value, "{register:#x}");
        }
    }

    #[test]
    fn counts_have_units() {
        let mut board = Board::healthy();
        board.set_axes(Chip::Gyroscope, 0x02, [16384, -16384, 0]);
        board.set_axes(Chip::Accelerometer, 0x12, [0, 0, 1365]);
        let rate = now(read_gyro(&mut board)).unwrap().angular_velocity();
        // Half of the range is 1000 °/s.
        assert!((rate.x - 17.453_29).abs() < 1e-4 && (rate.y + 17.453_29).abs() < 1e-4);
        let force = now(read_accelerometer(&mut board)).unwrap().specific_force();
        assert!((force.z - 9.81).abs() < 0.01, "{force:?}");
    }

    #[test]
    fn doubtful_rates_and_pushes_are_told_and_do_not_stop_the_start() {
        // Both places of the bit that calls the rates plausible, and none.
        for (status, plausible) in [(0b1_0010, true), (0b0_1010, true), (0b0_0010, false)] {
            let mut board = Board::healthy();
            board.fix(Chip::Gyroscope, 0x3C, status);
            assert_eq!(now(start_gyro(&mut board, &mut NoDelay)), Ok(plausible), "{status:b}");
        }
        // Each axis of the accelerometer for itself: far enough whichever way, and not far enough.
        for axis in 0..3 {
            for (counts, moves) in [(900, true), (-900, true), (300, false), (0, false)] {
                let mut board = Board::healthy();
                board.push[axis] = counts;
                let outcome = now(start_accelerometer(&mut board, &mut NoDelay));
                assert_eq!(outcome, Ok(moves), "axis {axis}, {counts}");
            }
        }
    }

    #[test]
    fn the_push_test_waits_as_long_as_the_vendor_does() {
        let mut waits = Waits::default();
        now(start_accelerometer(&mut Board::healthy(), &mut waits)).unwrap();
        assert!(waits.0.windows(3).any(|ms| ms == [20, 100, 100]), "{:?} ms", waits.0);
    }

    #[test]
    fn every_failure_has_its_reason() {
        let start = |change: fn(&mut Board)| {
            let mut board = Board::healthy();
            change(&mut board);
            let gyro = now(start_gyro(&mut board, &mut NoDelay)).map(drop);
            gyro.and(now(start_accelerometer(&mut board, &mut NoDelay)).map(drop))
        };
        assert_eq!(start(|_| ()), Ok(()));
        assert_eq!(start(|b| b.silence(Chip::Gyroscope)), Err(Failure::Silent(Chip::Gyroscope)));
        assert_eq!(start(|b| b.silence(Chip::Accelerometer)), Err(Failure::Silent(Chip::Accelerometer)));
        assert_eq!(
            start(|b| b.fix(Chip::Gyroscope, 0x00, 0x55)),
            Err(Failure::Identity(Chip::Gyroscope, 0x55))
        );
        assert_eq!(
            start(|b| b.fix(Chip::Accelerometer, 0x00, 0x00)),
            Err(Failure::Identity(Chip::Accelerometer, 0x00))
        );
        // Ready, but failed; never ready.
        for status in [0b1_0110, 0b1_0000] {
            let mut board = Board::healthy();
            board.fix(Chip::Gyroscope, 0x3C, status);
            let outcome = now(start_gyro(&mut board, &mut NoDelay));
            assert_eq!(outcome, Err(Failure::SelfTest(Chip::Gyroscope)), "{status:b}");
        }
        assert_eq!(
            start(|b| b.fix(Chip::Gyroscope, 0x10, 0x80)),
            Err(Failure::Setting(Chip::Gyroscope, 0x10))
        );
        assert_eq!(
            start(|b| b.fix(Chip::Accelerometer, 0x41, 0x01)),
            Err(Failure::Setting(Chip::Accelerometer, 0x41))
        );
    }
}
