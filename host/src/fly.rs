//! A flight of the virtual Crazyflie: the drone's own image, executed by a program of its own.
//!
//! The virtual Crazyflie is another process ([`Program`]): it writes the card, the truth and a summary
//! into a folder, and this module adds what only the PC can tell: whether the log is complete, whether it
//! replays to the same bits, and whether the gain guard tripped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize as _, Serialize};
use steady_common::exploration::Exploration;
use steady_common::{Controller, GainTable};
use steady_radio::firmware;
use steady_sim::FlightMetrics;

use crate::error::usage;
use crate::log::check::{LogCheck, check};
use crate::log::replay::{Replay, replay};
use crate::log::{self, Log, each_step};
use crate::{files, gains_file};

/// Name of the program that executes the image.
const PROGRAM: &str = "virtual-crazyflie";
/// The image, where `cargo xtask firmware` puts it.
const ELF: &str = "target/firmware/steady.elf";
/// The card's `config.txt` for a log that has what the estimator was given, too.
const LOG_INPUTS: &str = "1\n512\nlog\n0\non:estimatorInputs\n";

/// Guard states in the log from this one on mean that it took gains out of flight.
pub(crate) const GUARD_TRIPPED: u8 = 2;

/// The virtual Crazyflie and the image that it executes.
#[derive(Clone, Debug)]
pub struct Program {
    program: PathBuf,
    elf: PathBuf,
}

impl Program {
    /// Looks for the program beside this one and on the PATH, and for the image where it is named, or
    /// where it is built.
    pub fn find(elf: Option<&Path>) -> Result<Self> {
        Ok(Self { program: find_program()?, elf: find_image(elf)? })
    }

    /// A program and an image whose places are known.
    pub fn at(program: &Path, elf: &Path) -> Self {
        Self { program: program.to_owned(), elf: elf.to_owned() }
    }

    /// The image.
    pub fn elf(&self) -> &Path {
        &self.elf
    }

    /// True for the Steady firmware, false for that of others.
    pub fn is_steady(&self) -> Result<bool> {
        is_steady(&self.elf)
    }

    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).arg("--elf").arg(&self.elf).stdin(Stdio::null());
        command
    }
}

/// Looks for the virtual Crazyflie beside this program and on the PATH.
pub fn find_program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside().into_iter().chain(std::env::split_paths(&path));
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let Some(program) = folders.map(|f| f.join(&name)).find(|p| p.is_file()) else {
        bail!(
            "{PROGRAM} is neither beside steady nor on the PATH; `cargo build --release -p {PROGRAM}` builds it"
        );
    };
    Ok(program)
}

/// Looks for the firmware's image where it is named, or where it is built.
pub fn find_image(elf: Option<&Path>) -> Result<PathBuf> {
    // Built in the same target folder, or started from the project's.
    let built = beside().and_then(|b| Some(b.parent()?.join("firmware/steady.elf")));
    let named = elf.map(Path::to_owned).or_else(|| std::env::var_os("STEADY_ELF").map(PathBuf::from));
    let missing =
        |path: &Path| format!("there is no firmware at {}; `cargo xtask firmware` builds it", path.display());
    match named {
        Some(named) if named.is_file() => Ok(named),
        Some(named) => Err(usage(missing(&named))),
        None => std::iter::once(PathBuf::from(ELF))
            .chain(built)
            .find(|path| path.is_file())
            .with_context(|| missing(Path::new(ELF))),
    }
}

/// True when a file, an ELF, a binary or a package, is the Steady firmware.
pub fn is_steady(image: &Path) -> Result<bool> {
    let bytes = std::fs::read(image).with_context(|| format!("{}: cannot be read", image.display()))?;
    if bytes.starts_with(b"PK") {
        return Ok(firmware::is_steady(firmware::Image::load(image)?.bytes()));
    }
    Ok(firmware::is_steady(&bytes))
}

fn beside() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

#[derive(Clone, Debug)]
pub struct VirtualFlight {
    /// A task's name, or a CSV file of polynomial pieces.
    pub task: String,
    /// A world's name or file.
    pub world: String,
    /// Gains for the drone's flash; none flies the built-in ones.
    pub table: Option<GainTable>,
    pub controller: Controller,
    /// Exploration noise, where it is enabled.
    pub exploration: Exploration,
    /// What goes wrong, as `SECONDS:WHAT[=VALUE]`.
    pub faults: Vec<String>,
    /// More parameters, as `GROUP.NAME=VALUE`.
    pub params: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Virtual time after which the flight is given up, s.
    pub limit_s: f64,
    /// File that holds the drone's flash with everything in it; not together with a table.
    pub flash: Option<PathBuf>,
    /// File with the content of the configuration memory, before and after.
    pub eeprom: Option<PathBuf>,
    /// Free room on the card, MiB; all of it if not given.
    pub card_free_mib: Option<u32>,
    /// The log has what the estimator was given, too.
    pub log_inputs: bool,
}

impl Default for VirtualFlight {
    fn default() -> Self {
        Self {
            task: "takeoff-land".to_owned(),
            world: "nominal".to_owned(),
            table: None,
            controller: Controller::default(),
            exploration: Exploration::DEFAULT,
            faults: Vec::new(),
            params: Vec::new(),
            seed: 1,
            limit_s: 120.0,
            flash: None,
            eeprom: None,
            card_free_mib: None,
            log_inputs: false,
        }
    }
}

impl VirtualFlight {
    /// The parameters that the ground sets before the flight.
    pub fn settings(&self) -> Vec<String> {
        let mut settings = Vec::new();
        if self.controller != Controller::default() {
            settings.push(format!("stabilizer.controller={}", self.controller.number()));
        }
        let Exploration { enabled, std: [thrust, roll, pitch, yaw], hold, seed } = self.exploration;
        if enabled {
            settings.extend([
                format!("steady.noiseThrust={thrust}"),
                format!("steady.noiseRoll={roll}"),
                format!("steady.noisePitch={pitch}"),
                format!("steady.noiseYaw={yaw}"),
                format!("steady.noiseHold={hold}"),
                format!("steady.noiseSeed={seed}"),
                "steady.explore=1".to_owned(),
            ]);
        }
        settings.extend(self.params.iter().cloned());
        settings
    }

    /// Flies into a folder, which holds everything that comes of it.
    pub fn fly(&self, program: &Program, folder: &Path) -> Result<FlightResult> {
        let mut settings = self.settings();
        if !program.is_steady()? {
            if self.table.is_some() || self.exploration.enabled {
                return Err(usage(format!(
                    "{} is not the Steady firmware, which alone has gain tables and exploration noise",
                    program.elf.display()
                )));
            }
            // Its other estimators do not take what motion capture sees.
            if !settings.iter().any(|s| s.starts_with("stabilizer.estimator=")) {
                settings.push("stabilizer.estimator=2".to_owned());
            }
        }
        files::make_folder(folder)?;
        let summary_file = folder.join("summary.json");
        // A summary of an earlier flight must not be taken for this one's.
        if let Err(error) = std::fs::remove_file(&summary_file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("{}: cannot be replaced", summary_file.display()));
        }
        let mut args: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| args.extend([OsString::from(name), value]);
        option("--task", self.task.clone().into());
        option("--world", self.world.clone().into());
        option("--seed", self.seed.to_string().into());
        option("--limit", self.limit_s.to_string().into());
        option("--out", folder.into());
        if let Some(table) = &self.table {
            let page = folder.join("gains.bin");
            files::write(&page, &table.encode())?;
            files::write(&folder.join("gains.toml"), gains_file::to_toml(table).as_bytes())?;
            option("--gains", page.into());
        }
        let kept = [("--flash", &self.flash), ("--eeprom", &self.eeprom)];
        for (name, file) in kept.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
            option(name, file.into());
        }
        if let Some(room) = self.card_free_mib {
            option("--card-free-mib", room.to_string().into());
        }
        if self.log_inputs {
            let config = folder.join("config.txt");
            files::write(&config, LOG_INPUTS.as_bytes())?;
            option("--card-file", config.into());
        }
        for setting in settings {
            option("--param", setting.into());
        }
        for fault in &self.faults {
            option("--fault", fault.into());
        }
        let output = program
            .command("fly")
            .args(&args)
            .output()
            .with_context(|| format!("{}: cannot be started", program.program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = match std::fs::read_to_string(&summary_file) {
            Ok(text) => text,
            // It says what was wrong with the world, the task, the fault or the image.
            Err(_) => {
                let why = errors.trim().trim_start_matches("error: ");
                let is_usage = output.status.code() == Some(2);
                return Err(if is_usage { usage(first_paragraph(why)) } else { anyhow!("{why}") });
            }
        };
        let summary: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a summary", summary_file.display()))?;
        FlightResult::new(folder, said, summary)
    }
}

/// A message about wrong usage without the hint at the other program's `--help`.
fn first_paragraph(text: &str) -> &str {
    text.split_once("\n\n").map_or(text, |(first, _)| first)
}

/// What came of a flight of the virtual Crazyflie.
#[derive(Clone, Debug, Serialize)]
pub struct FlightResult {
    pub folder: PathBuf,
    /// The task was flown to its end.
    pub success: bool,
    /// The virtual Crazyflie's summary.
    pub summary: serde_json::Value,
    /// How well the part that counts was flown, by the simulator's truth.
    pub metrics: Option<FlightMetrics>,
    pub logs: Vec<Checked>,
    /// The gain guard took the table out of flight, as a log says.
    pub guard_tripped: bool,
    /// The virtual Crazyflie's summary for people.
    #[serde(skip)]
    pub text: String,
}

/// A log of the flight, read back.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// What is wrong with it.
    pub verdict: LogCheck,
    pub replay: Replay,
}

impl FlightResult {
    fn new(folder: &Path, text: String, summary: serde_json::Value) -> Result<Self> {
        let success = summary["success"].as_bool().unwrap_or(false);
        let metrics = Option::<FlightMetrics>::deserialize(&summary["metrics"])
            .context("the summary's metrics")?
            .filter(FlightMetrics::is_finite);
        let names = summary["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let (mut logs, mut guard_tripped) = (Vec::new(), false);
        for name in names.iter().filter_map(|log| log["name"].as_str()) {
            let path = folder.join(name);
            // A file that is not a log has its problem in the summary.
            if let Ok(mut log) = Log::open(&path) {
                each_step(&mut log, |step| guard_tripped |= step.now.guard >= GUARD_TRIPPED)?;
                logs.push(Checked { verdict: check(&mut log)?, replay: replay(&mut log, &[])? });
            }
        }
        Ok(Self { folder: folder.to_owned(), success, summary, metrics, logs, guard_tripped, text })
    }

    pub fn log_files(&self) -> Vec<PathBuf> {
        self.logs.iter().map(|l| PathBuf::from(&l.verdict.file)).collect()
    }

    /// Draws the logs into the flight's folder; returns the pictures.
    pub fn draw(&self) -> Result<Vec<PathBuf>> {
        let mut pictures = Vec::new();
        for file in self.log_files() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            pictures.extend(log::charts::draw(&mut Log::open(&file)?, &self.folder, &name)?);
        }
        Ok(pictures)
    }
}
