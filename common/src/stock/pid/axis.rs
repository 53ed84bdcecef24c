//! One PID loop of the cascade.

use crate::stock::bound;

/// Half a turn in degrees.
const HALF_TURN: f32 = 180.0;
const TURN: f32 = 360.0;

/// Gains and limits of one loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gains {
    /// Proportional gain.
    pub kp: f32,
    /// Integral gain, per second.
    pub ki: f32,
    /// Derivative gain, seconds; acts on the measurement, not on the error.
    pub kd: f32,
    /// Feed-forward gain on the desired value.
    pub kff: f32,
    /// Limit of the integrated error; 0 means none.
    pub integral_limit: f32,
    /// Limit of the output; 0 means none. It does not stop the integral.
    pub output_limit: f32,
}

/// One loop: gains, and what it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pid {
    /// Gains and limits.
    pub gains: Gains,
    integral: f32,
    previous: f32,
}

impl Pid {
    /// A loop that has seen nothing yet.
    #[must_use]
    pub const fn new(gains: Gains) -> Self {
        Self { gains, integral: 0.0, previous: 0.0 }
    }

    /// Forgets the integral; the next derivative is taken from `measured`.
    pub fn reset(&mut self, measured: f32) {
        self.integral = 0.0;
        self.previous = measured;
    }

    /// One step of `dt` seconds.
    pub fn update(&mut self, desired: f32, measured: f32, dt: f32) -> f32 {
        self.advance(desired, desired - measured, self.previous - measured, measured, dt)
    }

    /// One step of `dt` seconds for an angle in degrees: differences go the short way round.
    pub fn update_angle(&mut self, desired: f32, measured: f32, dt: f32) -> f32 {
        let (error, change) = (wrap_degrees(desired - measured), wrap_degrees(self.previous - measured));
        self.advance(desired, error, change, measured, dt)
    }

    fn advance(&mut self, desired: f32, error: f32, change: f32, measured: f32, dt: f32) -> f32 {
        let gains = self.gains;
        self.integral = limit(self.integral + error * dt, gains.integral_limit);
        self.previous = measured;
        let output =
            gains.kp * error + gains.kd * (change / dt) + gains.ki * self.integral + gains.kff * desired;
        limit(output, gains.output_limit)
    }

    /// The integrated error.
    #[must_use]
    pub fn integral(&self) -> f32 {
        self.integral
    }
}

/// Limited to ±`limit`, or only to finite numbers when the limit is 0; NaN becomes 0.
fn limit(x: f32, limit: f32) -> f32 {
    bound(x, if limit > 0.0 { limit } else { f32::MAX })
}

/// An angle in degrees brought to [−180, 180]; both ends stay as they are.
pub(super) fn wrap_degrees(angle: f32) -> f32 {
    if (-HALF_TURN..=HALF_TURN).contains(&angle) {
        return angle;
    }
    let angle = angle % TURN;
    if angle > HALF_TURN {
        angle - TURN
    } else if angle < -HALF_TURN {
        angle + TURN
    } else {
        angle
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn the_integral_counts_in_the_step_that_updates_it() {
        let mut pid = Pid::new(Gains { ki: 2.0, ..Gains::default() });
        assert_eq!(pid.update(3.0, 1.0, 0.5), 2.0);
        assert_eq!(pid.update(3.0, 1.0, 0.5), 4.0);
    }

    #[test]
    fn limits_hold_and_the_output_limit_does_not_stop_the_integral() {
        let gains = Gains { ki: 1.0, integral_limit: 5.0, output_limit: 0.5, ..Gains::default() };
        let mut pid = Pid::new(gains);
        for _ in 0..100 {
            assert_eq!(pid.update(1.0, 0.0, 1.0), if pid.integral() > 0.0 { 0.5 } else { 0.0 });
        }
        assert_eq!(pid.integral(), 5.0);
    }

    #[test]
    fn the_derivative_sees_the_measurement_only() {
        let mut pid = Pid::new(Gains { kd: 1.0, ..Gains::default() });
        pid.reset(1.0);
        assert_eq!(pid.update(100.0, 1.0, 0.1), 0.0);
        assert!((pid.update(100.0, 1.5, 0.1) + 5.0).abs() < 1e-5);
    }

    #[test]
    fn angles_go_the_short_way() {
        let mut pid = Pid::new(Gains { kp: 1.0, ..Gains::default() });
        assert_eq!(pid.update_angle(-170.0, 170.0, 0.1), 20.0);
        assert_eq!(wrap_degrees(-180.0), -180.0);
        assert_eq!(wrap_degrees(180.0), 180.0);
        assert_eq!(wrap_degrees(540.0), 180.0);
        assert_eq!(wrap_degrees(-725.0), -5.0);
    }
}
