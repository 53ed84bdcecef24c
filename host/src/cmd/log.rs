//! `steady log`: inspect, check, export, plot and replay logs from the drone's card.

mod estimate;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use steady_common::GainTable;

use crate::log::check::{LogCheck, check};
use crate::log::export::{Format, export};
use crate::log::replay::replay;
use crate::log::{self, Log, charts, info};
use crate::{files, gains_file, pictures, recorded};

/// Inspect logs from the drone's card: this firmware's and the official one's.
///
/// A LOG is a file (log00), or a folder with logs in it, such as the card. `info` and `plot` also take recorded flights
/// with motion capture (CSV, docs/reality.md).
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a summary: records, gaps, damage, gains, flights.
    Info {
        #[command(flatten)]
        which: Which,
    },
    /// Check that logs are complete and plausible, and that they replay exactly; exit status 1 if anything
    /// is wrong.
    Check {
        #[command(flatten)]
        which: Which,
    },
    /// Export tables for other programs, with units in the column names.
    Export {
        #[command(flatten)]
        into: Into,
        /// File format.
        #[arg(short, long, value_enum, default_value = "csv")]
        format: Format,
        /// Replace existing files.
        #[arg(long)]
        force: bool,
    },
    /// Draw position and reference, attitude, motors, errors and battery, as SVG and PNG.
    Plot {
        #[command(flatten)]
        into: Into,
    },
    /// Compute every control step from its logged inputs and compare it with the log, bit by bit; exit
    /// status 1 if anything differs or nothing can be compared.
    Replay {
        #[command(flatten)]
        which: Which,
        /// A gain table (TOML or .bin) for logs that do not hold their own; may be given several times.
        #[arg(long, value_name = "TABLE")]
        gains: Vec<String>,
    },
    /// Run the drone's estimator over recorded flights with motion capture, and print how far off it is beside the
    /// estimate that was recorded.
    Estimate {
        #[command(flatten)]
        estimate: estimate::Cmd,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The logs.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Into {
    /// The logs.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Folder for the files.
    #[arg(short, long, default_value = ".")]
    output: PathBuf,
}

impl Into {
    /// Makes the folder; returns every log with the prefix of its files' names.
    fn files(&self) -> Result<Vec<(PathBuf, String)>> {
        let logs = logs(&self.logs)?;
        files::make_folder(&self.output)?;
        let mut names = BTreeSet::new();
        let mut files = Vec::new();
        for path in logs {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Cards of several drones have logs of the same name.
            if !names.insert(name.clone()) {
                bail!("two logs are named {name}; write one of them to another folder");
            }
            files.push((path, name));
        }
        Ok(files)
    }
}

/// The logs by these names; prints which files are empty.
fn logs(names: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let found = log::find(names)?;
    for path in &found.empty {
        eprintln!("note: {} is empty: the power was cut before anything was written", path.display());
    }
    Ok(found.logs)
}

fn print_paths(files: &[PathBuf]) {
    for file in files {
        println!("{}", file.display());
    }
}

impl Which {
    fn files(&self) -> Result<Vec<PathBuf>> {
        logs(&self.logs)
    }
}

impl Cmd {
    /// Runs the command.
    ///
    /// # Errors
    /// If a log cannot be read, or a check or replay finds a problem.
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Info { which } => show_info(&which),
            Verb::Check { which } => show_check(&which),
            Verb::Export { into, format, force } => {
                for (path, name) in into.files()? {
                    print_paths(&export(&mut Log::open(&path)?, format, &into.output, &name, force)?);
                }
                Ok(())
            }
            Verb::Plot { mut into } => {
                let (captured, logs) = recorded::split(&into.logs)?;
                into.logs = logs;
                files::make_folder(&into.output)?;
                for flight in recorded::flights(&captured)? {
                    print_paths(&pictures::flight(&flight, &into.output)?);
                }
                for (path, name) in into.files()? {
                    print_paths(&charts::draw(&mut Log::open(&path)?, &into.output, &name)?);
                }
                Ok(())
            }
            Verb::Estimate { estimate } => estimate.run(),
            Verb::Replay { which, gains } => {
                let tables =
                    gains.iter().map(|name| gains_file::load(name)).collect::<Result<Vec<_>, _>>()?;
                show_replay(&which, &tables)
            }
        }
    }
}

fn show_info(which: &Which) -> Result<()> {
    let mut all = Vec::new();
    let (captured, logs_named) = recorded::split(&which.logs)?;
    for flight in recorded::flights(&captured)? {
        let summary = recorded::Summary::of(&flight);
        if which.json {
            all.push(serde_json::to_value(summary)?);
        } else {
            println!("{summary}");
        }
    }
    for path in logs(&logs_named)? {
        let info = info::info(&mut Log::open(&path)?)?;
        if which.json {
            all.push(serde_json::to_value(info)?);
        } else {
            print!("{info}");
        }
    }
    if which.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn show_check(which: &Which) -> Result<()> {
    let files = which.files()?;
    let mut all = Vec::new();
    for path in &files {
        // A file that is not a log is a problem too; the other files are still checked.
        let result = Log::open(path).and_then(|mut log| check(&mut log)).unwrap_or_else(|error| LogCheck {
            file: path.display().to_string(),
            problems: vec![error.to_string()],
            records: 0,
            steps: 0,
            replayed: 0,
        });
        if !which.json {
            match &result.problems[..] {
                [] => println!(
                    "{}: ok, {} records, {} control steps, {} of them replayed to the last bit",
                    result.file, result.records, result.steps, result.replayed
                ),
                problems => problems.iter().for_each(|p| println!("{}: {p}", result.file)),
            }
        }
        all.push(result);
    }
    if which.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    match all.iter().filter(|v| !v.problems.is_empty()).count() {
        0 => Ok(()),
        n => bail!("{n} of {} logs have problems", all.len()),
    }
}

fn show_replay(which: &Which, tables: &[GainTable]) -> Result<()> {
    let mut all = Vec::new();
    let mut inexact = Vec::new();
    for path in which.files()? {
        let outcome = replay(&mut Log::open(&path)?, tables)?;
        let name = path.display().to_string();
        if !outcome.is_exact() {
            inexact.push(name.clone());
        }
        if which.json {
            all.push(json!({ "file": name, "exact": outcome.is_exact(), "replay": outcome }));
        } else {
            println!("{name}: {outcome}");
        }
    }
    if which.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    if !inexact.is_empty() {
        bail!("not replayed to the last bit: {}", inexact.join(", "));
    }
    Ok(())
}
