//! NumPy's archive: `numpy.load(file)["transition"]["stateEstimate.x_m"]`.
//!
//! A structured array's rows are the log's records as they are, so nothing is converted and every bit
//! survives.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use steady_common::usdlog::Type;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{TIME, Table};
use crate::files::Staged;
use crate::log::Log;

/// Reads the log once to count and once for every array.
pub(super) fn export(log: &mut Log, tables: &[Table], path: &Path, force: bool) -> Result<Vec<PathBuf>> {
    let mut counts = vec![0_u64; log.events().len()];
    log.scan(|record| {
        if let Some(count) = counts.get_mut(record.event) {
            *count += 1;
        }
    })?;
    let mut archive = ZipWriter::new(Staged::new(path, force)?);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for table in tables {
        let rows = counts.get(table.event).copied().unwrap_or(0);
        archive.start_file(format!("{}.npy", table.name), options)?;
        archive.write_all(&header(table, rows))?;
        log.try_scan(|record| {
            if record.event == table.event {
                archive.write_all(&record.time_us.to_le_bytes())?;
                archive.write_all(record.values)?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
    }
    let file = archive.finish().with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(vec![file.commit()?])
}

/// The beginning of an array of rows, format version 2.0.
fn header(table: &Table, rows: u64) -> Vec<u8> {
    let fields: String =
        table.columns.iter().map(|c| format!(", ('{}', '{}')", c.name, numpy_type(c.kind))).collect();
    let mut text =
        format!("{{'descr': [('{TIME}', '<u8'){fields}], 'fortran_order': False, 'shape': ({rows},)}}");
    const BEFORE_TEXT: usize = 12;
    while !(BEFORE_TEXT + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [b"\x93NUMPY\x02\x00".as_slice(), &length.to_le_bytes(), text.as_bytes()].concat()
}

fn numpy_type(kind: Type) -> &'static str {
    match kind {
        Type::U8 => "u1",
        Type::I8 => "i1",
        Type::U16 => "<u2",
        Type::I16 => "<i2",
        Type::U32 => "<u4",
        Type::I32 => "<i4",
        Type::F32 => "<f4",
        Type::F16 => "<f2",
    }
}
