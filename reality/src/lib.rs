//! What real flights say about the simulator.
//!
//! [`recording`] reads recorded flights; [`flight`] reconstructs what the drone did, on one clock;
//! [`predict`] lets a world predict it from the motors' commands; [`score`] says how far off it is.
#![forbid(unsafe_code)]

pub mod flight;
pub mod predict;
pub mod recording;
pub mod score;

pub use flight::Flight;
pub use recording::{Recording, RecordingError, Row};
