//! MCAP: every kind of record a channel of JSON messages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mcap::records::MessageHeader;
use mcap::write::{WriteOptions, Writer};
use serde_json::{Map, json};
use steady_common::usdlog::{Record, Value};

use super::{Sink, TIME, Table};
use crate::files::Staged;

/// One file for all tables.
pub(super) struct File {
    /// With the channel and the number of the next message.
    tables: Vec<(Table, u16, u32)>,
    writer: Writer<Staged>,
}

impl File {
    pub(super) fn new(tables: &[Table], path: &Path, force: bool) -> Result<Self> {
        let staged = Staged::new(path, force)?;
        let wrong = || format!("{}: cannot be written", path.display());
        let mut writer = WriteOptions::new()
            .compression(None)
            .library(concat!("steady ", env!("CARGO_PKG_VERSION")))
            .create(staged)
            .with_context(wrong)?;
        let mut channels = Vec::new();
        for table in tables {
            let names = std::iter::once(TIME).chain(table.columns.iter().map(|c| c.name.as_str()));
            let properties: Map<_, _> = names.map(|n| (n.to_owned(), json!({ "type": "number" }))).collect();
            let schema = json!({ "type": "object", "properties": properties }).to_string();
            let schema = writer.add_schema(&table.name, "jsonschema", schema.as_bytes())?;
            let channel =
                writer.add_channel(schema, &format!("/{}", table.name), "json", &BTreeMap::new())?;
            channels.push((table.clone(), channel, 0));
        }
        Ok(Self { tables: channels, writer })
    }
}

impl Sink for File {
    fn row(&mut self, table: usize, record: &Record<'_>) -> Result<()> {
        let Some((table, channel_id, number)) = self.tables.get_mut(table) else { return Ok(()) };
        let mut message = Map::new();
        message.insert(TIME.to_owned(), json!(record.time_us));
        for column in &table.columns {
            let value = column.read(record.values);
            let value = match value {
                // JSON has no NaN; it becomes null.
                Some(Value::F32(v)) => json!(v),
                Some(Value::U32(v)) => json!(v),
                Some(v) => json!(v.convert(steady_common::usdlog::Type::I32).to_f64() as i64),
                None => json!(null),
            };
            message.insert(column.name.clone(), value);
        }
        let time_ns = record.time_us.saturating_mul(1000);
        let header = MessageHeader {
            channel_id: *channel_id,
            sequence: *number,
            log_time: time_ns,
            publish_time: time_ns,
        };
        *number = number.wrapping_add(1);
        self.writer.write_to_known_channel(&header, &serde_json::to_vec(&message)?)?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<PathBuf>> {
        self.writer.finish()?;
        Ok(vec![self.writer.into_inner().commit()?])
    }
}
