//! What learns from flights.

use std::path::{Path, PathBuf};

use anyhow::Result;
use steady_common::GainTable;
#[cfg(feature = "train")]
use steady_learn::LoggedFlight;
#[cfg(feature = "train")]
use steady_learn::cma::{clamp, gains_of, theta_of};

/// Something that learns from flights.
pub trait Learner: Sync {
    /// The table to begin with: the simulator's.
    fn first_table(&self) -> Result<GainTable>;

    /// A better table from folders with logs, within `scale` times the usual trust region; `None` when
    /// nothing better was found. Leaves what it found in `folder`.
    fn adapt(&self, logs: &[PathBuf], scale: f32, folder: &Path) -> Result<Option<GainTable>>;
}

/// Learns with the skills of a run, as `steady adapt` does.
#[cfg(feature = "train")]
#[derive(Clone, Debug)]
pub struct SkillLearner {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// Use the simulator's skills alone.
    pub transfer_only: bool,
    /// Changed settings of the adaptation, as `KEY=VALUE`.
    pub changes: Vec<String>,
    /// What is flown.
    pub course: Option<steady_sim::script::Course>,
    /// Seed of everything random.
    pub seed: u64,
    pub threads: usize,
}

#[cfg(feature = "train")]
impl SkillLearner {
    pub fn new(run: &Path, settings: &super::Settings, threads: usize) -> Self {
        Self {
            run: run.to_owned(),
            transfer_only: settings.transfer_only,
            changes: settings.changes.clone(),
            // A task that cannot be read is refused by who flies it.
            course: settings.task.parse().ok(),
            seed: settings.seed,
            threads,
        }
    }
}

#[cfg(feature = "train")]
impl Learner for SkillLearner {
    fn first_table(&self) -> Result<GainTable> {
        first_table(&self.run)
    }

    fn adapt(&self, logs: &[PathBuf], scale: f32, folder: &Path) -> Result<Option<GainTable>> {
        let adaptation = crate::adapt::adapt(&crate::adapt::AdaptOptions {
            run: self.run.clone(),
            logs: logs.to_vec(),
            transfer_only: self.transfer_only,
            changes: self.changes.clone(),
            course: self.course.clone(),
            scale,
            seed: self.seed,
            threads: self.threads,
        })?;
        adaptation.save(folder)?;
        Ok((adaptation.report.step > 0.0).then_some(adaptation.table))
    }
}

/// Tries gains nearby, without any model: an evolution strategy of one parent and one child, which the loop's judging
/// flights choose between.
#[cfg(feature = "train")]
#[derive(Clone, Debug)]
pub struct DirectSearch {
    /// Run folder of `steady train`, for the first table.
    pub run: PathBuf,
    /// Seed of the changes.
    pub seed: u64,
}

/// Standard deviation of the changes of the gains' logarithms.
#[cfg(feature = "train")]
const DIRECT_STEP: f32 = 0.15;

#[cfg(feature = "train")]
impl Learner for DirectSearch {
    fn first_table(&self) -> Result<GainTable> {
        first_table(&self.run)
    }

    fn adapt(&self, logs: &[PathBuf], _scale: f32, _folder: &Path) -> Result<Option<GainTable>> {
        let Some(flight) = newest(logs)? else { return Ok(None) };
        let mut rng = steady_sim::Rng::new(self.seed, logs.len() as u64);
        let mut theta = theta_of(&flight.table.gains).map(|t| t + DIRECT_STEP * rng.normal());
        clamp(&mut theta);
        Ok(Some(GainTable { gains: gains_of(&theta), ..flight.table }))
    }
}

/// Moves gains down the newest flight's errors by the sensitivities that the training's world has along it, as DiffTune
/// does.
#[cfg(feature = "train")]
#[derive(Clone, Debug)]
pub struct Gradient {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// What is flown.
    pub course: steady_sim::script::Course,
}

#[cfg(feature = "train")]
impl Learner for Gradient {
    fn first_table(&self) -> Result<GainTable> {
        first_table(&self.run)
    }

    fn adapt(&self, logs: &[PathBuf], scale: f32, _folder: &Path) -> Result<Option<GainTable>> {
        let Some(flight) = newest(logs)? else { return Ok(None) };
        let world = steady_sim::World::load(&crate::train::run::load(&self.run, 1)?.config.world)?;
        let path = steady_learn::search::Path::Task(self.course.clone());
        let theta = steady_learn::gradient::follow(&flight, &world, &path, scale)?;
        Ok(theta.map(|theta| GainTable { gains: gains_of(&theta), ..flight.table }))
    }
}

#[cfg(feature = "train")]
fn first_table(run: &Path) -> Result<GainTable> {
    crate::gains_file::load(&run.join("gains.bin").to_string_lossy())
}

#[cfg(feature = "train")]
fn newest(logs: &[PathBuf]) -> Result<Option<LoggedFlight>> {
    let Some(last) = logs.last() else { return Ok(None) };
    crate::adapt::simulator::newest(last)
}
