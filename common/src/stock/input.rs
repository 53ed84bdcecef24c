//! What the official controllers read: measurements and set-point in the legacy conventions.

use super::bound;
use crate::math::{self, DEG_TO_RAD, RAD_TO_DEG};
use crate::{Quat, Reference, State, Vec3};

/// Largest magnitude let into a controller, in any unit: far outside of what a drone can meet, and
/// small enough that no product inside overflows.
const INPUT_LIMIT: f32 = 1e6;
/// Largest quaternion component let into a controller.
const QUATERNION_LIMIT: f32 = 2.0;

/// Roll, pitch and yaw in degrees, or their rates in degrees per second.
///
/// As an attitude the z-y-x Euler angles with pitch in the legacy sign: nose **up** is positive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attitude {
    /// About x, left side up.
    pub roll: f32,
    /// About y; the sign is said where it is used.
    pub pitch: f32,
    /// About z, counter-clockwise.
    pub yaw: f32,
}

impl Attitude {
    /// Legacy Euler angles of a body-to-world quaternion.
    #[must_use]
    pub fn from_quaternion(attitude: Quat) -> Self {
        let rpy = attitude.to_euler() * RAD_TO_DEG;
        Self { roll: rpy.x, pitch: -rpy.y, yaw: rpy.z }
    }

    /// The body-to-world quaternion of legacy Euler angles.
    #[must_use]
    pub fn to_quaternion(self) -> Quat {
        Quat::from_euler(Vec3::new(self.roll, -self.pitch, self.yaw) * DEG_TO_RAD)
    }

    fn bounded(self) -> Self {
        Self { roll: limited(self.roll), pitch: limited(self.pitch), yaw: limited(self.yaw) }
    }
}

/// What the estimator and the gyroscope say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sensed {
    /// Position in the world frame, m.
    pub position: Vec3,
    /// Velocity in the world frame, m/s.
    pub velocity: Vec3,
    /// Attitude in degrees, pitch in the legacy sign.
    pub attitude: Attitude,
    /// The same attitude as a quaternion, body to world, right-handed.
    pub quaternion: Quat,
    /// Angular velocity in the body frame, **deg/s**, right-handed (pitch not inverted).
    pub gyro: Vec3,
}

impl Sensed {
    /// From a state in the project's convention.
    #[must_use]
    pub fn from_state(state: &State) -> Self {
        Self {
            position: state.position,
            velocity: state.velocity,
            attitude: Attitude::from_quaternion(state.attitude),
            quaternion: state.attitude,
            gyro: state.rates * RAD_TO_DEG,
        }
    }

    /// Limited to numbers the controllers can compute with; NaN becomes 0.
    pub(super) fn bounded(&self) -> Self {
        Self {
            position: self.position.map(limited),
            velocity: self.velocity.map(limited),
            attitude: self.attitude.bounded(),
            quaternion: bounded_quaternion(self.quaternion),
            gyro: self.gyro.map(limited),
        }
    }
}

/// How one axis of a set-point is controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    #[default]
    Disabled,
    /// To a value.
    Absolute,
    /// To a rate of change.
    Velocity,
}

/// The modes of all axes of a set-point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Position or velocity along x.
    pub x: Mode,
    /// Position or velocity along y.
    pub y: Mode,
    /// Position or velocity along z; disabled means that the set-point's thrust is used.
    pub z: Mode,
    /// Roll angle or rate.
    pub roll: Mode,
    /// Pitch angle or rate.
    pub pitch: Mode,
    /// Yaw angle or rate.
    pub yaw: Mode,
    /// Attitude as a quaternion.
    pub quaternion: Mode,
}

impl Modes {
    /// Position and yaw absolute: what position commands and the high-level commander send.
    pub const POSITION: Self = Self {
        x: Mode::Absolute,
        y: Mode::Absolute,
        z: Mode::Absolute,
        roll: Mode::Disabled,
        pitch: Mode::Disabled,
        yaw: Mode::Absolute,
        quaternion: Mode::Disabled,
    };

    /// Roll and pitch angle, yaw rate and thrust: manual flight.
    pub const MANUAL: Self = Self {
        x: Mode::Disabled,
        y: Mode::Disabled,
        z: Mode::Disabled,
        roll: Mode::Absolute,
        pitch: Mode::Absolute,
        yaw: Mode::Velocity,
        quaternion: Mode::Disabled,
    };
}

/// Where the drone should be; which parts count is said by `modes`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Setpoint {
    /// Position in the world frame, m.
    pub position: Vec3,
    /// Velocity, m/s, in the world frame (or heading-aligned, see `velocity_in_heading`).
    pub velocity: Vec3,
    /// Acceleration in the world frame without gravity, m/s².
    pub acceleration: Vec3,
    /// Angles in degrees, pitch in the legacy sign, yaw in [−180, 180).
    pub attitude: Attitude,
    /// Rates in deg/s. Mellinger takes pitch right-handed, the PID in the legacy sign.
    pub attitude_rate: Attitude,
    /// Attitude, body to world, right-handed.
    pub quaternion: Quat,
    /// Thrust for `modes.z` disabled, per motor, full scale 65535.
    pub thrust: f32,
    /// The velocity is along the drone's heading, not the world's axes.
    pub velocity_in_heading: bool,
    /// Which parts count.
    pub modes: Modes,
}

impl Setpoint {
    /// Position and yaw control along a reference in the project's convention.
    #[must_use]
    pub fn from_reference(reference: &Reference) -> Self {
        let yaw = math::wrap_angle(reference.yaw) * RAD_TO_DEG;
        Self {
            position: reference.position,
            velocity: reference.velocity,
            acceleration: reference.acceleration,
            attitude: Attitude { yaw, ..Attitude::default() },
            attitude_rate: Attitude { yaw: reference.yaw_rate * RAD_TO_DEG, ..Attitude::default() },
            modes: Modes::POSITION,
            ..Self::default()
        }
    }

    /// Limited to numbers the controllers can compute with; NaN becomes 0.
    pub(super) fn bounded(&self) -> Self {
        Self {
            position: self.position.map(limited),
            velocity: self.velocity.map(limited),
            acceleration: self.acceleration.map(limited),
            attitude: self.attitude.bounded(),
            attitude_rate: self.attitude_rate.bounded(),
            quaternion: bounded_quaternion(self.quaternion),
            thrust: limited(self.thrust),
            ..*self
        }
    }

    /// Yaw of the quaternion, degrees.
    pub(super) fn quaternion_yaw(&self) -> f32 {
        self.quaternion.to_euler().z * RAD_TO_DEG
    }
}

fn limited(x: f32) -> f32 {
    bound(x, INPUT_LIMIT)
}

fn bounded_quaternion(q: Quat) -> Quat {
    let limited = |x| bound(x, QUATERNION_LIMIT);
    Quat::new(limited(q.w), limited(q.x), limited(q.y), limited(q.z))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitch_is_inverted_and_the_gyro_is_not() {
        let state = State {
            attitude: Quat::from_euler(Vec3::new(0.1, 0.2, 0.3)),
            rates: Vec3::new(1.0, 2.0, 3.0),
            ..State::default()
        };
        let sensed = Sensed::from_state(&state);
        assert!((sensed.attitude.roll - 5.729_578).abs() < 1e-4);
        assert!((sensed.attitude.pitch + 11.459_156).abs() < 1e-4);
        assert!((sensed.attitude.yaw - 17.188_734).abs() < 1e-4);
        assert!((sensed.gyro - Vec3::new(57.295_78, 114.591_56, 171.887_34)).norm() < 1e-4);
        let back = sensed.attitude.to_quaternion();
        assert!((back.y - state.attitude.y).abs() < 1e-6 && (back.w - state.attitude.w).abs() < 1e-6);
    }

    #[test]
    fn a_reference_becomes_a_position_set_point() {
        let reference =
            Reference { yaw: math::PI + 0.5, yaw_rate: 1.0, ..Reference::hover(Vec3::new(1.0, 2.0, 3.0)) };
        let setpoint = Setpoint::from_reference(&reference);
        assert_eq!(setpoint.modes, Modes::POSITION);
        assert_eq!(setpoint.position, reference.position);
        assert!((setpoint.attitude.yaw + 151.352_11).abs() < 1e-3);
        assert!((setpoint.attitude_rate.yaw - 57.295_78).abs() < 1e-4);
    }

    #[test]
    fn bounds_leave_ordinary_numbers_alone() {
        let sensed = Sensed { position: Vec3::new(-12.5, 0.1, 3.0), ..Sensed::default() };
        assert_eq!(sensed.bounded(), sensed);
        let odd = Sensed { gyro: Vec3::new(f32::NAN, f32::MAX, -1.0), ..sensed };
        assert_eq!(odd.bounded().gyro, Vec3::new(0.0, INPUT_LIMIT, -1.0));
    }
}
