//! Power distribution: from a controller's command to four motors.
//!
//! Motors: M1 front right, M2 back right, M3 back left, M4 front left; full scale is 65535.

use super::battery::Propeller;
use crate::Vec3;

/// Full scale of a motor request and of the PWM.
pub const FULL_SCALE: u16 = u16::MAX;

/// Distance of a motor from the centre of the Crazyflie 2.x, m.
pub const ARM_LENGTH: f32 = 0.046;

/// A controller's output in the legacy units: PWM counts per motor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Command {
    /// Mean thrust; full scale 65535, not limited by every controller (may be negative or above).
    pub thrust: f32,
    /// Positive: right-handed torque about +x, left side up. Halved by the distribution.
    pub roll: i16,
    /// Positive: nose **up**, a negative torque about +y. Halved by the distribution.
    pub pitch: i16,
    /// Positive: **clockwise** seen from above, a negative torque about +z.
    pub yaw: i16,
}

impl Command {
    /// Distributes thrust and moments; halves and sums are truncated as in the original.
    #[must_use]
    pub fn distribute(self) -> MotorRequest {
        let (r, p) = (f32::from(self.roll / 2), f32::from(self.pitch / 2));
        let (t, y) = (self.thrust, f32::from(self.yaw));
        MotorRequest([t - r + p + y, t - r - p - y, t + r - p + y, t + r + p - y].map(|counts| counts as i32))
    }

    /// Thrust of each motor as a fraction of full scale, 0 to 1, after distribution and cap.
    #[must_use]
    pub fn motor_fractions(self) -> [f32; 4] {
        self.distribute().cap().fractions()
    }
}

/// What the distribution asks of the motors M1 to M4, in counts, before any limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MotorRequest(pub [i32; 4]);

impl MotorRequest {
    /// Distributes a total thrust (N) and a right-handed body torque (N m).
    ///
    /// Motors cannot pull down: negative forces become 0, one by one.
    #[must_use]
    pub fn from_force_torque(thrust: f32, torque: Vec3, propeller: &Propeller) -> Self {
        let arm = core::f32::consts::FRAC_1_SQRT_2 * ARM_LENGTH;
        let roll = 0.25 / arm * torque.x;
        let pitch = 0.25 / arm * torque.y;
        let each = 0.25 * thrust;
        let yaw = 0.25 * torque.z / propeller.thrust_to_torque;
        let forces = [
            each - roll - pitch - yaw,
            each - roll + pitch + yaw,
            each + roll + pitch - yaw,
            each + roll - pitch + yaw,
        ];
        Self(forces.map(|force| {
            let force = if force > 0.0 { force } else { 0.0 };
            (force / propeller.max_thrust * f32::from(FULL_SCALE)) as i32
        }))
    }

    /// Every request as the PWM that gives its thrust at a supply voltage (V), before the cap.
    #[must_use]
    pub fn compensated(self, propeller: &Propeller, supply: f32) -> Self {
        Self(self.0.map(|request| propeller.compensate(request, supply) as i32))
    }

    /// True when some motor is asked for more than it has.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.0.iter().any(|&request| request > i32::from(FULL_SCALE))
    }

    /// Limited to what motors can do: the excess of the largest request is taken off all four
    /// (thrust is given up, torque kept), then negative requests become 0.
    #[must_use]
    pub fn cap(self) -> MotorPwm {
        let full = i32::from(FULL_SCALE);
        let excess = self.0.iter().fold(0, |most, &request| most.max(request.saturating_sub(full)));
        MotorPwm(self.0.map(|request| request.saturating_sub(excess).clamp(0, full) as u16))
    }
}

/// Duty of the motors M1 to M4, full scale 65535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MotorPwm(pub [u16; 4]);

impl MotorPwm {
    /// As fractions of full scale, 0 to 1.
    #[must_use]
    pub fn fractions(self) -> [f32; 4] {
        self.0.map(|pwm| f32::from(pwm) / f32::from(FULL_SCALE))
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn halves_are_truncated_towards_zero() {
        let command = Command { thrust: 1000.9, roll: -3, pitch: 3, yaw: 10 };
        assert_eq!(command.distribute(), MotorRequest([1012, 990, 1008, 990]));
        assert_eq!(Command { thrust: -0.9, ..Command::default() }.distribute(), MotorRequest([0; 4]));
    }

    #[test]
    fn the_cap_keeps_torque_and_gives_up_thrust() {
        let request = MotorRequest([75_535, 60_000, 40_000, -5]);
        assert!(request.is_over());
        assert_eq!(request.cap(), MotorPwm([65_535, 50_000, 30_000, 0]));
        let fits = MotorRequest([65_535, 0, 1, -7]);
        assert!(!fits.is_over());
        assert_eq!(fits.cap(), MotorPwm([65_535, 0, 1, 0]));
        assert_eq!(MotorRequest([i32::MAX, i32::MIN, 0, i32::MAX]).cap(), MotorPwm([65_535, 0, 0, 65_535]));
    }

    #[test]
    fn fractions_span_zero_to_one() {
        let full = Command { thrust: 65_535.0, ..Command::default() };
        assert_eq!(full.motor_fractions(), [1.0; 4]);
        assert_eq!(Command { thrust: f32::MIN, ..full }.motor_fractions(), [0.0; 4]);
        assert_eq!(Command { thrust: f32::MAX, ..full }.motor_fractions(), [1.0; 4]);
    }

    #[test]
    fn torques_have_the_right_handed_signs() {
        let request = |torque| MotorRequest::from_force_torque(0.3, torque, &Propeller::CF21_PLUS).0;
        let [m1, m2, m3, m4] = request(Vec3::new(1e-4, 0.0, 0.0));
        assert!(m3 == m4 && m1 == m2 && m3 > m1, "left side up");
        let [m1, m2, m3, m4] = request(Vec3::new(0.0, 1e-4, 0.0));
        assert!(m2 == m3 && m1 == m4 && m2 > m1, "nose down");
        let [m1, m2, m3, m4] = request(Vec3::new(0.0, 0.0, 1e-5));
        assert!(m2 == m4 && m1 == m3 && m2 > m1, "counter-clockwise");
    }
}
