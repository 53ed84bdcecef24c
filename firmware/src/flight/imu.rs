//! From raw inertial samples to what the estimator takes: low-pass filters, bias, scale.

use steady_common::GRAVITY_M_S2;
use steady_common::estimator::Imu;
use steady_common::{Vec3, math};

/// Rate of the samples, Hz.
const SAMPLE_HZ: f32 = 1000.0;
/// Cut-off of the gyroscope's filter, Hz.
const GYRO_CUTOFF_HZ: f32 = 80.0;
/// Cut-off of the accelerometer's filter, Hz.
const ACCELEROMETER_CUTOFF_HZ: f32 = 30.0;
/// By how much that delays what is slower than it, s.
pub const ACCELEROMETER_DELAY_S: f32 = core::f32::consts::SQRT_2 / (2.0 * math::PI * ACCELEROMETER_CUTOFF_HZ);

/// Samples looked at together when waiting for stillness; two such stretches must agree.
const STILL_SAMPLES: u16 = 512;
/// Largest variance of a still gyroscope, (rad/s)². Four times the official limit, because it is not
/// this noise that spoils the mean but motion, which the two stretches after each other give away.
const STILL_VARIANCE: f32 = 4.5e-4;
/// Largest difference between the means of two stretches, rad/s.
const STILL_DRIFT: f32 = 0.01;
/// Largest bias a BMI088 can have, rad/s (it is specified to ±1 °/s); more is motion.
const MAX_BIAS: f32 = 0.1;
/// Samples for the accelerometer's scale.
const SCALE_SAMPLES: u16 = 200;
/// Largest plausible error of the accelerometer's scale.
const MAX_SCALE_ERROR: f32 = 0.1;

/// A second-order Butterworth low-pass filter for a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowPass {
    b0: f32,
    b1: f32,
    b2: f32,
    a1: f32,
    a2: f32,
    delay: Option<[Vec3; 2]>,
}

impl LowPass {
    /// With a cut-off and a sample rate in Hz.
    #[must_use]
    pub fn new(cutoff_hz: f32, sample_hz: f32) -> Self {
        let (sin, cos) = math::sin_cos(math::PI * cutoff_hz / sample_hz);
        let omega = sin / cos;
        let root = core::f32::consts::SQRT_2 * omega;
        let c = 1.0 + root + omega * omega;
        let b0 = omega * omega / c;
        Self {
            b0,
            b1: 2.0 * b0,
            b2: b0,
            a1: 2.0 * (omega * omega - 1.0) / c,
            a2: (1.0 - root + omega * omega) / c,
            delay: None,
        }
    }

    /// The next sample. The first one is taken as what has always been.
    pub fn apply(&mut self, sample: Vec3) -> Vec3 {
        let settled = sample * (1.0 / (1.0 + self.a1 + self.a2));
        let [one, two] = self.delay.unwrap_or([settled; 2]);
        let now = sample - one * self.a1 - two * self.a2;
        self.delay = Some([now, one]);
        now * self.b0 + one * self.b1 + two * self.b2
    }
}

/// Sums of one stretch of samples, about the first of them to keep precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stretch {
    origin: Vec3,
    sum: Vec3,
    squares: Vec3,
    count: u16,
}

impl Stretch {
    const EMPTY: Self = Self { origin: Vec3::ZERO, sum: Vec3::ZERO, squares: Vec3::ZERO, count: 0 };

    fn add(&mut self, sample: Vec3) {
        if self.count == 0 {
            self.origin = sample;
        }
        let d = sample - self.origin;
        self.sum += d;
        self.squares += d.scale(d);
        self.count += 1;
    }

    /// The mean, if this is a whole stretch of a drone that was still; an outer `None` while it is not whole.
    fn still_mean(&self) -> Option<Option<Vec3>> {
        if self.count < STILL_SAMPLES {
            return None;
        }
        let (mean, variance) = self.statistics();
        Some((all(variance, STILL_VARIANCE) && all(mean, MAX_BIAS)).then_some(mean))
    }

    /// Mean and variance.
    fn statistics(&self) -> (Vec3, Vec3) {
        let part = 1.0 / f32::from(self.count.max(1));
        let mean = self.sum * part;
        (self.origin + mean, self.squares * part - mean.scale(mean))
    }
}

/// True when all components are smaller than a limit.
fn all(v: Vec3, limit: f32) -> bool {
    v.to_array().iter().all(|x| math::abs(*x) < limit)
}

/// How far calibration is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Waiting for the drone to be still: the stretch before, and the present one.
    Bias { before: Option<Vec3>, now: Stretch },
    /// The bias is known; looks at gravity.
    Scale { sum: f32, count: u16 },
    /// Calibrated. While the drone rests the bias is followed: it wanders, and without a heading from motion capture
    /// every bit of it turns the drone.
    Done { before: Option<Vec3>, now: Stretch },
}

impl Phase {
    const START: Self = Self::Bias { before: None, now: Stretch::EMPTY };
    const DONE: Self = Self::Done { before: None, now: Stretch::EMPTY };
}

/// How the accelerometer sits in the airframe, as somebody has found out by flying; from the EEPROM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trims {
    /// Trim of the roll, degrees.
    pub roll_deg: f32,
    /// Trim of the pitch, degrees.
    pub pitch_deg: f32,
}

/// Turns the accelerometer by the trims: about x by the roll, then about y by the pitch, with the official
/// firmware's signs. (There the smallest term of the second has another sign, which makes it no rotation.)
#[derive(Clone, Copy, Debug, PartialEq)]
struct Alignment {
    sin_roll: f32,
    cos_roll: f32,
    sin_pitch: f32,
    cos_pitch: f32,
}

impl Alignment {
    fn new(trims: Trims) -> Self {
        let (sin_roll, cos_roll) = math::sin_cos(trims.roll_deg / math::RAD_TO_DEG);
        let (sin_pitch, cos_pitch) = math::sin_cos(trims.pitch_deg / math::RAD_TO_DEG);
        Self { sin_roll, cos_roll, sin_pitch, cos_pitch }
    }

    fn apply(&self, v: Vec3) -> Vec3 {
        let y = v.y * self.cos_roll - v.z * self.sin_roll;
        let z = v.y * self.sin_roll + v.z * self.cos_roll;
        let x = v.x * self.cos_pitch - z * self.sin_pitch;
        Vec3::new(x, y, v.x * self.sin_pitch + z * self.cos_pitch)
    }
}

/// Samples over which vibration is measured.
const VIBRATION_SAMPLES: u16 = 256;

/// How much the drone shakes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vibration {
    now: Stretch,
}

impl Vibration {
    /// The next raw sample of the accelerometer; gives the variance when enough of them are there.
    pub fn update(&mut self, accelerometer: Vec3) -> Option<Vec3> {
        if !accelerometer.is_finite() {
            return None;
        }
        self.now.add(accelerometer);
        if self.now.count < VIBRATION_SAMPLES {
            return None;
        }
        let (_, variance) = core::mem::take(&mut self.now).statistics();
        Some(variance)
    }
}

/// Filters and calibrates the inertial samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditioner {
    gyro_filter: LowPass,
    accelerometer_filter: LowPass,
    /// `None` without trims, so that samples stay as they are.
    alignment: Option<Alignment>,
    phase: Phase,
    bias: Vec3,
    scale: f32,
}

impl Default for Conditioner {
    fn default() -> Self {
        Self {
            gyro_filter: LowPass::new(GYRO_CUTOFF_HZ, SAMPLE_HZ),
            accelerometer_filter: LowPass::new(ACCELEROMETER_CUTOFF_HZ, SAMPLE_HZ),
            alignment: None,
            phase: Phase::START,
            bias: Vec3::ZERO,
            scale: 1.0,
        }
    }
}

impl Conditioner {
    /// With the accelerometer turned by these trims.
    #[must_use]
    pub fn with_trims(trims: Trims) -> Self {
        let alignment = (trims != Trims::default()).then(|| Alignment::new(trims));
        Self { alignment, ..Self::default() }
    }

    /// True once bias and scale are known.
    #[must_use]
    pub fn is_calibrated(&self) -> bool {
        matches!(self.phase, Phase::Done { .. })
    }

    /// The gyroscope's bias, rad/s.
    #[must_use]
    pub fn bias(&self) -> Vec3 {
        self.bias
    }

    /// One raw sample in, one for the estimator out; `rests` says that the motors are off. A non-finite sample
    /// changes nothing and gives `None`.
    pub fn update(&mut self, raw: &Imu, rests: bool) -> Option<Imu> {
        if !raw.gyro.is_finite() || !raw.accelerometer.is_finite() {
            return None;
        }
        let gyro = self.gyro_filter.apply(raw.gyro);
        let aligned = self.alignment.map_or(raw.accelerometer, |turn| turn.apply(raw.accelerometer));
        let accelerometer = self.accelerometer_filter.apply(aligned);
        self.calibrate(gyro, accelerometer, rests);
        Some(Imu { gyro: gyro - self.bias, accelerometer: accelerometer * self.scale })
    }

    fn calibrate(&mut self, gyro: Vec3, accelerometer: Vec3, rests: bool) {
        match &mut self.phase {
            Phase::Bias { before, now } => {
                now.add(gyro);
                let Some(mean) = now.still_mean() else { return };
                self.phase = match (*before, mean) {
                    (Some(before), Some(mean)) if all(mean - before, STILL_DRIFT) => {
                        self.bias = (mean + before) * 0.5;
                        Phase::Scale { sum: 0.0, count: 0 }
                    }
                    (_, mean) => Phase::Bias { before: mean, now: Stretch::EMPTY },
                };
            }
            Phase::Scale { sum, count } => {
                *sum += accelerometer.norm();
                *count += 1;
                if *count < SCALE_SAMPLES {
                    return;
                }
                let scale = GRAVITY_M_S2 * f32::from(*count) / *sum;
                // Otherwise the drone was moved (or the sensor is broken): start over.
                self.phase = if math::abs(scale - 1.0) < MAX_SCALE_ERROR {
                    self.scale = scale;
                    Phase::DONE
                } else {
                    Phase::START
                };
            }
            Phase::Done { .. } if !rests => self.phase = Phase::DONE,
            Phase::Done { before, now } => {
                now.add(gyro);
                let Some(mean) = now.still_mean() else { return };
                // What is far from the bias so far is somebody who turns the drone.
                if let (Some(before), Some(mean)) = (*before, mean)
                    && all(mean - before, STILL_DRIFT)
                    && all(mean - self.bias, STILL_DRIFT)
                {
                    self.bias = (mean + before) * 0.5;
                }
                self.phase = Phase::Done { before: mean, now: Stretch::EMPTY };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Amplitude that a filter leaves of a sine.
    fn gain(cutoff: f32, frequency: f32) -> f32 {
        let mut filter = LowPass::new(cutoff, 1000.0);
        (0..4000)
            .map(|i| {
                let x = (std::f32::consts::TAU * frequency * i as f32 / 1000.0).sin();
                (i, filter.apply(Vec3::new(x, 0.0, 1.0)))
            })
            .filter(|(i, _)| *i > 2000)
            .fold(0.0, |most: f32, (_, v)| most.max(v.x.abs()))
    }

    #[test]
    fn the_filter_passes_slow_and_stops_fast_motion() {
        assert!((gain(80.0, 2.0) - 1.0).abs() < 0.01);
        assert!((gain(80.0, 80.0) - 0.707).abs() < 0.01);
        assert!(gain(80.0, 320.0) < 0.05);
        let mut filter = LowPass::new(30.0, 1000.0);
        for _ in 0..10 {
            assert!((filter.apply(Vec3::Z * 9.81) - Vec3::Z * 9.81).norm() < 1e-3, "starts settled");
        }
    }

    fn still(bias: Vec3, g: f32) -> Imu {
        Imu { gyro: bias, accelerometer: Vec3::Z * g }
    }

    #[test]
    fn bias_and_scale_are_found_in_stillness_only() {
        let bias = Vec3::new(0.01, -0.02, 0.005);
        let mut c = Conditioner::default();
        // Shaken for five seconds: no calibration.
        for i in 0..5000 {
            let shake = 0.3 * (i as f32 * 0.05).sin();
            c.update(&Imu { gyro: bias + Vec3::new(shake, 0.0, 0.0), accelerometer: Vec3::Z * 9.81 }, true);
        }
        assert!(!c.is_calibrated());
        // Carried about, hardly turning: neither.
        for i in 0..5000 {
            let sway = 0.05 * (i as f32 * 0.002).sin();
            c.update(&Imu { gyro: bias + Vec3::new(0.0, sway, 0.0), accelerometer: Vec3::Z * 9.81 }, true);
        }
        assert!(!c.is_calibrated());
        // Turned steadily: neither.
        for _ in 0..5000 {
            c.update(&still(Vec3::new(0.0, 0.0, 0.5), 9.81), true);
        }
        assert!(!c.is_calibrated());
        let mut last = None;
        for _ in 0..3500 {
            last = c.update(&still(bias, 9.6), true);
        }
        assert!(c.is_calibrated());
        let last = last.unwrap();
        assert!(last.gyro.norm() < 1e-5, "{last:?}");
        assert!((last.accelerometer.z - GRAVITY_M_S2).abs() < 1e-3, "{last:?}");
    }

    #[test]
    fn nonsense_is_not_taken() {
        let mut c = Conditioner::default();
        for _ in 0..5000 {
            c.update(&still(Vec3::ZERO, 2.0), true);
        }
        assert!(!c.is_calibrated(), "gravity is far from what it should be");
        assert_eq!(c.update(&still(Vec3::new(f32::NAN, 0.0, 0.0), 9.81), true), None);
        assert!(c.update(&still(Vec3::ZERO, 9.81), true).unwrap().gyro.is_finite());
    }

    #[test]
    fn the_bias_is_followed_at_rest_only() {
        let wandering = |i: i32| Vec3::new(0.0, 0.0, 0.01 + 0.02 * i as f32 / 60_000.0);
        for rests in [true, false] {
            let mut c = Conditioner::default();
            for i in 0..60_000 {
                c.update(&still(wandering(i), 9.81), rests);
            }
            let error = (c.bias() - wandering(60_000)).norm();
            assert!(if rests { error < 5e-4 } else { error > 0.015 }, "rests {rests}: {error} rad/s");
        }
        // Somebody turns the drone slowly and steadily: that is no bias.
        let mut c = Conditioner::default();
        for i in 0..20_000 {
            let rate = if i < 5000 { 0.01 } else { 0.05 };
            c.update(&still(Vec3::new(0.0, 0.0, rate), 9.81), true);
        }
        assert!((c.bias().z - 0.01).abs() < 1e-4, "{:?}", c.bias());
    }
}
