//! Skills and flights that nothing was fitted to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use steady_common::exploration::Exploration;
use steady_learn::discovery::{Settings, discover_in, transitions};
use steady_learn::left_out::{Before, LeftOut, predict};
use steady_learn::readings::{Along, Reading, readings};
use steady_native::{Plan, fly};
use steady_reality::Flight;
use steady_reality::identify::parameters::Effect;
use steady_reality::identify::{Prior, identify_from};
use steady_sim::{PlantParams, Task, World};

/// The simulator that is fitted.
fn base() -> World {
    World::named("real").unwrap()
}

/// Shaken flights of one drone, as recorded without noise.
fn flights(world: &World) -> Vec<Flight> {
    let flown =
        [Task::FigureEight, Task::Helix, Task::FigureEight].into_iter().zip(1_u32..).map(|(task, seed)| {
            let exploration = Exploration { enabled: true, std: [0.03, 0.03, 0.03, 0.01], hold: 25, seed };
            let plan = Plan { exploration, seed: u64::from(seed), ..Plan::new(task) };
            let mut truth = Vec::new();
            let mut flown = fly(&PlantParams::new(world).unwrap(), &plan, |sample| truth.push(sample.truth));
            flown.records.iter_mut().zip(truth).for_each(|(record, truth)| record.state = truth);
            Flight::from_log("flight", &flown.records).unwrap()
        });
    flown.collect()
}

/// The first flight by the others, without an effect in the simulator.
fn left_out(flights: &[Flight], untold: &[Effect]) -> LeftOut {
    let (prior, base) = (Prior::crazyflie().without(untold), base());
    let before = Before { prior: &prior, base: &base, mass_kg: 0.027 };
    predict(&before, flights, 0, &Settings::default(), 1).unwrap().unwrap()
}

/// Errors half a second ahead without and with skills: position, mm, and tilt, degrees.
fn errors(found: &LeftOut) -> [(f64, f64); 2] {
    [&found.identified[0], &found.with_skills[0]].map(|tally| {
        let end = tally.score("").errors[2];
        (end.position_mm, end.tilt_deg)
    })
}

#[test]
fn skills_predict_a_flight_left_out_where_the_simulator_lacks_a_moment_and_change_nothing_where_it_lacks_none()
 {
    let mut drone = base();
    drone.motors.effectiveness = [0.8, 0.76, 0.78, 0.8];
    let flights = flights(&drone);
    let untold = left_out(&flights, &[Effect::Moment]);
    let [before, after] = errors(&untold);
    assert!(after.0 < 0.6 * before.0 && after.1 < 0.6 * before.1, "{before:?} {after:?}");
    let explained = untold.residual.explained();
    assert!(explained[3] > 0.7 && explained[4] > 0.7, "{explained:?}");
    let told = left_out(&flights, &[]);
    let [before, after] = errors(&told);
    assert!(after.0 < 1.1 * before.0 && after.1 < 1.1 * before.1, "{before:?} {after:?}");
}

#[test]
fn readings_say_the_moment_that_the_simulator_was_not_told() {
    let drone = base();
    let flights = flights(&drone);
    let prior = Prior::crazyflie().without(&[Effect::Moment]);
    let world = identify_from(&prior, &base(), 0.027, &flights, |_, _| {}).world;
    assert!(world.aero.speed_moment_n_s.iter().all(|moment| moment.abs() < 1e-9), "{:?}", world.aero);
    let flown = transitions(&world, &flights).unwrap();
    let found = discover_in(&flown, &Settings::default(), 1).unwrap();
    let all = readings(&found, &flown);
    let reading = |output: usize, along: Along| -> Reading {
        *all.iter().find(|r| r.output == output && r.along == along).unwrap()
    };
    let [moment_x, moment_y] = drone.aero.speed_moment_n_s;
    let inertia = drone.body.inertia_kg_m2[0];
    for (output, along, expected) in
        [(3, Along::VelocityY, moment_x / inertia), (4, Along::VelocityX, -moment_y / inertia)]
    {
        // The fit has taken some of it for damping and inertia, and the ridge holds skills back.
        let found = reading(output, along);
        let ratio = found.slope / f64::from(expected);
        assert!((0.5..1.1).contains(&ratio) && found.is_sure(), "{found:?}, not {expected}");
        // Nothing about that axis is stronger.
        let strongest = all.iter().find(|r| r.output == output).unwrap();
        assert_eq!(strongest.along, along, "{strongest:?}");
    }
}

#[test]
fn what_is_left_out_is_nothing_and_not_told() {
    let prior = Prior::crazyflie().without(&[Effect::Drag, Effect::Trims]);
    let found = identify_from(&prior, &base(), 0.027, &flights(&base())[..1], |_, _| {});
    let left_out: Vec<_> = found.parameters.iter().filter(|p| p.is_left_out).collect();
    assert_eq!(left_out.len(), 5);
    assert!(left_out.iter().all(|p| !p.is_told && p.value.abs() < 1e-9), "{left_out:?}");
    assert!(found.parameters.iter().any(|p| p.is_told));
    assert!(found.world.check().is_ok());
}
