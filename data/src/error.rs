//! Wrong usage, which programs tell from failures by their exit status.

use steady_sim::suggest;
use thiserror::Error;

/// A name or value that does not exist or does not fit: exit status 2.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// An error with exit status 2.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// The error for a name that does not exist: the nearest one, and all there are.
#[must_use]
pub fn unknown(kind: &str, name: &str, names: &[&str]) -> anyhow::Error {
    usage(suggest::unknown(kind, name, names))
}
