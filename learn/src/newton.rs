//! Gauss–Newton steps: which change of the gains makes a flight's norms smallest, by differences of whole flights.
//!
//! The reward is a sum of norms over the flight. What stands in them (position errors, tilt, velocity, rates, action) is
//! all but linear in the gains over a short way, so a flight with each gain changed a little tells where to go. The norms
//! are made quadratic about the step found so far, again and again.

use steady_common::gains::GAIN_COUNT;
use steady_common::observation::{RewardInputs, RewardWeights};
use steady_common::{Action, Reference, State};
use steady_native::Sample;

use crate::cma::Theta;

/// Every so many control steps that count are kept: fifty a second.
const EVERY: usize = 10;
/// Values under the norms.
const VALUES: usize = 15;
/// Where each norm's values begin and end.
const NORMS: [(usize, usize); 5] = [(0, 3), (3, 5), (5, 8), (8, 11), (11, 15)];
/// Times that the norms are made quadratic.
const ROUNDS: usize = 8;
/// Sweeps over the gains of a quadratic's minimisation.
const SWEEPS: usize = 40;
/// A norm counts as at least this, so that it can be divided by.
const CORNER: f64 = 1e-3;

/// What the reward looked at on a flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    moments: Vec<[f32; VALUES]>,
    steps: usize,
}

impl Track {
    /// Takes a control step.
    pub(crate) fn add(&mut self, sample: &Sample) {
        if sample.counts {
            self.push(&sample.truth, &sample.reference, &sample.action);
        }
    }

    /// Takes a control step that counts.
    pub(crate) fn push(&mut self, state: &State, reference: &Reference, action: &Action) {
        if self.steps.is_multiple_of(EVERY) {
            let RewardInputs { position, tilt, velocity, rates, action } =
                RewardInputs::new(state, reference, action);
            let mut values = [0.0; VALUES];
            let all = position.into_iter().chain(tilt).chain(velocity).chain(rates).chain(action);
            values.iter_mut().zip(all).for_each(|(to, value)| *to = value);
            self.moments.push(values);
        }
        self.steps += 1;
    }
}

/// A flight that is to get better, and the same with each gain's logarithm changed by `by`; `None` where one failed.
pub(crate) struct Differences<'a> {
    pub(crate) at: &'a Track,
    pub(crate) moved: Vec<Option<&'a Track>>,
    pub(crate) by: f32,
}

/// The change of the gains' logarithms within bounds for which the norms' sum is least, over some flights, with a penalty
/// on the squared change.
pub(crate) fn step(flights: &[Differences<'_>], low: &Theta, high: &Theta, l2_penalty: f64) -> Theta {
    let slopes: Vec<Vec<[[f32; GAIN_COUNT]; VALUES]>> = flights.iter().map(Differences::slopes).collect();
    let weights = RewardWeights::PAPER;
    let weights = [weights.position, weights.tilt, weights.velocity, weights.rate, weights.action];
    // Sums are of a flight's control steps, in the mean over the flights.
    let per_moment = EVERY as f64 / flights.len().max(1) as f64;
    let mut delta = [0.0_f64; GAIN_COUNT];
    for _ in 0..ROUNDS {
        let (mut a, mut b) = ([[0.0_f64; GAIN_COUNT]; GAIN_COUNT], [0.0_f64; GAIN_COUNT]);
        for (flight, slopes) in flights.iter().zip(&slopes) {
            for (values, slopes) in flight.at.moments.iter().zip(slopes) {
                for ((begin, end), weight) in NORMS.into_iter().zip(weights) {
                    let rows = begin..end;
                    let now = |k: usize| -> f64 {
                        let change: f64 = slopes[k].iter().zip(delta).map(|(s, d)| f64::from(*s) * d).sum();
                        f64::from(values[k]) + change
                    };
                    let norm = rows.clone().map(|k| now(k).powi(2)).sum::<f64>().sqrt().max(CORNER);
                    let weight = f64::from(weight) * per_moment / norm;
                    for k in rows {
                        let slope = slopes[k].map(f64::from);
                        let value = f64::from(values[k]);
                        for i in 0..GAIN_COUNT {
                            b[i] += weight * slope[i] * value;
                            let scaled = weight * slope[i];
                            a[i].iter_mut().zip(slope).for_each(|(sum, s)| *sum += scaled * s);
                        }
                    }
                }
            }
        }
        (0..GAIN_COUNT).for_each(|i| a[i][i] += 2.0 * l2_penalty + 1e-6);
        for _ in 0..SWEEPS {
            for i in 0..GAIN_COUNT {
                let others: f64 = (0..GAIN_COUNT).filter(|j| *j != i).map(|j| a[i][j] * delta[j]).sum();
                delta[i] = (-(b[i] + others) / a[i][i]).clamp(f64::from(low[i]), f64::from(high[i]));
            }
        }
    }
    delta.map(|d| d as f32)
}

impl Differences<'_> {
    /// Slopes of every value in every gain. A gain whose flight failed has none, and stays as it is.
    fn slopes(&self) -> Vec<[[f32; GAIN_COUNT]; VALUES]> {
        let mut slopes = vec![[[0.0; GAIN_COUNT]; VALUES]; self.at.moments.len()];
        for (i, moved) in self.moved.iter().enumerate() {
            let Some(moved) = moved.filter(|m| m.moments.len() == self.at.moments.len()) else { continue };
            for ((slopes, there), here) in slopes.iter_mut().zip(&moved.moments).zip(&self.at.moments) {
                for k in 0..VALUES {
                    slopes[k][i] = (there[k] - here[k]) / self.by;
                }
            }
        }
        slopes
    }
}
