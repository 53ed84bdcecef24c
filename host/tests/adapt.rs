//! What learning from flights must do: cut logs into the right transitions, move what it should and nothing
//! else, and refuse what would crash.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use steady::adapt::adapter::Adapter;
use steady::adapt::config::{Config, Model};
use steady::adapt::discovery::{Discovery, correlations};
use steady::adapt::dynamics::{Linear, STATE_LEN};
use steady::adapt::flights::{FlightData, FlightTransition, Windowing};
use steady::adapt::rollout::Rollout;
use steady::adapt::worlds::{ConsistentWorlds, prediction_error};
use steady::train::config::Config as TrainConfig;
use steady::train::oracle::{gains_of, theta_of};
use steady::train::trainer::Trainer;
use steady_common::exploration::Exploration;
use steady_common::gains_record::GainsRecord;
use steady_common::law::Vehicle;
use steady_common::transition::Transition as Record;
use steady_common::{GainTable, Gains};
use steady_native::log::Writer;
use steady_native::{Flown, Plan, Until};
use steady_sim::plant::PlantParams;
use steady_sim::{Task, World};
use tch::Tensor;

const STD: [f32; 4] = [0.05, 0.05, 0.05, 0.025];

fn exploration(seed: u32) -> Exploration {
    Exploration { enabled: true, std: STD, hold: 25, seed }
}

fn table(sequence: u32) -> GainTable {
    GainTable { sequence, ..GainTable::built_in() }
}

fn fly(world: &str, task: Task, gains: Gains, seed: u32) -> Flown {
    let world = PlantParams::new(&World::named(world).unwrap()).unwrap();
    let table = GainTable { gains, ..table(1) };
    let plan = Plan { table, exploration: exploration(seed), seed: u64::from(seed), ..Plan::new(task) };
    steady_native::fly(&world, &plan, |_| {})
}

/// Log records of an exploring flight of the native drone in world `paper`.
fn records(task: Task, seed: u32) -> Vec<Record> {
    fly("paper", task, Gains::nominal(), seed).records
}

fn flights(task: Task, seed: u32) -> Vec<FlightData> {
    FlightData::from_records(&records(task, seed), 500)
}

/// What skills predict of the next state, without the simulator.
fn skills() -> Config {
    Config { model: Model::Skills, ..Config::default() }
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
    let flights = flights(Task::FigureEight, 3);
    assert_eq!(flights.len(), 1);
    let transitions = Windowing::of(&trainer.task).transitions(&flights, &Gains::nominal());
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
    let is_one_draw = |t: &&FlightTransition| noise.iter().any(|n| (n - bits(t.offset[0])).abs() <= 1);
    let straddling = transitions.len() - transitions.iter().filter(is_one_draw).count();
    // Only where the noise begins after take-off and ends before landing.
    assert!(straddling <= 2, "{straddling} of {}", transitions.len());
    // With other gains, what was flown is another action.
    let mut other = Gains::nominal();
    other.position.p.z *= 2.0;
    let others = Windowing::of(&trainer.task).transitions(&flights, &other);
    assert!(others.iter().zip(&transitions).any(|(a, b)| (a.offset[0] - b.offset[0]).abs() > 1e-3));
}

#[test]
fn a_missing_record_parts_a_flight() {
    let mut all = records(Task::Hover, 1);
    let whole = FlightData::from_records(&all, 10);
    all.remove(2000);
    let parted = FlightData::from_records(&all, 10);
    assert_eq!((whole.len(), parted.len()), (1, 2));
    let steps = |f: &[FlightData]| f.iter().map(|f| f.steps.len()).sum::<usize>();
    // The step after the gap cannot be used either: it needs the one before.
    assert_eq!(steps(&parted) + 2, steps(&whole));
}

#[test]
fn new_skills_and_gains_move_and_the_simulators_stay() {
    let trainer = trained();
    let theta = theta_of(&Gains::nominal());
    let config = Config { updates: 40, ..skills() };
    let frozen = |t: &Trainer| {
        [&t.skills.phi.trainable, &t.skills.mu.trainable, &t.skills.rho.trainable].map(|n| n.flat().copy())
    };
    let before = frozen(&trainer);
    let mut adapter = Adapter::new(config, &trainer, theta, 1);
    let new = adapter.new.as_ref().unwrap();
    let nets =
        |new: &Discovery| [&new.phi.trainable, &new.linear, &new.mu.trainable].map(|n| n.flat().copy());
    let untrained = nets(new);
    for seed in 1..=2 {
        adapter.add(0, flights(Task::TakeoffLand, seed));
    }
    let region = adapter.config.trust_region(1.0);
    let learned = adapter.learn(&region);
    let moved = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]);
    let new = adapter.new.as_ref().unwrap();
    for (i, (a, b)) in untrained.iter().zip(nets(new)).enumerate() {
        assert!(moved(a, &b) > 1e-5, "network {i} stands still");
    }
    for (i, ((a, b), most)) in theta.iter().zip(learned.step.theta).zip(region.bounds()).enumerate() {
        assert!((a - b).abs() > 1e-7, "gain {i} stands still");
        assert!(f64::from((a - b).abs()) <= most + 1e-6, "gain {i} moves too far");
    }
    // φ°, μ° and the reward's model are as they were.
    for (a, b) in before.iter().zip(frozen(&trainer)) {
        assert_eq!(moved(a, &b), 0.0);
    }
    assert!(learned.found.unwrap().correlation <= 0.05);
    // A heavier drone hangs too low: the gains that lift it grow.
    let risen = |i: usize| learned.step.theta[i] - theta[i];
    assert!(risen(1) > 0.0 && risen(3) > 0.0, "{:?}", learned.step.theta);
}

#[test]
fn the_gradient_of_a_rollout_is_its_slope() {
    let trainer = trained();
    let gains = Gains::nominal();
    let transitions = Windowing::of(&trainer.task).transitions(&flights(Task::TakeoffLand, 4), &gains);
    let first: Vec<&FlightTransition> = transitions.iter().take(100).collect();
    let rollout = Rollout::new(&first, &gains, 25);
    // Any stable dynamics will do: a slowly fading state that actions push a little.
    let mut linear = Linear { a: Box::new([[0.0; STATE_LEN]; STATE_LEN]), b: [[0.001; STATE_LEN]; 4] };
    for i in 0..STATE_LEN {
        linear.a[i][i] = 0.9;
        linear.a[i][(i + 1) % STATE_LEN] = 0.05;
        linear.b[i % 4][i] = 0.01 + 0.001 * i as f64;
    }
    let at: [f64; 24] = std::array::from_fn(|i| 0.02 * (i as f64 - 12.0));
    let (_, gradient) = rollout.reward(&linear, &at).unwrap();
    for i in 0..24 {
        let moved = |by: f64| {
            let mut delta = at;
            delta[i] += by;
            rollout.reward(&linear, &delta).unwrap().0
        };
        let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - gradient[i]).abs() < 1e-4 * slope.abs().max(1.0), "{i}: {slope} {}", gradient[i]);
    }
    // With an unstable loop the rollout diverges.
    linear.a.iter_mut().flatten().for_each(|a| *a *= 2.0);
    assert!(rollout.reward(&linear, &at).is_none());
}

#[test]
fn flights_in_a_world_with_a_gap_lead_to_better_gains() {
    let trainer = trained();
    let mut theta = theta_of(&Gains::nominal());
    let world = PlantParams::new(&World::named("paper").unwrap()).unwrap();
    let judged = |theta: &[f32; 24]| -> f64 {
        let reward = |seed: u64| {
            let table = GainTable { gains: gains_of(theta), ..table(1) };
            let plan =
                Plan { table, seed: 700 + seed, until: Until::TaskEnd, ..Plan::new(Task::TakeoffLand) };
            steady_native::fly(&world, &plan, |_| {}).metrics.unwrap().cumulative_reward
        };
        (0..4).map(reward).sum::<f64>() / 4.0
    };
    let before = judged(&theta);
    let mut flown: Vec<Vec<FlightData>> = Vec::new();
    for iteration in 0..3 {
        let fly = |seed| {
            let gains = gains_of(&theta);
            FlightData::from_records(&fly("paper", Task::TakeoffLand, gains, seed).records, 500)
        };
        flown.push((0..2).flat_map(|seed| fly(10 + 2 * iteration + seed)).collect());
        let config = Config { updates: 20, ..skills() };
        let region = config.trust_region(1.0);
        let mut adapter = Adapter::new(config, &trainer, theta, 1);
        for (number, flights) in flown.iter().enumerate() {
            adapter.add(number, flights.clone());
        }
        let found = adapter.learn(&region);
        assert!(found.step.change > 0.0 && found.step.change.is_finite(), "{:?}", found.step);
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (all, old) = (mean(&found.dynamics.held_out), mean(&found.transfer.unwrap().held_out));
        // This short a training has skills that alone predict worse than "nothing moves".
        assert!(all < 1.0 && all < old, "all skills {all}, the simulator's {old}");
        theta = found.step.theta;
    }
    let after = judged(&theta);
    assert!(after > 0.85 * before, "cumulative reward {before} before, {after} after");
}

#[test]
fn a_smaller_scale_takes_a_smaller_step() {
    let trainer = trained();
    let theta = theta_of(&Gains::nominal());
    let flights = flights(Task::TakeoffLand, 1);
    let largest = |scale: f32| {
        let config = Config { discovery: false, ..skills() };
        let region = config.trust_region(scale);
        let mut adapter = Adapter::new(config, &trainer, theta, 1);
        adapter.add(0, flights.clone());
        let step = adapter.learn(&region).step.theta;
        step.iter().zip(theta).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let step = Config::default().step;
    assert!((largest(1.0) - step).abs() < 0.01, "a whole step");
    assert!((largest(0.25) - 0.25 * step).abs() < 0.01, "a quarter of it");
}

#[test]
fn the_gap_is_larger_where_there_is_one() {
    let error = |world: &str| {
        let records = fly(world, Task::FigureEight, Gains::nominal(), 5).records;
        let nominal = World::named("nominal").unwrap().compile_for_control().unwrap();
        prediction_error(&nominal, &FlightData::from_records(&records, 500), 25)
    };
    let (none, paper) = (error("nominal"), error("paper"));
    assert!(paper > 3.0 * none, "{none} without a gap, {paper} with one");
}

#[test]
fn implausible_steps_are_left_out() {
    let mut all = records(Task::Hover, 1);
    all[2000].reference.velocity.x = f32::NAN;
    all[3000].reference.position.y = 1e30;
    let parted = FlightData::from_records(&all, 10);
    assert_eq!(parted.len(), 3);
    let trainer = trained();
    let config = Config { updates: 5, ..skills() };
    let mut adapter = Adapter::new(config, &trainer, theta_of(&Gains::nominal()), 1);
    adapter.add(0, parted);
    let region = adapter.config.trust_region(1.0);
    assert!(adapter.learn(&region).step.change.is_finite());
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
    let flight = flights(Task::Hover, 2).remove(0);
    let nominal = Gains::nominal();
    let worlds = ConsistentWorlds::find(&flight, &table(1), 2).unwrap();
    let same = worlds.check(&nominal).unwrap();
    assert_eq!((same.refused, same.present_reward), (None, same.new_reward));
    assert!(same.present_reward.is_some());
    assert_eq!(same.worlds.len(), 6);
    let mut bad = nominal;
    bad.attitude.p.xy *= 4.0;
    bad.rate.p.xy /= 8.0;
    bad.rate.d.xy /= 16.0;
    assert!(bad.check().is_ok(), "inside the bounds, and still no good");
    let refused = worlds.check(&bad).unwrap();
    assert!(refused.refused.is_some(), "{refused:?}");
    // No part of a step to there is taken that crashes; the gains in between may be good.
    let accepted = worlds.accept(&theta_of(&nominal), &theta_of(&bad)).unwrap();
    assert!(accepted.part < 1.0 && accepted.check.refused.is_some(), "{accepted:?}");
}

fn write_log(path: &Path, records: &[Record]) {
    let mut log = Writer::new(Vec::new()).unwrap();
    log.gains(&GainsRecord { time_us: 0, try_out: false, table: table(1) }).unwrap();
    records.iter().for_each(|r| log.step(r).unwrap());
    std::fs::write(path, log.finish().unwrap()).unwrap();
}

/// A search of a few flights.
const QUICK: &str = "search_steps=1";

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
    let adapt = ["adapt", "--run", "run", "--logs", "log00", "--out", "new", "--json", "--set", QUICK];
    let (code, out, error) = steady(&adapt);
    assert_eq!(code, Some(0), "{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["flights"], &report["model"]), (&1.into(), &"simulator".into()));
    // Up and down does not tell how late motion capture is.
    assert!(report["latency_s"].is_null() && !report["lacking"].is_null(), "{out}");
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
        let all =
            ["adapt", "--run", "run", "--logs", "log00", "--out", "all", "--seeds", "2", "--set", QUICK];
        steady(&[&all, extra].concat())
    };
    let (code, out, error) = several(&[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("2 seeds: predicted reward change"), "{out}");
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
        assert_eq!(report["model"], "skills", "it has no positions");
        assert!(report["steps"].as_u64().unwrap() > 3500, "{out}");
        assert!(report["prediction"]["simulator"].as_f64().unwrap() > 0.0);
        let new = GainTable::decode(&std::fs::read(at("other/gains.bin")).unwrap()).unwrap();
        assert!(new.gains.check().is_ok());
    }

    // Recorded flights with motion capture, of the official firmware too.
    if let Some(folder) = steady_test_support::recording("real-flights") {
        let flight = folder.join("B5_helix_fast_mell_rep1.csv.gz");
        let (code, out, error) = steady(&[
            "adapt",
            "--run",
            "run",
            "--logs",
            flight.to_str().unwrap(),
            "--out",
            "real",
            "--json",
            "--set",
            QUICK,
        ]);
        assert_eq!(code, Some(0), "{error}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&report["flights"], &report["replayed"]), (&1.into(), &0.into()));
        assert!(report["steps"].as_u64().unwrap() > 3000, "{out}");
        let new = GainTable::decode(&std::fs::read(at("real/gains.bin")).unwrap()).unwrap();
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
    let (code, _, error) =
        steady(&["adapt", "--run", "run", "--logs", "log00", "--out", "no", "--set", "stop=1"]);
    assert!(code == Some(2) && error.contains("did you mean `step`"), "{error}");
    // The setting's name in older loops.
    let old = ["adapt", "--run", "run", "--logs", "log02", "--out", "no", "--set", "still=3"];
    assert!(steady(&old).2.contains("nothing to learn from"));
}
