//! `cargo xtask demo`: from a fresh clone to the whole loop on the drone's own firmware, compared and reported.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use crate::{setup, sh};

/// Set up what is missing, build, train, and run the whole loop on the virtual Crazyflie.
///
/// Trains in simulation, flashes the gains onto the virtual drone, flies, learns from the logs and again,
/// for several seeds, with and without discovery; prints a table and writes a page. Twelve minutes at most
/// on two cores, once everything is built. Interrupted, it goes on where it was.
#[derive(Args)]
pub(crate) struct Cmd {
    /// Folder for everything; the page is report.html in it.
    #[arg(long, default_value = "demo")]
    out: PathBuf,
    /// More arguments of `steady loop`; `cargo xtask demo -- --help` shows them.
    #[arg(last = true, value_name = "ARG")]
    args: Vec<String>,
}

/// As much as twelve minutes hold.
const LOOP: &[&str] = &[
    "--task",
    "takeoff-land",
    "--world",
    "paper",
    "--preset",
    "quick",
    "--compare",
    "3",
    "--iterations",
    "4",
    "--flights",
    "3",
    "--judging",
    "2",
    "--patience",
    "4",
    "--compare-flights",
    "2",
];

impl Cmd {
    /// Runs it; what it starts decides the exit status.
    pub(crate) fn run(self) -> Result<()> {
        if !setup::run()?.libtorch {
            bail!("the demo cannot be built without libtorch (above)");
        }
        sh::run(sh::cargo().args(["run", "--quiet", "--locked", "--package", "xtask", "--", "firmware"]))?;
        sh::run(sh::cargo().args(["build", "--release", "--locked"]).args([
            "--package",
            "steady",
            "--package",
            "virtual-crazyflie",
        ]))?;
        let started = Instant::now();
        // Directly: `cargo run` of one package would choose other features, and build again.
        let steady = || sh::command(sh::target().join("release/steady"));
        sh::run(steady().arg("loop").args(LOOP).arg("--resume").arg("--out").arg(&self.out).args(self.args))?;
        sh::run(steady().arg("report").arg(&self.out))?;
        println!("took {} after the builds", sh::took(started.elapsed()));
        Ok(())
    }
}
