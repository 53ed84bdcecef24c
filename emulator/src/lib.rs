//! A Crazyflie 2.1 that executes the real firmware image on the PC.
//!
//! [`Machine`] runs an unmodified image instruction by instruction on a Cortex-M4F ([`cortex`]) with
//! models of the chip's peripherals ([`chip`]) and of what is on the board ([`board`]). Time is
//! virtual and comes from the instructions executed; the same image and seed give the same bits.
//! A [`session::Session`] adds the world: physics in lock step ([`steady_sim::plant`]), the ground station
//! ([`mission`]) or a network socket ([`ground`]), and faults ([`fault`]).
#![deny(unsafe_code)]

pub mod board;
pub mod chip;
pub mod cortex;
pub mod fault;
pub mod ground;
pub mod image;
pub mod machine;
pub mod mission;
pub mod network;
pub mod outside;
pub mod scene;
pub mod sdimage;
pub mod session;
pub mod setting;
pub mod summary;
pub mod trace;

pub use board::{Board, Stop};
pub use image::Image;
pub use machine::Machine;
