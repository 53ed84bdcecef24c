//! The controllers on board behind one interface.

use steady_common::law::{self, Memory};
use steady_common::math::RAD_TO_DEG;
use steady_common::order::Order;
use steady_common::stock::power::FULL_SCALE;
use steady_common::stock::{
    Attitude, CascadedPid, Command, Mellinger, Mode, Modes, MotorRequest, Propeller, Sensed, Setpoint,
};
use steady_common::{Action, GainTable, MAX_MOTOR_THRUST_N, Reference, State, Vec3};

use super::CONTROL_DT;
use crate::settings::{Controller, Settings};
use crate::telemetry::Pilot;

/// What is to be flown in a control step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Target {
    /// Motors off.
    #[default]
    Off,
    /// A reference, by the chosen controller.
    Path {
        /// Where the drone should be.
        reference: Reference,
        /// Body rates that belong to it, rad/s.
        rates: Vec3,
    },
    /// A set-point with modes that only the cascaded PID flies.
    Modes(Setpoint),
}

impl Target {
    /// A reference without rates of its own but the heading's.
    #[must_use]
    pub fn along(reference: Reference) -> Self {
        Self::Path { reference, rates: Vec3::new(0.0, 0.0, reference.yaw_rate) }
    }
}

/// The result of a control step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlOutput {
    /// Who flew.
    pub pilot: Pilot,
    /// What it asked for, before noise.
    pub action: Action,
    /// The same after noise.
    pub applied: Action,
    /// What the motors are asked for, in counts, before battery compensation.
    pub request: MotorRequest,
    /// The action could not be given in full.
    pub saturated: bool,
}

/// All controllers with what they remember.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pilots {
    memory: Memory,
    mellinger: Mellinger,
    pid: CascadedPid,
    pid_tick: u32,
    last: Pilot,
}

impl Pilots {
    /// What the differentiable law remembers.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Which pilot flies a target when this controller is selected.
    #[must_use]
    pub fn who(controller: Controller, target: &Target) -> Pilot {
        match (target, controller) {
            (Target::Off, _) => Pilot::None,
            (Target::Modes(_), _) => Pilot::Attitude,
            (Target::Path { .. }, Controller::Pid) => Pilot::Pid,
            (Target::Path { .. }, Controller::StockMellinger) => Pilot::StockMellinger,
            (Target::Path { .. }, Controller::Differentiable) => Pilot::Differentiable,
        }
    }

    /// Makes ready for a step: a controller that did not fly the last step starts afresh.
    pub fn prepare(&mut self, pilot: Pilot, settings: &Settings) {
        if pilot != self.last {
            // The cascade's position loops run on every tenth tick and give no thrust before: the
            // next one is due, so that a drone in the air does not lose its thrust for a moment.
            *self = Self { last: pilot, pid_tick: 8, ..Self::default() };
        }
        self.mellinger.params = settings.stock_mellinger;
    }

    /// Tells the cascade the thrust that hovers, a part of full thrust, where it is known better than
    /// by the official constant.
    pub fn set_hover_thrust(&mut self, part: f32) {
        self.pid.limits.thrust_base = part * f32::from(FULL_SCALE);
    }

    /// One control step of the pilot that was prepared; `noise` is added to the law's action. Never
    /// inlined, so that its work can be counted in the image.
    #[inline(never)]
    pub fn fly(
        &mut self,
        target: &Target,
        table: &GainTable,
        state: &State,
        noise: Action,
        propeller: &Propeller,
    ) -> ControlOutput {
        let pilot = self.last;
        match (pilot, target) {
            (Pilot::Differentiable, Target::Path { reference, .. }) => {
                let (gains, vehicle) = (&table.gains, &table.vehicle);
                let action = law::step(gains, vehicle, state, reference, &mut self.memory, CONTROL_DT);
                let applied = Action {
                    thrust: action.thrust + noise.thrust,
                    roll: action.roll + noise.roll,
                    pitch: action.pitch + noise.pitch,
                    yaw: action.yaw + noise.yaw,
                };
                let order = Order::from_action(applied);
                // Full scale is the propeller's full thrust, a full action the law's.
                let scale = f32::from(FULL_SCALE) * (MAX_MOTOR_THRUST_N / propeller.max_thrust);
                let counts = order.motors.map(|part| (part * scale) as i32);
                ControlOutput {
                    pilot,
                    action,
                    applied,
                    request: MotorRequest(counts),
                    saturated: order.saturated,
                }
            }
            (Pilot::StockMellinger, Target::Path { reference, rates }) => {
                let mut setpoint = Setpoint::from_reference(reference);
                // The stock Mellinger takes the pitch rate right-handed.
                let rates = *rates * RAD_TO_DEG;
                setpoint.attitude_rate = Attitude { roll: rates.x, pitch: rates.y, yaw: rates.z };
                let sensed = Sensed::from_state(state);
                stock(pilot, self.mellinger.step(&setpoint, &sensed, CONTROL_DT).command)
            }
            (Pilot::Pid, Target::Path { reference, .. }) => {
                self.cascade(pilot, &Setpoint::from_reference(reference), state)
            }
            (Pilot::Attitude, Target::Modes(setpoint)) => self.cascade(pilot, setpoint, state),
            _ => ControlOutput::default(),
        }
    }

    /// Two ticks of 1 ms: the loops run on even ones.
    fn cascade(&mut self, pilot: Pilot, setpoint: &Setpoint, state: &State) -> ControlOutput {
        let sensed = Sensed::from_state(state);
        self.pid.step(setpoint, &sensed, self.pid_tick.wrapping_add(1));
        self.pid_tick = self.pid_tick.wrapping_add(2);
        stock(pilot, self.pid.step(setpoint, &sensed, self.pid_tick))
    }
}

fn stock(pilot: Pilot, command: Command) -> ControlOutput {
    let Order { action, saturated, .. } = Order::from_command(command);
    ControlOutput { pilot, action, applied: action, request: command.distribute(), saturated }
}

/// Velocity set-point of the cascaded PID: along the world's axes or the heading's; a height, where
/// given, stands for the vertical velocity.
#[must_use]
pub fn velocity_setpoint(velocity: Vec3, in_heading: bool, height: Option<f32>, yaw_rate: f32) -> Setpoint {
    Setpoint {
        position: Vec3::Z * height.unwrap_or(0.0),
        velocity,
        velocity_in_heading: in_heading,
        attitude_rate: Attitude { yaw: yaw_rate * RAD_TO_DEG, ..Attitude::default() },
        modes: Modes {
            x: Mode::Velocity,
            y: Mode::Velocity,
            z: if height.is_some() { Mode::Absolute } else { Mode::Velocity },
            yaw: Mode::Velocity,
            ..Modes::default()
        },
        ..Setpoint::default()
    }
}

/// How an attitude set-point's vertical axis is controlled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vertical {
    /// Height, m.
    Height(f32),
    /// Speed upwards, m/s.
    Climb(f32),
    /// Part of full thrust.
    Thrust(f32),
}

/// Attitude set-point of the cascaded PID from right-handed angles in rad (or rates in rad/s).
#[must_use]
pub fn attitude_setpoint(roll: f32, pitch: f32, yaw_rate: f32, rates: bool, vertical: Vertical) -> Setpoint {
    // Out here pitch is nose down, in the official controllers nose up.
    let angles = Attitude { roll: roll * RAD_TO_DEG, pitch: -pitch * RAD_TO_DEG, yaw: 0.0 };
    let tilt = if rates { Mode::Velocity } else { Mode::Absolute };
    let mut setpoint = Setpoint {
        modes: Modes { roll: tilt, pitch: tilt, yaw: Mode::Velocity, ..Modes::default() },
        attitude_rate: Attitude { yaw: yaw_rate * RAD_TO_DEG, ..Attitude::default() },
        ..Setpoint::default()
    };
    if rates {
        setpoint.attitude_rate = Attitude { yaw: setpoint.attitude_rate.yaw, ..angles };
    } else {
        setpoint.attitude = angles;
    }
    match vertical {
        Vertical::Height(height) => {
            setpoint.modes.z = Mode::Absolute;
            setpoint.position = Vec3::Z * height;
        }
        Vertical::Climb(climb) => {
            setpoint.modes.z = Mode::Velocity;
            setpoint.velocity = Vec3::Z * climb;
        }
        Vertical::Thrust(part) => {
            let part = if part > 0.0 { part } else { 0.0 };
            setpoint.thrust = part * f32::from(FULL_SCALE);
        }
    }
    setpoint
}
