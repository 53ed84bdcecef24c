//! Real SD logs, compared with what the official decoder reads from them.

#![allow(clippy::unwrap_used, reason = "a missing fixture is a failed test")]

use std::collections::BTreeMap;
use std::fs;

use steady_common::usdlog::{Ending, Header, Layout, Record, Scanner, Summary, Type};
use steady_test_support::recording;

/// Name, type and place of a variable.
type Column = (String, Type, usize);
/// Columns of a file by event and name; timestamps in ms.
type Columns = BTreeMap<(String, String), Vec<f64>>;

fn read(bytes: &[u8], chunk: usize) -> (Columns, Summary) {
    let header = Header::parse(bytes).unwrap();
    let events: Vec<(String, Vec<Column>)> = header
        .events()
        .map(|e| {
            let variables = e.variables().map(|v| (v.name.to_owned(), v.kind, v.offset)).collect();
            (e.name.to_owned(), variables)
        })
        .collect();
    let mut columns = Columns::new();
    let mut take = |record: Record<'_>| {
        let (event, variables) = &events[record.event];
        #[allow(clippy::cast_precision_loss)]
        let ms = record.time_us as f64 / 1000.0;
        columns.entry((event.clone(), "timestamp".into())).or_default().push(ms);
        for (name, kind, offset) in variables {
            let value = kind.read(&record.values[*offset..]).unwrap().to_f64();
            columns.entry((event.clone(), name.clone())).or_default().push(value);
        }
    };
    let mut scanner = Scanner::new(Layout::new(&header).unwrap(), bytes);
    let mut at = header.length();
    let mut filled = at;
    while filled < bytes.len() {
        filled = (filled + chunk).min(bytes.len());
        at += scanner.push(&bytes[at..filled], &mut take);
    }
    let summary = scanner.finish(&bytes[at..], &mut take);
    (columns, summary)
}

#[test]
fn official_logs_read_as_the_official_decoder_reads_them() {
    let Some(expected) = recording("usdlog_expected.json") else { return };
    let expected: serde_json::Value = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
    let mut compared = 0;
    for (file, facts) in expected["files"].as_object().unwrap() {
        let bytes = fs::read(recording(file).unwrap()).unwrap();
        let (columns, summary) = read(&bytes, 10_000);
        assert_eq!((summary.ending, summary.skipped_bytes), (Ending::Complete, 0), "{file}");
        for (event, facts) in facts["events"].as_object().unwrap() {
            for (name, facts) in facts["columns"].as_object().unwrap() {
                let column = &columns[&(event.clone(), name.clone())];
                let value = |key: &str| facts[key].as_f64().unwrap();
                let fold = |f: fn(f64, f64) -> f64| column.iter().copied().reduce(f).unwrap();
                let got = [
                    column[0],
                    column[column.len() / 2],
                    *column.last().unwrap(),
                    fold(f64::min),
                    fold(f64::max),
                ];
                let wanted = ["first", "middle", "last", "min", "max"].map(value);
                for (g, w) in got.iter().zip(wanted) {
                    assert!((g - w).abs() <= 1e-9 * w.abs(), "{file} {event}.{name}: {got:?} {wanted:?}");
                }
                let sum: f64 = column.iter().sum();
                assert!(
                    (sum - value("sum")).abs() <= 1e-7 * (1.0 + sum.abs()),
                    "{file} {event}.{name}: sum {sum}"
                );
                compared += 1;
            }
            let rows = facts["rows"].as_u64().unwrap();
            assert_eq!(columns[&(event.clone(), "timestamp".to_owned())].len() as u64, rows);
        }
    }
    assert_eq!(compared, 36, "columns compared");
}

#[test]
fn the_papers_flight_reads_completely() {
    let Some(path) = recording("log27") else { return };
    let bytes = fs::read(path).unwrap();
    let (columns, summary) = read(&bytes, 4096);
    assert_eq!((summary.records, summary.skipped_bytes, summary.ending), (3845, 0, Ending::Complete));
    assert_eq!(columns.len(), 20, "19 variables and the timestamp");
    let m1 = &columns[&("fixedFrequency".to_owned(), "motor.m1req".to_owned())];
    assert_eq!(m1.iter().filter(|m| **m > 0.0).count(), 3712);

    // The same file, damaged: all but the records around the damage come out, and it is noticed.
    let mut damaged = bytes.clone();
    damaged[100_000..100_300].fill(0xE7);
    let (_, summary) = read(&damaged, 4096);
    assert!(summary.records >= 3845 - 8 && summary.records < 3845, "{summary:?}");
    assert!(matches!(summary.ending, Ending::WrongCrc { .. }) && summary.damaged_places >= 1, "{summary:?}");
    let mut missing = bytes;
    missing.drain(200_003..200_103);
    let (_, summary) = read(&missing, 777);
    assert!(summary.records >= 3845 - 5 && summary.damaged_places >= 1, "{summary:?}");
}
