//! Gains searched by their flights alone, without a gradient.
//!
//! Separable CMA-ES (Ros and Hansen 2008) over the 24 log-ratios θ = ln(k / k_nominal).

use steady_common::Gains;
use steady_common::gains::{GAIN_COUNT, GAINS};
use steady_sim::Rng;

/// Log-ratios of the gains to their nominal values: what is learned.
pub type Theta = [f32; GAIN_COUNT];

/// The gains of log-ratios, inside their bounds.
#[must_use]
pub fn gains_of(theta: &Theta) -> Gains {
    let mut values = [0.0; GAIN_COUNT];
    for ((value, t), info) in values.iter_mut().zip(theta).zip(&GAINS) {
        *value = info.nominal * t.exp();
    }
    Gains::from_array(values).bounded()
}

/// The log-ratios of gains.
#[must_use]
pub fn theta_of(gains: &Gains) -> Theta {
    let mut theta = [0.0; GAIN_COUNT];
    for ((t, value), info) in theta.iter_mut().zip(gains.to_array()).zip(&GAINS) {
        *t = (value / info.nominal).ln();
    }
    theta
}

/// Moves log-ratios into the gains' bounds.
pub fn clamp(theta: &mut Theta) {
    for (t, info) in theta.iter_mut().zip(&GAINS) {
        *t = t.clamp((info.min / info.nominal).ln(), (info.max / info.nominal).ln());
    }
}

/// How long and how wide a search is.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Candidates in a generation.
    pub population: usize,
    /// Generations.
    pub generations: usize,
    /// First standard deviation of the log-ratios.
    pub sigma: f32,
    /// Random seed.
    pub seed: u64,
}

/// Maximises `judge` from `start` on; returns the best candidate evaluated and its value. `judge` gets all candidates
/// of a generation at once; `progress` every generation's number and the best value.
pub fn climb(
    start: Theta,
    search: &Search,
    mut judge: impl FnMut(&[Theta]) -> Vec<f64>,
    mut progress: impl FnMut(usize, f64),
) -> (Theta, f64) {
    let n = GAIN_COUNT as f32;
    let lambda = search.population.max(4);
    let parents = lambda / 2;
    let mut weights: Vec<f32> =
        (0..parents).map(|i| (parents as f32 + 0.5).ln() - (i as f32 + 1.0).ln()).collect();
    let total: f32 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= total);
    let mu_eff = 1.0 / weights.iter().map(|w| w * w).sum::<f32>();
    let c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0);
    let d_sigma = 1.0 + c_sigma + 2.0 * (((mu_eff - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0);
    let c_c = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
    // Learning rates of the covariance, (n + 2) / 3 times the full method's: only a diagonal is learned.
    let c_1 = (2.0 / ((n + 1.3).powi(2) + mu_eff)) * (n + 2.0) / 3.0;
    let c_mu = ((2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0).powi(2) + mu_eff)) * (n + 2.0) / 3.0)
        .min(1.0 - c_1);
    let expected = n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));

    let mut rng = Rng::new(search.seed, 0x6f72_6163);
    let (mut mean, mut sigma): (Theta, f32) = (start, search.sigma);
    let (mut variance, mut p_sigma, mut p_c) =
        ([1.0_f32; GAIN_COUNT], [0.0_f32; GAIN_COUNT], [0.0_f32; GAIN_COUNT]);
    let mut best = (mean, judge(&[mean]).first().copied().unwrap_or(f64::NEG_INFINITY));
    for generation in 0..search.generations {
        let drawn: Vec<Theta> = (0..lambda)
            .map(|_| {
                let mut theta = mean;
                for (t, v) in theta.iter_mut().zip(&variance) {
                    *t += sigma * v.sqrt() * rng.normal();
                }
                clamp(&mut theta);
                theta
            })
            .collect();
        let mut candidates: Vec<(f64, Theta)> = judge(&drawn).into_iter().zip(drawn).collect();
        for (value, theta) in &candidates {
            if *value > best.1 {
                best = (*theta, *value);
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        let old = mean;
        for i in 0..GAIN_COUNT {
            mean[i] = candidates.iter().zip(&weights).map(|((_, t), w)| w * t[i]).sum();
            let step = (mean[i] - old[i]) / (sigma * variance[i].sqrt());
            p_sigma[i] = (1.0 - c_sigma) * p_sigma[i] + (c_sigma * (2.0 - c_sigma) * mu_eff).sqrt() * step;
        }
        let length = p_sigma.iter().map(|p| p * p).sum::<f32>().sqrt();
        let settled = length / (1.0 - (1.0 - c_sigma).powi(2 * (generation as i32 + 1))).sqrt();
        let moving = if settled < (1.4 + 2.0 / (n + 1.0)) * expected { 1.0 } else { 0.0 };
        for i in 0..GAIN_COUNT {
            let step = (mean[i] - old[i]) / sigma;
            p_c[i] = (1.0 - c_c) * p_c[i] + moving * (c_c * (2.0 - c_c) * mu_eff).sqrt() * step;
            let spread: f32 = candidates
                .iter()
                .zip(&weights)
                .map(|((_, t), w)| w * ((t[i] - old[i]) / sigma).powi(2))
                .sum();
            variance[i] = (1.0 - c_1 - c_mu) * variance[i] + c_1 * p_c[i] * p_c[i] + c_mu * spread;
        }
        sigma *= ((c_sigma / d_sigma) * (length / expected - 1.0)).exp();
        progress(generation, best.1);
    }
    best
}
