//! What real flights say about the simulator.
//!
//! [`recording`] reads recorded flights; [`flight`] reconstructs what the drone did, on one clock.
#![forbid(unsafe_code)]

pub mod flight;
pub mod recording;

pub use flight::Flight;
pub use recording::{Recording, RecordingError, Row};
