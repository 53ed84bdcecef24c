//! Logs: the drone's own, the official ones, damaged and torn ones; what is read, and what is said.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use steady::log::export::{Format, export};
use steady::log::info::info;
use steady::log::replay::replay;
use steady::log::{Link, Log, LogError, transitions};
use steady_common::gains_record::GainsRecord;
use steady_common::law::{self, Memory};
use steady_common::transition::{Flags, RECORD_SIZE, Transition};
use steady_common::{Action, GainTable, Quat, State, Trajectory, Vec3};
use steady_native::log::Writer;
use steady_test_support::recording;

/// The law on a wobbling figure eight, as the drone would log it.
struct Flyer {
    memory: Memory,
    gains: GainsRecord,
    sequence: u32,
}

impl Flyer {
    fn new() -> Self {
        let gains = GainsRecord { time_us: 0, table: GainTable::built_in(), try_out: false };
        Self { memory: Memory::default(), gains, sequence: 100 }
    }

    fn step(&mut self, flying: bool) -> Transition {
        let t = self.sequence as f32 * 0.002;
        let wobble = |phase: f32| 0.05 * (7.0 * t + phase).sin();
        let reference = Trajectory::FIGURE_EIGHT.at(t);
        let state = State {
            position: reference.position + Vec3::new(wobble(0.0), wobble(1.0), wobble(2.0)),
            velocity: reference.velocity + Vec3::new(wobble(3.0), wobble(4.0), wobble(5.0)),
            attitude: Quat::from_euler(Vec3::new(wobble(6.0), wobble(7.0), wobble(8.0))),
            rates: Vec3::new(wobble(9.0), wobble(10.0), wobble(11.0)) * 10.0,
        };
        let mut record = Transition {
            time_us: 2000 * u64::from(self.sequence),
            sequence: self.sequence,
            state,
            reference,
            dt_s: 0.002,
            pwm: [1, 2, 40_000, 65_535],
            battery_v: 3.9,
            table: self.gains.table.sequence,
            controller: 6,
            ..Transition::default()
        };
        record.set_law_memory(&self.memory);
        let table = &self.gains.table;
        record.action = law::step(&table.gains, &table.vehicle, &state, &reference, &mut self.memory, 0.002);
        record.applied = Action { roll: record.action.roll + 0.01, ..record.action };
        record.flags = record
            .flags
            .with(Flags::LAW, true)
            .with(Flags::MOTORS_ON, true)
            .with(Flags::NOISE, true)
            .with(Flags::FLYING, flying)
            .with(Flags::TRY_OUT, self.gains.try_out);
        self.sequence += 1;
        record
    }
}

fn table(sequence: u32, factor: f32) -> GainTable {
    let mut table = GainTable { sequence, ..GainTable::built_in() };
    table.gains.position.p.xy *= factor;
    table
}

/// 100 steps on the ground, 400 in the air with table 1, then 300 with table 2, 50 on the ground.
fn two_tables() -> Vec<u8> {
    let mut flyer = Flyer::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    flyer.gains.table = table(1, 1.1);
    writer.gains(&flyer.gains).unwrap();
    for n in 0..850 {
        if n == 500 {
            flyer.gains = GainsRecord { time_us: 2000 * 600, table: table(2, 0.9), try_out: false };
            writer.gains(&flyer.gains).unwrap();
        }
        writer.step(&flyer.step((100..800).contains(&n))).unwrap();
    }
    writer.finish().unwrap()
}

fn log(bytes: &[u8]) -> Log {
    Log::new("log00".to_owned(), Cursor::new(bytes.to_vec())).unwrap()
}

/// Where the first record of a control step begins.
fn first_step(bytes: &[u8]) -> usize {
    let mut offset = None;
    log(bytes)
        .scan(|r| {
            if r.bytes.len() == RECORD_SIZE {
                offset.get_or_insert(r.offset as usize);
            }
        })
        .unwrap();
    offset.unwrap()
}

#[test]
fn steps_come_in_segments_with_their_gains() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log00");
    fs::write(&path, two_tables()).unwrap();
    let recording = transitions(&[folder.path().into()]).unwrap();
    let (one, two) = (Some(table(1, 1.1)), Some(table(2, 0.9)));
    let found: Vec<_> =
        recording.segments.iter().map(|s| (s.link, s.flight, s.gains, s.steps.len())).collect();
    let expected = [
        (Link::First, None, one, 100),
        (Link::Next, Some(0), one, 400),
        (Link::Next, Some(0), two, 300),
        (Link::Next, None, two, 50),
    ];
    assert_eq!((found, recording.steps()), (expected.to_vec(), 850));
    assert_eq!(recording.segments[1].before, recording.segments[0].steps.last().copied());
    for flight in recording.segments.iter().filter(|s| s.flight.is_some()) {
        assert_eq!(flight.pairs().count(), flight.steps.len(), "every step has the one before it");
        assert!(flight.pairs().all(|(before, now)| now.follows(before) && now.observation(before).is_some()));
    }
}

/// The log of released firmware that `common/tests/formats.rs` describes.
fn released_log() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../common/tests/data/log_1")).unwrap()
}

#[test]
fn a_log_of_released_firmware_reads_and_replays() {
    let bytes = released_log();
    let info = info(&mut log(&bytes)).unwrap();
    let steps = info.steps.unwrap();
    assert_eq!((steps.found, steps.lost, steps.flights.len(), info.ending), (761, 0, 1, "complete"));
    let replayed = replay(&mut log(&bytes), &[]).unwrap();
    assert!(replayed.is_exact() && replayed.replayed == 729, "{replayed:?}");
    let verdict = steady::log::check::check(&mut log(&bytes)).unwrap();
    assert!(verdict.problems.is_empty(), "{verdict:?}");
}

#[test]
fn a_log_without_a_required_field_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = released_log();
    let at = bytes.windows(9).position(|w| w == b"steady.dt").unwrap();
    bytes[at..at + 9].copy_from_slice(b"steady.dT");
    let path = folder.path().join("log00");
    fs::write(&path, &bytes).unwrap();
    let error = transitions(&[path]).unwrap_err().to_string();
    assert!(
        error.contains("log00: event `transition`: the required field `steady.dt` is missing"),
        "{error}"
    );
    // The raw columns are still there.
    let tables = export(&mut log(&bytes), Format::Csv, folder.path(), "log00", false).unwrap();
    assert!(fs::read_to_string(&tables[0]).unwrap().contains("steady.dT"));
    let (_, text) = steady(folder.path(), &["log", "replay", "log00"], 1);
    assert_eq!(text.matches("is missing").count(), 1, "{text}");
    let (_, text) = steady(folder.path(), &["log", "info", "log09"], 2);
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}

#[test]
fn lost_and_damaged_steps_split_segments() {
    let bytes = two_tables();
    let at = first_step(&bytes);
    let mut damaged = bytes.clone();
    damaged[at + 200 * RECORD_SIZE + 50] ^= 4;
    damaged.drain(at + 300 * RECORD_SIZE..at + 303 * RECORD_SIZE);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log00"), &damaged).unwrap();
    let recording = transitions(&[folder.path().join("log00")]).unwrap();
    let flights = recording.segments.iter().filter(|s| s.flight == Some(0));
    let found: Vec<_> = flights.map(|s| (s.link, s.steps.len())).collect();
    assert_eq!(
        found,
        [(Link::Next, 100), (Link::Gap { lost: 1 }, 99), (Link::Gap { lost: 3 }, 197), (Link::Next, 300)]
    );
    let info = info(&mut log(&damaged)).unwrap();
    let steps = info.steps.as_ref().unwrap();
    assert_eq!((steps.found, steps.lost, steps.gap_count), (846, 4, 2));
    assert_eq!((steps.gaps[0].lost, steps.gaps[0].sequence), (1, 301));
    assert_eq!((info.damaged_places, info.ending), (1, "wrong checksum"));
    let text = info.to_string();
    assert!(text.contains("3 steps missing before step 403"), "{text}");
    // Missing steps do not end a flight.
    assert_eq!((steps.flights.len(), steps.flights[0].steps, steps.flights[0].lost), (1, 696, 4));
    // Only the steps after the gaps cannot be replayed.
    let replayed = replay(&mut log(&damaged), &[]).unwrap();
    assert_eq!((replayed.replayed, replayed.without_predecessor), (844, 2));
    assert_eq!((replayed.differing_bits, replayed.differing_memory_bits), (0, 0));
}

#[test]
fn a_drone_that_starts_again_splits_segments() {
    let mut flyer = Flyer::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    for n in 0..60 {
        if n == 40 {
            flyer = Flyer { sequence: 1, ..Flyer::new() };
        }
        writer.step(&flyer.step(true)).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let info = info(&mut log(&bytes)).unwrap();
    let steps = info.steps.unwrap();
    assert_eq!((steps.restarts_s.len(), steps.lost, steps.flights.len()), (1, 0, 2));
    // The built-in gains need no record.
    let replayed = replay(&mut log(&bytes), &[]).unwrap();
    assert_eq!((replayed.replayed, replayed.differing_bits, replayed.memories_compared), (60, 0, 58));
}

#[test]
fn a_replay_finds_every_bit_that_is_not_the_laws() {
    let bytes = two_tables();
    let exact = replay(&mut log(&bytes), &[]).unwrap();
    assert!(exact.is_exact(), "{exact:?}");
    assert_eq!((exact.replayed, exact.memories_compared), (850, 849));

    // One bit of one output, with the record's checksum made right again.
    let at = first_step(&bytes) + 300 * RECORD_SIZE;
    let tampered = |change: fn(&mut Transition)| {
        let mut bytes = bytes.clone();
        let record = &mut bytes[at..at + RECORD_SIZE];
        let mut step = Transition::decode(record).unwrap();
        change(&mut step);
        record.copy_from_slice(&step.encode());
        replay(&mut log(&bytes), &[]).unwrap()
    };
    let output = tampered(|t| t.action.pitch = f32::from_bits(t.action.pitch.to_bits() ^ 1));
    assert_eq!((output.differing_bits, output.differing_steps, output.first_difference), (1, 1, Some(400)));
    assert!(!output.is_exact());
    let memory = tampered(|t| t.integral.position.z = f32::from_bits(t.integral.position.z.to_bits() ^ 2));
    assert!(memory.differing_memory_bits >= 1 && !memory.is_exact(), "{memory:?}");
    let input = tampered(|t| t.state.velocity.x += 0.25);
    assert!(input.differing_bits > 0, "{input:?}");

    // Gains that the log does not hold are asked for, and taken when given.
    let mut flyer = Flyer::new();
    flyer.gains.table = table(7, 1.2);
    let mut writer = Writer::new(Vec::new()).unwrap();
    for _ in 0..30 {
        writer.step(&flyer.step(true)).unwrap();
    }
    let bytes = writer.finish().unwrap();
    assert_eq!(replay(&mut log(&bytes), &[]).unwrap().unknown_gains, 30);
    assert!(replay(&mut log(&bytes), &[table(7, 1.2)]).unwrap().is_exact());
    assert!(!replay(&mut log(&bytes), &[table(7, 1.3)]).unwrap().is_exact());
    assert!(info(&mut log(&bytes)).unwrap().to_string().contains("--gains"));
}

#[test]
fn the_papers_flight_and_the_official_logs_are_read() {
    let Some(path) = recording("log27") else { return };
    let info27 = info(&mut Log::open(&path).unwrap()).unwrap();
    assert_eq!((info27.records, info27.ending, info27.skipped_bytes), (3845, "complete", 0));
    assert!(info27.events[0].columns.contains(&"stateEstimate.vx_m_s".to_owned()));
    assert!(info27.steps.is_none());
    let replayed = replay(&mut Log::open(&path).unwrap(), &[]).unwrap();
    assert!(replayed.steps == 0 && !replayed.is_exact());
    assert!(transitions(std::slice::from_ref(&path)).unwrap().segments.is_empty());
    for name in ["log05", "log05_no_pos_after_1s"] {
        let Some(path) = recording(name) else { return };
        let info = info(&mut Log::open(&path).unwrap()).unwrap();
        assert_eq!((info.ending, info.events.len()), ("complete", 5), "{name}");
    }
}

#[test]
fn a_cut_at_any_place_is_no_disaster() {
    let bytes = two_tables();
    let at = first_step(&bytes);
    for cut in (0..bytes.len()).step_by(997) {
        match Log::new("log00".to_owned(), Cursor::new(bytes[..cut].to_vec())) {
            Err(error) => assert!(cut < at && error.to_string().starts_with("log00: "), "{error}"),
            Ok(mut log) => {
                let info = info(&mut log).unwrap();
                let whole = cut.saturating_sub(at + if cut > at + 500 * RECORD_SIZE { 173 } else { 0 });
                let found = info.steps.map_or(0, |s| s.found);
                assert_eq!(found, (whole / RECORD_SIZE).min(850) as u64, "cut at {cut}");
                assert_ne!(info.ending, "complete");
            }
        }
    }
}

#[test]
fn tables_for_other_programs_hold_the_same_values() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let bytes = two_tables();
    fs::write(f.join("log00"), &bytes).unwrap();
    let steps: Vec<Transition> =
        transitions(&[f.join("log00")]).unwrap().segments.into_iter().flat_map(|s| s.steps).collect();
    let write = |format| export(&mut log(&bytes), format, f, "log00", false).unwrap();

    let files = write(Format::Csv);
    assert_eq!(files, [f.join("log00.transition.csv"), f.join("log00.gains.csv")]);
    let mut reader = csv::Reader::from_path(&files[0]).unwrap();
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let place = |name: &str| names.iter().position(|n| n == name).unwrap();
    let (vx, m3) = (place("stateEstimate.vx_m_s"), place("motor.m3_of_65535"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 850);
    for (row, step) in rows.iter().zip(&steps) {
        assert_eq!(row[0].parse::<u64>().unwrap(), step.time_us);
        assert_eq!(row[vx].parse::<f32>().unwrap().to_bits(), step.state.velocity.x.to_bits());
        assert_eq!(row[m3].parse::<u16>().unwrap(), step.pwm[2]);
    }

    let files = write(Format::Parquet);
    let reader = SerializedFileReader::new(fs::File::open(&files[0]).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 850);
    for (row, step) in rows.iter().zip(&steps) {
        use parquet::record::RowAccessor;
        assert_eq!(row.get_long(0).unwrap() as u64, step.time_us);
        assert_eq!(row.get_float(vx).unwrap().to_bits(), step.state.velocity.x.to_bits());
        assert_eq!(row.get_ushort(m3).unwrap(), step.pwm[2]);
        assert_eq!(row.get_uint(place("steady.seq")).unwrap(), step.sequence);
    }

    // NumPy's rows are the records as they are: the time, then the values up to the record's CRC.
    let files = write(Format::Npz);
    let mut archive = zip::ZipArchive::new(fs::File::open(&files[0]).unwrap()).unwrap();
    let mut array = Vec::new();
    archive.by_name("transition.npy").unwrap().read_to_end(&mut array).unwrap();
    let length = 12 + u32::from_le_bytes(array[8..12].try_into().unwrap()) as usize;
    let header = String::from_utf8_lossy(&array[12..length]).into_owned();
    assert!(length.is_multiple_of(64) && header.contains("('stateEstimate.vx_m_s', '<f4')"), "{header}");
    assert!(header.contains("'shape': (850,)"), "{header}");
    for (row, step) in array[length..].chunks(RECORD_SIZE - 2).zip(&steps) {
        assert_eq!(row, &step.encode()[2..]);
    }

    let files = write(Format::Mcap);
    let content = fs::read(&files[0]).unwrap();
    let messages: Vec<_> = mcap::MessageStream::new(&content).unwrap().map(Result::unwrap).collect();
    assert_eq!(messages.len(), 852);
    let message = messages.iter().find(|m| m.channel.topic == "/transition").unwrap();
    let value: serde_json::Value = serde_json::from_slice(&message.data).unwrap();
    assert_eq!(message.log_time, 1000 * steps[0].time_us);
    assert_eq!(value["stateEstimate.vx_m_s"].as_f64().unwrap() as f32, steps[0].state.velocity.x);

    for format in [Format::Csv, Format::Npz, Format::Parquet, Format::Mcap] {
        let error = export(&mut log(&bytes), format, f, "log00", false).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        export(&mut log(&bytes), format, f, "log00", true).unwrap();
    }
}

#[test]
fn pictures_are_drawn_of_both_kinds_of_logs() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = steady::log::charts::draw(&mut log(&two_tables()), folder.path(), "log00").unwrap();
    assert_eq!(pictures.len(), 12, "{pictures:?}");
    let svg = fs::read_to_string(folder.path().join("log00-position.svg")).unwrap();
    assert!(svg.contains("reference z") && svg.contains("position (m)"));
    let Some(path) = recording("log27") else { return };
    let pictures = steady::log::charts::draw(&mut Log::open(&path).unwrap(), folder.path(), "log27").unwrap();
    let names: Vec<_> = pictures.iter().filter_map(|p| p.file_stem()?.to_str()).collect();
    assert_eq!(
        names,
        ["log27-attitude", "log27-attitude", "log27-motors", "log27-motors", "log27-errors", "log27-errors"]
    );
}

#[test]
fn a_check_names_what_is_wrong() {
    use steady::log::check::check;
    let bytes = two_tables();
    let good = check(&mut log(&bytes)).unwrap();
    assert_eq!((good.problems.len(), good.steps, good.replayed), (0, 850, 850), "{good:?}");
    let at = first_step(&bytes) + 300 * RECORD_SIZE;
    let mut torn = bytes.clone();
    torn.drain(at..at + RECORD_SIZE + 7);
    let problems = check(&mut log(&torn)).unwrap().problems.join("; ");
    for word in ["checksum", "damaged", "2 control steps are missing in 1 gaps"] {
        assert!(problems.contains(word), "{word}: {problems}");
    }
    let tampered = |change: fn(&mut Transition)| {
        let mut bytes = bytes.clone();
        let record = &mut bytes[at..at + RECORD_SIZE];
        let mut step = Transition::decode(record).unwrap();
        change(&mut step);
        record.copy_from_slice(&step.encode());
        check(&mut log(&bytes)).unwrap().problems.join("; ")
    };
    assert!(tampered(|t| t.time_us += 1500).contains("1 control steps are late, first step 400"));
    assert!(tampered(|t| t.state.velocity.z = f32::NAN).contains("non-finite values, first step 400"));
    assert!(tampered(|t| t.state.attitude.w = 3.0).contains("not a unit quaternion, first step 400"));
    assert!(tampered(|t| t.action.yaw += 0.1).contains("another law"));
    let cut = check(&mut log(&bytes[..at + 100])).unwrap().problems.join("; ");
    assert!(cut.contains("cut off"), "{cut}");
    let Some(path) = recording("log27") else { return };
    assert_eq!(check(&mut Log::open(&path).unwrap()).unwrap().problems.len(), 0);
}

#[test]
fn damage_of_any_kind_is_survived() {
    let whole = two_tables();
    let mut rng = steady_sim::Rng::new(3, 0);
    let mut below = |limit: usize| rng.next_u32() as usize % limit;
    // A million of these and worse are the example `fuzz_log`'s.
    for _ in 0..300 {
        let mut bytes = whole[..1 + below(60_000)].to_vec();
        for _ in 0..below(8) {
            let (at, end) = (below(bytes.len()), below(400));
            match below(3) {
                0 => bytes[at] ^= 1 << below(8),
                1 => drop(bytes.drain(at..(at + end).min(bytes.len() - 1).max(at))),
                _ => drop(bytes.splice(at..at, (0..end).map(|i| i as u8).collect::<Vec<_>>())),
            }
        }
        let Ok(mut log) = Log::new("log00".to_owned(), Cursor::new(bytes)) else { continue };
        let found = match info(&mut log) {
            Ok(found) => found,
            Err(LogError::Schema { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let steps = found.steps.map_or(0, |s| s.found);
        assert_eq!(replay(&mut log, &[]).unwrap().steps, steps);
        assert_eq!(steady::log::check::check(&mut log).unwrap().steps, steps);
    }
}

fn steady(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_steady"));
    let output = { run }.current_dir(folder).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

#[test]
fn the_commands_say_what_is_there_and_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let bytes = two_tables();
    fs::write(f.join("log00"), &bytes).unwrap();
    let (out, _) = steady(f, &["log", "info", "log00"], 0);
    assert!(
        out.contains("850, 0 lost") && out.contains("table 2") && out.contains("500.0 per second"),
        "{out}"
    );
    let (out, _) = steady(f, &["log", "info", "--json", "."], 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json[0]["steps"]["found"], 850);
    let (out, _) = steady(f, &["log", "replay", "log00"], 0);
    assert!(out.contains("850 of 850 control steps replayed: 0 bits differ"), "{out}");
    let (out, _) = steady(f, &["log", "replay", "log00", "--json"], 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json[0]["exact"].as_bool(), json[0]["replay"]["differing_bits"].as_u64()),
        (Some(true), Some(0))
    );

    let (out, _) = steady(f, &["log", "check", "log00"], 0);
    assert!(out.contains("log00: ok, 852 records"), "{out}");
    let (out, _) = steady(f, &["log", "export", "log00", "--format", "npz", "-o", "tables"], 0);
    assert!(out.contains("log00.npz") && f.join("tables/log00.npz").exists(), "{out}");
    let (_, err) = steady(f, &["log", "export", "log00", "--format", "npz", "-o", "tables"], 1);
    assert!(err.contains("--force"), "{err}");
    let (out, _) = steady(f, &["log", "plot", ".", "-o", "pictures"], 0);
    assert_eq!(out.lines().count(), 12, "{out}");

    fs::write(f.join("log01"), b"").unwrap();
    fs::write(f.join("log02"), b"\x7fELF and so on").unwrap();
    let (_, err) = steady(f, &["log", "info", "log01"], 1);
    assert!(err.contains("log01") && err.contains("empty"), "{err}");
    let (_, err) = steady(f, &["log", "info", "log02"], 1);
    assert!(err.contains("log02") && err.contains("0x7f"), "{err}");
    let (_, err) = steady(f, &["log", "info", "."], 0);
    assert!(err.contains("log01"), "{err}");
    let (_, err) = steady(f, &["log", "replay", "log09"], 2);
    assert!(err.contains("log09"), "{err}");
    steady(f, &["log", "info"], 2);
    let (out, err) = steady(f, &["log", "check", "log00", "log02"], 1);
    assert!(
        out.contains("log00: ok") && out.contains("log02: byte 0") && err.contains("1 of 2"),
        "{out} {err}"
    );
}
