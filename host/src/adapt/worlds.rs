//! Simulated worlds that resemble the data: where a new table flies before a drone does.
//!
//! The flight's own references are flown by the native drone with the gains and the noise that flew, in random
//! worlds. The worlds whose flights resemble the logged one most are consistent with the data; a table that
//! crashes or flies clearly worse there is refused.

use anyhow::Result;
use serde::Serialize;
use steady_common::exploration::Exploration;
use steady_common::law::{self, Vehicle};
use steady_common::{Action, GainTable, Gains, Reference, State};
use steady_learn::search::Path;
use steady_native::{Plan, Until};
use steady_sim::params::STEPS_PER_CONTROL;
use steady_sim::plant::PlantParams;
use steady_sim::{Drone, Initial, Params, Task, World};

use crate::closed_loop::TrustRegion;
use crate::closed_loop::trust::{WorldFlight, refusal};
use crate::jobs;
use crate::train::oracle::{Theta, gains_of};

use super::dynamics::BODY_LEN;
use super::flights::{ControlStep, FlightData};

/// Worlds that are drawn, and those of them that are kept. Samples 0 to 31 of `steady world sample` are
/// used by this: evaluations judge in others.
pub const DRAWN: u64 = 32;
const KEPT: usize = 6;
/// Control steps of a flight that are flown again: five seconds. With more, an adaptation would spend most
/// of its time here.
const MAX_STEPS: usize = 2500;
/// They begin where the reference is first this high, m: close to the floor the ground effect hides the rest.
const FIRST_HEIGHT_M: f32 = 0.3;
/// Control steps for which the noise is held.
const HOLD: u16 = 25;
/// What a flight looks like: means and deviations of the position error, deviations of the rates, means of the
/// motors.
const SIGNATURE_LEN: usize = 13;

/// Worlds that resemble a flight, nearest first.
#[derive(Debug)]
pub struct ConsistentWorlds {
    worlds: Vec<(u64, PlantParams)>,
    path: Path,
    present: GainTable,
    until: Until,
    threads: usize,
}

/// What the worlds say of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorldCheck {
    /// Numbers of the worlds: as `steady world sample --seed` makes them, or of draws from what flights leave
    /// probable.
    pub worlds: Vec<u64>,
    /// Why the table is refused, if it is.
    pub refused: Option<String>,
    /// Mean cumulative reward with the present table; `None` if a flight has no metrics.
    pub present_reward: Option<f64>,
    /// The same with the new one.
    pub new_reward: Option<f64>,
}

/// The part of a step that the worlds accept.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The new θ.
    pub theta: Theta,
    /// Part of the step; 0 when every part was refused.
    pub part: f32,
    pub check: WorldCheck,
}

impl ConsistentWorlds {
    /// Finds worlds that resemble a flight of the present table.
    pub fn find(flight: &FlightData, present: &GainTable, threads: usize) -> Result<Self> {
        let high = flight.steps.iter().position(|s| s.reference.position.z >= FIRST_HEIGHT_M).unwrap_or(0);
        let steps = &flight.steps[high..];
        let steps = &steps[..steps.len().min(MAX_STEPS)];
        let references: Vec<Reference> = steps.iter().map(|s| s.reference).collect();
        let std = noise_std(steps, &present.gains, &present.vehicle);
        let logged = signature(steps.iter().map(|s| (&s.state, &s.reference, &s.applied)));
        let numbers: Vec<u64> = (0..DRAWN).collect();
        let drawn = jobs::map(threads, &numbers, |seed| {
            // The sampler draws valid worlds.
            let world = PlantParams::new(&World::sample(*seed))?;
            let exploration = Exploration { enabled: true, std, hold: HOLD, seed: *seed as u32 };
            let plan = Plan { exploration, ..plan(present, *seed) };
            let (mut counts, mut step) = (Vec::with_capacity(references.len()), 0);
            let flown = steady_native::fly_references(&world, &plan, &references, |s| {
                counts.extend(s.counts.then_some(step));
                step += 1;
            });
            // A sample and a record for every control step.
            let records = counts.iter().filter_map(|i| flown.records.get(*i));
            Ok((*seed, world, signature(records.map(|r| (&r.state, &r.reference, &r.applied)))))
        })?;
        let n = drawn.len().max(1) as f64;
        let spread: [f64; SIGNATURE_LEN] = std::array::from_fn(|i| {
            let mean = drawn.iter().map(|(_, _, s)| s[i]).sum::<f64>() / n;
            (drawn.iter().map(|(_, _, s)| (s[i] - mean).powi(2)).sum::<f64>() / n).sqrt().max(1e-6)
        });
        let distance = |s: &[f64; SIGNATURE_LEN]| -> f64 {
            s.iter().zip(&logged).zip(&spread).map(|((a, b), k)| ((a - b) / k).powi(2)).sum()
        };
        let mut near: Vec<_> =
            drawn.into_iter().map(|(seed, world, s)| (distance(&s), seed, world)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        let worlds = near.into_iter().take(KEPT).map(|(_, seed, world)| (seed, world)).collect();
        let path = Path::References(references);
        Ok(Self { worlds, path, present: *present, until: Until::TaskEnd, threads })
    }

    /// These worlds, flown until the drone has landed: hard loops show at touchdown first.
    pub fn new(worlds: Vec<(u64, PlantParams)>, path: &Path, present: &GainTable, threads: usize) -> Self {
        Self { worlds, path: path.clone(), present: *present, until: Until::Landed, threads }
    }

    /// As much of a step as these worlds do not refuse, by [`TrustRegion::backtrack`].
    pub fn accept(&self, before: &Theta, proposed: &Theta) -> Result<Accepted> {
        let old = self.fly(&self.present)?;
        let at =
            |part: f32| -> Theta { std::array::from_fn(|i| before[i] + part * (proposed[i] - before[i])) };
        let (part, refused, check) =
            TrustRegion::backtrack(|part| match self.compare(&old, &gains_of(&at(part))) {
                Ok(check) => (check.refused.clone(), Ok(check)),
                Err(error) => (None, Err(error)),
            });
        let check = WorldCheck { refused, ..check? };
        Ok(Accepted { theta: if part > 0.0 { at(part) } else { *before }, part, check })
    }

    /// Flies the references with the present gains and with others.
    pub fn check(&self, new: &Gains) -> Result<WorldCheck> {
        self.compare(&self.fly(&self.present)?, new)
    }

    fn compare(&self, old: &[WorldFlight], new: &Gains) -> Result<WorldCheck> {
        let new = self.fly(&GainTable { gains: *new, ..self.present })?;
        let mean = |flights: &[WorldFlight]| {
            let mean = flights.iter().map(|f| f.reward).sum::<f64>() / flights.len().max(1) as f64;
            mean.is_finite().then_some(mean)
        };
        let worlds: Vec<u64> = self.worlds.iter().map(|(seed, _)| *seed).collect();
        let pairs: Vec<_> =
            worlds.iter().zip(old).zip(&new).map(|((w, old), new)| (*w, *old, *new)).collect();
        Ok(WorldCheck { refused: refusal(&pairs), present_reward: mean(old), new_reward: mean(&new), worlds })
    }

    /// Flies in every world, without noise.
    fn fly(&self, table: &GainTable) -> Result<Vec<WorldFlight>> {
        jobs::map(self.threads, &self.worlds, |(seed, world)| {
            let plan = Plan { until: self.until, ..plan(table, *seed) };
            let flown = self.path.fly(world, &plan, |_| {});
            let crashed = flown.metrics.is_none_or(|m| m.crash.is_some());
            Ok(WorldFlight {
                reward: flown.metrics.map_or(f64::NEG_INFINITY, |m| m.cumulative_reward),
                failed: crashed || flown.guard_tripped || flown.failure.is_some(),
            })
        })
    }
}

fn plan(table: &GainTable, seed: u64) -> Plan {
    // The task is not looked at: references are given.
    Plan { table: *table, seed, until: Until::TaskEnd, ..Plan::new(Task::Hover) }
}

/// Standard deviations of what was done beside what the law asked for.
fn noise_std(steps: &[ControlStep], gains: &Gains, vehicle: &Vehicle) -> [f32; 4] {
    let mut sums = [0.0_f32; 4];
    for s in steps {
        let mut memory = s.memory;
        let action = law::step(gains, vehicle, &s.state, &s.reference, &mut memory, s.dt_s).into_array();
        let applied = s.applied.into_array();
        for i in 0..4 {
            sums[i] += (applied[i] - action[i]).powi(2);
        }
    }
    sums.map(|s| (s / steps.len().max(1) as f32).sqrt().min(Exploration::LIMIT))
}

fn signature<'a>(
    steps: impl Iterator<Item = (&'a State, &'a Reference, &'a Action)>,
) -> [f64; SIGNATURE_LEN] {
    let (mut n, mut sums, mut squares) = (0.0_f64, [0.0; 10], [0.0; 10]);
    for (state, reference, action) in steps {
        let (e, w) = (state.position - reference.position, state.rates);
        let motors = action.motors().thrust;
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

/// How badly a simulator predicts flights, open loop: the mean squared error of where the body is a transition of
/// `length` control steps later, with the logged actions, relative to how far it moves. This is P° alone.
pub fn prediction_error(params: &Params, flights: &[FlightData], length: usize) -> f64 {
    let (mut missed, mut moved) = ([0.0_f64; BODY_LEN], [0.0_f64; BODY_LEN]);
    for steps in flights.iter().flat_map(|f| f.steps.windows(length + 1).step_by(length)) {
        let [first, .., last] = steps else { continue };
        let thrust = first.last.motors().thrust;
        let hover = (thrust.iter().sum::<f32>() / 4.0).max(1e-3);
        let mut drone = Drone::new(params, 0, 0);
        let rpm = thrust.map(|t| params.hover_rpm() * (t.max(0.0) / hover).sqrt());
        drone.reset(params, &Initial { state: first.state, rpm, last_attitude: None });
        for step in &steps[..length] {
            for _ in 0..STEPS_PER_CONTROL {
                drone.step(params, step.applied.motors().thrust);
            }
        }
        let (from, to, predicted) = (body(&first.state), body(&last.state), body(drone.truth()));
        for v in 0..BODY_LEN {
            missed[v] += f64::from(predicted[v] - to[v]).powi(2);
            moved[v] += f64::from(to[v] - from[v]).powi(2);
        }
    }
    missed.iter().zip(moved).map(|(miss, moved)| miss / moved.max(1e-18)).sum::<f64>() / BODY_LEN as f64
}

fn body(state: &State) -> [f32; BODY_LEN] {
    let (p, r, v, w) = (state.position, state.attitude.to_euler(), state.velocity, state.rates);
    [p.x, p.y, p.z, r.x, r.y, r.z, v.x, v.y, v.z, w.x, w.y, w.z]
}
