//! A world's score: nothing on its own flights, and what others measured on real ones.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::{State, Vec3};
use steady_reality::flight::Sample;
use steady_reality::predict::{Predictor, Trim};
use steady_reality::score::{self, Baseline, Tally};
use steady_reality::{Flight, Recording};
use steady_sim::World;
use steady_sim::residual::{INPUTS, Range, Residual};

/// Twelve seconds that a world flew itself, from commands that go up and down.
fn flown_by(world: &World) -> Flight {
    let mut world = world.clone();
    world.physics.rate_hz = 500.0;
    let params = world.compile().unwrap();
    let hover = 36_000.0;
    let pwm = |i: usize| hover + if i % 100 < 50 { 600.0 } else { -600.0 };
    let commands = |i: usize| ([pwm(i) + 20.0 * (i % 7) as f32, pwm(i), pwm(i), pwm(i)], 3.7);
    // As a log: commands are known every fifth step.
    let at = |step: usize| {
        let (i, part) = (step / 5, (step % 5) as f32 / 5.0 + 0.1);
        let ((a, v), (b, _)) = (commands(i), commands(i + 1));
        ([0, 1, 2, 3].map(|m| a[m] + (b[m] - a[m]) * part), v)
    };
    let rpm = params.rotor_speeds((0..6000).map(at));
    let mut state = State::at(Vec3::new(0.0, 0.0, 50.0));
    let mut samples = Vec::new();
    for (step, rpm) in rpm.iter().enumerate() {
        if step % 5 == 0 {
            // What the accelerometer feels at the sample.
            let acc_m_s2 = Vec3::new(0.0, 0.0, params.accelerations(&state, rpm).1);
            let (pwm, battery_v) = commands(step / 5);
            samples.push(Sample { state, acc_m_s2, pwm, battery_v, ..Sample::default() });
        }
        params.step_body(&mut state, rpm, &Default::default());
    }
    Flight {
        name: "own".to_owned(),
        samples,
        take_off: 100,
        landing: 1100,
        commands: Vec::new(),
        mount_rad: Vec3::ZERO,
        has_pose: true,
        has_battery: true,
        has_accelerometer: true,
        controller: None,
    }
}

#[test]
fn a_world_predicts_its_own_flight() {
    let mut world = World::named("nominal").unwrap();
    world.physics.integrator = steady_sim::world::Integrator::SemiImplicit;
    let flight = flown_by(&world);
    let own = score::world(&world, &flight, false).unwrap().score("own");
    assert!(own.windows > 100);
    assert!(own.errors[2].position_mm < 1.0 && own.errors[2].tilt_deg < 0.1, "{own:?}");
    assert!(own.vertical_force_m_s2.unwrap() < 0.02, "{own:?}");
    // A drone with a torque that the world does not know is predicted worse, and the trim finds it.
    let mut other = world.clone();
    other.body.torque_trim_nm = [3e-6, 0.0, 0.0];
    let flight = flown_by(&other);
    let wrong = score::world(&world, &flight, false).unwrap().score("wrong");
    let trimmed = score::world(&world, &flight, true).unwrap().score("trimmed");
    assert!(wrong.errors[2].tilt_deg > 1.0, "{wrong:?}");
    assert!(trimmed.errors[2].tilt_deg < 0.3 * wrong.errors[2].tilt_deg, "{trimmed:?}");
}

#[test]
fn real_flights_score_the_shipped_worlds_as_measured() {
    let Some(folder) = steady_test_support::recording("real-flights") else { return };
    let mut flights = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "gz") {
            flights.extend(Flight::all(&Recording::open(&path).unwrap()).unwrap());
        }
    }
    let total = |of: &dyn Fn(&Flight) -> Tally| {
        flights.iter().fold(Tally::default(), |all, flight| all.and(&of(flight))).score("all")
    };
    let persistence = total(&|f| Baseline::Persistence.errors(f));
    assert!((persistence.errors[2].position_mm - 125.1).abs() < 0.5, "{persistence:?}");
    assert!((persistence.errors[1].tilt_deg - 1.74).abs() < 0.02, "{persistence:?}");
    let nominal = World::named("nominal").unwrap();
    let nominal = total(&|f| score::world(&nominal, f, false).unwrap());
    // Half a second ahead the nominal world is six times as far off as a drone that flies straight on.
    assert!((nominal.errors[2].position_mm - 769.0).abs() < 4.0, "{nominal:?}");
    assert!((nominal.vertical_force_m_s2.unwrap() - 6.0).abs() < 0.05, "{nominal:?}");
}

#[test]
fn a_residual_is_predicted_as_the_plant_flies_it() {
    // A push along x and a torque about z that no equation of the world has.
    let residual = Residual {
        ranges: [Range { low: -1e3, high: 1e3, centre: 0.0, per_unit: 1.0 }; INPUTS],
        units: Vec::new(),
        weights: [0.5, 0.0, 0.0, 0.0, 0.0, 2.0].map(|a| {
            let mut weights = vec![0.0; 1 + INPUTS];
            weights[0] = a;
            weights
        }),
    };
    let mut world = World::named("nominal").unwrap();
    world.physics.integrator = steady_sim::world::Integrator::SemiImplicit;
    let flight = flown_by(&world);
    let plain = Predictor::new(&world, &flight).unwrap();
    let end = |predictor: &Predictor<'_>, trim: Trim| {
        let mut end = State::default();
        predictor.fly(300, 20, trim, |_, state| end = *state);
        end
    };
    let without = end(&plain, Trim::default());
    let own = plain.accelerations(300);
    let with = Predictor::new(&world, &flight).unwrap().with_residual(&residual);
    let pushed = end(&with, Trim::default());
    assert!((pushed.velocity.x - without.velocity.x - 0.1).abs() < 0.01, "{pushed:?} {without:?}");
    assert!((pushed.rates.z - without.rates.z - 0.4).abs() < 0.02, "{pushed:?} {without:?}");
    assert!((with.accelerations(300).0.z - own.0.z - 2.0).abs() < 1e-3);
    // The flight has nothing of it, so the trims take the torque back.
    let [without, with] = [&plain, &with].map(|predictor| predictor.trims()[700].angular_rad_s2.z);
    assert!((with - without + 2.0).abs() < 0.05, "{without} {with}");
}
