//! What came of flights, and their metrics over flights and seeds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steady_sim::metrics::Metric;
use steady_sim::{FlightMetrics, METRICS};

use crate::stats::Estimate;

/// What came of one flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its number at its station, from 1.
    pub flight: u32,
    pub seed: u64,
    /// Why the flight did not end as it should: given up, guarded landing, not landed, log cut short.
    pub trouble: Option<String>,
    /// How well it was flown, as far as it was.
    pub metrics: Option<FlightMetrics>,
    /// Control steps of the differentiable law in its logs.
    pub steps: u64,
    /// Control steps missing between those.
    pub lost: u64,
    /// Part of the time that the processor was awake; 0 where it is not known.
    pub cpu_load: f64,
    /// A new card was put in, because the first one did not hold the log.
    pub new_card: bool,
}

impl Outcome {
    /// Flown to its end and landed, without a crash and without the guard. Every table counts the other
    /// flights as failed.
    pub fn is_good(&self) -> bool {
        self.trouble.is_none() && self.metrics.is_some_and(|m| m.crash.is_none())
    }

    /// With numbers that are the same bits after they were written as JSON and read again.
    pub fn rounded(self) -> Self {
        Self {
            // Non-finite values have no JSON.
            metrics: self.metrics.filter(FlightMetrics::is_finite).map(FlightMetrics::rounded),
            cpu_load: (self.cpu_load * 1e9).round() / 1e9,
            ..self
        }
    }
}

/// Estimates of every metric over flights or seeds. A failed flight counts with the metrics it has (after a
/// crash the remaining steps count like the last one) and in `failed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetricSummary {
    /// By [`Metric::id`]; a metric that is 0 in every flight was not measured (no hover) and is left out.
    pub metrics: BTreeMap<&'static str, Estimate>,
    pub flights: usize,
    /// Flights that are not [`Outcome::is_good`].
    pub failed: usize,
}

impl MetricSummary {
    /// Over flights of one table.
    pub fn of_flights(flights: &[Outcome]) -> Self {
        let samples: Vec<&[Outcome]> = flights.iter().map(std::slice::from_ref).collect();
        Self::over_seeds(&samples)
    }

    /// Over seeds: the flights of a seed share its gains, so their mean is one sample.
    pub fn over_seeds(seeds: &[&[Outcome]]) -> Self {
        let all = || seeds.iter().copied().flatten();
        Self {
            metrics: METRICS
                .iter()
                .filter_map(|metric| {
                    let samples: Vec<f64> =
                        seeds.iter().filter_map(|flights| mean(flights, metric)).collect();
                    let measured = samples.iter().any(|v| *v != 0.0);
                    measured.then(|| (metric.id, Estimate::of(&samples)))
                })
                .collect(),
            flights: all().count(),
            failed: all().filter(|f| !f.is_good()).count(),
        }
    }

    pub fn get(&self, metric: &Metric) -> Option<Estimate> {
        self.metrics.get(metric.id).copied()
    }

    /// Headings of the columns that [`Self::cells`] fills.
    pub fn headings() -> Vec<String> {
        METRICS.iter().map(Metric::heading).chain(["failed".to_owned()]).collect()
    }

    /// Every metric in the unit for people, and the failed flights.
    pub fn cells(&self) -> Vec<String> {
        let cell = |m: &Metric| {
            self.get(m).map_or_else(|| "–".to_owned(), |e| format!("{:.*}", m.digits, e.scaled(m.scale)))
        };
        METRICS.iter().map(cell).chain([format!("{} of {}", self.failed, self.flights)]).collect()
    }
}

/// Mean of a metric over the flights that have metrics.
pub fn mean(flights: &[Outcome], metric: &Metric) -> Option<f64> {
    let values: Vec<f64> = flights.iter().filter_map(|f| f.metrics.as_ref()).map(metric.get).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use steady_sim::metrics::{Crash, HOVER_HEIGHT_ERROR, REWARD, TRACKING_ERROR};

    use super::*;

    pub(crate) fn outcome(flight: u32, tracking_error_m: f64, cumulative_reward: f64) -> Outcome {
        let metrics = FlightMetrics {
            duration_s: 10.0,
            tracking_error_m,
            cumulative_reward,
            tilt_rms_rad: 0.1 * tracking_error_m,
            ..FlightMetrics::default()
        };
        Outcome {
            flight,
            seed: u64::from(flight),
            trouble: None,
            metrics: Some(metrics),
            steps: 5000,
            lost: 0,
            cpu_load: 0.0,
            new_card: false,
        }
    }

    #[test]
    fn a_seed_is_one_sample_and_one_sample_has_no_interval() {
        let one = [outcome(1, 0.1, -100.0), outcome(2, 0.3, -300.0)];
        let two = [outcome(1, 0.4, -400.0)];
        let summary = MetricSummary::over_seeds(&[&one, &two]);
        let error = summary.get(&TRACKING_ERROR).unwrap();
        assert!((error.mean - 0.3).abs() < 1e-12 && error.half_width.is_some(), "{error:?}");
        assert_eq!((summary.flights, summary.failed), (3, 0));
        assert_eq!(summary.get(&HOVER_HEIGHT_ERROR), None, "nothing hovered");
        let single = MetricSummary::over_seeds(&[&one]);
        assert_eq!(single.get(&REWARD).unwrap().half_width, None);
        assert!(single.cells().iter().all(|cell| !cell.contains('±')), "{:?}", single.cells());
        assert_eq!(single.cells().len(), MetricSummary::headings().len());
    }

    #[test]
    fn crashed_guarded_and_unmeasured_flights_have_failed() {
        let good = outcome(1, 0.1, -100.0);
        assert!(good.is_good());
        let mut crashed = good.clone();
        crashed.metrics.as_mut().unwrap().crash = Some(Crash::Lost);
        let guarded = Outcome { trouble: Some("the gain guard tripped".to_owned()), ..good.clone() };
        let unmeasured = Outcome { metrics: None, ..good.clone() };
        let all = [good, crashed, guarded, unmeasured];
        assert_eq!(all.iter().map(Outcome::is_good).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(MetricSummary::of_flights(&all).failed, 3);
        let nan = FlightMetrics { tracking_error_m: f64::NAN, ..FlightMetrics::default() };
        assert_eq!(Outcome { metrics: Some(nan), ..all[0].clone() }.rounded().metrics, None);
    }
}
