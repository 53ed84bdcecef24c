//! The simulator's gradient at real flights: what a flight's errors were, and by how much other gains would change them
//! in a simulator as it is. A baseline: it does not ask how the drone differs from the simulator.

use rayon::prelude::*;
use steady_common::gains::GAIN_COUNT;
use steady_native::{Plan, Sample, Until};
use steady_sim::Task;

use crate::LoggedFlight;
use crate::cma::{Theta, clamp, gains_of, theta_of};
use crate::newton::{self, Differences, Track};
use crate::search::{DIFFERENCE, Path, RADIUS, SearchWorld};

/// Gains of a flight, moved within `scale` times the radius of a search's first step.
#[must_use]
pub fn follow(flight: &LoggedFlight, world: &SearchWorld, path: &Path, scale: f32) -> Theta {
    let at = theta_of(&flight.table.gains);
    let mut counted = Vec::new();
    let simulated = fly(flight, &at, world, path, |sample| counted.push(sample.counts));
    let moved: Vec<Track> = (0..GAIN_COUNT)
        .into_par_iter()
        .map(|gain| {
            let mut theta = at;
            theta[gain] += DIFFERENCE;
            fly(flight, &theta, world, path, |_| {})
        })
        .collect();
    // Both are flown by the same script: their control steps stand for each other.
    let mut real = Track::default();
    for (record, _) in flight.records.iter().zip(counted).filter(|(_, counts)| *counts) {
        real.push(&record.state, &record.reference, &record.applied);
    }
    let differences =
        Differences { at: &real, from: &simulated, moved: moved.iter().map(Some).collect(), by: DIFFERENCE };
    let limit = [scale * RADIUS; GAIN_COUNT];
    let step = newton::step(&[differences], &limit.map(|l| -l), &limit, 0.0);
    let mut theta: Theta = std::array::from_fn(|gain| at[gain] + step[gain]);
    clamp(&mut theta);
    theta
}

fn fly(
    flight: &LoggedFlight,
    theta: &Theta,
    world: &SearchWorld,
    path: &Path,
    mut sample: impl FnMut(&Sample),
) -> Track {
    let table = steady_common::GainTable { gains: gains_of(theta), ..flight.table };
    let plan = Plan { table, seed: world.number, until: Until::TaskEnd, ..Plan::new(Task::Hover) };
    let mut track = Track::default();
    path.fly(&world.plant, &plan, |now| {
        track.add(now);
        sample(now);
    });
    track
}
