//! Errors as the user meets them: their text, and wrong usage, which programs tell from failures by their exit status.

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

/// The error and its causes in one line. Many error types repeat their cause in their own text; it is said
/// only once here.
#[must_use]
pub fn describe(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use steady_sim::World;

    use super::*;

    #[test]
    fn nothing_is_said_twice() {
        let error = anyhow::Error::from(World::load("no/such.toml").unwrap_err()).context("the sweep");
        let text = describe(&error);
        assert!(text.starts_with("the sweep: no/such.toml: "), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}
