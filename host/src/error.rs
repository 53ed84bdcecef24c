//! Errors as the user meets them: their text and the exit status.

use std::io::ErrorKind;

use steady_data::error::UsageError;
pub(crate) use steady_data::error::{describe, usage};
use steady_sim::world::WorldError;

use crate::log::LogError;

/// The exit status: 2 for wrong names and paths, 3 and 4 for drones, 1 for the rest.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    let is_missing = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<steady_radio::Error>() {
            return error.exit_code();
        }
        let is_usage = cause.is::<UsageError>()
            || cause.downcast_ref().is_some_and(is_missing)
            || matches!(cause.downcast_ref(), Some(LogError::Read { error, .. }) if is_missing(error))
            || matches!(
                cause.downcast_ref(),
                Some(WorldError::UnknownName { .. } | WorldError::UnknownKey { .. })
            );
        if is_usage {
            return 2;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use steady_data::error::unknown;
    use steady_sim::World;

    use super::*;

    #[test]
    fn the_exit_status_tells_wrong_names_and_paths_from_failures() {
        let missing = std::fs::read("/no/such/file").context("/no/such/file: cannot be read").unwrap_err();
        assert_eq!(exit_status(&missing), 2);
        assert_eq!(exit_status(&World::load("papper").unwrap_err().into()), 2);
        assert_eq!(exit_status(&unknown("preset", "smok", &["smoke"]).context("here")), 2);
        assert_eq!(exit_status(&anyhow::anyhow!("broken")), 1);
        assert_eq!(exit_status(&steady_radio::Error::Dongle(String::new()).into()), 3);
    }
}
