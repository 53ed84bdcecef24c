//! How well a world predicts flights, beside predictions that need no world.

use serde::Serialize;
use steady_common::{Quat, State, Vec3, math};
use steady_sim::{World, WorldError};

use crate::flight::{DT_S, Flight};
use crate::predict::{Predictor, starts};

/// Samples ahead at which predictions are compared: 10 ms, 0.1 s, 0.5 s.
pub const HORIZONS: [usize; 3] = [1, 10, 50];
/// A prediction starts every 50 ms.
const EVERY: usize = 5;

/// Sums of squared errors at one horizon.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    position: f64,
    velocity: f64,
    tilt: f64,
    rates: f64,
}

/// Errors at one horizon, root mean square over the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Time ahead, s.
    pub horizon_s: f32,
    /// Position, mm.
    pub position_mm: f64,
    /// Velocity, m/s.
    pub velocity_m_s: f64,
    /// Tilt, degrees.
    pub tilt_deg: f64,
    /// Rates about body x and y, rad/s.
    pub rates_rad_s: f64,
}

/// How well something predicts flights.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// What predicts.
    pub model: String,
    /// Predictions.
    pub windows: usize,
    /// Errors at [`HORIZONS`].
    pub errors: Vec<Errors>,
    /// Specific force along body z against the accelerometer, m/s²; only worlds predict it.
    pub vertical_force_m_s2: Option<f64>,
}

/// Errors that are being collected.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    windows: usize,
    sums: [Sums; HORIZONS.len()],
    force: f64,
    forces: usize,
}

impl Tally {
    fn add(&mut self, horizon: usize, predicted: &State, flown: &State) {
        let sums = &mut self.sums[horizon];
        let square = |v: Vec3| f64::from(v.dot(v));
        sums.position += square(predicted.position - flown.position);
        sums.velocity += square(predicted.velocity - flown.velocity);
        sums.tilt += f64::from(tilt_between(predicted.attitude, flown.attitude)).powi(2);
        let rates = predicted.rates - flown.rates;
        sums.rates += square(Vec3::new(rates.x, rates.y, 0.0));
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.windows += other.windows;
        self.force += other.force;
        self.forces += other.forces;
        for (a, b) in self.sums.iter_mut().zip(&other.sums) {
            a.position += b.position;
            a.velocity += b.velocity;
            a.tilt += b.tilt;
            a.rates += b.rates;
        }
        self
    }

    /// The root mean squares.
    pub fn score(&self, model: &str) -> Score {
        let rms = |sum: f64, count: usize| math::sqrt_f64(sum / count.max(1) as f64);
        let errors = self.sums.iter().zip(HORIZONS).map(|(sums, samples)| Errors {
            horizon_s: samples as f32 * DT_S,
            position_mm: 1e3 * rms(sums.position, self.windows),
            velocity_m_s: rms(sums.velocity, self.windows),
            tilt_deg: rms(sums.tilt, self.windows).to_degrees(),
            rates_rad_s: rms(sums.rates, self.windows),
        });
        Score {
            model: model.to_owned(),
            windows: self.windows,
            errors: errors.collect(),
            vertical_force_m_s2: (self.forces > 0).then(|| rms(self.force, self.forces)),
        }
    }
}

/// The angle between two attitudes' body z, rad.
pub(crate) fn tilt_between(a: Quat, b: Quat) -> f32 {
    let (a, b) = (a.to_matrix().z, b.to_matrix().z);
    math::atan2(a.cross(b).norm(), a.dot(b))
}

/// Errors of a world on a flight; with trims of the three seconds before each prediction if asked for.
///
/// # Errors
/// If the world is not valid.
pub fn world(world: &World, flight: &Flight, is_trimmed: bool) -> Result<Tally, WorldError> {
    Ok(prediction(&Predictor::new(world, flight)?, is_trimmed))
}

/// The same of a world with what its equations lack.
pub fn prediction(predictor: &Predictor<'_>, is_trimmed: bool) -> Tally {
    let flight = predictor.flight();
    let trims = if is_trimmed { predictor.trims() } else { Vec::new() };
    let mut tally = Tally::default();
    for start in starts(flight, EVERY) {
        let trim = trims.get(start).copied().unwrap_or_default();
        tally.windows += 1;
        predictor.fly(start, HORIZONS[2], trim, |i, state| {
            if let Some(horizon) = HORIZONS.iter().position(|h| start + h == i) {
                tally.add(horizon, state, &flight.samples[i].state);
            }
        });
    }
    for i in flight.take_off + 100..flight.landing.saturating_sub(150) {
        let sample = &flight.samples[i];
        if flight.has_accelerometer && !sample.has_gap {
            tally.forces += 1;
            let off = predictor.accelerations(i).1 - sample.acc_m_s2.z;
            tally.force += f64::from(off * off);
        }
    }
    tally
}

/// Error of the position over the time ahead, up to half a second: (s, mm), root mean square over all flights.
///
/// # Errors
/// If the world is not valid.
pub fn curve(world: &World, flights: &[Flight], is_trimmed: bool) -> Result<Vec<(f64, f64)>, WorldError> {
    let mut sums = [0.0_f64; HORIZONS[2] + 1];
    let mut windows = 0;
    for flight in flights {
        let predictor = Predictor::new(world, flight)?;
        let trims = if is_trimmed { predictor.trims() } else { Vec::new() };
        for start in starts(flight, EVERY) {
            windows += 1;
            predictor.fly(start, HORIZONS[2], trims.get(start).copied().unwrap_or_default(), |i, state| {
                let apart = state.position - flight.samples[i].state.position;
                sums[i - start] += f64::from(apart.dot(apart));
            });
        }
    }
    let rms = |sum: &f64| 1e3 * math::sqrt_f64(sum / f64::from(windows.max(1)));
    Ok(sums.iter().enumerate().map(|(i, sum)| (i as f64 * f64::from(DT_S), rms(sum))).collect())
}

/// A prediction that needs no world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Velocity, attitude and rates stay.
    Persistence,
    /// Velocity and rates stay, the attitude goes on turning.
    ConstantRate,
}

impl Baseline {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Persistence => "constant velocity, attitude held",
            Self::ConstantRate => "constant velocity and rate",
        }
    }

    /// Its errors on a flight.
    pub fn errors(self, flight: &Flight) -> Tally {
        let mut tally = Tally::default();
        for start in starts(flight, EVERY) {
            tally.windows += 1;
            let from = flight.samples[start].state;
            for (horizon, samples) in HORIZONS.into_iter().enumerate() {
                let ahead_s = samples as f32 * DT_S;
                let mut state = State { position: from.position + from.velocity * ahead_s, ..from };
                if self == Self::ConstantRate {
                    state.attitude = from.attitude.integrate_body_rate(from.rates, ahead_s);
                }
                tally.add(horizon, &state, &flight.samples[start + samples].state);
            }
        }
        tally
    }
}
