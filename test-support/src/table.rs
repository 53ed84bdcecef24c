//! CSV files, plain or gzipped, as tables with named columns.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use csv::StringRecord;
use flate2::read::GzDecoder;

/// A table with named columns.
pub struct Table {
    /// Name of the file.
    pub name: String,
    /// The rows in the order of the file; at least one.
    pub rows: Vec<Row>,
}

impl Table {
    pub(crate) fn read(path: &Path) -> Self {
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

/// One row of a table. Reading a column that is missing or not a number panics with its name.
pub struct Row {
    columns: Rc<HashMap<String, usize>>,
    record: StringRecord,
}

impl Row {
    /// The cell of a column as written.
    #[must_use]
    pub fn text(&self, column: &str) -> &str {
        let index = *self.columns.get(column).unwrap_or_else(|| panic!("no column {column}"));
        self.record.get(index).unwrap_or_else(|| panic!("no cell {column}"))
    }

    fn parse<T: std::str::FromStr>(&self, column: &str) -> T {
        let text = self.text(column);
        text.trim().parse().unwrap_or_else(|_| panic!("column {column}: {text:?} is not a number"))
    }

    /// The cell of a column in single precision.
    #[must_use]
    pub fn f32(&self, column: &str) -> f32 {
        self.parse(column)
    }

    /// The cell of a column as an integer.
    #[must_use]
    pub fn int(&self, column: &str) -> i64 {
        self.parse(column)
    }

    /// The column `tick`: milliseconds of the stabilizer's clock.
    #[must_use]
    pub fn tick(&self) -> u32 {
        self.parse("tick")
    }
}
