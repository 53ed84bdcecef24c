//! `steady identify` as a user meets it: from the firmware's logs to a world that predicts them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
