//! `cargo xtask test`: the one test command, and what CI runs.
//!
//! The stages are a list ([`stages`]). All of them run even when one fails, and a table at the end
//! says which did.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::setup::FIRMWARE_TARGET;
use crate::{setup, sh};

/// Set up what is missing, then run every check: format, clippy, tests, docs, firmware build.
///
/// Every stage runs, also after a failure; a table at the end shows result and time of each. The
/// exit status is 1 when one failed.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Run only these stages (see --list); all when none is named.
    #[arg(value_name = "STAGE")]
    stages: Vec<String>,
    /// Show the stages and their commands, and do nothing.
    #[arg(long)]
    list: bool,
}

/// One cargo command.
struct Stage {
    name: &'static str,
    args: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
}

impl Stage {
    fn new(name: &'static str, args: &str) -> Self {
        // All our arguments are constants; leaking the few bytes keeps the list readable.
        Self { name, args: args.to_owned().leak().split_whitespace().collect(), env: Vec::new() }
    }

    fn env(mut self, key: &'static str, value: &'static str) -> Self {
        self.env.push((key, value));
        self
    }

    fn command(&self) -> std::process::Command {
        let mut command = sh::cargo();
        command.args(&self.args).envs(self.env.iter().copied());
        command
    }
}

/// Everything after set-up. Cheap stages first; the tests after the doc tests, so that their summary
/// is the last one printed.
fn stages(root: &Path) -> Vec<Stage> {
    let has_firmware = root.join("firmware/Cargo.toml").is_file();
    let nextest = sh::find("cargo-nextest").is_some();
    let clippy_drone = format!("clippy --target {FIRMWARE_TARGET} --locked");
    let tests = if nextest { "nextest run" } else { "test --lib --bins --tests --examples" };

    let mut stages = vec![
        Stage::new("format", "fmt --all --check"),
        Stage::new("clippy", "clippy --workspace --all-targets --locked -- -D warnings"),
        // `common` must compile where there is neither std nor an allocator.
        Stage::new("clippy-drone", &format!("{clippy_drone} --package steady-common --lib -- -D warnings")),
    ];
    if has_firmware {
        let args = format!("{clippy_drone} --package steady-firmware -- -D warnings");
        stages.push(Stage::new("clippy-firmware", &args));
    }
    if has_firmware {
        // Before the tests: the virtual Crazyflie's flights need the image.
        stages.push(Stage::new("firmware", "run --quiet --locked --package xtask -- firmware"));
    }
    stages.push(Stage::new("doc-tests", "test --workspace --doc --no-fail-fast --locked"));
    stages.push(Stage::new("tests", &format!("{tests} --workspace --no-fail-fast --locked")));
    stages.push(
        // A libtorch that does not exist proves that none is looked at.
        Stage::new("no-training", "build --package steady --no-default-features --locked")
            .env("LIBTORCH", "/nonexistent"),
    );
    stages.push(Stage::new("docs", "doc --workspace --no-deps --locked").env("RUSTDOCFLAGS", "-Dwarnings"));
    if has_firmware {
        // The official client flies the image; after the tests, which build the virtual Crazyflie.
        stages.push(Stage::new("cflib", "run --quiet --locked --package xtask -- cflib"));
        // Budgets of flash, RAM and stack, and no panic in the flight task.
        stages.push(Stage::new("size", "run --quiet --locked --package xtask -- size"));
    }
    stages
}

/// How a stage went.
struct Outcome {
    name: &'static str,
    time: Duration,
    error: Option<String>,
}

impl Cmd {
    /// Runs the stages; fails when one of them did.
    pub(crate) fn run(self) -> Result<()> {
        let mut stages = stages(&sh::root());
        if self.list {
            println!("{:<16} cargo xtask setup", SETUP);
            for stage in &stages {
                println!("{:<16} {}", stage.name, sh::shown(&stage.command()));
            }
            return Ok(());
        }
        if let Some(name) = self.stages.iter().find(|name| !known(&stages, name)) {
            bail!("there is no stage `{name}`; `cargo xtask test --list` shows them");
        }
        let wanted = |name: &str| self.stages.is_empty() || self.stages.iter().any(|s| s == name);
        stages.retain(|stage| wanted(stage.name));

        let mut outcomes = Vec::new();
        if wanted(SETUP) {
            outcomes.push(timed(SETUP, || setup::run().and_then(setup::Report::into_result)));
        }
        for stage in &stages {
            outcomes.push(timed(stage.name, || sh::run(&mut stage.command())));
        }
        summarise(&outcomes)
    }
}

/// The stage that is not a cargo command.
const SETUP: &str = "set-up";

fn known(stages: &[Stage], name: &str) -> bool {
    name == SETUP || stages.iter().any(|stage| stage.name == name)
}

fn timed(name: &'static str, work: impl FnOnce() -> Result<()>) -> Outcome {
    println!("\n=== {name}");
    let started = Instant::now();
    let error = work().err().map(|error| format!("{error:#}"));
    let time = started.elapsed();
    match &error {
        None => println!("=== {name}: ok in {}", sh::took(time)),
        Some(error) => println!("=== {name}: FAILED after {}: {error}", sh::took(time)),
    }
    Outcome { name, time, error }
}

/// Prints the table; fails when a stage did.
fn summarise(outcomes: &[Outcome]) -> Result<()> {
    println!("\n{:<16} {:>12}  result", "stage", "time");
    for Outcome { name, time, error } in outcomes {
        let result = if error.is_some() { "FAILED" } else { "ok" };
        println!("{name:<16} {:>12}  {result}", sh::took(*time));
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    println!("{:<16} {:>12}", "total", sh::took(total));

    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.error.is_some()).collect();
    for outcome in &failed {
        eprintln!("{}: {}", outcome.name, outcome.error.as_deref().unwrap_or_default());
    }
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().map(|outcome| outcome.name).collect();
        bail!("failed: {}", names.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_names_are_distinct_and_every_build_is_locked() {
        let stages = stages(&sh::root());
        for (i, stage) in stages.iter().enumerate() {
            assert!(known(&stages, stage.name));
            assert!(stages[..i].iter().all(|other| other.name != stage.name), "{} twice", stage.name);
            assert!(stage.name == "format" || stage.args.contains(&"--locked"), "{}", stage.name);
        }
        assert!(!known(&stages, "nonsense"));
    }

    #[test]
    fn one_failure_fails_the_run_and_is_named() {
        let ok = Outcome { name: "one", time: Duration::from_secs(1), error: None };
        let bad = Outcome { name: "two", time: Duration::from_secs(2), error: Some("why".to_owned()) };
        assert!(summarise(std::slice::from_ref(&ok)).is_ok());
        assert_eq!(summarise(&[ok, bad]).unwrap_err().to_string(), "failed: two");
    }
}
