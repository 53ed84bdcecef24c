//! Errors, with what to do about them.

use std::path::PathBuf;

use thiserror::Error;

/// Result of talking to a drone.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. The texts end with what to do, if there is something to do.
// Causes are not `source`s: they are part of the text, and would be printed twice.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the text of each variant says it")]
pub enum Error {
    #[error(
        "`{uri}` is not a drone's address: {why}; examples: radio://0/80/2M/E7E7E7E7E7, udp://127.0.0.1:19850"
    )]
    Uri { uri: String, why: String },
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    /// The dongle cannot be used.
    #[error("{0}")]
    Dongle(String),
    /// `advice` begins with its punctuation.
    #[error("no answer to {what} in {seconds:.1} s{advice}")]
    NoAnswer { what: String, seconds: f64, advice: String },
    #[error("invalid answer from the drone to {what}: {why}")]
    InvalidReply { what: String, why: String },
    /// `advice` begins with its punctuation.
    #[error("the drone has no parameter `{name}`{advice}")]
    NoParameter { name: String, advice: String },
    /// The drone, or its state, does not allow it.
    #[error("{0}")]
    Refused(String),
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    /// The flash does not hold what was written, or the drone does not fly it.
    #[error("{0}")]
    Verification(String),
    /// It failed in the bootloader; `state` tells how to get the drone out of it.
    #[error("{cause}\n{state}")]
    Stranded { cause: Box<Error>, state: String },
}

impl Error {
    /// Exit status for this error: 2 for an address or a file that does not exist, 3 when the drone or the
    /// dongle was not found, 4 when verification failed, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Uri { .. } => 2,
            Self::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound => 2,
            Self::Dongle(_) | Self::NoAnswer { .. } => 3,
            Self::Verification(_) => 4,
            Self::Stranded { cause, .. } => cause.exit_code(),
            _ => 1,
        }
    }

    pub(crate) fn invalid_reply(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::InvalidReply { what: what.into(), why: why.into() }
    }
}
