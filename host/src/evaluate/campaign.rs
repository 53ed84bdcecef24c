//! A campaign: flights with noise, gains learned from them, round by round, as with a drone.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use steady_common::exploration::Exploration;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_sim::Params;
use steady_sim::flight::Task;
use steady_sim::pilot::Pilot;

use crate::adapt::adapter::{Adapter, Round};
use crate::adapt::config::Config;
use crate::adapt::flights::Flight;
use crate::adapt::simulated;
use crate::adapt::worlds::{Accepted, Consistent};
use crate::train::oracle::{gains_of, theta_of};
use crate::train::run as training;

use super::judge::{self, Use};

/// Shorter pieces of flights are not learned from, control steps.
const LEAST_STEPS: usize = 500;

/// What is flown.
#[derive(Clone, Debug)]
pub struct Mission<'a> {
    /// Where.
    pub world: &'a Params,
    /// What.
    pub task: Task,
    /// Flights in all.
    pub flights: usize,
    /// Rounds.
    pub rounds: usize,
    /// Standard deviations of the noise.
    pub noise: [f32; 4],
    /// Control steps for which a draw of it is held.
    pub hold: u16,
    /// Flights without noise after every round, for the learning curve.
    pub probes: usize,
    /// Of the flights: the same for all that are compared.
    pub seed: u64,
}

/// What a campaign came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// The gains in the end.
    pub gains: [f32; GAIN_COUNT],
    /// The start and every round.
    pub rounds: Vec<Learned>,
    /// What discovery brought on the last round's data, where there was discovery.
    pub discovery: Option<Discovered>,
}

/// After a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Flights so far.
    pub flights: usize,
    /// Those of the round that crashed.
    pub crashes: usize,
    /// Part of the proposed step that was taken.
    pub part: f32,
    /// Why less than all of it.
    pub refused: Option<String>,
    /// Mean tracking error of the probes, m; nothing without probes.
    pub tracking_error_m: Option<f32>,
    /// Their mean cumulative reward.
    pub cumulative_reward: Option<f32>,
}

/// Predictions of the next state on pieces of flights that were not fitted, with the same data and gains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovered {
    /// Squared error with the simulator's skills and the new ones, relative to how far the state moves.
    pub error_with: f32,
    /// The same with the simulator's skills alone.
    pub error_without: f32,
    /// Largest normalised correlation of a new skill with one of the simulator's.
    pub correlation: f32,
    /// The same before the projection: what the penalty λ alone achieves.
    #[serde(default)]
    pub correlation_by_penalty: Option<f32>,
}

/// Learns from flights, beginning with a training's gains.
///
/// # Errors
/// If the run cannot be read.
pub fn fly(run: &Path, mission: &Mission, config: &Config) -> Result<Campaign> {
    let trainer = training::load(run, 1)?;
    crate::torch::set_threads(1);
    let mut table = GainTable {
        sequence: 1,
        vehicle: trainer.task.vehicle,
        gains: trainer.best_gains(),
        ..GainTable::built_in()
    };
    let mut adapter = Adapter::new(config.clone(), &trainer, theta_of(&table.gains), mission.seed);
    let mut rounds = vec![mission.probe(&table, Learned::default())?];
    let mut discovery = None;
    for round in 0..mission.rounds {
        // Flights that do not divide evenly are flown early.
        let so_far = |r: usize| (r * mission.flights).div_ceil(mission.rounds);
        let (from, to) = (so_far(round), so_far(round + 1));
        let (flights, crashes) = mission.explore(&table, from..to);
        let newest = flights.iter().max_by_key(|f| f.steps.len()).cloned();
        adapter.add(flights);
        let learned = Learned { flights: to, crashes, ..Learned::default() };
        let learned = match newest {
            None => Learned { refused: Some("no flight was long enough".to_owned()), ..learned },
            Some(flight) => {
                let before = adapter.theta;
                let found = adapter.round(1.0);
                let worlds = Consistent::with(&flight, &table.gains, &table.vehicle, 1);
                let Accepted { theta, part, refused, .. } =
                    worlds.accept(&before, &found.step.theta, &flight, &table);
                discovery = discovered(&found);
                adapter.theta = theta;
                let gains = if part > 0.0 { gains_of(&theta) } else { table.gains };
                table = GainTable { sequence: table.sequence + 1, gains, ..table };
                Learned { part, refused, ..learned }
            }
        };
        rounds.push(mission.probe(&table, learned)?);
    }
    Ok(Campaign { gains: table.gains.to_array(), rounds, discovery })
}

/// What discovery brought to a round's predictions, where there was discovery.
fn discovered(round: &Round) -> Option<Discovered> {
    let mean = |errors: &[f64]| (errors.iter().sum::<f64>() / errors.len().max(1) as f64) as f32;
    let skills = round.found?;
    let found = Discovered {
        error_with: mean(&round.dynamics.held_out),
        error_without: mean(&round.transfer.as_ref()?.held_out),
        correlation: skills.correlation as f32,
        correlation_by_penalty: Some(skills.correlation_by_penalty as f32),
    };
    (found.error_with.is_finite() && found.error_without.is_finite()).then_some(found)
}

impl Mission<'_> {
    /// Flights with noise, and how many of them crashed.
    fn explore(&self, table: &GainTable, indices: std::ops::Range<usize>) -> (Vec<Flight>, usize) {
        let (mut flights, mut crashes) = (Vec::new(), 0);
        for index in indices {
            let seed = Use::Learning.seed(self.seed, index);
            let exploration = Exploration {
                enabled: true,
                std: self.noise,
                hold: self.hold,
                seed: (seed ^ (seed >> 32)) as u32,
            };
            let (records, summary) = simulated::fly(self.world, table, self.task, &exploration, seed);
            let mut pieces = Flight::from_records(&records, LEAST_STEPS);
            if summary.crash.is_some() {
                crashes += 1;
                if let Some(piece) = pieces.last_mut() {
                    piece.crashed = true;
                }
            }
            flights.extend(pieces);
        }
        (flights, crashes)
    }

    /// Fills in what the probes show.
    fn probe(&self, table: &GainTable, learned: Learned) -> Result<Learned> {
        let seeds = (0..self.probes).map(|i| Use::Probe.seed(self.seed, i));
        let flown = judge::fly(self.world, pilot(&table.gains, table), self.task, seeds)?;
        let mean = |f: fn(&judge::Flown) -> f32| {
            (!flown.is_empty()).then(|| flown.iter().map(f).sum::<f32>() / flown.len() as f32)
        };
        Ok(Learned {
            tracking_error_m: mean(|f| f.tracking_error_m),
            cumulative_reward: mean(|f| f.cumulative_reward),
            ..learned
        })
    }
}

fn pilot(gains: &Gains, table: &GainTable) -> Pilot {
    Pilot::mellinger(*gains, table.vehicle)
}
