//! What real flights say about the simulator.
//!
//! [`recording`] reads recorded flights, [`card`] takes what the official firmware logs on a card; [`flight`]
//! reconstructs what the drone did, on one clock; [`predict`] lets a world predict it from the motors' commands;
//! [`score`] says how far off it is; [`identify`] finds the world that is least off; [`closed_loop`] flies a
//! recorded flight's set-points again; [`estimate`] runs the drone's estimator over the recorded sensors and says how
//! far off that is.
#![forbid(unsafe_code)]

pub mod card;
pub mod closed_loop;
pub mod estimate;
pub mod flight;
pub mod identify;
pub mod predict;
pub mod recording;
pub mod score;

pub use flight::Flight;
pub use recording::{Recording, RecordingError, Row};
