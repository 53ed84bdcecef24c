//! The real-world stage (the paper's sections IV-B and IV-C): from logged flights to better gains.
//!
//! [`flights`] windows log records into transitions ([`official`] those of the official firmware), [`discovery`]
//! learns the skills that the simulator lacks, [`dynamics`] predicts the next state with all skills, [`rollout`]
//! predicts flights with other gains, [`improvement`] finds the best of those in the trust region, and [`worlds`]
//! flies the result in simulated worlds that resemble the data. [`simulator`] is the way that is taken by default: the
//! simulator itself, corrected by the flights, and gains searched in it. [`adapt`] puts it together.

pub mod adapter;
pub mod config;
pub mod discovery;
pub mod dynamics;
pub mod flights;
pub mod improvement;
pub mod official;
pub mod report;
pub mod rollout;
pub mod simulator;
pub mod worlds;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use steady_common::GainTable;
use steady_sim::World;
use steady_sim::script::Course;

use crate::log::replay::replay;
use crate::log::{self, Log};
use crate::train::oracle::{gains_of, theta_of};
use crate::train::run as training;
use crate::train::trainer::Trainer;
use crate::{files, gains_file, recorded};

use adapter::Adapter;
use config::{Config, Model};
use flights::{FlightData, Windowing};
pub use report::AdaptReport;
use report::Evidence;
use worlds::{ConsistentWorlds, prediction_error};

/// Shorter pieces of flights are not used, s.
const MIN_FLIGHT_S: f32 = 2.0;

#[derive(Clone, Debug)]
pub struct AdaptOptions {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// Logs of flights: files, or folders with logs in them.
    pub logs: Vec<PathBuf>,
    /// Use the simulator's skills alone, without discovery.
    pub transfer_only: bool,
    /// Changed settings, as `KEY=VALUE`.
    pub changes: Vec<String>,
    /// What was flown; the newest flight's references if it is not known.
    pub course: Option<Course>,
    /// Scale of the trust region.
    pub scale: f32,
    /// Seed of everything random.
    pub seed: u64,
    pub threads: usize,
}

/// A new table, and how it was found.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// The table; the present one's gains when no step was accepted.
    pub table: GainTable,
    /// What was found.
    pub report: AdaptReport,
}

impl Adaptation {
    /// Writes the table and the report.
    pub fn save(&self, folder: &Path) -> Result<()> {
        files::make_folder(folder)?;
        files::write(&folder.join("gains.toml"), gains_file::to_toml(&self.table).as_bytes())?;
        files::write(&folder.join("gains.bin"), &self.table.encode())?;
        files::write_json(&folder.join(report::NAME), &self.report)
    }
}

/// Adapts the gains that flew last to the logged flights.
pub fn adapt(options: &AdaptOptions) -> Result<Adaptation> {
    let mut config = Config::with(&options.changes)?;
    config.discovery &= !options.transfer_only;
    let trainer = training::load(&options.run, options.threads)?;
    let replayed = check_replay(&options.logs)?;
    let iterations = iterations(&options.logs, &trainer)?;
    let (present, newest) = iterations.last().context(
        "there is nothing to learn from: no log has two seconds of flight with the differentiable law and known \
         gains (`steady log info` shows what is in them)",
    )?;
    let present = *present;
    let flight = newest.iter().max_by_key(|f| f.steps.len()).context("no flight")?.clone();
    let theta = theta_of(&present.gains);
    let training = World::load(&trainer.config.world)?;
    let simulator = training.compile_for_control()?;
    // Logs of other firmware without positions tell the simulator too little: what skills predict is left.
    let flights = match config.model {
        Model::Simulator => simulator::Flights::read(&options.logs)?,
        Model::Skills => None,
    };
    config.model = if flights.is_some() { Model::Simulator } else { Model::Skills };
    let (region, model) = (config.trust_region(options.scale), config.model);
    let (evidence, proposed, worlds) = match &flights {
        None => {
            let mut adapter = Adapter::new(config, &trainer, theta, options.seed);
            for (number, (_, flights)) in iterations.into_iter().enumerate() {
                adapter.add(number, flights);
            }
            let length = Windowing::of(&trainer.task).steps_per_transition(&adapter.flights);
            let gap = prediction_error(&simulator, &adapter.flights, length);
            let learned = adapter.learn(&region);
            let worlds = ConsistentWorlds::find(&flight, &present, options.threads)?;
            (Evidence::of_skills(&adapter, &learned, gap, replayed), learned.step.theta, worlds)
        }
        Some(corrected_by) => {
            let flights: Vec<FlightData> = iterations.into_iter().flat_map(|(_, flights)| flights).collect();
            let corrected = simulator::Corrected::of(&training, corrected_by, &flight, options, &config)?;
            let found = corrected.search(&present, &region, options);
            let length = Windowing::of(&trainer.task).steps_per_transition(&flights);
            let gap = prediction_error(&simulator, &flights, length);
            let evidence = corrected.evidence(&found, &flights, length, gap, replayed)?;
            (evidence, found.theta, corrected.check(&present, options.threads))
        }
    };
    let accepted = worlds.accept(&theta, &proposed)?;
    // A step that was refused leaves the table's own bits.
    let gains = if accepted.part > 0.0 { gains_of(&accepted.theta) } else { present.gains };
    let table = GainTable { sequence: present.sequence + 1, gains, ..present };
    let report = AdaptReport::new(model, evidence, accepted, &present, &table);
    Ok(Adaptation { table, report })
}

/// Flights by the gains that they flew, in the order in which these were on the drone.
fn iterations(logs: &[PathBuf], trainer: &Trainer) -> Result<Vec<(GainTable, Vec<FlightData>)>> {
    let mut iterations: Vec<(GainTable, Vec<FlightData>)> = Vec::new();
    let (captured, logs) = &recorded::split(logs)?;
    for segment in &log::transitions(logs)?.segments {
        let Some(table) = segment.gains else { continue };
        let mut records: Vec<_> = segment.before.into_iter().collect();
        records.extend_from_slice(&segment.steps);
        let dt_s = segment.steps.first().map_or(0.002, |s| s.dt_s);
        let flights = FlightData::from_records(&records, (MIN_FLIGHT_S / dt_s.max(1e-4)) as usize);
        // A table that was restored has another number and the same gains.
        let same = |(t, _): &&mut (GainTable, _)| (t.gains, t.vehicle) == (table.gains, table.vehicle);
        match iterations.iter_mut().find(same) {
            Some((latest, all)) => {
                if table.sequence > latest.sequence {
                    *latest = table;
                }
                all.extend(flights);
            }
            None => iterations.push((table, flights)),
        }
    }
    iterations.retain(|(_, flights)| !flights.is_empty());
    if iterations.is_empty() {
        // Not this firmware's logs: the run's gains are the ones to begin with.
        let table =
            GainTable { vehicle: trainer.task.vehicle, gains: trainer.best_gains(), ..GainTable::built_in() };
        let mut flights = official::flights(logs, &table.gains, &table.vehicle, MIN_FLIGHT_S)?;
        for flight in recorded::flights(captured)? {
            flights.push(official::captured(&flight, &table.gains, &table.vehicle)?);
        }
        if !flights.is_empty() {
            iterations.push((table, flights));
        }
    }
    iterations.sort_by_key(|(table, _)| table.sequence);
    Ok(iterations)
}

/// Replays every control step of the logs: nothing is learned from logs that the law does not reproduce.
fn check_replay(logs: &[PathBuf]) -> Result<u64> {
    let mut replayed = 0;
    // Recorded flights have no control steps to replay.
    for path in log::find(&recorded::split(logs)?.1)?.logs {
        let found = replay(&mut Log::open(&path)?, &[])?;
        ensure!(
            found.differing_bits == 0 && found.differing_memory_bits == 0,
            "{}: does not replay to the logged bits; `steady log replay` shows where",
            path.display()
        );
        replayed += found.replayed;
    }
    Ok(replayed)
}
