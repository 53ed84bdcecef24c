//! Recorded flights of drones: CSV files with motion capture, logs of this firmware, card logs of the official one.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use steady_common::Controller;
use steady_common::usdlog::MAGIC;
use steady_reality::{Flight, Recording, closed_loop};

use crate::log;

mod card;

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

/// The same where positions are needed.
///
/// # Errors
/// Also if a file has none.
pub fn flights_with_pose(files: &[PathBuf]) -> Result<Vec<Flight>> {
    let flights = flights(files)?;
    if let Some(flight) = flights.iter().find(|flight| !flight.has_pose) {
        bail!("{}: a card's log without positions; only `steady identify` can use it", flight.name);
    }
    Ok(flights)
}

/// Files that are recorded flights with motion capture, and those that are logs of a card.
///
/// # Errors
/// If a file cannot be read.
pub fn split(files: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut captured, mut logs) = (Vec::new(), Vec::new());
    for file in files {
        let of_its_kind = if is_capture(file)? { &mut captured } else { &mut logs };
        of_its_kind.push(file.clone());
    }
    Ok((captured, logs))
}

/// A table, plain or gzipped, by its first bytes: a log begins otherwise, and so does what is neither.
fn is_capture(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    let first = first_bytes(path)?;
    Ok(first.starts_with(&[0x1f, 0x8b]) || first == *b"time_s")
}

fn first_bytes(path: &Path) -> Result<[u8; 6]> {
    let mut first = [0; 6];
    let count = File::open(path).and_then(|mut file| file.read(&mut first));
    count.with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(first)
}

/// What a recorded flight is.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Where it is from.
    pub name: String,
    /// Time in the air, s.
    pub duration_s: f32,
    /// 95 % of the time it is slower, m/s.
    pub speed_m_s: f32,
    /// Lowest and highest voltage in the air, V.
    pub battery_v: [f32; 2],
    /// Part of the time for which packets were lost.
    pub gaps: f32,
    /// Which official controller flew, if it is known.
    pub controller: Option<&'static str>,
    /// How far below the set-point it flew on average, and its distance from it, cm.
    pub droop_and_error_cm: Option<[f64; 2]>,
}

impl Summary {
    /// Of a flight.
    pub fn of(flight: &Flight) -> Self {
        let samples = flight.in_air();
        let mut speeds: Vec<f32> = samples.iter().map(|s| s.state.velocity.norm()).collect();
        speeds.sort_by(f32::total_cmp);
        let volts = samples.iter().map(|s| s.battery_v);
        let lost = samples.iter().filter(|s| s.has_gap).count();
        let followed = closed_loop::flown(flight);
        Self {
            name: flight.name.clone(),
            duration_s: flight.duration_s(),
            speed_m_s: speeds.get(speeds.len() * 95 / 100).copied().unwrap_or_default(),
            battery_v: [volts.clone().fold(f32::INFINITY, f32::min), volts.fold(0.0, f32::max)],
            gaps: lost as f32 / samples.len().max(1) as f32,
            controller: flight.controller.map(Controller::name),
            droop_and_error_cm: followed.map(|b| [b.droop_cm, b.tracking_error_cm]),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.battery_v;
        write!(
            f,
            "{}: {:.1} s in the air, {:.2} m/s, battery {low:.2} to {high:.2} V",
            self.name, self.duration_s, self.speed_m_s
        )?;
        write!(f, ", {:.1} % filled in over lost packets", 100.0 * self.gaps)?;
        if let Some(controller) = self.controller {
            write!(f, ", flown by {controller}")?;
        }
        if let Some([droop, error]) = self.droop_and_error_cm {
            write!(f, ", {droop:.1} cm below the set-point and {error:.1} cm from it")?;
        }
        Ok(())
    }
}

/// A card's log by its first byte, or a folder of them.
fn is_log(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(true);
    }
    Ok(first_bytes(path)?[0] == MAGIC)
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
    if recording.segments.is_empty() {
        return card::flights(&log::find(&[path.to_owned()])?.logs);
    }
    if flights.is_empty() {
        bail!(
            "{}: no flight of this firmware that is in the air for four seconds without a gap; `steady log info` shows \
             what is in it",
            path.display()
        );
    }
    Ok(flights)
}
