//! The simulator is corrected by flights of drones that it does not know, and gains get better in it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use steady_common::exploration::Exploration;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Vec3};
use steady_learn::cma::{Search, Theta, climb, gains_of, theta_of};
use steady_learn::search::{Path, Problem, SearchWorld};
use steady_learn::{LoggedFlight, Model, discovery, gradient, model, search};
use steady_native::{Plan, fly};
use steady_reality::Flight;
use steady_sim::residual::{INPUTS, Range, Residual};
use steady_sim::{Initial, Plant, PlantParams, Task, World};

/// An exploring flight of the figure eight in a world.
fn flight(world: &World, seed: u64) -> LoggedFlight {
    let exploration =
        Exploration { enabled: true, std: [0.05, 0.05, 0.05, 0.025], hold: 25, seed: seed as u32 };
    let plan = Plan { exploration, seed, log_inputs: true, ..Plan::new(Task::FigureEight) };
    let flown = fly(&PlantParams::new(world).unwrap(), &plan, |_| {});
    assert!(flown.failure.is_none(), "{:?}", flown.failure);
    let mut inputs = Vec::new();
    flown.inputs.iter().for_each(|batch| batch.each(|input| inputs.push(input)));
    LoggedFlight { name: "flight".to_owned(), records: flown.records, inputs, table: plan.table }
}

fn fitted(world: &World, flights: u64, settings: &model::Settings) -> Model {
    let logged: Vec<LoggedFlight> = (1..=flights).map(|seed| flight(world, seed)).collect();
    let path = Path::Task(Task::FigureEight.into());
    let nominal = World::named("nominal").unwrap();
    Model::fit(&nominal, &[], &logged, &path, settings, 1).unwrap()
}

/// Without draws, which cost most of the time.
fn few() -> model::Settings {
    model::Settings { drawn: 1, ..model::Settings::default() }
}

#[test]
fn one_flight_tells_motors_battery_and_delays() {
    let mut world = World::named("paper").unwrap();
    // Not what the fit begins with.
    (world.battery.initial_charge, world.battery.resistance_ohm) = (0.97, 0.14);
    let model = fitted(&world, 1, &few());
    let found = &model.identified.world;
    let near = |what: &str, is: f32, expected: f32, part: f32| {
        assert!((is / expected - 1.0).abs() < part, "{what}: {is}, not {expected}");
    };
    // Flights tell thrust and inertia over the mass, which is the training world's.
    let scale = found.body.mass_kg / world.body.mass_kg;
    for (is, expected) in found.motors.effectiveness.iter().zip(world.motors.effectiveness) {
        near("effectiveness", *is, scale * expected, 0.05);
    }
    near("lag", found.motors.tau_rise_s, world.motors.tau_rise_s, 0.25);
    near("inertia", found.body.inertia_kg_m2[0], scale * world.body.inertia_kg_m2[0], 0.25);
    near("charge", found.battery.initial_charge, world.battery.initial_charge, 0.03);
    // The resistance is one to the current that the model believes in, which goes with thrust to the 1.5.
    near("resistance", found.battery.resistance_ohm, world.battery.resistance_ohm / scale.powf(1.5), 0.15);
    let late_s = model.latency_s.unwrap();
    assert!((late_s - 0.016).abs() < 0.006, "{late_s}");
}

#[test]
fn late_motion_capture_is_told_from_flights() {
    for (base, more_s) in [("paper", 0.0), ("paper", 0.03), ("wind", 0.02)] {
        let mut world = World::named(base).unwrap();
        world.mocap.latency_s += more_s;
        let is_s = world.mocap.latency_s + world.radio.latency_s + world.radio.jitter_mean_s;
        let late_s = fitted(&world, 2, &few()).latency_s.unwrap();
        assert!((late_s - is_s).abs() < 0.002 + 0.15 * is_s, "{base}: {late_s}, not {is_s}");
    }
}

#[test]
fn skills_are_found_for_what_the_simulator_lacks_and_hardly_any_where_it_lacks_nothing() {
    let found = |world: &str| {
        let model = fitted(&World::named(world).unwrap(), 2, &few());
        model.discovered.unwrap()
    };
    let (windy, calm) = (found("wind"), found("paper"));
    // What turns it by its speed is far above what is left in a world of the simulator's kind.
    for axis in [3, 4] {
        let explained = windy.unexplained[axis] * (1.0 - windy.left[axis]).sqrt();
        assert!(explained > 2.0 * calm.unexplained[axis], "{axis}: {windy:?} {calm:?}");
        assert!(windy.left[axis] < 0.6, "{:?}", windy.left);
    }
    // The bulk of it on flights that were not learned from.
    assert!(calm.left.iter().all(|left| *left <= 1.0), "{:?}", calm.left);
}

#[test]
fn without_flights_of_this_firmware_all_draws_count_the_same() {
    let logged = flight(&World::named("paper").unwrap(), 1);
    let flights: Vec<Flight> = logged.flight(None).into_iter().collect();
    let path = Path::Task(Task::FigureEight.into());
    let settings = model::Settings { discovery: None, drawn: 5 };
    let nominal = World::named("nominal").unwrap();
    let model = Model::fit(&nominal, &flights, &[], &path, &settings, 1).unwrap();
    assert_eq!((model.worlds.len(), model.latency_s), (5, None));
    assert!(model.discovered.is_none() && model.worlds.iter().all(|d| d.distance == 0.0));
    assert_eq!(model.worlds(3..9).iter().map(|w| w.number).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn short_flights_tell_nothing_beyond_the_simulator() {
    let logged = flight(&World::named("wind").unwrap(), 1);
    let mut short = logged.flight(None).unwrap();
    short.landing = short.take_off + 400;
    let settings = discovery::Settings::default();
    assert!(discovery::discover(&World::default(), &[short], &settings, 1).unwrap().is_none());
}

#[test]
fn gains_found_after_one_flight_halve_the_error_and_are_the_same_on_any_number_of_threads() {
    let world = World::named("paper").unwrap();
    let truth = PlantParams::new(&world).unwrap();
    let path = Path::Task(Task::FigureEight.into());
    let present = GainTable::built_in();
    let search = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let model = fitted(&world, 1, &model::Settings { drawn: 8, ..model::Settings::default() });
            let worlds = model.worlds(0..2);
            let settings = search::Settings { steps: 3, ..search::Settings::default() };
            Problem { worlds: &worlds, path: &path, present: &present }.search(
                &[1.5; GAIN_COUNT],
                &settings,
                1,
            )
        })
    };
    let found = search(2);
    assert_eq!(found.theta, search(1).theta);
    assert!(found.failed == 0 && found.change > 0.0, "{found:?}");
    let error_m = |table: GainTable| {
        let flown = fly(&truth, &Plan { table, seed: 77, ..Plan::new(Task::FigureEight) }, |_| {});
        flown.metrics.unwrap().tracking_error_m
    };
    let (before, after) = (error_m(present), error_m(GainTable { gains: gains_of(&found.theta), ..present }));
    assert!(after < 0.7 * before, "{before} {after}");
}

#[test]
fn the_simulators_gradient_at_a_flight_lowers_its_error() {
    let world = World::named("paper").unwrap();
    let nominal = World::named("nominal").unwrap();
    let path = Path::Task(Task::FigureEight.into());
    let flight = flight(&world, 1);
    let theta = gradient::follow(&flight, &nominal, &path, 0.5).unwrap().unwrap();
    let truth = PlantParams::new(&world).unwrap();
    let reward = |table: GainTable| {
        let flown = fly(&truth, &Plan { table, seed: 77, ..Plan::new(Task::FigureEight) }, |_| {});
        flown.metrics.unwrap().cumulative_reward
    };
    let (before, after) =
        (reward(flight.table), reward(GainTable { gains: gains_of(&theta), ..flight.table }));
    assert!(after > before + 50.0, "{before} {after}");
    // Within its limits.
    let start = theta_of(&flight.table.gains);
    assert!(theta.iter().zip(start).all(|(t, s)| (t - s).abs() <= 0.2 + 1e-5), "{theta:?}");
}

#[test]
fn a_strained_world_is_harder_for_fast_gains() {
    let world = SearchWorld::new(1, &World::named("paper").unwrap(), None).unwrap();
    let table = GainTable { gains: gains_of(&[0.5; GAIN_COUNT]), ..GainTable::built_in() };
    let mean_reward = |plant: &PlantParams| {
        let reward = |seed| {
            let flown = fly(plant, &Plan { table, seed, ..Plan::new(Task::FigureEight) }, |_| {});
            flown.metrics.unwrap().cumulative_reward
        };
        (0..4).map(reward).sum::<f64>() / 4.0
    };
    let (strained, plain) = (mean_reward(&world.strained), mean_reward(&world.plant));
    assert!(strained < plain - 50.0, "{strained} {plain}");
}

#[test]
fn a_residual_pushes_and_turns_a_drone_in_the_air() {
    let constant = |acceleration: [f32; 6]| Residual {
        ranges: [Range { low: -1e3, high: 1e3, centre: 0.0, per_unit: 1.0 }; INPUTS],
        units: Vec::new(),
        weights: acceleration.map(|a| {
            let mut weights = vec![0.0; 1 + INPUTS];
            weights[0] = a;
            weights
        }),
    };
    let nominal = PlantParams::new(&World::named("nominal").unwrap()).unwrap();
    let after = |plant: &PlantParams, pwm: u16| {
        let mut drone = Plant::new(plant, 1);
        drone.reset(&Initial::hovering(plant.params(), Vec3::new(0.0, 0.0, 1.0)));
        (0..100).for_each(|_| _ = drone.step([pwm; 4]));
        *drone.truth()
    };
    let pushed = nominal.clone().with_residual(constant([0.5, 0.0, 0.0, 0.0, 0.0, 2.0]));
    let (with, without) = (after(&pushed, 36_000), after(&nominal, 36_000));
    // A tenth of a second of 0.5 m/s² and 2 rad/s², but for the first steps.
    assert!((with.velocity.x - without.velocity.x - 0.05).abs() < 0.005, "{with:?}");
    assert!((with.rates.z - without.rates.z - 0.2).abs() < 0.02, "{with:?}");
    // With its motors off, nothing acts that was learned in flight.
    assert_eq!(after(&pushed, 0), after(&nominal, 0));
}

#[test]
fn an_unseen_input_counts_as_the_nearest_one_seen() {
    let mut residual = Residual {
        ranges: [Range { low: -1.0, high: 1.0, centre: 0.0, per_unit: 1.0 }; INPUTS],
        units: Vec::new(),
        weights: std::array::from_fn(|_| vec![0.0; 1 + INPUTS]),
    };
    residual.weights[0][1] = 3.0;
    let mut input = [0.0; INPUTS];
    let at = |input: &[f32; INPUTS]| residual.at(input).acceleration.x;
    input[0] = 0.5;
    assert_eq!(at(&input), 1.5);
    input[0] = 40.0;
    assert_eq!(at(&input), 3.0);
}

#[test]
fn a_search_climbs_a_hill() {
    let goal: Theta = std::array::from_fn(|i| 0.1 * (i % 5) as f32 - 0.2);
    let judge = |thetas: &[Theta]| -> Vec<f64> {
        let apart = |t: &Theta| t.iter().zip(goal).map(|(a, b)| f64::from((a - b).powi(2))).sum::<f64>();
        thetas.iter().map(|t| -apart(t)).collect()
    };
    let search = Search { population: 12, generations: 150, sigma: 0.2, seed: 1 };
    let (best, value) = climb([0.0; GAIN_COUNT], &search, judge, |_, _| {});
    assert!(value > -0.02, "{value}: {best:?}");
    assert_eq!(judge(&[best])[0], value);
}
