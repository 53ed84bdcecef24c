//! The paper's pictures: trajectories in space and from above, roll and pitch, and how the error falls.

use std::path::PathBuf;

use anyhow::{Context, Result};
use steady_common::Vec3;
use steady_sim::flight::{self, Sample, Task};

use crate::plot::space::{PathInSpace, Space};
use crate::plot::{Chart, Series};
use crate::stats::mean_95;

use super::bench::{Bench, Key};
use super::judge::Use;
use super::results::{Group, Results};
use super::suite::{Controller, learned_on};

/// A picture needs no more than every fifth control step.
const EVERY: usize = 5;
/// More worlds than these are not drawn.
const MOST_WORLDS: usize = 3;

/// The first flight of the first seed of a controller.
type Trace = (&'static str, Vec<Sample>);
type Point = fn(&Sample) -> (f64, f64);

/// Draws everything into the folder's `figures`; gives the pictures.
///
/// # Errors
/// If something cannot be read or written.
pub fn draw(bench: &Bench, results: &Results) -> Result<Vec<PathBuf>> {
    let folder = bench.folder().join("figures");
    std::fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let mut pictures = Vec::new();
    for world in results.settings.worlds.iter().take(MOST_WORLDS) {
        for task in &results.settings.tasks {
            let stem = |name: &str| folder.join(format!("{world}-{}-{name}", task.name()));
            let traces = traces(bench, world, *task)?;
            pictures.extend(space(&traces, world, *task).save(&stem("3d"))?);
            let mut charts = flights(&traces, world, *task);
            charts.extend(learning(results, world, *task));
            for (name, chart) in charts {
                pictures.extend(chart.save(&stem(name))?);
            }
        }
    }
    Ok(pictures)
}

fn traces(bench: &Bench, world: &str, task: Task) -> Result<Vec<Trace>> {
    let seed = bench.settings.seeds.first().copied().unwrap_or(1);
    let trace = |controller: &Controller| {
        let key =
            Key { world: world.to_owned(), task, controller: *controller, variation: String::new(), seed };
        let (mut samples, mut step) = (Vec::new(), 0_usize);
        let flight_seed = Use::Judgement.seed(seed, 0);
        flight::fly(bench.world(world)?, bench.pilot(&key)?, task, flight_seed, |sample| {
            if step.is_multiple_of(EVERY) {
                samples.push(*sample);
            }
            step += 1;
        });
        Ok((controller.title(), samples))
    };
    bench.settings.controllers.iter().map(trace).collect()
}

fn flights(traces: &[Trace], world: &str, task: Task) -> Vec<(&'static str, Chart)> {
    let chart =
        |title: &str, x: &str, y: &str, point: Point, reference: Option<Point>, equal_axes: bool| Chart {
            title: format!("{title}, {}, world {world}", task.name()),
            x_label: x.to_owned(),
            y_label: y.to_owned(),
            equal_axes,
            series: lines(traces, point, reference),
        };
    let above: Point = |s| (s.truth.position.x.into(), s.truth.position.y.into());
    let above_reference: Point = |s| (s.reference.position.x.into(), s.reference.position.y.into());
    let mut charts = vec![
        ("roll", chart("Roll", "time (s)", "roll (deg)", |s| (s.time_s.into(), angles(s).0), None, false)),
        ("pitch", chart("Pitch", "time (s)", "pitch (deg)", |s| (s.time_s.into(), angles(s).1), None, false)),
    ];
    if matches!(task, Task::Hover | Task::TakeoffLand) {
        charts.push((
            "height",
            chart(
                "Height",
                "time (s)",
                "height (m)",
                |s| (s.time_s.into(), s.truth.position.z.into()),
                Some(|s| (s.time_s.into(), s.reference.position.z.into())),
                false,
            ),
        ));
    } else {
        charts.push(("above", chart("From above", "x (m)", "y (m)", above, Some(above_reference), true)));
    }
    charts
}

fn lines(traces: &[Trace], point: Point, reference: Option<Point>) -> Vec<Series> {
    let line = |name: &str, samples: &[Sample], point: Point| Series {
        name: name.to_owned(),
        points: samples.iter().map(point).collect(),
        ..Series::default()
    };
    let mut series: Vec<Series> = traces.iter().map(|(name, samples)| line(name, samples, point)).collect();
    if let (Some(samples), Some(reference)) = (longest(traces), reference) {
        series.push(Series { is_reference: true, ..line("reference", samples, reference) });
    }
    series
}

fn space(traces: &[Trace], world: &str, task: Task) -> Space {
    let path = |name: &str, samples: &[Sample], place: fn(&Sample) -> Vec3, is_reference| PathInSpace {
        name: name.to_owned(),
        points: samples.iter().map(place).map(|p| [p.x, p.y, p.z].map(f64::from)).collect(),
        is_reference,
    };
    let mut paths: Vec<PathInSpace> =
        traces.iter().map(|(name, samples)| path(name, samples, |s| s.truth.position, false)).collect();
    paths.extend(longest(traces).map(|samples| path("reference", samples, |s| s.reference.position, true)));
    Space { title: format!("{}, world {world} (m)", task.name()), paths }
}

/// The longest flight has the whole of the reference.
fn longest(traces: &[Trace]) -> Option<&[Sample]> {
    traces.iter().map(|(_, samples)| &samples[..]).max_by_key(|samples| samples.len())
}

fn angles(s: &Sample) -> (f64, f64) {
    let rpy = s.truth.attitude.to_euler();
    (f64::from(rpy.x).to_degrees(), f64::from(rpy.y).to_degrees())
}

/// Tracking error over flights, mean and 95 % over seeds.
fn learning(results: &Results, world: &str, task: Task) -> Option<(&'static str, Chart)> {
    let series: Vec<Series> = [Controller::Transfer, Controller::Steady]
        .into_iter()
        .filter_map(|controller| curve(results, Group { world, task, controller, variation: "" }))
        .collect();
    (learned_on(task) == task && !series.is_empty()).then(|| {
        let chart = Chart {
            title: format!("Learning from flights, {}, world {world}", task.name()),
            x_label: "flights".to_owned(),
            y_label: "tracking error without noise (cm)".to_owned(),
            series,
            ..Chart::default()
        };
        ("learning", chart)
    })
}

fn curve(results: &Results, group: Group) -> Option<Series> {
    let campaigns: Vec<_> = results.campaigns_of(group).collect();
    let rounds = campaigns.iter().map(|c| c.rounds.len()).min()?;
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let errors: Option<Vec<f64>> = campaigns
            .iter()
            .map(|c| c.rounds[round].tracking_error_m.map(|e| 100.0 * f64::from(e)))
            .collect();
        let (mean, half) = mean_95(&errors?);
        points.push((campaigns[0].rounds[round].flights as f64, mean));
        band.push((mean - half, mean + half));
    }
    let (title, seeds) = (group.controller.title(), campaigns.len());
    Some(Series {
        name: if seeds > 1 { format!("{title}, mean and 95 % of {seeds} seeds") } else { title.to_owned() },
        points,
        band: if seeds > 1 { band } else { Vec::new() },
        is_reference: false,
    })
}
