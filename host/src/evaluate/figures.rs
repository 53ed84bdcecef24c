//! The paper's figures: trajectories in space and from above, roll and pitch, and how the error falls.

use std::path::PathBuf;

use anyhow::Result;
use steady_sim::Task;
use steady_sim::metrics::TRACKING_ERROR;

use crate::closed_loop::ControllerKind;
use crate::closed_loop::outcome::mean;
use crate::files;
use crate::plot::space::{PathInSpace, Space};
use crate::plot::{Chart, Series};
use crate::report::flight::Trace;
use crate::stats::Estimate;

use super::bench::{Bench, Key};
use super::results::{Group, LearnedLoop, Results};
use super::suite::learned_on;

/// Worlds that are drawn, at most.
const MAX_WORLDS: usize = 3;

/// A value of a trace over its points.
type Values = fn(&Trace, usize) -> f64;

/// Draws everything into the folder's `figures`; returns the pictures.
pub(crate) fn draw(bench: &Bench, results: &Results) -> Result<Vec<PathBuf>> {
    let folder = bench.folder().join("figures");
    files::make_folder(&folder)?;
    let mut pictures = Vec::new();
    for world in results.settings.worlds.iter().take(MAX_WORLDS) {
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

/// The first judged flight of the world's first seed, of every controller.
fn traces(bench: &Bench, world: &str, task: Task) -> Result<Vec<Trace>> {
    let seed = bench.settings.first_seed(world);
    let trace = |controller: &ControllerKind| {
        let key =
            Key { world: world.to_owned(), task, controller: *controller, variation: String::new(), seed };
        Trace::load(&bench.first_flight(&key), controller.title(), controller.name())
    };
    bench.settings.controllers.iter().map(trace).collect()
}

fn flights(traces: &[Trace], world: &str, task: Task) -> Vec<(&'static str, Chart)> {
    let chart = |title: &str, x: (&str, Values), y: (&str, Values), equal_axes: bool| Chart {
        title: format!("{title}, {task}, world {world}"),
        x_label: x.0.to_owned(),
        y_label: y.0.to_owned(),
        equal_axes,
        series: traces
            .iter()
            .map(|trace| Series {
                name: trace.name.clone(),
                points: (0..trace.time_s.len()).map(|i| (x.1(trace, i), y.1(trace, i))).collect(),
                ..Series::default()
            })
            .collect(),
    };
    let time: (&str, Values) = ("time (s)", |t, i| t.time_s[i]);
    let mut charts = vec![
        ("roll", chart("Roll", time, ("roll (deg)", |t, i| t.attitude_deg[0][i]), false)),
        ("pitch", chart("Pitch", time, ("pitch (deg)", |t, i| t.attitude_deg[1][i]), false)),
    ];
    let reference = reference(traces);
    let with_reference = |mut chart: Chart, points: Vec<(f64, f64)>| {
        let name = "reference".to_owned();
        chart.series.push(Series { name, points, is_reference: true, ..Series::default() });
        chart
    };
    if matches!(task, Task::Hover | Task::TakeoffLand) {
        let height = chart("Height", time, ("height (m)", |t, i| t.position_m[2][i]), false);
        let points = reference.iter().map(|(time_s, p)| (*time_s, p[2])).collect();
        charts.push(("height", with_reference(height, points)));
    } else {
        let x: (&str, Values) = ("x (m)", |t, i| t.position_m[0][i]);
        let above = chart("From above", x, ("y (m)", |t, i| t.position_m[1][i]), true);
        let points = reference.iter().map(|(_, p)| (p[0], p[1])).collect();
        charts.push(("above", with_reference(above, points)));
    }
    charts
}

fn space(traces: &[Trace], world: &str, task: Task) -> Space {
    let mut paths: Vec<PathInSpace> = traces
        .iter()
        .map(|t| PathInSpace {
            name: t.name.clone(),
            points: (0..t.time_s.len()).map(|i| std::array::from_fn(|k| t.position_m[k][i])).collect(),
            is_reference: false,
        })
        .collect();
    let points = reference(traces).into_iter().map(|(_, p)| p).collect();
    paths.push(PathInSpace { name: "reference".to_owned(), points, is_reference: true });
    Space { title: format!("{task}, world {world} (m)"), paths }
}

/// Time and place of the reference, from the longest trace, which has all of it.
fn reference(traces: &[Trace]) -> Vec<(f64, [f64; 3])> {
    let Some(trace) = traces.iter().max_by_key(|t| t.time_s.len()) else { return Vec::new() };
    let [x, y, z] = &trace.reference_m;
    let points = trace.time_s.iter().zip(x).zip(y).zip(z);
    points.filter_map(|(((time_s, x), y), z)| Some((*time_s, [(*x)?, (*y)?, (*z)?]))).collect()
}

/// Tracking error of the best table over exploring flights, mean and 95 % over seeds.
fn learning(results: &Results, world: &str, task: Task) -> Option<(&'static str, Chart)> {
    let series: Vec<Series> = [ControllerKind::Transfer, ControllerKind::Steady]
        .into_iter()
        .filter_map(|controller| curve(results, Group { world, task, controller, variation: "" }))
        .collect();
    (learned_on(task) == task && !series.is_empty()).then(|| {
        let chart = Chart {
            title: format!("Learning from flights, {task}, world {world}"),
            x_label: "exploring flights".to_owned(),
            y_label: format!("{} of judging flights", TRACKING_ERROR.heading()),
            series,
            ..Chart::default()
        };
        ("learning", chart)
    })
}

/// Exploring flights so far, and the judging flights' error of the best table then.
fn progress(learned: &LearnedLoop) -> Vec<(usize, f64)> {
    let (mut flights, mut best, mut points) = (0, None, Vec::new());
    for iteration in &learned.journal.iterations {
        if let (Some(judged), Some(true)) =
            (&iteration.judged, iteration.decision.as_ref().map(|d| d.is_kept))
        {
            best = mean(judged, &TRACKING_ERROR);
        }
        points.extend(best.map(|error| (flights, TRACKING_ERROR.scale * error)));
        flights += iteration.explored.as_ref().map_or(0, Vec::len);
    }
    points
}

fn curve(results: &Results, group: Group<'_>) -> Option<Series> {
    let loops: Vec<Vec<(usize, f64)>> = results.loops_of(group).map(progress).collect();
    let iterations = loops.iter().map(Vec::len).min()?;
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for iteration in 0..iterations {
        let errors: Vec<f64> = loops.iter().map(|l| l[iteration].1).collect();
        let Estimate { mean, half_width } = Estimate::of(&errors);
        points.push((loops[0][iteration].0 as f64, mean));
        band.extend(half_width.map(|half| (mean - half, mean + half)));
    }
    let (title, seeds) = (group.controller.title(), loops.len());
    let name = if seeds > 1 { format!("{title}, mean and 95 % of {seeds} seeds") } else { title.to_owned() };
    Some(Series { name, points, band, is_reference: false })
}
