//! cargo-nextest, which runs the tests; `cargo test` does where it cannot be had.

use std::time::Instant;

use crate::setup::say;
use crate::sh;

/// What cargo is asked for.
const REQUIREMENT: &str = "cargo-nextest@0.9.143";

/// True if `cargo nextest` can be run.
pub(crate) fn is_installed() -> bool {
    sh::capture(sh::cargo().args(["nextest", "--version"])).is_ok()
}

/// Installs it when it is missing. That it cannot be is no problem: [`is_installed`] decides.
pub(crate) fn provide() {
    if is_installed() {
        say("nextest", "is there");
        return;
    }
    say("nextest", format_args!("installing {REQUIREMENT} with cargo: some minutes, once"));
    let started = Instant::now();
    let mut install = sh::cargo();
    match sh::run(install.args(["install", "--locked", "--quiet", REQUIREMENT])) {
        Ok(()) => say("nextest", format_args!("installed in {}", sh::took(started.elapsed()))),
        Err(error) => say("nextest", format_args!("note: {error:#}; `cargo test` runs the tests instead")),
    }
}
