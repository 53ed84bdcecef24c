//! What learns from flights.

use std::path::{Path, PathBuf};

use anyhow::Result;
use steady_common::GainTable;

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
        crate::gains_file::load(&self.run.join("gains.bin").to_string_lossy())
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
