//! Comma-separated values.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use steady_common::usdlog::{Record, Value};

use super::{Sink, TIME, Table};
use crate::files::Staged;

/// One file per table.
pub(super) struct Files(Vec<(Table, Staged)>);

impl Files {
    pub(super) fn new(tables: &[Table], path: impl Fn(&Table) -> PathBuf, force: bool) -> Result<Self> {
        let mut files = Vec::new();
        for table in tables {
            let mut file = Staged::new(&path(table), force)?;
            file.write_all(TIME.as_bytes())?;
            for column in &table.columns {
                write!(file, ",{}", column.name)?;
            }
            file.write_all(b"\n")?;
            files.push((table.clone(), file));
        }
        Ok(Self(files))
    }
}

impl Sink for Files {
    fn row(&mut self, table: usize, record: &Record<'_>) -> Result<()> {
        let Some((table, file)) = self.0.get_mut(table) else { return Ok(()) };
        write!(file, "{}", record.time_us)?;
        for column in &table.columns {
            // Names and numbers hold no commas, so nothing needs quotes. Floats are written with as many
            // digits as bring back the same bits.
            match column.read(record.values) {
                Some(Value::F32(value)) => write!(file, ",{value}")?,
                Some(value) => write!(file, ",{}", value.to_f64())?,
                None => file.write_all(b",")?,
            }
        }
        file.write_all(b"\n")?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        self.0.into_iter().map(|(_, file)| file.commit()).collect()
    }
}
