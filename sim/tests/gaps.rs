//! What reality has and a textbook's drone has not: every field does what it says.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::{Quat, State, Vec3};
use steady_sim::world::{Jet, RotorDrag};
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

/// Rotors that together turn with 2000 π rad/s, rpm.
const TURNING_RPM: [f32; 4] = [15_000.0; 4];

/// Acceleration in the world frame of a drone with turning rotors, beyond its thrust and gravity, m/s².
fn pushed(params: &Params, state: State) -> Vec3 {
    let still = params_in_still_air();
    let accelerated = |p: &Params| {
        let mut next = state;
        p.step_body(&mut next, &TURNING_RPM, &Default::default());
        (next.velocity - state.velocity) * (1.0 / p.dt_s)
    };
    accelerated(params) - accelerated(&still)
}

fn params_in_still_air() -> Params {
    params(|w| w.physics.linear_damping_per_s = 0.0)
}

fn params_in_wind(change: impl Fn(&mut World)) -> Params {
    params(|w| {
        w.physics.linear_damping_per_s = 0.0;
        w.aero.rotor_drag = RotorDrag::Body;
        (w.aero.drag_xy_n_s2_per_m, w.aero.drag_z_n_s2_per_m) = (1e-6, 2e-6);
        change(w);
    })
}

#[test]
fn drag_goes_with_the_velocity_through_the_air() {
    let p = params_in_wind(|w| w.wind.velocity_m_s = [1.5, 0.0, -0.5]);
    // 1e-6 · 2000 π · 1.5 N along x and -2e-6 · 2000 π · 0.5 N along z push 27 g.
    assert_near(pushed(&p, State::at(Vec3::Z)), Vec3::new(0.34907, 0.0, -0.23271));
    let with_the_wind = State { velocity: Vec3::new(1.5, 0.0, -0.5), ..State::at(Vec3::Z) };
    assert_near(pushed(&p, with_the_wind), Vec3::ZERO);
    let against_it = State { velocity: Vec3::new(-1.5, 0.0, -0.5), ..State::at(Vec3::Z) };
    assert_near(pushed(&p, against_it), Vec3::new(0.69813, 0.0, 0.0));
}

#[test]
fn wind_tips_a_drone_that_stands_in_the_air() {
    let p = params(|w| {
        w.aero.speed_moment_n_s = [1.4e-4, 2.8e-4];
        w.wind.velocity_m_s = [1.0, 0.0, 0.0];
    });
    // Wind from behind is a flight backwards.
    assert_near(turn(&p, Vec3::ZERO, Vec3::ZERO), Vec3::new(0.0, 20.0, 0.0));
    assert_near(turn(&p, Vec3::new(1.0, 0.0, 0.0), Vec3::ZERO), Vec3::ZERO);
    // A drone that looks along the world's y has this wind from its left.
    let attitude = Quat::from_euler(Vec3::new(0.0, 0.0, std::f32::consts::FRAC_PI_2));
    let state = State { attitude, ..State::at(Vec3::Z) };
    assert_near(p.accelerations(&state, &[0.0; 4]).0, Vec3::new(10.0, 0.0, 0.0));
}

/// Velocities along x, m/s, of drones in gusts of 0.5 m/s and 2 s, whose drag ties them to the air.
fn carried(rate_hz: f32, drones: u64, seconds: &[f32]) -> Vec<Vec<f64>> {
    let p = params_in_wind(|w| {
        w.physics.rate_hz = rate_hz;
        w.aero.drag_xy_n_s2_per_m = 1e-4;
        w.wind.velocity_m_s = [1.0, 0.0, 0.0];
        (w.wind.gust_std_m_s, w.wind.gust_tau_s) = (0.5, 2.0);
    });
    let fly = |index| {
        let mut drone = Drone::new(&p, 1, index);
        drone.reset(&p, &Initial { state: State::at(Vec3::Z), rpm: TURNING_RPM, ..Initial::default() });
        let mut velocities = Vec::new();
        for second in seconds {
            while (drone.steps() as f32) < second * rate_hz {
                drone.step_rpm(&p, TURNING_RPM);
            }
            velocities.push(f64::from(drone.truth().velocity.x));
        }
        velocities
    };
    (0..drones).map(fly).collect()
}

fn covariance(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n = pairs.clone().count() as f64;
    let (a, b) = pairs.clone().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    pairs.map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / n
}

#[test]
fn gusts_have_their_spread_and_last_their_time() {
    for rate_hz in [240.0, 1000.0] {
        let flights = carried(rate_hz, 1500, &[1.0, 2.0, 4.0]);
        let of = |a: usize, b: usize| covariance(flights.iter().map(|v| (v[a], v[b])));
        let mean = flights.iter().map(|v| v[0]).sum::<f64>() / 1500.0;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
        // A drone follows the air with 43 ms, which takes 2 % of the variance.
        for i in 0..3 {
            assert!((of(i, i) - 0.25 * 0.98).abs() < 0.03, "{rate_hz} {i}: {}", of(i, i));
        }
        // e^-0.5 after a second, e^-1 after two.
        assert!((of(0, 1) / of(0, 0) - 0.607).abs() < 0.05, "{}", of(0, 1) / of(0, 0));
        assert!((of(1, 2) / of(1, 1) - 0.368).abs() < 0.06, "{}", of(1, 2) / of(1, 1));
    }
}

#[test]
fn a_jet_pushes_less_away_from_its_centre() {
    let jet = |x: f32| Jet { centre_m: [x, 0.0, 1.0], radius_m: 0.2, force_n: [0.0, 0.054, -0.027] };
    let p = params(|w| {
        w.physics.linear_damping_per_s = 0.0;
        w.wind.jets = vec![jet(0.0)];
    });
    let at = |p: &Params, x: f32, z: f32| pushed(p, State::at(Vec3::new(x, 0.0, z)));
    let full = Vec3::new(0.0, 2.0, -1.0);
    assert_near(at(&p, 0.0, 1.0), full);
    assert_near(at(&p, 0.2, 1.0), full * 0.606_53);
    assert_near(at(&p, 0.0, 1.4), full * 0.135_34);
    assert_near(at(&p, 0.16, 1.12), full * 0.606_53);
    assert!(at(&p, 2.0, 1.0).norm() < 1e-6);
    // It is the room's: a drone that looks elsewhere is pushed the same way.
    let attitude = Quat::from_euler(Vec3::new(0.0, 0.0, 2.0));
    assert_near(pushed(&p, State { attitude, ..State::at(Vec3::Z) }), full);
    let two = params(|w| {
        w.physics.linear_damping_per_s = 0.0;
        w.wind.jets = vec![jet(0.0), jet(0.2)];
    });
    assert_near(at(&two, 0.2, 1.0), full * 1.606_53);
}

/// Thrust of M1 and M2 over that of cold motors after a time at a PWM.
fn heated(p: &Params, drone: &mut Drone, steps: usize, pwm: [u16; 4]) -> [f32; 2] {
    (0..steps).for_each(|_| drone.step_pwm(p, pwm, Vec3::ZERO));
    let cold = p.rotor_speeds([(pwm.map(f32::from), drone.battery().voltage_v)])[0];
    [0, 1].map(|i| (drone.rpm()[i] / cold[i]).powi(2))
}

#[test]
fn a_motor_that_heats_up_loses_thrust_until_the_reset() {
    let p = params(|w| {
        w.physics.rate_hz = 1000.0;
        (w.motors.tau_rise_s, w.motors.tau_fall_s) = (0.0, 0.0);
        w.motors.heat_loss = [0.3, 0.0, 0.0, 0.0];
        w.motors.heat_tau_s = 2.0;
    });
    let mut drone = Drone::new(&p, 1, 0);
    let near = |[m1, m2]: [f32; 2], expected: f32| {
        assert!((m1 - expected).abs() < 1e-3 && (m2 - 1.0).abs() < 1e-5, "{m1} {m2} {expected}");
    };
    for _ in 0..2 {
        // Motors that stand still stay cold.
        (0..3000).for_each(|_| drone.step_pwm(&p, [0; 4], Vec3::ZERO));
        near(heated(&p, &mut drone, 1, [30_000; 4]), 1.0);
        // 1 - 0.3 (1 - e^-1) and 1 - 0.3 (1 - e^-3).
        near(heated(&p, &mut drone, 2000, [30_000; 4]), 0.810_36);
        near(heated(&p, &mut drone, 4000, [40_000; 4]), 0.714_94);
        drone.reset(&p, &Initial::on_floor(&p, Vec3::ZERO));
    }
    // Predictions from a log heat up too.
    let speeds = p.rotor_speeds((0..2001).map(|_| ([30_000.0; 4], 4.2)));
    let part = (speeds[2000][0] / speeds[0][0]).powi(2);
    assert!((part - 0.810_36).abs() < 1e-3, "{part}");
}

#[test]
fn thrust_goes_with_the_command_to_its_exponent() {
    let p = params(|w| {
        (w.motors.tau_rise_s, w.motors.tau_fall_s) = (0.0, 0.0);
        w.motors.thrust_exponent = 1.4;
        w.motors.effectiveness[3] = 0.8;
    });
    let mut drone = Drone::new(&p, 1, 0);
    drone.step(&p, [0.5, 0.25, 1.0, 0.5]);
    let thrust = drone.rpm().map(|rpm| rpm * rpm * 3.16e-10);
    // Half is half; 0.06 N · 0.5^1.4; 0.06 N · 2^1.4 is beyond the limit; a weak motor gives its part of what comes out.
    for (thrust, expected) in thrust.into_iter().zip([0.06, 0.022_735, 0.148_837_5, 0.048]) {
        assert!((thrust - expected).abs() < 1e-5, "{thrust} {expected}");
    }
    // By PWM too: 1.190 V are 0.02635 N by the curve, 0.2196 of the full command; 0.06 N · 0.4392^1.4.
    let given = p.rotor_speeds([([20_000.0; 4], 3.9)])[0][0].powi(2) * 3.16e-10;
    assert!((given - 0.018_962).abs() < 1e-5, "{given}");
}
