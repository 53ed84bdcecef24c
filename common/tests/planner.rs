//! The high-level planner: smooth, as the official one, and never astray.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use proptest::prelude::*;
use steady_common::commander::{HighLevel, Pace, Refusal};
use steady_common::planner::{MEMORY_LEN, PIECE_LEN, Phase, Planner};
use steady_common::{Reference, Vec3};

const DT: f32 = 0.002;

fn take_off(height: f32, pace: Pace) -> HighLevel {
    HighLevel::TakeOff { height, relative: false, yaw: None, pace }
}

fn land(pace: Pace) -> HighLevel {
    HighLevel::Land { height: 0.0, relative: false, yaw: None, pace }
}

fn go_to(position: Vec3, yaw: f32, duration: f32) -> HighLevel {
    HighLevel::GoTo { relative: false, linear: false, position, yaw, duration }
}

/// Advances and checks that position, velocity and acceleration belong together.
fn fly(planner: &mut Planner, seconds: f32) -> Option<Reference> {
    let mut last: Option<Reference> = None;
    for _ in 0..(seconds / DT).round() as u32 {
        let now = planner.advance(DT);
        if let (Some(a), Some(b)) = (last, now) {
            let v = (b.position - a.position) * (1.0 / DT);
            let mean = (a.velocity + b.velocity) * 0.5;
            assert!((v - mean).norm() < 0.01, "{a:?} {b:?}");
            let acc = (b.velocity - a.velocity) * (1.0 / DT);
            let mean = (a.acceleration + b.acceleration) * 0.5;
            assert!((acc - mean).norm() < 0.15, "{a:?} {b:?}");
        }
        last = now;
    }
    last
}

fn airborne() -> Planner {
    let mut planner = Planner::default();
    let here = Reference::hover(Vec3::new(0.2, 0.1, 0.0));
    planner.request(&take_off(1.0, Pace::Duration(2.0)), &here).unwrap();
    assert_eq!(fly(&mut planner, 2.1).unwrap().position, Vec3::new(0.2, 0.1, 1.0));
    planner
}

#[test]
fn up_across_and_down() {
    let mut p = Planner::default();
    assert_eq!(p.advance(DT), None);
    p.request(&take_off(1.0, Pace::Speed(0.5)), &Reference::default()).unwrap();
    assert!(!p.status().finished);
    let half = fly(&mut p, 1.0).unwrap();
    assert!((half.position.z - 0.5).abs() < 0.01, "half-way in half of 1 m / 0.5 m/s: {half:?}");
    // Interrupted in the middle of the climb: position, velocity and acceleration are continued.
    p.request(&go_to(Vec3::new(1.0, -0.5, 1.2), 1.0, 3.0), &Reference::default()).unwrap();
    let next = p.advance(DT).unwrap();
    assert!((next.position - half.position).norm() < 3e-3, "{next:?}");
    assert!((next.velocity - half.velocity).norm() < 0.01, "{next:?}");
    let there = fly(&mut p, 3.1).unwrap();
    assert!((there.position - Vec3::new(1.0, -0.5, 1.2)).norm() < 1e-4);
    assert!(there.velocity == Vec3::ZERO && (there.yaw - 1.0).abs() < 1e-4 && p.status().finished);
    let relative =
        HighLevel::GoTo { relative: true, linear: true, position: Vec3::Z * 0.3, yaw: 0.5, duration: 2.0 };
    p.request(&relative, &Reference::default()).unwrap();
    let middle = fly(&mut p, 1.9).unwrap();
    assert!((middle.velocity - Vec3::Z * 0.15).norm() < 1e-4, "constant speed: {middle:?}");
    // It stops at once, so that the check of derivatives must not look.
    let there = (0..100).fold(middle, |_, _| p.advance(DT).unwrap());
    assert!((there.position - Vec3::new(1.0, -0.5, 1.5)).norm() < 1e-4 && (there.yaw - 1.5).abs() < 1e-4);
    p.request(&land(Pace::Duration(3.0)), &Reference::default()).unwrap();
    assert_eq!(p.status().phase, Phase::Landing);
    assert!(fly(&mut p, 2.9).is_some());
    assert_eq!(fly(&mut p, 0.2), None, "motors off at the end");
    assert_eq!(p.status().phase, Phase::Idle);
}

#[test]
fn what_does_not_fit_the_phase_is_refused() {
    let here = Reference::default();
    let mut p = Planner::default();
    assert_eq!(p.request(&land(Pace::Duration(1.0)), &here), Err(Refusal::Planner));
    assert_eq!(p.request(&go_to(Vec3::Z, 0.0, 1.0), &here), Err(Refusal::Planner));
    let mut p = airborne();
    assert_eq!(p.request(&take_off(1.0, Pace::Duration(1.0)), &here), Err(Refusal::Planner));
    p.request(&land(Pace::Duration(2.0)), &here).unwrap();
    assert_eq!(p.request(&land(Pace::Duration(2.0)), &here), Err(Refusal::Planner));
    p.request(&HighLevel::Stop, &here).unwrap();
    assert_eq!(p.advance(DT), None);
}

#[test]
fn yaw_goes_the_short_way() {
    let mut p = airborne();
    p.request(&go_to(Vec3::Z, 3.0, 1.0), &Reference::default()).unwrap();
    fly(&mut p, 1.1);
    p.request(&go_to(Vec3::Z, -3.0, 1.0), &Reference::default()).unwrap();
    for _ in 0..500 {
        let yaw = p.advance(DT).unwrap().yaw;
        assert!(yaw > 2.99, "{yaw}");
    }
}

#[test]
fn spirals_turn_about_their_centre() {
    let start = Vec3::new(0.2, 0.1, 1.0);
    let spiral = |clockwise, sideways, angle, radii: [f32; 2], climb| HighLevel::Spiral {
        sideways,
        clockwise,
        angle,
        start_radius: radii[0],
        end_radius: radii[1],
        climb,
        duration: 4.0,
    };
    let quarter = core::f32::consts::FRAC_PI_2;
    // Heading along x. To the left the centre is on the left, to the right on the right; sideways
    // the drone has it behind itself or before itself. Each time: centre, end, heading at the end.
    for (clockwise, sideways, centre, end, yaw) in [
        (false, false, Vec3::new(0.0, 0.5, 0.0), Vec3::new(0.5, 0.5, 0.4), quarter),
        (true, false, Vec3::new(0.0, -0.5, 0.0), Vec3::new(0.5, -0.5, 0.4), -quarter),
        (false, true, Vec3::new(-0.5, 0.0, 0.0), Vec3::new(-0.5, 0.5, 0.4), quarter),
        (true, true, Vec3::new(0.5, 0.0, 0.0), Vec3::new(0.5, 0.5, 0.4), -quarter),
    ] {
        let mut p = airborne();
        p.request(&spiral(clockwise, sideways, quarter, [0.5, 0.5], 0.4), &Reference::default()).unwrap();
        let mut worst: f32 = 0.0;
        for _ in 0..1995 {
            let now = p.advance(DT).unwrap();
            let out = now.position - start - centre;
            worst = worst.max((Vec3::new(out.x, out.y, 0.0).norm() - 0.5).abs());
            let speed = Vec3::new(now.velocity.x, now.velocity.y, 0.0).norm();
            assert!((speed - 0.5 * quarter / 4.0).abs() < 0.01, "{speed}");
        }
        assert!(worst < 0.005, "off the circle by {worst} m");
        let last = (0..100).fold(Reference::default(), |_, _| p.advance(DT).unwrap());
        assert!((last.position - start - end).norm() < 1e-4, "{last:?}");
        assert!((last.yaw - yaw).abs() < 1e-4 && last.velocity == Vec3::ZERO, "{last:?}");
    }
    // Wider and wider: it ends on the outer circle. More than a turn, and radii below zero, are cut.
    let mut p = airborne();
    p.request(&spiral(false, false, quarter, [0.2, 0.6], 0.0), &Reference::default()).unwrap();
    let last = (0..2100).fold(Reference::default(), |_, _| p.advance(DT).unwrap());
    assert!((last.position - start - Vec3::new(0.6, 0.2, 0.0)).norm() < 1e-4, "{last:?}");
    p.request(&spiral(false, false, 50.0, [-1.0, -1.0], 0.0), &Reference::default()).unwrap();
    let end = (0..2100).fold(Reference::default(), |_, _| p.advance(DT).unwrap());
    assert!((end.position - last.position).norm() < 1e-3);
    assert!((end.yaw - last.yaw - core::f32::consts::TAU).abs() < 1e-3, "one turn: {}", end.yaw);
    assert_eq!(p.request(&spiral(false, false, f32::NAN, [1.0; 2], 0.0), &last), Err(Refusal::Value));
}

fn piece(x: [f32; 8], y: [f32; 8], yaw: [f32; 8], duration: f32) -> Vec<u8> {
    let z = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let all = x.iter().chain(&y).chain(&z).chain(&yaw).chain(core::iter::once(&duration));
    all.flat_map(|c| c.to_le_bytes()).collect()
}

/// Rest to rest over 1 m in 1 s.
const OUT: [f32; 8] = [0.0, 0.0, 0.0, 0.0, 35.0, -84.0, 70.0, -20.0];

fn define(id: u8, offset: u32, pieces: u8) -> HighLevel {
    HighLevel::DefineTrajectory { id, offset, pieces }
}

fn start(time_scale: f32, reversed: bool, relative: bool) -> HighLevel {
    HighLevel::StartTrajectory {
        id: 0,
        time_scale,
        reversed,
        relative_position: relative,
        relative_yaw: relative,
    }
}

#[test]
fn pieces_are_stretched_reversed_shifted_and_turned() {
    let mut p = airborne();
    p.write_memory(0, &piece(OUT, [0.0; 8], [0.0; 8], 1.0)).unwrap();
    p.request(&define(0, 0, 1), &Reference::default()).unwrap();
    assert_eq!(p.status().defined, 1);
    p.request(&start(2.0, false, false), &Reference::default()).unwrap();
    let half = fly(&mut p, 1.0).unwrap();
    assert!((half.position - Vec3::new(0.5, 0.0, 1.0)).norm() < 1e-3, "{half:?}");
    assert!((half.velocity.x - 35.0 / 16.0 / 2.0).abs() < 1e-2, "half the speed: {half:?}");
    assert_eq!(p.write_memory(0, &[0; 4]), Err(Refusal::Planner), "not under a flying drone");
    fly(&mut p, 1.1);
    p.request(&start(1.0, true, false), &Reference::default()).unwrap();
    let first = p.advance(DT).unwrap();
    assert!((first.position.x - 1.0).abs() < 1e-3, "starts at its end: {first:?}");
    let last = fly(&mut p, 1.1).unwrap();
    assert!(last.position.x.abs() < 1e-4, "{last:?}");
    // Turned by a quarter and flown from another place.
    p.request(&go_to(Vec3::new(2.0, 2.0, 1.5), core::f32::consts::FRAC_PI_2, 1.0), &Reference::default())
        .unwrap();
    fly(&mut p, 1.1);
    p.request(&start(1.0, false, true), &Reference::default()).unwrap();
    let end = fly(&mut p, 1.1).unwrap();
    assert!((end.position - Vec3::new(2.0, 3.0, 1.5)).norm() < 1e-3, "{end:?}");
    assert!((end.yaw - core::f32::consts::FRAC_PI_2).abs() < 1e-3, "{end:?}");
}

#[test]
fn memory_has_its_bounds() {
    let mut p = Planner::default();
    assert_eq!(p.write_memory(MEMORY_LEN - 3, &[0; 4]), Err(Refusal::Trajectory));
    assert_eq!(p.write_memory(usize::MAX, &[0; 4]), Err(Refusal::Trajectory));
    p.write_memory(MEMORY_LEN - 4, &[7; 4]).unwrap();
    assert_eq!(&p.memory().bytes()[MEMORY_LEN - 4..], [7; 4]);
    let here = Reference::default();
    assert_eq!(p.request(&define(0, 0, 1), &here), Err(Refusal::Trajectory), "no duration");
    p.write_memory(0, &piece([f32::NAN; 8], OUT, OUT, 1.0)).unwrap();
    assert_eq!(p.request(&define(0, 0, 1), &here), Err(Refusal::Trajectory), "not numbers");
    assert_eq!(p.request(&define(0, u32::MAX, 1), &here), Err(Refusal::Trajectory));
    assert_eq!(
        p.request(&define(0, (MEMORY_LEN - PIECE_LEN + 1) as u32, 1), &here),
        Err(Refusal::Trajectory)
    );
}

proptest! {
    /// The official polynomial: starts with the given motion and ends at rest at the goal.
    #[test]
    fn go_to_ends_at_rest_wherever_it_starts(
        first in prop::array::uniform3(-2.0_f32..2.0), second in prop::array::uniform3(-2.0_f32..2.0),
        t1 in 2.0_f32..5.0, t2 in 1.0_f32..3.0, cut in 0.1_f32..0.9, yaw in -7.0_f32..7.0,
    ) {
        let mut p = airborne();
        p.request(&go_to(Vec3::from(first), yaw, t1), &Reference::default()).unwrap();
        for _ in 0..(cut * t1 / DT) as u32 {
            p.advance(DT);
        }
        p.request(&go_to(Vec3::from(second), 0.3, t2), &Reference::default()).unwrap();
        let mut last = Reference::default();
        for _ in 0..=(t2 / DT) as u32 {
            last = p.advance(DT).unwrap();
            prop_assert!(last.position.is_finite() && last.position.norm() < 15.0);
        }
        prop_assert!((last.position - Vec3::from(second)).norm() < 5e-3, "{last:?}");
        prop_assert!(last.velocity.norm() < 2e-2, "{last:?}");
    }

    /// Whatever is asked, references stay numbers.
    #[test]
    fn any_numbers_are_refused_or_flown(
        height in prop::num::f32::ANY, pace in prop::num::f32::ANY, position in prop::array::uniform3(prop::num::f32::ANY),
        duration in prop::num::f32::ANY, scale in prop::num::f32::ANY, bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut p = Planner::default();
        let here = Reference::default();
        let _ = p.write_memory(0, &bytes);
        let _ = p.request(&define(0, 0, 1), &here);
        let _ = p.request(&take_off(height, Pace::Speed(pace)), &here);
        let _ = p.request(&take_off(height, Pace::Duration(pace)), &here);
        for _ in 0..10 {
            if let Some(r) = p.advance(DT) { prop_assert!(r.position.is_finite() && r.yaw.is_finite()); }
        }
        let _ = p.request(&go_to(Vec3::from(position), height, duration), &here);
        for _ in 0..10 {
            if let Some(r) = p.advance(DT) { prop_assert!(r.position.is_finite() && r.velocity.is_finite()); }
        }
        let _ = p.request(&start(scale, false, true), &here);
        for _ in 0..10 {
            p.advance(DT);
        }
    }
}
