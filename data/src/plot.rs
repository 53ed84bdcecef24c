//! Line charts as SVG and PNG.

pub mod space;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;

/// Size of a picture, pixels.
const SIZE: (u32, u32) = (900, 600);

/// Colour-blind safe colours (Okabe and Ito's).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
];

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points in drawing order.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper edge at each point's x, drawn as a shaded band.
    pub band: Vec<(f64, f64)>,
    /// The reference: drawn thin and black.
    pub is_reference: bool,
}

/// A chart of lines.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Above the picture.
    pub title: String,
    /// Below it, with the unit.
    pub x_label: String,
    /// Beside it, with the unit.
    pub y_label: String,
    /// Equal scale on both axes, for maps.
    pub equal_axes: bool,
    /// The lines.
    pub series: Vec<Series>,
}

impl Chart {
    /// Writes `stem.svg` and `stem.png`; returns the two paths.
    pub fn save(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        save(self, stem)
    }
}

impl Picture for Chart {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let (x, y) = self.ranges();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 24))
            .margin(14)
            .x_label_area_size(48)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .label_style(("sans-serif", 15))
            .axis_desc_style(("sans-serif", 17))
            .light_line_style(WHITE)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let style = line_style(series.is_reference, colour);
            if !series.band.is_empty() {
                let xs = series.points.iter().map(|p| p.0);
                let lower = xs.clone().zip(series.band.iter().map(|b| b.0));
                let upper = xs.zip(series.band.iter().map(|b| b.1));
                let outline: Vec<_> = lower.chain(upper.collect::<Vec<_>>().into_iter().rev()).collect();
                chart.draw_series([Polygon::new(outline, colour.mix(0.2).filled())])?;
            }
            chart
                .draw_series(LineSeries::new(series.points.iter().copied(), style))?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(if self.equal_axes {
                SeriesLabelPosition::UpperMiddle
            } else {
                SeriesLabelPosition::UpperRight
            })
            .border_style(BLACK.mix(0.4))
            .background_style(WHITE.mix(0.85))
            .label_font(("sans-serif", 15))
            .draw()?;
        area.present()
    }
}

impl Chart {
    /// Ranges of both axes: all finite points, with a margin.
    fn ranges(&self) -> (Range<f64>, Range<f64>) {
        let bands = self
            .series
            .iter()
            .flat_map(|s| s.points.iter().zip(&s.band).flat_map(|(p, b)| [(p.0, b.0), (p.0, b.1)]));
        let points = self.series.iter().flat_map(|s| s.points.iter().copied()).chain(bands);
        let points: Vec<(f64, f64)> = points.filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
        let min_margin = |high: f64| 1e-6 * (1.0 + high.abs());
        let mut x = range(points.iter().map(|p| p.0), 0.02, min_margin);
        let mut y = range(points.iter().map(|p| p.1), 0.06, min_margin);
        if self.equal_axes {
            // The drawing area is about this much wider than high.
            const ASPECT: f64 = 1.6;
            let (wide, high) = (x.end - x.start, y.end - y.start);
            let grow = |r: &mut Range<f64>, by: f64| *r = r.start - 0.5 * by..r.end + 0.5 * by;
            if wide < ASPECT * high {
                grow(&mut x, ASPECT * high - wide);
            } else {
                grow(&mut y, wide / ASPECT - high);
            }
        }
        (x, y)
    }
}

/// What can be drawn on every backend.
trait Picture {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>;
}

fn save(picture: &impl Picture, stem: &Path) -> Result<[PathBuf; 2]> {
    register_font();
    let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
    let failed = |path: &Path, error: String| anyhow!("{}: cannot be drawn: {error}", path.display());
    let drawn = picture.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area());
    drawn.map_err(|e| failed(&svg, e.to_string()))?;
    let drawn = picture.draw(&BitMapBackend::new(&png, SIZE).into_drawing_area());
    drawn.map_err(|e| failed(&png, e.to_string()))?;
    Ok([svg, png])
}

fn line_style(is_reference: bool, colour: &RGBColor) -> ShapeStyle {
    if is_reference { BLACK.stroke_width(1) } else { colour.stroke_width(2) }
}

/// Range of values with a margin, at least `min_margin`; non-finite values are left out.
fn range(values: impl Iterator<Item = f64>, part: f64, min_margin: impl Fn(f64) -> f64) -> Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    let margin = (part * (high - low)).max(min_margin(high));
    low - margin..high + margin
}

/// Registers the font that comes with the program: a machine may have none.
fn register_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only for bytes that are not a font, which the tests would show.
        let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
}
