//! The official firmware's own flight control, one-to-one in single precision.
//!
//! The baselines everything is compared with, and what the drone falls back to: the stock Mellinger
//! controller ([`mellinger`]), the built-in cascaded PID ([`pid`]), the power distribution
//! ([`power`]) and the battery compensation ([`battery`]).
//!
//! This is the one place in the control core with the Crazyflie's legacy conventions: degrees, and
//! a pitch that is positive nose **up**. They live in [`Sensed`], [`Setpoint`] and [`Command`];
//! [`Sensed::from_state`] and [`Setpoint::from_reference`] come from the project's right-handed SI
//! quantities, [`Command::motor_fractions`] leads back out.
//!
//! Inside the range a drone can meet the numbers are the official ones; outside, where the
//! original would compute infinities or NaN, inputs are limited first, so that every output is
//! finite for every input.

pub mod battery;
mod input;
pub mod mellinger;
pub mod pid;
pub mod power;

pub use battery::{Propeller, SupplyFilter};
pub use input::{Attitude, Mode, Modes, Sensed, Setpoint};
pub use mellinger::Mellinger;
pub use pid::CascadedPid;
pub use power::{Command, MotorPwm, MotorRequest};

use crate::math;

/// `x` limited to [−limit, limit]; NaN becomes 0, the safe value of everything limited here.
fn bound(x: f32, limit: f32) -> f32 {
    if x.is_nan() { 0.0 } else { math::bound(x, limit) }
}
