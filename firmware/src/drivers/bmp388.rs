//! BMP388 (or BMP390): air pressure and temperature at 50 Hz.

use embedded_hal_async::delay::DelayNs;
use embedded_hal_async::i2c::I2c;

use super::bmi088::{read_byte, reset, set};
use super::{Chip, Failure};

const CHIP: Chip = Chip::Barometer;

const CHIP_ID: u8 = 0x00;
const DATA: u8 = 0x04;
const POWER: u8 = 0x1B;
const OVERSAMPLING: u8 = 0x1C;
const DATA_RATE: u8 = 0x1D;
const CONFIGURATION: u8 = 0x1F;
const CALIBRATION: u8 = 0x31;
const COMMAND: u8 = 0x7E;

const ID_388: u8 = 0x50;
const ID_390: u8 = 0x60;

/// What the chip's factory wrote into it, as the polynomials' coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    t: [f64; 3],
    p: [f64; 11],
}

/// One reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AirReading {
    /// Pa.
    pub pressure: f32,
    /// °C.
    pub temperature: f32,
}

impl AirReading {
    /// Height above sea level on a standard day, m, by the official firmware's constants:
    /// ((1015.7 hPa / p)^0.190263 − 1) · 298.15 K / 0.0065 K/m.
    #[must_use]
    pub fn altitude_m(&self) -> f32 {
        let ratio = 101_570.0 / self.pressure;
        // ln(ratio) by the series of 2·artanh, exp by its own: the pressures people breathe in need few terms.
        let z = (ratio - 1.0) / (ratio + 1.0);
        let series = [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0];
        let logarithm = 2.0 * z * series.iter().fold(0.0, |sum, n: &f32| sum * (z * z) + 1.0 / n);
        let exponent = 0.190_263 * logarithm;
        let power = [5.0, 4.0, 3.0, 2.0, 1.0].iter().fold(1.0, |sum, n: &f32| 1.0 + sum * exponent / n);
        (power - 1.0) * (298.15 / 0.0065)
    }
}

/// Times the start is tried: the chip often does not come up at the first.
const ATTEMPTS: u8 = 4;

/// Starts the chip, which may take a few attempts.
pub async fn start<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<Calibration, Failure> {
    let mut outcome = try_start(bus, delay).await;
    for _ in 1..ATTEMPTS {
        if outcome.is_ok() {
            break;
        }
        delay.delay_ms(1).await;
        outcome = try_start(bus, delay).await;
    }
    outcome
}

/// Reset, identity, calibration, eight-fold oversampling at 50 Hz with a filter.
async fn try_start<B: I2c, D: DelayNs>(bus: &mut B, delay: &mut D) -> Result<Calibration, Failure> {
    reset(bus, CHIP, COMMAND).await;
    delay.delay_ms(10).await;
    let id = read_byte(bus, CHIP, CHIP_ID).await?;
    if id != ID_388 && id != ID_390 {
        return Err(Failure::Identity(CHIP, id));
    }
    let mut bytes = [0; 21];
    bus.write_read(CHIP.address(), &[CALIBRATION], &mut bytes).await.map_err(|_| Failure::Silent(CHIP))?;
    set(bus, CHIP, OVERSAMPLING, 0x03, 0x3F).await?;
    set(bus, CHIP, DATA_RATE, 0x02, 0x1F).await?;
    set(bus, CHIP, CONFIGURATION, 0x04, 0x0E).await?;
    set(bus, CHIP, POWER, 0x33, 0x33).await?;
    Ok(Calibration::decode(&bytes))
}

/// Reads pressure and temperature.
pub async fn read<B: I2c>(bus: &mut B, calibration: &Calibration) -> Result<AirReading, Failure> {
    let mut bytes = [0; 6];
    bus.write_read(CHIP.address(), &[DATA], &mut bytes).await.map_err(|_| Failure::Silent(CHIP))?;
    let [p0, p1, p2, t0, t1, t2] = bytes;
    let counts = |low, middle, high| f64::from(u32::from_le_bytes([low, middle, high, 0]));
    Ok(calibration.compensate(counts(p0, p1, p2), counts(t0, t1, t2)))
}

/// 2 to a power.
fn two_to(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

impl Calibration {
    /// Reads the 21 bytes of the chip's memory.
    #[must_use]
    pub fn decode(b: &[u8; 21]) -> Self {
        let [
            t1l,
            t1h,
            t2l,
            t2h,
            t3,
            p1l,
            p1h,
            p2l,
            p2h,
            p3,
            p4,
            p5l,
            p5h,
            p6l,
            p6h,
            p7,
            p8,
            p9l,
            p9h,
            p10,
            p11,
        ] = *b;
        let unsigned = |low, high| f64::from(u16::from_le_bytes([low, high]));
        let signed = |low, high| f64::from(i16::from_le_bytes([low, high]));
        let byte = |b: u8| f64::from(b.cast_signed());
        Self {
            t: [unsigned(t1l, t1h) * two_to(8), unsigned(t2l, t2h) * two_to(-30), byte(t3) * two_to(-48)],
            p: [
                (signed(p1l, p1h) - 16384.0) * two_to(-20),
                (signed(p2l, p2h) - 16384.0) * two_to(-29),
                byte(p3) * two_to(-32),
                byte(p4) * two_to(-37),
                unsigned(p5l, p5h) * two_to(3),
                unsigned(p6l, p6h) * two_to(-6),
                byte(p7) * two_to(-8),
                byte(p8) * two_to(-15),
                signed(p9l, p9h) * two_to(-48),
                byte(p10) * two_to(-48),
                byte(p11) * two_to(-65),
            ],
        }
    }

    /// The chip's compensation polynomials. In double precision, as single would lose centimetres of
    /// height; at 50 Hz that costs nothing.
    #[must_use]
    pub fn compensate(&self, pressure: f64, temperature: f64) -> AirReading {
        let [t1, t2, t3] = self.t;
        let [p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11] = self.p;
        let d = temperature - t1;
        let t = d * t2 + d * d * t3;
        let u = pressure;
        let pascal = p5
            + t * (p6 + t * (p7 + t * p8))
            + u * (p1 + t * (p2 + t * (p3 + t * p4)))
            + u * u * (p9 + t * p10)
            + u * u * u * p11;
        AirReading { pressure: pascal as f32, temperature: t as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Board, NoDelay, now};
    use super::*;

    /// A plausible calibration: coefficients like those of real chips.
    const BYTES: [u8; 21] = [
        0x52, 0x6B, 0x4B, 0x4A, 0xF9, 0x9A, 0xFF, 0xDB, 0xFC, 0x06, 0x01, 0x1E, 0x64, 0x4E, 0x78, 0xF3, 0xF6,
        0x9A, 0x41, 0x15, 0xC4,
    ];

    #[test]
    fn heights_are_those_of_the_formula() {
        extern crate std;
        for pressure in [108_000.0_f32, 101_325.0, 95_000.0, 80_000.0, 60_000.0] {
            let height = AirReading { pressure, temperature: 20.0 }.altitude_m();
            let formula = ((101_570.0 / pressure).powf(0.190_263_1) - 1.0) * 298.15 / 0.0065;
            assert!((height - formula).abs() < 0.1, "{pressure} Pa: {height} m, not {formula} m");
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        for (exponent, value) in [(0, 1.0), (8, 256.0), (-30, 1.0 / 1_073_741_824.0), (3, 8.0)] {
            assert_eq!(two_to(exponent).to_bits(), f64::to_bits(value));
        }
    }

    #[test]
    fn compensation_agrees_with_the_polynomials_written_out() {
        let c = Calibration::decode(&BYTES);
        let (up, ut) = (6_500_000.0, 8_400_000.0);
        // The reference formula with its divisors, term by term.
        let t1 = f64::from(0x6B52_u16) / 2_f64.powi(-8);
        let t2 = f64::from(0x4A4B_u16) / 2_f64.powi(30);
        let t3 = f64::from(-7_i8) / 2_f64.powi(48);
        let t = (ut - t1) * t2 + (ut - t1).powi(2) * t3;
        let p1 = (f64::from(-102_i16) - 16384.0) / 2_f64.powi(20);
        let p2 = (f64::from(-805_i16) - 16384.0) / 2_f64.powi(29);
        let (p3, p4) = (6.0 / 2_f64.powi(32), 1.0 / 2_f64.powi(37));
        let (p5, p6) = (f64::from(0x641E_u16) / 2_f64.powi(-3), f64::from(0x784E_u16) / 2_f64.powi(6));
        let (p7, p8) = (-13.0 / 2_f64.powi(8), -10.0 / 2_f64.powi(15));
        let (p9, p10, p11) =
            (f64::from(0x419A_u16) / 2_f64.powi(48), 21.0 / 2_f64.powi(48), -60.0 / 2_f64.powi(65));
        let p = p5
            + p6 * t
            + p7 * t.powi(2)
            + p8 * t.powi(3)
            + up * (p1 + p2 * t + p3 * t.powi(2) + p4 * t.powi(3))
            + up.powi(2) * (p9 + p10 * t)
            + up.powi(3) * p11;
        let got = c.compensate(up, ut);
        assert!((f64::from(got.temperature) - t).abs() < 1e-4, "{} {t}", got.temperature);
        assert!((f64::from(got.pressure) - p).abs() < 0.02, "{} {p}", got.pressure);
        assert!((20.0..30.0).contains(&t) && (50_000.0..150_000.0).contains(&p), "{t} {p}");
    }

    #[test]
    fn starts_and_reads() {
        let mut board = Board::healthy();
        board.set_bytes(CHIP, CALIBRATION, &BYTES);
        board.set_bytes(CHIP, DATA, &[0x20, 0x2E, 0x63, 0x40, 0x2C, 0x80]);
        let calibration = now(start(&mut board, &mut NoDelay)).unwrap();
        assert_eq!(calibration, Calibration::decode(&BYTES));
        let reading = now(read(&mut board, &calibration)).unwrap();
        assert_eq!(reading, calibration.compensate(6_500_000.0_f64 - 128.0, 8_399_936.0));
        assert_eq!(board.register(CHIP, 0x1B), 0x33);
    }

    #[test]
    fn the_barometer_is_tried_four_times() {
        // A start that fails takes two transfers: the reset, whose answer does not count, and the identity.
        for (silent, starts) in [(0, true), (6, true), (8, false)] {
            let mut board = Board::healthy();
            board.silence_for(silent);
            assert_eq!(now(start(&mut board, &mut NoDelay)).is_ok(), starts, "{silent} transfers lost");
        }
    }

    #[test]
    fn failures_have_reasons() {
        let mut board = Board::healthy();
        board.silence(CHIP);
        assert_eq!(now(start(&mut board, &mut NoDelay)), Err(Failure::Silent(CHIP)));
        let mut board = Board::healthy();
        board.fix(CHIP, 0x00, 0x58);
        assert_eq!(now(start(&mut board, &mut NoDelay)), Err(Failure::Identity(CHIP, 0x58)));
        let mut board = Board::healthy();
        board.fix(CHIP, 0x1D, 0x00);
        assert_eq!(now(start(&mut board, &mut NoDelay)), Err(Failure::Setting(CHIP, 0x1D)));
    }
}
