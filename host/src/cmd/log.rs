//! `steady log`: look into logs from the drone's card.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use steady_common::GainTable;

use crate::gains_file;
use crate::log::check::{Verdict, check};
use crate::log::export::{Format, export};
use crate::log::replay::{Replay, replay};
use crate::log::{self, Log, charts, info};

/// Look into logs from the drone's card: this firmware's and the official one's.
///
/// A LOG is a file (log00), or a folder with logs in it, such as the card.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print what is in them: records, gaps, damage, gains, flights.
    Info {
        #[command(flatten)]
        which: Which,
    },
    /// Check that they are whole and plausible, and that the law makes of their inputs what the drone
    /// did; exit status 1 if anything is wrong.
    Check {
        #[command(flatten)]
        which: Which,
    },
    /// Write them as tables for other programs, with units in the columns' names.
    Export {
        #[command(flatten)]
        into: Into,
        /// As what.
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
    /// Compute every control step again and compare it with the log, bit by bit; exit status 1 if
    /// anything differs or nothing can be compared.
    Replay {
        #[command(flatten)]
        which: Which,
        /// A gain table (TOML or .bin) for logs that do not hold their own; may be given several times.
        #[arg(long, value_name = "TABLE")]
        gains: Vec<String>,
    },
}

/// Which logs, and how to tell of them.
#[derive(Debug, Args)]
struct Which {
    /// The logs.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which logs, and where to put what comes of them.
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
    /// Makes the folder, and gives every log with the beginning of its files' names.
    fn files(&self) -> Result<Vec<(PathBuf, String)>> {
        let logs = logs(&self.logs)?;
        fs::create_dir_all(&self.output)
            .with_context(|| format!("{}: cannot make the folder", self.output.display()))?;
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

/// The files that are meant; says which of them were left out.
fn logs(names: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let found = log::find(names)?;
    for path in &found.empty {
        eprintln!("note: {} is empty: the power was cut before anything was written", path.display());
    }
    Ok(found.logs)
}

fn tell(files: &[PathBuf]) {
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
    /// Does it.
    ///
    /// # Errors
    /// If a log cannot be read, or is not as asked.
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Info { which } => show_info(&which),
            Verb::Check { which } => show_check(&which),
            Verb::Export { into, format, force } => {
                for (path, name) in into.files()? {
                    tell(&export(&mut Log::open(&path)?, format, &into.output, &name, force)?);
                }
                Ok(())
            }
            Verb::Plot { into } => {
                for (path, name) in into.files()? {
                    tell(&charts::draw(&mut Log::open(&path)?, &into.output, &name)?);
                }
                Ok(())
            }
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
    for path in which.files()? {
        let info = info::info(&mut Log::open(&path)?)?;
        if which.json {
            all.push(info);
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
        // A file that is no log at all is a finding too, and the others are looked at all the same.
        let verdict = Log::open(path).and_then(|mut log| check(&mut log)).unwrap_or_else(|error| Verdict {
            file: path.display().to_string(),
            problems: vec![error.to_string()],
            records: 0,
            steps: 0,
            replayed: 0,
        });
        if !which.json {
            match &verdict.problems[..] {
                [] => println!(
                    "{}: ok, {} records, {} control steps, {} of them computed again to the last bit",
                    verdict.file, verdict.records, verdict.steps, verdict.replayed
                ),
                problems => problems.iter().for_each(|p| println!("{}: {p}", verdict.file)),
            }
        }
        all.push(verdict);
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
            println!("{name}: {}", describe_replay(&outcome));
        }
    }
    if which.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    if !inexact.is_empty() {
        bail!("not the same to the last bit: {}", inexact.join(", "));
    }
    Ok(())
}

/// A replay for people.
pub(super) fn describe_replay(r: &Replay) -> String {
    if r.steps == 0 {
        return "no control steps in it, so nothing to compute again".to_owned();
    }
    let mut text = format!("{} of {} control steps computed again: ", r.replayed, r.steps);
    text.push_str(&format!("{} bits differ in the outputs", r.differing_bits));
    text.push_str(&format!(", {} in the law's memory", r.differing_memory_bits));
    for (count, why) in [
        (r.other_controller, "by no or another controller"),
        (r.without_predecessor, "without the step before"),
        (r.unknown_gains, "with unknown gains (--gains)"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {count} left out, {why}"));
        }
    }
    if let Some(sequence) = r.first_difference {
        text.push_str(&format!("; first in step {sequence}"));
    }
    text
}
