//! From a gradient to a change of the gains: bounded in every gain and in what the policy does.

use steady_common::gains::GAIN_COUNT;

use crate::train::oracle::{Theta, clamp};

use super::config::Config;
use super::synthesis::Value;

/// The direction of earlier rounds.
pub type Momentum = [f64; GAIN_COUNT];

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The new θ.
    pub theta: Theta,
    /// KL divergence from the present policy, per transition.
    pub divergence: f64,
}

/// A step up a gradient with its uncertainty. The price of KL(π‖π°) is part of the gradient; a gain moves by at
/// most `config.step`, by less where its gradient is small or unsure, and all of them by less where the
/// policy would change too much.
pub fn step(
    theta: &Theta,
    origin: &Theta,
    value: &Value,
    momentum: &mut Momentum,
    scale: f32,
    config: &Config,
) -> Step {
    let Value { gradient, spread, fisher, .. } = value;
    let away: Vec<f64> = theta.iter().zip(origin).map(|(a, b)| f64::from(a - b)).collect();
    let pull = times(fisher, &away);
    let keep = f64::from(config.momentum);
    for ((m, g), p) in momentum.iter_mut().zip(gradient).zip(pull) {
        *m = keep * *m + (1.0 - keep) * (g - config.tau * p);
    }
    let most = momentum.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    let soft = f64::from(config.soft) * most + 1e-12;
    let change: Vec<f64> = momentum
        .iter()
        .zip(spread)
        .map(|(m, s)| f64::from(config.step * scale) * m / (m.abs() + s + soft))
        .collect();
    let divergence = 0.5 * dot(&change, &times(fisher, &change));
    let shrink = (config.trust / divergence.max(1e-12)).sqrt().min(1.0);
    let mut new = *theta;
    for (t, c) in new.iter_mut().zip(&change) {
        *t += (c * shrink) as f32;
    }
    clamp(&mut new);
    Step { theta: new, divergence: divergence * shrink * shrink }
}

fn times(square: &[f64], v: &[f64]) -> Vec<f64> {
    square.chunks(GAIN_COUNT).map(|row| dot(row, v)).chain(std::iter::repeat(0.0)).take(GAIN_COUNT).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
