//! The stock Mellinger controller (after Mellinger and Kumar, ICRA 2011, with integral terms).
//!
//! It runs at 500 Hz. Position errors make a desired force; the force along the body z axis is the
//! thrust, its direction and the yaw are the desired attitude; attitude and rate errors make the
//! three moments. All of it is in PWM counts, see [`Command`].

use super::input::{Mode, Modes, Sensed, Setpoint};
use super::power::Command;
use super::{Attitude, bound};
use crate::math::{self, DEG_TO_RAD};
use crate::{GRAVITY_M_S2, Mat3, Quat, Vec3};

/// Time between two official steps, s (500 Hz).
pub const DT: f32 = 0.002;

/// Largest moment command, PWM counts.
const MOMENT_LIMIT: f32 = 32_000.0;
/// Largest component of the desired force, N; only there so that its square does not overflow.
const FORCE_LIMIT: f32 = 1e15;

/// The parameters of the official group `ctrlMel`, in its order and with its names.
#[expect(non_snake_case, reason = "the names a client of the drone sees")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Horizontal position gain, N/m.
    pub kp_xy: f32,
    /// Horizontal velocity gain, N s/m.
    pub kd_xy: f32,
    /// Horizontal integral gain, N/(m s).
    pub ki_xy: f32,
    /// Limit of the horizontal integrals, m s.
    pub i_range_xy: f32,
    /// Vertical position gain, N/m.
    pub kp_z: f32,
    /// Vertical velocity gain, N s/m.
    pub kd_z: f32,
    /// Vertical integral gain, N/(m s).
    pub ki_z: f32,
    /// Limit of the vertical integral, m s.
    pub i_range_z: f32,
    /// Mass, kg.
    pub mass: f32,
    /// Thrust counts per newton.
    pub massThrust: f32,
    /// Roll and pitch attitude gain, counts.
    pub kR_xy: f32,
    /// Yaw attitude gain, counts.
    pub kR_z: f32,
    /// Roll and pitch rate gain, counts per rad/s.
    pub kw_xy: f32,
    /// Yaw rate gain, counts per rad/s.
    pub kw_z: f32,
    /// Roll and pitch attitude integral gain, counts/s.
    pub ki_m_xy: f32,
    /// Yaw attitude integral gain, counts/s.
    pub ki_m_z: f32,
    /// Roll and pitch rate derivative gain, counts per rad/s².
    pub kd_omega_rp: f32,
    /// Limit of the roll and pitch attitude integrals, s.
    pub i_range_m_xy: f32,
    /// Limit of the yaw attitude integral, s.
    pub i_range_m_z: f32,
}

impl Params {
    /// The official defaults.
    pub const DEFAULT: Self = Self {
        kp_xy: 0.4,
        kd_xy: 0.2,
        ki_xy: 0.05,
        i_range_xy: 2.0,
        kp_z: 1.25,
        kd_z: 0.4,
        ki_z: 0.05,
        i_range_z: 0.4,
        mass: 0.029,
        massThrust: 132_000.0,
        kR_xy: 70_000.0,
        kR_z: 60_000.0,
        kw_xy: 20_000.0,
        kw_z: 12_000.0,
        ki_m_xy: 0.0,
        ki_m_z: 500.0,
        kd_omega_rp: 200.0,
        i_range_m_xy: 1.0,
        i_range_m_z: 1_500.0,
    };
}

impl Default for Params {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the controller remembers from step to step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Integrals of the position error, m s.
    pub position_integral: Vec3,
    /// Integrals of the attitude error (y in the legacy sign), s.
    pub attitude_integral: Vec3,
    /// Body rates of the step before, rad/s, y in the legacy sign.
    pub previous_rate: Vec3,
    /// Set-point rates of the step before, rad/s, right-handed.
    pub previous_setpoint_rate: Vec3,
}

impl Memory {
    /// Clears the integrals; the previous rates stay, as in the original.
    pub fn reset(&mut self) {
        self.position_integral = Vec3::ZERO;
        self.attitude_integral = Vec3::ZERO;
    }
}

/// Result of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Output {
    /// The command to the power distribution.
    pub command: Command,
    /// Desired body z axis in the world frame.
    pub desired_z: Vec3,
}

/// The controller: its parameters and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mellinger {
    /// Gains and limits.
    pub params: Params,
    /// Integrals and previous rates.
    pub memory: Memory,
}

impl Mellinger {
    /// A fresh controller.
    #[must_use]
    pub fn new(params: Params) -> Self {
        Self { params, memory: Memory::default() }
    }

    /// Clears the integrals.
    pub fn reset(&mut self) {
        self.memory.reset();
    }

    /// One step of `dt` seconds; the official firmware makes one every [`DT`].
    pub fn step(&mut self, setpoint: &Setpoint, sensed: &Sensed, dt: f32) -> Output {
        let (setpoint, sensed) = (setpoint.bounded(), sensed.bounded());
        let attitude = rotation(sensed.quaternion);

        let force = self.position_law(&setpoint, &sensed, dt);
        let (desired, thrust) = self.desired(&setpoint, &sensed, &attitude, force, dt);
        let moment = self.attitude_law(&setpoint, &sensed, &attitude, &desired, dt);

        let thrust = if setpoint.modes.z == Mode::Disabled { setpoint.thrust } else { thrust };
        // An infinite thrust cannot come from sane parameters; NaN means off.
        let thrust = bound(thrust, f32::MAX);
        let command = if thrust > 0.0 {
            let counts = |m: f32| bound(m, MOMENT_LIMIT) as i16;
            Command { thrust, roll: counts(moment.x), pitch: counts(moment.y), yaw: counts(-moment.z) }
        } else {
            self.memory.reset();
            Command { thrust, ..Command::default() }
        };
        Output { command, desired_z: desired.z }
    }

    /// Integrates the position error and returns the desired force, N, in the world frame.
    fn position_law(&mut self, setpoint: &Setpoint, sensed: &Sensed, dt: f32) -> Vec3 {
        let p = &self.params;
        let error = setpoint.position - sensed.position;
        let error_rate = setpoint.velocity - sensed.velocity;

        let sum = self.memory.position_integral + error * dt;
        let integral =
            Vec3::new(bound(sum.x, p.i_range_xy), bound(sum.y, p.i_range_xy), bound(sum.z, p.i_range_z));
        self.memory.position_integral = integral;

        // Without position control only the height is held.
        let tracking = setpoint.modes.x == Mode::Absolute;
        let vertical = if tracking { setpoint.acceleration.z + GRAVITY_M_S2 } else { GRAVITY_M_S2 };
        let horizontal = |a: f32, e: f32, de: f32, i: f32| {
            if tracking { p.mass * a + p.kp_xy * e + p.kd_xy * de + p.ki_xy * i } else { 0.0 }
        };
        Vec3::new(
            horizontal(setpoint.acceleration.x, error.x, error_rate.x, integral.x),
            horizontal(setpoint.acceleration.y, error.y, error_rate.y, integral.y),
            p.mass * vertical + p.kp_z * error.z + p.kd_z * error_rate.z + p.ki_z * integral.z,
        )
        .map(|f| bound(f, FORCE_LIMIT))
    }

    /// Desired attitude, and the thrust in counts that the force asks for.
    fn desired(
        &self,
        setpoint: &Setpoint,
        sensed: &Sensed,
        attitude: &Mat3,
        force: Vec3,
        dt: f32,
    ) -> (Mat3, f32) {
        let yaw = match setpoint.modes {
            Modes { yaw: Mode::Velocity, .. } => sensed.attitude.yaw + setpoint.attitude_rate.yaw * dt,
            Modes { yaw: Mode::Absolute, .. } => setpoint.attitude.yaw,
            Modes { quaternion: Mode::Absolute, .. } => setpoint.quaternion_yaw(),
            _ => 0.0,
        };
        let thrust = self.params.massThrust * force.dot(attitude.z);
        match setpoint.modes {
            Modes { x: Mode::Absolute, .. } => (facing(force, yaw), thrust),
            Modes { roll: Mode::Absolute, pitch: Mode::Absolute, z: Mode::Disabled, .. } => {
                let angles = Attitude { yaw, ..setpoint.attitude };
                (angles.to_quaternion().to_matrix(), thrust)
            }
            _ => (facing(force, sensed.attitude.yaw), thrust),
        }
    }

    /// Integrates the attitude error and returns the moment in counts, y in the legacy sign.
    fn attitude_law(
        &mut self,
        setpoint: &Setpoint,
        sensed: &Sensed,
        attitude: &Mat3,
        desired: &Mat3,
        dt: f32,
    ) -> Vec3 {
        let p = &self.params;
        let memory = &mut self.memory;

        // The antisymmetric part of RdᵀR − RᵀRd, without a half, y negated for the legacy pitch.
        let error = Vec3::new(
            desired.z.dot(attitude.y) - attitude.z.dot(desired.y),
            attitude.x.dot(desired.z) - desired.x.dot(attitude.z),
            desired.y.dot(attitude.x) - attitude.y.dot(desired.x),
        );

        let gyro = sensed.gyro * DEG_TO_RAD;
        let rate = Vec3::new(gyro.x, -gyro.y, gyro.z);
        let wanted = setpoint.attitude_rate;
        let setpoint_rate = Vec3::new(wanted.roll, wanted.pitch, wanted.yaw) * DEG_TO_RAD;
        let rate_error =
            Vec3::new(setpoint_rate.x - rate.x, -setpoint_rate.y - rate.y, setpoint_rate.z - rate.z);

        let change = rate - memory.previous_rate;
        let setpoint_change = setpoint_rate - memory.previous_setpoint_rate;
        let roll_acceleration = (setpoint_change.x - change.x) / dt;
        let pitch_acceleration = (-setpoint_change.y - change.y) / dt;
        memory.previous_rate = rate;
        memory.previous_setpoint_rate = setpoint_rate;

        let sum = memory.attitude_integral - error * dt;
        let integral = Vec3::new(
            bound(sum.x, p.i_range_m_xy),
            bound(sum.y, p.i_range_m_xy),
            bound(sum.z, p.i_range_m_z),
        );
        memory.attitude_integral = integral;

        let tilt =
            |e: f32, w: f32, i: f32, d: f32| -p.kR_xy * e + p.kw_xy * w + p.ki_m_xy * i + p.kd_omega_rp * d;
        Vec3::new(
            tilt(error.x, rate_error.x, integral.x, roll_acceleration),
            tilt(error.y, rate_error.y, integral.y, pitch_acceleration),
            -p.kR_z * error.z + p.kw_z * rate_error.z + p.ki_m_z * integral.z,
        )
    }
}

/// The attitude whose z axis is along a force and whose x axis points along a yaw angle (degrees).
///
/// Where the original divides by zero (no force, or one along the heading) this takes the upright
/// axis, or the level left axis, instead.
fn facing(force: Vec3, yaw: f32) -> Mat3 {
    let (sin, cos) = math::sin_cos(yaw * DEG_TO_RAD);
    let z = unit(force).unwrap_or(Vec3::Z);
    let y = unit(z.cross(Vec3::new(cos, sin, 0.0))).unwrap_or(Vec3::new(-sin, cos, 0.0));
    Mat3 { x: y.cross(z), y, z }
}

/// Rotation matrix of a unit quaternion, rounded as in the original.
fn rotation(q: Quat) -> Mat3 {
    let Quat { w, x, y, z } = q;
    Mat3 {
        x: Vec3::new(1.0 - 2.0 * y * y - 2.0 * z * z, 2.0 * x * y + 2.0 * z * w, 2.0 * x * z - 2.0 * y * w),
        y: Vec3::new(2.0 * x * y - 2.0 * z * w, 1.0 - 2.0 * x * x - 2.0 * z * z, 2.0 * y * z + 2.0 * x * w),
        z: Vec3::new(2.0 * x * z + 2.0 * y * w, 2.0 * y * z - 2.0 * x * w, 1.0 - 2.0 * x * x - 2.0 * y * y),
    }
}

/// The direction of a vector, if it has one.
fn unit(v: Vec3) -> Option<Vec3> {
    let norm = v.norm();
    (norm > f32::MIN_POSITIVE).then(|| v * (1.0 / norm))
}
