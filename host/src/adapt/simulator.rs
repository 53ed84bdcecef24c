//! The simulator, corrected by flights, as the model that gains are improved in.

use anyhow::{Result, ensure};
use rayon::{ThreadPool, ThreadPoolBuilder};
use steady_common::GainTable;
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
const CHECKED: usize = 6;

/// The simulator after flights.
#[derive(Debug)]
pub(super) struct Corrected {
    model: Model,
    path: Path,
    pool: ThreadPool,
}

impl Corrected {
    /// Corrects the training's world by logs; `flight` is the newest.
    pub(super) fn of(
        training: &World,
        options: &AdaptOptions,
        config: &Config,
        flight: &FlightData,
    ) -> Result<Self> {
        let logged = logged_flights(options)?;
        let mut flights: Vec<Flight> = logged.iter().filter_map(LoggedFlight::flight).collect();
        if logged.is_empty() {
            flights = recorded::flights_with_pose(&options.logs)?;
        }
        ensure!(
            !flights.is_empty(),
            "there is nothing to identify from: no flight is four seconds in the air"
        );
        let path = match &options.course {
            Some(course) => Path::Task(course.clone()),
            None => Path::References(flight.steps.iter().map(|step| step.reference).collect()),
        };
        let discovery = config.discovery.then(|| config.discovery());
        let settings = model::Settings { discovery, ..model::Settings::default() };
        let pool = ThreadPoolBuilder::new().num_threads(options.threads).build()?;
        let model = pool.install(|| Model::fit(training, &flights, &logged, &path, &settings, options.seed))?;
        Ok(Self { model, path, pool })
    }

    /// Searches gains within the trust region about the present ones.
    pub(super) fn search(&self, present: &GainTable, region: &TrustRegion, options: &AdaptOptions) -> Found {
        let worlds = self.model.plants(0..SEARCHED);
        let problem = Problem { worlds: &worlds, path: &self.path, present };
        self.pool.install(|| problem.search(&region.bounds(), &search::Settings::default(), options.seed))
    }

    /// Worlds that the search did not see.
    pub(super) fn check(&self, present: &GainTable, threads: usize) -> ConsistentWorlds {
        let worlds = self.model.plants(SEARCHED..SEARCHED + CHECKED);
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

/// Flights of this firmware's logs whose gains are known, in the order in which they were flown.
fn logged_flights(options: &AdaptOptions) -> Result<Vec<LoggedFlight>> {
    let mut logged = Vec::new();
    for segment in log::transitions(&recorded::split(&options.logs)?.1)?.segments {
        let Some(table) = segment.gains else { continue };
        if segment.steps.iter().any(|step| step.is_law_flight()) {
            let name = format!("flight {}", logged.len() + 1);
            logged.push(LoggedFlight { name, records: segment.steps, table });
        }
    }
    Ok(logged)
}
