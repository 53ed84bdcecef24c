//! Better gains from flights: the real-world stage without libtorch.
//!
//! [`model`] corrects the simulator by logged flights: its parameters are identified, [`discovery`] learns skills for
//! what it still lacks, the delay of motion capture is fitted, and worlds are drawn that resemble the flights.
//! [`search`] finds gains in them by whole flights of the native drone, with [`cma`].
//!
//! [`left_out`] says how much of it holds for flights that were not fitted, [`readings`] what skills found in words.
//!
//! Everything is the same for the same seed, whatever the number of threads.
#![forbid(unsafe_code)]

pub mod cma;
pub mod discovery;
mod features;
pub mod gradient;
mod latency;
pub mod left_out;
pub mod logged;
pub mod model;
mod newton;
pub mod readings;
mod ridge;
pub mod search;

pub use discovery::Discovered;
pub use logged::LoggedFlight;
pub use model::Model;
