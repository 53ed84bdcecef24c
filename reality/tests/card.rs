//! Card logs of the official firmware: what they tell of simulated drones, and what of them is left out.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod simulated;

use simulated::{MASS_KG, base, recorded};
use steady_common::Vec3;
use steady_native::{Plan, fly};
use steady_reality::Flight;
use steady_reality::card::Reading;
use steady_reality::flight::{GRAVITY_M_S2, Sample};
use steady_reality::identify::identify;
use steady_reality::identify::parameters::{PARAMETERS, Parameter};
use steady_sim::rng::Rng;
use steady_sim::{PlantParams, Task, World};

/// What a card tells: lags, inertia, and how rates are damped.
const TOLD: [&str; 5] = [
    "motors.tau_rise_s",
    "motors.tau_fall_s",
    "body.inertia_kg_m2[0..2]",
    "aero.rate_damping_nm_s[0]",
    "aero.rate_damping_nm_s[1]",
];

/// How well fits find what a card tells.
#[derive(Debug, Default)]
struct Found {
    /// Squares of the errors, in spreads between drones, and those of a typical drone.
    squares: f64,
    typical: f64,
    all: usize,
    inside: usize,
    told: usize,
}

impl Found {
    fn add(&mut self, flights: &[Flight], truth: &World) {
        let found = identify(&base(), MASS_KG, flights, |_, _| {});
        let wanted = |(parameter, _): &(&Parameter, _)| TOLD.contains(&parameter.name);
        for (parameter, estimate) in PARAMETERS.iter().zip(&found.parameters).filter(wanted) {
            let value = parameter.get(truth);
            let spreads = |value: f64| parameter.coordinate(value) / parameter.deviation();
            self.squares += (spreads(estimate.value) - spreads(value)).powi(2);
            self.typical += spreads(value).powi(2);
            self.all += 1;
            self.inside += usize::from((estimate.low..=estimate.high).contains(&value));
            self.told += usize::from(estimate.is_told);
        }
    }
}

/// A shaken flight in a world as a card would have it: motors, gyroscope and accelerometer, with noise.
fn logged(world: &World, seed: u64) -> Vec<Reading> {
    let mut plan = Plan { seed, ..Plan::new(Task::TakeoffLand) };
    plan.exploration.enabled = true;
    plan.exploration.std = [0.03, 0.06, 0.06, 0.01];
    plan.exploration.seed = seed as u32;
    let mut samples: Vec<steady_native::Sample> = Vec::new();
    fly(&PlantParams::new(world).unwrap(), &plan, |sample| samples.push(*sample));
    let mut rng = Rng::new(seed, 78);
    samples
        .array_windows()
        .map(|[before, now, after]| {
            let change = after.truth.velocity - before.truth.velocity;
            let force = change * (1.0 / (after.time_s - before.time_s)) + Vec3::Z * GRAVITY_M_S2;
            // A command comes after what was measured: half of the time around it the motors had the last one.
            let mean = |m: usize| 0.5 * (f32::from(before.pwm[m]) + f32::from(now.pwm[m]));
            Reading {
                time_s: f64::from(now.time_s),
                acc_m_s2: now.truth.attitude.to_matrix().apply_transposed(force) + rng.normal_vec() * 0.3,
                gyro_rad_s: now.truth.rates + rng.normal_vec() * 0.02,
                pwm: [mean(0), mean(1), mean(2), mean(3)],
                battery_v: Some(now.battery_v),
            }
        })
        .collect()
}

#[test]
fn shaken_flights_tell_lags_and_inertia_alone_and_beside_motion_capture() {
    let [mut card, mut unknown_battery, mut captured, mut both] = [(); 4].map(|()| Found::default());
    for seed in 3000..3012 {
        let world = World::sample_measured(seed);
        let readings: Vec<Vec<Reading>> = (0..3).map(|i| logged(&world, 10 * seed + i)).collect();
        let mut flights: Vec<Flight> = readings.iter().flat_map(|r| Flight::from_card("card", r)).collect();
        assert_eq!(flights.len(), 3, "world {seed}");
        card.add(&flights, &world);
        let without = |r: &Reading| Reading { battery_v: None, ..*r };
        let unknown = readings.iter().map(|r| r.iter().map(without).collect::<Vec<_>>());
        let unknown: Vec<Flight> = unknown.flat_map(|r| Flight::from_card("card", &r)).collect();
        unknown_battery.add(&unknown, &world);
        let seen = [Task::FigureEight, Task::Helix].into_iter().zip(10 * seed..);
        // Recordings with motion capture have a hundred commands a second.
        let slow = |flight| Flight { commands: Vec::new(), ..flight };
        let seen: Vec<Flight> =
            seen.filter_map(|(task, seed)| recorded(&world, task, seed)).map(slow).collect();
        captured.add(&seen, &world);
        flights.extend(seen);
        both.add(&flights, &world);
    }
    // A card alone halves what is not known of a drone, and says how well.
    assert!(2.0 * card.squares < card.typical, "{card:?}");
    assert!(100 * card.inside >= 85 * card.all && 2 * card.told > card.all, "{card:?}");
    // The voltage is worth logging; intervals without it are wider.
    assert!(unknown_battery.squares > 2.0 * card.squares, "{unknown_battery:?} {card:?}");
    assert!(unknown_battery.told < card.told, "{unknown_battery:?} {card:?}");
    assert!(100 * unknown_battery.inside >= 80 * unknown_battery.all, "{unknown_battery:?}");
    // Both together know more than either.
    assert!(both.squares < 0.8 * captured.squares && both.squares < card.squares, "{both:?} {captured:?}");
    assert!(both.told == both.all && 100 * both.inside >= 95 * both.all, "{both:?}");
}

/// Seconds of a drone that hangs in the air, a thousand readings in each.
fn hanging(seconds: usize) -> Vec<Reading> {
    let reading = |i: usize| Reading {
        time_s: 100.0 + i as f64 * 1e-3,
        acc_m_s2: Vec3::new(0.0, 0.0, 9.81),
        gyro_rad_s: Vec3::ZERO,
        pwm: [40_000.0; 4],
        battery_v: Some(3.6),
    };
    (0..1000 * seconds).map(reading).collect()
}

fn lengths(readings: &[Reading]) -> Vec<usize> {
    Flight::from_card("card", readings).iter().map(|flight| flight.samples.len()).collect()
}

fn gaps(readings: &[Reading]) -> usize {
    Flight::from_card("card", readings).iter().flat_map(|f| &f.samples).filter(|s| s.has_gap).count()
}

#[test]
fn implausible_readings_are_left_out_and_jumps_in_time_cut() {
    let whole = hanging(6);
    assert_eq!((lengths(&whole), gaps(&whole)), (vec![600], 0));
    let spoil: [fn(&mut Reading); 8] = [
        |r| r.time_s = f64::NAN,
        |r| r.acc_m_s2.x = f32::NAN,
        |r| r.acc_m_s2.z = 1e30,
        |r| r.gyro_rad_s.y = f32::INFINITY,
        |r| r.gyro_rad_s.z = -50.0,
        |r| r.pwm[2] = 3.7e6,
        |r| r.pwm[3] = -1.0,
        |r| r.battery_v = Some(0.0),
    ];
    for (i, spoil) in spoil.into_iter().enumerate() {
        // One reading of a sample: the others are its mean.
        let mut readings = whole.clone();
        spoil(&mut readings[3000]);
        assert_eq!((lengths(&readings), gaps(&readings)), (vec![600], 0), "{i}");
        let flight = &Flight::from_card("card", &readings)[0];
        let as_before = |s: &Sample| {
            s.pwm.iter().all(|pwm| (pwm - 40_000.0).abs() < 1.0)
                && (s.battery_v - 3.6).abs() < 1e-3
                && (s.acc_m_s2.z - 9.81).abs() < 1e-3
                && s.state.rates.norm() < 1e-3
        };
        assert!(flight.samples.iter().all(as_before), "{i}");
        // All of two samples are a gap, those of a tenth of a second the flight's end.
        readings[2998..3022].iter_mut().for_each(spoil);
        assert_eq!((lengths(&readings), gaps(&readings)), (vec![600], 2), "{i}");
        readings[3000..3100].iter_mut().for_each(spoil);
        assert_eq!(lengths(&readings), [] as [usize; 0], "{i}: two pieces of three seconds");
    }
    // Time that goes back or jumps makes two flights of a long one.
    for jump_s in [-0.001, -50.0, 0.2, 1e9] {
        let mut readings = hanging(6);
        let again = hanging(6).into_iter().map(|r| Reading { time_s: r.time_s + 6.0 + jump_s - 0.001, ..r });
        readings.extend(again);
        assert_eq!(lengths(&readings), [600, 600], "{jump_s}");
    }
    // It stands for a second, hits something, and is logged too slowly.
    let mut stands = hanging(6);
    stands.extend(hanging(6).into_iter().map(|r| Reading { time_s: r.time_s + 6.0, ..r }));
    stands[5500..6500].iter_mut().for_each(|r| r.pwm = [0.0; 4]);
    assert_eq!(lengths(&stands), [550, 550]);
    let mut hits = hanging(6);
    hits[3000..3010].iter_mut().for_each(|r| r.acc_m_s2.x = 80.0);
    assert_eq!((lengths(&hits), gaps(&hits)), (vec![600], 1));
    let slow: Vec<Reading> = hanging(6).into_iter().step_by(25).collect();
    assert_eq!(lengths(&slow), [] as [usize; 0]);
    assert_eq!(lengths(&[]), [] as [usize; 0]);
}

#[test]
fn hostile_readings_never_panic() {
    let rng = &mut Rng::new(7, 0);
    let odd = [f32::NAN, f32::INFINITY, -1.0, 0.0, 1e-40, 40.0, 65_535.0, 3.7e6, -3e38];
    let mut flights = 0;
    for round in 0..36 {
        let mut readings = hanging(60);
        for _ in 0..1 << (round % 12) {
            let at = rng.between(0.0, 59_999.0) as usize;
            let value = odd[rng.between(0.0, odd.len() as f32 - 0.01) as usize];
            let reading = &mut readings[at];
            match rng.between(0.0, 6.0) as usize {
                0 => reading.time_s = f64::from(value),
                1 => reading.time_s += f64::from(rng.between(-0.2, 0.2)),
                2 => reading.acc_m_s2.z = value,
                3 => reading.gyro_rad_s.x = value,
                4 => reading.pwm[0] = value,
                _ => reading.battery_v = Some(value),
            }
        }
        // The whole range of what is plausible, at random.
        if round % 3 == 0 {
            readings.iter_mut().for_each(|r| {
                r.gyro_rad_s = rng.normal_vec() * 15.0;
                r.acc_m_s2 = rng.normal_vec() * 80.0;
                r.pwm = [(); 4].map(|()| rng.between(0.0, 65_535.0));
                r.battery_v = Some(rng.between(2.0, 5.0));
            });
        }
        let found = Flight::from_card("card", &readings);
        flights += found.len();
        for flight in &found {
            assert!(flight.samples.len() >= 400);
            assert!(flight.samples.iter().all(|s| s.state.rates.is_finite() && s.state.velocity.is_finite()));
        }
        let identified = identify(&base(), MASS_KG, &found, |_, _| {});
        assert!(identified.world.check().is_ok(), "{:?}", identified.parameters);
        let finite = |e: &steady_reality::identify::Estimate| (e.value + e.low + e.high).is_finite();
        assert!(identified.parameters.iter().all(finite), "{:?}", identified.parameters);
    }
    assert!(flights > 20, "{flights}");
}
