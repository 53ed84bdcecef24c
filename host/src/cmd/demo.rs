//! `steady demo`: the simulator's flights side by side.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use steady_common::Gains;
use steady_common::law::Vehicle;
use steady_sim::flight::{self, Sample};
use steady_sim::pilot::Pilot;
use steady_sim::{FlightMetrics, Params, Task, World};

use crate::plot::{Chart, Series};
use crate::{files, gains_file};

/// Fly the simulator: three controllers, two tasks, two worlds; a table and pictures.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Folder for table and pictures.
    #[arg(short, long, default_value = "demo")]
    output: PathBuf,
    /// Flights of each kind, with seeds 1, 2, …
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Worlds: names of shipped ones or TOML files.
    #[arg(long, value_delimiter = ',', default_value = "nominal,paper")]
    worlds: Vec<String>,
    /// Gain table of the differentiable Mellinger: a TOML or .bin file, or `nominal`.
    #[arg(long, default_value = "nominal")]
    gains: String,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// The tasks that are flown.
const TASKS: [Task; 2] = [Task::Hover, Task::FigureEight];
/// A picture needs no more than every fifth control step.
const PICTURE_EVERY: usize = 5;

/// Mean figures of the flights of one controller in one task and world.
#[derive(Debug, Serialize)]
struct Row {
    world: String,
    task: &'static str,
    controller: &'static str,
    flights: u16,
    crashes: u16,
    tracking_error_m: f64,
    cumulative_reward: f64,
    tilt_rms_rad: f64,
}

impl Cmd {
    /// Does it.
    ///
    /// # Errors
    /// If a world or the gains are not valid, or the output cannot be written.
    pub(crate) fn run(self) -> Result<()> {
        // Everything is read and checked before anything is written.
        let worlds = self.worlds.iter().map(|w| World::load(w)).collect::<Result<Vec<_>, _>>()?;
        let table = gains_file::load(&self.gains)?;
        let pilots = pilots(table.gains, table.vehicle);
        fs::create_dir_all(&self.output)
            .with_context(|| format!("{}: cannot make the folder", self.output.display()))?;

        let mut rows = Vec::new();
        let mut pictures = Vec::new();
        for world in &worlds {
            let params = flight::params(world)?;
            for task in TASKS {
                let mut traces = Vec::new();
                for (controller, pilot) in &pilots {
                    let summaries: Vec<_> = (1..=u64::from(self.seeds))
                        .map(|seed| flight::fly(&params, *pilot, task, seed, |_| {}))
                        .collect();
                    rows.push(Row::new(&world.name, task, controller, &summaries));
                    traces.push((*controller, trace(&params, *pilot, task)));
                }
                pictures.extend(draw(&self.output, &world.name, task, &traces)?);
            }
        }
        let text = table_text(&rows);
        files::write(&self.output.join("table.md"), text.as_bytes())?;
        files::write(&self.output.join("table.json"), serde_json::to_string_pretty(&rows)?.as_bytes())?;
        if self.json {
            println!("{}", serde_json::to_string(&rows)?);
        } else {
            print!("{text}");
        }
        eprintln!("{} pictures and table.md, table.json in {}", pictures.len(), self.output.display());
        Ok(())
    }
}

fn pilots(gains: Gains, vehicle: Vehicle) -> [(&'static str, Pilot); 3] {
    [
        ("built-in PID", Pilot::pid()),
        ("stock Mellinger", Pilot::stock_mellinger()),
        ("differentiable Mellinger", Pilot::mellinger(gains, vehicle)),
    ]
}

impl Row {
    fn new(world: &str, task: Task, controller: &'static str, summaries: &[FlightMetrics]) -> Self {
        let mean =
            |f: fn(&FlightMetrics) -> f64| summaries.iter().map(f).sum::<f64>() / summaries.len() as f64;
        Self {
            world: world.to_owned(),
            task: task.name(),
            controller,
            flights: summaries.len() as u16,
            crashes: summaries.iter().filter(|s| s.crash.is_some()).count() as u16,
            tracking_error_m: mean(|s| s.tracking_error_m),
            cumulative_reward: mean(|s| s.cumulative_reward),
            tilt_rms_rad: mean(|s| s.tilt_rms_rad),
        }
    }
}

fn table_text(rows: &[Row]) -> String {
    let mut text = String::from(
        "| world   | task    | controller               | tracking error (cm) | cumulative reward | roll/pitch RMS (deg) | crashes |\n\
         |---------|---------|--------------------------|--------------------:|------------------:|---------------------:|--------:|\n",
    );
    for r in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {:<7} | {:<7} | {:<24} | {:>19.2} | {:>17.0} | {:>20.2} | {:>4} / {} |",
            r.world,
            r.task,
            r.controller,
            100.0 * r.tracking_error_m,
            r.cumulative_reward,
            r.tilt_rms_rad.to_degrees(),
            r.crashes,
            r.flights,
        );
    }
    text
}

/// The first seed's flight, thinned for a picture.
fn trace(params: &Params, pilot: Pilot, task: Task) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut step = 0_usize;
    flight::fly(params, pilot, task, 1, |sample| {
        if step.is_multiple_of(PICTURE_EVERY) {
            samples.push(*sample);
        }
        step += 1;
    });
    samples
}

fn draw(folder: &Path, world: &str, task: Task, traces: &[(&str, Vec<Sample>)]) -> Result<Vec<PathBuf>> {
    type Point = fn(&Sample) -> (f64, f64);
    let lines = |f: Point| traces.iter().map(move |(name, samples)| line(name, samples, f));
    let reference = |f: Point| {
        // The longest flight has the whole of it.
        let longest = traces.iter().map(|(_, samples)| samples).max_by_key(|s| s.len());
        longest.map(|samples| Series { is_reference: true, ..line("reference", samples, f) })
    };
    let chart = if task == Task::FigureEight {
        Chart {
            title: format!("Figure eight from above, world {world}"),
            x_label: "x (m)".to_owned(),
            y_label: "y (m)".to_owned(),
            equal_axes: true,
            series: lines(|s| (s.truth.position.x.into(), s.truth.position.y.into()))
                .chain(reference(|s| (s.reference.position.x.into(), s.reference.position.y.into())))
                .collect(),
        }
    } else {
        Chart {
            title: format!("Height in hover, world {world}"),
            x_label: "time (s)".to_owned(),
            y_label: "height (m)".to_owned(),
            equal_axes: false,
            series: lines(|s| (s.time_s.into(), s.truth.position.z.into()))
                .chain(reference(|s| (s.time_s.into(), s.reference.position.z.into())))
                .collect(),
        }
    };
    let mut written = chart.save(&folder.join(format!("{}-{world}", task.name())))?.to_vec();

    if let (Task::Hover, Some((name, samples))) = (task, traces.last()) {
        let motor = |n: usize, f: Point| line(&format!("M{n}"), samples, f);
        let chart = Chart {
            title: format!("Motor commands in hover, {name}, world {world}"),
            x_label: "time (s)".to_owned(),
            y_label: "thrust (1 = full)".to_owned(),
            equal_axes: false,
            series: vec![
                motor(1, |s| (s.time_s.into(), s.motors[0].into())),
                motor(2, |s| (s.time_s.into(), s.motors[1].into())),
                motor(3, |s| (s.time_s.into(), s.motors[2].into())),
                motor(4, |s| (s.time_s.into(), s.motors[3].into())),
            ],
        };
        written.extend(chart.save(&folder.join(format!("motors-{world}")))?);
    }
    Ok(written)
}

fn line(name: &str, samples: &[Sample], point: fn(&Sample) -> (f64, f64)) -> Series {
    Series { name: name.to_owned(), points: samples.iter().map(point).collect(), ..Series::default() }
}
