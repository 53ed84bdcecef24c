//! What can go wrong, and what to do about it.

use std::path::PathBuf;

use thiserror::Error;

/// The outcome of talking to a drone.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Every text ends in what to do, where there is something to do.
#[derive(Debug, Error)]
pub enum Error {
    /// A URI that means nothing.
    #[error(
        "`{uri}` is no drone's address: {why}; examples: radio://0/80/2M/E7E7E7E7E7, udp://127.0.0.1:19850"
    )]
    Uri {
        /// The text.
        uri: String,
        /// What is wrong with it.
        why: String,
    },
    /// The network or the dongle failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The dongle cannot be used.
    #[error("{0}")]
    Dongle(String),
    /// Nobody answers.
    #[error("no answer to {what} in {seconds:.1} s{advice}")]
    NoAnswer {
        /// The question.
        what: String,
        /// How long was waited.
        seconds: f64,
        /// What to do, with its punctuation.
        advice: String,
    },
    /// The drone said something that cannot be.
    #[error("the drone's answer to {what} makes no sense: {why}")]
    Nonsense {
        /// The question.
        what: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The drone, or its state, does not allow it.
    #[error("{0}")]
    Refused(String),
    /// A file is not what it should be.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What was read back is not what was written, or the drone does not fly what it was given.
    #[error("{0}")]
    Verification(String),
    /// Something failed after the firmware was left.
    #[error("{cause}\n{state}")]
    Stranded {
        /// What failed.
        cause: Box<Error>,
        /// In which state the drone is, and how to get it out of it.
        state: String,
    },
}

impl Error {
    /// The exit status of a program that ends with this: 3 when the drone or the dongle was not
    /// found, 4 when verification failed, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Dongle(_) | Self::NoAnswer { .. } => 3,
            Self::Verification(_) => 4,
            Self::Stranded { cause, .. } => cause.exit_code(),
            _ => 1,
        }
    }

    pub(crate) fn nonsense(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Nonsense { what: what.into(), why: why.into() }
    }
}
