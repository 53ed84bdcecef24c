//! The sensor bus: BMI088 gyroscope and accelerometer, BMP388 barometer, as registers.

use steady_common::Vec3;

use crate::chip::i2c::Slaves;

/// Standard gravity, m/s², which the accelerometer's units are defined by.
const G: f32 = 9.806_65;
/// Degrees in a radian.
const DEG: f32 = 57.295_78;

const GYRO: u8 = 0x69;
const ACCELEROMETER: u8 = 0x18;
const BAROMETER: u8 = 0x77;

/// Register files of the three devices and who is addressed.
#[derive(Clone, Debug)]
pub struct Sensors {
    gyro: [u8; 64],
    accelerometer: [u8; 128],
    barometer: [u8; 128],
    addressed: u8,
    register: u8,
    /// The next byte written is a register number.
    expects_register: bool,
    /// No chip answers or measures (a fault).
    pub is_dead: bool,
    /// Every transfer is acknowledged at its third attempt only (a fault).
    pub is_shy: bool,
    refusals: u8,
    /// How often the barometer does not say who it is when asked: the real one often needs to be asked again.
    pub barometer_silences: u32,
    /// The bits of the gyroscope's self-test register when the test is over.
    pub gyro_self_test: u8,
    /// How far the accelerometer's self-test moves its masses, g.
    pub push_g: Vec3,
}

impl Default for Sensors {
    fn default() -> Self {
        let mut sensors = Self {
            gyro: [0; 64],
            accelerometer: [0; 128],
            barometer: [0; 128],
            addressed: 0,
            register: 0,
            expects_register: false,
            is_dead: false,
            is_shy: false,
            refusals: 0,
            barometer_silences: 1,
            // Ready, not failed, rates plausible.
            gyro_self_test: 0x12,
            push_g: Vec3::new(0.7, 0.7, 0.4),
        };
        sensors.reset_gyro();
        sensors.reset_accelerometer();
        sensors.reset_barometer();
        sensors
    }
}

/// A measured value as the device's 16 bits, limited to what it can say.
fn counts(value: f32, per_count: f32) -> [u8; 2] {
    let counts = (value / per_count).round().clamp(f32::from(i16::MIN), f32::from(i16::MAX));
    (counts as i16).to_le_bytes()
}

impl Sensors {
    /// Power was lost.
    pub fn power_off(&mut self) {
        *self = Self {
            is_dead: self.is_dead,
            is_shy: self.is_shy,
            barometer_silences: self.barometer_silences,
            gyro_self_test: self.gyro_self_test,
            push_g: self.push_g,
            ..Self::default()
        };
    }

    fn reset_gyro(&mut self) {
        self.gyro = [0; 64];
        self.gyro[0x00] = 0x0F;
        self.gyro[0x10] = 0x80;
        self.gyro[0x16] = 0x0F;
    }

    fn reset_accelerometer(&mut self) {
        self.accelerometer = [0; 128];
        self.accelerometer[0x00] = 0x1E;
        self.accelerometer[0x40] = 0xA8;
        self.accelerometer[0x41] = 0x01;
        self.accelerometer[0x7C] = 0x03;
    }

    fn reset_barometer(&mut self) {
        self.barometer = [0; 128];
        self.barometer[0x00] = 0x50;
        self.barometer[0x03] = 0x10;
        self.barometer[0x1C] = 0x02;
        // Calibration with the two linear terms only, so that it can be inverted exactly:
        // t = (uT − 27000·2⁸)·18900/2³⁰, p = 20000·2³ + uP·(8192 − 16384)/2²⁰.
        let mut block = [0; 21];
        block[0..2].copy_from_slice(&27_000u16.to_le_bytes());
        block[2..4].copy_from_slice(&18_900u16.to_le_bytes());
        block[5..7].copy_from_slice(&8_192i16.to_le_bytes());
        block[7..9].copy_from_slice(&16_384i16.to_le_bytes());
        block[11..13].copy_from_slice(&20_000u16.to_le_bytes());
        self.barometer[0x31..0x46].copy_from_slice(&block);
    }

    /// True when a new gyroscope sample raises the interrupt pin.
    #[must_use]
    pub fn has_data_ready_pin(&self) -> bool {
        !self.is_dead && self.gyro[0x15] & 0x80 != 0 && self.gyro[0x18] & 1 != 0 && self.gyro[0x16] & 1 != 0
    }

    /// New angular velocity (rad/s) and specific force (m/s²), body frame.
    pub fn measure(&mut self, gyro_rad_s: Vec3, force_m_s2: Vec3) {
        if self.is_dead {
            return;
        }
        // Full scale 2000 °/s halved by every step of the range.
        let per_count = 4000.0 / 65536.0 / (1 << (self.gyro[0x0F] & 7).min(4)) as f32;
        if self.gyro[0x11] & 0xA0 == 0 {
            for (i, rate) in [gyro_rad_s.x, gyro_rad_s.y, gyro_rad_s.z].into_iter().enumerate() {
                self.gyro[2 + 2 * i..4 + 2 * i].copy_from_slice(&counts(rate * DEG, per_count));
            }
        }
        // Full scale 3 g doubled by every step of the range.
        let per_count = 6.0 / 65536.0 * (1 << (self.accelerometer[0x41] & 3)) as f32;
        if self.accelerometer[0x7D] == 0x04 && self.accelerometer[0x7C] == 0 {
            // The self-test pushes the masses electrically.
            let way = match self.accelerometer[0x6D] {
                0x0D => 1.0,
                0x09 => -1.0,
                _ => 0.0,
            };
            let felt = force_m_s2 + self.push_g * (way * G);
            for (i, force) in [felt.x, felt.y, felt.z].into_iter().enumerate() {
                self.accelerometer[0x12 + 2 * i..0x14 + 2 * i].copy_from_slice(&counts(force / G, per_count));
            }
            self.accelerometer[0x03] = 0x80;
        }
    }

    /// New air pressure, Pa, and temperature, °C.
    pub fn measure_air(&mut self, pressure_pa: f64, temperature_c: f64) {
        if self.is_dead || self.barometer[0x1B] & 0x30 != 0x30 {
            return;
        }
        let pressure =
            ((160_000.0 - pressure_pa) * (1 << 20) as f64 / 8192.0).clamp(0.0, 16_777_215.0) as u32;
        let temperature =
            (temperature_c * (1u64 << 30) as f64 / 18_900.0 + 6_912_000.0).clamp(0.0, 16_777_215.0) as u32;
        self.barometer[4..7].copy_from_slice(&pressure.to_le_bytes()[..3]);
        self.barometer[7..10].copy_from_slice(&temperature.to_le_bytes()[..3]);
        self.barometer[3] |= 0x60;
    }

    fn store(&mut self, byte: u8) {
        let register = usize::from(self.register);
        match self.addressed {
            GYRO => match (register, byte) {
                (0x14, 0xB6) => self.reset_gyro(),
                // The self-test is over at once.
                (0x3C, byte) if byte & 1 != 0 => self.gyro[0x3C] = self.gyro_self_test,
                // Bit 7 always reads as 1.
                (0x10, byte) => self.gyro[0x10] = byte | 0x80,
                (0x01..=0x07, _) => {}
                _ => {
                    if let Some(place) = self.gyro.get_mut(register) {
                        *place = byte;
                    }
                }
            },
            ACCELEROMETER => match (register, byte) {
                (0x7E, 0xB6) => self.reset_accelerometer(),
                (0x00..=0x3F, _) => {}
                _ => {
                    if let Some(place) = self.accelerometer.get_mut(register) {
                        *place = byte;
                    }
                }
            },
            _ => match (register, byte) {
                (0x7E, 0xB6) => self.reset_barometer(),
                (0x00..=0x0F | 0x31..=0x45, _) => {}
                _ => {
                    if let Some(place) = self.barometer.get_mut(register) {
                        *place = byte;
                    }
                }
            },
        }
    }
}

impl Slaves for Sensors {
    fn start(&mut self, address: u8, is_read: bool, _now: u64) -> bool {
        self.addressed = address;
        self.expects_register = true;
        if self.is_shy && !is_read {
            self.refusals = (self.refusals + 1) % 3;
            if self.refusals != 0 {
                return false;
            }
        }
        !self.is_dead && matches!(address, GYRO | ACCELEROMETER | BAROMETER)
    }

    fn write(&mut self, byte: u8, _now: u64) -> bool {
        if self.expects_register {
            self.register = byte;
            self.expects_register = false;
        } else {
            self.store(byte);
            // The barometer takes pairs of register and value; the others count on.
            self.expects_register = self.addressed == BAROMETER;
            if (self.addressed, self.register, byte) == (BAROMETER, 0x7E, 0xB6) {
                // It resets before it has acknowledged.
                return false;
            }
            self.register = self.register.wrapping_add(1);
        }
        true
    }

    fn read(&mut self, _now: u64) -> u8 {
        let register = usize::from(self.register);
        self.register = self.register.wrapping_add(1);
        let file: &[u8] = match self.addressed {
            GYRO => &self.gyro,
            ACCELEROMETER => &self.accelerometer,
            _ if register == 0 && self.barometer_silences > 0 => {
                self.barometer_silences -= 1;
                return 0;
            }
            _ => &self.barometer,
        };
        file.get(register).copied().unwrap_or(0)
    }

    fn stop(&mut self, _now: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const N: usize>(s: &mut Sensors, address: u8, register: u8) -> [u8; N] {
        assert!(s.start(address, false, 0));
        s.write(register, 0);
        s.start(address, true, 0);
        [(); N].map(|()| s.read(0))
    }

    fn write(s: &mut Sensors, address: u8, bytes: &[u8]) {
        s.start(address, false, 0);
        bytes.iter().for_each(|b| assert!(s.write(*b, 0)));
    }

    #[test]
    fn chips_identify_themselves() {
        let mut s = Sensors::default();
        assert_eq!(read(&mut s, GYRO, 0), [0x0F]);
        assert_eq!(read(&mut s, ACCELEROMETER, 0), [0x1E]);
        assert_eq!(read(&mut s, BAROMETER, 0), [0x00], "at the first time it says nothing");
        assert_eq!(read(&mut s, BAROMETER, 0), [0x50]);
        assert!(!s.start(0x50, false, 0));
    }

    #[test]
    fn measurements_have_the_documented_scales() {
        let mut s = Sensors::default();
        write(&mut s, ACCELEROMETER, &[0x7C, 0x00, 0x04]);
        write(&mut s, ACCELEROMETER, &[0x41, 3]);
        s.measure(Vec3::new(1.0, -1.0, 0.0), Vec3::new(0.0, 0.0, G));
        let [a, b, c, d, ..]: [u8; 6] = read(&mut s, GYRO, 2);
        let rate = f32::from(i16::from_le_bytes([a, b])) * 0.061_035_16;
        assert!((rate - DEG).abs() < 0.04, "{rate}");
        assert_eq!(i16::from_le_bytes([c, d]), -i16::from_le_bytes([a, b]));
        let bytes: [u8; 6] = read(&mut s, ACCELEROMETER, 0x12);
        let force = f32::from(i16::from_le_bytes([bytes[4], bytes[5]])) * 7.3242e-4;
        assert!((force - 1.0).abs() < 1e-3, "{force}");
    }

    #[test]
    fn pressure_goes_through_the_calibration_and_back() {
        let mut s = Sensors::default();
        write(&mut s, BAROMETER, &[0x1B, 0x33]);
        s.measure_air(101_325.0, 25.0);
        let d: [u8; 6] = read(&mut s, BAROMETER, 4);
        let raw = |b: &[u8]| f64::from(u32::from_le_bytes([b[0], b[1], b[2], 0]));
        let pressure = 20_000.0 * 8.0 + raw(&d[..3]) * (8192.0 - 16_384.0) / f64::from(1 << 20);
        let temperature = (raw(&d[3..]) - 27_000.0 * 256.0) * 18_900.0 / f64::from(1 << 30);
        assert!((pressure - 101_325.0).abs() < 0.02 && (temperature - 25.0).abs() < 1e-3);
    }

    #[test]
    fn a_burst_write_to_the_barometer_is_pairs() {
        let mut s = Sensors::default();
        write(&mut s, BAROMETER, &[0x1C, 0x03, 0x1D, 0x02, 0x1B, 0x33]);
        assert_eq!(read(&mut s, BAROMETER, 0x1B), [0x33, 0x03, 0x02]);
        assert!(s.start(BAROMETER, false, 0) && s.write(0x7E, 0));
        assert!(!s.write(0xB6, 0), "a reset is not acknowledged");
        assert_eq!(read(&mut s, BAROMETER, 0x1B), [0x00, 0x02, 0x00]);
    }

    #[test]
    fn the_data_ready_pin_needs_its_three_registers() {
        let mut s = Sensors::default();
        assert!(!s.has_data_ready_pin());
        write(&mut s, GYRO, &[0x16, 0x01]);
        write(&mut s, GYRO, &[0x15, 0x80]);
        write(&mut s, GYRO, &[0x18, 0x01]);
        assert!(s.has_data_ready_pin());
        write(&mut s, GYRO, &[0x14, 0xB6]);
        assert!(!s.has_data_ready_pin());
    }
}
