//! The simulator: a Crazyflie 2.x and everything the real world does to it.
//!
//! A [`World`] is configuration (TOML, checked); [`World::compile`] turns it into [`Params`], the
//! constants of a step; a [`Drone`] is one simulated drone; a [`Fleet`] is many independent ones,
//! stepped on any number of threads with the same bits; an [`Airspace`] is a few that push each
//! other with their downwash.
//!
//! ```
//! use steady_sim::{Drone, Initial, World};
//! use steady_common::Vec3;
//!
//! let params = World::named("paper")?.compile()?;
//! let mut drone = Drone::new(&params, 7, 0);
//! drone.reset(&params, &Initial::hovering(&params, Vec3::new(0.0, 0.0, 1.0)));
//! for _ in 0..240 {
//!     let _height_m = drone.truth().position.z;
//!     drone.step(&params, [0.55; 4]); // fractions of MAX_MOTOR_THRUST_N
//! }
//! # Ok::<(), steady_sim::WorldError>(())
//! ```
//!
//! Frames: world x forward, y left, z up; body x forward, y left, z up. Motors M1..M4 are front
//! right, back right, back left, front left; M1 and M3 push the yaw clockwise. Units are SI unless
//! a name says otherwise; rotor speeds are in revolutions per minute.
//!
//! Everything is `f32` and made of operations that give the same bits on every machine: maths comes
//! from `steady_common::math` and, for `exp`, `ln` and powers, from the `libm` crate's portable code.
#![forbid(unsafe_code)]

pub mod aero;
pub mod airspace;
pub mod battery;
pub mod body;
pub mod contact;
pub mod drone;
pub mod fleet;
pub mod initial;
pub mod metrics;
pub mod mocap;
pub mod motors;
pub mod open_loop;
pub mod params;
pub mod paths;
pub mod plant;
pub mod residual;
pub mod rng;
pub mod sampler;
pub mod script;
pub mod sensors;
pub mod suggest;
pub mod task;
pub mod wind;
pub mod world;

pub use airspace::Airspace;
pub use drone::Drone;
pub use fleet::Fleet;
pub use initial::{Initial, InitialDistribution};
pub use metrics::{FlightMetrics, METRICS};
pub use mocap::MocapSample;
pub use motors::MAX_MOTOR_THRUST_N;
pub use params::Params;
pub use plant::{Plant, PlantParams};
pub use residual::Residual;
pub use rng::Rng;
pub use script::Script;
pub use sensors::ImuSample;
pub use task::Task;
pub use world::{World, WorldError};
