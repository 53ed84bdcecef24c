//! The SD card: what goes on it, when, and what happens when it misbehaves.
//!
//! ```text
//! flight step ─► Feed ═ queue ═► Drain ─► Logger ─► Card (FAT32 on blocks)
//! ```
//!
//! The flight side never waits: [`Feed`] drops whole records when the queue is full and counts them.
//! [`Logger`] runs in the low-priority executor and may block on the card as long as it likes.
//! At every commit the file on the card is complete, its checksum included, so a power cut costs
//! what came after the last commit and nothing else.

pub mod card;
pub mod config;
pub mod fat;
pub mod inputs;
pub mod logger;
pub mod queue;
pub mod status;

pub use card::{Card, CardError};
pub use config::Config;
pub use fat::FatCard;
pub use inputs::InputRecorder;
pub use logger::Logger;
pub use queue::{Counters, Drain, Feed, Item, Sampler};
pub use status::{State, Status};
