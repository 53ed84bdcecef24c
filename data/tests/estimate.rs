//! Logs with the estimator's inputs compute the estimate again, and show what is wrong with them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::io::Cursor;

use steady_common::inputs_record::{IMU_EVENT, MOCAP_EVENT};
use steady_common::usdlog::{Header, Layout, RECORD_CRC, Scanner};
use steady_data::log::Log;
use steady_data::log::check::check;
use steady_data::log::replay::{Replay, replay};
use steady_native::{Plan, fly};
use steady_sim::{PlantParams, Task, World};

/// A log of a flight with exploration, drag and a delay told to the estimator.
fn logged(pose: bool) -> Vec<u8> {
    let mut world = World::named("paper").unwrap();
    world.mocap.pose = pose;
    let plan = Plan { drag_per_s: 0.2, delay_ms: 12, log_inputs: true, ..Plan::new(Task::FigureEight) };
    let flown = fly(&PlantParams::new(&world).unwrap(), &plan, |_| {});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log00");
    flown.write_log(&path).unwrap();
    std::fs::read(path).unwrap()
}

fn replayed(log: &[u8]) -> Replay {
    replay(&mut Log::new("log".to_owned(), Cursor::new(log.to_vec())).unwrap(), &[]).unwrap()
}

/// Where the records of an event are: first byte and size.
fn records(log: &[u8], event: &str) -> Vec<(usize, usize)> {
    let header = Header::parse(log).unwrap();
    let index = header.events().position(|e| e.name == event).unwrap();
    let mut found = Vec::new();
    let scanner = Scanner::new(Layout::new(&header).unwrap(), &log[..header.length()]);
    let length = header.length();
    scanner.finish(&log[length..], |record| {
        if record.event == index {
            found.push((usize::try_from(record.offset).unwrap(), record.bytes.len()));
        }
    });
    found
}

#[test]
fn a_flights_estimate_is_computed_again_bit_for_bit() {
    for pose in [false, true] {
        let log = logged(pose);
        let replay = replayed(&log);
        println!("{replay}");
        assert!(replay.is_exact(), "{replay}");
        let estimates = replay.estimates.unwrap();
        // All but the ten milliseconds before the first snapshot and the last samples on their way.
        assert!(estimates.compared + 12 >= replay.steps && estimates.compared > 5000, "{estimates}");
        assert!(estimates.snapshots_compared > 10 && estimates.gaps == 0 && estimates.frames > 500);
        let mut log = Log::new("log".to_owned(), Cursor::new(log)).unwrap();
        assert_eq!(check(&mut log).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_flipped_bit_in_an_input_is_found() {
    let whole = logged(false);
    for event in [IMU_EVENT, MOCAP_EVENT] {
        let all = records(&whole, event);
        let (at, size) = all[all.len() / 2];
        // In the third value, behind id and time: force along z, or the position.
        let place = at + 10 + 2 * 4 + 2;
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        let lost = replayed(&damaged).estimates.unwrap();
        assert!(lost.gaps == 1 && lost.is_exact(), "the record proves itself wrong and is left out: {lost}");
        assert!(lost.without_inputs > 50 && lost.without_inputs < 520, "until the next snapshot: {lost}");

        // With a checksum that fits, only the replay can tell.
        let crc = RECORD_CRC.checksum(&damaged[at..at + size - 2]).to_le_bytes();
        damaged[at + size - 2..at + size].copy_from_slice(&crc);
        let wrong = replayed(&damaged).estimates.unwrap();
        assert!(wrong.gaps == 0 && !wrong.is_exact(), "{wrong}");
        assert!(wrong.differing_bits > 0 && wrong.first_difference.is_some(), "{wrong}");
        assert!(wrong.differing_snapshot_bits > 0, "{wrong}");
        let mut log = Log::new("log".to_owned(), Cursor::new(damaged)).unwrap();
        let problems = check(&mut log).unwrap().problems.join("\n");
        assert!(problems.contains("of the estimate"), "{problems}");
    }
}

#[test]
fn logs_without_inputs_say_nothing_of_the_estimate() {
    let flown =
        fly(&PlantParams::new(&World::named("nominal").unwrap()).unwrap(), &Plan::new(Task::Hover), |_| {});
    assert!(flown.inputs.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log00");
    flown.write_log(&path).unwrap();
    let replay = replayed(&std::fs::read(path).unwrap());
    assert!(replay.is_exact() && replay.estimates.is_none());
}
