//! `steady log estimate`: the drone's estimator on recorded flights.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use steady_common::estimator::{CRAZYFLIE_DRAG_PER_S, MAX_AGE_S};
use steady_reality::Recording;
use steady_reality::estimate::{Errors, Judge, Setup};

use crate::out::Table;

#[derive(Debug, Args)]
pub(super) struct Cmd {
    /// Recorded flights: CSV files, plain or gzipped.
    #[arg(required = true, value_name = "FLIGHT")]
    flights: Vec<PathBuf>,
    /// Drag that the estimator assumes (`kalman.drag`), 1/s.
    #[arg(long, default_value_t = CRAZYFLIE_DRAG_PER_S)]
    drag: f32,
    /// How old motion capture is when the estimator gets it, ms.
    #[arg(long, default_value_t = 20)]
    delay_ms: u16,
    /// A row for every flight as well.
    #[arg(long)]
    each: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An estimate's errors: means over flights, and each flight's.
#[derive(Debug, Serialize)]
struct Row {
    estimate: String,
    mean: Errors,
    flights: Vec<(String, Errors)>,
}

impl Row {
    fn new(estimate: String, flights: Vec<(String, Errors)>) -> Self {
        let mean = Errors::mean(&flights.iter().map(|(_, errors)| *errors).collect::<Vec<_>>());
        Self { estimate, mean, flights }
    }
}

impl Cmd {
    pub(super) fn run(&self) -> Result<()> {
        let mut judges = Vec::new();
        for file in &self.flights {
            judges.extend(Judge::all(&Recording::open(file)?)?);
        }
        let rows = self.rows(&judges)?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&rows)?);
            return Ok(());
        }
        let mut table = Table::new(["estimate", "flights", "velocity (m/s)", "tilt (deg)", "yaw (deg)"]);
        for row in &rows {
            let mut add = |name: &str, flights: String, e: &Errors| {
                let [velocity, tilt, yaw] =
                    [(e.velocity_m_s, 3), (e.tilt_deg, 2), (e.yaw_deg, 2)].map(|(v, d)| format!("{v:.d$}"));
                table.row([name.to_owned(), flights, velocity, tilt, yaw]);
            };
            add(&row.estimate, row.flights.len().to_string(), &row.mean);
            for (name, errors) in row.flights.iter().filter(|_| self.each) {
                add(&format!("  {name}"), String::new(), errors);
            }
        }
        print!("{table}");
        Ok(())
    }

    fn rows(&self, judges: &[Judge]) -> Result<Vec<Row>> {
        let logged: Vec<(String, Errors)> =
            judges.iter().filter_map(|judge| Some((judge.name.clone(), judge.logged()?))).collect();
        let mut rows = Vec::new();
        if !logged.is_empty() {
            rows.push(Row::new("the drone's own, recorded".to_owned(), logged));
        }
        let delay_s = f64::from(self.delay_ms) * 1e-3;
        let told_delay_s = (delay_s as f32).min(MAX_AGE_S);
        for (what, setup) in [("pose", Setup::pose(delay_s)), ("position only", Setup::position(delay_s))] {
            let drag = self.drag;
            let with_drag = Setup { drag_per_s: drag, ..setup };
            for (name, setup) in [
                (format!("{what}, no drag"), setup),
                (format!("{what}, drag {drag} 1/s"), with_drag),
                (format!("{what}, drag {drag} 1/s, delay told"), Setup { told_delay_s, ..with_drag }),
            ] {
                let errors = |judge: &Judge| {
                    let errors = judge.ours(&setup).with_context(|| format!("{}, {name}", judge.name))?;
                    Ok((judge.name.clone(), errors))
                };
                rows.push(Row::new(name.clone(), judges.iter().map(errors).collect::<Result<_>>()?));
            }
        }
        Ok(rows)
    }
}
