//! The sensor bus as the flight loop sees it: started with a verdict, then one sample per data-ready.

use embedded_hal_async::delay::DelayNs;
use embedded_hal_async::i2c::I2c;
use steady_common::estimator::Imu;

use super::bmi088::{self, Counts};
use super::bmp388::{self, AirReading, Calibration};
use super::{Chip, Doubts, Failure};

/// The barometer is read with every so many inertial samples: 50 Hz.
const BAROMETER_DIVIDER: u8 = 20;
/// Equal samples in a row that no living sensor gives: noise changes the last bits.
const STUCK_SAMPLES: u8 = 50;
/// Times the start is tried.
const ATTEMPTS: u8 = 3;

/// The chips, started. Without a barometer one can fly (motion capture gives the height).
#[derive(Clone, Copy, Debug)]
pub struct SensorChips {
    barometer: Result<Calibration, Failure>,
    until_barometer: u8,
    last: [Counts; 2],
    equal: [u8; 2],
    failures: u32,
    doubts: Doubts,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorSample {
    /// Angular velocity and specific force, as measured.
    pub imu: Imu,
    /// Pressure and temperature, when it was their turn.
    pub barometer: Option<AirReading>,
}

impl SensorChips {
    /// Starts all chips; a few attempts, because a chip may still be busy with its own start.
    pub async fn start<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<Self, Failure> {
        let mut outcome = Self::try_start(bus, delay).await;
        for _ in 1..ATTEMPTS {
            if outcome.is_ok() {
                break;
            }
            delay.delay_ms(100).await;
            outcome = Self::try_start(bus, delay).await;
        }
        outcome
    }

    async fn try_start<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<Self, Failure> {
        let moves = bmi088::start_accelerometer(bus, delay).await?;
        let plausible = bmi088::start_gyro(bus, delay).await?;
        let barometer = bmp388::start(bus, delay).await;
        Ok(Self {
            barometer,
            until_barometer: BAROMETER_DIVIDER,
            last: [Counts::default(); 2],
            equal: [0; 2],
            failures: 0,
            doubts: Doubts { gyro_rate: !plausible, accelerometer_push: !moves },
        })
    }

    /// Why there is no barometer, if there is none.
    #[must_use]
    pub fn barometer_failure(&self) -> Option<Failure> {
        self.barometer.err()
    }

    /// What the chips' own tests find doubtful.
    #[must_use]
    pub fn doubts(&self) -> Doubts {
        self.doubts
    }

    /// Samples that could not be read since the start.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Reads one sample.
    pub async fn read<B: I2c>(&mut self, bus: &mut B) -> Result<SensorSample, Failure> {
        let outcome = self.try_read(bus).await;
        if outcome.is_err() {
            self.failures = self.failures.saturating_add(1);
        }
        outcome
    }

    async fn try_read<B: I2c>(&mut self, bus: &mut B) -> Result<SensorSample, Failure> {
        let gyro = bmi088::read_gyro(bus).await?;
        let accelerometer = bmi088::read_accelerometer(bus).await?;
        self.check_alive(gyro, accelerometer)?;
        let imu = Imu { gyro: gyro.angular_velocity(), accelerometer: accelerometer.specific_force() };
        Ok(SensorSample { imu, barometer: self.barometer(bus).await })
    }

    /// The barometer when it is its turn. Its failure is no reason to lose an inertial sample.
    async fn barometer<B: I2c>(&mut self, bus: &mut B) -> Option<AirReading> {
        self.until_barometer = self.until_barometer.saturating_sub(1);
        let calibration = self.barometer.as_ref().ok()?;
        if self.until_barometer > 0 {
            return None;
        }
        self.until_barometer = BAROMETER_DIVIDER;
        bmp388::read(bus, calibration).await.ok()
    }

    fn check_alive(&mut self, gyro: Counts, accelerometer: Counts) -> Result<(), Failure> {
        let chips = [Chip::Gyroscope, Chip::Accelerometer];
        let pairs = self.last.iter_mut().zip(&mut self.equal).zip([gyro, accelerometer]).zip(chips);
        for (((last, equal), counts), chip) in pairs {
            *equal = if *last == counts { equal.saturating_add(1) } else { 0 };
            *last = counts;
            if *equal >= STUCK_SAMPLES {
                return Err(Failure::Stuck(chip));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Board, NoDelay, now};
    use super::*;

    fn live(board: &mut Board, i: i16) {
        board.set_axes(Chip::Gyroscope, 0x02, [i % 7, 3, -2]);
        board.set_axes(Chip::Accelerometer, 0x12, [i % 5, 0, 1365]);
    }

    #[test]
    fn barometer_comes_at_fifty_hertz() {
        let mut board = Board::healthy();
        let mut sensors = now(SensorChips::start(&mut board, &mut NoDelay)).unwrap();
        let mut readings = 0;
        for i in 0..1000 {
            live(&mut board, i);
            let sample = now(sensors.read(&mut board)).unwrap();
            assert!((sample.imu.accelerometer.z - 9.81).abs() < 0.01);
            readings += i32::from(sample.barometer.is_some());
        }
        assert_eq!((readings, sensors.failures()), (50, 0));
    }

    #[test]
    fn a_missing_barometer_does_not_stop_the_rest() {
        let mut board = Board::healthy();
        board.silence(Chip::Barometer);
        let mut sensors = now(SensorChips::start(&mut board, &mut NoDelay)).unwrap();
        assert_eq!(sensors.barometer_failure(), Some(Failure::Silent(Chip::Barometer)));
        for i in 0..100 {
            live(&mut board, i);
            assert_eq!(now(sensors.read(&mut board)).unwrap().barometer, None);
        }
    }

    #[test]
    fn a_bus_that_dies_is_told_and_counted_and_its_return_used() {
        let mut board = Board::healthy();
        let mut sensors = now(SensorChips::start(&mut board, &mut NoDelay)).unwrap();
        live(&mut board, 1);
        now(sensors.read(&mut board)).unwrap();
        board.silence(Chip::Gyroscope);
        for _ in 0..10 {
            assert_eq!(now(sensors.read(&mut board)), Err(Failure::Silent(Chip::Gyroscope)));
        }
        assert_eq!(sensors.failures(), 10);
        board.wake(Chip::Gyroscope);
        live(&mut board, 2);
        assert!(now(sensors.read(&mut board)).is_ok());
    }

    #[test]
    fn a_frozen_sensor_is_found() {
        let mut board = Board::healthy();
        let mut sensors = now(SensorChips::start(&mut board, &mut NoDelay)).unwrap();
        board.set_axes(Chip::Gyroscope, 0x02, [1, 2, 3]);
        let mut verdict = None;
        for i in 0..60 {
            board.set_axes(Chip::Accelerometer, 0x12, [i, 0, 1365]);
            verdict = now(sensors.read(&mut board)).err();
        }
        assert_eq!(verdict, Some(Failure::Stuck(Chip::Gyroscope)));
    }

    #[test]
    fn a_chip_that_answers_only_later_is_waited_for() {
        let mut board = Board::healthy();
        board.silence_for(2);
        assert!(now(SensorChips::start(&mut board, &mut NoDelay)).is_ok());
        board.silence_for(1000);
        let failure = now(SensorChips::start(&mut board, &mut NoDelay)).unwrap_err();
        assert_eq!(failure, Failure::Silent(Chip::Accelerometer));
    }
}
