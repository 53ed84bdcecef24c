//! `steady log`: look into logs from the drone's card.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use steady_common::GainTable;

use crate::gains_file;
use crate::log::replay::{Replay, replay};
use crate::log::{self, Log, info};

/// Look into logs from the drone's card: this firmware's and the official one's.
///
/// A LOG is a file (log00), or a folder with logs in it, such as the card.
#[derive(Debug, Args)]
pub struct Cmd {
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

impl Which {
    /// The files; says which of them were left out.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let found = log::find(&self.logs)?;
        for path in &found.empty {
            eprintln!("note: {} is empty: the power was cut before anything was written", path.display());
        }
        Ok(found.logs)
    }
}

impl Cmd {
    /// Does it.
    ///
    /// # Errors
    /// If a log cannot be read, or is not as asked.
    pub fn run(self) -> Result<()> {
        match self.verb {
            Verb::Info { which } => show_info(&which),
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
            println!("{name}: {}", describe(&outcome));
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

fn describe(r: &Replay) -> String {
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
