//! Attacks the log reader with damaged and senseless files.
//!
//! `cargo run --profile test -p steady-data --example fuzz_log -- --cases 1000000` takes any input through
//! everything that reads logs: header, records, segments, summary, replay and check. It must not panic,
//! and what it finds must add up.

use std::io::Cursor;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use steady_common::GainTable;
use steady_common::gains_record::GainsRecord;
use steady_common::transition::{Flags, RECORD_SIZE, Transition};
use steady_common::usdlog::{RECORD_CRC, Type, write};
use steady_data::log::info::info;
use steady_data::log::{Log, LogError, check, each_step, replay};
use steady_native::log::Writer;
use steady_sim::Rng;

/// Attack the log reader.
#[derive(Parser)]
struct Args {
    /// Inputs.
    #[arg(long, default_value_t = 1_000_000)]
    cases: u64,
    /// The same seed gives the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut attacker =
        Attacker { rng: Rng::new(args.seed, 0), whole: vec![ours(), official(2), official(1)] };
    let started = Instant::now();
    let (mut opened, mut records, mut steps) = (0_u64, 0, 0);
    for _ in 0..args.cases {
        let input = attacker.input();
        let length = input.len() as u64;
        let Ok(mut log) = Log::new("input".to_owned(), Cursor::new(input)) else { continue };
        opened += 1;
        let found = match info(&mut log) {
            Ok(found) => found,
            // A header with other fields than ours.
            Err(LogError::Schema { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        ensure!(found.skipped_bytes <= length, "more bytes left out than there are: {found:?}");
        let mut count = 0;
        each_step(&mut log, |_| count += 1)?;
        let again = replay::replay(&mut log, &[])?;
        ensure!(again.steps == count, "{} and {count} steps", again.steps);
        check::check(&mut log)?;
        records += found.records;
        steps += count;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} inputs in {seconds:.0} s, no panic: {opened} had a header, with {records} records, {steps} of them control steps",
        args.cases
    );
    Ok(())
}

struct Attacker {
    rng: Rng,
    whole: Vec<Vec<u8>>,
}

impl Attacker {
    fn below(&mut self, limit: usize) -> usize {
        self.rng.next_u32() as usize % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    /// A file: whole ones, damaged in some ways, seldom pure noise.
    fn input(&mut self) -> Vec<u8> {
        let which = self.below(self.whole.len() + 1);
        let mut bytes = match self.whole.get(which) {
            Some(file) => file.clone(),
            None => {
                let length = self.below(600);
                let mut noise: Vec<u8> = (0..length).map(|_| self.byte()).collect();
                noise.splice(0..0, [0xBC, 2, 0, self.byte() % 4, 0]);
                noise
            }
        };
        for _ in 0..self.below(4) {
            self.damage(&mut bytes);
        }
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(7) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.byte(),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + self.below(600)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let more: Vec<u8> = (0..self.below(400)).map(|_| self.byte()).collect();
                bytes.splice(at..at, more);
            }
            5 => {
                let end = (at + self.below(1000)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.extend(copy);
            }
            _ => self.forge(bytes),
        }
    }

    /// Any values in a control step, with the right checksum: what only a hostile writer makes.
    fn forge(&mut self, bytes: &mut [u8]) {
        let places: Vec<usize> =
            bytes.windows(2).enumerate().filter(|(_, w)| w == b"ST").map(|(i, _)| i).collect();
        if places.is_empty() {
            return;
        }
        let at = places[self.below(places.len())];
        let Some(record) = bytes.get_mut(at..at + RECORD_SIZE) else { return };
        for _ in 0..1 + self.below(40) {
            let place = 2 + self.below(RECORD_SIZE - 4);
            record[place] = self.byte();
        }
        if let Some((covered, crc)) = record.split_last_chunk_mut::<2>() {
            *crc = RECORD_CRC.checksum(covered).to_le_bytes();
        }
    }
}

/// A short log of this firmware.
fn ours() -> Vec<u8> {
    let write = || -> std::io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new())?;
        for n in 0..12_u32 {
            if n % 6 == 0 {
                let table = GainTable { sequence: 1 + n, ..GainTable::built_in() };
                writer.gains(&GainsRecord { time_us: 1, table, try_out: n == 6 })?;
            }
            let flags = Flags::default().with(Flags::LAW, true).with(Flags::FLYING, n > 2);
            let (time_us, table) = (2000 * u64::from(n), 1 + n / 6 * 6);
            writer.step(&Transition {
                time_us,
                sequence: n,
                dt_s: 0.002,
                flags,
                table,
                ..Transition::default()
            })?;
        }
        writer.finish()
    };
    write().unwrap_or_default()
}

/// A short log as the official firmware writes it: several events, none with checksums of their own.
fn official(version: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = |b: &[u8]| bytes.extend_from_slice(b);
    write::begin(&mut sink, 3);
    for (id, name) in [(7, "estGyroscope"), (3, "estAcceleration"), (0xFFFF, "fixedFrequency")] {
        write::event(&mut sink, id, name, 3);
        for (variable, kind) in [("a.x", Type::F32), ("a.y", Type::I16), ("a.z", Type::F16)] {
            write::variable(&mut sink, &[variable], kind);
        }
    }
    bytes[1] = version;
    for n in 0..60_u64 {
        let id = [7_u16, 3, 0xFFFF][n as usize % 3];
        bytes.extend(id.to_le_bytes());
        if version == 1 {
            bytes.extend((n as u32).to_le_bytes());
        } else {
            bytes.extend((1000 * n).to_le_bytes());
        }
        bytes.extend([n as u8; 8]);
    }
    let crc = steady_common::usdlog::FILE_CRC.checksum(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}
