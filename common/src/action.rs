//! Actions and motors: what a control law asks for, and what the four motors are told.

use crate::math;

/// Thrust of one motor at full command, N: the scale of every normalised thrust in the project
/// (the Crazyflie 2.1's full scale under battery compensation).
pub const MAX_MOTOR_THRUST_N: f32 = 0.12;

/// A control law's output: desired forces, normalised so that 1 is one motor's full thrust.
///
/// The signs are those of the paper's power distribution (the Crazyflie's legacy mixer): positive
/// roll lifts the left side (+x torque), positive pitch lifts the nose (−y torque), positive yaw
/// turns clockwise seen from above (−z torque).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Action<S = f32> {
    /// Collective thrust per motor, F_z.
    pub thrust: S,
    /// Roll force, F_r.
    pub roll: S,
    /// Pitch force, F_p.
    pub pitch: S,
    /// Yaw force, F_y.
    pub yaw: S,
}

impl<S> Action<S> {
    /// Components in the order F_z, F_r, F_p, F_y.
    pub fn into_array(self) -> [S; 4] {
        [self.thrust, self.roll, self.pitch, self.yaw]
    }

    /// From components in the order F_z, F_r, F_p, F_y.
    pub fn from_array([thrust, roll, pitch, yaw]: [S; 4]) -> Self {
        Self { thrust, roll, pitch, yaw }
    }
}

/// Motor commands in the order M1 (front right), M2 (back right), M3 (back left), M4 (front left).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Motors {
    /// Thrust of each motor in [0, 1] of [`MAX_MOTOR_THRUST_N`].
    pub thrust: [f32; 4],
    /// True when the action could not be given in full.
    pub saturated: bool,
}

impl Action {
    /// Euclidean length of the four components.
    #[must_use]
    pub fn norm(&self) -> f32 {
        let Self { thrust, roll, pitch, yaw } = *self;
        math::sqrt(thrust * thrust + roll * roll + pitch * pitch + yaw * yaw)
    }

    /// The paper's power distribution (appendix B) without any limit.
    #[must_use]
    pub fn distribute(&self) -> [f32; 4] {
        let (r, p) = (0.5 * self.roll, 0.5 * self.pitch);
        let (z, y) = (self.thrust, self.yaw);
        [z - r + p + y, z - r - p - y, z + r - p + y, z + r + p - y]
    }

    /// The action whose [`distribute`](Self::distribute) gives these four thrusts.
    #[must_use]
    pub fn from_motors([m1, m2, m3, m4]: [f32; 4]) -> Self {
        Self {
            thrust: 0.25 * (m1 + m2 + m3 + m4),
            roll: 0.5 * (m3 + m4 - m1 - m2),
            pitch: 0.5 * (m1 + m4 - m2 - m3),
            yaw: 0.25 * (m1 - m2 + m3 - m4),
        }
    }

    /// Motor commands with limits that keep the drone upright first: roll and pitch get all the
    /// authority there is, yaw what they leave, and the collective thrust gives way to both.
    ///
    /// Without thrust there is no authority either: the motors are off, as in the official firmware.
    #[inline]
    #[must_use]
    pub fn motors(&self) -> Motors {
        if self.thrust <= 0.0 || self.thrust.is_nan() {
            return Motors::default();
        }
        let asked = math::abs(self.roll) + math::abs(self.pitch);
        let scale = if asked > 1.0 { 1.0 / asked } else { 1.0 };
        let (r, p) = (0.5 * self.roll * scale, 0.5 * self.pitch * scale);
        let y = math::bound(self.yaw, 0.5 - (math::abs(r) + math::abs(p)));
        let spread = [p - r + y, -r - p - y, r - p + y, r + p - y];
        let (mut lowest, mut highest) = (0.0_f32, 0.0_f32);
        for s in spread {
            lowest = if s < lowest { s } else { lowest };
            highest = if s > highest { s } else { highest };
        }
        let collective = math::clamp(self.thrust, -lowest, 1.0 - highest);
        let saturated =
            asked > 1.0 || y.to_bits() != self.yaw.to_bits() || collective.to_bits() != self.thrust.to_bits();
        // The clamp takes off what rounding may leave beyond the ends.
        Motors { thrust: spread.map(|s| math::clamp(collective + s, 0.0, 1.0)), saturated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unsaturated_motors_follow_the_paper() {
        let action = Action { thrust: 0.55, roll: 0.1, pitch: -0.06, yaw: 0.02 };
        let motors = action.motors();
        assert!(!motors.saturated);
        for (a, b) in motors.thrust.iter().zip(action.distribute()) {
            assert!((a - b).abs() < 1e-6);
        }
    }

    #[test]
    fn an_action_comes_back_from_its_motors() {
        let action = Action { thrust: 0.55, roll: 0.1, pitch: -0.06, yaw: 0.02 };
        let back = Action::from_motors(action.distribute());
        for (a, b) in back.into_array().into_iter().zip(action.into_array()) {
            assert!((a - b).abs() < 1e-6, "{back:?}");
        }
    }

    #[test]
    fn no_thrust_means_motors_off() {
        for thrust in [0.0, -1.0, f32::NAN] {
            let action = Action { thrust, roll: 1.0, pitch: 1.0, yaw: 1.0 };
            assert_eq!(action.motors().thrust, [0.0; 4]);
        }
    }

    proptest! {
        #[test]
        fn motors_stay_in_range_and_tilt_torque_is_kept(
            thrust in 0.001_f32..2.0, roll in -0.5_f32..0.5, pitch in -0.5_f32..0.5, yaw in -2.0_f32..2.0,
        ) {
            let m = Action { thrust, roll, pitch, yaw }.motors();
            prop_assert!(m.thrust.iter().all(|t| (0.0..=1.0).contains(t)));
            let [m1, m2, m3, m4] = m.thrust;
            prop_assert!(((m3 + m4 - m1 - m2) - 2.0 * roll).abs() < 1e-5);
            prop_assert!(((m1 + m4 - m2 - m3) - 2.0 * pitch).abs() < 1e-5);
        }

        #[test]
        fn anything_gives_motors_in_range(a in prop::array::uniform4(prop::num::f32::ANY)) {
            let m = Action::from_array(a).motors();
            prop_assert!(m.thrust.iter().all(|t| (0.0..=1.0).contains(t)), "{m:?}");
        }
    }
}
