//! How far the flights that training learns from are from the native drone's: training steps the body and
//! the law together at 240 Hz and sees the true state, without estimator, filters and battery
//! compensation.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::law::{self, Memory, Vehicle};
use steady_common::{GainTable, Gains};
use steady_native::{Plan, fly};
use steady_sim::metrics::Accumulator;
use steady_sim::{Drone, FlightMetrics, Initial, PlantParams, Task, World};

/// A task as training's episodes are flown (`host/src/train/env.rs`).
fn as_in_training(world: &World, gains: &Gains, task: Task) -> FlightMetrics {
    let params = world.compile().unwrap();
    let trajectory = task.trajectory();
    let mut drone = Drone::new(&params, 1, 0);
    drone.reset(&params, &Initial::hovering(&params, trajectory.at(0.0).position));
    let mut memory = Memory::default();
    let mut totals = Accumulator::new(f64::from(params.dt_s));
    let steps = (task.duration_s() / params.dt_s) as usize;
    for step in 0..steps {
        let reference = trajectory.at(step as f32 * params.dt_s);
        let state = *drone.truth();
        let action = law::step(gains, &Vehicle::NOMINAL, &state, &reference, &mut memory, params.dt_s);
        totals.add(&state, &reference, &action);
        drone.step(&params, action.motors().thrust);
    }
    totals.finish(steps).unwrap()
}

#[test]
fn training_and_the_native_drone_stay_near() {
    // Largest difference of the tracking error, cm, and of the reward in a second of flight. Measured with
    // the built-in gains, training and native: 0.02 and 0.26 cm, 1.64 and 1.02 cm in `nominal`, 5.54 and
    // 5.31 cm, 6.43 and 6.42 cm in `paper`; rewards -27.8 and -30.9, -189.7 and -179.3, -107.4 and -103.4,
    // -266.0 and -260.1 in a second.
    let bounds = [
        ("nominal", Task::Hover, 0.4, 5.0),
        ("nominal", Task::FigureEight, 1.0, 15.0),
        ("paper", Task::Hover, 0.6, 8.0),
        ("paper", Task::FigureEight, 0.6, 12.0),
    ];
    for (name, task, max_cm, max_reward_per_s) in bounds {
        let world = World::named(name).unwrap();
        let table = GainTable::built_in();
        let cheap = as_in_training(&world, &table.gains, task);
        let native = fly(&PlantParams::new(&world).unwrap(), &Plan { table, ..Plan::new(task) }, |_| {});
        let native = native.metrics.unwrap();
        // Rewards add up by control step: 240 in a second of training, 500 in a second on the drone.
        let reward = |m: &FlightMetrics, hz: f64| 500.0 / hz * m.cumulative_reward / m.duration_s;
        let (cheap_cm, native_cm) = (100.0 * cheap.tracking_error_m, 100.0 * native.tracking_error_m);
        let (cheap_reward, native_reward) = (reward(&cheap, 240.0), reward(&native, 500.0));
        println!(
            "{name} {task}: training {cheap_cm:.2} cm, {cheap_reward:.1}/s; native {native_cm:.2} cm, {native_reward:.1}/s"
        );
        assert!((cheap_cm - native_cm).abs() < max_cm, "{name} {task}");
        assert!((cheap_reward - native_reward).abs() < max_reward_per_s, "{name} {task}");
        assert_eq!((cheap.crash, native.crash), (None, None));
    }
}
