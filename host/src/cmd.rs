//! The verbs of `steady`, one file each.

pub mod demo;
pub mod gains;
pub mod world;
