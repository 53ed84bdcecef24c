//! What the drone is told: inertial measurements, and mocap frames late or lost.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::disallowed_methods, reason = "statistics, not simulation")]

use steady_common::{Quat, State, Vec3};
use steady_sim::{Drone, ImuSample, Initial, MocapSample, Params, World};

fn params(toml: &str) -> Params {
    World::from_toml(toml, "test").unwrap().compile_with_sensors().unwrap()
}

/// Steps of a drone that stands on the floor, and what it was told in each.
fn stand(p: &Params, steps: usize, seed: u64) -> Vec<(ImuSample, Option<MocapSample>)> {
    let mut drone = Drone::new(p, seed, 0);
    let told = |drone: &mut Drone| {
        drone.step(p, [0.0; 4]);
        (drone.imu().unwrap(), drone.mocap())
    };
    (0..steps).map(|_| told(&mut drone)).collect()
}

fn mean_and_std(values: &[f32]) -> (f32, f32) {
    let n = values.len() as f32;
    let mean = values.iter().sum::<f32>() / n;
    (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / n).sqrt())
}

#[test]
fn at_rest_the_accelerometer_feels_the_floor() {
    let told = stand(&params(""), 100, 0);
    let (imu, _) = told[99];
    assert!((imu.accelerometer_m_s2 - Vec3::new(0.0, 0.0, 9.8)).norm() < 1e-4, "{imu:?}");
    assert_eq!(imu.gyro_rad_s, Vec3::ZERO);
}

#[test]
fn in_free_fall_it_feels_nothing_and_thrust_along_body_z() {
    let p = params("base = \"gym\"\nphysics.linear_damping_per_s = 0.0");
    let mut drone = Drone::new(&p, 0, 0);
    let attitude = Quat::from_euler(Vec3::new(0.6, -0.3, 1.0));
    let state = State { attitude, ..State::at(Vec3::new(0.0, 0.0, 3.0)) };
    drone.reset(&p, &Initial { state, ..Initial::default() });
    drone.step(&p, [0.0; 4]);
    assert!(drone.imu().unwrap().accelerometer_m_s2.norm() < 1e-3);
    drone.step(&p, [0.5; 4]);
    let felt = drone.imu().unwrap().accelerometer_m_s2;
    assert!((felt - Vec3::new(0.0, 0.0, 4.0 * 0.06 / 0.027)).norm() < 1e-2, "{felt:?}");
}

#[test]
fn noise_and_bias_have_the_stated_spread() {
    let noisy = params("[imu]\naccelerometer_noise_std_m_s2 = 0.3\ngyro_noise_std_rad_s = 0.02");
    let told = stand(&noisy, 20_000, 1);
    let (mean, std) = mean_and_std(&told.iter().map(|(i, _)| i.accelerometer_m_s2.x).collect::<Vec<_>>());
    assert!(mean.abs() < 0.01 && (std - 0.3).abs() < 0.01, "{mean} {std}");
    let (mean, std) = mean_and_std(&told.iter().map(|(i, _)| i.gyro_rad_s.z).collect::<Vec<_>>());
    assert!(mean.abs() < 1e-3 && (std - 0.02).abs() < 1e-3, "{mean} {std}");

    let biased = params("[imu]\ngyro_bias_std_rad_s = 0.05");
    let biases: Vec<f32> = (0..2000).map(|seed| stand(&biased, 1, seed)[0].0.gyro_rad_s.y).collect();
    let (mean, std) = mean_and_std(&biases);
    assert!(mean.abs() < 0.005 && (std - 0.05).abs() < 0.005, "{mean} {std}");
    let constant = stand(&biased, 50, 7);
    assert!(constant.iter().all(|(imu, _)| imu.gyro_rad_s == constant[0].0.gyro_rad_s));

    let walking = params("[imu]\ngyro_walk_std_rad_s = 0.05");
    let after_4_s: Vec<f32> = (0..500).map(|s| stand(&walking, 960, s)[959].0.gyro_rad_s.x).collect();
    let (_, std) = mean_and_std(&after_4_s);
    assert!((std - 0.1).abs() < 0.015, "{std}");
}

fn frames(told: &[(ImuSample, Option<MocapSample>)]) -> Vec<MocapSample> {
    told.iter().filter_map(|(_, mocap)| *mocap).collect()
}

#[test]
fn frames_come_at_their_rate_with_their_noise() {
    let p = params("[mocap]\nrate_hz = 100\nnoise_std_m = 0.002\npose = true\nattitude_noise_std_rad = 0.01");
    let frames = frames(&stand(&p, 24_000, 2));
    assert!((9_999..=10_001).contains(&frames.len()), "{}", frames.len());
    let (mean, std) = mean_and_std(&frames.iter().map(|f| f.position_m.y).collect::<Vec<_>>());
    assert!(mean.abs() < 1e-4 && (std - 0.002).abs() < 1e-4, "{mean} {std}");
    let (_, std) = mean_and_std(&frames.iter().map(|f| 2.0 * f.attitude.unwrap().x).collect::<Vec<_>>());
    assert!((std - 0.01).abs() < 5e-4, "{std}");
    assert!(frames.iter().all(|f| f.age_steps == 0));
}

#[test]
fn motion_capture_may_be_as_late_as_a_slow_camera_system() {
    let slow = params("physics.rate_hz = 1000\nmocap.latency_s = 0.2\nradio.latency_s = 0.05");
    let found = frames(&stand(&slow, 1000, 1));
    // 100 frames a second, of which 25 are on their way.
    assert!((74..=76).contains(&found.len()), "{}", found.len());
    assert!(found.iter().all(|frame| frame.age_steps == 250));
}

#[test]
fn latency_delays_every_frame_and_jitter_adds_its_mean() {
    let fixed = params("mocap.latency_s = 0.0125\nradio.latency_s = 0.0125");
    assert!(frames(&stand(&fixed, 2400, 3)).iter().all(|f| f.age_steps == 6));

    let jittery = params("physics.rate_hz = 1000\nmocap.latency_s = 0.02\nradio.jitter_mean_s = 0.002");
    let ages: Vec<f32> =
        frames(&stand(&jittery, 200_000, 4)).iter().map(|f| f.age_steps as f32 * 1e-3).collect();
    let (mean, std) = mean_and_std(&ages);
    assert!((mean - 0.022).abs() < 3e-4 && (std - 0.002).abs() < 3e-4, "{mean} {std}");
    assert!(ages.iter().all(|age| *age >= 0.0199));
}

#[test]
fn frames_never_go_back_in_time() {
    let p = params("radio.jitter_mean_s = 0.03\nmocap.rate_hz = 200");
    let mut newest = 0;
    let mut delivered = 0;
    for (step, (_, mocap)) in stand(&p, 24_000, 5).into_iter().enumerate() {
        if let Some(frame) = mocap {
            let taken = step - frame.age_steps as usize;
            assert!(taken > newest || delivered == 0);
            (newest, delivered) = (taken, delivered + 1);
        }
    }
    assert!((1_000..20_000).contains(&delivered), "{delivered}");
}

#[test]
fn the_radio_loses_its_part_and_drop_outs_come_in_bursts() {
    let lossy = params("radio.loss_probability = 0.1");
    let arrived = frames(&stand(&lossy, 240_000, 6)).len();
    assert!((arrived as f32 / 1e5 - 0.9).abs() < 0.005, "{arrived}");

    let p = params("mocap.dropouts_per_s = 0.5\nmocap.dropout_mean_s = 0.2");
    let mut gaps = Vec::new();
    let mut last = 0;
    for (step, (_, mocap)) in stand(&p, 240_000, 7).into_iter().enumerate() {
        if mocap.is_some() {
            if step - last > 5 {
                gaps.push((step - last) as f32 / 240.0);
            }
            last = step;
        }
    }
    // In 1000 s: one begins every 2.2 s (2 s without, 0.2 s with), each 0.2 s and a frame time.
    let (mean, _) = mean_and_std(&gaps);
    assert!((400..510).contains(&gaps.len()), "{}", gaps.len());
    assert!((mean - 0.21).abs() < 0.03, "{mean}");
}

#[test]
fn without_sensors_there_is_nothing_to_read() {
    let p = World::named("paper").unwrap().compile().unwrap();
    let mut drone = Drone::new(&p, 0, 0);
    drone.step(&p, [0.9; 4]);
    assert!(drone.imu().is_none() && drone.mocap().is_none());
}
