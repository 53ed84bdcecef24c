//! The estimator against the official filter's runs, and where there is no mocap or nonsense.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::HashMap;

use steady_common::GRAVITY_M_S2;
use steady_common::estimator::{Diverged, Estimator, Imu, Mocap, Noise};
use steady_common::{Quat, Vec3};
use steady_test_support::{Row, tables};

fn vector(row: &Row, columns: [&str; 3]) -> Vec3 {
    Vec3::from(columns.map(|c| row.f32(c)))
}

fn key(row: &Row) -> (i64, i64) {
    (row.int("flight"), row.int("t_ms"))
}

/// Angle between two attitudes, degrees.
fn angle_deg(a: Quat, b: Quat) -> f32 {
    let turn = a.conjugate() * b.normalized();
    2.0 * Vec3::new(turn.x, turn.y, turn.z).norm().min(1.0).asin().to_degrees()
}

#[test]
fn follows_the_official_filter() {
    let files = tables("kalman_imu").into_iter().zip(tables("kalman_mocap")).zip(tables("kalman"));
    for ((imu, mocap), expected) in files {
        let mocap: HashMap<_, _> = mocap.rows.iter().map(|row| (key(row), row)).collect();
        let expected_rows: HashMap<_, _> = expected.rows.iter().map(|row| (key(row), row)).collect();
        let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
        let (mut position, mut velocity, mut attitude, mut compared) = (0.0_f32, 0.0_f32, 0.0_f32, 0);
        for row in &imu.rows {
            let t = row.int("t_ms");
            if t == 0 {
                filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
            }
            let sample = Imu {
                accelerometer: vector(row, ["acc_x", "acc_y", "acc_z"]) * GRAVITY_M_S2,
                gyro: vector(row, ["gyro_x", "gyro_y", "gyro_z"]) * steady_common::math::DEG_TO_RAD,
            };
            let seen = mocap.get(&key(row)).map(|m| Mocap {
                position: vector(m, ["x", "y", "z"]),
                position_std: m.f32("std_dev"),
                attitude: None,
                age_s: 0.0,
            });
            filter.tick(t as u32, &sample, seen.as_ref(), row.int("flying") == 1).unwrap();
            if let Some(official) = expected_rows.get(&key(row)) {
                let state = filter.state();
                let q =
                    Quat::new(official.f32("qw"), official.f32("qx"), official.f32("qy"), official.f32("qz"));
                let deviation = |a: Vec3, columns| (a - vector(official, columns)).norm();
                position = position.max(deviation(state.position, ["x", "y", "z"]));
                velocity = velocity.max(deviation(state.velocity, ["vx", "vy", "vz"]));
                attitude = attitude.max(angle_deg(state.attitude, q));
                compared += 1;
            }
        }
        println!(
            "{}: {compared} rows, worst: {:.4} mm, {:.4} mm/s, {attitude:.4} deg",
            expected.name,
            1e3 * position,
            1e3 * velocity
        );
        assert_eq!(compared, expected.rows.len());
        assert!(position < 2e-3, "{position} m");
        assert!(attitude < 0.2, "{attitude} deg");
    }
}

const AT_REST: Imu = Imu { accelerometer: Vec3::new(0.0, 0.0, GRAVITY_M_S2), gyro: Vec3::ZERO };

fn at(position: Vec3) -> Mocap {
    Mocap { position, position_std: 0.01, attitude: None, age_s: 0.0 }
}

#[test]
fn a_pose_corrects_the_heading() {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
    let truth = Quat::from_euler(Vec3::new(0.0, 0.0, 0.3));
    for t in 0..3000 {
        let pose = Mocap { attitude: Some((truth, 0.01)), ..at(Vec3::Z) };
        filter.tick(t, &AT_REST, (t % 10 == 0).then_some(&pose), true).unwrap();
    }
    assert!(angle_deg(filter.state().attitude, truth) < 0.5);
    assert!((filter.state().position - Vec3::Z).norm() < 1e-3);
}

#[test]
fn without_mocap_it_knows_less_and_less_and_says_so() {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
    for t in 0..1000 {
        filter.tick(t, &AT_REST, Some(&at(Vec3::Z)), true).unwrap();
    }
    let certain = filter.position_std().z;
    for t in 1000..6000 {
        filter.tick(t, &AT_REST, None, true).unwrap();
    }
    assert!(certain < 0.01 && filter.position_std().z > 10.0 * certain);
    assert!(filter.state().is_finite());
    for t in 6000..7000 {
        filter.tick(t, &AT_REST, Some(&at(Vec3::Z)), true).unwrap();
    }
    assert!((filter.state().position - Vec3::Z).norm() < 0.01);
}

#[test]
fn divergence_is_reported() {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
    let pushed = Imu { accelerometer: Vec3::new(0.0, 0.0, 3.0 * GRAVITY_M_S2), gyro: Vec3::ZERO };
    let outcome = (0..5000).map(|t| filter.tick(t, &pushed, None, true)).find(Result::is_err);
    assert_eq!(outcome, Some(Err(Diverged)));
}

#[test]
fn nonsense_is_ignored_or_reported_but_never_kept() {
    let nan = Vec3::new(f32::NAN, 0.0, f32::INFINITY);
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
    for t in 0..200 {
        let bad = Mocap {
            position: nan,
            position_std: 0.01,
            attitude: Some((Quat::new(f32::NAN, 0.0, 0.0, 0.0), 0.1)),
            age_s: f32::NAN,
        };
        filter.tick(t, &AT_REST, Some(&bad), true).unwrap();
        let zero_std = Mocap { position_std: 0.0, ..at(Vec3::Z) };
        filter.tick(t, &AT_REST, Some(&zero_std), true).unwrap();
    }
    assert!(filter.state().is_finite());
    let bad = Imu { accelerometer: nan, gyro: nan };
    assert!((200..230).any(|t| filter.tick(t, &bad, None, true).is_err()));
}

#[test]
fn variances_stay_inside_their_bounds() {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::ZERO, 0.0, 0);
    for t in 0..20_000 {
        let _ = filter.tick(t, &AT_REST, None, t % 3000 > 1500);
        assert!(filter.variances().iter().all(|v| (1e-6..=100.0).contains(v)), "{:?}", filter.variances());
    }
}

/// Largest tilt error of a filter that sees the position of a drone that flies forth and stops, again and again,
/// degrees.
fn tilt_error(drag_per_s: f32, filter_drag_per_s: f32) -> f32 {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::Z, 0.0, 0).with_drag(filter_drag_per_s);
    let (mut worst, mut tilt_before, mut x) = (0.0_f32, 0.0, 0.0);
    for t in 0..8000_u32 {
        let (sin, cos) = (1.5 * t as f32 * 1e-3).sin_cos();
        let (speed, acceleration) = (1.0 - cos, 1.5 * sin);
        x += speed * 1e-3;
        let tilt = ((acceleration + drag_per_s * speed) / GRAVITY_M_S2).atan();
        let imu = Imu {
            accelerometer: Vec3::Z * (acceleration * tilt.sin() + GRAVITY_M_S2 * tilt.cos()),
            gyro: Vec3::new(0.0, (tilt - tilt_before) * 1e3, 0.0),
        };
        tilt_before = tilt;
        let seen = at(Vec3::new(x, 0.0, 1.0));
        filter.tick(t, &imu, t.is_multiple_of(10).then_some(&seen), true).unwrap();
        let truth = Quat::from_euler(Vec3::new(0.0, tilt, 0.0));
        worst = worst.max(angle_deg(filter.state().attitude, truth));
    }
    worst
}

#[test]
fn a_filter_that_knows_drag_does_not_take_it_for_tilt() {
    let (without, with, wrong) = (tilt_error(0.4, 0.0), tilt_error(0.4, 0.4), tilt_error(0.0, 0.4));
    assert!(without > 1.0 && with < 0.2 * without, "{without} {with} deg");
    assert!(wrong > 1.0, "where there is no drag, assuming some is as bad: {wrong} deg");
}

/// Position error at the end of an acceleration of 1 m/s² that motion capture shows `late_ms` late, m.
fn lagging(late_ms: i32, told_ms: f32) -> f32 {
    let mut filter = Estimator::new(Noise::DEFAULT, Vec3::Z, 0.0, 0);
    let tilt = (1.0 / GRAVITY_M_S2).atan();
    let imu = Imu { accelerometer: Vec3::new(0.0, 0.0, GRAVITY_M_S2 / tilt.cos()), gyro: Vec3::ZERO };
    let attitude = Quat::from_euler(Vec3::new(0.0, tilt, 0.0));
    for t in 0..3000 {
        let then = (t - late_ms).max(0) as f32 * 1e-3;
        let seen = Mocap {
            attitude: Some((attitude, 0.01)),
            position_std: 0.001,
            age_s: told_ms * 1e-3,
            ..at(Vec3::new(0.5 * then * then, 0.0, 1.0))
        };
        filter.tick(t as u32, &imu, (t % 10 == 0).then_some(&seen), true).unwrap();
    }
    (filter.state().position.x - 0.5 * 2.999 * 2.999).abs()
}

#[test]
fn old_motion_capture_is_compared_with_the_state_of_then() {
    // At 3 m/s: the filter predicts every 10 ms, so it is 30 mm behind even with fresh frames.
    let (fresh, silent, told) = (lagging(0, 0.0), lagging(30, 0.0), lagging(30, 30.0));
    assert!(silent > fresh + 0.08 && (told - fresh).abs() < 0.002, "{fresh} {silent} {told} m");
    // More than the filter can follow is taken as the most it can, and nonsense as nothing.
    assert!((lagging(100, 5000.0) - fresh).abs() < 0.01);
    assert_eq!(lagging(0, 0.0).to_bits(), lagging(0, f32::NAN).to_bits());
    assert_eq!(lagging(0, 0.0).to_bits(), lagging(0, -10.0).to_bits());
}
