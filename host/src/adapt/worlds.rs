//! Simulated worlds that look like the data: where a new table is flown before a drone does.
//!
//! The flight's own references and noise are flown again with the gains that flew, in many random worlds. The
//! worlds whose flights resemble the logged one most are consistent with the data; a table that would
//! crash or fly clearly worse there is not for the drone.

use steady_common::law::{self, Vehicle};
use steady_common::observation::{REWARD_CONSTANT, RewardWeights, reward};
use steady_common::{Action, GainTable, Gains, State};
use steady_sim::flight::params;
use steady_sim::{Params, World};

use crate::train::oracle::{Theta, gains_of};

use super::flights::{Flight, Step};
use super::simulated;

/// Worlds that are drawn, and those of them that are kept.
const DRAWN: u64 = 96;
const KEPT: usize = 8;
/// Steps of a flight that are flown again, at most: ten seconds.
const MOST_STEPS: usize = 5000;
/// A table may lose so much of the present one's reward in a world before it counts as worse there.
const TOLERANCE: f64 = 0.05;
/// How often a step that is refused is halved.
const HALVINGS: i32 = 3;
/// What a flight looks like: means and deviations of the position error, means of the motors, deviations of
/// the rates.
const SIGNATURE_LEN: usize = 13;

/// Worlds that resemble a flight, nearest first.
#[derive(Debug)]
pub struct Consistent {
    worlds: Vec<(u64, Params)>,
}

/// What became of a table in those worlds.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Verdict {
    /// Why the table is refused, if it is.
    pub refused: Option<String>,
    /// Mean reward of a step with the present table, without the constant.
    pub present: f64,
    /// The same with the new one.
    pub new: f64,
    /// Worlds it was flown in.
    pub worlds: usize,
}

/// What is left of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// Where it leads.
    pub theta: Theta,
    /// Part of the step; 0 when every one was refused.
    pub part: f32,
    /// Why less than all of it.
    pub refused: Option<String>,
    /// What became of the last one that was tried.
    pub verdict: Verdict,
}

/// A world, and what the flight looks like in it.
type Candidate = (Params, [f64; SIGNATURE_LEN]);

struct Flown {
    signature: [f64; SIGNATURE_LEN],
    reward: f64,
    crashed: bool,
}

impl Consistent {
    /// Finds worlds that look like a flight that was flown with `gains`.
    #[must_use]
    pub fn with(flight: &Flight, gains: &Gains, vehicle: &Vehicle, threads: usize) -> Self {
        let noise = noise(flight, gains, vehicle);
        let logged = signature(&flight.steps[..flight.steps.len().min(MOST_STEPS)]);
        let mut drawn: Vec<(u64, Option<Candidate>)> = (0..DRAWN).map(|seed| (seed, None)).collect();
        crate::train::env::parallel(threads, &mut drawn, |(seed, out)| {
            *out = params(&World::sample(*seed)).ok().map(|world| {
                let flown = fly(&world, flight, &noise, gains, vehicle, *seed);
                (world, flown.signature)
            });
        });
        let drawn: Vec<_> = drawn.into_iter().filter_map(|(seed, out)| Some((seed, out?))).collect();
        let n = drawn.len().max(1) as f64;
        let spread: [f64; SIGNATURE_LEN] = std::array::from_fn(|i| {
            let mean = drawn.iter().map(|(_, (_, s))| s[i]).sum::<f64>() / n;
            (drawn.iter().map(|(_, (_, s))| (s[i] - mean).powi(2)).sum::<f64>() / n).sqrt().max(1e-6)
        });
        let distance = |s: &[f64; SIGNATURE_LEN]| -> f64 {
            s.iter().zip(&logged).zip(&spread).map(|((a, b), k)| ((a - b) / k).powi(2)).sum()
        };
        let mut near: Vec<_> =
            drawn.into_iter().map(|(seed, (world, s))| (distance(&s), seed, world)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { worlds: near.into_iter().take(KEPT).map(|(_, seed, world)| (seed, world)).collect() }
    }

    /// Numbers of the worlds, as `steady world sample --seed` makes them.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        self.worlds.iter().map(|(seed, _)| *seed).collect()
    }

    /// As much of a step from `before` to `proposed` as these worlds do not refuse: all of it, or a half, a
    /// quarter, an eighth of it, or nothing. `table` is the present one; `flight` has the references.
    #[must_use]
    pub fn accept(&self, before: &Theta, proposed: &Theta, flight: &Flight, table: &GainTable) -> Accepted {
        let mut refused = None;
        let mut verdict = Verdict { refused: None, present: 0.0, new: 0.0, worlds: self.worlds.len() };
        for halving in 0..=HALVINGS {
            let part = 0.5_f32.powi(halving);
            let theta: Theta = std::array::from_fn(|i| before[i] + part * (proposed[i] - before[i]));
            verdict = self.judge(flight, &table.gains, &gains_of(&theta), &table.vehicle);
            match &verdict.refused {
                None => return Accepted { theta, part, refused, verdict },
                Some(why) => refused = Some(why.clone()),
            }
        }
        Accepted { theta: *before, part: 0.0, refused, verdict }
    }

    /// Flies the references of a flight with the present gains and the new ones.
    #[must_use]
    pub fn judge(&self, flight: &Flight, present: &Gains, new: &Gains, vehicle: &Vehicle) -> Verdict {
        let none = vec![Action::default(); flight.steps.len()];
        let (mut before, mut after, mut crashes, mut worse) = (0.0, 0.0, Vec::new(), 0);
        for (seed, world) in &self.worlds {
            let old = fly(world, flight, &none, present, vehicle, *seed);
            let new = fly(world, flight, &none, new, vehicle, *seed);
            if new.crashed && !old.crashed {
                crashes.push(*seed);
            }
            worse += usize::from(new.reward < old.reward - TOLERANCE * old.reward.abs());
            before += old.reward;
            after += new.reward;
        }
        let n = self.worlds.len();
        let refused = if let Some(seed) = crashes.first() {
            Some(format!(
                "it crashes in {} of {n} worlds like the data, such as number {seed}",
                crashes.len()
            ))
        } else if 2 * worse > n {
            Some(format!("it flies worse in {worse} of {n} worlds like the data"))
        } else {
            None
        };
        let count = n.max(1) as f64;
        Verdict { refused, present: before / count, new: after / count, worlds: n }
    }
}

/// The logged noise: what was done beside what the law asked for.
fn noise(flight: &Flight, gains: &Gains, vehicle: &Vehicle) -> Vec<Action> {
    let offset = |s: &Step| {
        let mut memory = s.memory;
        let action = law::step(gains, vehicle, &s.state, &s.reference, &mut memory, s.dt_s).into_array();
        let applied = s.applied.into_array();
        Action::from_array(std::array::from_fn(|i| applied[i] - action[i]))
    };
    flight.steps.iter().map(offset).collect()
}

/// Flies the references of a flight in a world, with noise.
fn fly(
    world: &Params,
    flight: &Flight,
    noise: &[Action],
    gains: &Gains,
    vehicle: &Vehicle,
    seed: u64,
) -> Flown {
    let logged = &flight.steps[..flight.steps.len().min(MOST_STEPS)];
    let again = simulated::again(world, logged, |i| noise[i], gains, vehicle, seed);
    let steps = &again.flight.steps;
    let reward_of = |(step, truth): (&Step, &State)| {
        f64::from(reward(&RewardWeights::PAPER, truth, &step.reference, &step.applied) - REWARD_CONSTANT)
    };
    Flown {
        reward: steps.iter().zip(&again.truth).map(reward_of).sum::<f64>() / steps.len().max(1) as f64,
        signature: signature(steps),
        crashed: again.flight.crashed,
    }
}

fn signature(steps: &[Step]) -> [f64; SIGNATURE_LEN] {
    let (mut n, mut sums, mut squares) = (0.0_f64, [0.0; 10], [0.0; 10]);
    for step in steps {
        let (e, w) = (step.state.position - step.reference.position, step.state.rates);
        let motors = step.applied.motors().thrust;
        let values = [e.x, e.y, e.z, w.x, w.y, w.z, motors[0], motors[1], motors[2], motors[3]];
        n += 1.0;
        for ((sum, square), value) in sums.iter_mut().zip(&mut squares).zip(values.map(f64::from)) {
            *sum += value;
            *square += value * value;
        }
    }
    let n = n.max(1.0);
    let mean = sums.map(|s| s / n);
    let deviation: [f64; 10] = std::array::from_fn(|i| (squares[i] / n - mean[i] * mean[i]).max(0.0).sqrt());
    std::array::from_fn(|i| match i {
        0..3 => mean[i],
        3..9 => deviation[i - 3],
        _ => mean[i - 3],
    })
}
