//! `steady report`: the page has the loop's numbers, always the same, and lives in a browser.
//!
//! The browser's tests need Chromium (`cargo xtask setup` installs it) and say when they were skipped.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod fake;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fake::{FakeDrone, FakeTeacher};
use serde_json::Value;
use steady::cycle::compare::{Comparison, compare};
use steady::cycle::journal::Origin;
use steady::cycle::{Loop, Settings, Teacher};
use steady::report::data::Data;
use steady::report::page;

/// A name that would end the data and run a script, were it taken for markup.
const HOSTILE: &str = "</script><script>window.stolen=1</script><img src=x onerror=alert(1)>&amp;\u{2028}'\"";

fn settings() -> Settings {
    Settings { iterations: 3, patience: 3, world: HOSTILE.to_owned(), ..Settings::default() }
}

fn origin(folder: &Path) -> Origin {
    let run = folder.join("run");
    fs::create_dir_all(&run).unwrap();
    let skills = serde_json::json!({
        "features": 4, "effective_rank": 3.2, "held_out_loss": -1.0, "spectrum": [0.6, 0.3, 0.09, 0.01],
        "fits": [{ "policy": HOSTILE, "task": "hover", "r2": 0.97, "crashed": 0.0 }],
    });
    fs::write(run.join("skills.json"), skills.to_string()).unwrap();
    let command = ["steady", "loop", "--out", HOSTILE].map(str::to_owned).to_vec();
    Origin { run, program: "0.1.0 0123abc".to_owned(), command, ..Origin::default() }
}

fn comparison(folder: &Path) {
    let teachers = |settings: &Settings| -> Box<dyn Teacher> {
        Box::new(FakeTeacher::new(if settings.transfer_only { &[1.2, 0.7] } else { &[1.2, 1.4] }))
    };
    let wanted = Comparison::new(settings(), 3, 2, origin(folder));
    compare(folder, wanted, false, &FakeDrone::default(), &teachers, 2).unwrap();
}

fn single(folder: &Path) {
    let (drone, teacher) = (FakeDrone::default(), FakeTeacher::new(&[1.2, 7.0, 1.4]));
    Loop::open(folder, settings(), origin(folder), false, &drone, &teacher).unwrap().run().unwrap();
}

fn shown(folder: &Path) -> Value {
    serde_json::to_value(Data { commands: Vec::new(), ..Data::of(folder).unwrap() }).unwrap()
}

#[test]
fn the_same_seeds_give_the_same_page() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    folders.each_ref().map(|f| comparison(f.path()));
    let [a, b] = folders.each_ref().map(|f| shown(f.path()));
    assert_eq!(a, b);
    let results = a["results"].as_array().unwrap();
    let errors: Vec<f64> = results.iter().map(|r| r["tracking_error_cm"][0].as_f64().unwrap()).collect();
    assert_eq!(errors, [10.0, 5.0, 3.0, 1.0]);
    assert_eq!((a["curves"].as_array().unwrap().len(), a["traces"].as_array().unwrap().len()), (6, 4));
    assert_eq!(a["gains"]["tables"].as_array().unwrap().len(), 4);
    let motors = &a["traces"][0]["health"]["motors_percent"];
    assert!(motors[0].as_f64().unwrap() > motors[1].as_f64().unwrap() + 5.0, "{motors}");
    assert_eq!(a["traces"][3]["health"]["log_records"], 4000);
}

#[test]
fn nothing_from_files_becomes_markup() {
    let folder = tempfile::tempdir().unwrap();
    comparison(folder.path());
    let text = page(folder.path()).unwrap();
    assert_eq!(text.matches("<script").count(), 2);
    assert_eq!(text.matches("</script").count(), 2);
    assert!(!text.contains("<img") && !text.contains('\u{2028}'));
    // What the page parses is what was gathered.
    let start = text.find("id=\"data\">").unwrap() + 10;
    let end = start + text[start..].find("</script").unwrap();
    let data: Value = serde_json::from_str(&text[start..end]).unwrap();
    assert_eq!(data["settings"]["world"], HOSTILE);
    assert_eq!(data, serde_json::to_value(Data::of(folder.path()).unwrap()).unwrap());
    assert!(!text.contains("http:") && !text.contains("https:"), "it needs no network");
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    assert!(Data::of(f).unwrap_err().to_string().contains("steady loop"));
    single(f);
    let flight = f.join("iteration-00/judge/flight-01");
    let truth = fs::read_to_string(flight.join("truth.csv")).unwrap();
    let damaged = |name: &str, text: &str, words: &str| {
        let path = flight.join(name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", Data::of(f).unwrap_err());
        assert!(error.contains(name) && error.contains(words), "{error}");
        fs::write(&path, good).unwrap();
    };
    damaged("truth.csv", "", "time_us");
    damaged("truth.csv", &truth.replacen("time_us", "time", 1), "time_us");
    damaged("truth.csv", &truth.replacen("42000", "x", 1), "line 2");
    damaged("truth.csv", &truth.replacen("42000", "inf", 1), "line 2");
    damaged("truth.csv", &truth[..1000], "");
    damaged("summary.json", "{", "summary");
    fs::remove_file(flight.join("truth.csv")).unwrap();
    assert!(format!("{:#}", Data::of(f).unwrap_err()).contains("truth.csv"));
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|f| names.map(|n| f.join(n))).find(|p| p.is_file());
    if found.is_none() {
        println!("SKIPPED: no Chromium (`cargo xtask setup` installs it)");
    }
    found
}

/// Runs the browser on a page; gives what it prints and what it complains of.
fn browse(browser: &Path, folder: &Path, address: &str, args: &[&str]) -> (String, String) {
    let mut command = Command::new(browser);
    // The sandbox needs rights that a container's root does not have; the page is our own.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let output = command.args(args).arg(address).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn attribute(dom: &str, name: &str) -> String {
    let start =
        dom.find(&format!("{name}=\"")).unwrap_or_else(|| panic!("{name} is not there")) + name.len() + 2;
    dom[start..].split('"').next().unwrap().to_owned()
}

#[test]
fn the_page_loads_and_plays_in_a_browser() {
    let Some(browser) = browser() else { return };
    for make in [comparison, single] {
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        make(f);
        fs::write(f.join("report.html"), page(f).unwrap()).unwrap();
        let address = format!("file://{}", f.join("report.html").display());

        let (dom, err) = browse(&browser, f, &format!("{address}#play"), &["--dump-dom"]);
        assert!(!err.contains("CONSOLE"), "{err}");
        assert_eq!(
            (attribute(&dom, "data-errors"), attribute(&dom, "data-ready")),
            ("0".into(), "true".into())
        );
        // It began at the first moment and went on.
        let frames: u32 = attribute(&dom, "data-frames").parse().unwrap();
        let time: f64 = attribute(&dom, "data-time").parse().unwrap();
        assert!(frames > 5 && time > 0.2, "{frames} frames, {time} s");
        assert!(dom.contains("Simulator") && dom.contains("&lt;/script&gt;"), "names are shown as text");

        let picture = f.join("page.png");
        let (_, err) = browse(
            &browser,
            f,
            &address,
            &[&format!("--screenshot={}", picture.display()), "--window-size=1280,2400"],
        );
        assert!(!err.contains("CONSOLE"), "{err}");
        assert!(fs::metadata(&picture).unwrap().len() > 50_000, "an empty page is smaller");
    }
}
