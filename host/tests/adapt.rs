//! What learning from flights must do: cut logs into the right transitions, move what it should and nothing
//! else, and refuse what would crash.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use steady::adapt::adapter::Adapter;
use steady::adapt::config::Config;
use steady::adapt::discovery::{Discovery, correlations};
use steady::adapt::dynamics::{Linear, STATE_LEN};
use steady::adapt::flights::{Cut, Flight};
use steady::adapt::rollout::Flown;
use steady::adapt::simulated;
use steady::adapt::worlds::Consistent;
use steady::log::Writer;
use steady::train::config::Config as TrainConfig;
use steady::train::oracle::{gains_of, theta_of};
use steady::train::trainer::Trainer;
use steady_common::exploration::Exploration;
use steady_common::gains_record::GainsRecord;
use steady_common::law::Vehicle;
use steady_common::transition::Transition as Record;
use steady_common::{GainTable, Gains};
use steady_sim::flight::{self, Task};
use steady_sim::pilot::Pilot;
use steady_sim::{Params, World};
use tch::{Kind, Tensor};

const STD: [f32; 4] = [0.05, 0.05, 0.05, 0.025];

fn paper() -> Params {
    flight::params(&World::named("paper").unwrap()).unwrap()
}

fn exploration(seed: u32) -> Exploration {
    Exploration { enabled: true, std: STD, hold: 25, seed }
}

fn table(sequence: u32) -> GainTable {
    GainTable { sequence, ..GainTable::built_in() }
}

fn records(task: Task, seed: u32) -> Vec<Record> {
    simulated::fly(&paper(), &table(1), task, &exploration(seed), u64::from(seed)).0
}

fn trained() -> Trainer {
    let changes = ["rounds=2".to_owned()];
    let mut trainer = Trainer::new(TrainConfig::preset("smoke", &changes).unwrap(), 1, 2).unwrap();
    while !trainer.is_done() {
        trainer.round();
    }
    trainer
}

#[test]
fn transitions_hold_one_draw_of_noise_each() {
    let trainer = trained();
    let flights = Flight::from_records(&records(Task::FigureEight, 3), 500);
    assert_eq!(flights.len(), 1);
    let cuttings = Cut::of(&trainer.task).cut(&flights, &Gains::nominal());
    let transitions = &cuttings.collection.transitions;
    assert!(transitions.len() > 200, "{}", transitions.len());
    // The gains that flew: the action relative to the law is the noise, drawn with this spread.
    for (i, drawn) in STD.iter().enumerate() {
        let n = transitions.len() as f32;
        let std = (transitions.iter().map(|t| t.offset[i].powi(2)).sum::<f32>() / n).sqrt();
        assert!((std / drawn - 1.0).abs() < 0.2, "{i}: {std}");
    }
    // Had the windows straddled two draws, the mean would be smaller than any drawn value now and then.
    let bits = |x: f32| (x * 1e5).round() as i64;
    let noise: Vec<i64> = flights[0]
        .steps
        .iter()
        .map(|s| {
            let mut memory = s.memory;
            let law = steady_common::law::step(
                &Gains::nominal(),
                &Vehicle::NOMINAL,
                &s.state,
                &s.reference,
                &mut memory,
                s.dt_s,
            );
            bits(s.applied.thrust - law.thrust)
        })
        .collect();
    assert!(transitions.iter().all(|t| noise.iter().any(|n| (n - bits(t.offset[0])).abs() <= 1)));
    // With other gains, what was flown is another action.
    let mut other = Gains::nominal();
    other.position.p.z *= 2.0;
    let others = Cut::of(&trainer.task).cut(&flights, &other).collection;
    assert!(
        others.transitions.iter().zip(transitions).any(|(a, b)| (a.offset[0] - b.offset[0]).abs() > 1e-3)
    );
}

#[test]
fn a_missing_record_parts_a_flight() {
    let mut all = records(Task::Hover, 1);
    let whole = Flight::from_records(&all, 10);
    all.remove(2000);
    let parted = Flight::from_records(&all, 10);
    assert_eq!((whole.len(), parted.len()), (1, 2));
    let steps = |f: &[Flight]| f.iter().map(|f| f.steps.len()).sum::<usize>();
    // The step after the gap cannot be used either: it needs the one before.
    assert_eq!(steps(&parted) + 2, steps(&whole));
}

#[test]
fn new_skills_and_gains_move_and_the_simulators_stay() {
    let trainer = trained();
    let theta = theta_of(&Gains::nominal());
    let config = Config { updates: 40, shaping: 1.0, ..Config::default() };
    let frozen = |t: &Trainer| {
        [&t.skills.phi.trainable, &t.skills.mu.trainable, &t.skills.rho.trainable].map(|n| n.flat().copy())
    };
    let before = frozen(&trainer);
    let w = trainer.critic.w().detach().copy();
    let mut adapter = Adapter::new(config, &trainer, theta, 1);
    let new = adapter.new.as_ref().unwrap();
    let nets = |new: &Discovery| {
        [&new.phi.trainable, &new.linear, &new.mu.trainable, &new.head].map(|n| n.flat().copy())
    };
    let untrained = nets(new);
    for seed in 1..=2 {
        adapter.add(Flight::from_records(&records(Task::TakeoffLand, seed), 500));
    }
    let round = adapter.round(1.0);
    let moved = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]);
    let new = adapter.new.as_ref().unwrap();
    for (i, (a, b)) in untrained.iter().zip(nets(new)).enumerate() {
        assert!(moved(a, &b) > 1e-5, "network {i} stands still");
    }
    let width = trainer.skills.width();
    let (w1, w2) = (round.value.w.narrow(0, 0, width), round.value.w.narrow(0, width, new.width()));
    assert!(moved(&w1, &w.to_kind(Kind::Double).mean_dim(1, true, Kind::Double)) > 1e-3);
    assert!(w2.abs().max().double_value(&[]) > 1e-6);
    for (i, (a, b)) in theta.iter().zip(round.step.theta).enumerate() {
        let most = if i < 12 { adapter.config.step } else { adapter.config.fast_step };
        assert!((a - b).abs() > 1e-7, "gain {i} stands still");
        assert!((a - b).abs() <= most + 1e-6, "gain {i} moves too far");
    }
    // φ°, μ° and the reward's model are as they were.
    for (a, b) in before.iter().zip(frozen(&trainer)) {
        assert_eq!(moved(a, &b), 0.0);
    }
    assert!(round.found.unwrap().correlation <= 0.05);
    // A heavier drone hangs too low: the gains that lift it grow.
    let risen = |i: usize| round.step.theta[i] - theta[i];
    assert!(risen(1) > 0.0 && risen(3) > 0.0, "{:?}", round.step.theta);
}

#[test]
fn the_gradient_of_a_thought_flight_is_its_slope() {
    let trainer = trained();
    let gains = Gains::nominal();
    let flights = Flight::from_records(&records(Task::TakeoffLand, 4), 500);
    let cuttings = Cut::of(&trainer.task).cut(&flights, &gains);
    let numbers: Vec<usize> = (0..100).collect();
    let flown = Flown::new(&cuttings, &numbers, &gains, 25);
    // Any dynamics will do: a slowly fading state that actions push.
    let mut linear = Linear { a: Box::new([[0.0; STATE_LEN]; STATE_LEN]), b: [[0.01; STATE_LEN]; 4] };
    for i in 0..STATE_LEN {
        linear.a[i][i] = 0.9;
        linear.a[i][(i + 1) % STATE_LEN] = 0.05;
        linear.b[i % 4][i] = 0.1 + 0.01 * i as f64;
    }
    let at: [f64; 24] = std::array::from_fn(|i| 0.02 * (i as f64 - 12.0));
    let (_, gradient) = flown.reward(&linear, &at).unwrap();
    for i in 0..24 {
        let moved = |by: f64| {
            let mut delta = at;
            delta[i] += by;
            flown.reward(&linear, &delta).unwrap().0
        };
        let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - gradient[i]).abs() < 1e-4 * slope.abs().max(1.0), "{i}: {slope} {}", gradient[i]);
    }
    // Gains that make the loop unstable lose the drone.
    linear.a.iter_mut().flatten().for_each(|a| *a *= 2.0);
    assert!(flown.reward(&linear, &at).is_none());
}

#[test]
fn flights_in_a_world_with_a_gap_lead_to_better_gains() {
    let trainer = trained();
    let mut theta = theta_of(&Gains::nominal());
    let judged = |theta: &[f32; 24]| -> f32 {
        let fly = |seed: u64| {
            let pilot = Pilot::mellinger(gains_of(theta), Vehicle::NOMINAL);
            flight::fly(&paper(), pilot, Task::TakeoffLand, 700 + seed, |_| {}).cumulative_reward
        };
        (0..4).map(fly).sum::<f64>() / 4.0
    };
    let before = judged(&theta);
    let mut adapter = Adapter::new(Config { updates: 20, ..Config::default() }, &trainer, theta, 1);
    for round in 0..3 {
        for seed in 0..2 {
            let table = GainTable { gains: gains_of(&theta), ..table(1) };
            let seed = 10 + 2 * round + seed;
            let flown =
                simulated::fly(&paper(), &table, Task::TakeoffLand, &exploration(seed), u64::from(seed));
            adapter.add(Flight::from_records(&flown.0, 500));
        }
        let found = adapter.round(1.0);
        assert!(found.step.gain > 0.0 && found.step.gain.is_finite(), "{:?}", found.step);
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (all, old) = (mean(&found.dynamics.held_out), mean(&found.transfer.unwrap().held_out));
        assert!(all < 1.0 && old < 1.0, "predictions are worse than none: {all} {old}");
        theta = found.step.theta;
        adapter.theta = theta;
    }
    let after = judged(&theta);
    assert!(after > 0.85 * before, "cumulative reward {before} before, {after} after");
}

#[test]
fn steps_shorten_after_a_round_that_flew_no_better() {
    let trainer = trained();
    let good = theta_of(&Gains::nominal());
    let mut bad = good;
    // A quarter of the height's stiffness: the drone hangs low.
    bad[1] -= 1.4;
    let largest = |rounds: [[f32; 24]; 2]| {
        let config = Config { discovery: false, ..Config::default() };
        let mut adapter = Adapter::new(config, &trainer, rounds[1], 1);
        for (theta, seed) in rounds.into_iter().zip(1..) {
            adapter.next_round();
            let table = GainTable { gains: gains_of(&theta), ..table(1) };
            let flown =
                simulated::fly(&paper(), &table, Task::TakeoffLand, &exploration(seed), u64::from(seed));
            adapter.add(Flight::from_records(&flown.0, 500));
        }
        let step = adapter.round(1.0).step.theta;
        step.iter().zip(rounds[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let step = Config::default().step;
    assert!((largest([bad, good]) - step).abs() < 0.01, "a whole step");
    assert!((largest([good, bad]) - 0.6 * step).abs() < 0.01, "a shorter one");
}

#[test]
fn the_gap_is_larger_where_there_is_one() {
    let error = |world: &str| {
        let params = flight::params(&World::named(world).unwrap()).unwrap();
        let (records, _) = simulated::fly(&params, &table(1), Task::FigureEight, &exploration(5), 5);
        let flights = Flight::from_records(&records, 500);
        let nominal = flight::params(&World::named("nominal").unwrap()).unwrap();
        simulated::prediction_error(&nominal, &flights, 25)
    };
    let (none, paper) = (error("nominal"), error("paper"));
    assert!(paper > 3.0 * none, "{none} without a gap, {paper} with one");
}

#[test]
fn steps_that_no_flight_has_are_left_out() {
    let mut all = records(Task::Hover, 1);
    all[2000].reference.velocity.x = f32::NAN;
    all[3000].reference.position.y = 1e30;
    let parted = Flight::from_records(&all, 10);
    assert_eq!(parted.len(), 3);
    let trainer = trained();
    let config = Config { updates: 5, ..Config::default() };
    let mut adapter = Adapter::new(config, &trainer, theta_of(&Gains::nominal()), 1);
    adapter.add(parted);
    assert!(adapter.round(1.0).step.gain.is_finite());
}

#[test]
fn correlations_are_normalised() {
    let x = Tensor::from_slice(&[1.0_f32, -1.0, 2.0, -2.0]).view([4, 1]);
    let y = Tensor::cat(&[&x * 7.0, x.abs()], 1);
    let c = Vec::<f32>::try_from(correlations(&x, &y).reshape([-1])).unwrap();
    assert!((c[0] - 1.0).abs() < 1e-6 && c[1].abs() < 1e-6, "{c:?}");
}

#[test]
fn worlds_refuse_what_would_crash_and_pass_what_would_not() {
    let flight = Flight::from_records(&records(Task::Hover, 2), 500).remove(0);
    let nominal = Gains::nominal();
    let worlds = Consistent::with(&flight, &nominal, &Vehicle::NOMINAL, 2);
    let same = worlds.judge(&flight, &nominal, &nominal, &Vehicle::NOMINAL);
    assert_eq!((same.refused, same.present), (None, same.new));
    let mut bad = nominal;
    bad.attitude.p.xy *= 4.0;
    bad.rate.p.xy /= 8.0;
    bad.rate.d.xy /= 16.0;
    assert!(bad.check().is_ok(), "inside the bounds, and still no good");
    let refused = worlds.judge(&flight, &nominal, &bad, &Vehicle::NOMINAL);
    assert!(refused.refused.is_some(), "{refused:?}");
}

fn write_log(path: &Path, records: &[Record]) {
    let mut log = Writer::new(Vec::new()).unwrap();
    log.gains(&GainsRecord { time_us: 0, try_out: false, table: table(1) }).unwrap();
    records.iter().for_each(|r| log.step(r).unwrap());
    std::fs::write(path, log.finish().unwrap()).unwrap();
}

#[test]
fn from_a_run_and_a_log_to_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let steady = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_steady")).args(args).current_dir(folder.path()).output();
        let out = out.unwrap();
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let (code, _, error) =
        steady(&["train", "--preset", "smoke", "--set", "rounds=2", "--out", "run", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    write_log(&at("log00"), &records(Task::TakeoffLand, 1));
    let adapt = ["adapt", "--run", "run", "--logs", "log00", "--out", "new", "--json", "--set", "updates=20"];
    let (code, out, error) = steady(&adapt);
    assert_eq!(code, Some(0), "{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["flights"], 1);
    assert!(report["replayed"].as_u64().unwrap() > 5000, "{out}");
    let page = std::fs::read(at("new/gains.bin")).unwrap();
    let new = GainTable::decode(&page).unwrap();
    assert_eq!(new.sequence, 2);
    assert!(new.gains.check().is_ok() && new.gains != Gains::nominal());
    let events = |folder: &str| {
        let files = std::fs::read_dir(at(folder)).unwrap().flatten();
        files.filter(|f| f.file_name().to_string_lossy().starts_with("events.out.tfevents")).count()
    };
    assert_eq!(events("new"), 1);

    // Several seeds have folders of their own; the same seed gives the same table; what is done stays done.
    let several = |extra: &[&str]| {
        let all = [
            "adapt",
            "--run",
            "run",
            "--logs",
            "log00",
            "--out",
            "all",
            "--seeds",
            "2",
            "--set",
            "updates=20",
        ];
        steady(&[&all, extra].concat())
    };
    let (code, out, error) = several(&[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("2 seeds: believed to bring"), "{out}");
    assert_eq!(std::fs::read(at("all/seed1/gains.bin")).unwrap(), page);
    assert_ne!(std::fs::read(at("all/seed2/gains.bin")).unwrap(), page);
    std::fs::remove_dir_all(at("all/seed2")).unwrap();
    let (code, _, error) = several(&["--resume"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("seed1: done already") && !error.contains("seed2"), "{error}");
    assert_eq!((events("all/seed1"), events("all/seed2")), (1, 1));

    // Another firmware's flight: a gap is seen and a bounded table proposed.
    if let Some(log) = steady_test_support::recording("log27") {
        let log = log.to_str().unwrap();
        let (code, out, error) =
            steady(&["adapt", "--run", "run", "--logs", log, "--out", "other", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&report["flights"], &report["replayed"]), (&1.into(), &0.into()));
        assert!(report["steps"].as_u64().unwrap() > 3500, "{out}");
        assert!(report["prediction"]["simulator"].as_f64().unwrap() > 0.0);
        let new = GainTable::decode(&std::fs::read(at("other/gains.bin")).unwrap()).unwrap();
        assert!(new.gains.check().is_ok());
    }

    // A log that the law does not reproduce is not learned from.
    let mut forged = records(Task::TakeoffLand, 1);
    forged[3000].action.thrust += 0.01;
    write_log(&at("log01"), &forged);
    let (code, _, error) = steady(&["adapt", "--run", "run", "--logs", "log01", "--out", "no"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("log01") && error.contains("steady log replay"), "{error}");
    // Nor is one without a flight, and nothing is written then.
    write_log(&at("log02"), &records(Task::TakeoffLand, 1)[..50]);
    let (code, _, error) = steady(&["adapt", "--run", "run", "--logs", "log02", "--out", "no"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("nothing to learn from") && !at("no").exists(), "{error}");
    let (_, _, error) =
        steady(&["adapt", "--run", "run", "--logs", "log00", "--out", "no", "--set", "stop=1"]);
    assert!(error.contains("did you mean `step`"), "{error}");
}
