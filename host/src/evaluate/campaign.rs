//! A campaign: flights with noise, gains learned from them, round by round, as with a drone.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use steady_common::exploration::Exploration;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::{REWARD_CONSTANT, RewardWeights};
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

/// Gains whose flights earn less than the best ones so far by more than this part of it are given up.
const TOLERANCE: f64 = 0.05;

/// A difference of so many standard deviations is clear.
const CLEARLY: f64 = 2.0;

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
    /// False when the flights did not become clearly better: then these are the gains of the start.
    pub is_kept: bool,
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
    /// Whether the round flew so much worse than an earlier one that the step starts from that one's gains.
    pub rolled_back: bool,
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
    let start = table.gains;
    let mut best = (start, f64::NEG_INFINITY);
    let mut flown_rewards = Vec::new();
    for round in 0..mission.rounds {
        // Flights that do not divide evenly are flown early.
        let so_far = |r: usize| (r * mission.flights).div_ceil(mission.rounds);
        let (from, to) = (so_far(round), so_far(round + 1));
        let (flights, crashes) = mission.explore(&table, from..to);
        let newest = flights.iter().max_by_key(|f| f.steps.len()).cloned();
        let flown = table.gains;
        let rewards = rewards_per_step(&flights, crashes);
        let rolled_back = give_up(&mut table, &mut best, mean(&rewards));
        if rolled_back {
            adapter.theta = theta_of(&table.gains);
        }
        adapter.add(flights);
        flown_rewards.push(rewards);
        let learned = Learned { flights: to, crashes, rolled_back, ..Learned::default() };
        let learned = match newest {
            None => Learned { refused: Some("no flight was long enough".to_owned()), ..learned },
            Some(flight) => {
                let before = adapter.theta;
                let found = adapter.round(1.0);
                let worlds = Consistent::with(&flight, &flown, &table.vehicle, 1);
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
    let is_kept = paid_off(&flown_rewards);
    let gains = if is_kept { table.gains } else { start };
    Ok(Campaign { gains: gains.to_array(), is_kept, rounds, discovery })
}

/// Mean reward of a control step of each flight, without the constant; of crashes there is nothing worse.
fn rewards_per_step(flights: &[Flight], crashes: usize) -> Vec<f64> {
    if crashes > 0 || flights.is_empty() {
        return vec![f64::NEG_INFINITY];
    }
    let reward = |f: &Flight| f.reward(&RewardWeights::PAPER) / f.steps.len() as f64;
    flights.iter().map(|f| reward(f) - f64::from(REWARD_CONSTANT)).collect()
}

/// Whether the flights of the last round earned clearly more than those of the first, which is how one knows that
/// learning works here. A single round says nothing against it.
fn paid_off(rounds: &[Vec<f64>]) -> bool {
    let [first, .., last] = rounds else { return true };
    let (mut squares, mut freedom) = (0.0, 0.0);
    for round in rounds.iter().filter(|r| r.iter().all(|v| v.is_finite())) {
        squares += round.iter().map(|v| (v - mean(round)).powi(2)).sum::<f64>();
        freedom += round.len() as f64 - 1.0;
    }
    let of_one = squares / freedom.max(1.0);
    let of_both = of_one * (1.0 / first.len() as f64 + 1.0 / last.len() as f64);
    mean(last) > mean(first) + CLEARLY * of_both.sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Puts the best gains so far back into a table that flew clearly worse; true if it did.
fn give_up(table: &mut GainTable, best: &mut (Gains, f64), reward: f64) -> bool {
    if reward > best.1 {
        *best = (table.gains, reward);
    }
    let is_worse = reward < best.1 - TOLERANCE * best.1.abs();
    if is_worse {
        table.gains = best.0;
    }
    is_worse
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_that_fly_clearly_worse_are_given_up() {
        let good = GainTable::built_in();
        let mut best = (good.gains, f64::NEG_INFINITY);
        let mut table = good;
        assert!(!give_up(&mut table, &mut best, -1.0));
        let mut other = good.gains.to_array();
        other[1] *= 2.0;
        for (reward, is_worse) in [(-1.04, false), (-1.06, true), (f64::NEG_INFINITY, true)] {
            table.gains = Gains::from_array(other);
            assert_eq!(give_up(&mut table, &mut best, reward), is_worse, "{reward}");
            assert_eq!(table.gains == good.gains, is_worse, "{reward}");
        }
        assert!(!give_up(&mut table, &mut best, -0.9) && best.1 == -0.9);
    }

    #[test]
    fn only_what_clearly_flies_better_is_kept() {
        let noisy = |mean: f64| vec![mean - 0.1, mean + 0.1];
        assert!(paid_off(&[noisy(-1.0)]), "a single round has nothing against it");
        assert!(paid_off(&[noisy(-1.0), noisy(-0.8), noisy(-0.6)]));
        assert!(!paid_off(&[noisy(-1.0), noisy(-0.6), noisy(-0.9)]));
        assert!(!paid_off(&[noisy(-1.0), vec![f64::NEG_INFINITY]]));
        assert!(paid_off(&[vec![f64::NEG_INFINITY], noisy(-1.0)]));
        assert!(paid_off(&[vec![-1.0], vec![-0.9]]), "single flights are compared as they are");
    }
}
