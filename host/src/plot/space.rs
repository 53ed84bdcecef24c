//! Paths in space as SVG and PNG.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{COLOURS, SIZE, register_font};

/// From where it is seen, rad: turned about the vertical, and from above.
const YAW: f64 = 0.6;
const PITCH: f64 = 0.25;

/// One path.
#[derive(Clone, Debug, Default)]
pub struct PathInSpace {
    /// Name in the legend.
    pub name: String,
    /// x, y and z, m.
    pub points: Vec<[f64; 3]>,
    /// Drawn thin and black: what the others are compared with.
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
        register_font();
        let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
        self.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .map_err(|e| anyhow!("cannot draw: {e}"))
            .with_context(|| format!("{}", svg.display()))?;
        self.draw(&BitMapBackend::new(&png, SIZE).into_drawing_area())
            .map_err(|e| anyhow!("cannot draw: {e}"))
            .with_context(|| format!("{}", png.display()))?;
        Ok([svg, png])
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        // The library's second axis is the one that points up.
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(14)
            .build_cartesian_3d(self.range(0), self.range(2), self.range(1))?;
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
            let style = if path.is_reference { BLACK.stroke_width(1) } else { colour.stroke_width(2) };
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

    /// Range of an axis: all finite values, with a margin.
    fn range(&self, axis: usize) -> Range<f64> {
        let values = self.paths.iter().flat_map(|p| &p.points).map(|p| p[axis]).filter(|v| v.is_finite());
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return 0.0..1.0;
        }
        let margin = (0.05 * (high - low)).max(0.01);
        low - margin..high + margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_both_pictures_with_their_text() {
        let folder = tempfile::tempdir().unwrap();
        let points = (0..50).map(|i| 0.1 * f64::from(i)).map(|t| [t.cos(), t.sin(), 0.1 * t]).collect();
        let path = PathInSpace { name: "flown".to_owned(), points, is_reference: false };
        let space = Space { title: "A helix".to_owned(), paths: vec![path] };
        let [svg, png] = space.save(&folder.path().join("helix")).unwrap();
        let text = std::fs::read_to_string(svg).unwrap();
        assert!(text.contains("A helix") && text.contains("flown"));
        assert_eq!(&std::fs::read(png).unwrap()[1..4], b"PNG");
        Space::default().save(&folder.path().join("empty")).unwrap();
    }
}
