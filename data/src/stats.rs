//! Means with their confidence intervals.

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with the half-width of its two-sided interval (Student's t), of 95 % unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The mean of the samples.
    pub mean: f64,
    /// Half-width of the interval; a single sample has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

impl Estimate {
    /// From samples; without any, the mean is NaN.
    pub fn of(samples: &[f64]) -> Self {
        Self::one_of(1, samples)
    }

    /// One of so many that are looked at together: intervals so wide that all of them hold with 95 % (Bonferroni).
    pub fn one_of(count: usize, samples: &[f64]) -> Self {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        // Not defined below one degree of freedom.
        let t = StudentsT::new(0.0, 1.0, n - 1.0).ok().filter(|_| samples.len() > 1);
        let half_width = t.map(|t| {
            let variance = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            t.inverse_cdf(1.0 - 0.025 / count.max(1) as f64) * (variance / n).sqrt()
        });
        Self { mean, half_width }
    }

    /// In another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self { mean: factor * self.mean, half_width: self.half_width.map(|h| factor.abs() * h) }
    }

    /// True when the interval is known and does not contain 0.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|h| self.mean.abs() > h)
    }
}

/// `1.23 ± 0.45`, or the mean alone when there is no interval. Without a precision (`{:.2}`), the interval has
/// two significant digits, or a mean without one four.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, half_width } = *self;
        let (value, significant) = half_width.filter(|h| *h > 0.0).map_or((mean, 4), |h| (h, 2));
        let decimals = f.precision().unwrap_or_else(|| {
            let exponent = if value == 0.0 || !value.is_finite() { 0.0 } else { value.abs().log10().floor() };
            (significant - 1 - exponent as i32).clamp(0, 9) as usize
        });
        match half_width {
            Some(0.0) if f.precision().is_none() => write!(f, "{mean:.decimals$} ± 0"),
            Some(half_width) => write!(f, "{mean:.decimals$} ± {half_width:.decimals$}"),
            None => write!(f, "{mean:.decimals$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        // Quantiles from the usual tables: 4 degrees of freedom, 2.776; 1 degree, 12.706; 99, 1.984.
        let Estimate { mean, half_width } = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((mean - 3.0).abs() < 1e-12);
        assert!((half_width.unwrap() - 2.776 * 0.5_f64.sqrt()).abs() < 1e-3, "{half_width:?}");
        assert!((Estimate::of(&[0.0, 2.0]).half_width.unwrap() - 12.706).abs() < 1e-3);
        let many: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let expected = 1.984 * (0.25_f64 * 100.0 / 99.0 / 100.0).sqrt();
        assert!((Estimate::of(&many).half_width.unwrap() - expected).abs() < 1e-4);
    }

    #[test]
    fn several_intervals_are_wider() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        // Student's t with 4 degrees of freedom at 0.995: 4.604.
        let five = Estimate::one_of(5, &samples);
        assert!((five.half_width.unwrap() - 4.604 * 0.5_f64.sqrt()).abs() < 1e-3, "{five:?}");
        assert_eq!(Estimate::one_of(1, &samples), Estimate::of(&samples));
    }

    #[test]
    fn a_single_sample_has_no_interval() {
        let one = Estimate::of(&[7.0]);
        assert_eq!(one, Estimate { mean: 7.0, half_width: None });
        assert_eq!((format!("{one:.1}"), one.is_significant()), ("7.0".to_owned(), false));
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"mean":7.0}"#);
        assert_eq!(serde_json::from_str::<Estimate>(r#"{"mean":7.0}"#).unwrap(), one);
        assert!(Estimate::of(&[]).mean.is_nan());
    }

    #[test]
    fn without_a_precision_the_digits_are_those_that_count() {
        let shown = |samples: &[f64]| Estimate::of(samples).to_string();
        assert_eq!((shown(&[1234.5]), shown(&[0.012_345])), ("1234".into(), "0.01235".into()));
        assert_eq!(
            (shown(&[1.0, 1.0]), shown(&[10.0, 11.0, 12.0])),
            ("1.000 ± 0".into(), "11.0 ± 2.5".into())
        );
    }

    #[test]
    fn prints_with_the_precision_asked_for() {
        let e = Estimate { mean: -1543.21, half_width: Some(33.333) };
        assert_eq!((format!("{e:.0}"), format!("{e}")), ("-1543 ± 33".into(), "-1543 ± 33".into()));
        assert_eq!(e.scaled(-0.01).half_width, Some(0.33333));
        assert!(e.is_significant() && !Estimate { half_width: Some(2000.0), ..e }.is_significant());
    }
}
