//! The gain guard: patience, memory, and what proves a table.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use steady_common::guard::{Envelope, Guard, Measured, Status, Trip};

const CALM: Measured = Measured { tracking_m: 0.05, tilt_rad: 0.1, rate_rad_s: 1.0 };
const DT: f32 = 0.002;

fn watching() -> Guard {
    let mut guard = Guard::default();
    guard.start(false, &Envelope::DEFAULT);
    assert_eq!(guard.status(), Status::Watching);
    guard
}

/// Control steps until the guard trips, and why.
fn steps_to_trip(measured: Measured) -> Option<(u32, Trip)> {
    let mut guard = watching();
    for _ in 0..1000 {
        assert_eq!(guard.step(&Envelope::DEFAULT, &CALM, DT), Status::Watching);
    }
    (1..1000).find_map(|n| match guard.step(&Envelope::DEFAULT, &measured, DT) {
        Status::Tripped(trip) => Some((n, trip)),
        _ => None,
    })
}

#[test]
fn every_limit_trips_after_its_patience() {
    assert_eq!(steps_to_trip(CALM), None);
    // 200 ms, 40 ms and 30 ms at 500 Hz, and one step more.
    let within = |found: Option<(u32, Trip)>, steps: u32, trip: Trip| {
        let (n, why) = found.unwrap();
        assert!(why == trip && n.abs_diff(steps) <= 1, "{n} {why:?}");
    };
    within(steps_to_trip(Measured { tracking_m: 0.61, ..CALM }), 101, Trip::Tracking);
    within(steps_to_trip(Measured { tilt_rad: 0.71, ..CALM }), 21, Trip::Tilt);
    within(steps_to_trip(Measured { rate_rad_s: 8.1, ..CALM }), 16, Trip::Rate);
    for bad in [f32::NAN, f32::INFINITY] {
        within(steps_to_trip(Measured { rate_rad_s: bad, ..CALM }), 1, Trip::NotANumber);
    }
}

#[test]
fn short_excursions_are_forgiven_and_a_trip_is_not() {
    let mut guard = watching();
    for step in 0..5000 {
        let tilt_rad = if step % 20 < 15 { 1.0 } else { 0.1 };
        guard.step(&Envelope::DEFAULT, &Measured { tilt_rad, ..CALM }, DT);
    }
    assert_eq!(guard.status(), Status::Watching);
    for _ in 0..40 {
        guard.step(&Envelope::DEFAULT, &Measured { tilt_rad: 1.0, ..CALM }, DT);
    }
    assert_eq!(guard.status(), Status::Tripped(Trip::Tilt));
    for _ in 0..5000 {
        guard.step(&Envelope::DEFAULT, &CALM, DT);
    }
    assert!(guard.is_tripped() && !guard.completes());
}

#[test]
fn proven_gains_and_a_switched_off_guard_are_left_alone() {
    let wild = Measured { tracking_m: 9.0, tilt_rad: 3.0, rate_rad_s: 30.0 };
    for (proven, enabled) in [(true, true), (false, false)] {
        let envelope = Envelope { enabled, ..Envelope::DEFAULT };
        let mut guard = Guard::default();
        guard.start(proven, &envelope);
        for _ in 0..1000 {
            assert_eq!(guard.step(&envelope, &wild, DT), Status::Idle);
        }
    }
}

#[test]
fn only_a_flight_of_some_length_proves() {
    let mut guard = watching();
    for _ in 0..2400 {
        guard.step(&Envelope::DEFAULT, &CALM, DT);
    }
    assert!(!guard.completes(), "4.8 s");
    for _ in 0..200 {
        guard.step(&Envelope::DEFAULT, &CALM, DT);
    }
    assert!(guard.completes(), "5.2 s");
}

#[test]
fn codes_are_what_logs_say() {
    let codes = [
        Status::Idle,
        Status::Watching,
        Status::Tripped(Trip::Tracking),
        Status::Tripped(Trip::Tilt),
        Status::Tripped(Trip::Rate),
        Status::Tripped(Trip::NotANumber),
    ]
    .map(Status::code);
    assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
}
