//! Times reading a log of 2 GB through the library, from a file, and the memory it takes. Run by
//! `cargo xtask bench`.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use steady_common::law::{self, Memory};
use steady_common::transition::{Flags, RECORD_SIZE, Transition};
use steady_common::{GainTable, State, Trajectory, Vec3};
use steady_data::log::info::info;
use steady_data::log::{Log, replay};
use steady_native::log::Writer;

/// Size of the file, bytes.
const SIZE: u64 = 2_000_000_000;
/// Different steps; the file repeats them with new numbers.
const STEPS: u32 = 5000;

fn main() -> Result<()> {
    // A benchmark may have an argument that is meant for another.
    let size = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(SIZE);
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let path = folder.path().join("log00");
    let steps = write(&path, size)?;
    let bytes = std::fs::metadata(&path)?.len() as f64;

    // What the disk gives, the file's second reading being from the page cache as are those below.
    read(&path)?;
    let plain = bytes / read(&path)?;
    let mut log = Log::open(&path)?;
    let started = Instant::now();
    let found = info(&mut log)?;
    let rate = bytes / started.elapsed().as_secs_f64();
    let counted = found.steps.map_or(0, |s| s.found);
    ensure!(counted == steps && found.ending == "complete", "{counted} of {steps} steps, {}", found.ending);
    let mb = |rate: f64| rate / 1e6;
    println!(
        "BENCH\tlog of {:.1} GB, summary\t{:.0}\tMB/s\treading it only\t{:.0}\t>=200",
        bytes / 1e9,
        mb(rate),
        mb(plain)
    );

    let started = Instant::now();
    let again = replay::replay(&mut log, &[])?;
    let rate = bytes / started.elapsed().as_secs_f64();
    ensure!(again.differing_bits == 0 && again.replayed > 0, "{again:?}");
    println!(
        "BENCH\tthe same, computed again\t{:.0}\tMB/s\ta flight's 0.1385\t{:.4}\t-",
        mb(rate),
        500.0 * RECORD_SIZE as f64 / 1e6
    );
    println!("BENCH\tmemory for both\t{:.0}\tMB\tits limit\t300\t<=300", peak_mb()?);
    Ok(())
}

/// A flight's steps over and over, with numbers that go on; gives how many.
fn write(path: &Path, size: u64) -> Result<u64> {
    let table = GainTable::built_in();
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, File::create(path)?))?;
    let count = size / RECORD_SIZE as u64;
    let mut memory = Memory::default();
    for n in 0..count {
        let k = n as u32 % STEPS;
        if k == 0 {
            memory = Memory::default();
        }
        let t = k as f32 * 0.002;
        let reference = Trajectory::FIGURE_EIGHT.at(t);
        let state = State {
            position: reference.position + Vec3::new(0.01, -0.02, 0.005),
            velocity: reference.velocity,
            ..State::default()
        };
        let mut step = Transition {
            time_us: 2000 * n,
            sequence: n as u32,
            state,
            reference,
            dt_s: 0.002,
            battery_v: 3.9,
            ..Transition::default()
        };
        step.set_law_memory(&memory);
        step.flags = step.flags.with(Flags::LAW, true).with(Flags::FLYING, true);
        step.action = law::step(&table.gains, &table.vehicle, &state, &reference, &mut memory, step.dt_s);
        step.applied = step.action;
        writer.step(&step)?;
    }
    writer.finish()?.flush()?;
    Ok(count)
}

/// Reads a file and does nothing with it; gives the seconds.
fn read(path: &Path) -> Result<f64> {
    let started = Instant::now();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(started.elapsed().as_secs_f64())
}

/// Most memory this process has had, MB.
fn peak_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc: memory is not measured")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb * 1024.0 / 1e6)
}
