//! The simulator, corrected by flights, as the model that gains are improved in.

use std::path::{Path as FilePath, PathBuf};

use anyhow::Result;
use rayon::{ThreadPool, ThreadPoolBuilder};
use steady_common::GainTable;
use steady_common::inputs_record::Input;
use steady_learn::search::{Found, Path, Problem};
use steady_learn::{LoggedFlight, Model, model, search};
use steady_reality::Flight;
use steady_sim::World;

use crate::closed_loop::TrustRegion;
use crate::{log, recorded};

use super::AdaptOptions;
use super::config::Config;
use super::flights::FlightData;
use super::report::{Evidence, Improvement, Lacking, Prediction};
use super::worlds::{ConsistentWorlds, prediction_error};

/// Worlds of a search: those that resemble the flights most.
const SEARCHED: usize = 3;
/// The next ones check what was found, not seen by the search.
const CHECKED: usize = 20;

/// The simulator after flights.
#[derive(Debug)]
pub(super) struct Corrected {
    model: Model,
    path: Path,
    search: search::Settings,
    pool: ThreadPool,
}

/// Flights that a simulator can be corrected by: with positions, and long enough.
#[derive(Debug)]
pub(super) struct Flights {
    logged: Vec<LoggedFlight>,
    recorded: Vec<Flight>,
}

impl Flights {
    /// Those of logs; `None` if there are none.
    pub(super) fn read(logs: &[PathBuf]) -> Result<Option<Self>> {
        let (captured, cards) = recorded::split(logs)?;
        let mut logged: Vec<LoggedFlight> = Vec::new();
        let mut inputs = (PathBuf::new(), Vec::new());
        for segment in log::transitions(&cards)?.segments {
            let (Some(table), Some(last)) = (segment.gains, segment.steps.last()) else { continue };
            if !segment.steps.iter().any(|step| step.is_law_flight()) {
                continue;
            }
            if inputs.0 != segment.file {
                inputs = (segment.file.clone(), log::inputs(&segment.file)?);
            }
            let until = inputs.1.partition_point(|input: &Input| input.time_us() <= last.time_us);
            logged.push(LoggedFlight {
                name: format!("flight {}", logged.len() + 1),
                records: segment.steps,
                inputs: inputs.1[..until].to_vec(),
                table,
            });
        }
        // With too little in the air nothing is told.
        logged.retain(|flight| flight.flight(None).is_some());
        let recorded = match logged.is_empty() && !captured.is_empty() {
            true => recorded::flights_with_pose(&captured)?,
            false => Vec::new(),
        };
        let any = !logged.is_empty() || !recorded.is_empty();
        Ok(any.then_some(Self { logged, recorded }))
    }
}

/// The last flight of a log.
pub(crate) fn newest(log: &FilePath) -> Result<Option<LoggedFlight>> {
    Ok(Flights::read(&[log.to_owned()])?.and_then(|mut flights| flights.logged.pop()))
}

impl Corrected {
    /// Corrects the training's world by flights, of which `newest` is the last.
    pub(super) fn of(
        training: &World,
        flights: &Flights,
        newest: &FlightData,
        options: &AdaptOptions,
        config: &Config,
    ) -> Result<Self> {
        let path = match &options.course {
            Some(course) => Path::Task(course.clone()),
            None => Path::References(newest.steps.iter().map(|step| step.reference).collect()),
        };
        let discovery = config.discovery.then(|| config.discovery());
        let settings = model::Settings { discovery, ..model::Settings::default() };
        let pool = ThreadPoolBuilder::new().num_threads(options.threads).build()?;
        let model = pool.install(|| {
            Model::fit(training, &flights.recorded, &flights.logged, &path, &settings, options.seed)
        })?;
        Ok(Self { model, path, search: config.search(), pool })
    }

    /// Searches gains within the trust region about the present ones.
    pub(super) fn search(&self, present: &GainTable, region: &TrustRegion, options: &AdaptOptions) -> Found {
        let worlds = self.model.worlds(0..SEARCHED);
        let problem = Problem { worlds: &worlds, path: &self.path, present };
        self.pool.install(|| problem.search(&region.bounds(), &self.search, options.seed))
    }

    /// Worlds that the search did not see.
    pub(super) fn check(&self, present: &GainTable, threads: usize) -> ConsistentWorlds {
        let worlds = self.model.worlds(SEARCHED..SEARCHED + CHECKED);
        let worlds = worlds.into_iter().map(|world| (world.number, world.plant)).collect();
        ConsistentWorlds::new(worlds, &self.path, present, threads)
    }

    /// What is known of a step.
    pub(super) fn evidence(
        &self,
        found: &Found,
        flights: &[FlightData],
        length: usize,
        gap: f64,
        replayed: u64,
    ) -> Result<Evidence> {
        let Model { identified, discovered, latency_s, .. } = &self.model;
        Ok(Evidence {
            flights: flights.len(),
            steps: flights.iter().map(|f| f.steps.len()).sum(),
            replayed,
            discovery: None,
            prediction: Prediction {
                simulator: gap,
                transfer: prediction_error(&identified.world.compile_for_control()?, flights, length),
                discovery: None,
                reduction: None,
            },
            improvement: Improvement {
                present: found.present,
                predicted: found.change,
                std: found.change_std,
            },
            divergence: None,
            gradient: None,
            parameters: identified.parameters.clone(),
            latency_s: *latency_s,
            lacking: discovered.as_ref().map(|found| Lacking {
                transitions: found.transitions,
                unexplained: found.unexplained,
                left: found.left,
            }),
            trace: Vec::new(),
        })
    }
}
