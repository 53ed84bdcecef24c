//! What reality has and a textbook's drone has not: every field does what it says.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::{State, Vec3};
use steady_sim::{Drone, Initial, Params, World};

fn params(change: impl Fn(&mut World)) -> Params {
    let mut world = World::default();
    world.physics.angular_damping_per_s = 0.0;
    change(&mut world);
    world.compile().unwrap()
}

/// Angular acceleration of a drone with still rotors, rad/s².
fn turn(params: &Params, velocity: Vec3, rates: Vec3) -> Vec3 {
    let state = State { velocity, rates, ..State::at(Vec3::Z) };
    params.accelerations(&state, &[0.0; 4]).0
}

#[track_caller]
fn assert_near(found: Vec3, expected: Vec3) {
    assert!((found - expected).norm() < 2e-3 * (1.0 + expected.norm()), "{found:?} {expected:?}");
}

#[test]
fn a_torque_trim_turns_the_drone() {
    let p = params(|w| w.body.torque_trim_nm = [1.4e-4, -2.8e-4, 2.17e-4]);
    assert_near(turn(&p, Vec3::ZERO, Vec3::ZERO), Vec3::new(10.0, -20.0, 10.0));
}

#[test]
fn speed_tips_the_drone_back() {
    let p = params(|w| w.aero.speed_moment_n_s = [1.4e-4, 2.8e-4]);
    // Flying forwards lifts the nose, which is a turn about -y; flying left lifts the left side.
    assert_near(turn(&p, Vec3::new(1.0, 0.0, 0.0), Vec3::ZERO), Vec3::new(0.0, -20.0, 0.0));
    assert_near(turn(&p, Vec3::new(0.0, 1.0, 0.0), Vec3::ZERO), Vec3::new(10.0, 0.0, 0.0));
}

#[test]
fn rates_are_damped() {
    let p = params(|w| w.aero.rate_damping_nm_s = [1.4e-5, 2.8e-5, 2.17e-5]);
    for (rates, expected) in [
        (Vec3::new(2.0, 0.0, 0.0), Vec3::new(-2.0, 0.0, 0.0)),
        (Vec3::new(0.0, 2.0, 0.0), Vec3::new(0.0, -4.0, 0.0)),
        (Vec3::new(0.0, 0.0, 2.0), Vec3::new(0.0, 0.0, -2.0)),
    ] {
        assert_near(turn(&p, Vec3::ZERO, rates), expected);
    }
}

/// Rotor speeds after steps with a PWM, from rest.
fn rpm_after(params: &Params, steps: usize) -> [f32; 4] {
    let mut drone = Drone::new(params, 1, 0);
    drone.reset(params, &Initial::on_floor(params, Vec3::ZERO));
    (0..steps).for_each(|_| drone.step_pwm(params, [30_000; 4], Vec3::ZERO));
    drone.rpm()
}

#[test]
fn commands_come_late_by_the_delay() {
    let at_once = params(|w| w.physics.rate_hz = 500.0);
    let late = params(|w| {
        w.physics.rate_hz = 500.0;
        w.motors.command_delay_s = 0.01;
    });
    assert_eq!(rpm_after(&late, 5), [0.0; 4]);
    assert_eq!(rpm_after(&late, 25), rpm_after(&at_once, 20));
}

#[test]
fn every_motor_has_its_own_lag() {
    let p = params(|w| w.motors.lag_factor = [1.0, 2.0, 1.0, 0.5]);
    let [m1, m2, m3, m4] = rpm_after(&p, 4);
    assert_eq!(m1, m3);
    assert!(m2 < 0.8 * m1 && m4 > 1.1 * m1, "{m1} {m2} {m4}");
}

#[test]
fn thrust_falls_with_the_battery_beyond_the_curve() {
    let p = params(|w| {
        (w.motors.tau_rise_s, w.motors.tau_fall_s) = (0.0, 0.0);
        w.motors.thrust_slope_per_v = 0.2;
    });
    let plain = params(|w| (w.motors.tau_rise_s, w.motors.tau_fall_s) = (0.0, 0.0));
    let thrust = |p: &Params, battery_v: f32| p.rotor_speeds([([30_000.0; 4], battery_v)])[0][0].powi(2);
    assert!((thrust(&p, 3.2) / thrust(&plain, 3.2) - 0.9).abs() < 1e-3);
    assert!((thrust(&p, 3.7) / thrust(&plain, 3.7) - 1.0).abs() < 1e-5);
}
