//! Policy improvement: the best change of the gains within the trust region, by rollouts.

use steady_common::Gains;
use steady_common::gains::{GAIN_COUNT, GAINS};

use crate::train::env::Jacobian;
use crate::train::oracle::{Theta, clamp};

use super::config::Config;
use super::dynamics::Linear;
use super::rollout::{Delta, Rollout};
use crate::closed_loop::TrustRegion;

const SEARCH_STEPS: usize = 80;
/// First length of such a step, as part of the largest change.
const FIRST_LENGTH: f64 = 0.15;

/// A step of the gains, and what the model predicts of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GainStep {
    /// The new θ.
    pub theta: Theta,
    /// Predicted reward of a flight with the present gains, without the constant.
    pub present: f64,
    /// Predicted reward change.
    pub change: f64,
    /// Standard deviation of it over bootstrap samples.
    pub change_std: f64,
    /// ∂R/∂θ at the present gains.
    pub gradient: Delta,
    /// Standard deviation of it over bootstrap samples.
    pub gradient_std: Delta,
    /// KL divergence from the present policy, per transition.
    pub divergence: f64,
}

/// The Fisher information of the policy per transition, with respect to the gains' logarithms.
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

/// The step with the highest mean reward over all dynamics (the first is the best fit, the others are bootstrap
/// samples of it), less the penalties.
pub fn improve(
    theta: &Theta,
    rollout: &Rollout,
    dynamics: &[Linear],
    fisher: &[Delta],
    transitions_per_flight: f64,
    region: &TrustRegion,
    config: &Config,
) -> GainStep {
    let bounds = region.bounds();
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
    // No step whose rollout diverges with any of the dynamics.
    let objective = |delta: &Delta| -> Option<(f64, Delta)> {
        let (mut value, mut slope) = mean(rollout, dynamics, delta)?;
        let (kl, kl_slope) = divergence(delta);
        value -= price * kl + config.l2_penalty * dot(delta, delta);
        for i in 0..GAIN_COUNT {
            slope[i] -= price * kl_slope[i] + 2.0 * config.l2_penalty * delta[i];
        }
        Some((value, slope))
    };
    let none = [0.0; GAIN_COUNT];
    let (mut delta, mut first, mut second) = (none, none, none);
    let mut best = (f64::NEG_INFINITY, delta);
    let mut part = 1.0;
    for step in 0..SEARCH_STEPS {
        let Some((value, slope)) = objective(&delta) else {
            // Back to the best, and more carefully.
            (delta, first, second) = (best.1, none, none);
            part *= 0.5;
            continue;
        };
        if value > best.0 {
            best = (value, delta);
        }
        let length = part * FIRST_LENGTH * (1.0 - step as f64 / SEARCH_STEPS as f64);
        for i in 0..GAIN_COUNT {
            first[i] += 0.2 * (slope[i] - first[i]);
            second[i] += 0.1 * (slope[i] * slope[i] - second[i]);
            delta[i] += length * bounds[i] * first[i] / (second[i].sqrt() + 1e-9);
        }
        delta = inside(&delta);
    }
    let delta = best.1;
    let of = |delta: &Delta| dynamics.iter().filter_map(|d| rollout.reward(d, delta)).collect::<Vec<_>>();
    let (before, after) = (of(&none), of(&delta));
    let changes: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a.0 - b.0).collect();
    let gradients: Vec<Delta> = before.iter().map(|r| r.1).collect();
    let mut new = *theta;
    new.iter_mut().zip(delta).for_each(|(t, d)| *t += d as f32);
    clamp(&mut new);
    GainStep {
        theta: new,
        present: before.first().map_or(0.0, |r| r.0),
        change: changes.iter().sum::<f64>() / changes.len().max(1) as f64,
        change_std: bootstrap_std(&changes),
        gradient: gradients.first().copied().unwrap_or(none),
        gradient_std: std::array::from_fn(|i| {
            bootstrap_std(&gradients.iter().map(|g| g[i]).collect::<Vec<_>>())
        }),
        divergence: divergence(&delta).0,
    }
}

fn mean(rollout: &Rollout, dynamics: &[Linear], delta: &Delta) -> Option<(f64, Delta)> {
    let (mut value, mut slope) = (0.0, [0.0; GAIN_COUNT]);
    for d in dynamics {
        let (v, s) = rollout.reward(d, delta)?;
        value += v;
        slope.iter_mut().zip(s).for_each(|(to, s)| *to += s);
    }
    let n = dynamics.len().max(1) as f64;
    Some((value / n, slope.map(|s| s / n)))
}

/// Standard deviation of the samples behind the first value.
fn bootstrap_std(values: &[f64]) -> f64 {
    let samples = values.get(1..).unwrap_or_default();
    let n = samples.len().max(1) as f64;
    let mean = samples.iter().sum::<f64>() / n;
    (samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}

fn dot(a: &Delta, b: &Delta) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
