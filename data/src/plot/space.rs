//! Paths in space as SVG and PNG.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{COLOURS, Picture, line_style, range, save};

/// Direction of view, rad.
const YAW: f64 = 0.6;
const PITCH: f64 = 0.25;

/// One path.
#[derive(Clone, Debug, Default)]
pub struct PathInSpace {
    /// Name in the legend.
    pub name: String,
    /// x, y and z, m.
    pub points: Vec<[f64; 3]>,
    /// The reference: drawn thin and black.
    pub is_reference: bool,
}

/// A picture of paths.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Above the picture.
    pub title: String,
    /// The paths.
    pub paths: Vec<PathInSpace>,
}

impl Space {
    /// Writes `stem.svg` and `stem.png`; returns the two paths.
    pub fn save(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        save(self, stem)
    }
}

impl Picture for Space {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        // The library's second axis points up.
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(14)
            .build_cartesian_3d(self.axis(0), self.axis(2), self.axis(1))?;
        chart.with_projection(|mut view| {
            view.yaw = YAW;
            view.pitch = PITCH;
            view.scale = 0.9;
            view.into_matrix()
        });
        chart
            .configure_axes()
            .label_style(("sans-serif", 13))
            .light_grid_style(BLACK.mix(0.08))
            .max_light_lines(2)
            .x_formatter(&|x| format!("x {x:.2}"))
            .y_formatter(&|z| format!("z {z:.2}"))
            .z_formatter(&|y| format!("y {y:.2}"))
            .draw()?;
        for (path, colour) in self.paths.iter().zip(COLOURS.iter().cycle()) {
            let style = line_style(path.is_reference, colour);
            chart
                .draw_series(LineSeries::new(path.points.iter().map(|[x, y, z]| (*x, *z, *y)), style))?
                .label(&path.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .border_style(BLACK.mix(0.4))
            .background_style(WHITE.mix(0.85))
            .label_font(("sans-serif", 15))
            .draw()?;
        area.present()
    }
}

impl Space {
    fn axis(&self, axis: usize) -> Range<f64> {
        range(self.paths.iter().flat_map(|p| &p.points).map(|p| p[axis]), 0.05, |_| 0.01)
    }
}
