//! TensorBoard event files: scalars over steps.
//!
//! A file is a sequence of records: length (u64), masked CRC-32C of the length, the bytes, masked
//! CRC-32C of the bytes. The bytes are a protobuf `Event` with wall time, step, and a summary of
//! tags and values; the first event names the format's version instead.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// Appends scalars to an event file.
#[derive(Debug)]
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// A new event file in `folder`. TensorBoard reads all files of a folder, so a resumed run
    /// simply adds one.
    pub fn create(folder: &Path) -> Result<Self> {
        let now = wall_time();
        let path =
            folder.join(format!("events.out.tfevents.{:010}.steady.{}", now as u64, std::process::id()));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be made", path.display()))?;
        let mut events = Self { file, path };
        let mut event = Vec::new();
        field_f64(&mut event, 1, now);
        field_bytes(&mut event, 3, b"brain.Event:2");
        events.append(&event)?;
        Ok(events)
    }

    /// Appends the scalars of one step, in one record.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        self.append(&scalar_event(wall_time(), step, values))
    }

    fn append(&mut self, event: &[u8]) -> Result<()> {
        self.file
            .write_all(&record(event))
            .with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn scalar_event(wall_time: f64, step: u64, values: &[(&str, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut entry = Vec::new();
        field_bytes(&mut entry, 1, tag.as_bytes());
        key(&mut entry, 2, 5);
        entry.extend((*value as f32).to_le_bytes());
        field_bytes(&mut summary, 1, &entry);
    }
    let mut event = Vec::new();
    field_f64(&mut event, 1, wall_time);
    key(&mut event, 2, 0);
    varint(&mut event, step);
    field_bytes(&mut event, 5, &summary);
    event
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(bytes.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(bytes);
    record.extend(masked_crc(bytes).to_le_bytes());
    record
}

/// The format stores checksums rotated and shifted, so that a checksum of checksums is sound.
fn masked_crc(bytes: &[u8]) -> u32 {
    CRC.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Protobuf: field number and wire type.
fn key(out: &mut Vec<u8>, field: u8, wire_type: u8) {
    out.push(field << 3 | wire_type);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field_f64(out: &mut Vec<u8>, field: u8, value: f64) {
    key(out, field, 1);
    out.extend(value.to_le_bytes());
}

fn field_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    key(out, field, 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        // CRC-32C's check value, and the mask's rotation and offset.
        assert_eq!(CRC.checksum(b"123456789"), 0xe306_9283);
        assert_eq!(masked_crc(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
        let event = scalar_event(1.5, 300, &[("a/b", 2.0)]);
        let expected = [
            &[0x09][..],
            &1.5_f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],
            &[0x2a, 12, 0x0a, 10, 0x0a, 3],
            b"a/b",
            &[0x15],
            &2.0_f32.to_le_bytes(),
        ]
        .concat();
        assert_eq!(event, expected);
    }

    #[test]
    fn a_file_holds_a_version_and_every_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path()).unwrap();
        for step in 0..3 {
            events.scalars(step, &[("charts/episodic_return", -1.0), ("charts/SPS", 5.0)]).unwrap();
        }
        let mut bytes = &std::fs::read(&events.path).unwrap()[..];
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(12);
            let length = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
            assert_eq!(head[8..], masked_crc(&head[..8]).to_le_bytes());
            assert_eq!(rest[length..length + 4], masked_crc(&rest[..length]).to_le_bytes());
            records.push(rest[..length].to_vec());
            bytes = &rest[length + 4..];
        }
        assert_eq!(records.len(), 4);
        assert!(records[0].ends_with(b"brain.Event:2"));
        assert!(records[3].windows(22).any(|w| w == b"charts/episodic_return"));
    }
}
