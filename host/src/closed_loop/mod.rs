//! The paper's Algorithm 2: put a gain table on the drone, fly, learn from the logs, and again.
//!
//! [`ClosedLoop`] is the engine: it goes through the stations and keeps a [`journal`]. The drone is behind
//! [`Drone`] (native, virtual or real), what learns behind [`Learner`], and [`trust`] has every rule that
//! bounds, shrinks or rolls back a step. A station's files get their names only when they are complete, and
//! its result enters the journal only after that, so a loop that was killed anywhere continues where it was.

pub mod compare;
pub mod controller;
pub mod drone;
pub mod engine;
pub mod journal;
pub mod learner;
pub mod native_drone;
pub mod outcome;
pub mod real_drone;
pub mod settings;
pub mod trust;
pub mod virtual_drone;

pub use controller::ControllerKind;
pub use drone::{Drone, DroneKind, Flashed, FlightRequest};
pub use engine::ClosedLoop;
pub use journal::Journal;
pub use learner::Learner;
pub use outcome::{MetricSummary, Outcome};
pub use settings::Settings;
pub use trust::{Decision, TrustRegion};
