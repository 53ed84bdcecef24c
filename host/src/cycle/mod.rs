//! The paper's Algorithm 2 as a whole: a table goes onto the drone, flies, its logs are learned from, and a
//! better table goes onto the drone, again and again.
//!
//! [`run::Loop`] walks through the stations and keeps a [`journal`]; what is physical is behind [`Stage`],
//! what learns behind [`Teacher`]. A station's files get their names only when they are whole, and its
//! result is in the journal only after that, so a loop that was killed anywhere goes on where it was.

pub mod compare;
pub mod journal;
pub mod judge;
pub mod real_drone;
pub mod run;
pub mod settings;
pub mod stage;
#[cfg(feature = "train")]
pub mod teacher;
pub mod virtual_drone;

pub use journal::Journal;
pub use run::Loop;
pub use settings::Settings;
pub use stage::{Outcome, Stage, Teacher};
