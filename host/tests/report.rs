//! `steady report`: the page has the loop's numbers, always the same, and lives in a browser.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod fake;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fake::{FakeDrone, FakeLearner};
use serde_json::{Value, json};
use steady::closed_loop::compare::{Comparison, compare};
use steady::closed_loop::journal::Origin;
use steady::closed_loop::{ClosedLoop, Learner, Settings};
use steady::report::data::Data;
use steady::report::page;
use steady_test_support::program;

/// A name that would end the data and run a script, were it taken for markup.
const HOSTILE: &str = "</script><script>window.stolen=1</script><img src=x onerror=alert(1)>&amp;\u{2028}'\"";

fn settings() -> Settings {
    Settings { iterations: 3, patience: 3, world: HOSTILE.to_owned(), ..Settings::default() }
}

fn origin(folder: &Path) -> Origin {
    let run = folder.join("run");
    fs::create_dir_all(&run).unwrap();
    let skills = json!({
        "features": 4, "effective_rank": 3.2, "held_out_loss": -1.0, "spectrum": [0.6, 0.3, 0.09, 0.01],
        "fits": [{ "policy": HOSTILE, "task": "hover", "r2": 0.97, "crashed": 0.0 }],
    });
    fs::write(run.join("skills.json"), skills.to_string()).unwrap();
    let command = ["steady", "loop", "--out", HOSTILE].map(str::to_owned).to_vec();
    Origin { run, program: "0.1.0 0123abc".to_owned(), command, ..Origin::default() }
}

fn comparison(folder: &Path) {
    let learners = |settings: &Settings| -> Box<dyn Learner> {
        Box::new(FakeLearner::new(if settings.transfer_only { &[1.2, 0.7] } else { &[1.2, 1.4] }))
    };
    let wanted = Comparison::new(settings(), 3, 2, origin(folder));
    compare(folder, wanted, false, &FakeDrone::default(), &learners, 2).unwrap();
}

fn single(folder: &Path) {
    let (drone, learner) = (FakeDrone::default(), FakeLearner::new(&[1.2, 7.0, 1.4]));
    ClosedLoop::open(folder, settings(), origin(folder), false, &drone, &learner).unwrap().run().unwrap();
}

fn shown(folder: &Path) -> Value {
    let mut data = serde_json::to_value(Data::of(folder).unwrap()).unwrap();
    data["commands"].take();
    data
}

#[test]
fn the_same_seeds_give_the_same_page() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    folders.iter().for_each(|f| comparison(f.path()));
    let [a, b] = folders.each_ref().map(|f| shown(f.path()));
    assert_eq!(a, b);
    let results = a["results"].as_array().unwrap();
    let errors: Vec<f64> =
        results.iter().map(|r| r["metrics"]["tracking_error_m"]["mean"].as_f64().unwrap()).collect();
    assert_eq!(errors, [10.0, 5.0, 3.0, 1.0]);
    // Every metric is a column, and every row has it.
    let ids: Vec<&str> = a["metrics"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, steady_sim::METRICS.map(|m| m.id));
    assert!(results.iter().all(|r| ids.iter().all(|id| r["metrics"][id]["half_width"].is_number())), "{a}");
    assert_eq!((a["curves"].as_array().unwrap().len(), a["traces"].as_array().unwrap().len()), (6, 4));
    assert_eq!(a["tables"].as_array().unwrap().len(), 4);
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
    let gathered = serde_json::to_string(&Data::of(folder.path()).unwrap()).unwrap();
    assert_eq!(data, serde_json::from_str::<Value>(&gathered).unwrap());
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

#[track_caller]
fn browser() -> Option<PathBuf> {
    program(&["chromium", "chromium-browser", "google-chrome"])
}

/// A browser that is told what to do through a pair of pipes, in the protocol of its developer tools.
struct Browser {
    process: Child,
    to: fs::File,
    from: BufReader<fs::File>,
    session: Option<String>,
    next: u64,
    /// Errors and warnings that the page caused.
    complaints: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    fn start(program: &Path, folder: &Path) -> Self {
        let pipes = ["to", "from"].map(|name| folder.join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        let mut command = Command::new("bash");
        command
            .args(["-c", r#"to=$1 from=$2; shift 2; exec "$@" 3<"$to" 4>"$from""#, "browser"])
            .args(&pipes);
        // The sandbox needs rights that a container's root does not have; the page is our own.
        command.arg(program).args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--remote-debugging-pipe", "--window-size=1280,1600", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let to = fs::OpenOptions::new().write(true).open(&pipes[0]).unwrap();
        let from = BufReader::new(fs::File::open(&pipes[1]).unwrap());
        let (session, next, complaints) = (None, 0, Vec::new());
        let mut this = Self { process, to, from, session, next, complaints };
        let target = this.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = this.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        this.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            this.ask(&format!("{domain}.enable"), json!({}));
        }
        this
    }

    /// Sends a command and gives its result; what happens meanwhile is looked at for complaints.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            assert!(self.from.read_until(0, &mut bytes).unwrap() > 0, "the browser has ended");
            let message: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            let happened = message["method"].as_str().unwrap_or_default();
            if ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"].contains(&happened) {
                self.complaints.push(message.to_string());
            }
        }
    }

    /// What the page says of itself in an attribute of its root.
    fn says(&mut self, name: &str) -> String {
        let expression = format!("String(document.documentElement?.dataset.{name})");
        let result = self.ask("Runtime.evaluate", json!({ "expression": expression }));
        result["result"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says it.
    fn wait(&mut self, name: &str, is: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let said = self.says(name);
            if is(&said) {
                return said;
            }
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "{name} stays {said}; {:?}",
                self.complaints
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let params = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        self.ask("Input.dispatchMouseEvent", params);
    }

    /// Middle of an element, brought into view.
    fn middle(&mut self, id: &str) -> (f64, f64) {
        let expression = format!(
            "(() => {{ const e = document.getElementById('{id}'); e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        let result = self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        let at = |i: usize| result["result"]["value"][i].as_f64().unwrap();
        (at(0), at(1))
    }
}

#[test]
fn the_page_loads_turns_and_plays_in_a_browser() {
    let Some(program) = browser() else { return };
    for make in [comparison, single] {
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        make(f);
        fs::write(f.join("report.html"), page(f).unwrap()).unwrap();
        let mut browser = Browser::start(&program, f);
        let address = format!("file://{}", f.join("report.html").display());
        browser.ask("Page.navigate", json!({ "url": address }));
        browser.wait("ready", |said| said == "true");
        let text = "document.body.innerText";
        let shown = browser.ask("Runtime.evaluate", json!({ "expression": text }));
        let shown = shown["result"]["value"].as_str().unwrap();
        assert!(shown.contains("Simulator") && shown.contains("onerror=alert(1)"), "names are shown as text");

        // The button plays to the end, from the beginning.
        let before: f64 = browser.says("time").parse().unwrap();
        let play = browser.middle("play");
        browser.mouse("mousePressed", play);
        browser.mouse("mouseReleased", play);
        browser.wait("playing", |said| said == "true");
        browser.wait("time", |said| said.parse::<f64>().unwrap() > before + 0.3);
        browser.mouse("mousePressed", play);
        browser.mouse("mouseReleased", play);
        browser.wait("playing", |said| said == "false");

        // The mouse turns the flights.
        let yaw = browser.says("yaw");
        let (x, y) = browser.middle("space");
        browser.mouse("mousePressed", (x, y));
        browser.mouse("mouseMoved", (x + 120.0, y + 20.0));
        browser.mouse("mouseReleased", (x + 120.0, y + 20.0));
        browser.wait("yaw", |said| said != yaw);

        let stolen = browser.ask("Runtime.evaluate", json!({ "expression": "typeof window.stolen" }));
        assert_eq!(stolen["result"]["value"], "undefined");
        assert_eq!(browser.says("errors"), "0");
        let picture = browser.ask("Page.captureScreenshot", json!({}))["data"].as_str().unwrap().len();
        assert!(picture > 30_000, "an empty page is smaller: {picture}");
        assert_eq!(browser.complaints, [""; 0]);
    }
}
