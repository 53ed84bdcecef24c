//! What is known of a drone before its flights.

use steady_sim::World;

use super::linear::Matrix;
use super::parameters::{COMMON_THRUST_SPREAD, COUNT, Effect, MOTORS, PARAMETERS, Point, Scale};

/// A value that a world leaves at 0 counts as this part of the typical one, where it is counted by its logarithm.
const NONE: f64 = 0.05;
/// Standard deviations about a simulator, in spreads between Crazyflies: its authors may have been wrong by more
/// than drones differ.
const WIDER: f64 = 4.0;
/// The widest of those of a logarithm.
const WIDEST_LOG: f64 = 1.0;
/// What is left out and counted by its logarithm is this part of the typical value: nothing that flights could tell.
const LEFT_OUT: f64 = 1e-6;
/// Precision of what is left out: no flight moves it.
const CERTAIN: f64 = 1e12;

/// A normal distribution of the parameters.
#[derive(Clone, Debug)]
pub struct Prior {
    pub(super) mean: Point,
    deviation: Point,
    pub(super) precision: Matrix,
    pub(super) is_left_out: [bool; COUNT],
}

impl Prior {
    /// A Crazyflie 2.1, with the spread between real ones.
    #[must_use]
    pub fn crazyflie() -> Self {
        Self::new([0.0; COUNT], std::array::from_fn(|i| PARAMETERS[i].deviation()))
    }

    /// A drone that a simulator is meant to be like: the world's own values, and much wider than drones differ.
    ///
    /// Flights with held noise are excitation flights, so the narrow priors that hold back a fit to a quiet closed
    /// loop are not needed.
    #[must_use]
    pub fn around(world: &World) -> Self {
        let mean = std::array::from_fn(|i| {
            let (parameter, value) = (&PARAMETERS[i], PARAMETERS[i].get(world));
            parameter.coordinate(match parameter.scale {
                Scale::Log => value.max(NONE * parameter.typical),
                Scale::Linear => value,
            })
        });
        let deviation = std::array::from_fn(|i| match PARAMETERS[i].scale {
            // What differs between the motors is as narrow as between real ones: with their common part it is enough.
            _ if i < MOTORS => PARAMETERS[i].deviation(),
            Scale::Log => (WIDER * PARAMETERS[i].deviation()).min(WIDEST_LOG),
            Scale::Linear => WIDER * PARAMETERS[i].deviation(),
        });
        Self::new(mean, deviation)
    }

    fn new(mean: Point, deviation: Point) -> Self {
        let mut covariance = Matrix::zero();
        for (i, deviation) in deviation.iter().enumerate() {
            covariance[(i, i)] = deviation.powi(2);
        }
        for i in 0..MOTORS {
            (0..MOTORS).for_each(|j| covariance[(i, j)] += COMMON_THRUST_SPREAD.powi(2));
        }
        // A diagonal and a square: positive definite.
        let precision = covariance.inverse().unwrap_or_else(Matrix::zero);
        Self { mean, deviation, precision, is_left_out: [false; COUNT] }
    }

    /// The same without some effects: the simulator does not have them, and the fit is not told of them.
    #[must_use]
    pub fn without(mut self, effects: &[Effect]) -> Self {
        for (i, parameter) in PARAMETERS.iter().enumerate() {
            if effects.iter().any(|effect| effect.has(parameter)) {
                self.is_left_out[i] = true;
                self.precision[(i, i)] = CERTAIN;
                self.mean[i] = match parameter.scale {
                    Scale::Log => LEFT_OUT.ln(),
                    Scale::Linear => parameter.coordinate(0.0),
                };
            }
        }
        self
    }

    /// Standard deviation of a parameter, in coordinates.
    pub(super) fn deviation(&self, i: usize) -> f64 {
        self.deviation[i].hypot(if i < MOTORS { COMMON_THRUST_SPREAD } else { 0.0 })
    }

    /// How far a point is from the mean.
    pub(super) fn offset(&self, point: &Point) -> Point {
        std::array::from_fn(|i| point[i] - self.mean[i])
    }
}
