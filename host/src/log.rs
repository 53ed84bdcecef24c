//! Logs from the drone's card: this firmware's and the official one's (uSD format, versions 1 and 2).
//!
//! Everything here reads in one pass and in bounded memory, whatever the size of a file, and leaves
//! damage out ([`steady_common::usdlog`]). What learns takes [`transitions`]; what only looks takes
//! [`Log::scan`] or [`each_step`], which keep nothing.
//!
//! ```no_run
//! # use std::path::Path;
//! let recording = steady::log::transitions(&[Path::new("card").into()])?;
//! for segment in &recording.segments {
//!     for flight in segment.flights() {
//!         for (before, now) in flight.pairs() {
//!             let _s = now.observation(before);
//!         }
//!     }
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod charts;
pub mod check;
mod columns;
pub mod export;
mod file;
pub mod info;
pub mod replay;
mod sources;
mod steps;

pub use columns::{column_name, unit};
pub use file::{Event, Log, LogError, Source, Variable};
pub use sources::{Found, find};
pub use steady_native::log::Writer;
pub use steps::{
    Beginning, Flight, Link, Recording, Segment, Step, Tracker, each_step, known_gains, transitions,
};
