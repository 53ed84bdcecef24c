//! What is true on both sides, the drone and the PC.
//!
//! Everything here is `no_std` without allocation, unconditionally: the code that is tested on the
//! PC is the code that flies. Maths goes through [`math`] and the [`Scalar`] trait, never through
//! methods that resolve to something else on another target.
//!
//! Frames: world x forward, y left, z up; body x forward, y left, z up; right-handed everywhere.
//! The Crazyflie's inverted pitch exists only in [`stock`] (which is one-to-one with the official
//! firmware) and in protocol codecs. Units are SI unless a name says otherwise.
#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::float_cmp))]

#[cfg(test)]
extern crate std;

pub mod action;
pub mod board;
pub mod bytes;
pub mod cload;
pub mod commander;
pub mod config_block;
pub mod controller;
pub mod crtp;
pub mod dual;
pub mod estimator;
pub mod exploration;
pub mod gain_table;
pub mod gains;
pub mod gains_record;
pub mod guard;
pub mod inputs_record;
pub mod law;
pub mod linalg;
pub mod math;
pub mod observation;
pub mod order;
pub mod planner;
pub mod scalar;
pub mod state;
pub mod stock;
pub mod supervisor;
pub mod syslink;
pub mod trajectory;
pub mod transition;
pub mod usdlog;
pub mod value;

pub use action::{Action, MAX_MOTOR_THRUST_N, Motors};
pub use controller::Controller;
pub use dual::Dual;
pub use gain_table::GainTable;
pub use gains::Gains;
pub use linalg::{Mat3, Quat, Vec3};
pub use scalar::Scalar;
pub use state::{Reference, State};
pub use trajectory::Trajectory;

/// Acceleration of free fall that the law, the estimator and the sensors' scales assume, m/s²; the official
/// firmware's value.
pub const GRAVITY_M_S2: f32 = 9.81;
