//! What the comparison must do: the same numbers again, nothing lost when it is ended, and clear words about
//! what it cannot use.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use steady_sim::METRICS;

/// The smallest evaluation: one seed, one task, one iteration of two flights.
const SMALL: [&str; 22] = [
    "evaluate",
    "--suite",
    "quick",
    "--preset",
    "smoke",
    "--task",
    "takeoff-land",
    "--flights",
    "2",
    "--iterations",
    "1",
    "--judging",
    "2",
    "--judged",
    "2",
    "--oracle-steps",
    "1",
    "--set",
    "search_steps=1",
    "--out",
    "all",
    "--json",
];

fn steady(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_steady")).args(args).current_dir(folder).output().unwrap();
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().copied().chain(more.iter().copied()).collect()
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_under(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn an_evaluation_is_whole_repeats_and_goes_on_where_it_was_ended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("all").join(name);
    let (code, out, error) = steady(folder.path(), &SMALL);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let controllers: Vec<_> = rows.iter().map(|r| r["controller"].as_str().unwrap()).collect();
    assert_eq!(controllers, ["pid", "simulator", "transfer", "steady", "oracle"]);
    for row in rows {
        assert_eq!(row["flights"], 2);
        let mut columns = row["metrics"].as_object().unwrap().keys();
        assert!(columns.all(|id| METRICS.iter().any(|m| m.id == id)), "{row}");
        let error_m = row["metrics"]["tracking_error_m"]["mean"].as_f64().unwrap();
        assert!(error_m > 0.001 && error_m < 0.5, "{row}");
    }
    // One seed proves nothing, and what was not flown is not claimed.
    let claims = report["claims"].as_array().unwrap();
    assert!(
        claims.iter().all(|c| c["status"] != "met" || c["text"].as_str().unwrap().contains("correlation"))
    );
    assert!(claims.iter().any(|c| c["status"]["unmeasured"] == "it was not flown"), "{claims:?}");
    // Transfer and STEADY had as many flights, and STEADY discovered something.
    let learning = report["learning"].as_array().unwrap();
    assert_eq!(learning.len(), 2);
    assert!(learning.iter().all(|l| l["exploring_flights"] == 2 && l["judging_flights"].as_u64() >= Some(2)));
    assert!(learning[0]["error_with_discovery"].is_null(), "{learning:?}");
    assert!(learning[1]["error_with_discovery"]["mean"].as_f64().unwrap() < 1.0, "{learning:?}");
    for name in ["3d", "roll", "pitch", "height", "learning"] {
        for kind in ["svg", "png"] {
            let picture = at(&format!("figures/paper-takeoff-land-{name}.{kind}"));
            assert!(std::fs::metadata(&picture).unwrap().len() > 1000, "{}", picture.display());
        }
    }
    let text = std::fs::read_to_string(at("results.md")).unwrap();
    assert!(text.contains("| STEADY") && text.contains("## Claims"), "{text}");
    assert!(!text.contains('±'), "one seed has no interval: {text}");
    assert_eq!(std::fs::read_to_string(at("flights.csv")).unwrap().lines().count(), 1 + 10);

    // Ended before these were done: only they are done again, with the same numbers.
    std::fs::remove_dir_all(at("loops/paper/takeoff-land/steady/seed-1")).unwrap();
    std::fs::remove_file(at("cells/paper/takeoff-land/steady/seed-1.json")).unwrap();
    let (code, _, error) = steady(folder.path(), &SMALL);
    assert!(code == Some(1) && error.contains("--resume"), "{error}");
    let (code, again, error) = steady(folder.path(), &with(&["--resume"]));
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("2/2") && !error.contains("training"), "{error}");
    assert_eq!(out, again);

    // More tasks can be added; nobody learned on this one.
    let more = with(&["--resume", "--task", "square", "--controller", "pid", "simulator"]);
    let (code, more, error) = steady(folder.path(), &more);
    assert_eq!(code, Some(0), "{error}");
    let more: Value = serde_json::from_str(&more).unwrap();
    assert_eq!(more["rows"][0], rows[0]);
    assert!(more["rows"][2]["task"] == "square" && more["rows"][2]["learned_on"].is_null());

    // With other settings the numbers would not belong together.
    let mut other = with(&["--resume"]);
    let place = other.iter().position(|a| *a == "--judged").unwrap();
    other[place + 1] = "3";
    let (code, _, error) = steady(folder.path(), &other);
    assert!(code == Some(1) && error.contains("judged = 2, not 3"), "{error}");

    // A result that is damaged, or somebody else's, is not used.
    let [mine, others] =
        ["simulator", "pid"].map(|c| at(&format!("cells/paper/takeoff-land/{c}/seed-1.json")));
    std::fs::copy(&others, &mine).unwrap();
    let (code, _, error) = steady(folder.path(), &with(&["--resume"]));
    assert!(
        code == Some(1) && error.contains("simulator/seed-1.json") && error.contains("delete"),
        "{error}"
    );
    for hostile in ["", "[]", "{\"key\":1,\"flights\":[]}"] {
        std::fs::write(&mine, hostile).unwrap();
        let (code, _, error) = steady(folder.path(), &with(&["--resume"]));
        assert!(code == Some(1) && error.contains("simulator/seed-1.json"), "{hostile}: {error}");
    }
    assert!(files_under(&at("")).iter().all(|f| f.extension().is_none_or(|e| e != "part")));

    // Harm, with the training that is there.
    let harm = [
        "evaluate",
        "--suite",
        "harm",
        "--world",
        "sample-1000",
        "--task",
        "takeoff-land",
        "--run",
        "all/train/seed-1",
        "--flights",
        "1",
        "--judged",
        "2",
        "--set",
        "search_steps=1",
        "--out",
        "harm",
    ];
    let (code, out, error) = steady(folder.path(), &harm);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("## Harm") && out.contains("sample-1000 | takeoff-land"), "{out}");
    assert!(!error.contains("training"), "{error}");
}

#[test]
fn bad_arguments_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], wanted: i32, words: &str| {
        let args: Vec<&str> = ["evaluate", "--out", "none"].iter().chain(args).copied().collect();
        let (code, _, error) = steady(folder.path(), &args);
        assert!(code == Some(wanted) && error.contains(words), "{args:?}: {code:?} {error}");
        // No text is repeated within a line.
        for line in error.lines() {
            let parts: Vec<&str> = line.split(": ").map(str::trim).filter(|p| p.len() > 8).collect();
            let mut distinct = parts.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(parts.len(), distinct.len(), "{line}");
        }
        assert!(!folder.path().join("none").exists(), "{args:?}");
    };
    refused(&["--task", "figure9"], 2, "figure8");
    refused(&["--controller", "pib"], 2, "pid");
    refused(&["--seeds", "0"], 2, "0");
    refused(&["--noise", "0.05,0.05"], 2, "four");
    refused(&["--noise", "0,0,0,0"], 1, "above 0");
    refused(&["--suite", "papper"], 2, "paper");
    refused(&["--drone", "nativ"], 2, "did you mean `native`");
    refused(&["--drone", "udp://127.0.0.1:1"], 1, "native or virtual");
    refused(&["--world", "papper"], 2, "did you mean `paper`");
    refused(&["--world", "paper", "paper"], 1, "two worlds");
    refused(&["--flights", "0"], 1, "--flights");
    refused(&["--flights", "2", "--iterations", "3"], 1, "--iterations must be from 1 to 2");
    refused(&["--flights", "5", "--iterations", "2"], 1, "do not divide");
    refused(&["--set", "lamda=1"], 2, "did you mean `lambda`");
    refused(&["--preset", "smok"], 2, "smoke");
    refused(&["--run", "nowhere"], 2, "not a run folder");
}
