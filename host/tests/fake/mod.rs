//! A fake drone and learner, for what the real ones are too slow for.
#![allow(dead_code, unreachable_pub, reason = "every test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use serde_json::json;
use steady::closed_loop::drone::FLASH;
use steady::closed_loop::{Drone, Flashed, FlightRequest, Learner, Outcome};
use steady_common::{Controller, GainTable};
use steady_sim::FlightMetrics;

/// A drone that flies the better the nearer a gain is to 1.5 times its nominal value, and is killed at one
/// of its calls.
#[derive(Default)]
pub struct FakeDrone {
    /// Calls so far.
    pub calls: AtomicUsize,
    /// The call that fails.
    pub killed_at: Option<usize>,
}

impl FakeDrone {
    fn call(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("half"), "half")?;
        if Some(self.calls.fetch_add(1, Ordering::SeqCst)) == self.killed_at {
            bail!("killed");
        }
        Ok(())
    }
}

/// How far the gain is from its nominal value.
pub fn ratio(table: &GainTable) -> f64 {
    f64::from(table.gains.position.p.z / GainTable::built_in().gains.position.p.z)
}

impl Drone for FakeDrone {
    fn flash(&self, before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed> {
        self.call(folder)?;
        let last = before.map(|b| GainTable::decode(&fs::read(b.join(FLASH)).unwrap()).unwrap().sequence);
        let sequence = last.unwrap_or(0) + 1;
        fs::write(folder.join(FLASH), GainTable { sequence, ..*table }.encode())?;
        Ok(Flashed { sequence, page: sequence as usize - 1 })
    }

    fn fly(&self, flight: &FlightRequest, folder: &Path) -> Result<Outcome> {
        self.call(folder)?;
        let table = GainTable::decode(&fs::read(flight.drone.join(FLASH))?)?;
        let off = if flight.controller == Controller::Pid { 1.0 } else { (ratio(&table) - 1.5).abs() };
        let wobble = f64::from((flight.seed % 7) as u32);
        let is_good = ratio(&table) < 3.0;
        write_flight(folder, off);
        Ok(Outcome {
            flight: flight.number,
            seed: flight.seed,
            trouble: (!is_good).then(|| "it crashed".to_owned()),
            metrics: Some(FlightMetrics {
                duration_s: 10.0,
                tracking_error_m: 0.1 * off,
                max_error_m: 0.2 * off,
                cumulative_reward: -1000.0 * off - wobble - off * wobble / 3.0,
                tilt_rms_rad: 0.01,
                hover_height_error_m: 0.05 * off,
                crash: None,
            }),
            steps: if flight.faults.is_empty() { 5000 } else { 0 },
            lost: 0,
            cpu_load: 0.3,
            new_card: false,
        })
    }
}

/// Proposes tables from a list of ratios, the next with every call; a smaller step goes less far.
pub struct FakeLearner {
    ratios: Vec<f32>,
    /// Flights and scale of every call.
    pub asked: Mutex<Vec<(usize, f32)>>,
}

impl FakeLearner {
    /// With these ratios.
    pub fn new(ratios: &[f32]) -> Self {
        Self { ratios: ratios.to_vec(), asked: Mutex::default() }
    }
}

impl Learner for FakeLearner {
    fn first_table(&self) -> Result<GainTable> {
        Ok(GainTable { sequence: 1, ..GainTable::built_in() })
    }

    fn adapt(&self, logs: &[PathBuf], scale: f32, folder: &Path) -> Result<Option<GainTable>> {
        assert!(logs.iter().all(|l| l.join("half").exists()), "{logs:?}");
        fs::write(folder.join("adapt.json"), "{}")?;
        self.asked.lock().unwrap().push((logs.len(), scale));
        // Three flights an iteration.
        let Some(ratio) = self.ratios.get(logs.len() / 3 - 1) else { return Ok(None) };
        let mut table = self.first_table()?;
        table.gains.position.p.z *= ratio;
        Ok(Some(table))
    }
}

/// The files that a report looks at: a drone that circles beside its reference, with a weak first motor.
fn write_flight(folder: &Path, off: f64) {
    let mut csv = String::from(
        "time_us,x,y,z,vx,vy,vz,roll,pitch,yaw,wx,wy,wz,m1,m2,m3,m4,battery_v,ref_x,ref_y,ref_z\n",
    );
    for step in 0..800 {
        let t = 0.01 * f64::from(step);
        let (x, y, z) = (t.sin(), 0.5 * (2.0 * t).sin(), 1.0);
        let reference = if step < 700 { format!("{x},{y},{z}") } else { ",,".to_owned() };
        let (here, battery) = (1.0 + 0.1 * off, 4.1 - 0.01 * t);
        csv += &format!(
            "{},{},{},{},0,0,0,{},0.05,0,0,0,0,42000,38000,38000,38000,{battery},{reference}\n",
            10_000 * step,
            x * here,
            y * here,
            z - 0.05 * off,
            0.1 * t.sin(),
        );
    }
    fs::write(folder.join("truth.csv"), csv).unwrap();
    let summary = json!({
        "cpu_load": 0.32, "watchdog_margin_ms": 187.0, "radio_packets": [2000, 30, 0], "resets": [],
        "logs": [{ "name": "log00", "records": 4000, "lost": 0 }],
    });
    fs::write(folder.join("summary.json"), summary.to_string()).unwrap();
}
