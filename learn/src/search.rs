//! Policy synthesis: gains searched in simulated worlds, each flown whole by the native drone, so that sensor noise,
//! filters and delays have their price.

use rayon::prelude::*;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains, Reference};
use steady_native::{Flown, Plan, Sample, Until};
use steady_sim::script::Course;
use steady_sim::{PlantParams, Task};

use crate::cma::{Search, Theta, clamp, climb, gains_of, theta_of};

/// What a failed flight costs while gains are searched: not all, so that the way may lead along where flights fail.
const FAILED: f64 = 300.0;

/// Reward of a flight that has none.
const NO_REWARD: f64 = -1e5;

/// Settings of a search.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Candidates in a generation.
    pub population: usize,
    /// Generations.
    pub generations: usize,
    /// First standard deviation of the gains' logarithms.
    pub sigma: f32,
    /// Penalty on the squared change of the gains' logarithms: a change that brings nothing is not made.
    pub l2_penalty: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { population: 12, generations: 40, sigma: 0.25, l2_penalty: 2.0 }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The new gains.
    pub theta: Theta,
    /// Reward of a flight with the present gains, over the worlds.
    pub present: f64,
    /// Change of it.
    pub change: f64,
    /// Its standard deviation over worlds.
    pub change_std: f64,
    /// Worlds in which the flight fails with the new gains.
    pub failed: usize,
}

/// What is flown.
#[derive(Clone, Debug)]
pub enum Path {
    /// A task, from the floor to the floor, of which the task's part counts.
    Task(Course),
    /// References of a log, all of which count.
    References(Vec<Reference>),
}

impl Path {
    /// A flight by the native drone.
    pub fn fly(&self, plant: &PlantParams, plan: &Plan, sample: impl FnMut(&Sample)) -> Flown {
        match self {
            Self::Task(course) => steady_native::fly_course(plant, plan, course.clone(), sample),
            Self::References(references) => steady_native::fly_references(plant, plan, references, sample),
        }
    }
}

/// The worlds of a search, by their seeds, and what is flown in them.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// With the seeds of their flights.
    pub worlds: &'a [(u64, PlantParams)],
    /// What is flown, until it has landed: hard loops show at touchdown first.
    pub path: &'a Path,
    /// Its gains are the ones to begin with.
    pub present: &'a GainTable,
}

impl Problem<'_> {
    fn fly(&self, gains: &Gains, world: usize) -> Judged {
        let (seed, plant) = &self.worlds[world];
        let table = GainTable { gains: *gains, ..*self.present };
        let plan = Plan { table, seed: *seed, until: Until::Landed, ..Plan::new(Task::Hover) };
        let flown = self.path.fly(plant, &plan, |_| {});
        let crashed = flown.metrics.is_none_or(|m| m.crash.is_some());
        let reward = flown.metrics.map(|m| m.cumulative_reward).filter(|r| r.is_finite());
        Judged {
            reward: reward.unwrap_or(NO_REWARD),
            failed: crashed || flown.guard_tripped || flown.failure.is_some(),
        }
    }

    /// Flights in every world, for each of the gains.
    fn fly_all(&self, thetas: &[Theta]) -> Vec<Vec<Judged>> {
        let count = self.worlds.len().max(1);
        let flown: Vec<Judged> = (0..thetas.len() * self.worlds.len())
            .into_par_iter()
            .map(|i| self.fly(&gains_of(&thetas[i / count]), i % count))
            .collect();
        flown.chunks(count).map(<[Judged]>::to_vec).collect()
    }

    /// Searches gains within bounds of their logarithms' change.
    #[must_use]
    pub fn search(&self, bounds: &[f64; GAIN_COUNT], settings: &Settings, seed: u64) -> Found {
        let start = theta_of(&self.present.gains);
        let inside = |theta: &Theta| -> Theta {
            let mut inside: Theta = std::array::from_fn(|i| {
                let bound = bounds[i] as f32;
                start[i] + (theta[i] - start[i]).clamp(-bound, bound)
            });
            clamp(&mut inside);
            inside
        };
        let price = |theta: &Theta| {
            let squared: f32 = theta.iter().zip(start).map(|(t, s)| (t - s).powi(2)).sum();
            settings.l2_penalty * f64::from(squared)
        };
        // With the present gains the drone flew, whatever the worlds say.
        let (mut best, mut fails, mut value) = (start, usize::MAX, f64::NEG_INFINITY);
        let judge = |thetas: &[Theta]| -> Vec<f64> {
            let thetas: Vec<Theta> = thetas.iter().map(inside).collect();
            let flown = self.fly_all(&thetas);
            flown
                .iter()
                .zip(&thetas)
                .map(|(flown, theta)| {
                    let failed = flown.iter().filter(|f| f.failed).count();
                    let reward = mean(&rewards(flown)) - price(theta);
                    if failed < fails || failed == fails && reward > value {
                        (best, fails, value) = (*theta, failed, reward);
                    }
                    reward - FAILED * failed as f64 / flown.len().max(1) as f64
                })
                .collect()
        };
        let Settings { population, generations, sigma, .. } = *settings;
        climb(start, &Search { population, generations, sigma, seed }, judge, |_, _| {});
        let theta = best;
        let both: Vec<Vec<f64>> = self.fly_all(&[start, theta]).iter().map(|f| rewards(f)).collect();
        let changes: Vec<f64> = both[1].iter().zip(&both[0]).map(|(after, before)| after - before).collect();
        let change = mean(&changes);
        let variance = mean(&changes.iter().map(|c| (c - change).powi(2)).collect::<Vec<_>>());
        Found { theta, present: mean(&both[0]), change, change_std: variance.sqrt(), failed: fails }
    }
}

/// A flight in the search.
#[derive(Clone, Copy, Debug)]
struct Judged {
    reward: f64,
    failed: bool,
}

fn rewards(flown: &[Judged]) -> Vec<f64> {
    flown.iter().map(|f| f.reward).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
