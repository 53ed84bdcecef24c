//! The flight step with input no sane world would give it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use proptest::prelude::*;
use steady_common::commander::{Command, HighLevel, Pace, Setpoint};
use steady_common::estimator::{Imu, Mocap};
use steady_common::{Quat, Reference, Vec3};
use steady_firmware::flight::{Boot, Flight, Sensors};
use steady_firmware::settings::{Controller, Settings};

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![15 => -3.0_f32..3.0, 1 => prop::num::f32::ANY]
}

fn vector() -> impl Strategy<Value = Vec3> {
    (number(), number(), number()).prop_map(|(x, y, z)| Vec3::new(x, y, z))
}

fn setpoint() -> impl Strategy<Value = Setpoint> {
    let n = number;
    prop_oneof![
        Just(Setpoint::Stop),
        (vector(), n()).prop_map(|(position, yaw)| Setpoint::Position { position, yaw }),
        (vector(), vector(), vector(), vector(), n()).prop_map(|(p, v, a, rates, yaw)| {
            let reference = Reference { position: p, velocity: v, acceleration: a, yaw, yaw_rate: yaw };
            Setpoint::FullState { reference, rates }
        }),
        (vector(), n()).prop_map(|(velocity, yaw_rate)| Setpoint::Velocity { velocity, yaw_rate }),
        (n(), n(), n(), n()).prop_map(|(forward, left, yaw_rate, height)| Setpoint::Hover {
            forward,
            left,
            yaw_rate,
            height
        }),
        (n(), n(), n(), n()).prop_map(|(roll, pitch, yaw_rate, height)| Setpoint::HeightAttitude {
            roll,
            pitch,
            yaw_rate,
            height
        }),
        (n(), n(), n(), n()).prop_map(|(roll, pitch, yaw_rate, climb)| Setpoint::ClimbAttitude {
            roll,
            pitch,
            yaw_rate,
            climb
        }),
        (n(), n(), n(), n(), any::<bool>()).prop_map(|(roll, pitch, yaw_rate, thrust, rates)| {
            Setpoint::Manual { roll, pitch, yaw_rate, thrust, rates }
        }),
    ]
}

fn high_level() -> impl Strategy<Value = HighLevel> {
    let pace = || prop_oneof![number().prop_map(Pace::Duration), number().prop_map(Pace::Speed)];
    let yaw = || prop::option::of(number());
    let b = any::<bool>;
    prop_oneof![
        (number(), b(), yaw(), pace()).prop_map(|(height, relative, yaw, pace)| HighLevel::TakeOff {
            height,
            relative,
            yaw,
            pace
        }),
        (number(), b(), yaw(), pace()).prop_map(|(height, relative, yaw, pace)| HighLevel::Land {
            height,
            relative,
            yaw,
            pace
        }),
        Just(HighLevel::Stop),
        (b(), b(), vector(), number(), number()).prop_map(|(relative, linear, position, yaw, duration)| {
            HighLevel::GoTo { relative, linear, position, yaw, duration }
        }),
        (b(), b(), vector(), number(), number()).prop_map(|(sideways, clockwise, radii, angle, duration)| {
            let (start_radius, end_radius, climb) = (radii.x, radii.y, radii.z);
            HighLevel::Spiral { sideways, clockwise, angle, start_radius, end_radius, climb, duration }
        }),
        (any::<u8>(), any::<u32>(), any::<u8>()).prop_map(|(id, offset, pieces)| {
            HighLevel::DefineTrajectory { id, offset: offset % 5000, pieces: pieces % 4 }
        }),
        (0_u8..40, number(), b(), b(), b()).prop_map(|(id, time_scale, reversed, position, yaw)| {
            HighLevel::StartTrajectory {
                id,
                time_scale,
                reversed,
                relative_position: position,
                relative_yaw: yaw,
            }
        }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => setpoint().prop_map(Command::Setpoint),
        4 => high_level().prop_map(Command::HighLevel),
        1 => any::<u32>().prop_map(|remain_valid_ms| Command::NotifySetpointsStop { remain_valid_ms }),
        2 => (any::<u16>(), any::<u8>(), prop::array::uniform26(any::<u8>())).prop_map(
            |(offset, length, bytes)| Command::WriteTrajectory { offset: offset % 4200, length, bytes }
        ),
        12 => prop::bool::weighted(0.95).prop_map(Command::Arm),
        4 => Just(Command::Recover),
        1 => Just(Command::ResetEstimator),
        8 => (vector(), number(), prop::option::of((number(), number(), number(), number()))).prop_map(
            |(position, std, attitude)| Command::Mocap(Mocap {
                position,
                position_std: std,
                attitude: attitude.map(|(w, x, y, z)| (Quat::new(w, x, y, z), std)),
                age_s: std,
            })
        ),
        // Rare, because nothing flies afterwards.
        1 => prop::bool::weighted(0.05).prop_map(|stop| {
            if stop { Command::EmergencyStop } else { Command::Recover }
        }),
        1 => prop::bool::weighted(0.05).prop_map(|off| {
            if off { Command::SwitchOff } else { Command::Recover }
        }),
    ]
}

/// A calibrated flight.
fn ready(settings: &Settings) -> (Flight, u64) {
    let mut flight = Flight::new(Boot::default(), settings);
    let sensors = Sensors {
        barometer: None,
        imu: Imu { accelerometer: Vec3::Z * 9.81, gyro: Vec3::ZERO },
        battery_v: 4.1,
        healthy: true,
        card_ready: true,
    };
    let mut now = 0;
    for _ in 0..1500 {
        now += 1000;
        flight.step(now, &sensors, settings);
    }
    (flight, now)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Nothing panics, motors are off in every state that may not fly, and every record can be logged.
    #[test]
    fn whatever_comes_motors_obey_the_supervisor(
        controller in prop_oneof![
            Just(Controller::Pid), Just(Controller::StockMellinger), Just(Controller::Differentiable)
        ],
        odd in prop::collection::vec(number(), 12),
        events in prop::collection::vec((prop::collection::vec(command(), 0..3), vector(), vector(), number(), 0_u64..60), 1..60),
    ) {
        let mut settings = Settings { controller, ..Settings::new() };
        settings.exploration.enabled = odd[0] > 0.0;
        settings.exploration.std = [odd[1], odd[2], odd[3], odd[4]];
        settings.exploration.hold = odd[5] as u16;
        (settings.stock_mellinger.kp_z, settings.stock_mellinger.massThrust) = (odd[6], 1e5 * odd[7]);
        settings.try_out.enabled = odd[8] > 1.0;
        settings.try_out.gains.rate.p.xy = odd[9];
        (settings.guard.tilt_rad, settings.guard.tracking_m) = (odd[10], odd[11]);
        let (mut flight, mut now) = ready(&settings);
        // Armed more often than chance would have it.
        let _ = flight.command(now, &Command::Arm(true), &settings);
        for (commands, accelerometer, gyro, battery, repeat) in events {
            for command in &commands {
                let _ = flight.command(now, command, &settings);
            }
            for _ in 0..=repeat {
                now += 1000;
                let sensors = Sensors { barometer: None,
                    imu: Imu { accelerometer: accelerometer + Vec3::Z * 9.81, gyro },
                    battery_v: 3.9 + battery * 0.1,
                    healthy: true,
                    card_ready: true,
                };
                let output = flight.step(now, &sensors, &settings);
                let telemetry = flight.telemetry();
                if !telemetry.supervisor.may_fly() {
                    prop_assert_eq!(output.pwm, [0; 4]);
                }
                if let Some(record) = output.transition {
                    prop_assert_eq!(record.pwm, output.pwm);
                    prop_assert!(record.action.into_array().iter().all(|a| a.is_finite()), "{:?}", record);
                }
            }
        }
    }
}
