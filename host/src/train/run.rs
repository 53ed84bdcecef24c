//! A training in its folder: configuration, checkpoints, metrics, gains and results.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rayon::ThreadPoolBuilder;
use serde::{Deserialize, Serialize};
use steady_common::Gains;
use steady_common::gain_table::GainTable;
use steady_common::gains::BOUNDS_ID;

use super::config::Config;
use super::curve;
use super::flown::{self, Flown};
use super::summary::{self, Summary};
use super::trainer::{RoundMetrics, Trainer};
use crate::checkpoint::Store;
pub(crate) use crate::interrupt;
use crate::provenance::Provenance;
use crate::tensorboard::EventFile;
use crate::{files, gains_file};

const RESULT: &str = "result.json";
const CONFIG: &str = "config.toml";
const PROVENANCE: &str = "provenance.json";
const CHECKPOINTS: &str = "checkpoints";
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TrainingResult {
    pub(crate) seed: u64,
    pub(crate) folder: PathBuf,
    pub(crate) nominal_return: f64,
    /// Mean return of the learned gains, on initial states they were not chosen by.
    pub(crate) learned_return: f64,
    pub(crate) standard_error: f64,
    /// Fraction of the learned gains' episodes that crashed.
    pub(crate) crashed: f64,
    /// What whole flights in random worlds made of them.
    pub(crate) flown: Option<Flown>,
    pub(crate) seconds: f64,
    pub(crate) transitions: u64,
    /// False when it was interrupted.
    pub(crate) complete: bool,
}

/// Trains until the end or Ctrl-C, with checkpoints in between; a complete run has a summary of its skills.
pub(crate) fn train(
    mut trainer: Trainer,
    folder: &Path,
    mut progress: impl FnMut(&RoundMetrics),
) -> Result<(TrainingResult, Option<Summary>)> {
    let started = Instant::now();
    let mut saved = Instant::now();
    let store = Store::open(&folder.join(CHECKPOINTS))?;
    let mut log = Log::open(folder, trainer.rounds_done())?;
    interrupt::expect_saving();
    while !trainer.is_done() && !interrupt::asked() {
        let metrics = trainer.round();
        log.add(&metrics)?;
        progress(&metrics);
        if saved.elapsed() > CHECKPOINT_INTERVAL {
            store.save(trainer.rounds_done() as u64, |path| trainer.save(path))?;
            saved = Instant::now();
        }
    }
    store.save(trainer.rounds_done() as u64, |path| trainer.save(path))?;
    let gains = trainer.best_gains();
    let (nominal, learned) = (trainer.judge(&Gains::nominal()), trainer.judge(&gains));
    let mut table = table(&gains, &trainer);
    let mut flown = None;
    let Config { flown_worlds, flown_steps, .. } = trainer.config;
    if trainer.is_done() && flown_worlds > 0 {
        let pool = ThreadPoolBuilder::new().num_threads(trainer.threads).build()?;
        let (gains, standing) =
            pool.install(|| flown::improve(&table, flown_worlds, flown_steps, trainer.seed))?;
        (table.gains, flown) = (gains, Some(standing));
    }
    write_gains(folder, &table)?;
    let result = TrainingResult {
        seed: trainer.seed,
        folder: folder.to_owned(),
        nominal_return: nominal.mean_return,
        learned_return: learned.mean_return,
        standard_error: learned.standard_error,
        crashed: learned.crashed,
        flown,
        seconds: started.elapsed().as_secs_f64(),
        transitions: trainer.replay.pushed(),
        complete: trainer.is_done(),
    };
    files::write_json(&folder.join(RESULT), &result)?;
    if !result.complete {
        return Ok((result, None));
    }
    curve::draw(folder, &[folder.to_owned()], result.nominal_return)?;
    let summary = summary::summarise(&trainer)?;
    summary.save(folder)?;
    Ok((result, Some(summary)))
}

/// Whether a run folder holds a training that went to its end.
pub(crate) fn is_complete(folder: &Path) -> bool {
    let result = std::fs::read(folder.join(RESULT)).unwrap_or_default();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap_or_default();
    result["complete"] == true
}

/// Trains into a folder from where it was left; false when it was interrupted.
pub(crate) fn train_into(folder: &Path, config: &Config, seed: u64, threads: usize) -> Result<bool> {
    let has_begun = folder.join(CONFIG).exists() && folder.join(PROVENANCE).exists();
    let trainer = if has_begun {
        load(folder, threads)?
    } else {
        // A run of which only the configuration was written has not begun.
        let _ = std::fs::remove_file(folder.join(CONFIG));
        begin(folder, config, seed)?;
        Trainer::new(config.clone(), seed, threads)?
    };
    ensure!(
        trainer.config == *config && trainer.seed == seed,
        "{}: this run has another configuration or seed; give another folder",
        folder.display()
    );
    Ok(train(trainer, folder, |_| {})?.0.complete)
}

pub(crate) fn begin(folder: &Path, config: &Config, seed: u64) -> Result<()> {
    files::make_folder(folder)?;
    ensure!(
        !folder.join(CONFIG).exists(),
        "{} already holds a run: continue it with --resume, or give another --out",
        folder.display()
    );
    files::write(&folder.join(CONFIG), config.to_toml().as_bytes())?;
    files::write_json(&folder.join(PROVENANCE), &Provenance::of_this_run(seed))
}

/// A run from its folder, at its newest intact checkpoint or at its beginning.
pub fn load(folder: &Path, threads: usize) -> Result<Trainer> {
    let config = std::fs::read_to_string(folder.join(CONFIG))
        .with_context(|| format!("{} is not a run folder: it has no {CONFIG}", folder.display()))?;
    let mut trainer = Trainer::new(Config::from_toml(&config)?, seed_of(folder)?, threads)?;
    let found = Store::open(&folder.join(CHECKPOINTS))?.find()?;
    for damaged in &found.damaged {
        eprintln!("{damaged}; the one before it is used");
    }
    if let Some(checkpoint) = found.newest {
        trainer.load(&checkpoint.data)?;
    }
    Ok(trainer)
}

pub(crate) fn seed_of(folder: &Path) -> Result<u64> {
    #[derive(Deserialize)]
    struct Seed {
        seed: u64,
    }
    let path = folder.join(PROVENANCE);
    let Seed { seed } = serde_json::from_str(&files::read_text(&path)?)
        .with_context(|| format!("{}: has no seed", path.display()))?;
    Ok(seed)
}

fn table(gains: &Gains, trainer: &Trainer) -> GainTable {
    GainTable {
        sequence: 1,
        bounds_id: BOUNDS_ID,
        source: run_id(trainer),
        vehicle: trainer.task.vehicle,
        gains: *gains,
    }
}

/// `gains.toml` for people and `gains.bin`, the page for the drone.
fn write_gains(folder: &Path, table: &GainTable) -> Result<()> {
    files::write(&folder.join("gains.toml"), gains_file::to_toml(table).as_bytes())?;
    files::write(&folder.join("gains.bin"), &table.encode())
}

/// A hash of the run's configuration and seed (FNV-1a; never 0).
fn run_id(trainer: &Trainer) -> u64 {
    let text = format!("{}{}", trainer.config.to_toml(), trainer.seed);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    hash.max(1)
}

/// `metrics.csv` and the TensorBoard events.
struct Log {
    csv: std::fs::File,
    events: EventFile,
}

impl Log {
    /// Opens the log; rounds after `keep` belong to an interrupted run and are dropped.
    fn open(folder: &Path, keep: usize) -> Result<Self> {
        let path = folder.join("metrics.csv");
        let names: Vec<&str> = RoundMetrics::default().values().iter().map(|(name, _)| *name).collect();
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let header = names.join(",") + "\n";
        let kept = old.lines().skip(1).take(keep).fold(header, |all, line| all + line + "\n");
        files::write(&path, kept.as_bytes())?;
        let csv = std::fs::OpenOptions::new().append(true).open(&path)?;
        Ok(Self { csv, events: EventFile::create(folder)? })
    }

    fn add(&mut self, metrics: &RoundMetrics) -> Result<()> {
        let values = metrics.values();
        let cell = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let row: Vec<String> = values.iter().map(|(_, value)| cell(*value)).collect();
        writeln!(self.csv, "{}", row.join(",")).context("metrics.csv: cannot be written")?;
        let scalars: Vec<(&str, f64)> = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        self.events.scalars(metrics.transitions, &scalars)
    }
}
