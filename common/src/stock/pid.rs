//! The built-in cascaded PID controller.
//!
//! Position to velocity to tilt and thrust at 100 Hz, in axes aligned with the drone's heading;
//! attitude to rate to command at 500 Hz. It is called on every 1 kHz tick and runs each loop when
//! the tick is a multiple of the loop's period; in between the command is held.
//!
//! The official low-pass filters on derivatives are left out: with the default settings they are
//! off or act on a derivative whose gain is 0.

mod axis;

pub use axis::{Gains, Pid};

use super::bound;
use super::input::{Attitude, Mode, Modes, Sensed, Setpoint};
use super::power::Command;
use crate::Vec3;
use crate::math;
use axis::wrap_degrees;

/// Ticks between two attitude and rate steps (500 Hz).
const ATTITUDE_TICKS: u32 = 2;
/// Ticks between two position and velocity steps (100 Hz).
const POSITION_TICKS: u32 = 10;
const ATTITUDE_DT: f32 = 0.002;
const POSITION_DT: f32 = 0.01;
/// Largest command, PWM counts.
const COMMAND_LIMIT: f32 = 32_767.0;
const MAX_THRUST: f32 = 65_535.0;
/// PWM counts per unit of the vertical velocity loop's output.
const THRUST_SCALE: f32 = 1_000.0;
const POSITION_INTEGRAL_LIMIT: f32 = 5_000.0;

/// Gains of all loops by axis, and the limits between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Position (m) to velocity (m/s); x and y along the heading.
    pub position: Vec3<Gains>,
    /// Velocity (m/s) to pitch and roll (degrees) and thrust (1000 counts).
    pub velocity: Vec3<Gains>,
    /// Roll, pitch, yaw (degrees) to rates (deg/s).
    pub attitude: Vec3<Gains>,
    /// Roll, pitch, yaw rates (deg/s) to commands (counts).
    pub rate: Vec3<Gains>,
    /// What is not a gain.
    pub limits: Limits,
}

/// Limits between the loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Largest desired roll and pitch, degrees.
    pub tilt: f32,
    /// Thrust that about hovers, counts.
    pub thrust_base: f32,
    /// Smallest thrust of the position control, counts.
    pub thrust_min: f32,
    /// How far a yaw rate may move the desired yaw away from the present one, degrees; 0: no limit.
    pub yaw_max_delta: f32,
}

impl Params {
    /// The official defaults for the Crazyflie 2.x.
    pub const DEFAULT: Self = Self {
        position: Vec3::new(outer(2.0, 0.0, 1.1), outer(2.0, 0.0, 1.1), outer(2.0, 0.5, 1.1)),
        velocity: Vec3::new(outer(25.0, 1.0, 22.0), outer(25.0, 1.0, 22.0), outer(25.0, 15.0, 32.767)),
        attitude: Vec3::new(
            inner(6.0, 3.0, 0.0, 20.0),
            inner(6.0, 3.0, 0.0, 20.0),
            inner(6.0, 1.0, 0.35, 360.0),
        ),
        rate: Vec3::new(
            inner(250.0, 500.0, 2.5, 33.3),
            inner(250.0, 500.0, 2.5, 33.3),
            inner(120.0, 16.7, 0.0, 166.7),
        ),
        limits: Limits { tilt: 20.0, thrust_base: 36_000.0, thrust_min: 20_000.0, yaw_max_delta: 0.0 },
    };
}

impl Default for Params {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Gains of a 100 Hz loop.
const fn outer(kp: f32, ki: f32, output_limit: f32) -> Gains {
    Gains { kp, ki, kd: 0.0, kff: 0.0, integral_limit: POSITION_INTEGRAL_LIMIT, output_limit }
}

/// Gains of a 500 Hz loop.
const fn inner(kp: f32, ki: f32, kd: f32, integral_limit: f32) -> Gains {
    Gains { kp, ki, kd, kff: 0.0, integral_limit, output_limit: 0.0 }
}

/// The controller: its loops, and what it wants at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CascadedPid {
    /// Position loops, x and y along the heading.
    pub position: Vec3<Pid>,
    /// Velocity loops, x and y along the heading.
    pub velocity: Vec3<Pid>,
    /// Attitude loops: roll, pitch, yaw.
    pub attitude: Vec3<Pid>,
    /// Rate loops: roll, pitch, yaw.
    pub rate: Vec3<Pid>,
    /// Limits between the loops.
    pub limits: Limits,
    modes: Modes,
    thrust: f32,
    desired_attitude: Attitude,
    desired_rate: Attitude,
    command: Command,
}

impl Default for CascadedPid {
    fn default() -> Self {
        Self::new(&Params::DEFAULT)
    }
}

impl CascadedPid {
    /// A controller as after boot.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self {
            position: params.position.map(Pid::new),
            velocity: params.velocity.map(Pid::new),
            attitude: params.attitude.map(Pid::new),
            rate: params.rate.map(Pid::new),
            limits: params.limits,
            modes: Modes::default(),
            thrust: 0.0,
            desired_attitude: Attitude::default(),
            desired_rate: Attitude::default(),
            command: Command::default(),
        }
    }

    /// Resets all loops to what is measured; desired roll and pitch become the present ones.
    pub fn reset(&mut self, sensed: &Sensed) {
        let Sensed { position, attitude, .. } = sensed.bounded();
        self.position.x.reset(position.x);
        self.position.y.reset(position.y);
        self.position.z.reset(position.z);
        self.attitude.x.reset(attitude.roll);
        self.attitude.y.reset(attitude.pitch);
        self.attitude.z.reset(attitude.yaw);
        for pid in [&mut self.velocity, &mut self.rate] {
            pid.x.reset(0.0);
            pid.y.reset(0.0);
            pid.z.reset(0.0);
        }
        self.desired_attitude.roll = attitude.roll;
        self.desired_attitude.pitch = attitude.pitch;
    }

    /// Attitude the outer loops ask for, degrees, pitch in the legacy sign.
    #[must_use]
    pub fn desired_attitude(&self) -> Attitude {
        self.desired_attitude
    }

    /// Rates the attitude loops ask for, deg/s, pitch in the legacy sign.
    #[must_use]
    pub fn desired_rate(&self) -> Attitude {
        self.desired_rate
    }

    /// One tick of 1 ms: runs the loops that are due and returns the command.
    ///
    /// All loops are reset when the set-point's modes change, and as long as the thrust is 0: with
    /// the motors off, and before the first position step.
    pub fn step(&mut self, setpoint: &Setpoint, sensed: &Sensed, tick: u32) -> Command {
        let (setpoint, sensed) = (setpoint.bounded(), sensed.bounded());
        if setpoint.modes != self.modes {
            self.modes = setpoint.modes;
            self.reset(&sensed);
        }

        let attitude_due = tick.is_multiple_of(ATTITUDE_TICKS);
        if attitude_due {
            self.update_desired_yaw(&setpoint, &sensed);
        }
        if tick.is_multiple_of(POSITION_TICKS) {
            self.update_position(&setpoint, &sensed);
        }
        if attitude_due {
            self.update_attitude(&setpoint, &sensed);
        }

        self.command.thrust = self.thrust;
        if self.thrust == 0.0 {
            self.command = Command::default();
            self.reset(&sensed);
            self.desired_attitude.yaw = sensed.attitude.yaw;
        }
        self.command
    }

    /// A yaw rate moves the desired yaw; an angle sets it.
    fn update_desired_yaw(&mut self, setpoint: &Setpoint, sensed: &Sensed) {
        let present = sensed.attitude.yaw;
        let yaw = match setpoint.modes {
            Modes { yaw: Mode::Velocity, .. } => {
                let moved =
                    wrap_degrees(self.desired_attitude.yaw + setpoint.attitude_rate.yaw * ATTITUDE_DT);
                let (most, ahead) = (self.limits.yaw_max_delta, wrap_degrees(moved - present));
                if most > 0.0 && math::abs(ahead) > most { present + bound(ahead, most) } else { moved }
            }
            Modes { yaw: Mode::Absolute, .. } => setpoint.attitude.yaw,
            Modes { quaternion: Mode::Absolute, .. } => setpoint.quaternion_yaw(),
            _ => self.desired_attitude.yaw,
        };
        self.desired_attitude.yaw = wrap_degrees(yaw);
    }

    /// 100 Hz: position to velocity to tilt and thrust.
    fn update_position(&mut self, setpoint: &Setpoint, sensed: &Sensed) {
        let heading = Heading::new(sensed.attitude.yaw);
        let (target, position) = (heading.align(setpoint.position), heading.align(sensed.position));
        let velocity = heading.align(sensed.velocity);

        let mut wanted =
            if setpoint.velocity_in_heading { setpoint.velocity } else { heading.align(setpoint.velocity) };
        if setpoint.modes.x == Mode::Absolute {
            wanted.x = self.position.x.update(target.x, position.x, POSITION_DT);
        }
        if setpoint.modes.y == Mode::Absolute {
            wanted.y = self.position.y.update(target.y, position.y, POSITION_DT);
        }
        if setpoint.modes.z == Mode::Absolute {
            wanted.z = self.position.z.update(target.z, position.z, POSITION_DT);
        }

        // Forward is nose down, left is right side up: both negative angles.
        let Limits { tilt, thrust_base, thrust_min, .. } = self.limits;
        let forward = self.velocity.x.update(wanted.x, velocity.x, POSITION_DT);
        let left = self.velocity.y.update(wanted.y, velocity.y, POSITION_DT);
        self.desired_attitude.pitch = bound(-forward, tilt);
        self.desired_attitude.roll = bound(-left, tilt);

        let climb = self.velocity.z.update(wanted.z, velocity.z, POSITION_DT);
        self.thrust = math::clamp(climb * THRUST_SCALE + thrust_base, thrust_min, MAX_THRUST);
    }

    /// 500 Hz: attitude to rates to commands.
    fn update_attitude(&mut self, setpoint: &Setpoint, sensed: &Sensed) {
        let modes = setpoint.modes;
        if modes.z == Mode::Disabled {
            self.thrust = setpoint.thrust;
        }
        if modes.x == Mode::Disabled || modes.y == Mode::Disabled {
            self.desired_attitude.roll = setpoint.attitude.roll;
            self.desired_attitude.pitch = setpoint.attitude.pitch;
        }

        let (wanted, present) = (self.desired_attitude, sensed.attitude);
        self.desired_rate = Attitude {
            roll: self.attitude.x.update(wanted.roll, present.roll, ATTITUDE_DT),
            pitch: self.attitude.y.update(wanted.pitch, present.pitch, ATTITUDE_DT),
            yaw: self.attitude.z.update_angle(wanted.yaw, present.yaw, ATTITUDE_DT),
        };
        if modes.roll == Mode::Velocity {
            self.desired_rate.roll = setpoint.attitude_rate.roll;
        }
        if modes.pitch == Mode::Velocity {
            self.desired_rate.pitch = setpoint.attitude_rate.pitch;
        }

        let (wanted, gyro) = (self.desired_rate, sensed.gyro);
        let counts = |output: f32| bound(output, COMMAND_LIMIT) as i16;
        self.command.roll = counts(self.rate.x.update(wanted.roll, gyro.x, ATTITUDE_DT));
        self.command.pitch = counts(self.rate.y.update(wanted.pitch, -gyro.y, ATTITUDE_DT));
        // The loop turns counter-clockwise, the command clockwise.
        self.command.yaw = -counts(self.rate.z.update(wanted.yaw, gyro.z, ATTITUDE_DT));
    }
}

/// The drone's heading, to turn world vectors into heading-aligned ones.
struct Heading {
    sin: f32,
    cos: f32,
}

impl Heading {
    /// From a yaw angle in degrees.
    fn new(yaw: f32) -> Self {
        // Multiplied before divided, as in the original: the last bit counts here.
        let (sin, cos) = math::sin_cos(yaw * math::PI / 180.0);
        Self { sin, cos }
    }

    /// x along the heading, y to its left, z up.
    fn align(&self, v: Vec3) -> Vec3 {
        Vec3::new(v.x * self.cos + v.y * self.sin, v.y * self.cos - v.x * self.sin, v.z)
    }
}
