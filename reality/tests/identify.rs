//! Identified worlds: what simulated drones are told by their flights, and what real ones do.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod simulated;

use simulated::{MASS_KG, base, recorded};
use steady_reality::closed_loop::{Comparison, replay};
use steady_reality::identify::parameters::PARAMETERS;
use steady_reality::identify::{Identified, identify};
use steady_reality::score::{self, Score, Tally};
use steady_reality::{Flight, Recording};
use steady_sim::{Task, World};

fn score(flights: &[Flight], of: impl Fn(&Flight) -> Tally) -> Score {
    flights.iter().fold(Tally::default(), |all, flight| all.and(&of(flight))).score("all")
}

#[test]
fn twenty_simulated_drones_are_identified_from_three_flights_each() {
    let (mut told, mut inside) = (0, 0);
    for seed in 3000..3020 {
        let world = World::sample_measured(seed);
        let tasks = [Task::FigureEight, Task::TakeoffLand, Task::Helix];
        let flights: Vec<Flight> = tasks
            .into_iter()
            .zip(10 * seed..)
            .filter_map(|(task, seed)| recorded(&world, task, seed))
            .collect();
        let found = identify(&base(), MASS_KG, &flights, |_, _| {});
        let ahead =
            |world: &World| score(&flights, |f| score::world(world, f, false).unwrap()).errors[2].position_mm;
        let (truth, identified) = (ahead(&world), ahead(&found.world));
        assert!(identified < 1.2 * truth, "world {seed}: {identified} mm, the true world {truth} mm");
        for (parameter, estimate) in PARAMETERS.iter().zip(&found.parameters) {
            if estimate.is_told {
                told += 1;
                inside += usize::from((estimate.low..=estimate.high).contains(&parameter.get(&world)));
            }
        }
    }
    // Flights tell most of the 21 parameters of a world, and the truth is where they say.
    assert!(told > 20 * 12, "{told} told");
    assert!(10 * inside >= 9 * told, "{inside} of {told} inside their 95 % intervals");
}

#[test]
fn without_flights_a_drone_is_the_typical_one() {
    let found = identify(&base(), MASS_KG, &[], |_, _| {});
    assert!(found.parameters.iter().all(|estimate| !estimate.is_told));
    for (parameter, estimate) in PARAMETERS.iter().zip(&found.parameters) {
        assert!((estimate.value - parameter.typical).abs() <= 1e-6 * parameter.typical.abs(), "{estimate:?}");
    }
    assert!(found.world.check().is_ok());
}

/// The recorded flights with their drones, or nothing where there are no recordings.
fn real_flights() -> Option<Vec<(String, Flight)>> {
    let folder = steady_test_support::recording("real-flights")?;
    let mut flights = Vec::new();
    for line in std::fs::read_to_string(folder.join("index.csv")).unwrap().lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let path = folder.join(format!("{}.csv.gz", columns[0]));
        let recording = Recording::open(&path).unwrap();
        flights.extend(Flight::all(&recording).unwrap().into_iter().map(|f| (columns[3].to_owned(), f)));
    }
    assert_eq!(flights.len(), 12);
    Some(flights)
}

fn identified<'a>(flights: impl Iterator<Item = &'a (String, Flight)>) -> Identified {
    let flights: Vec<Flight> = flights.map(|(_, flight)| flight.clone()).collect();
    identify(&base(), MASS_KG, &flights, |_, _| {})
}

#[test]
fn a_flight_left_out_is_predicted_by_the_world_of_the_others() {
    let Some(flights) = real_flights() else { return };
    let mut tallies = [Tally::default(), Tally::default()];
    for (left_out, (drone, flight)) in flights.iter().enumerate() {
        let others = flights.iter().enumerate().filter(|(i, f)| *i != left_out && f.0 == *drone);
        let world = identified(others.map(|(_, f)| f)).world;
        for (is_trimmed, tally) in [false, true].into_iter().zip(&mut tallies) {
            *tally = tally.clone().and(&score::world(&world, flight, is_trimmed).unwrap());
        }
    }
    let [plain, trimmed] = tallies.map(|tally| tally.score("left out"));
    let (plain_end, tenth, end) = (plain.errors[2], trimmed.errors[1], trimmed.errors[2]);
    assert!(plain_end.position_mm < 65.0, "{plain:?}");
    assert!(end.position_mm < 43.0 && end.velocity_m_s < 0.24 && tenth.tilt_deg < 0.97, "{trimmed:?}");
    assert!(trimmed.vertical_force_m_s2.unwrap() < 0.18, "{trimmed:?}");
}

#[test]
fn official_controllers_fly_an_identified_world_as_they_flew_the_drone() {
    let Some(flights) = real_flights() else { return };
    let mut by_mellinger = 0;
    for drone in ["A", "B", "C"] {
        let world = identified(flights.iter().filter(|f| f.0 == drone)).world;
        for (_, flight) in flights.iter().filter(|f| f.0 == drone) {
            let Comparison { flown, predicted, controller, .. } = replay(&world, flight).unwrap().unwrap();
            let predicted = predicted.unwrap();
            assert!((predicted.lag_s - flown.lag_s).abs() < 0.1, "{} {flown:?} {predicted:?}", flight.name);
            if controller == "mellinger" {
                by_mellinger += 1;
                let off_cm = predicted.droop_cm - flown.droop_cm;
                assert!(off_cm.abs() < 1.0, "{} {flown:?} {predicted:?}", flight.name);
            }
        }
    }
    assert_eq!(by_mellinger, 4);
}
