//! `cargo xtask cflib`: the official Python client flies the virtual Crazyflie.
//!
//! The client lives in a Python environment of its own, in the user's cache, made by set-up. The flight
//! itself is `emulator/tests/cflib_flight.py`, firmware and a gain table over the bootloader
//! `emulator/tests/cflib_bootloader.py`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::setup::{Problem, say};
use crate::{firmware, sh};

/// What pip is asked for.
const REQUIREMENT: &str = "cflib>=0.1.32";

/// Fly the virtual Crazyflie with the official Python client: tables of contents, parameters, a log
/// stream at 100 Hz, arming, take-off and landing, over UDP; then flash firmware and a gain table with
/// its bootloader code.
#[derive(Args)]
pub(crate) struct Cmd {}

/// A process that ends with us.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is just as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cmd {
    /// Builds what is missing and flies.
    pub(crate) fn run(self) -> Result<()> {
        let root = sh::root();
        let python = environment().map_err(|p| anyhow::anyhow!("{}\nfix: {}", p.what, p.fix))?;
        let elf = firmware::build()?.elf;
        // The same build as the tests', so that nothing is compiled twice.
        sh::run(sh::cargo().args(["build", "--workspace", "--bins", "--profile", "test", "--locked"]))?;
        let folder = std::env::temp_dir().join(format!("steady-cflib-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let flown = fly(&root, &python, &elf, &folder).and_then(|()| flash(&root, &python, &elf, &folder));
        // What is left in the temporary folder is the system's to clean up.
        let _ = std::fs::remove_dir_all(&folder);
        flown
    }
}

/// Starts a virtual drone; gives its address.
pub(crate) fn serve(elf: &Path, folder: &Path, more: &[&str]) -> Result<(Server, String)> {
    let mut serve = sh::command(sh::target().join("debug/virtual-crazyflie"));
    // Any free port; ends by itself after ten minutes of flight, whatever happens to us.
    serve.args(["serve", "--quiet", "--udp", "127.0.0.1:0", "--seconds", "600", "--elf"]).arg(elf);
    serve.arg("--out").arg(folder).args(more);
    println!("$ {}", sh::shown(&serve));
    let child = serve.stdout(Stdio::piped()).spawn().context("cannot start the virtual Crazyflie")?;
    let mut server = Server(child);
    let output = server.0.stdout.take().context("no standard output")?;
    let mut lines = BufReader::new(output).lines();
    let first = lines.next().context("the virtual Crazyflie ended at once")??;
    let uri = first.strip_prefix("listening on ").with_context(|| format!("it says `{first}`"))?.to_owned();
    Ok((server, uri))
}

fn fly(root: &Path, python: &Path, elf: &Path, folder: &Path) -> Result<()> {
    let (_server, uri) = serve(elf, folder, &[])?;
    let mut client = sh::command(python);
    client.arg(root.join("emulator/tests/cflib_flight.py")).arg(uri).arg(folder.join("cache"));
    sh::run(&mut client)
}

/// Firmware and a gain table with the client's own bootloader code.
fn flash(root: &Path, python: &Path, elf: &Path, folder: &Path) -> Result<()> {
    const SEQUENCE: &str = "7";
    let table = folder.join("table.bin");
    let mut pack = sh::command(sh::target().join("debug/steady"));
    sh::run(pack.args(["gains", "pack", "nominal", "--sequence", SEQUENCE, "-o"]).arg(&table))?;
    let (_server, uri) = serve(elf, folder, &[])?;
    let mut client = sh::command(python);
    client.arg(root.join("emulator/tests/cflib_bootloader.py")).arg(uri).arg(table).arg(SEQUENCE);
    client.arg(folder.join("cache")).arg(elf.with_extension("zip"));
    sh::run(&mut client)
}

/// The environment's Python, with the client installed; made if it is missing.
pub(crate) fn environment() -> Result<PathBuf, Problem> {
    provide().map_err(|error| Problem {
        what: format!("the official Python client could not be installed: {error:#}"),
        fix: "needs Python 3 with pip and venv, and a network: sudo apt-get install -y python3-pip python3-venv, then run set-up again".to_owned(),
    })
}

fn provide() -> Result<PathBuf> {
    let folder = sh::cache_folder()?.join("cflib");
    let python = folder.join("bin/python");
    let works =
        |python: &Path| sh::capture(sh::command(python).args(["-c", "import cflib.crazyflie"])).is_ok();
    if works(&python) {
        say("cflib", format_args!("{}", folder.display()));
        return Ok(python);
    }
    say("cflib", format_args!("installing {REQUIREMENT}"));
    let system = sh::python()?;
    if folder.exists() {
        // Half made, or of a Python that is gone.
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    sh::run(sh::command(system).args(["-m", "venv", "--without-pip"]).arg(&folder))?;
    sh::run(
        sh::command(system)
            .args(["-m", "pip", "--disable-pip-version-check", "--python"])
            .arg(&python)
            .args(["install", "--quiet", REQUIREMENT]),
    )?;
    if !works(&python) {
        bail!("pip was content, but {} does not find cflib", python.display());
    }
    Ok(python)
}
