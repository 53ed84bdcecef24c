//! `cargo xtask official`: the official firmware on the virtual Crazyflie.
//!
//! The official firmware is written against the silicon by others, so it shows whether the models are right. It
//! is not part of this project: whoever has an image names it in `STEADY_OFFICIAL_ELF`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::{cflib, firmware, sh};

const VARIABLE: &str = "STEADY_OFFICIAL_ELF";
/// What the official micro-SD deck logs, 500 times a second from boot on.
const CARD_CONFIG: &str = "1\n512\nofficial\n1\non:fixedFrequency\n500\n1\nstateEstimate.x\nstateEstimate.y\n\
    stateEstimate.z\nstateEstimate.roll\nstateEstimate.pitch\nstateEstimate.yaw\n";
const MIN_LOG_EVENTS: u64 = 6000;
/// One colour for the whole LED ring, by the official driver's parameters, and as the LEDs have it.
const RING: [&str; 4] = ["ring.effect=7", "ring.solidRed=100", "ring.solidGreen=30", "ring.solidBlue=5"];
const RING_COLOUR: &str = "#641e05";

/// Run the official Crazyflie firmware on the virtual Crazyflie: self-test, cflib, flights against the simulator's
/// truth, the micro-SD deck, flashing over the radio, and twice the same bits.
///
/// STEADY_OFFICIAL_ELF names the image: an ELF file of the official firmware, with its .bin beside it.
#[derive(Args)]
pub(crate) struct Cmd {}

/// The checks so far.
#[derive(Default)]
struct Checks {
    failed: usize,
}

impl Checks {
    fn note(&mut self, what: &str, good: bool, found: &str) {
        println!("{} {what}: {found}", if good { "ok  " } else { "FAIL" });
        self.failed += usize::from(!good);
    }
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let Some(elf) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            println!(
                "Nothing was checked: {VARIABLE} is not set. Build the official Crazyflie firmware for the platform\n\
                 `cf2` as its own documentation says (or take a release), and give the path of its cf2.elf:\n\
                 {VARIABLE}=path/to/cf2.elf cargo xtask official"
            );
            return Ok(());
        };
        let elf = std::path::absolute(&elf)?;
        ensure!(elf.is_file(), "{VARIABLE}: there is no {}", elf.display());
        let binary = elf.with_extension("bin");
        ensure!(binary.is_file(), "{VARIABLE}: there is no {} beside the ELF file", binary.display());
        let python = cflib::environment().map_err(|p| anyhow::anyhow!("{}\nfix: {}", p.what, p.fix))?;
        let ours = firmware::build()?.elf;
        sh::run(sh::cargo().args(["build", "--workspace", "--bins", "--profile", "test", "--locked"]))?;
        let folder = std::env::temp_dir().join(format!("steady-official-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut checks = Checks::default();
        let done = fly(&elf, &folder, &mut checks)
            .and_then(|()| with_cflib(&elf, &python, &folder, &mut checks))
            .and_then(|()| flash_and_back(&ours, &binary, &folder, &mut checks));
        // What is left in the temporary folder is the system's to clean up.
        let _ = std::fs::remove_dir_all(&folder);
        done?;
        ensure!(checks.failed == 0, "{} checks failed", checks.failed);
        Ok(())
    }
}

/// A flight; its summary.
fn flight(elf: &Path, out: &Path, task: &str, more: &[&str]) -> Result<Value> {
    let mut command = sh::command(sh::target().join("debug/virtual-crazyflie"));
    command.args(["fly", "--json", "--task", task, "--param", "stabilizer.estimator=2", "--elf"]).arg(elf);
    command.arg("--out").arg(out).args(more);
    println!("$ {}", sh::shown(&command));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the virtual Crazyflie")?;
    serde_json::from_slice(&output.stdout).context("the virtual Crazyflie printed no summary")
}

fn fly(elf: &Path, folder: &Path, checks: &mut Checks) -> Result<()> {
    let config = folder.join("config.txt");
    std::fs::write(&config, CARD_CONFIG)?;
    let card = ["--card-file", &config.to_string_lossy()].map(str::to_owned);
    let card = [card[0].as_str(), card[1].as_str()];
    let first = folder.join("takeoff-land");
    let summary = flight(elf, &first, "takeoff-land", &card)?;
    let identity = &summary["identity"];
    let console = summary["console"].as_str().unwrap_or_default();
    let found = format!("{}, version {}", identity["device"], identity["version"]);
    checks.note("self-test passes", console.contains("Self test passed"), &found);
    checks.note("take-off and landing", landed(&summary), &metrics(&summary));
    let logs = summary["logs"].as_array().context("the summary has no logs")?;
    let name = logs.first().and_then(|log| log["name"].as_str()).context("there is no log on the card")?;
    let events = log_events(&first.join(name))?;
    checks.note(
        "log on the micro-SD deck, read by our reader",
        events >= MIN_LOG_EVENTS,
        &format!("{name}: {events} events"),
    );
    let again = folder.join("again");
    flight(elf, &again, "takeoff-land", &card)?;
    let same = ["truth.csv", "motors.bin", name]
        .iter()
        .all(|file| std::fs::read(first.join(file)).ok() == std::fs::read(again.join(file)).ok());
    checks.note("two runs", same, if same { "the same bits" } else { "different bits" });
    for (name, controller) in [("PID", "stabilizer.controller=1"), ("Mellinger", "stabilizer.controller=2")] {
        let out = folder.join(name);
        let mut more = vec!["--param", controller, "--led-ring"];
        RING.iter().for_each(|setting| more.extend(["--param", *setting]));
        let summary = flight(elf, &out, "figure8", &more)?;
        checks.note(&format!("figure eight with its {name}"), landed(&summary), &metrics(&summary));
        let ring = &summary["led_ring"];
        let colours = ring["colours"].as_array().map(Vec::as_slice).unwrap_or_default();
        let good =
            colours.len() == 12 && colours.iter().all(|c| *c == RING_COLOUR) && ring["bad_pulses"] == 0;
        let found = format!("{} pictures, {}", ring["pictures"], colours.first().unwrap_or(&Value::Null));
        checks.note("its LED ring shows one colour", good, &found);
    }
    Ok(())
}

fn landed(summary: &Value) -> bool {
    summary["success"] == true && summary["is_landed"] == true
}

fn metrics(summary: &Value) -> String {
    let error_cm = 100.0 * summary["metrics"]["tracking_error_m"].as_f64().unwrap_or(f64::NAN);
    let speed = summary["speed"].as_f64().unwrap_or(f64::NAN);
    let failure = summary["failure"].as_str().map(|why| format!("; {why}")).unwrap_or_default();
    format!("tracking error {error_cm:.1} cm, {speed:.1} x real time{failure}")
}

fn log_events(log: &Path) -> Result<u64> {
    let mut command = sh::command(sh::target().join("debug/steady"));
    let output = command.args(["log", "info", "--json"]).arg(log).output().context("cannot start steady")?;
    let info: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("steady log info: {}", String::from_utf8_lossy(&output.stderr)))?;
    let info = info.as_array().and_then(|all| all.first()).unwrap_or(&info);
    info["records"].as_u64().context("the JSON of steady log info has no `records`")
}

fn with_cflib(elf: &Path, python: &Path, folder: &Path, checks: &mut Checks) -> Result<()> {
    let truth = folder.join("truth.csv");
    let (_server, uri) = cflib::serve(elf, folder, &["--truth", &truth.to_string_lossy()])?;
    let mut client = sh::command(python);
    client
        .arg(sh::root().join("emulator/tests/cflib_official.py"))
        .arg(uri)
        .arg(folder.join("cache"))
        .arg(&truth);
    println!("$ {}", sh::shown(&client));
    let status = client.status().context("cannot start Python")?;
    checks.note("flight by cflib", status.success(), &status.to_string());
    Ok(())
}

/// The version of the firmware on a drone.
fn version(uri: &str) -> Result<String> {
    let mut command = sh::command(sh::target().join("debug/steady"));
    let info = command.args(["info", "--json", "--uri", uri]).output().context("cannot start steady")?;
    let info: Value = serde_json::from_slice(&info.stdout)
        .with_context(|| format!("steady info: {}", String::from_utf8_lossy(&info.stderr)))?;
    Ok(info["firmware"].as_str().unwrap_or("unknown").to_owned())
}

/// The official firmware onto a drone that flies ours, and ours back.
fn flash_and_back(ours: &Path, official: &Path, folder: &Path, checks: &mut Checks) -> Result<()> {
    let flash = folder.join("flash.bin");
    let (_server, uri) = cflib::serve(ours, folder, &["--flash", &flash.to_string_lossy()])?;
    let before = version(&uri)?;
    for (what, file, is_ours) in [
        ("flashing it over ours", official.to_owned(), false),
        ("flashing ours back", ours.with_extension("bin"), true),
    ] {
        let mut command = sh::command(sh::target().join("debug/steady"));
        command.args(["flash", "--yes", "--uri", &uri]).arg(&file);
        println!("$ {}", sh::shown(&command));
        let flashed = command.status().context("cannot start steady")?.success();
        let now = version(&uri)?;
        checks.note(what, flashed && (now == before) == is_ours, &format!("version {now}"));
    }
    Ok(())
}
