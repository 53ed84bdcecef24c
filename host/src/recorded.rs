//! Recorded flights of drones: CSV files with motion capture, and logs of this firmware.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use steady_common::usdlog::MAGIC;
use steady_reality::{Flight, Recording};

use crate::log;

/// The flights of files; a folder is one of logs.
///
/// # Errors
/// If a file cannot be read, or none of its flights is long enough.
pub fn flights(files: &[PathBuf]) -> Result<Vec<Flight>> {
    let mut flights = Vec::new();
    for file in files {
        let found = if is_log(file)? { logged(file)? } else { captured(file)? };
        flights.extend(found);
    }
    Ok(flights)
}

/// A card's log by its first byte, or a folder of them.
fn is_log(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(true);
    }
    let mut first = [0];
    let mut file = File::open(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let count = file.read(&mut first).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(count == 1 && first[0] == MAGIC)
}

fn captured(file: &Path) -> Result<Vec<Flight>> {
    let recording = Recording::open(file)?;
    if let Some(first) = &recording.first_refused {
        eprintln!("note: {}: {} rows refused, the first: {first}", file.display(), recording.refused);
    }
    Ok(Flight::all(&recording)?)
}

fn logged(path: &Path) -> Result<Vec<Flight>> {
    let recording = log::transitions(&[path.to_owned()])?;
    let name = |number: usize| format!("{}, part {}", path.display(), number + 1);
    let flights: Vec<Flight> = recording
        .segments
        .iter()
        .enumerate()
        .filter_map(|(number, segment)| Flight::from_log(&name(number), &segment.steps))
        .collect();
    if flights.is_empty() {
        bail!(
            "{}: no flight of this firmware that is in the air for four seconds without a gap; `steady log info` shows \
             what is in it",
            path.display()
        );
    }
    Ok(flights)
}
