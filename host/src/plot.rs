//! Line charts as SVG and PNG.

pub mod space;

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;

/// Size of a picture, pixels.
const SIZE: (u32, u32) = (900, 600);

/// Colours that stay apart for colour-blind eyes and in print (Okabe and Ito's).
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
    /// Drawn thin and black: what the others are compared with.
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
    /// One unit has the same length on both axes: for maps.
    pub equal_axes: bool,
    /// The lines.
    pub series: Vec<Series>,
}

impl Chart {
    /// Writes `stem.svg` and `stem.png`; returns the two paths.
    pub fn save(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        register_font();
        let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
        self.draw(&SVGBackend::new(&svg, SIZE).into_drawing_area())
            .with_context(|| format!("{}", svg.display()))?;
        self.draw(&BitMapBackend::new(&png, SIZE).into_drawing_area())
            .with_context(|| format!("{}", png.display()))?;
        Ok([svg, png])
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        self.try_draw(area).map_err(|e| anyhow!("cannot draw: {e}"))
    }

    fn try_draw<B: DrawingBackend>(
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
            let style = if series.is_reference { BLACK.stroke_width(1) } else { colour.stroke_width(2) };
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

    /// Ranges of both axes: all finite points, with a margin.
    fn ranges(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let bands = self
            .series
            .iter()
            .flat_map(|s| s.points.iter().zip(&s.band).flat_map(|(p, b)| [(p.0, b.0), (p.0, b.1)]));
        let points = self.series.iter().flat_map(|s| s.points.iter().copied()).chain(bands);
        let (mut x, mut y) = ((f64::MAX, f64::MIN), (f64::MAX, f64::MIN));
        for p in points.filter(|p| p.0.is_finite() && p.1.is_finite()) {
            x = (x.0.min(p.0), x.1.max(p.0));
            y = (y.0.min(p.1), y.1.max(p.1));
        }
        let widen = |(low, high): (f64, f64), part: f64| {
            if low > high {
                return 0.0..1.0;
            }
            let margin = (part * (high - low)).max(1e-6 * (1.0 + high.abs()));
            low - margin..high + margin
        };
        let (mut x, mut y) = (widen(x, 0.02), widen(y, 0.06));
        if self.equal_axes {
            // The drawing area is about this much wider than high.
            const ASPECT: f64 = 1.6;
            let (wide, high) = (x.end - x.start, y.end - y.start);
            let grow = |r: &mut std::ops::Range<f64>, by: f64| *r = r.start - 0.5 * by..r.end + 0.5 * by;
            if wide < ASPECT * high {
                grow(&mut x, ASPECT * high - wide);
            } else {
                grow(&mut y, wide / ASPECT - high);
            }
        }
        (x, y)
    }
}

/// Text needs a font; a machine may have none, so one comes along.
fn register_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only for bytes that are no font, which the tests would show.
        let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_both_pictures_with_their_text() {
        let folder = tempfile::tempdir().unwrap();
        let line = Series {
            name: "measured".to_owned(),
            points: vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN)],
            band: vec![(0.5, 1.5), (1.5, 2.5), (0.0, 1.0)],
            ..Series::default()
        };
        let chart = Chart { title: "A title".to_owned(), series: vec![line], ..Chart::default() };
        let [svg, png] = chart.save(&folder.path().join("chart")).unwrap();
        let text = std::fs::read_to_string(svg).unwrap();
        assert!(text.contains("A title") && text.contains("measured"));
        assert_eq!(&std::fs::read(png).unwrap()[1..4], b"PNG");
    }

    #[test]
    fn an_empty_chart_is_no_disaster() {
        let folder = tempfile::tempdir().unwrap();
        Chart { equal_axes: true, ..Chart::default() }.save(&folder.path().join("empty")).unwrap();
    }
}
