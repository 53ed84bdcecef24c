//! `steady identify` as a user meets it: from the firmware's logs to a world that predicts them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use steady_common::Vec3;
use steady_common::usdlog::{FILE_CRC, Type, write};
use steady_native::{Plan, fly};
use steady_sim::{PlantParams, Task, World};

fn steady(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steady")).current_dir(folder).args(args).output().unwrap()
}

fn expect(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = steady(folder, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

/// Writes the log of a flight in a world.
fn write_log(world: &World, task: Task, path: &Path) {
    let flown = fly(&PlantParams::new(world).unwrap(), &Plan::new(task), |_| {});
    assert_eq!(flown.failure, None);
    flown.write_log(path).unwrap();
}

/// Position error half a second ahead, mm, of a world on the flights in the folder.
fn error_mm(folder: &Path, world: &str) -> f64 {
    let (out, _) = expect(folder, &["world", "score", world, "eight", "helix", "--json"], 0);
    let scores: serde_json::Value = serde_json::from_str(&out).unwrap();
    scores[2]["errors"][2]["position_mm"].as_f64().unwrap()
}

#[test]
fn logs_of_a_drone_become_its_world() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut drone = World::named("real").unwrap();
    drone.motors.effectiveness = [0.75, 0.68, 0.72, 0.7];
    drone.aero.speed_moment_n_s = [5e-4, 5e-4];
    write_log(&drone, Task::FigureEight, &folder.join("eight"));
    write_log(&drone, Task::Helix, &folder.join("helix"));
    let args = ["identify", "eight", "helix", "-o", "mine.toml", "--plot", "seen", "--json"];
    let (out, _) = expect(folder, &args, 0);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let parameters = report["drones"][0]["parameters"].as_array().unwrap();
    let thrust = parameters.iter().find(|p| p["name"] == "motors.effectiveness[0]").unwrap();
    assert!((thrust["value"].as_f64().unwrap() - 0.75).abs() < 0.05, "{thrust}");
    assert_eq!(thrust["is_told"], true);
    let (typical, mine) = (error_mm(folder, "real"), error_mm(folder, "mine.toml"));
    assert!(mine < 0.7 * typical, "{mine} mm, the typical drone {typical} mm");
    for picture in ["seen-drone-horizon.png", "seen-drone-flight.svg"] {
        assert!(folder.join(picture).metadata().unwrap().len() > 1000, "{picture}");
    }
    // The world says where it is from, and is not replaced by accident.
    assert!(expect(folder, &["world", "show", "mine.toml"], 0).0.contains("measured: 2 flights"));
    let before = fs::read(folder.join("mine.toml")).unwrap();
    assert!(expect(folder, &["identify", "eight", "-o", "mine.toml"], 1).1.contains("--force"));
    assert_eq!(fs::read(folder.join("mine.toml")).unwrap(), before);
}

#[test]
fn skills_say_what_the_simulator_was_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let drone = World::named("real").unwrap();
    write_log(&drone, Task::FigureEight, &folder.join("eight"));
    write_log(&drone, Task::Helix, &folder.join("helix"));
    let flights = ["identify", "eight", "helix", "--discover"];
    let args = [&flights[..], &["--untold", "drag", "--plot", "seen", "--json"]].concat();
    let report: serde_json::Value = serde_json::from_str(&expect(folder, &args, 0).0).unwrap();
    let skills = &report["drones"][0]["skills"];
    // Drag is 0.4 1/s in hover; the ridge and one short flight hold skills back.
    for output in ["along x", "along y"] {
        let along = output.replace("along ", "velocity_");
        let readings = skills["readings"].as_array().unwrap();
        let drag = readings.iter().find(|r| r["output"] == output && r["along"] == along.as_str()).unwrap();
        let slope = drag["slope"].as_f64().unwrap();
        assert!((-0.7..-0.2).contains(&slope) && drag["high"].as_f64().unwrap() < 0.0, "{drag}");
    }
    // What one flight's skills say helps to predict the other; logs of estimates let little more be seen.
    let left_out = &skills["left_out"];
    assert_eq!(left_out["flights"].as_array().unwrap().len(), 2);
    let error_mm = |i: usize| left_out["scores"][i]["errors"][2]["position_mm"].as_f64().unwrap();
    assert!(error_mm(1) < 0.95 * error_mm(0), "{left_out}");
    // Logs of this firmware have no accelerometer to compare with.
    assert!(left_out["scores"][0]["vertical_force_m_s2"].is_null(), "{left_out}");
    assert!(folder.join("seen-drone-skills.png").metadata().unwrap().len() > 1000);
    assert!(expect(folder, &["world", "show", "identified.toml"], 0).0.contains("without drag"));
    let parameters = report["drones"][0]["parameters"].as_array().unwrap();
    assert_eq!(parameters.iter().filter(|p| p["is_left_out"] == true).count(), 2);
    // In words, and what to do where it cannot be done.
    let (out, _) = expect(folder, &[&flights[..], &["-o", "words.toml"]].concat(), 0);
    for words in
        ["identified + discovered skills, trimmed", "explained of pieces left out", "of 2 flights better"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (_, err) = expect(folder, &["identify", "eight", "--discover", "--force"], 1);
    assert!(err.contains("give another of this drone"), "{err}");
    expect(folder, &["identify", "eight", "helix", "--untold", "drag"], 2);
}

#[test]
fn several_drones_get_a_world_each_and_one_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, strength) in [("weak", 0.66), ("strong", 0.8)] {
        let mut drone = World::named("real").unwrap();
        drone.motors.effectiveness = [strength; 4];
        write_log(&drone, Task::FigureEight, &folder.join(name));
    }
    let (out, _) = expect(folder, &["identify", "w=weak", "s=strong", "-o", "all.toml"], 0);
    assert!(out.contains("spread between drones"), "{out}");
    let thrust = |file: &str| {
        World::load(&folder.join(file).to_string_lossy()).unwrap().motors.effectiveness.iter().sum::<f32>()
            / 4.0
    };
    let (weak, strong, all) = (thrust("all-w.toml"), thrust("all-s.toml"), thrust("all.toml"));
    assert!((weak - 0.66).abs() < 0.04 && (strong - 0.8).abs() < 0.04, "{weak} {strong}");
    assert!(weak < all && all < strong, "{weak} {all} {strong}");
}

#[test]
fn files_without_a_flight_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("text.csv"), "time_s,vicon_x_m\n0,1\n").unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    write_log(&World::named("real").unwrap(), Task::Hover, &folder.join("whole"));
    let bytes = fs::read(folder.join("whole")).unwrap();
    fs::write(folder.join("torn"), &bytes[..bytes.len() / 8]).unwrap();
    for (file, code, words) in [
        ("none", 2, "none: cannot be read"),
        ("text.csv", 1, "there is no column `vicon_y_m`"),
        ("empty", 1, "there is no column `time_s`"),
        ("torn", 1, "no flight of this firmware"),
    ] {
        let (_, err) = expect(folder, &["identify", file], code);
        assert!(err.contains(words), "{file}: {err}");
    }
    expect(folder, &["identify", "whole", "--mass-g", "0"], 2);
    assert!(!folder.join("identified.toml").exists());
}

/// What a card needs to log for `steady identify`.
const CARD: [&str; 11] = [
    "acc.x", "acc.y", "acc.z", "gyro.x", "gyro.y", "gyro.z", "motor.m1", "motor.m2", "motor.m3", "motor.m4",
    "pm.vbat",
];

/// Writes a shaken flight in a world as the official firmware would have logged it, with these variables.
fn write_card(world: &World, wanted: &[&str], path: &Path) {
    let mut plan = Plan::new(Task::TakeoffLand);
    plan.exploration.enabled = true;
    plan.exploration.std = [0.03, 0.06, 0.06, 0.01];
    let mut samples = Vec::new();
    fly(&PlantParams::new(world).unwrap(), &plan, |sample| samples.push(*sample));
    let mut file = Vec::new();
    let mut sink = |bytes: &[u8]| file.extend_from_slice(bytes);
    write::begin(&mut sink, 1);
    write::event(&mut sink, 0xffff, "fixedFrequency", wanted.len() as u16);
    wanted.iter().for_each(|name| write::variable(&mut sink, &[name], Type::F32));
    for [before, now, after] in samples.array_windows() {
        let change = after.truth.velocity - before.truth.velocity;
        let force_g = change * (1.0 / (after.time_s - before.time_s) / 9.81) + Vec3::Z;
        let acc = now.truth.attitude.to_matrix().apply_transposed(force_g).to_array();
        let gyro = now.truth.rates.to_array().map(f32::to_degrees);
        let pwm = [0, 1, 2, 3].map(|m| 0.5 * (f32::from(before.pwm[m]) + f32::from(now.pwm[m])));
        // The official clock runs slow.
        let time_us = f64::from(now.time_s) * 1e6 * 84.0 / 85.0;
        sink(&write::record_prefix(0xffff, time_us as u64));
        let values = acc.into_iter().chain(gyro).chain(pwm).chain([now.battery_v]);
        for (_, value) in CARD.iter().zip(values).filter(|(name, _)| wanted.contains(name)) {
            sink(&value.to_le_bytes());
        }
    }
    let crc = FILE_CRC.checksum(&file);
    file.extend_from_slice(&crc.to_le_bytes());
    fs::write(path, file).unwrap();
}

fn identified(folder: &Path, args: &[&str]) -> serde_json::Value {
    let out = expect(folder, &[&["identify", "--json", "--force"], args].concat(), 0).0;
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    report["drones"][0].clone()
}

/// Value, interval, and whether it is told.
fn parameter(drone: &serde_json::Value, name: &str) -> ([f64; 3], bool) {
    let all = drone["parameters"].as_array().unwrap();
    let found = all.iter().find(|p| p["name"] == name).unwrap();
    (["value", "low", "high"].map(|key| found[key].as_f64().unwrap()), found["is_told"] == true)
}

#[test]
fn a_card_log_tells_inertia_alone_and_beside_a_flight_with_positions() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut drone = World::named("real").unwrap();
    drone.body.inertia_kg_m2 = [1.75e-5, 1.75e-5, 3.2e-5];
    drone.motors.effectiveness = [0.7; 4];
    fs::create_dir(folder.join("cards")).unwrap();
    write_card(&drone, &CARD, &folder.join("cards/log00"));
    write_log(&drone, Task::Hover, &folder.join("hover"));
    let inertia = "body.inertia_kg_m2[0..2]";
    let hover = parameter(&identified(folder, &["hover"]), inertia);
    let card = identified(folder, &["cards/log00"]);
    let ([value, low, high], is_told) = parameter(&card, inertia);
    assert!((low..=high).contains(&1.75e-5) && value < 1.9e-5 && is_told, "{value} {low} {high}");
    assert!(card["scores"].is_null() && !parameter(&card, "motors.effectiveness[0]").1, "{card}");
    // Together they know both, better than a quiet flight alone.
    let both = identified(folder, &["cards", "hover"]);
    let ([value, low, high], is_told) = parameter(&both, inertia);
    assert!((low..=high).contains(&1.75e-5) && is_told, "{value} {low} {high}");
    assert!(high / low < hover.0[2] / hover.0[1], "{both} {hover:?}");
    let ([thrust, ..], is_told) = parameter(&both, "motors.effectiveness[0]");
    assert!((thrust - 0.7).abs() < 0.03 && is_told && both["scores"].is_array(), "{both}");
    // In words; a drone without positions is not in the mean of several.
    let (out, err) = expect(folder, &["identify", "cards", "hover", "--force"], 0);
    assert!(err.contains("DRONE=FILE keeps drones apart") && out.contains("as it is"), "{out}{err}");
    let (out, err) = expect(folder, &["identify", "C=cards", "H=hover", "-o", "all.toml"], 0);
    assert!(out.contains("no positions: thrust") && !err.contains("keeps drones apart"), "{out}{err}");
    assert!(expect(folder, &["world", "show", "all.toml"], 0).0.contains("identified from hover"));
}

#[test]
fn card_logs_that_cannot_be_used_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let drone = World::named("real").unwrap();
    write_card(&drone, &CARD, &folder.join("whole"));
    let without: Vec<&str> = CARD.into_iter().filter(|name| !["acc.z", "motor.m2"].contains(name)).collect();
    write_card(&drone, &without, &folder.join("lacking"));
    let bytes = fs::read(folder.join("whole")).unwrap();
    fs::write(folder.join("ground"), &bytes[..bytes.len() / 9]).unwrap();
    fs::write(folder.join("header"), &bytes[..100]).unwrap();
    for (args, words) in [
        (
            ["identify", "lacking", ""],
            "lacking: no flight of this firmware, and as a log of the official one it lacks acc.z, motor.m2",
        ),
        (["identify", "ground", ""], "no four seconds of flight"),
        (["identify", "header", ""], "header: "),
        (["world", "score", "real"], "whole, part 1: a card's log without positions"),
        (["world", "replay", "real"], "whole, part 1: a card's log without positions"),
    ] {
        let mut args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        if args[0] == "world" {
            args.push("whole");
        }
        let (_, err) = expect(folder, &args, 1);
        assert!(err.contains(words), "{args:?}: {err}");
    }
    // Torn, what is whole of it is used.
    fs::write(folder.join("torn"), &bytes[..bytes.len() - 3001]).unwrap();
    assert!(expect(folder, &["identify", "torn"], 0).0.contains("no positions"));
}

#[test]
fn real_card_logs_tell_what_a_regression_of_them_says() {
    let Some(flights) = steady_test_support::recording("real-flights") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = |name: &str| flights.join(name).to_string_lossy().into_owned();
    let (vertical, tilting) = (path("usd/log10"), path("usd/log15"));
    let both = identified(folder, &[&vertical, &tilting]);
    // Torque over angular acceleration is 1.8e-5 to 2.1e-5 kg m² in these logs, their lags are 50 to 70 ms.
    let ([value, low, high], _) = parameter(&both, "body.inertia_kg_m2[0..2]");
    assert!((1.8e-5..2.1e-5).contains(&value) && low < 1.8e-5 && high < 2.3e-5, "{value} {low} {high}");
    let lag_s = |name: &str| parameter(&both, name).0[0];
    let (rise_s, fall_s) = (lag_s("motors.tau_rise_s"), lag_s("motors.tau_fall_s"));
    let delay_s = lag_s("motors.command_delay_s");
    assert!((0.045..0.055).contains(&rise_s) && (0.06..0.075).contains(&fall_s), "{rise_s} {fall_s}");
    assert!((0.010..0.016).contains(&delay_s), "{delay_s}");
    assert!(both["scores"].is_null() && both["windows"].as_u64().unwrap() > 350, "{both}");
    // One fit with flights of another drone is possible, and said to be one of one drone.
    let seen = path("B5_helix_slow_rep1.csv.gz");
    let (_, err) = expect(folder, &["identify", &tilting, &seen, "--force"], 0);
    assert!(err.contains("right for one drone only"), "{err}");
    let joint = identified(folder, &[&tilting, &seen]);
    assert!(joint["scores"].is_array() && parameter(&joint, "motors.effectiveness[0]").1, "{joint}");
    // The paper's log has neither accelerometer nor gyroscope.
    let Some(log27) = steady_test_support::recording("log27") else { return };
    let (_, err) = expect(folder, &["identify", &log27.to_string_lossy(), "--force"], 1);
    assert!(err.contains("lacks acc.x, acc.y, acc.z, gyro.x"), "{err}");
}
