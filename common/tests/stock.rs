//! The official controllers, distribution and battery compensation against golden data computed by
//! the official firmware's own C code, all rows.
//!
//! Tolerances are how far the same C code moves when its compiler fuses multiply-adds.

mod support;

use proptest::prelude::*;
use steady_common::stock::{
    Attitude, CascadedPid, Command, Mellinger, Mode, Modes, MotorRequest, Propeller, Sensed, Setpoint,
    mellinger,
};
use steady_common::{Quat, Reference, State, Vec3};
use steady_test_support::{Row, tables};
use support::Differences;

const MOTOR_REQUESTS: [&str; 4] = ["m1_req", "m2_req", "m3_req", "m4_req"];
const MOTOR_PWM: [&str; 4] = ["m1_pwm", "m2_pwm", "m3_pwm", "m4_pwm"];

fn vector(row: &Row, x: &str, y: &str, z: &str) -> Vec3 {
    Vec3::new(row.f32(x), row.f32(y), row.f32(z))
}

fn angles(row: &Row, roll: &str, pitch: &str, yaw: &str) -> Attitude {
    Attitude { roll: row.f32(roll), pitch: row.f32(pitch), yaw: row.f32(yaw) }
}

fn setpoint(row: &Row) -> Setpoint {
    Setpoint {
        position: vector(row, "sp_x", "sp_y", "sp_z"),
        velocity: vector(row, "sp_vx", "sp_vy", "sp_vz"),
        acceleration: vector(row, "sp_ax", "sp_ay", "sp_az"),
        attitude: Attitude { yaw: row.f32("sp_yaw"), ..Attitude::default() },
        attitude_rate: angles(row, "sp_rate_roll", "sp_rate_pitch", "sp_rate_yaw"),
        modes: Modes::POSITION,
        ..Setpoint::default()
    }
}

fn sensed(row: &Row) -> Sensed {
    Sensed {
        position: vector(row, "x", "y", "z"),
        velocity: vector(row, "vx", "vy", "vz"),
        attitude: angles(row, "att_roll", "att_pitch", "att_yaw"),
        quaternion: Quat::new(row.f32("qw"), row.f32("qx"), row.f32("qy"), row.f32("qz")),
        gyro: vector(row, "gyro_x", "gyro_y", "gyro_z"),
    }
}

fn compare_command(differences: &mut Differences, row: &Row, command: Command) {
    differences.note(row, "thrust", command.thrust);
    differences.note(row, "roll", command.roll);
    differences.note(row, "pitch", command.pitch);
    differences.note(row, "yaw", command.yaw);
    compare_motors(differences, row, command.distribute());
}

fn compare_motors(differences: &mut Differences, row: &Row, request: MotorRequest) {
    for (column, value) in MOTOR_REQUESTS.into_iter().zip(request.0) {
        differences.note(row, column, value);
    }
    for (column, value) in MOTOR_PWM.into_iter().zip(request.cap().0) {
        differences.note(row, column, value);
    }
    // One count more or less decides only where the request is just full.
    let most = MOTOR_REQUESTS.iter().map(|column| row.int(column)).max().unwrap_or_default();
    if (most - 65_535).abs() > 2 {
        differences.note(row, "capped", u8::from(request.is_over()));
    }
}

/// Tolerance of a command or motor column, counts.
fn counts(column: &str, request: f64) -> f64 {
    match column {
        "roll" | "pitch" | "yaw" => 1.0,
        "capped" => 0.0,
        _ if column.ends_with("_req") => request,
        _ if column.ends_with("_pwm") => 2.0,
        _ => panic!("no tolerance for {column}"),
    }
}

#[test]
fn mellinger_agrees_with_the_official_one() {
    for table in tables("mellinger") {
        let mut differences = Differences::default();
        let (mut controller, mut case) = (Mellinger::default(), None);
        for row in &table.rows {
            differences.next_row();
            if case.replace(row.int("case")) != Some(row.int("case")) {
                controller = Mellinger::default();
            }
            let output = controller.step(&setpoint(row), &sensed(row), mellinger::DT);
            compare_command(&mut differences, row, output.command);
            let integral = controller.memory.position_integral;
            for (column, value) in [
                ("zdes_x", output.desired_z.x),
                ("zdes_y", output.desired_z.y),
                ("zdes_z", output.desired_z.z),
                ("ierr_x", integral.x),
                ("ierr_y", integral.y),
                ("ierr_z", integral.z),
                ("ierr_m_z", controller.memory.attitude_integral.z),
            ] {
                differences.note(row, column, value);
            }
        }
        differences.check(&table.name, |column| match column {
            "thrust" => 0.032,
            "zdes_x" | "zdes_y" | "zdes_z" => 1e-6,
            "ierr_x" | "ierr_y" | "ierr_z" | "ierr_m_z" => 1e-8,
            _ => counts(column, 1.0),
        });
    }
}

fn check_pid(stem: &str) {
    for table in tables(stem) {
        let mut differences = Differences::default();
        let (mut controller, mut case) = (CascadedPid::default(), None);
        for row in &table.rows {
            differences.next_row();
            if case.replace(row.int("case")) != Some(row.int("case")) {
                controller = CascadedPid::default();
            }
            let tick = row.tick();
            let (setpoint, sensed) = (setpoint(row), sensed(row));
            let command = controller.step(&setpoint, &sensed, tick);
            compare_command(&mut differences, row, command);
            let (attitude, rate) = (controller.desired_attitude(), controller.desired_rate());
            for (column, value) in [
                ("des_roll", attitude.roll),
                ("des_pitch", attitude.pitch),
                ("des_yaw", attitude.yaw),
                ("des_rate_roll", rate.roll),
                ("des_rate_pitch", rate.pitch),
                ("des_rate_yaw", rate.yaw),
            ] {
                differences.note(row, column, value);
            }
            // The tables have every other tick; in between the inputs were held.
            controller.step(&setpoint, &sensed, tick + 1);
        }
        differences.check(&table.name, |column| match column {
            "thrust" => 0.004,
            "des_roll" | "des_pitch" | "des_yaw" => 2.4e-5,
            "des_rate_roll" | "des_rate_pitch" | "des_rate_yaw" => 1.6e-4,
            _ => counts(column, 2.0),
        });
    }
}

#[test]
fn pid_agrees_with_the_official_one() {
    check_pid("pid");
}

#[test]
fn pid_agrees_with_the_official_one_over_longer_flights() {
    check_pid("pid_long");
}

#[test]
fn power_distribution_agrees_with_the_official_one() {
    for table in tables("power_distribution") {
        let mut differences = Differences::default();
        for row in &table.rows {
            differences.next_row();
            let small = |column| i16::try_from(row.int(column)).unwrap();
            let request = match row.int("mode") {
                0 => Command {
                    thrust: row.f32("thrust"),
                    roll: small("roll"),
                    pitch: small("pitch"),
                    yaw: small("yaw"),
                }
                .distribute(),
                _ => MotorRequest::from_force_torque(
                    row.f32("thrust_si"),
                    vector(row, "torque_x", "torque_y", "torque_z"),
                    &Propeller::CF21_PLUS,
                ),
            };
            compare_motors(&mut differences, row, request);
        }
        differences.check(&table.name, |column| if column == "capped" { 0.0 } else { 1.0 });
    }
}

#[test]
fn battery_compensation_agrees_with_the_official_one() {
    for table in tables("battery_compensation") {
        let mut differences = Differences::default();
        for row in &table.rows {
            differences.next_row();
            let request = i32::try_from(row.int("request")).unwrap();
            let compensated = Propeller::CF21_PLUS.compensate(request, row.f32("supply_v"));
            differences.note(row, "compensated", compensated);
            differences.note(row, "compensated_int", compensated.trunc());
        }
        differences.check(&table.name, |column| if column == "compensated" { 0.05 } else { 1.0 });
    }
}

#[test]
fn mellinger_clears_its_integrals_without_thrust() {
    let mut controller = Mellinger::default();
    let above = Setpoint::from_reference(&Reference::hover(Vec3::new(1.0, 0.0, 1.0)));
    let sensed = Sensed { gyro: Vec3::new(10.0, 0.0, 0.0), ..Sensed::default() };
    let hover = controller.step(&above, &sensed, mellinger::DT).command;
    assert!(hover.thrust > 37_553.0 && hover.roll != 0 && controller.memory.position_integral.x > 0.0);

    let far_below = Setpoint { position: Vec3::new(1.0, 0.0, -5.0), ..above };
    let off = controller.step(&far_below, &sensed, mellinger::DT).command;
    assert!(off.thrust < 0.0 && (off.roll, off.pitch, off.yaw) == (0, 0, 0));
    assert_eq!(controller.memory.position_integral, Vec3::ZERO);
    assert!(controller.memory.previous_rate.x > 0.0, "previous rates are kept");
}

#[test]
fn both_hover_with_equal_motors_and_lean_towards_the_target() {
    let fly = |target| {
        let (setpoint, sensed) = (
            Setpoint::from_reference(&Reference::hover(target)),
            Sensed::from_state(&State::at(Vec3::new(0.0, 0.0, 1.0))),
        );
        let stock = Mellinger::default().step(&setpoint, &sensed, mellinger::DT).command;
        [stock, CascadedPid::default().step(&setpoint, &sensed, 10)]
    };
    for command in fly(Vec3::new(0.0, 0.0, 1.0)) {
        let [m1, m2, m3, m4] = command.motor_fractions();
        assert!(m1 == m2 && m2 == m3 && m3 == m4 && (0.5..0.6).contains(&m1), "{m1}");
    }
    for command in fly(Vec3::new(0.3, 0.0, 1.0)) {
        let [m1, m2, m3, m4] = command.motor_fractions();
        assert!(command.pitch < 0 && m2 > m1 && m3 > m4, "nose down to go forward");
    }
    for command in fly(Vec3::new(0.0, 0.3, 1.0)) {
        let [m1, m2, m3, m4] = command.motor_fractions();
        assert!(command.roll < 0 && m1 > m4 && m2 > m3, "right side up to go left");
    }
}

#[test]
fn manual_flight_takes_thrust_and_angles_from_the_set_point() {
    let setpoint = Setpoint {
        thrust: 30_000.0,
        attitude: Attitude { pitch: 5.0, ..Attitude::default() },
        modes: Modes::MANUAL,
        ..Setpoint::default()
    };
    let sensed = Sensed::default();
    let stock = Mellinger::default().step(&setpoint, &sensed, mellinger::DT);
    let cascade = CascadedPid::default().step(&setpoint, &sensed, 2);
    for command in [stock.command, cascade] {
        assert_eq!(command.thrust, 30_000.0);
        assert!(command.pitch > 0 && command.roll == 0 && command.yaw == 0, "nose up: {command:?}");
    }
    assert!(stock.desired_z.x < 0.0);

    let off = Setpoint { thrust: 0.0, ..setpoint };
    assert_eq!(CascadedPid::default().step(&off, &sensed, 2), Command::default());
    assert_eq!(Mellinger::default().step(&off, &sensed, mellinger::DT).command, Command::default());
}

#[test]
fn without_a_known_mode_mellinger_holds_height_and_heading() {
    let setpoint = Setpoint {
        position: Vec3::new(9.0, 9.0, 0.0),
        modes: Modes { z: Mode::Absolute, ..Modes::default() },
        ..Setpoint::default()
    };
    let turned = State { attitude: Quat::from_euler(Vec3::new(0.0, 0.0, 2.0)), ..State::default() };
    let output = Mellinger::default().step(&setpoint, &Sensed::from_state(&turned), mellinger::DT);
    assert_eq!(output.desired_z, Vec3::Z);
    assert!((output.command.thrust - 37_552.68).abs() < 0.1);
    assert_eq!((output.command.roll, output.command.pitch, output.command.yaw), (0, 0, 0));
}

#[test]
fn pid_gives_no_thrust_before_its_first_position_step() {
    let mut controller = CascadedPid::default();
    let setpoint = Setpoint::from_reference(&Reference::hover(Vec3::new(0.0, 0.0, 1.0)));
    let sensed = Sensed { attitude: Attitude { roll: 3.0, pitch: 2.0, yaw: 40.0 }, ..Sensed::default() };
    for tick in 11..20 {
        assert_eq!(controller.step(&setpoint, &sensed, tick), Command::default());
        assert_eq!(controller.desired_attitude(), sensed.attitude);
    }
    assert!(controller.step(&setpoint, &sensed, 20).thrust >= 20_000.0);
}

#[test]
fn a_force_along_the_heading_is_not_a_singularity() {
    let reference =
        Reference { acceleration: Vec3::new(5.0, 0.0, -9.81), ..Reference::hover(Vec3::new(0.0, 0.0, 0.0)) };
    let output = Mellinger::default().step(
        &Setpoint::from_reference(&reference),
        &Sensed::from_state(&State::default()),
        mellinger::DT,
    );
    assert!(output.desired_z.is_finite() && output.command.thrust.is_finite());
}

fn any_finite() -> impl Strategy<Value = f32> {
    use proptest::num::f32::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO, -10.0_f32..10.0]
}

fn any_vector() -> impl Strategy<Value = Vec3> {
    prop::array::uniform3(any_finite()).prop_map(Vec3::from)
}

fn any_angles() -> impl Strategy<Value = Attitude> {
    any_vector().prop_map(|v| Attitude { roll: v.x, pitch: v.y, yaw: v.z })
}

fn any_quaternion() -> impl Strategy<Value = Quat> {
    prop::array::uniform4(any_finite()).prop_map(|[w, x, y, z]| Quat::new(w, x, y, z))
}

fn any_modes() -> impl Strategy<Value = Modes> {
    let mode = prop_oneof![Just(Mode::Disabled), Just(Mode::Absolute), Just(Mode::Velocity)];
    prop::array::uniform7(mode).prop_map(|[x, y, z, roll, pitch, yaw, quaternion]| Modes {
        x,
        y,
        z,
        roll,
        pitch,
        yaw,
        quaternion,
    })
}

fn any_setpoint() -> impl Strategy<Value = Setpoint> {
    (
        [any_vector(), any_vector(), any_vector()],
        [any_angles(), any_angles()],
        any_quaternion(),
        any_finite(),
        any::<bool>(),
        any_modes(),
    )
        .prop_map(
            |([position, velocity, acceleration], [attitude, attitude_rate], q, thrust, h, modes)| Setpoint {
                position,
                velocity,
                acceleration,
                attitude,
                attitude_rate,
                quaternion: q,
                thrust,
                velocity_in_heading: h,
                modes,
            },
        )
}

fn any_sensed() -> impl Strategy<Value = Sensed> {
    ([any_vector(), any_vector(), any_vector()], any_angles(), any_quaternion()).prop_map(
        |([position, velocity, gyro], attitude, quaternion)| Sensed {
            position,
            velocity,
            attitude,
            quaternion,
            gyro,
        },
    )
}

fn fractions_are_sane(command: Command) -> bool {
    command.thrust.is_finite() && command.motor_fractions().iter().all(|f| (0.0..=1.0).contains(f))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mellinger_is_finite_for_any_finite_input(
        steps in prop::collection::vec((any_setpoint(), any_sensed()), 1..4)
    ) {
        let mut controller = Mellinger::default();
        for (setpoint, sensed) in steps {
            let output = controller.step(&setpoint, &sensed, mellinger::DT);
            prop_assert!(fractions_are_sane(output.command) && output.desired_z.is_finite());
            let memory = controller.memory;
            prop_assert!(memory.position_integral.is_finite() && memory.attitude_integral.is_finite());
            prop_assert!(memory.previous_rate.is_finite() && memory.previous_setpoint_rate.is_finite());
        }
    }

    #[test]
    fn pid_is_finite_for_any_finite_input(
        steps in prop::collection::vec((any_setpoint(), any_sensed(), 0_u32..4), 1..8)
    ) {
        let mut controller = CascadedPid::default();
        let mut tick = 8;
        for (setpoint, sensed, wait) in steps {
            tick += wait;
            let command = controller.step(&setpoint, &sensed, tick);
            let (attitude, rate) = (controller.desired_attitude(), controller.desired_rate());
            prop_assert!(fractions_are_sane(command));
            for value in [attitude.roll, attitude.pitch, attitude.yaw, rate.roll, rate.pitch, rate.yaw] {
                prop_assert!(value.is_finite());
            }
        }
    }

    #[test]
    fn distribution_and_compensation_take_anything(
        thrust in any_finite(), torque in any_vector(), request: i32, supply in any_finite()
    ) {
        for propeller in [Propeller::CF21_PLUS, Propeller::CF2_LEGACY, Propeller::THRUST_UPGRADE] {
            let requests = MotorRequest::from_force_torque(thrust, torque, &propeller);
            let pwm = requests.compensated(&propeller, supply).cap();
            prop_assert!(pwm.fractions().iter().all(|f| (0.0..=1.0).contains(f)));
            prop_assert!(propeller.compensate(request, supply).is_finite());
            prop_assert!(propeller.pwm_for_force(thrust, supply).is_finite());
        }
    }
}
