//! `steady fly`: the real firmware flies its tasks, and what it logs is whole and computes again.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

mod firmware;

use firmware::elf;
use serde_json::Value;
use steady::log::transitions;
use steady_common::GainTable;
use steady_common::transition::Flags;
use steady_test_support::program;

fn steady(folder: &Path, elf: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
    command.current_dir(folder).env("STEADY_ELF", elf).args(args).output().unwrap()
}

/// Flies and expects success; gives the JSON of the flights.
fn fly(folder: &Path, elf: &Path, args: &[&str]) -> Vec<Value> {
    let output = steady(folder, elf, &[&["fly", "--json", "--no-plots"], args].concat());
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}\n{out}\n{err}");
    serde_json::from_str::<Value>(&out).unwrap().as_array().unwrap().clone()
}

/// A task in a world: flown and landed, the log whole, the card readable by others, the replay exact.
#[track_caller]
fn assert_flies(task: &str, world: &str, error_m: f64) {
    let Some(elf) = elf() else { return };
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let flown = &fly(f, &elf, &["--task", task, "--world", world, "--out", "out"])[0];
    let summary = &flown["summary"];
    assert!(flown["success"].as_bool().unwrap() && summary["is_landed"].as_bool().unwrap(), "{flown}");
    let tracking = flown["metrics"]["tracking_error_m"].as_f64().unwrap();
    assert!(tracking < error_m, "{tracking} m");
    assert!(summary["cpu_load"].as_f64().unwrap() < 0.5, "{}", summary["cpu_load"]);

    let log = &flown["logs"][0];
    assert_eq!(log["verdict"]["problems"].as_array().unwrap().len(), 0, "{log}");
    let replay = &log["replay"];
    assert!(replay["replayed"].as_u64().unwrap() > 5000, "{replay}");
    assert_eq!((&replay["differing_bits"], &replay["differing_memory_bits"]), (&0.into(), &0.into()));
    assert_eq!((&summary["logs"][0]["lost"], &summary["logs"][0]["is_closed"]), (&0.into(), &true.into()));

    // Other programs read the card: mtools finds the partition 1 MiB into the image.
    let (Some(mdir), Some(mcopy)) = (program(&["mdir"]), program(&["mcopy"])) else { return };
    let listed =
        Command::new(mdir).args(["-b", "-i", "out/card.img@@1M", "::"]).current_dir(f).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).to_lowercase();
    assert!(listed.status.success() && text.contains("log00"), "{listed:?}");
    let args = ["-n", "-i", "out/card.img@@1M", "::log00", "copy"];
    assert!(Command::new(mcopy).args(args).current_dir(f).status().unwrap().success());
    assert_eq!(fs::read(f.join("copy")).unwrap(), fs::read(f.join("out/log00")).unwrap());
}

#[test]
fn takes_off_and_lands_in_the_nominal_world() {
    assert_flies("takeoff-land", "nominal", 0.02);
}

#[test]
fn takes_off_and_lands_in_the_papers_world() {
    assert_flies("takeoff-land", "paper", 0.10);
}

#[test]
fn flies_the_figure_eight_in_the_nominal_world() {
    assert_flies("figure8", "nominal", 0.05);
}

#[test]
fn flies_the_figure_eight_in_the_papers_world() {
    assert_flies("figure8", "paper", 0.15);
}

#[test]
fn flies_the_square_and_the_helix() {
    assert_flies("square", "paper", 0.12);
    assert_flies("helix", "nominal", 0.05);
}

#[test]
fn an_unknown_task_is_a_usage_error_that_names_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let output = steady(folder.path(), Path::new("none.elf"), &["fly", "--task", "sqare"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("did you mean `square`"), "{error}");
}

/// One piece, 4 s long: 0.5 m along x and back to rest, by the polynomial that is smooth at both ends.
fn along_x() -> String {
    let (t, d) = (4.0_f64, 0.5);
    let x = [0.0, 0.0, 0.0, 10.0 * d / t.powi(3), -15.0 * d / t.powi(4), 6.0 * d / t.powi(5), 0.0, 0.0];
    let values = std::iter::once(t).chain(x).chain([0.0; 24]);
    values.map(|v| v.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn own_gains_trajectories_noise_and_several_flights_are_real() {
    let Some(elf) = elf() else { return };
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let mut table = GainTable { sequence: 7, ..GainTable::built_in() };
    table.gains.position.p.xy *= 1.25;
    fs::write(f.join("seven.bin"), table.encode()).unwrap();
    fs::write(f.join("along.csv"), format!("duration,x^0\n{}\n", along_x())).unwrap();
    let args = ["--task", "along.csv", "--gains", "seven.bin", "--explore", "--flights", "2", "--out", "two"];
    let flights = fly(f, &elf, &args);
    assert_eq!(flights.len(), 2);
    for flown in &flights {
        assert_eq!(flown["logs"][0]["replay"]["differing_bits"], 0);
        assert_eq!(flown["logs"][0]["verdict"]["problems"].as_array().unwrap().len(), 0, "{}", flown["logs"]);
        let x = flown["summary"]["final_position_m"][0].as_f64().unwrap();
        assert!((x - 0.5).abs() < 0.1, "the trajectory ends half a metre along x: {x}");
    }
    let logs = [f.join("two/flight-01"), f.join("two/flight-02")];
    let recordings = logs.map(|l| transitions(&[l.join("log00")]).unwrap());
    let noise = recordings.map(|recording| {
        let segment = recording.segments.iter().find(|s| s.flight.is_some()).unwrap();
        assert_eq!(segment.gains, Some(table), "the table from the flash flew");
        let noisy: Vec<_> = segment.steps.iter().filter(|s| s.flags.has(Flags::NOISE)).collect();
        assert!(noisy.len() > 1000, "{}", noisy.len());
        noisy.iter().map(|s| s.applied.roll - s.action.roll).collect::<Vec<_>>()
    });
    assert_ne!(noise[0], noise[1], "every flight shakes differently");
}

#[test]
fn what_is_missing_or_wrong_is_said_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let output = steady(f, &f.join("no.elf"), &["fly"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && err.contains("no.elf") && err.contains("cargo "), "{err}");
    let Some(elf) = elf() else { return };
    for (code, args, words) in [
        (2, &["fly", "--world", "nominl"][..], &["did you mean `nominal`"][..]),
        (2, &["fly", "--task", "loop"], &["loop", "figure8"]),
        (2, &["fly", "--controller", "lau"], &["did you mean `law`"]),
        (2, &["fly", "--gains", "none.toml"], &["none.toml", "cannot be read"]),
        (2, &["fly", "--fault", "5:tea-spilled"], &["tea-spilled"]),
        (2, &["fly", "--fault", "5:card-puled"], &["did you mean `card-pulled`"]),
        (2, &["fly", "--param", "explore=1"], &["explore=1", "GROUP.NAME=VALUE"]),
        (1, &["fly", "--param", "steady.nonsense=1"], &["did not succeed"]),
    ] {
        let output = steady(f, &elf, args);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?} {err}");
        assert!(words.iter().all(|w| err.contains(w)), "{args:?}: {err}");
    }
    assert_eq!(steady(f, &elf, &["fly", "--explore=1,2"]).status.code(), Some(2));
}
