//! Comparing with tables that other programs made.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::BTreeMap;

use steady_test_support::Row;

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
