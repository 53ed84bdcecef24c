//! Charts of a log: position, attitude, motors, errors, battery; as many as the log has data for.

use std::path::{Path, PathBuf};

use anyhow::Result;
use steady_common::Quat;

use super::{Event, Log, Variable};
use crate::plot::{Chart, Series};

/// Lines have at most this many points, and at least half as many where the log has them.
const MAX_POINTS: usize = 4096;

/// Draws a log's charts into files of a folder whose names begin with `stem`, and returns them.
///
/// # Errors
/// If the log cannot be read or a chart cannot be written.
pub fn draw(log: &mut Log, folder: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    let mut tables: Vec<Thinned> = log.events().iter().map(Thinned::new).collect();
    log.scan(|record| {
        if let Some(table) = tables.get_mut(record.event) {
            table.add(record.time_us, record.values);
        }
    })?;
    let mut pictures = Vec::new();
    for (name, chart) in charts(&tables, stem) {
        pictures.extend(chart.save(&folder.join(format!("{stem}-{name}")))?);
    }
    Ok(pictures)
}

/// Records of one event, of which every `stride`-th is kept.
struct Thinned {
    event: Event,
    rows: Vec<(f64, Vec<f32>)>,
    stride: u64,
    seen: u64,
}

impl Thinned {
    fn new(event: &Event) -> Self {
        Self { event: event.clone(), rows: Vec::new(), stride: 1, seen: 0 }
    }

    fn add(&mut self, time_us: u64, values: &[u8]) {
        if self.seen.is_multiple_of(self.stride) {
            let read = |v: &Variable| v.read(values).map_or(f32::NAN, |v| v.to_f64() as f32);
            self.rows.push((time_us as f64 / 1e6, self.event.variables.iter().map(read).collect()));
        }
        self.seen += 1;
        if self.rows.len() >= MAX_POINTS {
            let mut index = 0;
            self.rows.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Rows of these variables, if the event has them all.
    fn columns<const N: usize>(&self, names: [&str; N]) -> Option<Vec<(f64, [f64; N])>> {
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(names) {
            *place = self.event.variables.iter().position(|v| v.name == name)?;
        }
        let value = |row: &[f32], place: usize| row.get(place).map_or(f64::NAN, |v| f64::from(*v));
        let rows = self.rows.iter().map(|(t, row)| (*t, places.map(|place| value(row, place))));
        Some(rows.collect())
    }
}

/// Several lines over the same times.
type Lines<const N: usize> = Vec<(f64, [f64; N])>;

fn first<const N: usize>(tables: &[Thinned], choices: &[[&str; N]]) -> Option<Lines<N>> {
    choices.iter().find_map(|names| tables.iter().find_map(|table| table.columns(*names)))
}

fn series<const N: usize>(lines: &Lines<N>, names: [&str; N], is_reference: bool) -> Vec<Series> {
    let line = |(i, name): (usize, &str)| Series {
        name: name.to_owned(),
        points: lines.iter().map(|(t, values)| (*t, values[i])).collect(),
        is_reference,
        ..Series::default()
    };
    names.into_iter().enumerate().map(line).collect()
}

const MOTORS: [&str; 4] = ["motor.m1", "motor.m2", "motor.m3", "motor.m4"];
const MOTOR_REQUESTS: [&str; 4] = ["motor.m1req", "motor.m2req", "motor.m3req", "motor.m4req"];
const QUATERNION: [&str; 4] =
    ["stateEstimate.qw", "stateEstimate.qx", "stateEstimate.qy", "stateEstimate.qz"];
const AXES: [&str; 3] = ["x", "y", "z"];
const POSITION: [&str; 3] = ["stateEstimate.x", "stateEstimate.y", "stateEstimate.z"];
const REFERENCE: [&str; 3] = ["ctrltarget.x", "ctrltarget.y", "ctrltarget.z"];

fn charts(tables: &[Thinned], stem: &str) -> Vec<(&'static str, Chart)> {
    let over_time = |title: &str, y_label: &str, series: Vec<Series>| Chart {
        title: format!("{title}, {stem}"),
        x_label: "time since boot (s)".to_owned(),
        y_label: y_label.to_owned(),
        series,
        ..Chart::default()
    };
    let mut charts = Vec::new();
    let position = first(tables, &[POSITION]);
    let reference = first(tables, &[REFERENCE]);
    if let Some(lines) = &position {
        let mut all = series(lines, AXES, false);
        let references = ["reference x", "reference y", "reference z"];
        all.extend(reference.iter().flat_map(|r| series(r, references, true)));
        charts.push(("position", over_time("Position", "position (m)", all)));
        charts.push(("above", from_above(lines, reference.as_ref(), stem)));
    }
    if let Some(lines) = attitude(tables) {
        let all = series(&lines, ["roll", "pitch", "yaw"], false);
        charts.push(("attitude", over_time("Attitude", "angle (deg)", all)));
    }
    if let Some(lines) = first(tables, &[MOTORS, MOTOR_REQUESTS]) {
        let parts = lines.into_iter().map(|(t, m)| (t, m.map(|m| m / 655.35))).collect();
        let all = series(&parts, ["M1", "M2", "M3", "M4"], false);
        charts.push(("motors", over_time("Motor commands", "of full power (%)", all)));
    }
    if let Some(lines) = errors(tables) {
        let all = series(&lines, AXES, false);
        charts.push(("errors", over_time("Position error", "error (m)", all)));
    }
    let volts = first(tables, &[["pm.vbat"]]).or_else(|| {
        let milli = first(tables, &[["pm.vbatMV"]])?;
        Some(milli.into_iter().map(|(t, [v])| (t, [v / 1000.0])).collect())
    });
    if let Some(lines) = volts {
        charts.push(("battery", over_time("Battery", "voltage (V)", series(&lines, ["battery"], false))));
    }
    charts
}

fn from_above(position: &Lines<3>, reference: Option<&Lines<3>>, stem: &str) -> Chart {
    let path = |name: &str, lines: &Lines<3>, is_reference| Series {
        name: name.to_owned(),
        points: lines.iter().map(|(_, [x, y, _])| (*x, *y)).collect(),
        is_reference,
        ..Series::default()
    };
    let mut series = vec![path("flown", position, false)];
    series.extend(reference.map(|lines| path("reference", lines, true)));
    Chart {
        title: format!("From above, {stem}"),
        x_label: "x (m)".to_owned(),
        y_label: "y (m)".to_owned(),
        equal_axes: true,
        series,
    }
}

/// Roll, pitch and yaw in degrees: from the quaternion, or as the official firmware logs them.
fn attitude(tables: &[Thinned]) -> Option<Lines<3>> {
    if let Some(lines) = first(tables, &[QUATERNION]) {
        let angles = |[w, x, y, z]: [f64; 4]| {
            let q = Quat { w: w as f32, x: x as f32, y: y as f32, z: z as f32 };
            let rpy = q.to_euler();
            [rpy.x, rpy.y, rpy.z].map(|a| f64::from(a).to_degrees())
        };
        return Some(lines.into_iter().map(|(t, q)| (t, angles(q))).collect());
    }
    first(
        tables,
        &[
            ["stabilizer.roll", "stabilizer.pitch", "stabilizer.yaw"],
            ["stateEstimate.roll", "stateEstimate.pitch", "stateEstimate.yaw"],
        ],
    )
}

/// Position minus reference, or what the official Mellinger logs of it.
fn errors(tables: &[Thinned]) -> Option<Lines<3>> {
    let both = tables.iter().find_map(|t| Some((t.columns(POSITION)?, t.columns(REFERENCE)?)));
    if let Some((position, reference)) = both {
        let difference =
            |((t, p), (_, r)): ((f64, [f64; 3]), (f64, [f64; 3]))| (t, std::array::from_fn(|i| p[i] - r[i]));
        return Some(position.into_iter().zip(reference).map(difference).collect());
    }
    first(tables, &[["ctrlMel.pos_error_x", "ctrlMel.pos_error_y", "ctrlMel.pos_error_z"]])
}
