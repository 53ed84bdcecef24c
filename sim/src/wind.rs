//! Air that moves: a mean wind, gusts about it, and jets.

use steady_common::{Vec3, math};

use crate::params::remaining;
use crate::rng::Rng;
use crate::world::{Jet, Wind};

/// Constants of the wind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindParams {
    /// Mean velocity of the air, world frame, m/s.
    velocity_m_s: Vec3,
    /// `None` in a steady wind.
    pub(crate) gusts: Option<GustParams>,
    jets: Vec<JetParams>,
}

/// Constants of the gusts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GustParams {
    std_m_s: f32,
    /// Part of a gust that is left after a step.
    remaining: f32,
    /// Spread of what a step adds, so that the spread stays what it is.
    added_std_m_s: f32,
}

/// Constants of a jet.
#[derive(Clone, Debug, PartialEq)]
struct JetParams {
    centre_m: Vec3,
    force_n: Vec3,
    /// -1/2 over the squared radius, 1/m².
    fall_off_per_m2: f32,
}

impl WindParams {
    /// `None` for still air.
    pub(crate) fn of(w: &Wind, dt_s: f32) -> Option<Self> {
        let left = remaining(dt_s, w.gust_tau_s);
        let gusts = (w.gust_std_m_s > 0.0).then(|| GustParams {
            std_m_s: w.gust_std_m_s,
            remaining: left,
            added_std_m_s: w.gust_std_m_s * math::sqrt(1.0 - left * left),
        });
        let jets = w.jets.iter().map(JetParams::new).collect();
        let wind = Self { velocity_m_s: Vec3::from(w.velocity_m_s), gusts, jets };
        let still = Self { velocity_m_s: Vec3::ZERO, gusts: None, jets: Vec::new() };
        (wind != still).then_some(wind)
    }

    /// Velocity relative to the air of a drone with a velocity, in a gust; world frame, m/s.
    #[inline]
    pub(crate) fn airspeed(&self, velocity_m_s: Vec3, gust_m_s: Vec3) -> Vec3 {
        velocity_m_s - self.velocity_m_s - gust_m_s
    }

    /// What the jets push at a place, world frame, N.
    pub(crate) fn jets_n(&self, position_m: Vec3) -> Vec3 {
        self.jets.iter().fold(Vec3::ZERO, |sum, jet| sum + jet.push_n(position_m))
    }
}

impl JetParams {
    fn new(jet: &Jet) -> Self {
        Self {
            centre_m: Vec3::from(jet.centre_m),
            force_n: Vec3::from(jet.force_n),
            fall_off_per_m2: -0.5 / (jet.radius_m * jet.radius_m),
        }
    }

    fn push_n(&self, position_m: Vec3) -> Vec3 {
        let away = position_m - self.centre_m;
        self.force_n * libm::expf(self.fall_off_per_m2 * away.dot(away))
    }
}

impl GustParams {
    /// A gust out of nowhere, m/s.
    pub(crate) fn first(&self, rng: &mut Rng) -> Vec3 {
        rng.normal_vec() * self.std_m_s
    }

    /// The gust a step later, m/s.
    pub(crate) fn next(&self, gust_m_s: Vec3, rng: &mut Rng) -> Vec3 {
        gust_m_s * self.remaining + rng.normal_vec() * self.added_std_m_s
    }
}
