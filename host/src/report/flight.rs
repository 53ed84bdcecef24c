//! One flight for the page: its downsampled trace and the drone's health.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed_loop::real_drone::ESTIMATE;

/// Longer files are refused.
const MAX_BYTES: u64 = 256 << 20;
/// Points a second that the page shows.
const RATE_HZ: f64 = 25.0;
/// Shown before the reference begins and after it ends, s.
const MARGIN_S: f64 = 0.5;
/// Full motor power.
const FULL_PWM: f64 = 65535.0;

/// A flight as the page shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Trace {
    pub(crate) name: String,
    /// Colour by its meaning: pid, simulator, transfer, steady, or a number.
    pub(crate) key: String,
    /// Time since the reference began, s.
    pub(crate) time_s: Vec<f64>,
    /// Position, m.
    pub(crate) position_m: [Vec<f64>; 3],
    /// Roll, pitch and yaw, degrees.
    pub(crate) attitude_deg: [Vec<f64>; 3],
    /// Motor commands, percent of full power.
    pub(crate) motors_percent: [Vec<f64>; 4],
    /// The reference, m, where there is one.
    pub(crate) reference_m: [Vec<Option<f64>>; 3],
    pub(crate) health: Health,
}

/// The drone's health in a flight.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Health {
    pub(crate) cpu_load: Option<f64>,
    /// Control steps in the log.
    pub(crate) log_records: u64,
    /// Control steps missing in it.
    pub(crate) log_lost: u64,
    /// Voltage at the start and the lowest in flight, V.
    pub(crate) battery_v: Option<[f64; 2]>,
    /// Shortest time left when the watchdog was fed, ms.
    pub(crate) watchdog_margin_ms: Option<f64>,
    /// Radio packets that were sent, and that were not acknowledged.
    pub(crate) radio_packets: [u64; 2],
    pub(crate) resets: usize,
    /// Mean motor commands along the reference, percent of full power.
    pub(crate) motors_percent: [f64; 4],
}

impl Trace {
    /// Reads a flight's folder.
    pub(crate) fn load(folder: &Path, name: &str, key: &str) -> Result<Self> {
        // Of a real drone there is only its own estimate.
        let files = ["truth.csv", ESTIMATE].map(|file| folder.join(file));
        let path = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
        let mut trace = Self { name: name.to_owned(), key: key.to_owned(), ..Self::default() };
        trace.read(path).with_context(|| format!("{}: is not a record of a flight", path.display()))?;
        let path = folder.join("summary.json");
        let text = read(&path)?;
        let summary: Value =
            serde_json::from_str(&text).with_context(|| format!("{}: is not a summary", path.display()))?;
        trace.health.take(&summary);
        Ok(trace)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let text = read(path)?;
        let mut rows: Vec<Row> = Vec::new();
        for (line, row) in (2..).zip(csv::Reader::from_reader(text.as_bytes()).deserialize()) {
            let row: Row = row.with_context(|| format!("line {line}"))?;
            ensure!(row.is_finite(), "line {line}: a value is not finite");
            rows.push(row);
        }
        ensure!(!rows.is_empty(), "it has no rows of time_us, x, y, z and so on");
        let with_reference = || rows.iter().filter(|r| r.ref_x.is_some());
        let start = with_reference().next().or(rows.first()).map_or(0.0, |r| r.time_s());
        let end = with_reference().next_back().or(rows.last()).map_or(0.0, |r| r.time_s());
        let mut next = f64::MIN;
        for row in rows.iter().filter(|r| (start - MARGIN_S..=end + MARGIN_S).contains(&r.time_s())) {
            if row.time_s() < next {
                continue;
            }
            next = row.time_s() + 1.0 / RATE_HZ - 1e-4;
            self.push(row, start);
        }
        let counted = with_reference().count().max(1) as f64;
        self.health.motors_percent = [0, 1, 2, 3].map(|i| {
            round(with_reference().map(|r| 100.0 * r.motors()[i] / FULL_PWM).sum::<f64>() / counted, 1e2)
        });
        let lowest = with_reference().map(|r| r.battery_v).fold(f64::MAX, f64::min);
        let first = rows.iter().map(|r| r.battery_v).find(|v| *v > 0.0);
        self.health.battery_v =
            first.filter(|_| lowest < f64::MAX).map(|v| [round(v, 1e3), round(lowest, 1e3)]);
        Ok(())
    }

    fn push(&mut self, row: &Row, start: f64) {
        self.time_s.push(round(row.time_s() - start, 1e3));
        for (i, value) in [row.x, row.y, row.z].into_iter().enumerate() {
            self.position_m[i].push(round(value, 1e4));
        }
        for (i, value) in [row.roll, row.pitch, row.yaw].into_iter().enumerate() {
            self.attitude_deg[i].push(round(value.to_degrees(), 1e2));
        }
        for (i, value) in row.motors().into_iter().enumerate() {
            self.motors_percent[i].push(round(100.0 * value / FULL_PWM, 1e2));
        }
        for (i, value) in [row.ref_x, row.ref_y, row.ref_z].into_iter().enumerate() {
            self.reference_m[i].push(value.map(|v| round(v, 1e4)));
        }
    }
}

#[derive(Deserialize)]
struct Row {
    time_us: f64,
    x: f64,
    y: f64,
    z: f64,
    roll: f64,
    pitch: f64,
    yaw: f64,
    ref_x: Option<f64>,
    ref_y: Option<f64>,
    ref_z: Option<f64>,
    m1: f64,
    m2: f64,
    m3: f64,
    m4: f64,
    battery_v: f64,
}

impl Row {
    fn time_s(&self) -> f64 {
        self.time_us / 1e6
    }

    fn motors(&self) -> [f64; 4] {
        [self.m1, self.m2, self.m3, self.m4]
    }

    fn is_finite(&self) -> bool {
        let Self { time_us, x, y, z, roll, pitch, yaw, battery_v, .. } = *self;
        let reference = [self.ref_x, self.ref_y, self.ref_z].into_iter().flatten();
        let values = [time_us, x, y, z, roll, pitch, yaw, battery_v].into_iter();
        values.chain(self.motors()).chain(reference).all(f64::is_finite)
    }
}

impl Health {
    fn take(&mut self, summary: &Value) {
        let logs = summary["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let sum = |name: &str| logs.iter().filter_map(|log| log[name].as_u64()).sum();
        self.cpu_load = summary["cpu_load"].as_f64();
        self.log_records = sum("records");
        self.log_lost = sum("lost");
        self.watchdog_margin_ms = summary["watchdog_margin_ms"].as_f64();
        self.radio_packets = [0, 1].map(|i| summary["radio_packets"][i].as_u64().unwrap_or(0));
        self.resets = summary["resets"].as_array().map_or(0, Vec::len);
    }
}

/// A text file of a plausible size.
pub(crate) fn read(path: &Path) -> Result<String> {
    let read = || -> Result<String> {
        let length = std::fs::metadata(path)?.len();
        ensure!(length <= MAX_BYTES, "{length} bytes are too many");
        Ok(std::fs::read_to_string(path)?)
    };
    read().with_context(|| format!("{}: cannot be read", path.display()))
}

pub(crate) fn round(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}
