//! `steady adapt` as a teacher.

use std::path::{Path, PathBuf};

use anyhow::Result;
use steady_common::GainTable;

use super::stage::Teacher;
use crate::adapt::config::Config;
use crate::adapt::run::AdaptCmd;
use crate::gains_file;

/// Learns with the skills of a run.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// The simulator's skills alone.
    pub transfer_only: bool,
    /// Changed settings, as `KEY=VALUE`.
    pub changes: Vec<String>,
    /// Random numbers of everything.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
}

impl Teacher for Adaptation {
    fn simulator(&self) -> Result<GainTable> {
        gains_file::load(&self.run.join("gains.bin").to_string_lossy())
    }

    fn adapt(&self, logs: &[PathBuf], scale: f32, folder: &Path) -> Result<Option<GainTable>> {
        let mut changes = self.changes.clone();
        if scale < 1.0 {
            let Config { step, fast_step, .. } = Config::with(&changes)?;
            changes.extend([format!("step={}", scale * step), format!("fast_step={}", scale * fast_step)]);
        }
        let cmd = AdaptCmd {
            run: self.run.clone(),
            logs: logs.to_vec(),
            transfer_only: self.transfer_only,
            changes,
            seed: self.seed,
            seeds: 1,
            resume: false,
            out: folder.to_owned(),
            threads: self.threads,
            json: false,
        };
        let (table, report) = cmd.adapt()?;
        Ok((report.step > 0.0).then_some(table))
    }
}
