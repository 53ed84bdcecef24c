//! `steady compare-controllers`: native flights of the firmware's controllers side by side.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use steady_common::Controller;
use steady_native::{Plan, Sample, Until};
use steady_sim::plant::PlantParams;
use steady_sim::{Task, World};

use super::parse;
use crate::closed_loop::{MetricSummary, Outcome};
use crate::out::Table;
use crate::plot::{Chart, Series};
use crate::{files, gains_file, jobs};

/// Fly the firmware's three controllers in simulated worlds; a table and pictures.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// Folder for table and pictures.
    #[arg(short, long, default_value = "controllers")]
    output: PathBuf,
    /// Flights of each kind, with seeds 1, 2, …
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Worlds: names of shipped ones, TOML files, or sample-N, measured-N or outside-N.
    #[arg(long, value_delimiter = ',', default_value = "nominal,paper", value_parser = parse::world)]
    worlds: Vec<String>,
    /// Tasks.
    #[arg(long, value_delimiter = ',', default_value = "hover,figure8", value_parser = parse::task)]
    tasks: Vec<Task>,
    /// Gain table of the differentiable Mellinger: a TOML or .bin file, or `nominal`.
    #[arg(long, default_value = "nominal")]
    gains: String,
    /// Flights at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// The controllers, and their names in the table.
const CONTROLLERS: [(Controller, &str); 3] = [
    (Controller::Pid, "built-in PID"),
    (Controller::StockMellinger, "stock Mellinger"),
    (Controller::Differentiable, "differentiable Mellinger"),
];
/// A picture needs no more than every fifth control step.
const PICTURE_EVERY: usize = 5;

/// Flights of one controller in one task and world.
#[derive(Debug, Serialize)]
struct Row {
    world: String,
    task: Task,
    controller: &'static str,
    #[serde(flatten)]
    summary: MetricSummary,
}

/// The part that counts of the first seed's flight.
type Trace = (&'static str, Vec<Sample>);

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        // Everything is read and checked before anything is written.
        let worlds = self.worlds.iter().map(|w| World::load(w)).collect::<Result<Vec<_>, _>>()?;
        let table = gains_file::load(&self.gains)?;
        files::make_folder(&self.output)?;
        let seeds: Vec<u32> = (1..=u32::from(self.seeds)).collect();
        let (mut rows, mut pictures) = (Vec::new(), Vec::new());
        for world in &worlds {
            let params = PlantParams::new(world)?;
            for task in &self.tasks {
                let mut traces = Vec::new();
                for (controller, name) in CONTROLLERS {
                    let flights = jobs::map(self.jobs, &seeds, |seed| {
                        let plan = Plan {
                            table,
                            controller,
                            seed: u64::from(*seed),
                            until: Until::TaskEnd,
                            ..Plan::new(*task)
                        };
                        Ok(fly(&params, &plan, *seed))
                    })?;
                    let (outcomes, mut samples): (Vec<Outcome>, Vec<Vec<Sample>>) =
                        flights.into_iter().unzip();
                    rows.push(Row {
                        world: world.name.clone(),
                        task: *task,
                        controller: name,
                        summary: MetricSummary::of_flights(&outcomes),
                    });
                    traces.push((name, samples.swap_remove(0)));
                }
                pictures.extend(draw(&self.output, &world.name, *task, &traces)?);
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

/// A flight, and of the first one what a picture needs.
fn fly(world: &PlantParams, plan: &Plan, number: u32) -> (Outcome, Vec<Sample>) {
    let (mut samples, mut step) = (Vec::new(), 0_usize);
    let flown = steady_native::fly(world, plan, |sample| {
        if number == 1 && sample.counts {
            if step.is_multiple_of(PICTURE_EVERY) {
                samples.push(*sample);
            }
            step += 1;
        }
    });
    let outcome = Outcome {
        flight: number,
        seed: plan.seed,
        trouble: flown.failure,
        metrics: flown.metrics,
        steps: flown.records.len() as u64,
        lost: 0,
        cpu_load: 0.0,
        new_card: false,
    };
    (outcome.rounded(), samples)
}

fn table_text(rows: &[Row]) -> String {
    let head = ["world", "task", "controller"].map(str::to_owned);
    let mut table = Table::new(head.into_iter().chain(MetricSummary::headings()));
    for r in rows {
        let head = [r.world.clone(), r.task.to_string(), r.controller.to_owned()];
        table.row(head.into_iter().chain(r.summary.cells()));
    }
    table.to_string()
}

fn draw(folder: &Path, world: &str, task: Task, traces: &[Trace]) -> Result<Vec<PathBuf>> {
    type Point = fn(&Sample) -> (f64, f64);
    let lines = |f: Point| traces.iter().map(move |(name, samples)| line(name, samples, f));
    let reference = |f: Point| {
        // The longest flight has the whole of it.
        let longest = traces.iter().map(|(_, samples)| samples).max_by_key(|s| s.len());
        longest.map(|samples| Series { is_reference: true, ..line("reference", samples, f) })
    };
    let chart = if !matches!(task, Task::Hover | Task::TakeoffLand) {
        Chart {
            title: format!("{task} from above, world {world}"),
            x_label: "x (m)".to_owned(),
            y_label: "y (m)".to_owned(),
            equal_axes: true,
            series: lines(|s| (s.truth.position.x.into(), s.truth.position.y.into()))
                .chain(reference(|s| (s.reference.position.x.into(), s.reference.position.y.into())))
                .collect(),
        }
    } else {
        Chart {
            title: format!("Height, {task}, world {world}"),
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
            y_label: "motor command (percent)".to_owned(),
            equal_axes: false,
            series: vec![
                motor(1, |s| (s.time_s.into(), f64::from(s.pwm[0]) / 655.35)),
                motor(2, |s| (s.time_s.into(), f64::from(s.pwm[1]) / 655.35)),
                motor(3, |s| (s.time_s.into(), f64::from(s.pwm[2]) / 655.35)),
                motor(4, |s| (s.time_s.into(), f64::from(s.pwm[3]) / 655.35)),
            ],
        };
        written.extend(chart.save(&folder.join(format!("motors-{world}")))?);
    }
    Ok(written)
}

fn line(name: &str, samples: &[Sample], point: fn(&Sample) -> (f64, f64)) -> Series {
    Series { name: name.to_owned(), points: samples.iter().map(point).collect(), ..Series::default() }
}
