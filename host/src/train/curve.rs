//! The learning curve: return over transitions, mean and 95 % interval over seeds.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::plot::{Chart, Series};
use crate::stats::Estimate;

/// Draws `learning_curve.svg` and `.png` into `folder` from the `metrics.csv` of runs of one
/// configuration, with the nominal gains' return for comparison.
pub(crate) fn draw(folder: &Path, runs: &[PathBuf], nominal: f64) -> anyhow::Result<[PathBuf; 2]> {
    let curves = runs.iter().map(|run| read(&run.join("metrics.csv"))).collect::<anyhow::Result<Vec<_>>>()?;
    let length = curves.iter().map(Vec::len).min().unwrap_or(0);
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for i in 0..length {
        let values: Vec<f64> = curves.iter().map(|curve| curve[i].1).collect();
        let Estimate { mean, half_width } = Estimate::of(&values);
        points.push((curves[0][i].0, mean));
        band.extend(half_width.map(|half| (mean - half, mean + half)));
    }
    let ends = [points.first(), points.last()].map(|p| (p.map_or(0.0, |p| p.0), nominal));
    let chart = Chart {
        title: "Learning curve".to_owned(),
        x_label: "transitions".to_owned(),
        y_label: "return of an episode without noise".to_owned(),
        series: vec![
            Series {
                name: match runs.len() {
                    1 => "learned".to_owned(),
                    n => format!("learned, mean and 95 % of {n} seeds"),
                },
                points,
                band,
                ..Series::default()
            },
            Series {
                name: "nominal gains".to_owned(),
                points: ends.to_vec(),
                is_reference: true,
                ..Series::default()
            },
        ],
        ..Chart::default()
    };
    chart.save(&folder.join("learning_curve"))
}

/// Transitions and return of the rounds that were evaluated.
fn read(path: &Path) -> anyhow::Result<Vec<(f64, f64)>> {
    let context = || format!("{}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(context)?;
    let headers = reader.headers().with_context(context)?.clone();
    let find = |name: &str| {
        headers
            .iter()
            .position(|h| h == name)
            .with_context(|| format!("{}: no column `{name}`", path.display()))
    };
    let (x, y) = (find("transitions")?, find("eval/return")?);
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.with_context(context)?;
        let cell = |i: usize| record.get(i).and_then(|text| text.parse::<f64>().ok());
        if let (Some(x), Some(y)) = (cell(x), cell(y)) {
            points.push((x, y));
        }
    }
    Ok(points)
}
