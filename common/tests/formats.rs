//! The formats of released firmware stay readable: fixtures that are kept for ever, and logs whose
//! header differs from what this firmware writes. `docs/formats.md` has the policy.
//!
//! `log_1` and `gain_table_1.bin`: a take-off in world `paper` with exploration noise, flown by the
//! firmware image on the virtual Crazyflie with this table, up to a power cut. `log_2`: a take-off with the
//! estimator's inputs.
#![allow(clippy::unwrap_used, reason = "a missing fixture is a failed test")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use steady_common::estimator::Estimator;
use steady_common::gains_record::{self, GainsRecord};
use steady_common::inputs_record::{self, Input, InputFlags};
use steady_common::transition::{self, Decoder, FIELDS, Flags, Transition};
use steady_common::usdlog::{
    Ending, Event, FILE_CRC, Header, Layout, RECORD_CRC, RECORD_CRC_NAME, Record, Scanner, SchemaError,
    Summary, Type, Variable, write,
};
use steady_common::{Action, GainTable, State};

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

#[derive(Debug)]
struct Contents {
    steps: Vec<Transition>,
    gains: Vec<GainsRecord>,
    summary: Summary,
}

fn read(file: &[u8]) -> Result<Contents, SchemaError> {
    let header = Header::parse(file).unwrap();
    let steps_decoder = Decoder::new(&header)?.unwrap();
    let gains_decoder = gains_record::Decoder::new(&header)?.unwrap();
    let scanner = Scanner::new(Layout::new(&header).unwrap(), file);
    let (mut steps, mut gains) = (Vec::new(), Vec::new());
    let summary = scanner.finish(&file[header.length()..], |record| {
        steps.extend(steps_decoder.decode(&record));
        gains.extend(gains_decoder.decode(&record).map(Result::unwrap));
    });
    Ok(Contents { steps, gains, summary })
}

fn assert_replays(steps: &[Transition], table: &GainTable) -> usize {
    let mut replayed = 0;
    for (index, step) in steps.iter().enumerate().filter(|(_, s)| s.flags.has(Flags::LAW)) {
        let previous = index.checked_sub(1).map(|i| &steps[i]);
        let bits = |a: Action| a.into_array().map(f32::to_bits);
        assert_eq!(bits(step.replay(previous, table).unwrap()), bits(step.action), "step {}", step.sequence);
        replayed += 1;
    }
    replayed
}

#[test]
fn log_1_reads_and_replays() {
    let log = read(&fixture("log_1")).unwrap();
    assert_eq!((log.summary.ending, log.summary.skipped_bytes), (Ending::Complete, 0));
    assert_eq!((log.steps.len(), log.gains.len()), (761, 1));
    assert!(log.steps.windows(2).all(|pair| pair[1].follows(&pair[0])));

    let first = &log.steps[0];
    assert_eq!((first.time_us, first.sequence, first.table), (1_658_581, 647, 7));
    assert_eq!((first.state.position.x, first.state.position.z), (-0.000_863_748_1, 0.012_882_601_5));
    assert_eq!((first.state.rates.z, first.dt_s, first.battery_v), (-0.000_387_596_2, 0.002, 4.080_351));
    assert_eq!((first.flags, first.controller, first.supervisor, first.guard), (Flags(84), 0, 4, 0));

    let last = log.steps.last().unwrap();
    assert_eq!((last.time_us, last.sequence), (3_178_580, 1407));
    assert_eq!((last.state.position.x, last.state.position.z), (0.020_099_021, 0.871_831_95));
    assert_eq!((last.state.attitude.w, last.state.rates.z), (0.999_972_8, -0.046_403_002));
    assert_eq!((last.reference.position.z, last.battery_v), (0.909_570_2, 3.753_079));
    assert_eq!((last.action.thrust, last.applied.thrust), (0.549_822_03, 0.548_177_4));
    assert_eq!((last.applied.roll, last.pwm[0], last.pwm[3]), (-0.050_257_027, 43_377, 40_285));
    assert_eq!((last.flags, last.controller, last.supervisor, last.guard), (Flags(242), 6, 5, 1));

    let gains = &log.gains[0];
    assert_eq!((gains.time_us, gains.try_out), (1_658_581, false));
    assert_eq!(gains.table, GainTable::decode(&fixture("gain_table_1.bin")).unwrap());
    // This law's outputs: when `LAW_VERSION` is raised, the log must still decode, but not replay.
    assert_eq!(assert_replays(&log.steps, &gains.table), 729);
}

#[test]
fn log_2_reads_and_its_estimate_replays() {
    let file = fixture("log_2");
    let log = read(&file).unwrap();
    assert_eq!((log.summary.ending, log.summary.skipped_bytes), (Ending::Complete, 0));
    let states: HashMap<u64, State> = log.steps.iter().map(|step| (step.time_us, step.state)).collect();
    let header = Header::parse(&file).unwrap();
    let decoder = inputs_record::Decoder::new(&header).unwrap().unwrap();
    let scanner = Scanner::new(Layout::new(&header).unwrap(), &file);
    let (mut filter, mut frame): (Option<Estimator>, _) = (None, None);
    let (mut samples, mut frames, mut snapshots, mut compared) = (0, 0, 0, 0);
    scanner.finish(&file[header.length()..], |record| match decoder.decode(&record) {
        Some(Input::Snapshot(time_us, snapshot)) => {
            if let Some(filter) = &filter {
                assert_eq!(filter.snapshot().unwrap().differing_bits(&snapshot), 0);
            }
            filter = Some(snapshot.restore((time_us / 1000) as u32));
            snapshots += 1;
        }
        Some(Input::Mocap(_, mocap)) => {
            assert_eq!((mocap.position_std, mocap.age_s, mocap.attitude), (0.01, 0.012, None));
            frame = Some(mocap);
            frames += 1;
        }
        Some(Input::Imu(sample)) => {
            samples += 1;
            let mocap = frame.take();
            assert_eq!(sample.flags.has(InputFlags::MOCAP), mocap.is_some());
            let Some(filter) = &mut filter else { return };
            let flying = sample.flags.has(InputFlags::FLYING);
            filter.tick((sample.time_us / 1000) as u32, &sample.imu, mocap.as_ref(), flying).unwrap();
            if let Some(state) = states.get(&sample.time_us) {
                assert_eq!(filter.state(), *state, "at {} us", sample.time_us);
                compared += 1;
            }
        }
        None => {}
    });
    assert_eq!(filter.unwrap().drag_per_s(), 0.2);
    assert_eq!((log.steps.len(), samples, frames, snapshots, compared), (647, 1292, 117, 2, 643));
}

#[test]
fn gain_table_1_reads() {
    let table = GainTable::decode(&fixture("gain_table_1.bin")).unwrap();
    let mut expected = GainTable { sequence: 7, source: 0x0123_4567_89AB_CDEF, ..GainTable::built_in() };
    expected.gains.position.p.xy = 0.5;
    expected.gains.rate.p.z = 0.2;
    assert_eq!(table, expected);
}

/// A field of a rewritten log: an old one, or a new one with these bytes in every record.
type Slot = (String, Type, Result<usize, Vec<u8>>);

fn slots(event: &Event<'_>) -> Vec<Slot> {
    event.variables().map(|v| (v.name.to_owned(), v.kind, Ok(v.offset))).collect()
}

fn new_field(name: &str) -> Slot {
    (name.to_owned(), Type::F32, Err(vec![0xA5; 4]))
}

fn place(slots: &[Slot], name: &str) -> usize {
    slots.iter().position(|slot| slot.0 == name).unwrap()
}

/// The same log with other fields in one of its events.
fn rewrite(file: &[u8], event_name: &str, edit: impl FnOnce(&mut Vec<Slot>)) -> Vec<u8> {
    let header = Header::parse(file).unwrap();
    let mut events: Vec<(Event<'_>, Vec<Slot>)> = header.events().map(|e| (e, slots(&e))).collect();
    edit(&mut events.iter_mut().find(|(e, _)| e.name == event_name).unwrap().1);
    let mut out = Vec::new();
    let mut sink = |b: &[u8]| out.extend_from_slice(b);
    write::begin(&mut sink, u16::try_from(events.len()).unwrap());
    for (event, slots) in &events {
        write::event(&mut sink, event.id, event.name, u16::try_from(slots.len()).unwrap());
        for (name, kind, _) in slots {
            write::variable(&mut sink, &[name], *kind);
        }
    }
    let scanner = Scanner::new(Layout::new(&header).unwrap(), file);
    scanner.finish(&file[header.length()..], |record: Record<'_>| {
        let (event, slots) = &events[record.event];
        let mut bytes = write::record_prefix(event.id, record.time_us).to_vec();
        for (_, kind, content) in slots {
            match content {
                Ok(offset) => bytes.extend_from_slice(&record.values[*offset..][..kind.size()]),
                Err(new) => bytes.extend_from_slice(new),
            }
        }
        if slots.last().is_some_and(|slot| slot.0 == RECORD_CRC_NAME) {
            bytes.truncate(bytes.len() - 2);
            bytes.extend(RECORD_CRC.checksum(&bytes).to_le_bytes());
        }
        out.extend_from_slice(&bytes);
    });
    let crc = FILE_CRC.checksum(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn assert_same(file: &[u8]) {
    let (old, new) = (read(&fixture("log_1")).unwrap(), read(file).unwrap());
    assert_eq!(new.summary, old.summary);
    assert!(new.steps == old.steps && new.gains == old.gains);
}

#[test]
fn logs_with_more_fields_read_the_same() {
    let log = fixture("log_1");
    let add = |index: fn(&[Slot]) -> usize| {
        rewrite(&log, transition::EVENT_NAME, |slots| slots.insert(index(slots), new_field("steady.wind")))
    };
    assert_same(&add(|_| 0));
    assert_same(&add(|slots| place(slots, "ctrltarget.x")));
    assert_same(&add(|slots| slots.len() - 1));
    assert_same(&rewrite(&log, gains_record::EVENT_NAME, |slots| {
        slots.insert(place(slots, "gains.tryOut"), new_field("gains.temperature"));
        slots.insert(0, new_field("gains.author"));
    }));
}

#[test]
fn logs_with_another_order_of_fields_read_the_same() {
    assert_same(&rewrite(&fixture("log_1"), transition::EVENT_NAME, |slots| {
        let crc = slots.pop().unwrap();
        slots.reverse();
        slots.push(crc);
    }));
}

#[test]
fn a_missing_field_gets_its_default_or_is_named() {
    let log = fixture("log_1");
    let old = read(&log).unwrap().steps;
    assert!(old.iter().any(|step| step.guard != 0) && old.iter().all(|step| step.supervisor != 0));
    let mut optional = 0;
    for field in &FIELDS {
        let without = rewrite(&log, transition::EVENT_NAME, |slots| {
            drop(slots.remove(place(slots, field.name)));
        });
        match (read(&without), field.default) {
            (Ok(new), Some(_)) => {
                assert_eq!(new.steps.len(), old.len());
                for (new, old) in new.steps.iter().zip(&old) {
                    let expected = match field.name {
                        "steady.supervisor" => Transition { supervisor: 0, ..*old },
                        "steady.guard" => Transition { guard: 0, ..*old },
                        name => panic!("what is the default of {name}?"),
                    };
                    assert_eq!(*new, expected);
                }
                optional += 1;
            }
            (Err(error), None) => {
                assert_eq!(error, SchemaError::Missing { event: "transition", field: field.name });
                assert!(error.to_string().contains(field.name), "{error}");
            }
            (result, default) => panic!("{}: {result:?}, default {default:?}", field.name),
        }
    }
    assert_eq!(optional, 2);
}

#[test]
fn headers_that_cannot_be_right_are_refused() {
    let log = fixture("log_1");
    let refused = |edit: fn(&mut Vec<Slot>)| {
        read(&rewrite(&log, transition::EVENT_NAME, edit)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|slots| {
            let at = place(slots, "steady.dt");
            slots[at].1 = Type::U32;
        }),
        "event `transition`: field `steady.dt` is u32, expected f32"
    );
    assert_eq!(
        refused(|slots| slots.insert(3, new_field("steady.dt"))),
        "event `transition`: two fields are named `steady.dt`"
    );
    assert_eq!(
        refused(|slots| slots.push(new_field("steady.wind"))),
        "event `transition`: the checksum `steady.crc16` is not the last field"
    );
    assert_eq!(refused(Vec::clear), "event `transition`: the required field `steady.seq` is missing");

    // Headers alone, which are never followed by records.
    let header = |version: u8, events: &[(&str, Vec<Variable<'_>>)]| {
        let mut bytes = Vec::new();
        let mut sink = |b: &[u8]| bytes.extend_from_slice(b);
        write::begin(&mut sink, u16::try_from(events.len()).unwrap());
        for (id, (name, variables)) in (0..).zip(events) {
            write::event(&mut sink, id, name, u16::try_from(variables.len()).unwrap());
            for variable in variables {
                write::variable(&mut sink, &[variable.name], variable.kind);
            }
        }
        bytes[1] = version;
        Decoder::new(&Header::parse(&bytes).unwrap()).map(|decoder| decoder.is_some())
    };
    let ours: Vec<Variable<'_>> =
        FIELDS.iter().map(|f| Variable { name: f.name, kind: f.kind, offset: 0 }).collect();
    assert_eq!(header(2, &[("transition", ours.clone())]), Ok(true));
    assert_eq!(header(2, &[("fixedFrequency", ours.clone())]), Ok(false));
    assert_eq!(header(2, &[]), Ok(false));
    let error = header(2, &[("transition", ours.clone()), ("transition", ours.clone())]).unwrap_err();
    assert_eq!(error.to_string(), "two events are named `transition`");
    let error = header(1, &[("transition", ours.clone())]).unwrap_err();
    assert_eq!(error.to_string(), "event `transition` in a file of version 1; it needs version 2");
    let mut long = vec![Variable { name: "x", kind: Type::F32, offset: 0 }; 20_000];
    long.extend(ours);
    let error = header(2, &[("transition", long)]).unwrap_err();
    assert_eq!(error, SchemaError::Size { event: "transition", bytes: 80_277 });
}
