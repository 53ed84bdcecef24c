//! `cargo xtask setup`: everything a fresh Debian-like machine needs, and nothing twice.
//!
//! Each step looks first and acts only when something is missing, so that the second run takes about
//! a second. A step that cannot be done does not stop the others: it ends as a [`Problem`] with the
//! command that would fix it.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{cflib, compiler, libtorch, nextest, sh, system};

/// The drone's processor: an STM32F405, a Cortex-M4 with a single-precision FPU.
pub(crate) const FIRMWARE_TARGET: &str = "thumbv7em-none-eabihf";

/// Install what is missing: Rust target, system packages, libtorch, the official Python client, nextest.
///
/// Needs git, rustup's cargo, a C linker and Python 3 with pip. Safe to repeat: what is there is
/// left alone. libtorch is taken from $LIBTORCH, else from a Python installation that has the right
/// torch, else made from PyPI wheels (about 550 MB to download, once per user: it is kept in
/// $XDG_CACHE_HOME/steady or ~/.cache/steady, and `.libtorch` links to it).
#[derive(Args)]
pub(crate) struct Cmd {}

impl Cmd {
    /// Runs all steps; fails when one of them could not be done.
    pub(crate) fn run(self) -> Result<()> {
        run()?.into_result()
    }
}

/// Something set-up could not do, and what the person can.
pub(crate) struct Problem {
    /// What is missing, why, and what needs it.
    pub(crate) what: String,
    /// The command (or sentence) that fixes it.
    pub(crate) fix: String,
}

/// What set-up left undone.
pub(crate) struct Report {
    /// In the order met.
    pub(crate) problems: Vec<Problem>,
    /// Whether the crates that train can be built and run.
    pub(crate) libtorch: bool,
}

impl Report {
    /// An error when anything is left undone. The problems themselves have been printed.
    pub(crate) fn into_result(self) -> Result<()> {
        match self.problems.len() {
            0 => Ok(()),
            1 => bail!("set-up: one thing could not be done (above)"),
            n => bail!("set-up: {n} things could not be done (above)"),
        }
    }
}

/// Does all steps and prints what it did and what it could not do.
pub(crate) fn run() -> Result<Report> {
    let started = Instant::now();
    println!("set-up");
    compiler::note();
    let root = sh::root();
    let mut problems = Vec::new();
    // Packages first: libtorch's stub needs the C++ compiler.
    problems.extend(system::packages().err());
    problems.extend(rust().err());
    let libtorch = libtorch::provide(&root);
    let has_libtorch = libtorch.is_ok();
    problems.extend(libtorch.err());
    problems.extend(cflib::environment().err());
    nextest::provide();

    for problem in &problems {
        eprintln!("\nset-up problem: {}\n           fix: {}", problem.what, problem.fix);
    }
    println!("  took            {}", sh::took(started.elapsed()));
    Ok(Report { problems, libtorch: has_libtorch })
}

/// Prints one finding or action, in columns.
pub(crate) fn say(topic: &str, text: impl std::fmt::Display) {
    println!("  {topic:<15} {text}");
}

/// The Rust target of the drone, and the two components `cargo xtask test` needs.
fn rust() -> Result<(), Problem> {
    let sysroot = match sh::capture(sh::command("rustc").args(["--print", "sysroot"])) {
        Ok(path) => path,
        Err(error) => {
            return Err(Problem {
                what: format!("no Rust compiler: {error:#}"),
                fix: "install Rust with rustup, then run `cargo xtask setup` again".to_owned(),
            });
        }
    };
    let sysroot = Path::new(&sysroot);
    let has_target = sysroot.join("lib/rustlib").join(FIRMWARE_TARGET).is_dir();
    let missing_components: Vec<&str> = [("clippy", "bin/cargo-clippy"), ("rustfmt", "bin/cargo-fmt")]
        .into_iter()
        .filter(|(_, file)| !sysroot.join(file).is_file())
        .map(|(component, _)| component)
        .collect();
    if has_target && missing_components.is_empty() {
        say("rust", format_args!("{FIRMWARE_TARGET}, clippy and rustfmt are there"));
        return Ok(());
    }

    let mut commands: Vec<Vec<&str>> = Vec::new();
    if !has_target {
        commands.push(vec!["target", "add", FIRMWARE_TARGET]);
    }
    if !missing_components.is_empty() {
        commands.push([&["component", "add"], missing_components.as_slice()].concat());
    }
    for args in commands {
        say("rust", format_args!("adding {}", args[2..].join(", ")));
        let outcome = if sh::find("rustup").is_some() {
            sh::run(sh::command("rustup").args(&args))
        } else {
            Err(anyhow::anyhow!("rustup is not installed"))
        };
        outcome.context("the firmware and the checks of its code need it").map_err(|error| Problem {
            what: format!("Rust's {} could not be added: {error:#}", args[2..].join(", ")),
            fix: format!("rustup {}", args.join(" ")),
        })?;
    }
    Ok(())
}
