//! Learning in the simulator (the paper's section IV-A and Algorithm 1).

pub mod actor;
pub mod config;
pub mod critic;
pub mod curve;
pub mod env;
pub(crate) mod flown;
pub mod nets;
pub mod oracle;
pub mod replay;
pub mod returns;
pub mod run;
pub mod spectral;
pub mod summary;
pub mod trainer;
