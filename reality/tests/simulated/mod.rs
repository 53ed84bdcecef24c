//! Flights of simulated drones, as they would be recorded.

use steady_native::{Plan, fly};
use steady_reality::Flight;
use steady_sim::rng::Rng;
use steady_sim::{PlantParams, Task, World};

pub(crate) const MASS_KG: f32 = 0.027;

pub(crate) fn base() -> World {
    World::named("real").unwrap()
}

/// A flight in a world as motion capture and the drone's log would have it: the truth with noise.
pub(crate) fn recorded(world: &World, task: Task, seed: u64) -> Option<Flight> {
    let plan = Plan { seed, ..Plan::new(task) };
    let mut truth = Vec::new();
    let mut flown = fly(&PlantParams::new(world).unwrap(), &plan, |sample| truth.push(sample.truth));
    let mut rng = Rng::new(seed, 77);
    for (record, truth) in flown.records.iter_mut().zip(truth) {
        let state = &mut record.state;
        *state = truth;
        state.position += rng.normal_vec() * 0.0005;
        state.velocity += rng.normal_vec() * 0.005;
        state.attitude = state.attitude.integrate_body_rate(rng.normal_vec() * 0.002, 1.0);
        state.rates += rng.normal_vec() * 0.02;
    }
    Flight::from_log("simulated", &flown.records)
}
