//! Who is listened to, and for how long.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use steady_common::commander::{Commander, Follower, Refusal, Setpoint, Source};
use steady_common::{Vec3, math};

const HERE: Setpoint = Setpoint::Position { position: Vec3::Z, yaw: 0.0 };

#[test]
fn streams_outrank_the_planner_until_they_stop() {
    let mut c = Commander::default();
    assert_eq!(c.source(0), Source::None);
    c.plan(0, 500).unwrap();
    assert_eq!((c.source(1), c.age_ms(100_000)), (Source::Planner, 0), "plans do not age");
    c.stream(HERE, 1000).unwrap();
    assert_eq!((c.source(1001), c.age_ms(1400)), (Source::Stream, 400));
    assert_eq!(c.plan(1500, 500), Err(Refusal::Planner));
    let mut silent = c;
    silent.plan(1501, 500).unwrap();
    assert_eq!(silent.source(1501), Source::Planner, "a dead stream does not lock others out");
    c.stream_stops(200, 1500);
    assert_eq!(c.source(1699), Source::Stream);
    assert_eq!(c.source(1700), Source::Planner);
    c.stream(HERE, 2000).unwrap();
    c.stream_stops(200, 2000);
    c.stream(HERE, 2100).unwrap();
    assert_eq!(c.source(3000), Source::Stream, "streaming again");
    c.stream_stops(u32::MAX, 3000);
    assert_eq!(c.source(13_001), Source::Planner, "no set-point is valid for ever");
    c.silence();
    assert_eq!((c.source(14_000), c.setpoint()), (Source::None, &Setpoint::Stop));
    c.stream_stops(0, 14_000);
    assert_eq!(c.source(14_001), Source::None);
}

#[test]
fn the_clock_may_wrap() {
    let mut c = Commander::default();
    c.stream(HERE, u32::MAX - 100).unwrap();
    assert_eq!(c.age_ms(399), 500);
    c.stream_stops(200, u32::MAX - 100);
    assert_eq!(c.source(98), Source::Stream);
    assert_eq!(c.source(99), Source::Planner);
}

#[test]
fn what_is_not_a_number_is_not_taken() {
    let mut c = Commander::default();
    for bad in [f32::NAN, f32::INFINITY] {
        let v = Vec3::new(0.0, bad, 0.0);
        for setpoint in [
            Setpoint::Position { position: v, yaw: 0.0 },
            Setpoint::Position { position: Vec3::Z, yaw: bad },
            Setpoint::Velocity { velocity: v, yaw_rate: 0.0 },
            Setpoint::FullState { reference: Default::default(), rates: v },
            Setpoint::Hover { forward: 0.0, left: 0.0, yaw_rate: 0.0, height: bad },
            Setpoint::HeightAttitude { roll: bad, pitch: 0.0, yaw_rate: 0.0, height: 0.0 },
            Setpoint::ClimbAttitude { roll: 0.0, pitch: bad, yaw_rate: 0.0, climb: 0.0 },
            Setpoint::Manual { roll: 0.0, pitch: 0.0, yaw_rate: 0.0, thrust: bad, rates: false },
        ] {
            assert_eq!(c.stream(setpoint, 0), Err(Refusal::Value), "{setpoint:?}");
        }
    }
    assert_eq!(c.source(0), Source::None);
}

#[test]
fn a_velocity_becomes_a_place_that_moves_and_waits() {
    let mut f = Follower::default();
    let velocity = Vec3::new(1.0, 0.0, 0.0);
    let mut at = Vec3::Z;
    for _ in 0..500 {
        let r = f.advance(at, 0.0, velocity, None, 1.0, 0.002);
        at = r.position;
        assert_eq!(r.velocity, velocity);
    }
    assert!((at - Vec3::new(1.0, 0.0, 1.0)).norm() < 1e-3, "{at:?}");
    // Held back, the reference waits.
    let mut r = f.advance(at, 0.0, velocity, None, 0.0, 0.002);
    assert!((r.yaw - 1.0).abs() < 1e-3);
    for _ in 0..5000 {
        r = f.advance(at, 0.0, velocity, None, 0.0, 0.002);
    }
    assert!(math::abs(r.position.x - at.x - Follower::LEASH_M) < 1e-4);
    // A height is approached at a limited speed.
    f.restart();
    let mut steps = 0;
    while (f.advance(at, 0.0, Vec3::ZERO, Some(2.0), 0.0, 0.002).position.z - 2.0).abs() > 1e-4 {
        steps += 1;
    }
    assert!((990..1010).contains(&steps), "1 m at 0.5 m/s: {steps} steps");
}
