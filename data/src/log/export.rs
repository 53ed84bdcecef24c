//! Exports logs as CSV, NumPy, Parquet and MCAP, with units in the column names, in bounded memory.

mod csv;
mod mcap;
mod npz;
mod parquet;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use steady_common::usdlog::Record;

use super::{Event, Log, Variable};

/// File format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text, one file per kind of record.
    Csv,
    /// NumPy: one file, in it a structured array per kind of record.
    Npz,
    /// Apache Parquet, one file per kind of record.
    Parquet,
    /// MCAP with JSON messages, one file; for Foxglove and others.
    Mcap,
}

/// One kind of record as a table; its first column is the time.
#[derive(Clone, Debug)]
struct Table {
    /// Number of the event in the log.
    event: usize,
    /// Its name, fit for a file.
    name: String,
    /// Named as columns: with units, and unique.
    columns: Vec<Variable>,
}

/// Name of the time's column.
const TIME: &str = "time_us";

/// Where the rows of a log go.
trait Sink {
    fn row(&mut self, table: usize, record: &Record<'_>) -> Result<()>;
    /// Completes the files.
    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>>;
}

/// Exports a log into files of a folder whose names begin with `stem`, and returns them.
///
/// # Errors
/// If the log cannot be read, a file exists and `force` is not set, or one cannot be written.
pub fn export(log: &mut Log, format: Format, folder: &Path, stem: &str, force: bool) -> Result<Vec<PathBuf>> {
    let tables = tables(log.events());
    if format == Format::Npz {
        // The length comes before the rows, so the log is read more than once.
        return npz::export(log, &tables, &folder.join(format!("{stem}.npz")), force);
    }
    let path = |table: &Table, extension: &str| folder.join(format!("{stem}.{}.{extension}", table.name));
    let mut sink: Box<dyn Sink> = match format {
        Format::Csv => Box::new(csv::Files::new(&tables, |t| path(t, "csv"), force)?),
        Format::Parquet => Box::new(parquet::Files::new(&tables, |t| path(t, "parquet"), force)?),
        Format::Mcap | Format::Npz => {
            Box::new(mcap::File::new(&tables, &folder.join(format!("{stem}.mcap")), force)?)
        }
    };
    log.try_scan(|record| match tables.iter().position(|t| t.event == record.event) {
        Some(table) => sink.row(table, record),
        None => Ok(()),
    })?;
    sink.finish()
}

fn tables(events: &[Event]) -> Vec<Table> {
    let mut names = Names::default();
    events
        .iter()
        .enumerate()
        .map(|(event, e)| {
            let mut columns = Names::default();
            columns.0.insert(TIME.to_owned());
            let column = |v: &Variable| Variable { name: columns.unique(&v.column()), ..v.clone() };
            let columns = e.variables.iter().map(column).collect();
            Table { event, name: names.unique(&e.name), columns }
        })
        .collect()
}

/// Makes names plain and unique: a damaged header may hold anything.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let plain: String = name.chars().map(allowed).collect();
        let plain = if plain.trim_matches('.').is_empty() { "unnamed".to_owned() } else { plain };
        let mut unique = plain.clone();
        let mut number = 1;
        while !self.0.insert(unique.clone()) {
            number += 1;
            unique = format!("{plain}-{number}");
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_unique() {
        let mut names = Names::default();
        assert_eq!(names.unique("pm.vbat_V"), "pm.vbat_V");
        assert_eq!(names.unique("pm.vbat_V"), "pm.vbat_V-2");
        assert_eq!(names.unique("../evil 'name'"), ".._evil__name_");
        assert_eq!(names.unique(""), "unnamed");
        assert_eq!(names.unique(".."), "unnamed-2");
    }
}
