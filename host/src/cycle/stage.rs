//! The two things a loop talks to: a drone in a place to fly, and something that learns.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use steady_common::GainTable;
use steady_common::exploration::Exploration;

use crate::fly::{Controller, Tracking};

/// A drone and where it flies.
pub trait Stage: Sync {
    /// Puts a table onto the drone, reads it back and compares. `before` is the folder that the drone's
    /// state was left in the last time, none for a new drone; its state afterwards goes into `folder`.
    ///
    /// # Errors
    /// If the table is not on the drone afterwards.
    fn flash(&self, before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed>;

    /// Flies once, and brings the log and everything else that is known into `folder`.
    ///
    /// # Errors
    /// If there was no flight. A flight that ends badly is an [`Outcome`].
    fn fly(&self, flight: &Flight, folder: &Path) -> Result<Outcome>;
}

/// Something that learns from flights.
pub trait Teacher: Sync {
    /// The table to begin with.
    ///
    /// # Errors
    /// If there is none.
    fn simulator(&self) -> Result<GainTable>;

    /// A better table from folders with logs, at most `scale` times the usual step away; nothing when
    /// it would not change the present one. Leaves what it found in `folder`.
    ///
    /// # Errors
    /// If nothing can be learned from these logs.
    fn adapt(&self, logs: &[PathBuf], scale: f32, folder: &Path) -> Result<Option<GainTable>>;
}

/// A table on the drone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flashed {
    /// Its number there.
    pub sequence: u32,
    /// Its page in the table area.
    pub page: usize,
}

/// A flight that is to be flown.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Its number at its station, from 1.
    pub number: u32,
    /// Of all random numbers.
    pub seed: u64,
    /// Who flies.
    pub controller: Controller,
    /// Noise, where it is enabled.
    pub exploration: Exploration,
    /// Folder with the drone's state, as [`Stage::flash`] left it.
    pub drone: PathBuf,
    /// The drone's configuration memory after its last flight, which knows the proven tables.
    pub eeprom: Option<PathBuf>,
    /// What goes wrong.
    pub faults: Vec<String>,
    /// Free room on the drone's card, MiB; all of it if not given.
    pub card_free_mib: Option<u32>,
}

impl Flight {
    /// A flight of the differentiable law without noise.
    #[must_use]
    pub fn of(drone: PathBuf) -> Self {
        Self {
            number: 1,
            seed: 1,
            controller: Controller::Law,
            exploration: Exploration::DEFAULT,
            drone,
            eeprom: None,
            faults: Vec::new(),
            card_free_mib: None,
        }
    }
}

/// What came of a flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its number at its station, from 1.
    pub flight: u32,
    /// Its seed.
    pub seed: u64,
    /// Flown to its end and landed, without the guard.
    pub is_good: bool,
    /// What was wrong, for people.
    pub trouble: Option<String>,
    /// How well it was flown, where it was.
    pub tracking: Option<Tracking>,
    /// Control steps of the differentiable law in its logs.
    pub steps: u64,
    /// Control steps missing between those.
    pub lost: u64,
    /// Part of the time that the processor was not asleep.
    pub cpu_load: f64,
    /// A new card was put in, because the first one did not hold the log.
    pub new_card: bool,
}

/// Name of the drone's flash in the folder of its state.
pub const FLASH: &str = "flash.img";
/// Name of the configuration memory's content in a flight's folder.
pub const EEPROM: &str = "eeprom.bin";

impl Outcome {
    /// With numbers that are the same to the bit after they were written and read again.
    #[must_use]
    pub fn rounded(self) -> Self {
        let tracking = self.tracking.map(Tracking::rounded);
        Self { tracking, cpu_load: rounded(self.cpu_load), ..self }
    }
}

/// To nine decimals.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
