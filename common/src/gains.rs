//! The 24 gains of the differentiable Mellinger law: names, units, nominal values and bounds.
//!
//! One table, [`GAINS`], is the source of all of it: the drone refuses what the table refuses, the
//! trainer starts from its nominal values and stays inside its bounds, files and reports use its
//! names. Gains are continuous-time, so one set serves every control rate.

use crate::Dual;

/// Number of gains: four loops × (P, I, D) × (xy, z).
pub const GAIN_COUNT: usize = 24;

/// Identifies [`GAINS`]' bounds; changes whenever a bound does.
pub const BOUNDS_ID: u32 = 1;

/// A value for the x and y axes and one for z.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Axes<S = f32> {
    /// For x and y.
    pub xy: S,
    /// For z.
    pub z: S,
}

/// Gains of one PID loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loop<S = f32> {
    /// Proportional.
    pub p: Axes<S>,
    /// Integral, per second.
    pub i: Axes<S>,
    /// Derivative, seconds.
    pub d: Axes<S>,
}

/// All gains of the law. Position and velocity gains give newtons, attitude and rate gains give
/// normalised forces (1 = one motor's full thrust).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gains<S = f32> {
    /// On the position error, N/m.
    pub position: Loop<S>,
    /// On the velocity error, N/(m/s).
    pub velocity: Loop<S>,
    /// On the attitude error, 1/rad.
    pub attitude: Loop<S>,
    /// On the rate error, 1/(rad/s).
    pub rate: Loop<S>,
}

/// Description of one gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainInfo {
    /// Name in files and reports: loop, term, axis.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Where learning starts: the stock Mellinger's value where it has one.
    pub nominal: f32,
    /// Smallest value the drone accepts.
    pub min: f32,
    /// Largest value the drone accepts.
    pub max: f32,
}

const fn gain(name: &'static str, unit: &'static str, nominal: f32, down: f32, up: f32) -> GainInfo {
    GainInfo { name, unit, nominal, min: nominal / down, max: nominal * up }
}

/// The stock attitude gains act on PWM counts and on twice our attitude error.
const COUNTS: f32 = 65535.0;

/// Every gain, in the order of tables, files and the trainer's parameter vector.
///
/// Position, velocity, attitude P and rate P and D come from the stock Mellinger (facts of the
/// official firmware: kp, kd, ki, kR, kw, kd_omega). The terms it does not have start small: large
/// enough to learn from, too small to change the flight. The upper bounds of the fast loops are
/// tighter, because with real motors' lag they are what makes a drone oscillate.
#[rustfmt::skip]
pub const GAINS: [GainInfo; GAIN_COUNT] = [
    gain("position.p.xy", "N/m",        0.4,   8.0, 8.0),
    gain("position.p.z",  "N/m",        1.25,  8.0, 8.0),
    gain("position.i.xy", "N/(m s)",    0.05, 16.0, 16.0),
    gain("position.i.z",  "N/(m s)",    0.05, 16.0, 16.0),
    gain("position.d.xy", "N s/m",      0.02, 16.0, 16.0),
    gain("position.d.z",  "N s/m",      0.04, 16.0, 16.0),
    gain("velocity.p.xy", "N s/m",      0.2,   8.0, 8.0),
    gain("velocity.p.z",  "N s/m",      0.4,   8.0, 8.0),
    gain("velocity.i.xy", "N/m",        0.02, 16.0, 16.0),
    gain("velocity.i.z",  "N/m",        0.05, 16.0, 16.0),
    gain("velocity.d.xy", "N s2/m",     0.001, 16.0, 8.0),
    gain("velocity.d.z",  "N s2/m",     0.001, 16.0, 8.0),
    gain("attitude.p.xy", "1/rad",      2.0 * 70000.0 / COUNTS, 8.0, 4.0),
    gain("attitude.p.z",  "1/rad",      2.0 * 60000.0 / COUNTS, 8.0, 4.0),
    gain("attitude.i.xy", "1/(rad s)",  0.05, 16.0, 16.0),
    gain("attitude.i.z",  "1/(rad s)",  2.0 * 500.0 / COUNTS, 16.0, 16.0),
    gain("attitude.d.xy", "s/rad",      0.01, 16.0, 8.0),
    gain("attitude.d.z",  "s/rad",      0.01, 16.0, 8.0),
    gain("rate.p.xy",     "s/rad",      20000.0 / COUNTS, 8.0, 4.0),
    gain("rate.p.z",      "s/rad",      12000.0 / COUNTS, 8.0, 4.0),
    gain("rate.i.xy",     "1/rad",      0.02, 16.0, 16.0),
    gain("rate.i.z",      "1/rad",      0.01, 16.0, 16.0),
    gain("rate.d.xy",     "s2/rad",     200.0 / COUNTS, 16.0, 4.0),
    gain("rate.d.z",      "s2/rad",     0.0005, 16.0, 4.0),
];

impl<S: Copy> Loop<S> {
    const fn from_array([pxy, pz, ixy, iz, dxy, dz]: [S; 6]) -> Self {
        Self { p: Axes { xy: pxy, z: pz }, i: Axes { xy: ixy, z: iz }, d: Axes { xy: dxy, z: dz } }
    }

    const fn to_array(self) -> [S; 6] {
        [self.p.xy, self.p.z, self.i.xy, self.i.z, self.d.xy, self.d.z]
    }
}

impl Loop {
    /// The loop's gains as independent variables number `first` and up.
    pub(crate) fn variables<const N: usize>(&self, first: usize) -> Loop<Dual<f32, N>> {
        let [a, b, c, d, e, f] = self.to_array();
        let v = |value, index| Dual::variable(value, first + index);
        Loop::from_array([v(a, 0), v(b, 1), v(c, 2), v(d, 3), v(e, 4), v(f, 5)])
    }
}

impl<S: Copy> Gains<S> {
    /// From values in the order of [`GAINS`].
    #[rustfmt::skip]
    #[inline]
    pub const fn from_array(v: [S; GAIN_COUNT]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x] = v;
        Self {
            position: Loop::from_array([a, b, c, d, e, f]),
            velocity: Loop::from_array([g, h, i, j, k, l]),
            attitude: Loop::from_array([m, n, o, p, q, r]),
            rate: Loop::from_array([s, t, u, v, w, x]),
        }
    }

    /// Values in the order of [`GAINS`].
    #[rustfmt::skip]
    #[inline]
    pub const fn to_array(self) -> [S; GAIN_COUNT] {
        let [a, b, c, d, e, f] = self.position.to_array();
        let [g, h, i, j, k, l] = self.velocity.to_array();
        let [m, n, o, p, q, r] = self.attitude.to_array();
        let [s, t, u, v, w, x] = self.rate.to_array();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x]
    }
}

/// A gain outside its bounds, or NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfBounds {
    /// Index into [`GAINS`].
    pub index: usize,
    /// The refused value.
    pub value: f32,
}

impl Gains {
    /// The values learning starts from, and the drone's built-in gains.
    pub fn nominal() -> Self {
        Self::from_array(GAINS.map(|g| g.nominal))
    }

    /// Refuses the first gain outside its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        for (index, (value, info)) in self.to_array().into_iter().zip(&GAINS).enumerate() {
            if !(info.min..=info.max).contains(&value) {
                return Err(OutOfBounds { index, value });
            }
        }
        Ok(())
    }

    /// Every gain moved to the nearest value inside its bounds.
    pub fn bounded(&self) -> Self {
        let mut values = self.to_array();
        for (value, info) in values.iter_mut().zip(&GAINS) {
            *value = crate::math::clamp(*value, info.min, info.max);
        }
        Self::from_array(values)
    }
}

impl core::fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match GAINS.get(self.index) {
            Some(g) => {
                write!(f, "{} = {} {} is outside [{}, {}]", g.name, self.value, g.unit, g.min, g.max)
            }
            None => write!(f, "gain {} does not exist", self.index),
        }
    }
}

impl core::error::Error for OutOfBounds {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_round_trip() {
        let values: [f32; GAIN_COUNT] = core::array::from_fn(|i| i as f32);
        assert_eq!(Gains::from_array(values).to_array(), values);
        let gains = Gains::from_array(values);
        for (name, value) in [
            ("position.p.xy", gains.position.p.xy),
            ("velocity.i.z", gains.velocity.i.z),
            ("attitude.d.xy", gains.attitude.d.xy),
            ("rate.p.z", gains.rate.p.z),
        ] {
            let index = GAINS.iter().position(|g| g.name == name).unwrap();
            assert_eq!(value, index as f32, "{name}");
        }
    }

    #[test]
    fn nominal_gains_are_inside_their_bounds() {
        assert_eq!(Gains::nominal().check(), Ok(()));
        assert!(GAINS.iter().all(|g| g.min > 0.0 && g.min < g.max));
    }

    #[test]
    fn every_bound_is_enforced() {
        for index in 0..GAIN_COUNT {
            for bad in [GAINS[index].min * 0.99, GAINS[index].max * 1.01, f32::NAN, f32::INFINITY, -1.0] {
                let mut values = Gains::nominal().to_array();
                values[index] = bad;
                let error = Gains::from_array(values).check().unwrap_err();
                assert_eq!(error.index, index);
                assert!(Gains::from_array(values).bounded().check().is_ok());
            }
        }
    }
}
