//! Who flies: the controllers of the project behind one interface.

use steady_common::law::{self, Memory, Vehicle};
pub use steady_common::order::Order;
use steady_common::stock::{CascadedPid, Mellinger, Sensed, Setpoint};
use steady_common::{Gains, Reference, State};

/// Rate at which the controllers run on the drone, Hz.
pub const CONTROL_HZ: f32 = 500.0;

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
                Order::from_action(law::step(gains, vehicle, seen, reference, memory, dt))
            }
        }
    }
}
