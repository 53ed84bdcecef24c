//! The commands.

pub(crate) mod fly;
pub(crate) mod options;
pub(crate) mod serve;
