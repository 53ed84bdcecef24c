//! Policy synthesis: gains searched in simulated worlds, each flown whole by the native drone, so that sensor noise,
//! filters and delays have their price.

use rayon::prelude::*;
use serde::Serialize;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains, Reference};
use steady_native::{Flown, Plan, Sample, Until};
use steady_sim::residual::Residual;
use steady_sim::script::Course;
use steady_sim::{PlantParams, Task, World, WorldError};

use crate::cma::{Theta, clamp, gains_of, theta_of};
use crate::newton::{self, Differences, Track};

/// What a failed flight costs beside its reward.
const FAILED: f64 = 300.0;

/// Reward of a flight that has none.
const NO_REWARD: f64 = -1e5;

/// Number of the first flight that chooses.
const CHOICE: u64 = 1 << 20;

/// What a strained world has more than the one that it is made from: commands come later, s, and so does motion
/// capture, s, which stops this often, 1/s, and for so long on average, s. Gains that fly well here are not at an edge.
const LATER_COMMANDS_S: f32 = 0.001;
const LATER_MOCAP_S: f32 = 0.005;
const DROPOUTS_PER_S: f32 = 0.4;
const DROPOUT_S: f32 = 0.15;
/// Flights of a step: one in a world as it is, one in a strained one.
const FLIGHTS: usize = 2;
/// Other flights that are tried where the drone does not come through one with the gains there are.
const OTHERS: usize = 3;
/// By how much a gain's logarithm differs in the flights that tell the slopes.
const DIFFERENCE: f32 = 0.1;
/// First radius of a step, for each gain's logarithm, the smallest, and what is left when none of the steps is better.
pub(crate) const RADIUS: f32 = 0.4;
const MIN_RADIUS: f32 = 0.1;
const SHRINK: f32 = 0.25;
/// Parts of the radius that are tried.
const PARTS: [f32; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Flights in strained worlds that say whether a step's end is safe.
const CHECKS: usize = 4;
const FIRST_CHECK: u64 = 1 << 19;
/// Flights that choose among the steps' ends.
const CHOOSING: usize = 16;

/// A world to search gains in.
#[derive(Clone, Debug)]
pub struct SearchWorld {
    /// Seed of its flights.
    pub number: u64,
    /// Ready to fly in.
    pub plant: PlantParams,
    /// The same with less margin.
    pub strained: PlantParams,
}

impl SearchWorld {
    /// From a world and what its equations lack.
    ///
    /// # Errors
    /// If the world is not valid.
    pub fn new(number: u64, world: &World, lacks: Option<&Residual>) -> Result<Self, WorldError> {
        let compile = |world: &World| -> Result<PlantParams, WorldError> {
            let plant = PlantParams::new(world)?;
            Ok(match lacks {
                Some(residual) => plant.with_residual(residual.clone()),
                None => plant,
            })
        };
        let mut strained = world.clone();
        strained.motors.command_delay_s += LATER_COMMANDS_S;
        let mocap = &mut strained.mocap;
        mocap.latency_s += LATER_MOCAP_S;
        mocap.dropouts_per_s = mocap.dropouts_per_s.max(DROPOUTS_PER_S);
        mocap.dropout_mean_s = mocap.dropout_mean_s.max(DROPOUT_S);
        Ok(Self { number, plant: compile(world)?, strained: compile(&strained)? })
    }
}

/// Settings of a search.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Gauss–Newton steps.
    pub steps: usize,
    /// Penalty on the squared change of the gains' logarithms: a change that brings nothing is not made.
    pub l2_penalty: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { steps: 6, l2_penalty: 2.0 }
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
    /// Its standard deviation over flights.
    pub change_std: f64,
    /// Flights of those that chose which fail with the new gains.
    pub failed: usize,
}

/// How gains fly.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Standing {
    /// Mean reward of a flight.
    pub reward: f64,
    /// Flights that failed.
    pub failed: usize,
    /// Flights in all.
    pub flights: usize,
}

impl Standing {
    /// Gains that fail more often are never better.
    #[must_use]
    pub fn is_better_than(&self, other: &Self) -> bool {
        (self.failed, -self.reward) < (other.failed, -other.reward)
    }
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
    /// They take turns.
    pub worlds: &'a [SearchWorld],
    /// What is flown, until it has landed: hard loops show at touchdown first.
    pub path: &'a Path,
    /// Its gains are the ones to begin with.
    pub present: &'a GainTable,
}

impl Problem<'_> {
    /// Searches gains within bounds of their logarithms' change. Every step has flights of its own, so that nothing is
    /// gained by what suits the noise of one.
    #[must_use]
    pub fn search(&self, bounds: &[f64; GAIN_COUNT], settings: &Settings, seed: u64) -> Found {
        let start = theta_of(&self.present.gains);
        let pilot = Pilot { problem: self, seed };
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
        let mut ends = vec![start];
        let mut radius = RADIUS;
        let checks: Vec<u64> = (0..CHECKS as u64).map(|number| FIRST_CHECK + number).collect();
        let mut came_down = failed(&pilot.fly_all(&[start], &checks)[0]);
        for number in 0..settings.steps {
            let at = ends[ends.len() - 1];
            let flights = pilot.flights_of_step(number, &at);
            // The other way every second time, so that what bends does not always count on the same side.
            let by = if number.is_multiple_of(2) { DIFFERENCE } else { -DIFFERENCE };
            let mut thetas = vec![at; 1 + GAIN_COUNT];
            (0..GAIN_COUNT).for_each(|i| thetas[1 + i][i] += by);
            let flown = pilot.fly_all(&thetas, &flights);
            let differences: Vec<Differences<'_>> = (0..flights.len())
                .map(|k| Differences {
                    at: &flown[0][k].track,
                    moved: flown[1..].iter().map(|f| (!f[k].failed).then_some(&f[k].track)).collect(),
                    by,
                })
                .collect();
            let parts: [Theta; 5] = PARTS.map(|part| {
                let end = |sign: f32| inside(&at.map(|t| t + sign * part * radius));
                let (low, high) = (end(-1.0), end(1.0));
                let change = |end: Theta| -> Theta { std::array::from_fn(|i| end[i] - at[i]) };
                let step = newton::step(&differences, &change(low), &change(high), settings.l2_penalty);
                std::array::from_fn(|i| at[i] + step[i])
            });
            let values: Vec<f64> = pilot
                .fly_all(&parts, &flights)
                .iter()
                .zip(&parts)
                .map(|(f, t)| change(f, &flown[0]) - (price(t) - price(&at)))
                .collect();
            let mut order: Vec<usize> = (0..parts.len()).filter(|i| values[*i] > 0.0).collect();
            order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
            // The best step that does not come down more often where motion capture stops.
            let best = order.into_iter().find_map(|i| {
                let down = failed(&pilot.fly_all(&[parts[i]], &checks)[0]);
                (down <= came_down).then_some((i, down))
            });
            match best {
                Some((i, down)) => {
                    came_down = down;
                    radius = (radius * PARTS[i]).max(MIN_RADIUS);
                    ends.push(parts[i]);
                }
                None => radius = (radius * SHRINK).max(MIN_RADIUS),
            }
        }
        self.choose(&pilot, &ends, price)
    }

    /// The same flights with each of the gains; a search of this seed chooses by the first of them.
    #[must_use]
    pub fn compare(&self, gains: &[Gains], flights: u64, seed: u64) -> Vec<Standing> {
        let flights: Vec<u64> = (CHOICE..CHOICE + flights).collect();
        let thetas: Vec<Theta> = gains.iter().map(theta_of).collect();
        let flown = Pilot { problem: self, seed }.fly_all(&thetas, &flights);
        let standing =
            |f: &Vec<Judged>| Standing { reward: mean(&rewards(f)), failed: failed(f), flights: f.len() };
        flown.iter().map(standing).collect()
    }

    /// The best of the start and of the steps' ends, by flights of their own; one that fails more often is never
    /// better.
    fn choose(&self, pilot: &Pilot<'_>, ends: &[Theta], price: impl Fn(&Theta) -> f64) -> Found {
        let flights: Vec<u64> = (0..CHOOSING as u64).map(|number| CHOICE + number).collect();
        let flown = pilot.fly_all(ends, &flights);
        let better = |a: &usize, b: &usize| {
            let value = |i: usize| change(&flown[i], &flown[0]) - price(&ends[i]);
            failed(&flown[*b]).cmp(&failed(&flown[*a])).then(value(*a).total_cmp(&value(*b)))
        };
        let best = (0..ends.len()).max_by(better).unwrap_or(0);
        let changes: Vec<f64> = flown[best].iter().zip(&flown[0]).map(|(n, o)| n.reward - o.reward).collect();
        let change = mean(&changes);
        let variance = mean(&changes.iter().map(|c| (c - change).powi(2)).collect::<Vec<_>>());
        Found {
            theta: ends[best],
            present: mean(&rewards(&flown[0])),
            change,
            change_std: variance.sqrt(),
            failed: failed(&flown[best]),
        }
    }
}

/// Flies what a search asks for.
struct Pilot<'a> {
    problem: &'a Problem<'a>,
    seed: u64,
}

impl Pilot<'_> {
    /// Numbers of the flights of a step: those that the drone comes through with the gains there are. Where it comes
    /// through none, one that says at least what a failure costs.
    fn flights_of_step(&self, step: usize, at: &Theta) -> Vec<u64> {
        let first = ((1 + OTHERS) * FLIGHTS * step) as u64;
        let tried = |flight: usize| (0..=OTHERS).map(move |other| first + (FLIGHTS * other + flight) as u64);
        let comes_through = |number: &u64| !self.fly(&gains_of(at), *number).failed;
        let flights: Vec<u64> = (0..FLIGHTS).filter_map(|flight| tried(flight).find(comes_through)).collect();
        if flights.is_empty() { vec![first] } else { flights }
    }

    /// A flight by its number: worlds take turns, and every second one of a step is strained, like all checks.
    fn fly(&self, gains: &Gains, number: u64) -> Judged {
        let turn = (number / FLIGHTS as u64) as usize % self.problem.worlds.len().max(1);
        let world = &self.problem.worlds[turn];
        let is_strained = match number {
            CHOICE.. => false,
            FIRST_CHECK.. => true,
            _ => !number.is_multiple_of(FLIGHTS as u64),
        };
        let plant = if is_strained { &world.strained } else { &world.plant };
        let seed = (self.seed.wrapping_add(world.number << 8) << 24) ^ number;
        let table = GainTable { gains: *gains, ..*self.problem.present };
        let plan = Plan { table, seed, until: Until::Landed, ..Plan::new(Task::Hover) };
        let mut track = Track::default();
        let flown = self.problem.path.fly(plant, &plan, |sample| track.add(sample));
        let crashed = flown.metrics.is_none_or(|m| m.crash.is_some());
        let reward = flown.metrics.map(|m| m.cumulative_reward).filter(|r| r.is_finite());
        Judged {
            reward: reward.unwrap_or(NO_REWARD),
            failed: crashed || flown.guard_tripped || flown.failure.is_some(),
            track,
        }
    }

    /// The same flights for each of the gains.
    fn fly_all(&self, thetas: &[Theta], numbers: &[u64]) -> Vec<Vec<Judged>> {
        let each = |theta: &Theta| {
            let gains = gains_of(theta);
            numbers.par_iter().map(|number| self.fly(&gains, *number)).collect()
        };
        thetas.par_iter().map(each).collect()
    }
}

/// A flight in the search.
#[derive(Clone, Debug)]
struct Judged {
    reward: f64,
    failed: bool,
    track: Track,
}

/// What the search maximises, less its value for the same flights with other gains: the change of the reward. What a
/// failed flight has of it says nothing; it has a price.
fn change(new: &[Judged], old: &[Judged]) -> f64 {
    let each = |(new, old): (&Judged, &Judged)| match (new.failed, old.failed) {
        (false, false) => new.reward - old.reward,
        (true, false) => -FAILED,
        (false, true) => FAILED,
        (true, true) => 0.0,
    };
    mean(&new.iter().zip(old).map(each).collect::<Vec<_>>())
}

fn failed(flown: &[Judged]) -> usize {
    flown.iter().filter(|f| f.failed).count()
}

fn rewards(flown: &[Judged]) -> Vec<f64> {
    flown.iter().map(|f| f.reward).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
