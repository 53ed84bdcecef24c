//! What the learner sees of a flight: the observation and the reward.

use crate::law::Memory;
use crate::{Action, Reference, Scalar, State};

/// Length of an observation.
pub const OBSERVATION_LEN: usize = 42;

/// Names of the observation's values, in order.
#[rustfmt::skip]
pub const OBSERVATION_NAMES: [&str; OBSERVATION_LEN] = [
    "error_x_m", "error_y_m", "error_z_m",
    "qw", "qx", "qy", "qz",
    "roll_rad", "pitch_rad", "yaw_rad",
    "error_vx_m_s", "error_vy_m_s", "error_vz_m_s",
    "rate_x_rad_s", "rate_y_rad_s", "rate_z_rad_s",
    "last_thrust", "last_roll", "last_pitch", "last_yaw",
    "i_position_x_m_s", "i_position_y_m_s", "i_position_z_m_s",
    "i_attitude_x_rad_s", "i_attitude_y_rad_s", "i_attitude_z_rad_s",
    "i_rate_x_rad", "i_rate_y_rad", "i_rate_z_rad",
    "d_position_x_m_s", "d_position_y_m_s", "d_position_z_m_s",
    "d_attitude_x_rad_s", "d_attitude_y_rad_s", "d_attitude_z_rad_s",
    "d_rate_x_rad_s2", "d_rate_y_rad_s2", "d_rate_z_rad_s2",
    "motor_1", "motor_2", "motor_3", "motor_4",
];

/// Where each part stands in the observation.
pub mod layout {
    use core::ops::Range;

    /// Position error, m.
    pub const POSITION: Range<usize> = 0..3;
    /// Attitude as a quaternion w, x, y, z.
    pub const QUATERNION: Range<usize> = 3..7;
    /// Attitude as roll, pitch and yaw, rad.
    pub const EULER: Range<usize> = 7..10;
    /// Velocity error, m/s.
    pub const VELOCITY: Range<usize> = 10..13;
    /// Body rates, rad/s.
    pub const RATES: Range<usize> = 13..16;
    /// The action of the step before.
    pub const LAST_ACTION: Range<usize> = 16..20;
    /// Integral of the position loop, m s.
    pub const INTEGRAL_POSITION: Range<usize> = 20..23;
    /// Integral of the attitude loop, rad s.
    pub const INTEGRAL_ATTITUDE: Range<usize> = 23..26;
    /// Integral of the rate loop, rad.
    pub const INTEGRAL_RATE: Range<usize> = 26..29;
    /// Derivative of the position loop, m/s.
    pub const DERIVATIVE_POSITION: Range<usize> = 29..32;
    /// Derivative of the attitude loop, rad/s.
    pub const DERIVATIVE_ATTITUDE: Range<usize> = 32..35;
    /// Derivative of the rate loop, rad/s².
    pub const DERIVATIVE_RATE: Range<usize> = 35..38;
    /// Normalised thrust of the motors.
    pub const MOTORS: Range<usize> = 38..42;
}

/// The 42 values of the paper's observation: errors, attitude, rates, the last action, the law's
/// integrals and differences, and the motors' normalised thrust.
#[must_use]
#[rustfmt::skip]
pub fn observe(
    state: &State,
    reference: &Reference,
    last_action: &Action,
    memory: &Memory,
    motors: &[f32; 4],
) -> [f32; OBSERVATION_LEN] {
    let q = state.attitude;
    let (e_p, e_v) = (state.position - reference.position, state.velocity - reference.velocity);
    let (rpy, w, u) = (q.to_euler(), state.rates, last_action);
    let (i, d) = (&memory.integral, &memory.derivative);
    let [m1, m2, m3, m4] = *motors;
    [
        e_p.x, e_p.y, e_p.z, q.w, q.x, q.y, q.z, rpy.x, rpy.y, rpy.z, e_v.x, e_v.y, e_v.z, w.x, w.y, w.z,
        u.thrust, u.roll, u.pitch, u.yaw,
        i.position.x, i.position.y, i.position.z,
        i.attitude.x, i.attitude.y, i.attitude.z,
        i.rate.x, i.rate.y, i.rate.z,
        d.position.x, d.position.y, d.position.z,
        d.attitude.x, d.attitude.y, d.attitude.z,
        d.rate.x, d.rate.y, d.rate.z,
        m1, m2, m3, m4,
    ]
}

/// The constant part of the reward, which the paper's table of results leaves out.
pub const REWARD_CONSTANT: f32 = 2.0;

/// Weights of the reward's costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RewardWeights {
    /// On the position error, 1/m.
    pub position: f32,
    /// On roll and pitch, 1/rad.
    pub tilt: f32,
    /// On the speed, s/m.
    pub velocity: f32,
    /// On the angular rate, s/rad.
    pub rate: f32,
    /// On the action.
    pub action: f32,
}

impl RewardWeights {
    /// The paper's.
    pub const PAPER: Self = Self { position: 2.5, tilt: 1.5, velocity: 0.05, rate: 0.05, action: 0.1 };
}

/// What the reward of a step looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RewardInputs<S> {
    /// Position error, m.
    pub position: [S; 3],
    /// Roll and pitch, rad.
    pub tilt: [S; 2],
    /// Velocity, m/s.
    pub velocity: [S; 3],
    /// Body rates, rad/s.
    pub rates: [S; 3],
    /// The action.
    pub action: [S; 4],
}

impl RewardInputs<f32> {
    /// Of a state, its reference and the action taken.
    #[must_use]
    pub fn new(state: &State, reference: &Reference, action: &Action) -> Self {
        let (e, v, w) = (state.position - reference.position, state.velocity, state.rates);
        let rpy = state.attitude.to_euler();
        Self {
            position: [e.x, e.y, e.z],
            tilt: [rpy.x, rpy.y],
            velocity: [v.x, v.y, v.z],
            rates: [w.x, w.y, w.z],
            action: action.into_array(),
        }
    }
}

impl<S: Scalar> RewardInputs<S> {
    /// The reward: 2 − 2.5‖p−r‖ − 1.5‖(roll, pitch)‖ − 0.05‖v‖ − 0.05‖ω‖ − 0.1‖u‖ with the paper's weights.
    ///
    /// `corner` is added under every norm's root, so that a derivative exists at zero; 0 is the reward itself.
    #[must_use]
    pub fn reward(&self, weights: &RewardWeights, corner: f32) -> S {
        S::from_f32(REWARD_CONSTANT)
            - norm(&self.position, corner) * weights.position
            - norm(&self.tilt, corner) * weights.tilt
            - norm(&self.velocity, corner) * weights.velocity
            - norm(&self.rates, corner) * weights.rate
            - norm(&self.action, corner) * weights.action
    }
}

fn norm<S: Scalar, const N: usize>(values: &[S; N], corner: f32) -> S {
    let sum = values.iter().fold(S::from_f32(0.0), |sum, v| sum + *v * *v);
    (sum + corner).sqrt()
}

/// Reward of one step; see [`RewardInputs::reward`].
#[must_use]
pub fn reward(weights: &RewardWeights, state: &State, reference: &Reference, action: &Action) -> f32 {
    RewardInputs::new(state, reference, action).reward(weights, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::PerLoop;
    use crate::{Quat, Vec3};

    #[test]
    fn every_value_stands_where_its_name_says() {
        let v = |a: f32| Vec3::new(a, a + 1.0, a + 2.0);
        let loops =
            |a: f32| PerLoop { position: v(a), velocity: v(900.0), attitude: v(a + 3.0), rate: v(a + 6.0) };
        let state = State {
            position: v(11.0),
            velocity: v(40.0),
            attitude: Quat::from_euler(Vec3::new(0.1, 0.2, 0.3)),
            rates: v(50.0),
        };
        let reference = Reference { position: v(1.0), velocity: v(10.0), ..Reference::default() };
        let memory = Memory { integral: loops(60.0), derivative: loops(70.0), ..Memory::default() };
        let action = Action { thrust: 1.0, roll: 2.0, pitch: 3.0, yaw: 4.0 };
        let obs = observe(&state, &reference, &action, &memory, &[80.0, 81.0, 82.0, 83.0]);
        let get = |name: &str| obs[OBSERVATION_NAMES.iter().position(|n| *n == name).unwrap()];
        let name = |range: core::ops::Range<usize>| OBSERVATION_NAMES[range.start];
        assert_eq!((name(layout::POSITION), name(layout::QUATERNION)), ("error_x_m", "qw"));
        assert_eq!((name(layout::EULER), name(layout::VELOCITY)), ("roll_rad", "error_vx_m_s"));
        assert_eq!((name(layout::RATES), name(layout::LAST_ACTION)), ("rate_x_rad_s", "last_thrust"));
        assert_eq!(name(layout::INTEGRAL_POSITION), "i_position_x_m_s");
        assert_eq!(name(layout::INTEGRAL_ATTITUDE), "i_attitude_x_rad_s");
        assert_eq!(name(layout::INTEGRAL_RATE), "i_rate_x_rad");
        assert_eq!(name(layout::DERIVATIVE_POSITION), "d_position_x_m_s");
        assert_eq!(name(layout::DERIVATIVE_ATTITUDE), "d_attitude_x_rad_s");
        assert_eq!((name(layout::DERIVATIVE_RATE), name(layout::MOTORS)), ("d_rate_x_rad_s2", "motor_1"));
        assert_eq!(layout::MOTORS.end, OBSERVATION_LEN);
        assert_eq!((get("error_x_m"), get("error_z_m"), get("error_vy_m_s")), (10.0, 10.0, 30.0));
        assert_eq!((get("qw"), get("qz")), (state.attitude.w, state.attitude.z));
        assert!((get("roll_rad") - 0.1).abs() < 1e-5 && (get("yaw_rad") - 0.3).abs() < 1e-5);
        assert_eq!((get("rate_y_rad_s"), get("last_yaw"), get("motor_4")), (51.0, 4.0, 83.0));
        assert_eq!(
            (get("i_position_x_m_s"), get("i_attitude_x_rad_s"), get("i_rate_z_rad")),
            (60.0, 63.0, 68.0)
        );
        assert_eq!(
            (get("d_position_x_m_s"), get("d_attitude_y_rad_s"), get("d_rate_z_rad_s2")),
            (70.0, 74.0, 78.0)
        );
    }

    #[test]
    fn reward_is_the_papers() {
        let state = State {
            position: Vec3::new(0.3, 0.0, 1.4),
            velocity: Vec3::new(0.0, 2.0, 0.0),
            attitude: Quat::from_euler(Vec3::new(0.3, 0.4, 1.0)),
            rates: Vec3::new(0.0, 0.0, -4.0),
        };
        let reference = Reference::hover(Vec3::new(0.0, 0.0, 1.0));
        let action = Action { thrust: 0.6, roll: 0.8, pitch: 0.0, yaw: 0.0 };
        let expected = 2.0 - 2.5 * 0.5 - 1.5 * 0.5 - 0.05 * 2.0 - 0.05 * 4.0 - 0.1;
        let got = reward(&RewardWeights::PAPER, &state, &reference, &action);
        assert!((got - expected).abs() < 1e-5, "{got}");
    }
}
