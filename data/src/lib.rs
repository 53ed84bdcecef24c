//! Everything of Steady that is a file: flight logs, gain tables, results and pictures.
//!
//! [`log`] reads the logs of this firmware and of the official one, checks, replays, exports and draws them;
//! [`gains_file`] has gain tables as TOML and as the drone's page; [`files`] writes whole files or none;
//! [`stats`] has means with their intervals, [`table`] tables, [`plot`] charts, [`tensorboard`] event files. Nothing
//! here needs libtorch or a drone.
#![forbid(unsafe_code)]

pub mod error;
pub mod files;
pub mod gains_file;
pub mod log;
pub mod plot;
pub mod stats;
pub mod table;
pub mod tensorboard;
