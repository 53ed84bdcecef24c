//! Steady on the PC: training, flights, logs, adaptation, reports.
//!
//! [`run`] is the `steady` command; its verbs are in `cmd`, one file each, and thin. Training needs libtorch
//! and is the default feature `train`; everything else builds without it.
#![deny(unsafe_code)]
// Most items are the command's own; a comment that repeats an item's name helps nobody.
#![allow(missing_docs)]

// First, for its macros.
#[macro_use]
mod out;

#[cfg(feature = "train")]
pub mod adapt;
#[cfg(feature = "train")]
mod checkpoint;
pub mod closed_loop;
mod cmd;
mod error;
#[cfg(feature = "train")]
mod evaluate;
pub mod fly;
mod interrupt;
// Only what trains needs all of it.
mod pictures;
#[cfg_attr(not(feature = "train"), allow(dead_code))]
mod provenance;
pub mod recorded;
pub mod report;
#[cfg(feature = "train")]
pub mod torch;
#[cfg(feature = "train")]
pub mod train;

pub use cmd::run;
pub use out::Table;
#[cfg(feature = "train")]
use steady_data::tensorboard;
pub use steady_data::{files, gains_file, log, plot, stats};
pub use steady_sweep::jobs;
