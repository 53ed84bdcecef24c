//! `steady sweep` on this machine: what a user sees, and what a kill leaves.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn sweep(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
    command.current_dir(folder).arg("sweep").args(args);
    command
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn stamps(folder: &Path) -> Vec<PathBuf> {
    let cells = fs::read_dir(folder.join("cells")).into_iter().flatten().flatten();
    let mut stamps: Vec<PathBuf> = cells.map(|cell| cell.path().join("stamp.json")).collect();
    stamps.retain(|stamp| stamp.is_file());
    stamps.sort();
    stamps
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(300), "{what} did not happen");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn results_are_gathered_and_what_is_done_is_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let text = "command = ['compare-controllers', '--seeds', '1']\n\
                metrics = ['nominal/hover/built-in PID.metrics.tracking_error_m.mean']\n\
                [grid]\nworlds = ['nominal']\ngains = ['nominal']\n";
    fs::write(f.join("s.toml"), text).unwrap();
    // Texts are joined in the order of the fields' names: controller, task, world.
    let (code, out, err) = said(&sweep(f, &["s.toml"]).output().unwrap());
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(err.contains("did you mean `built-in PID/hover/nominal.metrics.tracking_error_m.mean`"), "{err}");

    fs::write(f.join("s.toml"), text.replace("nominal/hover/built-in PID", "built-in PID/hover/nominal"))
        .unwrap();
    let (code, out, err) = said(&sweep(f, &["s.toml"]).output().unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("1 cells, 1 of them done already"), "{out}");
    let results = f.join("sweeps/s");
    let csv = fs::read_to_string(results.join("table.csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(results.join("table.json")).unwrap()).unwrap();
    let error = &json["rows"][0]["values"]["built-in PID/hover/nominal.metrics.tracking_error_m.mean"];
    assert!(error["mean"].as_f64().unwrap() > 0.0 && error["half_width"].is_null(), "{json}");
    assert!(out.contains(&fs::read_to_string(results.join("table.md")).unwrap()), "{out}");
    // Pictures of every cell are its own.
    let stamp = stamps(&results).pop().unwrap();
    assert!(stamp.with_file_name("run").join("hover-nominal.svg").is_file());
}

#[test]
fn failures_are_listed_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    fs::write(f.join("s.toml"), "command = ['world', 'show', '{world}']\ngrid.world = ['paper', 'papper']")
        .unwrap();
    let (code, out, err) = said(&sweep(f, &["s.toml", "--dry-run"]).output().unwrap());
    assert_eq!((code, out.matches("to do  steady world show pap").count()), (Some(0), 2), "{out}{err}");
    assert!(!f.join("sweeps").exists());
    for _ in 0..2 {
        let (code, out, err) = said(&sweep(f, &["s.toml", "--jobs", "1"]).output().unwrap());
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("2/2 world=papper") && out.contains("FAILED, exit status 2"), "{out}");
        let failed = err.lines().find(|line| line.starts_with("failed: ")).unwrap();
        assert!(failed.contains("world=papper") && failed.contains("did you mean `paper`"), "{failed}");
        assert!(err.contains("1 of 2 cells failed"), "{err}");
    }
    let (_, out, _) = said(&sweep(f, &["s.toml", "--dry-run"]).output().unwrap());
    assert!(out.contains("done   steady") && out.contains("failed steady"), "{out}");
}

#[test]
fn wrong_files_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    for (text, words) in [
        ("comand = ['compare-controllers']\n[grid]", &["comand", "command"][..]),
        ("command = ['compare-controllers']\ngrid.sed = [1]", &["--sed", "--seeds"]),
        ("command = ['compare-controllers']\ngrid.seeds = [1, 'many']", &["many", "--seeds"]),
    ] {
        fs::write(f.join("s.toml"), text).unwrap();
        let (code, _, err) = said(&sweep(f, &["s.toml"]).output().unwrap());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("s.toml") && words.iter().all(|word| err.contains(word)), "{text}: {err}");
    }
    let (code, _, err) = said(&sweep(f, &["nowhere.toml"]).output().unwrap());
    assert!(code == Some(2) && err.contains("nowhere.toml"), "{err}");
    assert_eq!(sweep(f, &[]).output().unwrap().status.code(), Some(2));
    assert!(!f.join("sweeps").exists());
}

#[test]
fn without_slurm_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    fs::write(f.join("s.toml"), "command = ['world', 'list']\n[grid]").unwrap();
    let output = sweep(f, &["s.toml", "--executor", "slurm"]).env("PATH", f).output().unwrap();
    let (code, _, err) = said(&output);
    assert_eq!(code, Some(1));
    assert!(err.contains("sbatch") && err.contains("slurm-client") && err.contains("--executor"), "{err}");
}

#[test]
fn a_killed_sweep_continues() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let text = "command = ['compare-controllers', '--worlds', 'nominal']\ngrid.seeds = [1, 12, 2]";
    fs::write(f.join("s.toml"), text).unwrap();
    let results = f.join("sweeps/s");
    let mut first = sweep(f, &["s.toml", "--jobs", "1"]).stdout(Stdio::null()).spawn().unwrap();
    // The second cell runs, the third has not begun.
    let begun = || {
        let cells = fs::read_dir(results.join("cells")).into_iter().flatten().flatten();
        cells.filter(|cell| cell.path().join("stdout").exists()).count()
    };
    wait_for("the second cell's beginning", || begun() == 2);
    first.kill().unwrap();
    first.wait().unwrap();
    let before = stamps(&results);
    assert_eq!(before.len(), 1, "the kill came too late to show anything");
    let done = fs::read(&before[0]).unwrap();

    let (code, out, err) = said(&sweep(f, &["s.toml"]).output().unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("3 cells, 1 of them done already"), "{out}");
    // The killed sweep's command lived on, and its cell was not run twice at once.
    assert!(err.contains("seeds=12") && err.contains("waiting for it"), "{err}");
    assert_eq!(stamps(&results).len(), 3);
    assert_eq!(fs::read(&before[0]).unwrap(), done, "what was done was left alone");
    assert_eq!(fs::read_to_string(results.join("table.csv")).unwrap().lines().count(), 4);
}
