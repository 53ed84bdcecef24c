//! Finding and reading the golden data that the tests compare with.
//!
//! The folder is `STEADY_DATA` if that is set, else `../shared/data` next to the workspace. Files
//! are found by the beginning of their name anywhere below it: the stem `mellinger` stands for
//! `mellinger_*.csv` and `mellinger_*.csv.gz`. A file that is missing from a folder that should
//! have it fails the test; without any folder the test says that it was skipped.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use csv::StringRecord;
use flate2::read::GzDecoder;

/// Stems that begin with another stem and an underscore.
const LONGER_STEMS: &[&str] = &["pid_long", "kalman_imu", "kalman_mocap", "gpd_pyb_drag", "gpd_pyb_gnd"];
/// How many folders deep files are looked for.
const SEARCH_DEPTH: usize = 3;

/// The folder with the golden data, or `None` where there is none to be expected.
pub(crate) fn data_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STEADY_DATA") {
        return Some(folder.into());
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    shared.is_dir().then(|| shared.join("data"))
}

/// All tables of a stem; panics if there should be one and is not. Empty means: skip the test.
pub(crate) fn tables(stem: &str) -> Vec<Table> {
    let Some(folder) = data_folder() else {
        println!("SKIPPED: no golden data for {stem} (set STEADY_DATA to its folder)");
        return Vec::new();
    };
    let mut files = Vec::new();
    find(&folder, stem, SEARCH_DEPTH, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no file {stem}_*.csv or {stem}_*.csv.gz below {}", folder.display());
    files.iter().map(|file| Table::read(file)).collect()
}

fn find(folder: &Path, stem: &str, depth: usize, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if depth > 1 {
                find(&path, stem, depth - 1, files);
            }
        } else if is_of_stem(&name, stem) {
            files.push(path);
        }
    }
}

fn is_of_stem(name: &str, stem: &str) -> bool {
    let starts_with = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('_'));
    let longer = |other: &&&str| other.len() > stem.len() && starts_with(other);
    (name.ends_with(".csv") || name.ends_with(".csv.gz"))
        && starts_with(stem)
        && LONGER_STEMS.iter().find(longer).is_none()
}

/// A table with named columns.
pub(crate) struct Table {
    /// Name of the file.
    pub(crate) name: String,
    /// The rows in the order of the file; at least one.
    pub(crate) rows: Vec<Row>,
}

impl Table {
    fn read(path: &Path) -> Self {
        let fail = |e: &dyn std::fmt::Display| -> ! { panic!("{}: {e}", path.display()) };
        let file = BufReader::new(File::open(path).unwrap_or_else(|e| fail(&e)));
        let text: Box<dyn Read> = if path.extension().is_some_and(|e| e == "gz") {
            Box::new(GzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let mut reader = csv::Reader::from_reader(text);
        let header = reader.headers().unwrap_or_else(|e| fail(&e));
        let columns: HashMap<_, _> = header.iter().map(str::to_owned).zip(0..).collect();
        let columns = Rc::new(columns);
        let rows: Vec<_> = reader
            .records()
            .map(|record| Row { columns: columns.clone(), record: record.unwrap_or_else(|e| fail(&e)) })
            .collect();
        assert!(!rows.is_empty(), "{} has no rows", path.display());
        Self { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), rows }
    }
}

/// One row of a table.
pub(crate) struct Row {
    columns: Rc<HashMap<String, usize>>,
    record: StringRecord,
}

impl Row {
    /// The cell of a column as written.
    pub(crate) fn text(&self, column: &str) -> &str {
        let index = *self.columns.get(column).unwrap_or_else(|| panic!("no column {column}"));
        self.record.get(index).unwrap_or_else(|| panic!("no cell {column}"))
    }

    fn parse<T: std::str::FromStr>(&self, column: &str) -> T {
        let text = self.text(column);
        text.trim().parse().unwrap_or_else(|_| panic!("column {column}: {text:?} is not a number"))
    }

    /// The cell of a column in single precision.
    pub(crate) fn f32(&self, column: &str) -> f32 {
        self.parse(column)
    }

    /// The cell of a column in double precision.
    pub(crate) fn f64(&self, column: &str) -> f64 {
        self.parse(column)
    }

    /// The column `tick`: milliseconds of the stabilizer's clock.
    pub(crate) fn tick(&self) -> u32 {
        self.parse("tick")
    }

    /// The cell of a column as a whole number.
    pub(crate) fn int(&self, column: &str) -> i64 {
        self.parse(column)
    }
}

/// The largest difference of every column, and where it was.
#[derive(Default)]
pub(crate) struct Differences {
    rows: usize,
    worst: BTreeMap<&'static str, (f64, usize)>,
}

impl Differences {
    /// Begins the next row.
    pub(crate) fn next_row(&mut self) {
        self.rows += 1;
    }

    /// Compares a value with the table's, which is the text of a single-precision number.
    pub(crate) fn note(&mut self, row: &Row, column: &'static str, value: impl Into<f64>) {
        self.note_difference(column, value.into() - f64::from(row.f32(column)));
    }

    /// Takes a difference that was computed elsewhere. One that is not a number is infinitely bad.
    pub(crate) fn note_difference(&mut self, column: &'static str, difference: f64) {
        let difference = if difference.is_nan() { f64::INFINITY } else { difference.abs() };
        let worst = self.worst.entry(column).or_insert((0.0, self.rows));
        if difference > worst.0 {
            *worst = (difference, self.rows);
        }
    }

    /// Prints the worst differences and fails if one is above the tolerance of its column.
    pub(crate) fn check(&self, table: &str, tolerance: impl Fn(&str) -> f64) {
        println!("{table}: {} rows", self.rows);
        let mut failures = Vec::new();
        for (&column, &(worst, row)) in &self.worst {
            let allowed = tolerance(column);
            println!("  {column:16} worst {worst:.3e}, allowed {allowed:.1e}");
            if worst > allowed {
                failures.push(format!("{column}: {worst:e} in row {row}, allowed {allowed:e}"));
            }
        }
        assert!(self.rows > 0, "{table}: no row was compared");
        assert!(failures.is_empty(), "{table}: {}", failures.join("; "));
    }
}
