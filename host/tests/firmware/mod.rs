//! The firmware's image and the virtual Crazyflie, for tests that fly them.

use std::path::PathBuf;

use steady_test_support::{built, image};

/// The image's ELF; nothing where it or the virtual Crazyflie is missing.
#[track_caller]
pub(crate) fn elf() -> Option<PathBuf> {
    built(env!("CARGO_BIN_EXE_steady"), "virtual-crazyflie").and(image())
}
