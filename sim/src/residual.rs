//! What a world's equations lack: accelerations as a function of what the drone does, learned from flights.
//!
//! A layer of tanh units beside the inputs themselves, and a linear read-out. Here it is only computed; it is learned
//! elsewhere. Inputs beyond those of the flights count as the nearest ones seen, so that nothing is extrapolated.

use serde::{Deserialize, Serialize};
use steady_common::{State, Vec3, math};

use crate::params::Params;

/// Position and velocity in the world frame, body z in the world's x and y, rates, thrusts of M1..M4, time.
pub const INPUTS: usize = 16;
/// Acceleration in the world frame, m/s², and angular acceleration in the body frame, rad/s².
pub const OUTPUTS: usize = 6;
/// A residual is computed so many times a second and held in between: it changes slowly.
pub const RATE_HZ: u32 = 250;

/// Values of [`INPUTS`].
pub type Input = [f32; INPUTS];

/// Puts together what a residual depends on: state, thrusts as parts of the full one, and the time since the motors
/// began to turn, s.
#[must_use]
pub fn input(state: &State, thrust: [f32; 4], time_s: f32) -> Input {
    let (p, v, w) = (state.position, state.velocity, state.rates);
    let up = state.attitude.to_matrix().z;
    let [m1, m2, m3, m4] = thrust;
    [p.x, p.y, p.z, v.x, v.y, v.z, up.x, up.y, w.x, w.y, w.z, m1, m2, m3, m4, time_s]
}

/// Accelerations that a world's equations do not explain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unexplained {
    /// m/s², world frame.
    pub acceleration: Vec3,
    /// rad/s², body frame.
    pub angular: Vec3,
}

impl Unexplained {
    /// All of it in the order of [`OUTPUTS`].
    #[must_use]
    pub fn to_array(&self) -> [f32; OUTPUTS] {
        let (a, w) = (self.acceleration, self.angular);
        [a.x, a.y, a.z, w.x, w.y, w.z]
    }

    /// The force on the body, N in the world frame.
    pub(crate) fn push_n(&self, p: &Params) -> Vec3 {
        self.acceleration * p.mass_kg
    }

    /// Change of the rates in a physics step, rad/s in the body frame.
    pub(crate) fn turn_rad_s(&self, p: &Params) -> Vec3 {
        self.angular * p.dt_s
    }
}

/// The range of an input in the flights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lowest value that counts.
    pub low: f32,
    /// Highest value that counts.
    pub high: f32,
    /// What becomes 0.
    pub centre: f32,
    /// What becomes 1 per unit.
    pub per_unit: f32,
}

/// A tanh unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Of the normalised inputs.
    pub weights: Input,
    /// Added to their sum.
    pub bias: f32,
}

/// A learned residual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Of every input.
    pub ranges: [Range; INPUTS],
    /// The learned features.
    pub units: Vec<Unit>,
    /// For every output, weights of 1, the normalised inputs and the units.
    pub weights: [Vec<f32>; OUTPUTS],
}

impl Residual {
    /// Inputs in the units of the features.
    #[must_use]
    pub fn normalised(ranges: &[Range; INPUTS], input: &Input) -> Input {
        std::array::from_fn(|i| {
            let Range { low, high, centre, per_unit } = ranges[i];
            (math::clamp(input[i], low, high) - centre) * per_unit
        })
    }

    /// What it says of an input.
    #[must_use]
    pub fn at(&self, input: &Input) -> Unexplained {
        let x = Self::normalised(&self.ranges, input);
        let mut out = [0.0; OUTPUTS];
        for (out, weights) in out.iter_mut().zip(&self.weights) {
            let Some((bias, linear)) = weights.split_first() else { continue };
            *out = linear.iter().zip(x).fold(*bias, |sum, (w, x)| sum + w * x);
        }
        for (number, unit) in self.units.iter().enumerate() {
            let feature = unit.at(&x);
            for (out, weights) in out.iter_mut().zip(&self.weights) {
                *out += weights.get(1 + INPUTS + number).copied().unwrap_or_default() * feature;
            }
        }
        let [ax, ay, az, x, y, z] = out;
        Unexplained { acceleration: Vec3::new(ax, ay, az), angular: Vec3::new(x, y, z) }
    }
}

impl Unit {
    /// Its value for normalised inputs.
    #[must_use]
    pub fn at(&self, x: &Input) -> f32 {
        libm::tanhf(self.weights.iter().zip(x).fold(self.bias, |sum, (w, x)| sum + w * x))
    }
}
