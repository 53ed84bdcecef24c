//! Bodies in motion: the floor, take-off and landing, energy and momentum, no surprises.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::disallowed_methods, reason = "what a test measures, not simulation")]

use proptest::prelude::*;
use steady_common::{Quat, State, Vec3};
use steady_sim::world::Integrator;
use steady_sim::{Airspace, Drone, Initial, MAX_MOTOR_THRUST_N, Params, World};

fn params(change: impl Fn(&mut World)) -> Params {
    let mut world = World::default();
    change(&mut world);
    world.compile().unwrap()
}

fn drone_at(p: &Params, state: State) -> Drone {
    let mut drone = Drone::new(p, 0, 0);
    drone.reset(p, &Initial { state, ..Initial::default() });
    drone
}

/// Thrust fraction that carries the weight.
fn hover(p: &Params) -> f32 {
    0.25 * p.mass_kg * p.gravity_m_s2 / MAX_MOTOR_THRUST_N
}

fn tilt(state: &State) -> f32 {
    state.attitude.to_matrix().z.z.clamp(-1.0, 1.0).acos()
}

#[test]
fn a_drone_with_its_motors_off_stays_exactly_where_it_stands() {
    for rate_hz in [240.0, 500.0, 1000.0] {
        let p = params(|w| w.physics.rate_hz = rate_hz);
        let mut drone = Drone::new(&p, 0, 0);
        let before = *drone.truth();
        for _ in 0..20_000 {
            drone.step(&p, [0.0; 4]);
        }
        let after = drone.truth();
        assert!((after.position - before.position).norm() < 1e-6, "{after:?}");
        assert!(after.velocity == Vec3::ZERO && after.rates == Vec3::ZERO && tilt(after) < 1e-5, "{after:?}");
    }
}

#[test]
fn unequal_motors_below_hover_neither_lift_nor_move_it() {
    let p = params(|_| ());
    let mut drone = Drone::new(&p, 0, 0);
    for _ in 0..2400 {
        drone.step(&p, [0.2, 0.15, 0.2, 0.25]);
    }
    let s = drone.truth();
    assert!((s.position - Vec3::new(0.0, 0.0, p.rest_height_m())).norm() < 1e-3, "{s:?}");
    assert!(tilt(s) < 1e-3, "{s:?}");
}

#[test]
fn it_takes_off_climbs_and_lands_without_bouncing() {
    for integrator in [Integrator::SemiImplicit, Integrator::Bullet, Integrator::Rk4] {
        let p = params(|w| w.physics.integrator = integrator);
        let mut drone = Drone::new(&p, 0, 0);
        // Up to one metre, then down at half a metre per second, by a simple height controller.
        let mut highest = 0.0_f32;
        for step in 0..2400_u16 {
            let t = f32::from(step) / 240.0;
            let (goal, climb) = if t < 5.0 { (1.0, 0.0) } else { (1.0 - 0.5 * (t - 5.0), -0.5) };
            let s = drone.truth();
            let thrust = 1.0 + 1.5 * (goal - s.position.z) + 0.8 * (climb - s.velocity.z);
            let off = t > 8.0;
            drone.step(&p, [if off { 0.0 } else { hover(&p) * thrust }; 4]);
            let z = drone.truth().position.z;
            highest = highest.max(z);
            assert!(z > p.rest_height_m() - 1e-4, "sank to {z} at {t} s");
            assert!(t < 7.5 || z < p.rest_height_m() + 1e-3, "bounced to {z} at {t} s");
        }
        let s = drone.truth();
        assert!((0.9..1.1).contains(&highest), "{integrator:?}: {highest}");
        assert!(s.velocity == Vec3::ZERO && tilt(s) < 1e-4, "{s:?}");
    }
}

#[test]
fn thrust_just_above_the_weight_lifts_it() {
    let p = params(|_| ());
    let mut drone = Drone::new(&p, 0, 0);
    for _ in 0..240 {
        drone.step(&p, [hover(&p) * 1.05; 4]);
    }
    // Half of five percent of g for one second, less damping.
    assert!((0.2..0.26).contains(&drone.truth().position.z), "{:?}", drone.truth());
}

#[test]
fn a_dropped_drone_comes_to_rest_flat() {
    let p = params(|_| ());
    for (roll, pitch) in [(0.0, 0.0), (0.3, 0.0), (0.2, -0.4), (0.5, 0.5), (2.9, 0.1)] {
        let attitude = Quat::from_euler(Vec3::new(roll, pitch, 0.7));
        let mut drone = drone_at(&p, State { attitude, ..State::at(Vec3::new(0.0, 0.0, 0.5)) });
        for _ in 0..1200 {
            drone.step(&p, [0.0; 4]);
        }
        let s = drone.truth();
        let lean = tilt(s).min(std::f32::consts::PI - tilt(s));
        assert!(lean < 0.01 && s.velocity.norm() < 0.01 && s.rates.norm() < 0.05, "{s:?}");
        assert!((s.position.z - p.rest_height_m()).abs() < 1e-3, "{s:?}");
    }
}

#[test]
fn friction_stops_a_sliding_drone() {
    let slide = |friction: f32| {
        let p = params(|w| w.physics.friction_coefficient = friction);
        let start =
            State { velocity: Vec3::new(1.0, 0.0, 0.0), ..State::at(Vec3::new(0.0, 0.0, p.rest_height_m())) };
        let mut drone = drone_at(&p, start);
        (0..480).for_each(|_| drone.step(&p, [0.0; 4]));
        *drone.truth()
    };
    let rough = slide(0.2);
    // v² / (2 μ g) = 0.255 m.
    assert!((rough.position.x - 0.255).abs() < 0.02 && rough.velocity == Vec3::ZERO, "{rough:?}");
    assert!(slide(0.0).velocity.x > 0.8);
}

#[test]
fn one_sided_thrust_topples_it_over_its_feet() {
    let p = params(|_| ());
    let mut drone = Drone::new(&p, 0, 0);
    for _ in 0..240 {
        drone.step(&p, [0.0, 0.0, 1.0, 1.0]);
        let s = drone.truth();
        assert!(s.is_finite() && s.position.z > 0.0, "{s:?}");
    }
    // Full thrust on the left rolls it to the right, and over.
    assert!(tilt(drone.truth()) > 0.5, "{:?}", drone.truth());
}

#[test]
fn the_motors_turn_it_the_right_way() {
    let p = params(|_| ());
    let after = |command: [f32; 4]| {
        let mut drone = drone_at(&p, State::at(Vec3::Z));
        drone.step(&p, command);
        drone.truth().rates
    };
    assert!(after([0.5, 0.5, 0.6, 0.6]).x > 0.0, "left motors roll to the right");
    assert!(after([0.5, 0.6, 0.6, 0.5]).y > 0.0, "back motors put the nose down");
    assert!(after([0.5, 0.6, 0.5, 0.6]).z > 0.0, "M2 and M4 turn to the left");
    let heavy_nose = params(|w| w.body.centre_of_mass_offset_m = [0.002, 0.0]);
    let mut drone = drone_at(&heavy_nose, State::at(Vec3::Z));
    drone.step(&heavy_nose, [0.5; 4]);
    assert!(drone.truth().rates.y > 0.0, "a heavy nose goes down");
}

#[test]
fn without_damping_energy_and_angular_momentum_are_kept() {
    let p = params(|w| {
        (w.physics.linear_damping_per_s, w.physics.angular_damping_per_s) = (0.0, 0.0);
        w.physics.integrator = Integrator::Rk4;
        w.physics.gravity_m_s2 = 0.0;
    });
    let inertia = Vec3::from(World::default().body.inertia_kg_m2);
    let start = State {
        velocity: Vec3::new(1.0, 2.0, 0.5),
        rates: Vec3::new(6.0, -4.0, 9.0),
        ..State::at(Vec3::new(0.0, 0.0, 5.0))
    };
    let momentum = |s: &State| s.attitude.to_matrix().apply(s.rates.scale(inertia));
    let energy = |s: &State| s.rates.dot(s.rates.scale(inertia));
    let mut drone = drone_at(&p, start);
    (0..1200).for_each(|_| drone.step(&p, [0.0; 4]));
    let end = drone.truth();
    assert_eq!(end.velocity, start.velocity);
    assert!((momentum(end) - momentum(&start)).norm() < 1e-3 * momentum(&start).norm());
    assert!((energy(end) / energy(&start) - 1.0).abs() < 1e-3);
}

#[test]
fn the_integrators_agree_and_free_fall_is_free_fall() {
    let fall = |integrator| {
        let p = params(|w| {
            w.physics.integrator = integrator;
            (w.physics.linear_damping_per_s, w.physics.angular_damping_per_s) = (0.0, 0.0);
        });
        let mut drone = drone_at(&p, State::at(Vec3::new(0.0, 0.0, 10.0)));
        (0..240).for_each(|_| drone.step(&p, [0.0; 4]));
        drone.truth().position.z
    };
    assert!((fall(Integrator::Rk4) - 5.1).abs() < 1e-3);
    // The semi-implicit step falls g dt / 2 too fast.
    assert!((fall(Integrator::SemiImplicit) - (5.1 - 0.5 * 9.8 / 240.0)).abs() < 1e-3);
}

#[test]
fn a_drone_below_another_is_pushed_down() {
    let p = params(|_| ());
    let mut airspace = Airspace::new(&p, 3, 1);
    let places = [Vec3::new(0.0, 0.0, 2.0), Vec3::new(0.0, 0.0, 1.0), Vec3::new(3.0, 0.0, 1.0)];
    for (drone, place) in airspace.drones.iter_mut().zip(places) {
        drone.reset(&p, &Initial::hovering(&p, place));
    }
    for _ in 0..60 {
        airspace.step(&p, &[[hover(&p); 4]; 3]);
    }
    let z: Vec<f32> = airspace.drones.iter().map(|d| d.truth().position.z).collect();
    assert!((z[0] - 2.0).abs() < 1e-3 && z[1] < 0.95 && (z[2] - 1.0).abs() < 1e-3, "{z:?}");
}

#[test]
fn a_sagging_battery_limits_the_thrust() {
    let p = World::from_toml(
        "[battery]\nmodel = \"lipo\"\ninitial_charge = 0.02\nresistance_ohm = 0.3\n",
        "low battery",
    )
    .unwrap()
    .compile()
    .unwrap();
    let mut drone = Drone::new(&p, 0, 0);
    (0..120).for_each(|_| drone.step(&p, [1.0; 4]));
    let thrust = drone.rpm()[0].powi(2) * 3.16e-10;
    assert!(thrust < 0.9 * MAX_MOTOR_THRUST_N, "{thrust}");
    assert!(drone.battery().voltage_v < 3.2 && drone.battery().charge < 0.02, "{:?}", drone.battery());
}

#[test]
fn pwm_through_the_thrust_curve_hovers_at_any_voltage() {
    let p = params(|_| ());
    let volts = 4.2;
    let mut drone = drone_at(&p, State::at(Vec3::Z));
    // 2.33 V at the motor carry a quarter of 27 g.
    let pwm = (65_535.0 * 2.33 / volts) as u16;
    (0..60).for_each(|_| drone.step_pwm(&p, [pwm; 4], Vec3::ZERO));
    let thrust = drone.rpm()[0].powi(2) * 3.16e-10;
    assert!((thrust / (0.25 * p.mass_kg * p.gravity_m_s2) - 1.0).abs() < 0.05, "{thrust}");
}

fn any_state() -> impl Strategy<Value = State> {
    let vector = |size: f32| prop::array::uniform3(-size..size).prop_map(Vec3::from);
    let attitude = prop::array::uniform4(-1.0_f32..1.0).prop_map(|[w, x, y, z]| Quat::new(w, x, y, z));
    (vector(3.0), vector(90.0), attitude, vector(90.0))
        .prop_map(|(position, velocity, attitude, rates)| State { position, velocity, attitude, rates })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the start, the commands and the world: finite numbers, and not below the floor.
    #[test]
    fn nothing_becomes_nan(
        start in any_state(),
        commands in prop::collection::vec(prop::array::uniform4(prop::num::f32::ANY), 1..8),
        seed in any::<u64>(),
        kind in 0_usize..4,
    ) {
        let mut world = World::sample(seed);
        world.physics.integrator = [Integrator::SemiImplicit, Integrator::Bullet, Integrator::Rk4][kind % 3];
        if kind == 3 { world = World::default(); }
        let p = world.compile_with_sensors().unwrap();
        let mut drone = Drone::new(&p, seed, 0);
        drone.reset(&p, &Initial { state: start, rpm: [1e4; 4], ..Initial::default() });
        for step in 0..600 {
            drone.step(&p, commands[step / 40 % commands.len()]);
            prop_assert!(drone.truth().is_finite(), "step {step}: {:?}", drone.truth());
            let imu = drone.imu().unwrap();
            prop_assert!(imu.gyro_rad_s.is_finite() && imu.accelerometer_m_s2.is_finite(), "{imu:?}");
        }
        prop_assert!(start.position.z < 0.1 || drone.truth().position.z > -0.01, "{:?}", drone.truth());
    }
}
