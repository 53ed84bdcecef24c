//! `cargo xtask test`: the one test command, and what CI runs.
//!
//! The stages are a list ([`stages`]). All of them run even when one fails, and a table at the end
//! says which did.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use steady_test_support::Skip;

use crate::setup::FIRMWARE_TARGET;
use crate::{compiler, nextest, setup, sh};

/// Set up what is missing, then run every check: format, clippy, tests, docs, firmware build.
///
/// Every stage runs, also after a failure; a table at the end shows result and time of each. The
/// exit status is 1 when one failed. Then come the checks that were skipped; one that could have run
/// fails the run.
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
        // The image of these sources, which a stage builds, and no other.
        command.env_remove("STEADY_ELF");
        command
    }
}

/// Everything after set-up. Cheap stages first; the tests after the doc tests, so that their summary
/// is the last one printed.
fn stages(root: &Path) -> Vec<Stage> {
    let has_firmware = root.join("firmware/Cargo.toml").is_file();
    let clippy_drone = format!("clippy --target {FIRMWARE_TARGET} --locked");
    let tests = if nextest::is_installed() { "nextest run" } else { "test --lib --bins --tests --examples" };

    let mut stages = vec![
        Stage::new("format", "fmt --all --check"),
        Stage::new("clippy", "clippy --workspace --all-targets --locked -- -D warnings"),
        // `common` must compile where there is neither std nor an allocator.
        Stage::new("clippy-drone", &format!("{clippy_drone} --package steady-common --lib -- -D warnings")),
    ];
    if has_firmware {
        let args = format!("{clippy_drone} --package steady-firmware -- -D warnings");
        stages.push(Stage::new("clippy-firmware", &args));
        let args = format!("{clippy_drone} --package architecture-image -- -D warnings");
        stages.push(Stage::new("clippy-images", &args));
    }
    if has_firmware {
        // Before the tests: the virtual Crazyflie's flights need the image.
        stages.push(Stage::new("firmware", "run --quiet --locked --package xtask -- firmware"));
        // And the programs that check it against the manuals.
        stages.push(Stage::new("images", "run --quiet --locked --package xtask -- images"));
    }
    stages.push(Stage::new("doc-tests", "test --workspace --doc --no-fail-fast --locked"));
    stages.push(Stage::new(TESTS, &format!("{tests} --workspace --no-fail-fast --locked")));
    stages.push(
        // A libtorch that does not exist proves that none is looked at.
        Stage::new(
            "no-training",
            "clippy --package steady --no-default-features --all-targets --locked -- -D warnings",
        )
        .env("LIBTORCH", "/nonexistent"),
    );
    stages.push(Stage::new("docs", "doc --workspace --no-deps --locked").env("RUSTDOCFLAGS", "-Dwarnings"));
    if has_firmware {
        // The official client flies the image; after the tests, which build the virtual Crazyflie.
        stages.push(Stage::new("cflib", "run --quiet --locked --package xtask -- cflib"));
        // The library's examples run, the one that talks to a drone with the virtual Crazyflie.
        stages.push(Stage::new("examples", "run --quiet --locked --package xtask -- examples"));
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
        let known_stages = stages(&sh::root());
        if self.list {
            println!("{:<16} cargo xtask setup", SETUP);
            for stage in &known_stages {
                println!("{:<16} {}", stage.name, sh::shown(&stage.command()));
            }
            return Ok(());
        }
        if let Some(name) = self.stages.iter().find(|name| !known(&known_stages, name)) {
            bail!("there is no stage `{name}`; `cargo xtask test --list` shows them");
        }
        let wanted = |name: &str| self.stages.is_empty() || self.stages.iter().any(|s| s == name);
        let mut outcomes = Vec::new();
        if wanted(SETUP) {
            outcomes.push(timed(SETUP, || setup::run().and_then(setup::Report::into_result)));
        }
        let mut skips = None;
        // Again: set-up may have installed nextest.
        for stage in stages(&sh::root()).iter().filter(|stage| wanted(stage.name)) {
            outcomes.push(timed(stage.name, || {
                if stage.name != TESTS {
                    return sh::run(&mut stage.command());
                }
                forget_skips()?;
                let tested = sh::run(&mut stage.command());
                let found =
                    Skip::read_all(&Skip::folder()).context("cannot read which checks were skipped")?;
                tested.and(refuse(skips.insert(found)))
            }));
        }
        let summary = summarise(&outcomes);
        if let Some(skips) = skips {
            print!("{}", skip_report(&skips));
        }
        compiler::note();
        summary
    }
}

/// The stage that is not a cargo command.
const SETUP: &str = "set-up";
/// The stage whose checks may be skipped.
const TESTS: &str = "tests";

/// Removes the records of earlier tests.
fn forget_skips() -> Result<()> {
    let folder = Skip::folder();
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Fails when a check was skipped that could have run.
fn refuse(skips: &[Skip]) -> Result<()> {
    match skips.iter().filter(|skip| skip.could_run()).count() {
        0 => Ok(()),
        n => bail!("{n} check(s) were skipped that could have run (below)"),
    }
}

/// How many checks were skipped, and why.
fn skip_report(skips: &[Skip]) -> String {
    let could_run = skips.iter().filter(|skip| skip.could_run()).count();
    let mut text = format!("\nskipped checks: {}", skips.len());
    if could_run > 0 {
        text += &format!(", {could_run} of which could have run");
    }
    text.push('\n');
    for skip in skips {
        text += &format!("  {skip}\n");
    }
    text
}

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

    #[test]
    fn skipped_checks_are_listed_and_refused_if_they_could_have_run() {
        let skip = |missing: &str, fix: Option<&str>| Skip {
            test: "host/tests/log.rs: reads".to_owned(),
            missing: missing.to_owned(),
            fix: fix.map(str::to_owned),
        };
        assert!(refuse(&[]).is_ok() && skip_report(&[]).contains("skipped checks: 0\n"));
        let recording = skip("recording log27", None);
        assert!(refuse(std::slice::from_ref(&recording)).is_ok());
        let both = [recording, skip("image", Some("`cargo xtask firmware` builds it"))];
        assert!(refuse(&both).unwrap_err().to_string().starts_with("1 check"));
        let report = skip_report(&both);
        assert_eq!(report.trim().lines().count(), 3, "{report}");
        assert!(report.contains("skipped checks: 2, 1 of which could have run"), "{report}");
        assert!(report.contains("host/tests/log.rs: reads: missing: recording log27\n"), "{report}");
    }
}
