//! `steady loop`: goes on wherever it was killed, keeps what is better and nothing else.
//!
//! A fake drone is killed at every call; the virtual Crazyflie with the real firmware at every station.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod fake;
mod firmware;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use fake::{FakeDrone, FakeLearner, ratio};
use serde_json::{Value, json};
use steady::closed_loop::compare::{CONTROLLERS, Comparison, compare};
use steady::closed_loop::drone::FLASH;
use steady::closed_loop::journal::{Iteration, Made, Origin};
use steady::closed_loop::{ClosedLoop, Drone, Journal, Learner, Settings};
use steady_common::GainTable;
use steady_sim::metrics::{METRICS, REWARD, TRACKING_ERROR};

fn settings(iterations: u32) -> Settings {
    Settings { iterations, patience: 3, ..Settings::default() }
}

fn walk(folder: &Path, drone: &FakeDrone, learner: &FakeLearner, settings: &Settings) -> Result<Journal> {
    let mut this =
        ClosedLoop::open(folder, settings.clone(), Origin::default(), true, drone, learner)?.with(1, None);
    this.run()?;
    Ok(this.journal().clone())
}

/// Better, worse, a crash, better, then nothing.
const RATIOS: [f32; 4] = [1.2, 0.8, 7.0, 1.4];

#[test]
fn a_loop_that_was_killed_anywhere_ends_with_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let drone = FakeDrone::default();
    let whole = walk(folder.path(), &drone, &FakeLearner::new(&RATIOS), &settings(6)).unwrap();
    let calls = drone.calls.load(Ordering::SeqCst);
    assert!(calls > 30, "{calls}");
    assert_eq!(walk(folder.path(), &drone, &FakeLearner::new(&RATIOS), &settings(6)).unwrap(), whole);
    assert_eq!(drone.calls.load(Ordering::SeqCst), calls, "a loop that has ended does nothing");

    for killed_at in 0..calls {
        let folder = tempfile::tempdir().unwrap();
        let killed = FakeDrone { killed_at: Some(killed_at), ..FakeDrone::default() };
        walk(folder.path(), &killed, &FakeLearner::new(&RATIOS), &settings(6)).unwrap_err();
        // Killed after a station's files had their name, before they were in the journal.
        let journal = Journal::load(folder.path()).unwrap();
        let last = journal.iterations.last().cloned().unwrap_or_default();
        let place = ClosedLoop::iteration_folder(folder.path(), last.number);
        for (name, is_done) in [("judge", last.judged.is_some()), ("explore", last.explored.is_some())] {
            if !is_done {
                fs::create_dir_all(place.join(name).join("flight-01")).unwrap();
                fs::write(place.join(name).join("eeprom.bin"), "junk").unwrap();
            }
        }
        let resumed =
            walk(folder.path(), &FakeDrone::default(), &FakeLearner::new(&RATIOS), &settings(6)).unwrap();
        assert_eq!(resumed, whole, "killed at call {killed_at}");
        let left: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|n| !n.to_string_lossy().contains("unfinished")), "{left:?}");
    }
}

#[test]
fn a_table_that_flies_worse_is_rolled_back_and_the_next_step_is_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let learner = FakeLearner::new(&RATIOS);
    let journal = walk(folder.path(), &FakeDrone::default(), &learner, &settings(6)).unwrap();
    let kept: Vec<bool> =
        journal.iterations.iter().filter_map(|i| i.decision.as_ref()).map(|v| v.is_kept).collect();
    assert_eq!(kept, [true, true, false, false, true, false, false]);
    assert_eq!(
        *learner.asked.lock().unwrap(),
        [(3, 1.0), (6, 1.0), (9, 0.5), (12, 0.25), (15, 0.5), (18, 0.25)]
    );
    let Iteration { flashed, restored, decision, .. } = &journal.iterations[3];
    assert_eq!((flashed.as_ref().unwrap().sequence, restored.as_ref().unwrap().sequence), (5, 6));
    assert!(decision.as_ref().unwrap().reason.contains("it crashed"), "{decision:?}");
    let restored =
        fs::read(ClosedLoop::iteration_folder(folder.path(), 3).join("drone-restored").join(FLASH)).unwrap();
    assert!((ratio(&GainTable::decode(&restored).unwrap()) - 1.2).abs() < 1e-6, "the best one so far");
    // Nothing better is proposed: the best table flies on, and the next adaptation has more flights.
    assert_eq!(journal.iterations[5].made, Some(Made::Unchanged));
    assert!(journal.iterations[5].flashed.is_none() && journal.iterations[5].explored.is_some());
    assert_eq!(journal.end.as_ref().unwrap().best, 4);
    assert!(journal.table().contains("rolled back: 3 of 3"), "{}", journal.table());
}

#[test]
fn a_loop_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let patient = Settings { patience: 2, ..settings(6) };
    let worse = FakeLearner::new(&[0.9, 0.8, 0.7]);
    let journal = walk(&folder.path().join("a"), &FakeDrone::default(), &worse, &patient).unwrap();
    assert_eq!((journal.iterations.len(), journal.end.as_ref().unwrap().best), (3, 0));
    assert!(journal.end.unwrap().reason.contains("no clear improvement in 2"));
    let no_logs = Settings { faults: vec!["0:card-pulled".to_owned()], ..patient };
    let journal = walk(&folder.path().join("b"), &FakeDrone::default(), &worse, &no_logs).unwrap();
    assert!(journal.end.unwrap().reason.contains("check the card"));
}

#[test]
fn other_settings_another_program_and_a_used_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (drone, learner) = (FakeDrone::default(), FakeLearner::new(&RATIOS));
    let open = |settings: &Settings, origin: Origin, resume: bool| {
        ClosedLoop::open(f, settings.clone(), origin, resume, &drone, &learner)
    };
    let held = open(&settings(2), Origin::default(), false).unwrap();
    let error = format!("{:#}", open(&settings(2), Origin::default(), true).unwrap_err());
    assert!(error.contains("another program"), "{error}");
    drop(held);
    for (settings, origin, resume, words) in [
        (settings(2), Origin::default(), false, "--resume"),
        (settings(3), Origin::default(), true, "iterations"),
        (settings(2), Origin { firmware_crc32: 1, ..Origin::default() }, true, "firmware"),
        (settings(2), Origin { table_crc32: 1, ..Origin::default() }, true, "run"),
        (Settings { judging: 1, ..settings(2) }, Origin::default(), true, "judging"),
    ] {
        let error = format!("{:#}", open(&settings, origin, resume).unwrap_err());
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_journal_that_cannot_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    walk(f, &FakeDrone::default(), &FakeLearner::new(&RATIOS), &settings(6)).unwrap();
    let good: Value = serde_json::from_slice(&fs::read(f.join("loop.json")).unwrap()).unwrap();
    let refused = |harm: &dyn Fn(&mut Value), words: &str| {
        let mut bad = good.clone();
        harm(&mut bad);
        assert_ne!(bad, good, "{words}");
        fs::write(f.join("loop.json"), bad.to_string()).unwrap();
        let error = format!("{:#}", Journal::load(f).unwrap_err());
        assert!(error.contains("loop.json") && error.contains(words), "{words}: {error}");
    };
    refused(&|v| v["format"] = json!(1), "format");
    refused(&|v| v["settings"]["flights"] = json!(0), "flights");
    refused(&|v| v["settings"]["nonsense"] = json!(0), "nonsense");
    refused(&|v| v["settings"]["iterations"] = json!(1), "iterations");
    refused(&|v| v["iterations"][1]["number"] = json!(7), "should");
    refused(&|v| v["iterations"][1]["flashed"] = Value::Null, "before it was on the drone");
    refused(&|v| v["iterations"][1]["judged"] = Value::Null, "decision without flights");
    refused(&|v| v["iterations"][2]["restored"] = Value::Null, "not restored");
    refused(&|v| v["iterations"][1]["explored"] = Value::Null, "unfinished");
    refused(&|v| v["iterations"][1]["judged"][0]["seed"] = json!(3), "seeds");
    refused(&|v| v["iterations"][2]["decision"]["is_kept"] = json!(true), "does not follow");
    refused(&|v| v["iterations"][1]["judged"][0]["trouble"] = json!("lost"), "does not follow");
    refused(&|v| v["iterations"][5]["decision"] = Value::Null, "does not follow");
    refused(&|v| v["iterations"][5]["judged"] = json!([]), "no table to flash or judge");
    refused(&|v| v["iterations"][0]["made"] = json!("adapted"), "nothing to learn from");
    refused(&|v| v["end"]["best"] = json!(1), "the best");
    refused(&|v| *v = json!([]), "");

    // Torn and damaged at random: an error or a journal, never a panic.
    let text = good.to_string().into_bytes();
    let mut state = 1_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut bad = text.clone();
        let at = (state >> 33) as usize % bad.len();
        match state >> 62 {
            0 => bad.truncate(at),
            1 => bad[at] = (state >> 20) as u8,
            2 => bad[at] = b"0123456789-.e{}[],\""[(state >> 20) as usize % 19],
            _ => drop(bad.splice(at..at, *b"9999")),
        }
        fs::write(f.join("loop.json"), bad).unwrap();
        let _ = Journal::load(f);
    }
}

#[test]
fn a_comparison_is_the_same_however_often_it_was_killed() {
    let learners = |settings: &Settings| -> Box<dyn Learner> {
        Box::new(FakeLearner::new(if settings.transfer_only { &[1.2] } else { &[1.2, 1.4] }))
    };
    let wanted = || Comparison::new(settings(3), 3, 2, Origin::default());
    let run = |folder: &Path, drone: &FakeDrone| compare(folder, wanted(), true, drone, &learners, 2);
    let folder = tempfile::tempdir().unwrap();
    let drone = FakeDrone::default();
    let whole = run(folder.path(), &drone).unwrap();
    let calls = drone.calls.load(Ordering::SeqCst);
    assert!(whole.is_complete());
    let rows = whole.rows();
    let errors: Vec<f64> = rows.iter().map(|r| r.summary.get(&TRACKING_ERROR).unwrap().mean).collect();
    assert_eq!(rows.iter().map(|r| r.controller).collect::<Vec<_>>(), CONTROLLERS);
    assert!(errors.windows(2).all(|w| w[0] > w[1]), "{errors:?}");
    assert_eq!((rows[3].summary.flights, rows[3].summary.failed, rows[3].seeds_m.len()), (6, 0, 3));
    // Three seeds of three iterations: the first table and two adaptations that change something, and one that does not.
    assert_eq!((rows[1].learning_flights, rows[3].learning_flights), ([0, 0], [27, 27]));
    assert!(whole.table().contains("STEADY") && whole.table().contains('±'), "{}", whole.table());
    // One seed has no interval.
    let one = Comparison::new(settings(3), 1, 2, Origin::default());
    let single = tempfile::tempdir().unwrap();
    let one = compare(single.path(), one, true, &FakeDrone::default(), &learners, 2).unwrap();
    assert!(one.table().contains("STEADY") && !one.table().contains('±'), "{}", one.table());

    let folder = tempfile::tempdir().unwrap();
    for killed_at in (0..calls).step_by(7) {
        let killed = FakeDrone { killed_at: Some(killed_at % 11), ..FakeDrone::default() };
        if run(folder.path(), &killed).is_ok() {
            break;
        }
    }
    assert_eq!(run(folder.path(), &FakeDrone::default()).unwrap(), whole);
    let again = compare(folder.path(), wanted(), false, &drone, &learners, 2).unwrap_err();
    assert!(again.to_string().contains("--resume"));
    let other = Comparison::new(settings(3), 4, 2, Origin::default());
    assert!(compare(folder.path(), other, true, &drone, &learners, 2).is_err());

    let path = folder.path().join("compare.json");
    let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (place, value) in
        [("format", json!(7)), ("seeds", json!(0)), ("flights", json!(1e9)), ("x", json!(1))]
    {
        let mut bad = good.clone();
        bad[place] = value;
        fs::write(&path, bad.to_string()).unwrap();
        let error = format!("{:#}", Comparison::load(folder.path()).unwrap_err());
        assert!(error.contains("compare.json"), "{error}");
    }
}

/// The real firmware on the virtual Crazyflie.
mod real {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Child, Stdio};
    use std::sync::Mutex;

    use crate::firmware::elf;
    use steady::closed_loop::Flashed;
    use steady::closed_loop::real_drone::{Person, RealDrone, Request};
    use steady::closed_loop::virtual_drone::VirtualDrone;
    use steady::fly::{Program, VirtualFlight};
    use steady::report::data::Data;
    use steady_common::exploration::Exploration;

    use super::*;

    /// A second and a half along x and back to rest: the shortest flight there is something to learn from.
    fn short_task(folder: &Path) {
        let (t, d) = (3.0_f64, 0.3);
        let x = [0.0, 0.0, 0.0, 10.0 * d / t.powi(3), -15.0 * d / t.powi(4), 6.0 * d / t.powi(5), 0.0, 0.0];
        let values = std::iter::once(t).chain(x).chain([0.0; 24]);
        let line = values.map(|v| v.to_string()).collect::<Vec<_>>().join(",");
        fs::write(folder.join("short.csv"), format!("duration,x^0\n{line}\n")).unwrap();
    }

    fn kill(mut process: Child) {
        // SIGKILL: nothing can be saved.
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Makes the height loop stiffer by a fixed ratio, whatever was flown.
    struct Fixed;

    impl Learner for Fixed {
        fn first_table(&self) -> Result<GainTable> {
            Ok(GainTable { sequence: 1, ..GainTable::built_in() })
        }

        fn adapt(&self, logs: &[PathBuf], scale: f32, _: &Path) -> Result<Option<GainTable>> {
            // Logs of every drone are read and replayed alike.
            let log = steady::log::find(logs)?.logs.remove(0);
            let replay = steady::log::replay::replay(&mut steady::log::Log::open(&log)?, &[])?;
            assert!(replay.replayed > 1000 && replay.differing_bits == 0, "{replay:?}");
            assert!(scale == 1.0);
            let mut table = self.first_table()?;
            table.gains.position.p.z *= 1.2;
            Ok(Some(table))
        }
    }

    /// One iteration on the native and on the virtual drone: the same engine, journal, seeds and tables, and metrics that
    /// differ only by what the image has beyond the flight code (radio latency, log and timing): by at most a tenth.
    #[test]
    fn native_and_virtual_drones_go_through_the_same_loop() {
        let Some(elf) = elf() else { return };
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        short_task(f);
        let task = f.join("short.csv").to_string_lossy().into_owned();
        let settings = |drone: &str| Settings {
            drone: drone.to_owned(),
            task: task.clone(),
            iterations: 1,
            flights: 1,
            judging: 2,
            ..Settings::default()
        };
        let place = Path::new(env!("CARGO_BIN_EXE_steady")).with_file_name("virtual-crazyflie");
        let image = VirtualDrone {
            program: Program::at(&place, &elf),
            task: task.clone(),
            world: "paper".to_owned(),
        };
        let native = settings("native").simulated_drone(None).unwrap();
        let run = |name: &str, drone: &dyn Drone| {
            let out = f.join(name);
            let opened = ClosedLoop::open(&out, settings(name), Origin::default(), false, drone, &Fixed);
            opened.unwrap().with(2, None).run().unwrap();
            // One definition of the metrics wherever they are shown: outcome, report, summary and log.
            let report = serde_json::to_value(Data::of(&out).unwrap()).unwrap();
            let columns: Vec<&str> =
                report["metrics"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
            assert_eq!(columns, METRICS.map(|m| m.id));
            let flight = out.join("iteration-00/explore/flight-01");
            let log = steady::log::find(std::slice::from_ref(&flight)).unwrap().logs.remove(0);
            let info = steady::log::info::info(&mut steady::log::Log::open(&log).unwrap()).unwrap();
            let info = serde_json::to_string(&info).unwrap();
            let summary = fs::read_to_string(flight.join("summary.json")).unwrap();
            for metric in METRICS {
                let key = format!("\"{}\":", metric.id);
                assert!(info.contains(&key) && summary.contains(&key), "{key} {info} {summary}");
            }
            (Journal::load(&out).unwrap(), ClosedLoop::table(&out, 1).unwrap())
        };
        let (a, b) = (run("native", &*native), run("virtual", &image));
        assert_eq!(a.1, b.1);
        assert_eq!(a.0.iterations.len(), b.0.iterations.len());
        for (a, b) in a.0.iterations.iter().zip(&b.0.iterations) {
            assert_eq!((&a.made, &a.flashed, &a.restored), (&b.made, &b.flashed, &b.restored));
            assert_eq!(a.decision.as_ref().map(|d| d.is_kept), b.decision.as_ref().map(|d| d.is_kept));
            let flights = |i: &Iteration| -> Vec<_> {
                let all = i.judged.iter().flatten().chain(i.explored.iter().flatten());
                all.cloned().collect()
            };
            let (a, b) = (flights(a), flights(b));
            assert_eq!(a.len(), b.len());
            for (a, b) in a.iter().zip(&b) {
                assert_eq!((a.flight, a.seed, a.is_good()), (b.flight, b.seed, b.is_good()), "{a:?} {b:?}");
                let (x, y) = (a.metrics.unwrap(), b.metrics.unwrap());
                for metric in [&TRACKING_ERROR, &REWARD] {
                    let (x, y) = ((metric.get)(&x), (metric.get)(&y));
                    assert!((x - y).abs() <= 0.1 * y.abs(), "{}: native {x}, virtual {y}", metric.id);
                }
            }
        }
    }

    /// Gains with which the drone shakes until the guard takes them out of flight.
    struct Shaking;

    impl Learner for Shaking {
        fn first_table(&self) -> Result<GainTable> {
            Ok(GainTable { sequence: 1, ..GainTable::built_in() })
        }

        fn adapt(&self, logs: &[PathBuf], _: f32, _: &Path) -> Result<Option<GainTable>> {
            let recording = steady::log::transitions(logs)?;
            assert!(recording.steps() > 1000, "the log is there although the card was full");
            let mut table = self.first_table()?;
            table.gains.attitude.p.xy *= 3.5;
            table.gains.rate.p.xy *= 0.3;
            Ok(Some(table))
        }
    }

    #[test]
    fn a_full_card_a_guarded_landing_and_a_bad_table_end_well() {
        let Some(elf) = elf() else { return };
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        short_task(f);
        // The test's own program has nothing beside it.
        let place = Path::new(env!("CARGO_BIN_EXE_steady")).with_file_name("virtual-crazyflie");
        let drone = VirtualDrone {
            program: Program::at(&place, &elf),
            task: f.join("short.csv").to_string_lossy().into_owned(),
            world: "paper".to_owned(),
        };
        let settings = Settings {
            task: drone.task.clone(),
            iterations: 1,
            flights: 1,
            judging: 2,
            card_free_mib: Some(0),
            ..Settings::default()
        };
        let out = f.join("out");
        let mut this = ClosedLoop::open(&out, settings, Origin::default(), false, &drone, &Shaking).unwrap();
        this.run().unwrap();
        let journal = this.journal();
        let explored = &journal.iterations[0].explored.as_ref().unwrap()[0];
        assert!(explored.new_card && explored.is_good() && explored.steps > 1000, "{explored:?}");
        let bad = &journal.iterations[1];
        let guarded = bad.judged.as_ref().unwrap();
        let trouble = guarded[0].trouble.as_deref().unwrap();
        assert!(trouble.contains("gain guard"), "{guarded:?}");
        assert!(!bad.decision.as_ref().unwrap().is_kept);
        assert_eq!(bad.restored, Some(Flashed { sequence: 3, page: 2 }));
        assert_eq!(journal.end.as_ref().unwrap().best, 0);
    }

    /// Proposes a stiffer height loop.
    struct Stiffer;

    impl Learner for Stiffer {
        fn first_table(&self) -> Result<GainTable> {
            Ok(GainTable { sequence: 1, ..GainTable::built_in() })
        }

        fn adapt(&self, logs: &[PathBuf], _: f32, _: &Path) -> Result<Option<GainTable>> {
            assert!(steady::log::transitions(logs)?.steps() > 1000);
            let mut table = self.first_table()?;
            table.gains.position.p.z *= 1.2;
            Ok(Some(table))
        }
    }

    /// Does with a virtual drone what a person does with a real one: switches it on and off, flies it, and
    /// carries its card.
    struct Pilot {
        program: Program,
        folder: PathBuf,
        port: u16,
        drone: Mutex<Option<Child>>,
        asked: Mutex<Vec<String>>,
        /// Goes away when asked for this flight.
        leaves_at: Option<usize>,
    }

    impl Pilot {
        fn new(elf: &Path, folder: &Path, leaves_at: Option<usize>) -> Self {
            let program = Path::new(env!("CARGO_BIN_EXE_steady")).with_file_name("virtual-crazyflie");
            let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            Self {
                program: Program::at(&program, elf),
                folder: folder.to_owned(),
                port: free.local_addr().unwrap().port(),
                drone: Mutex::default(),
                asked: Mutex::default(),
                leaves_at,
            }
        }

        fn switch_on(&self) {
            self.switch_off();
            let mut command = self.program.command("serve");
            command.args(["--quiet", "--no-card", "--udp", &format!("127.0.0.1:{}", self.port)]);
            command.args(["--seconds", "300", "--flash"]).arg(self.folder.join(FLASH));
            command.arg("--out").arg(&self.folder).stdout(Stdio::piped());
            let mut process = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("listening"), "{line}");
            *self.drone.lock().unwrap() = Some(process);
        }

        fn switch_off(&self) {
            if let Some(process) = self.drone.lock().unwrap().take() {
                kill(process);
            }
        }

        fn fly(&self, with_noise: bool) {
            let card = self.folder.join("card");
            let number = fs::read_dir(&card).unwrap().count();
            let plan = VirtualFlight {
                task: self.folder.join("short.csv").to_string_lossy().into_owned(),
                world: "paper".to_owned(),
                seed: 1 + number as u64,
                exploration: Exploration { enabled: with_noise, std: [0.05; 4], hold: 25, seed: 1 },
                flash: Some(self.folder.join(FLASH)),
                ..VirtualFlight::default()
            };
            let flown = plan.fly(&self.program, &self.folder.join("flown")).unwrap();
            assert!(flown.success);
            fs::copy(&flown.log_files()[0], card.join(format!("log{number:02}"))).unwrap();
        }
    }

    impl Drop for Pilot {
        fn drop(&mut self) {
            self.switch_off();
        }
    }

    impl Person for &Pilot {
        fn ask(&self, request: &Request) -> Result<()> {
            let mut asked = self.asked.lock().unwrap();
            asked.push(request.to_string());
            match request {
                Request::Flash { .. } | Request::Prepare { .. } => self.switch_on(),
                Request::Fly { with_noise, .. } => {
                    self.switch_off();
                    self.fly(*with_noise);
                    let flights = asked.iter().filter(|text| text.starts_with("Fly number")).count();
                    anyhow::ensure!(Some(flights) != self.leaves_at, "gone home");
                }
                Request::NoLog { what } => anyhow::bail!("{what}"),
            }
            Ok(())
        }
    }

    #[test]
    fn a_drone_that_a_person_flies_goes_through_the_same_loop() {
        let Some(elf) = elf() else { return };
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        short_task(f);
        fs::create_dir(f.join("card")).unwrap();
        let settings = Settings { iterations: 1, flights: 1, judging: 2, ..Settings::default() };
        let go = |leaves_at| {
            let pilot = Pilot::new(&elf, f, leaves_at);
            let uri = format!("udp://127.0.0.1:{}", pilot.port).parse().unwrap();
            let out = f.join("out");
            let drone = RealDrone::new(uri, "short".to_owned(), f.join("card"), out.clone(), &pilot);
            let opened = ClosedLoop::open(&out, settings.clone(), Origin::default(), true, &drone, &Stiffer);
            let ended = opened.unwrap().with(1, None).run().map(|_| ());
            let asked = pilot.asked.lock().unwrap().clone();
            (ended, asked)
        };
        // Ended after the second flight was flown and before its log was taken.
        let (ended, asked) = go(Some(2));
        assert!(format!("{:#}", ended.unwrap_err()).contains("gone home"));
        assert!(asked.iter().any(|text| text.contains("new table goes onto udp://")), "{asked:?}");
        let (ended, asked) = go(None);
        ended.unwrap();
        let fly = |noise: &str| asked.iter().filter(|t| t.starts_with("Fly") && t.contains(noise)).count();
        // Both flights that were flown before are on the card and are not flown again.
        assert_eq!((fly("without noise"), fly("WITH exploration noise")), (2, 1), "{asked:?}");
        let journal = Journal::load(&f.join("out")).unwrap();
        assert!(journal.end.is_some() && journal.iterations.len() == 2);
        for flight in journal.iterations.iter().flat_map(|i| i.judged.iter().flatten()) {
            let metrics = flight.metrics.unwrap();
            assert!(flight.is_good() && flight.steps > 1000, "{flight:?}");
            assert!(metrics.tracking_error_m > 0.001 && metrics.tracking_error_m < 0.3, "{metrics:?}");
        }
        // Every log belongs to one flight, and the page has them all.
        let logs = steady::log::find(&[f.join("card")]).unwrap().logs;
        assert_eq!(logs.len(), 5);
        assert!(Data::of(&f.join("out")).is_ok());
    }

    /// With what the simulator's training learned.
    #[cfg(feature = "train")]
    mod trained {
        use std::process::Command;
        use std::time::Duration;

        use steady::closed_loop::journal::End;

        use super::*;

        fn steady(folder: &Path, elf: &Path, args: &[&str]) -> Command {
            let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
            command.current_dir(folder).env("STEADY_ELF", elf).env("XDG_CACHE_HOME", folder.join("cache"));
            command.args(args).stdin(Stdio::null());
            command
        }

        /// Stations that a journal says are done.
        fn stations(folder: &Path) -> usize {
            let Ok(journal) = Journal::load(folder) else { return 0 };
            let done = |i: &Iteration| {
                usize::from(i.made.is_some())
                    + usize::from(i.flashed.is_some())
                    + usize::from(i.judged.is_some())
                    + usize::from(i.explored.is_some())
            };
            journal.iterations.iter().map(done).sum::<usize>() + usize::from(journal.end.is_some())
        }

        #[test]
        fn killed_at_every_station_the_loop_ends_with_the_same_numbers() {
            let Some(elf) = elf() else { return };
            let folder = tempfile::tempdir().unwrap();
            let f = folder.path();
            short_task(f);
            let train = ["train", "--preset", "smoke", "--out", "run", "--json"];
            assert!(steady(f, &elf, &train).stdout(Stdio::null()).status().unwrap().success());
            let base = ["loop", "--task", "short.csv", "--run", "run", "--iterations", "1", "--flights", "1"];
            let args = |out| [&base[..], &["--judging", "2", "--out", out]].concat();
            assert!(steady(f, &elf, &args("whole")).status().unwrap().success());
            let whole = Journal::load(&f.join("whole")).unwrap();
            let End { best, .. } = whole.end.clone().unwrap();
            assert_eq!(whole.iterations.len(), 2);
            assert_eq!(
                whole.iterations[1].flashed,
                Some(Flashed { sequence: 2, page: 1 }),
                "the flash persists"
            );
            assert!(best <= 1);

            let resume = [&args("killed")[..], &["--resume"]].concat();
            let all = stations(&f.join("whole"));
            let mut kills = 0;
            while stations(&f.join("killed")) + 1 < all {
                let before = stations(&f.join("killed"));
                // Its flights go on without it for a while; they must not hold on to this test's output.
                let mut process =
                    steady(f, &elf, &resume).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                while stations(&f.join("killed")) == before && process.try_wait().unwrap().is_none() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Inside the next station.
                std::thread::sleep(Duration::from_millis(400));
                kill(process);
                kills += 1;
                assert!(kills < 20);
            }
            assert!(kills >= 4, "{kills}");
            assert!(steady(f, &elf, &resume).status().unwrap().success());
            let resumed = Journal::load(&f.join("killed")).unwrap();
            assert_eq!((resumed.iterations, resumed.end), (whole.iterations, whole.end));
            let tables = ["whole", "killed"].map(|name| ClosedLoop::table(&f.join(name), 1).unwrap());
            assert_eq!(tables[0], tables[1]);
            // The report's numbers too; only the commands name the folder.
            let [a, b] = ["whole", "killed"].map(|name| {
                let mut shown = serde_json::to_value(Data::of(&f.join(name)).unwrap()).unwrap();
                shown["commands"] = Value::Null;
                shown
            });
            assert_eq!(a, b);
        }
    }
}
