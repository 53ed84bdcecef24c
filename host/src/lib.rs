//! The host.

pub mod doctor;
#[cfg(feature = "train")]
pub mod torch;
