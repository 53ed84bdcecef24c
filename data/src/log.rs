//! Logs from the drone's card: this firmware's and the official one's (uSD format, versions 1 and 2).
//!
//! Logs are read in one pass and in bounded memory, whatever their size; damaged records are left out
//! ([`steady_common::usdlog`]). Learning takes [`transitions`]; everything else takes [`Log::scan`] or
//! [`each_step`], which keep nothing.
//!
//! ```no_run
//! # use std::path::Path;
//! let recording = steady_data::log::transitions(&[Path::new("card").into()])?;
//! for segment in recording.segments.iter().filter(|s| s.flight.is_some()) {
//!     for (before, now) in segment.pairs() {
//!         let _observation = now.observation(before);
//!     }
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod charts;
pub mod check;
mod columns;
pub mod estimate;
pub mod export;
mod file;
pub mod info;
pub mod replay;
mod sources;
mod steps;

pub use columns::{column_name, unit};
pub use file::{Event, Log, LogError, Variable};
pub use sources::{LogFiles, find};
pub use steady_common::transition::Link;
pub use steps::{LoggedStep, Recording, Segment, each_step, inputs, transitions};

/// Seconds that pass in one second of the official firmware's log clock: its timer divides by 85, not by 84,
/// so it runs slow. A log at 250 Hz has its records 3.955 ms apart by that clock.
pub const OFFICIAL_CLOCK: f64 = 85.0 / 84.0;
