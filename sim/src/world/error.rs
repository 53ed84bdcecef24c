//! What can be wrong with a world, said so that it can be put right.

use std::fmt;

use thiserror::Error;

/// One value outside its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Dotted path of the field, e.g. `body.mass_kg`.
    pub field: String,
    /// The value as written.
    pub value: String,
    /// What would be allowed.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: must be {}", self.field, self.value, self.allowed)
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a world cannot be used.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The file cannot be read.
    #[error("{origin}: cannot read the world file: {source}")]
    Read {
        /// Path of the file.
        origin: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// There is no shipped world of that name.
    #[error("no world is named `{name}`{hint} (shipped: {known}; anything else is a path to a .toml file)")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// A suggestion, or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// The text is not TOML, or a value has the wrong type.
    #[error("{origin}:{line}:{column}: {message} (in `{snippet}`)")]
    Syntax {
        /// File or name.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The parser's reason.
        message: String,
        /// The section and the line.
        snippet: String,
    },
    /// A key that no world has.
    #[error("{origin}:{line}: unknown key `{field}`{hint}")]
    UnknownKey {
        /// File or name.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Dotted path of the key.
        field: String,
        /// The nearest valid key.
        hint: String,
    },
    /// Values that no world can have.
    #[error("{origin}: {}", list(.problems))]
    Values {
        /// File or name.
        origin: String,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
}
