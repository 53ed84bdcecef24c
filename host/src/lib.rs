//! Steady on the PC: what learns, flies, reads back and draws.
//!
//! `main.rs` parses and dispatches; every verb has a file in [`cmd`]. Training needs libtorch and is
//! the default feature `train`; everything else builds without it.
#![deny(unsafe_code)]

// First, for its macros.
#[macro_use]
pub mod out;

#[cfg(feature = "train")]
pub mod adapt;
pub mod checkpoint;
pub mod cmd;
pub mod cycle;
pub mod doctor;
#[cfg(feature = "train")]
pub mod evaluate;
pub mod files;
pub mod fly;
pub mod gains_file;
pub mod log;
pub mod plot;
pub mod programs;
pub mod provenance;
pub mod report;
pub mod stats;
pub mod sweep;
pub mod tensorboard;
#[cfg(feature = "train")]
pub mod torch;
#[cfg(feature = "train")]
pub mod train;
