//! Who flies: the controllers of the project behind one interface.

use steady_common::law::{self, Memory, Vehicle};
use steady_common::stock::{CascadedPid, Command, Mellinger, Sensed, Setpoint};
use steady_common::{Action, Gains, Reference, State};

/// Rate at which the controllers run on the drone, Hz.
pub const CONTROL_HZ: f32 = 500.0;

/// What a pilot asks for in one control step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Order {
    /// Desired forces, normalised.
    pub action: Action,
    /// Motor commands, fractions of full thrust.
    pub motors: [f32; 4],
    /// True when the action could not be given in full.
    pub saturated: bool,
}

/// A controller with what it remembers.
#[derive(Clone, Copy, Debug)]
pub enum Pilot {
    /// The Crazyflie's built-in cascaded PID, and its tick of 1 ms. Made for [`CONTROL_HZ`] only.
    Pid(CascadedPid, u32),
    /// The Crazyflie's Mellinger controller with its own gains.
    StockMellinger(Mellinger),
    /// The differentiable Mellinger law.
    Mellinger {
        /// Its gains.
        gains: Gains,
        /// Its mass and integral limits.
        vehicle: Vehicle,
        /// Its memory.
        memory: Memory,
    },
}

impl Pilot {
    /// The built-in PID as after boot.
    #[must_use]
    pub fn pid() -> Self {
        Self::Pid(CascadedPid::default(), 0)
    }

    /// The stock Mellinger as after boot.
    #[must_use]
    pub fn stock_mellinger() -> Self {
        Self::StockMellinger(Mellinger::default())
    }

    /// The differentiable Mellinger with these gains.
    #[must_use]
    pub fn mellinger(gains: Gains, vehicle: Vehicle) -> Self {
        Self::Mellinger { gains, vehicle, memory: Memory::default() }
    }

    /// One control step of `dt` seconds.
    #[inline]
    pub fn order(&mut self, seen: &State, reference: &Reference, dt: f32) -> Order {
        match self {
            Self::Pid(pid, tick) => {
                let (setpoint, sensed) = (Setpoint::from_reference(reference), Sensed::from_state(seen));
                // Two ticks of 1 ms: the loops run on even ones.
                pid.step(&setpoint, &sensed, tick.wrapping_add(1));
                *tick = tick.wrapping_add(2);
                Order::from_command(pid.step(&setpoint, &sensed, *tick))
            }
            Self::StockMellinger(mellinger) => {
                let (setpoint, sensed) = (Setpoint::from_reference(reference), Sensed::from_state(seen));
                Order::from_command(mellinger.step(&setpoint, &sensed, dt).command)
            }
            Self::Mellinger { gains, vehicle, memory } => {
                let action = law::step(gains, vehicle, seen, reference, memory, dt);
                let motors = action.motors();
                Order { action, motors: motors.thrust, saturated: motors.saturated }
            }
        }
    }
}

impl Order {
    /// The official controllers' counts as normalised forces: the power distribution is the same.
    fn from_command(command: Command) -> Self {
        let part = |counts: i16| f32::from(counts) / 65535.0;
        let request = command.distribute();
        Self {
            action: Action {
                thrust: command.thrust / 65535.0,
                roll: part(command.roll),
                pitch: part(command.pitch),
                yaw: part(command.yaw),
            },
            motors: request.cap().fractions(),
            saturated: request.is_over(),
        }
    }
}
