//! Flights from the official firmware's card logs: motors, gyroscope and accelerometer at up to 1 kHz.
//!
//! They tell how fast motors and body answer, which flights with motion capture hardly do. Position and attitude are
//! unknown, and so is the battery unless it was logged.

use steady_common::{Quat, State, Vec3, math};

use crate::flight::{DT_S, Flight, GRAVITY_M_S2, MIN_FLIGHT_S, RATE_HZ, Sample};
use crate::predict::starts;
use crate::recording::{BATTERY_V, MAX_FORCE_M_S2, MAX_PWM, MAX_RATE_RAD_S, MAX_ROW_DISTANCE_S};

/// Commands below this part of full power on average are a drone that stands or falls.
const FLYING_PART: f32 = 0.25;
/// The motors may be off for so long in a flight, samples.
const MAX_PAUSE: usize = 50;
/// Beyond this it hits something, m/s².
const MAX_FLYING_FORCE_M_S2: f32 = 30.0;
/// A battery under load in the middle of a flight, V: where it was not logged.
const TYPICAL_BATTERY_V: f32 = 3.45;
/// How far off that is.
const BATTERY_SPREAD_V: f32 = 0.2;
/// A drone whose pilot keeps it in place is level and at rest over such a time, s.
const REST_S: f32 = 2.0;
/// Where the drone is taken to be, m: away from the floor's effect.
const FREE_AIR_M: Vec3 = Vec3::new(0.0, 0.0, 10.0);

/// One record of a card's log.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time, s.
    pub time_s: f64,
    /// Accelerometer, m/s², body.
    pub acc_m_s2: Vec3,
    /// Gyroscope, rad/s, body.
    pub gyro_rad_s: Vec3,
    /// What the motors M1..M4 got, of 65535.
    pub pwm: [f32; 4],
    /// Battery, V, if it was logged.
    pub battery_v: Option<f32>,
}

impl Reading {
    fn is_plausible(&self) -> bool {
        let within = |v: Vec3, limit: f64| v.to_array().iter().all(|value| f64::from(value.abs()) <= limit);
        let [low, high] = BATTERY_V;
        self.time_s.is_finite()
            && within(self.acc_m_s2, MAX_FORCE_M_S2)
            && within(self.gyro_rad_s, MAX_RATE_RAD_S)
            && self.pwm.iter().all(|pwm| (0.0..=MAX_PWM).contains(&f64::from(*pwm)))
            && self.battery_v.is_none_or(|v| (low..=high).contains(&f64::from(v)))
    }
}

impl Flight {
    /// The flights in a card's readings, cut where the motors stand or time jumps. Implausible readings are left out,
    /// and flights too short, or with too few readings, to predict anything.
    #[must_use]
    pub fn from_card(name: &str, readings: &[Reading]) -> Vec<Self> {
        let plausible: Vec<Reading> = readings.iter().copied().filter(Reading::is_plausible).collect();
        let in_order = |a: &Reading, b: &Reading| (0.0..MAX_ROW_DISTANCE_S).contains(&(b.time_s - a.time_s));
        let mut flights: Vec<Self> = Vec::new();
        for piece in plausible.chunk_by(in_order) {
            let mut samples = samples(piece);
            reckon(&mut samples);
            for (begin, end) in flown(&samples) {
                let flight = Self {
                    name: format!("{name}, part {}", flights.len() + 1),
                    samples: samples[begin..end].to_vec(),
                    take_off: 100,
                    landing: end - begin - 1,
                    commands: Vec::new(),
                    mount_rad: Vec3::ZERO,
                    has_pose: false,
                    has_battery: piece.iter().all(|reading| reading.battery_v.is_some()),
                    has_accelerometer: true,
                    controller: None,
                };
                if !starts(&flight, 1).is_empty() {
                    flights.push(flight);
                }
            }
        }
        flights
    }

    /// The same with as much more battery as it could have had, if it was not logged.
    pub(crate) fn with_other_battery(&self) -> Self {
        let mut other = self.clone();
        if !self.has_battery {
            other.samples.iter_mut().for_each(|sample| sample.battery_v += BATTERY_SPREAD_V);
        }
        other
    }
}

/// Means of the readings around every sample; a sample without any is a gap.
fn samples(readings: &[Reading]) -> Vec<Sample> {
    let Some(first) = readings.first() else { return Vec::new() };
    let number = |reading: &Reading| ((reading.time_s - first.time_s) * RATE_HZ) as usize;
    let mut samples: Vec<Sample> = Vec::new();
    for around in readings.chunk_by(|a, b| number(a) == number(b)) {
        let part = 1.0 / around.len() as f32;
        let mut sample = Sample { battery_v: TYPICAL_BATTERY_V, ..Sample::default() };
        let mut rates = Vec3::ZERO;
        for reading in around {
            rates += reading.gyro_rad_s * part;
            sample.acc_m_s2 += reading.acc_m_s2 * part;
            sample.pwm.iter_mut().zip(reading.pwm).for_each(|(mean, pwm)| *mean += pwm * part);
        }
        sample.state = State { rates, ..State::at(FREE_AIR_M) };
        if let Some(volts) = around[0].battery_v {
            sample.battery_v = volts;
        }
        sample.has_gap = around.iter().any(|reading| reading.acc_m_s2.norm() > MAX_FLYING_FORCE_M_S2);
        let held = Sample { has_gap: true, ..samples.last().copied().unwrap_or(sample) };
        samples.resize(number(&around[0]), held);
        samples.push(sample);
    }
    samples
}

/// Tilt and velocity from the sensors alone, in a world that turns with the drone. What is constantly wrong with
/// them is in the trims.
fn reckon(samples: &mut [Sample]) {
    const PART: f32 = DT_S / REST_S;
    // The vertical in the body frame.
    let up = both_ways(samples, Vec3::Z, |before, i, dt_s| {
        let turned = before + before.cross(samples[i].state.rates) * dt_s;
        let drawn = turned + (Vec3::Z - turned) * PART;
        drawn * (1.0 / drawn.norm().max(0.1))
    });
    let velocity = both_ways(samples, Vec3::ZERO, |before, i, dt_s| {
        let acceleration = samples[i].acc_m_s2 - up[i] * GRAVITY_M_S2;
        (before + (acceleration + before.cross(samples[i].state.rates)) * dt_s) * (1.0 - PART)
    });
    for ((sample, up), velocity) in samples.iter_mut().zip(up).zip(velocity) {
        let axis = up.cross(Vec3::Z);
        let sine = axis.norm();
        let turn = if sine > 1e-6 { axis * (math::atan2(sine, up.z) / sine) } else { Vec3::ZERO };
        sample.state.attitude = Quat::IDENTITY.integrate_body_rate(turn, 1.0);
        sample.state.velocity = sample.state.attitude.to_matrix().apply(velocity);
    }
}

/// The mean of a pass forwards and one backwards in time, which are late and early by the same. Each starts anew at
/// gaps.
fn both_ways(samples: &[Sample], start: Vec3, step: impl Fn(Vec3, usize, f32) -> Vec3) -> Vec<Vec3> {
    let next = |value: &mut Vec3, i: usize, dt_s| {
        *value = if samples[i].has_gap { start } else { step(*value, i, dt_s) };
        Some(*value)
    };
    let forwards: Vec<Vec3> = (0..samples.len()).scan(start, |value, i| next(value, i, DT_S)).collect();
    let backwards: Vec<Vec3> =
        (0..samples.len()).rev().scan(start, |value, i| next(value, i, -DT_S)).collect();
    forwards.into_iter().zip(backwards.into_iter().rev()).map(|(ahead, back)| (ahead + back) * 0.5).collect()
}

/// First and one past the last sample of every flight that is long enough.
fn flown(samples: &[Sample]) -> Vec<(usize, usize)> {
    let drives = |s: &Sample| s.pwm.iter().sum::<f32>() > 4.0 * FLYING_PART * MAX_PWM as f32;
    let mut flights: Vec<(usize, usize)> = Vec::new();
    for (i, _) in samples.iter().enumerate().filter(|(_, s)| drives(s)) {
        match flights.last_mut() {
            Some((_, end)) if i <= *end + MAX_PAUSE => *end = i + 1,
            _ => flights.push((i, i + 1)),
        }
    }
    flights.retain(|(begin, end)| (end - begin) as f64 >= MIN_FLIGHT_S * RATE_HZ);
    flights
}
