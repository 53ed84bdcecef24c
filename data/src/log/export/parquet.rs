//! Apache Parquet.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parquet::basic::{Compression, IntType, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types;
use steady_common::usdlog::{Record, Type, Value};

use super::{Sink, TIME, Table};
use crate::files::Staged;

/// Rows that are gathered before they are written.
const GROUP: usize = 1 << 15;

/// One file per table.
pub(super) struct Files(Vec<File>);

struct File {
    table: Table,
    writer: SerializedFileWriter<Staged>,
    times: Vec<i64>,
    values: Vec<Values>,
}

/// The values of a column that wait to be written.
enum Values {
    Integers(Vec<i32>),
    Floats(Vec<f32>),
}

impl Files {
    pub(super) fn new(tables: &[Table], path: impl Fn(&Table) -> PathBuf, force: bool) -> Result<Self> {
        let mut files = Vec::new();
        for table in tables {
            let staged = Staged::new(&path(table), force)?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            let writer = SerializedFileWriter::new(staged, schema(table)?, Arc::new(properties))
                .with_context(|| format!("{}: cannot be written", path(table).display()))?;
            let mut file = File { table: table.clone(), writer, times: Vec::new(), values: Vec::new() };
            file.clear();
            files.push(file);
        }
        Ok(Self(files))
    }
}

fn schema(table: &Table) -> Result<Arc<types::Type>> {
    let column = |name: &str, physical, logical| -> Result<Arc<types::Type>> {
        let column = types::Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical);
        Ok(Arc::new(column.build()?))
    };
    let mut columns = vec![column(TIME, Physical::INT64, None)?];
    for c in &table.columns {
        let integer = |bit_width, is_signed| {
            (Physical::INT32, Some(LogicalType::Integer(IntType { bit_width, is_signed })))
        };
        let (physical, logical) = match c.kind {
            Type::U8 => integer(8, false),
            Type::I8 => integer(8, true),
            Type::U16 => integer(16, false),
            Type::I16 => integer(16, true),
            Type::U32 => integer(32, false),
            Type::I32 => integer(32, true),
            Type::F32 | Type::F16 => (Physical::FLOAT, None),
        };
        columns.push(column(&c.name, physical, logical)?);
    }
    Ok(Arc::new(types::Type::group_type_builder("log").with_fields(columns).build()?))
}

impl File {
    fn clear(&mut self) {
        self.times = Vec::with_capacity(GROUP);
        let empty = |kind| match kind {
            Type::F32 | Type::F16 => Values::Floats(Vec::with_capacity(GROUP)),
            _ => Values::Integers(Vec::with_capacity(GROUP)),
        };
        self.values = self.table.columns.iter().map(|c| empty(c.kind)).collect();
    }

    fn row(&mut self, record: &Record<'_>) -> Result<()> {
        self.times.push(i64::try_from(record.time_us).unwrap_or(i64::MAX));
        for (column, values) in self.table.columns.iter().zip(&mut self.values) {
            let value = column.read(record.values);
            match (values, value) {
                (Values::Floats(list), Some(Value::F32(v))) => list.push(v),
                (Values::Integers(list), Some(v)) => list.push(integer(v)),
                _ => bail!("a record of {} is shorter than its event", self.table.name),
            }
        }
        if self.times.len() >= GROUP { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        let mut column = 0_usize;
        while let Some(mut writer) = group.next_column()? {
            // The time is the first column.
            let values = column.checked_sub(1).and_then(|i| self.values.get(i));
            match (writer.untyped(), values) {
                (ColumnWriter::Int64ColumnWriter(w), None) => w.write_batch(&self.times, None, None)?,
                (ColumnWriter::Int32ColumnWriter(w), Some(Values::Integers(v))) => {
                    w.write_batch(v, None, None)?
                }
                (ColumnWriter::FloatColumnWriter(w), Some(Values::Floats(v))) => {
                    w.write_batch(v, None, None)?
                }
                _ => bail!("the columns of {} are mixed up", self.table.name),
            };
            writer.close()?;
            column += 1;
        }
        group.close()?;
        self.clear();
        Ok(())
    }
}

/// As Parquet keeps it: unsigned numbers by their bits.
fn integer(value: Value) -> i32 {
    match value {
        Value::U8(v) => v.into(),
        Value::I8(v) => v.into(),
        Value::U16(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::U32(v) => v.cast_signed(),
        Value::I32(v) => v,
        Value::F32(_) => 0,
    }
}

impl Sink for Files {
    fn row(&mut self, table: usize, record: &Record<'_>) -> Result<()> {
        self.0.get_mut(table).map_or(Ok(()), |file| file.row(record))
    }

    fn finish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for mut file in self.0 {
            if !file.times.is_empty() {
                file.write()?;
            }
            paths.push(file.writer.into_inner()?.commit()?);
        }
        Ok(paths)
    }
}
