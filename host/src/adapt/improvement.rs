//! Policy improvement: the best change of the gains within its bounds, by flights flown again in thought.

use steady_common::Gains;
use steady_common::gains::{GAIN_COUNT, GAINS};

use crate::train::env::Jacobian;
use crate::train::oracle::{Theta, clamp};

use super::config::Config;
use super::dynamics::Linear;
use super::rollout::{Delta, Flown};

/// Steps of the search.
const ITERATIONS: usize = 80;
/// First length of such a step, as part of the largest change.
const FIRST: f64 = 0.15;
/// Gains from this one on are those of the fast loops.
const FAST: usize = 12;

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The new θ.
    pub theta: Theta,
    /// Reward of a flight with the present gains, as the model has it, without the constant.
    pub present: f64,
    /// How much more it believes the new gains bring, and the standard deviation of that over
    /// bootstrap samples.
    pub gain: f64,
    /// See above.
    pub spread: f64,
    /// ∂R/∂θ at the present gains, and its standard deviation.
    pub gradient: Delta,
    /// See above.
    pub gradient_spread: Delta,
    /// KL divergence from the present policy, per transition.
    pub divergence: f64,
}

/// The Fisher information of the policy per transition, with respect to the gains' logarithms.
#[must_use]
pub fn fisher(jacobians: &[&Jacobian], gains: &Gains, std: &[f32; 4]) -> Vec<Delta> {
    let gains = gains.to_array();
    let mut sum = vec![[0.0; GAIN_COUNT]; GAIN_COUNT];
    for (row, sigma) in jacobians.iter().flat_map(|j| j.iter().zip(std)) {
        let scaled: Delta = std::array::from_fn(|i| f64::from(row[i] * gains[i] / sigma.max(1e-6)));
        for (to, a) in sum.iter_mut().zip(&scaled) {
            to.iter_mut().zip(&scaled).for_each(|(to, b)| *to += a * b);
        }
    }
    let n = jacobians.len().max(1) as f64;
    sum.iter_mut().flatten().for_each(|f| *f /= n);
    sum
}

/// The step that brings most in the mean of all dynamics (the first is the best fit, the others are bootstrap
/// samples of it), less its price.
#[must_use]
pub fn improve(
    theta: &Theta,
    flown: &Flown,
    dynamics: &[Linear],
    fisher: &[Delta],
    transitions_per_flight: f64,
    scale: f32,
    config: &Config,
) -> Step {
    let bounds: Delta =
        std::array::from_fn(|i| f64::from(scale * if i < FAST { config.step } else { config.fast_step }));
    let inside = |delta: &Delta| -> Delta {
        std::array::from_fn(|i| {
            let (low, high) =
                ((GAINS[i].min / GAINS[i].nominal).ln(), (GAINS[i].max / GAINS[i].nominal).ln());
            let t = f64::from(theta[i]);
            (t + delta[i].clamp(-bounds[i], bounds[i])).clamp(f64::from(low), f64::from(high)) - t
        })
    };
    let price = config.tau * transitions_per_flight;
    let divergence = |delta: &Delta| -> (f64, Delta) {
        let slope: Delta = std::array::from_fn(|i| dot(&fisher[i], delta));
        (0.5 * dot(&slope, delta), slope)
    };
    // A step that loses the drone by any of the dynamics is none.
    let objective = |delta: &Delta| -> Option<(f64, Delta)> {
        let (mut value, mut slope) = mean(flown, dynamics, delta)?;
        let (kl, kl_slope) = divergence(delta);
        value -= price * kl + config.still * dot(delta, delta);
        for i in 0..GAIN_COUNT {
            slope[i] -= price * kl_slope[i] + 2.0 * config.still * delta[i];
        }
        Some((value, slope))
    };
    let none = [0.0; GAIN_COUNT];
    let (mut delta, mut first, mut second) = (none, none, none);
    let mut best = (f64::NEG_INFINITY, delta);
    let mut part = 1.0;
    for iteration in 0..ITERATIONS {
        let Some((value, slope)) = objective(&delta) else {
            // Back to the best, and more carefully.
            (delta, first, second) = (best.1, none, none);
            part *= 0.5;
            continue;
        };
        if value > best.0 {
            best = (value, delta);
        }
        let length = part * FIRST * (1.0 - iteration as f64 / ITERATIONS as f64);
        for i in 0..GAIN_COUNT {
            first[i] += 0.2 * (slope[i] - first[i]);
            second[i] += 0.1 * (slope[i] * slope[i] - second[i]);
            delta[i] += length * bounds[i] * first[i] / (second[i].sqrt() + 1e-9);
        }
        delta = inside(&delta);
    }
    let delta = best.1;
    let of = |delta: &Delta| dynamics.iter().filter_map(|d| flown.reward(d, delta)).collect::<Vec<_>>();
    let (before, after) = (of(&none), of(&delta));
    let gains: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a.0 - b.0).collect();
    let gradients: Vec<Delta> = before.iter().map(|r| r.1).collect();
    let mut new = *theta;
    new.iter_mut().zip(delta).for_each(|(t, d)| *t += d as f32);
    clamp(&mut new);
    Step {
        theta: new,
        present: before.first().map_or(0.0, |r| r.0),
        gain: gains.iter().sum::<f64>() / gains.len().max(1) as f64,
        spread: deviation(&gains),
        gradient: gradients.first().copied().unwrap_or(none),
        gradient_spread: std::array::from_fn(|i| {
            deviation(&gradients.iter().map(|g| g[i]).collect::<Vec<_>>())
        }),
        divergence: divergence(&delta).0,
    }
}

fn mean(flown: &Flown, dynamics: &[Linear], delta: &Delta) -> Option<(f64, Delta)> {
    let (mut value, mut slope) = (0.0, [0.0; GAIN_COUNT]);
    for d in dynamics {
        let (v, s) = flown.reward(d, delta)?;
        value += v;
        slope.iter_mut().zip(s).for_each(|(to, s)| *to += s);
    }
    let n = dynamics.len().max(1) as f64;
    Some((value / n, slope.map(|s| s / n)))
}

/// Standard deviation of the samples behind the first value.
fn deviation(values: &[f64]) -> f64 {
    let samples = values.get(1..).unwrap_or_default();
    let n = samples.len().max(1) as f64;
    let mean = samples.iter().sum::<f64>() / n;
    (samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}

fn dot(a: &Delta, b: &Delta) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
