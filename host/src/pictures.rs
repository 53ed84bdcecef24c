//! Pictures of how well a world predicts recorded flights.

use std::path::{Path, PathBuf};

use anyhow::Result;
use steady_learn::Discovered;
use steady_learn::discovery::Transition;
use steady_learn::readings::{self, Reading};
use steady_reality::Flight;
use steady_reality::flight::{RATE_HZ, Sample};
use steady_reality::predict::{Predictor, starts};
use steady_reality::score::{Baseline, curve};
use steady_sim::{Residual, World};

use crate::plot::{Chart, Series};

/// Samples between the predictions that are drawn, and their length: half a second.
const AHEAD: usize = 50;
/// Samples that are drawn of a flight: ten seconds.
const SHOWN: usize = 1000;

/// Draws `stem-horizon` and `stem-flight`.
pub(crate) fn draw(world: &World, flights: &[Flight], stem: &Path) -> Result<()> {
    let series = |name: &str, points| Series { name: name.to_owned(), points, ..Series::default() };
    let straight = |flight: &Flight| Baseline::Persistence.errors(flight);
    let straight =
        flights.iter().map(straight).fold(steady_reality::score::Tally::default(), |all, one| all.and(&one));
    let straight =
        straight.score("").errors.iter().map(|e| (f64::from(e.horizon_s), e.position_mm)).collect();
    let horizon = Chart {
        title: format!("world {}, {} flights", world.name, flights.len()),
        x_label: "time ahead (s)".to_owned(),
        y_label: "position error, RMS (mm)".to_owned(),
        series: vec![
            series("world", curve(world, flights, false)?),
            series("world, trimmed by the 3 s before", curve(world, flights, true)?),
            series("constant velocity", straight),
        ],
        ..Chart::default()
    };
    horizon.save(&with(stem, "horizon"))?;
    let Some(flight) = flights.first() else { return Ok(()) };
    let predictor = Predictor::new(world, flight)?;
    let starts = starts(flight, AHEAD);
    let first = starts.first().copied().unwrap_or(flight.take_off);
    let range = first..(first + SHOWN).min(flight.samples.len());
    let time_s = |i: usize| (i - first) as f64 / RATE_HZ;
    let flown = |axis: usize| {
        let at = |i: usize| (time_s(i), f64::from(flight.samples[i].state.position.to_array()[axis]));
        range.clone().map(at).collect::<Vec<_>>()
    };
    // Every prediction starts from where the drone was: the line jumps there.
    let predicted = |axis: usize| {
        let mut points = Vec::new();
        for start in starts.iter().copied().filter(|start| range.contains(start)) {
            let mut add = |i: usize, position: f32| points.push((time_s(i), f64::from(position)));
            add(start, flight.samples[start].state.position.to_array()[axis]);
            predictor.fly(start, AHEAD, Default::default(), |i, s| add(i, s.position.to_array()[axis]));
        }
        points
    };
    let reference = |name: &str, points| Series { is_reference: true, ..series(name, points) };
    let picture = Chart {
        title: format!("{}: predicted half a second ahead, again and again", flight.name),
        x_label: "time (s)".to_owned(),
        y_label: "position (m)".to_owned(),
        series: vec![
            series("x, predicted", predicted(0)),
            series("y, predicted", predicted(1)),
            series("z, predicted", predicted(2)),
            reference("flown", flown(0)),
            reference("", flown(1)),
            reference("", flown(2)),
        ],
        ..Chart::default()
    };
    picture.save(&with(stem, "flight"))?;
    Ok(())
}

/// Draws what the simulator leaves of an acceleration over what it goes with, and what skills say: `stem-skills`.
pub(crate) fn skills(
    drone: &str,
    found: &Discovered,
    flown: &[Transition],
    reading: &Reading,
    label: &str,
    stem: &Path,
) -> Result<()> {
    let Reading { output, along, .. } = *reading;
    let (mut left, mut said, mut band) = (Vec::new(), Vec::new(), Vec::new());
    for transitions in readings::parts(flown, output, along) {
        let mean = |of: &dyn Fn(&Transition) -> f64| {
            transitions.iter().map(of).sum::<f64>() / transitions.len() as f64
        };
        let says = |residual: &Residual| mean(&|t| f64::from(residual.at(&t.input).to_array()[output]));
        let x = mean(&|t| readings::value(t, output, along));
        left.push((x, mean(&|t| t.beyond[output])));
        said.push((x, says(&found.residual)));
        let members = || found.members.iter().map(&says);
        band.push((members().fold(f64::INFINITY, f64::min), members().fold(f64::NEG_INFINITY, f64::max)));
    }
    let (name, unit) = along.words();
    let chart = Chart {
        title: format!("{drone}: means over {} transitions", flown.len()),
        x_label: format!("{name} ({unit})"),
        y_label: label.to_owned(),
        series: vec![
            Series {
                name: "skills (band: from parts of the flights)".to_owned(),
                points: said,
                band,
                ..Series::default()
            },
            Series {
                name: "what the simulator leaves".to_owned(),
                points: left,
                is_reference: true,
                ..Series::default()
            },
        ],
        ..Chart::default()
    };
    chart.save(&with(stem, "skills"))?;
    Ok(())
}

fn with(stem: &Path, what: &str) -> PathBuf {
    let name = stem.file_name().unwrap_or_default().to_string_lossy();
    stem.with_file_name(format!("{name}-{what}"))
}

/// Draws a recorded flight into a folder: position with its set-point, motors' commands.
pub(crate) fn flight(flight: &Flight, folder: &Path) -> Result<Vec<PathBuf>> {
    let time_s = |i: usize| i as f64 / RATE_HZ;
    let line = |name: &str, of: &dyn Fn(&Sample) -> Option<f32>| Series {
        name: name.to_owned(),
        points: (0..)
            .zip(&flight.samples)
            .filter_map(|(i, sample)| Some((time_s(i), f64::from(of(sample)?))))
            .collect(),
        ..Series::default()
    };
    let chart = |what: &str, unit: &str, series: Vec<Series>| Chart {
        title: format!("{}: {what}", flight.name),
        x_label: "time (s)".to_owned(),
        y_label: unit.to_owned(),
        series,
        ..Chart::default()
    };
    let set = |name: &str, axis: usize| Series {
        is_reference: true,
        ..line(name, &move |s: &Sample| Some(s.set_point?.0.to_array()[axis]))
    };
    let position =
        |name: &str, axis: usize| line(name, &move |s: &Sample| Some(s.state.position.to_array()[axis]));
    let positions = vec![
        position("x", 0),
        position("y", 1),
        position("z", 2),
        set("set-point", 0),
        set("", 1),
        set("", 2),
    ];
    let motors = ["M1", "M2", "M3", "M4"]
        .iter()
        .zip(0..)
        .map(|(name, m): (_, usize)| line(name, &move |s| Some(s.pwm[m])));
    let mut files = Vec::new();
    files.extend(chart("position", "m", positions).save(&folder.join(format!("{}-position", flight.name)))?);
    let motors = chart("motors", "of 65535", motors.collect());
    files.extend(motors.save(&folder.join(format!("{}-motors", flight.name)))?);
    Ok(files)
}
