//! `cargo xtask examples`: the examples of the library, run.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cflib::serve;
use crate::{firmware, sh};

/// Run the library's examples: train a policy, read a log, talk to a (virtual) drone.
///
/// Benchmarks are examples too; `cargo xtask bench` runs them.
#[derive(Args)]
pub(crate) struct Cmd {}

/// A log that is in the repository.
const LOG: &str = "common/tests/data/log_1";

impl Cmd {
    /// Builds and runs them; what they print is checked for what they are about.
    pub(crate) fn run(self) -> Result<()> {
        let elf = firmware::build()?.elf;
        // The same build as the tests', so that nothing is compiled twice.
        let mut build = sh::cargo();
        build.args(["build", "--workspace", "--bins", "--examples", "--profile", "test", "--locked"]);
        sh::run(&mut build)?;
        run("train_policy", &[], "position.p.xy = ")?;
        run("read_log", &[LOG], "mean distance")?;

        let folder = std::env::temp_dir().join(format!("steady-examples-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let asked = ask_a_drone(&elf, &folder);
        // What is left in the temporary folder is the system's to clean up.
        let _ = std::fs::remove_dir_all(&folder);
        asked
    }
}

fn ask_a_drone(elf: &Path, folder: &Path) -> Result<()> {
    let (_server, uri) = serve(elf, folder, &[])?;
    run("read_param", &[&uri, "ctrlMel.kp_xy"], "ctrlMel.kp_xy = 0.4")
}

fn run(example: &str, args: &[&str], expected: &str) -> Result<()> {
    let mut command = sh::command(sh::target().join("debug/examples").join(example));
    command.args(args);
    println!("$ {}", sh::shown(&command));
    let said = sh::capture(&mut command)?;
    println!("{said}");
    ensure!(said.contains(expected), "the example {example} does not print `{expected}`");
    Ok(())
}
