//! Policy evaluation over [φ°, φ] in closed form, and the gradient of the gains.
//!
//! Everything that the least squares needs is summed up for each flight, so that weights, cross-validation
//! and a bootstrap over flights are small linear systems. Q is linear in w, and so is its slope in the
//! action: the gains' gradient is a matrix times w.

use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use crate::train::env::Jacobian;
use crate::train::returns::Returns;

use super::flights::{Cuttings, PATH_LEN};

/// Columns that say what the path itself costs: its values, their products in pairs, and 1.
pub const BASELINE_LEN: i64 = (PATH_LEN + PATH_LEN * (PATH_LEN + 1) / 2 + 1) as i64;

/// The baseline's columns; a policy cannot change them, and without them their share of the returns would
/// be noise to everything else.
fn baseline(path: &[f32; PATH_LEN]) -> Vec<f32> {
    let pairs = (0..PATH_LEN).flat_map(|i| (i..PATH_LEN).map(move |j| path[i] * path[j]));
    path.iter().copied().chain(pairs).chain([1.0]).collect()
}

/// What one flight contributes.
#[derive(Debug)]
pub struct Sums {
    /// Σ φ (φ − γφ′)ᵀ.
    square: Tensor,
    /// Σ φ r.
    right: Tensor,
    /// Σ φ².
    power: Tensor,
    /// Rows in these sums.
    rows: f64,
    /// Σ over all transitions of Jᵀ ∂φ/∂a: the gains' gradient is this times w.
    slope: Tensor,
    /// Σ Jᵀ Σ⁻¹ J, the Fisher information of the policy.
    fisher: Tensor,
    /// All transitions.
    transitions: f64,
    /// φ, γφ′ and r of the rows, to test weights with.
    phi: Tensor,
    ends: Tensor,
    r: Tensor,
}

/// φ̄ at (s, a): all features, one row each.
pub trait Features {
    /// Of rows of s and a.
    fn features(&self, s: &Tensor, a: &Tensor) -> Tensor;
}

/// Sums of every flight of a collection, at the policy with `gains` and exploration `std`.
pub fn sums(
    skills: &impl Features,
    cuttings: &Cuttings,
    gains: &Gains,
    std: &[f32; 4],
    lookahead: usize,
    lambda: f64,
) -> Vec<Sums> {
    let Cuttings { collection, path } = cuttings;
    let flights = collection.episodes.iter().max().map_or(0, |e| *e as usize + 1);
    let returns = Returns::new(collection);
    let tensor = |values: Vec<f32>, width: i64| Tensor::from_slice(&values).view([-1, width]);
    no_grad(|| {
        (0..flights)
            .map(|flight| {
                let all: Vec<usize> = (0..collection.transitions.len())
                    .filter(|i| collection.episodes[*i] as usize == flight)
                    .collect();
                let known: Vec<usize> = all
                    .iter()
                    .copied()
                    .filter(|&i| returns.ahead[i] >= lookahead || returns.discount[i] == 0.0)
                    .collect();
                let at = |i: &usize| &collection.transitions[*i];
                let observations = |of: &[usize]| {
                    tensor(of.iter().flat_map(|i| at(i).from.observation).collect(), OBSERVATION_LEN as i64)
                };
                let s = observations(&all);
                let a = tensor(all.iter().flat_map(|i| at(i).offset).collect(), 4);
                let s2 =
                    tensor(all.iter().flat_map(|i| at(i).to.observation).collect(), OBSERVATION_LEN as i64);
                let paths = |k: usize| {
                    tensor(all.iter().flat_map(|i| baseline(&path[*i][k])).collect(), BASELINE_LEN)
                };
                let phi = Tensor::cat(&[skills.features(&s, &a), paths(0)], 1).to_kind(Kind::Double);
                let next = Tensor::cat(&[skills.features(&s2, &a.zeros_like()), paths(1)], 1);
                let discounts: Vec<f64> = all.iter().map(|i| f64::from(at(i).discount)).collect();
                let next = next.to_kind(Kind::Double) * Tensor::from_slice(&discounts).view([-1, 1]);
                let rewards: Vec<f64> = all.iter().map(|i| f64::from(at(i).reward)).collect();
                let (ends, r) = lambda_returns(&next, &rewards, &discounts, lambda);
                let keep = Tensor::from_slice(
                    &(0..).zip(&all).filter(|(_, i)| known.contains(i)).map(|(k, _)| k).collect::<Vec<i64>>(),
                );
                let (phi, ends, r) =
                    (phi.index_select(0, &keep), ends.index_select(0, &keep), r.index_select(0, &keep));
                let jacobians: Vec<&Jacobian> = all.iter().map(|i| &collection.jacobians[*i]).collect();
                let (slope, fisher) = slopes(skills, &observations(&all), &jacobians, gains, std);
                Sums {
                    square: phi.tr().matmul(&(&phi - &ends)),
                    right: phi.tr().matmul(&r),
                    power: phi.square().sum_dim_intlist(0, false, Kind::Double),
                    rows: known.len() as f64,
                    slope,
                    fisher,
                    transitions: all.len() as f64,
                    phi,
                    ends,
                    r,
                }
            })
            .collect()
    })
}

/// λ-returns of one flight as c + E·w: λ = 1 are the returns as flown, λ = 0 one step and the value there.
/// `next` has γφ′ in its rows.
fn lambda_returns(next: &Tensor, rewards: &[f64], discounts: &[f64], lambda: f64) -> (Tensor, Tensor) {
    let ends = next.copy();
    let mut sums = rewards.to_vec();
    for i in (0..rewards.len().saturating_sub(1)).rev() {
        sums[i] += lambda * discounts[i] * sums[i + 1];
        let later = ends.get(i as i64 + 1) * (lambda * discounts[i]) + next.get(i as i64) * (1.0 - lambda);
        ends.get(i as i64).copy_(&later);
    }
    (ends, Tensor::from_slice(&sums).view([-1, 1]))
}

/// Σ Jᵀ ∂φ/∂a and Σ Jᵀ Σ⁻¹ J with respect to the gains' logarithms.
fn slopes(
    skills: &impl Features,
    s: &Tensor,
    jacobians: &[&Jacobian],
    gains: &Gains,
    std: &[f32; 4],
) -> (Tensor, Tensor) {
    let n = jacobians.len() as i64;
    let flat: Vec<f32> = jacobians
        .iter()
        .flat_map(|j| j.iter().flat_map(|row| row.iter().zip(gains.to_array()).map(|(j, k)| j * k)))
        .collect();
    let j = Tensor::from_slice(&flat).view([n, 4, GAIN_COUNT as i64]).to_kind(Kind::Double);
    let mut slope: Option<Tensor> = None;
    let mut fisher = Tensor::zeros([GAIN_COUNT as i64, GAIN_COUNT as i64], (Kind::Double, tch::Device::Cpu));
    for (k, sigma) in (0..4).zip(std) {
        // A difference over the noise's own width; exact where φ is affine in the action.
        let step = Tensor::zeros([n, 4], (Kind::Float, tch::Device::Cpu));
        let _ = step.narrow(1, k, 1).fill_(f64::from(*sigma));
        let rise = (skills.features(s, &step) - skills.features(s, &-&step)).to_kind(Kind::Double)
            / (2.0 * f64::from(*sigma));
        let row = j.select(1, k);
        let part = row.tr().matmul(&rise);
        slope = Some(slope.map_or_else(|| part.shallow_clone(), |sum| sum + &part));
        fisher += row.tr().matmul(&row) / f64::from(sigma * sigma);
    }
    let none = Tensor::zeros([GAIN_COUNT as i64, BASELINE_LEN], (Kind::Double, tch::Device::Cpu));
    (Tensor::cat(&[slope.unwrap_or_else(|| fisher.zeros_like()), none], 1), fisher)
}

/// Weights of flights in one fit.
fn solve(sums: &[Sums], weights: &[f64], prior: &Tensor, ridge: f64, firm: &Tensor) -> Tensor {
    let total: f64 = sums.iter().zip(weights).map(|(s, w)| s.rows * w).sum::<f64>().max(1.0);
    let add = |of: fn(&Sums) -> &Tensor| {
        sums.iter().zip(weights).map(|(s, w)| of(s) * (*w / total)).reduce(|a, b| a + b)
    };
    let (Some(square), Some(right), Some(power)) = (add(|s| &s.square), add(|s| &s.right), add(|s| &s.power))
    else {
        return prior.copy();
    };
    // Scaled to unit mean square, so that the ridge means the same for every feature.
    let scale = power.sqrt().clamp_min(1e-6).view([-1, 1]);
    let d = scale.size()[0];
    // The baseline is free: the level of the returns is the task's, not the simulator's.
    let held = firm.copy();
    let _ = held.narrow(0, d - BASELINE_LEN, BASELINE_LEN).fill_(1e-6 / ridge.max(1e-6));
    let a = square / &scale / scale.tr() + Tensor::diag(&held.view([-1]), 0) * ridge;
    let b = right / &scale + prior * &scale * held * ridge;
    Tensor::linalg_solve(&a, &b, true) / scale
}

/// Squared error of r + γφ′w − φw over flights, relative to the returns' spread.
fn error(sums: &[&Sums], w: &Tensor) -> f64 {
    let stack = |of: fn(&Sums) -> &Tensor| Tensor::cat(&sums.iter().map(|s| of(s)).collect::<Vec<_>>(), 0);
    let goal = stack(|s| &s.r) + stack(|s| &s.ends).matmul(w);
    let miss = (&goal - stack(|s| &s.phi).matmul(w)).square().mean(Kind::Double).double_value(&[]);
    miss / goal.var(false).double_value(&[]).max(1e-12)
}

/// The value of a policy, and where its gains should go.
#[derive(Debug)]
pub struct Value {
    /// (w1, w2).
    pub w: Tensor,
    /// Ridge that predicts flights best which it was not fitted to.
    pub ridge: f64,
    /// Squared TD error on such flights, relative to the returns' spread, over the folds.
    pub held_out: Vec<f64>,
    /// The same with the weights before any fit.
    pub prior_error: Vec<f64>,
    /// ∂J/∂θ per transition.
    pub gradient: [f64; GAIN_COUNT],
    /// Its standard deviation over bootstrap samples of flights.
    pub spread: [f64; GAIN_COUNT],
    /// Gradients of the samples.
    pub samples: Vec<[f64; GAIN_COUNT]>,
    /// Fisher information of the policy per transition, row by row.
    pub fisher: Vec<f64>,
}

/// Finds the weights: ridge by cross-validation over flights, uncertainty by a bootstrap.
pub fn evaluate(
    sums: &[Sums],
    weights: &[f64],
    prior: &Tensor,
    firm: &Tensor,
    ridges: &[f64],
    bootstrap: usize,
    rng: &mut Rng,
) -> Value {
    no_grad(|| {
        let folds: usize = 2;
        let halves = |fold: usize| -> (Vec<f64>, Vec<&Sums>) {
            let keep = weights.iter().enumerate().map(|(i, w)| if i % folds == fold { 0.0 } else { *w });
            let test = sums.iter().enumerate().filter(|(i, s)| i % folds == fold && s.rows > 0.0);
            (keep.collect(), test.map(|(_, s)| s).collect())
        };
        let errors = |ridge: Option<f64>| -> Vec<f64> {
            (0..folds)
                .filter_map(|fold| {
                    let (keep, test) = halves(fold);
                    (!test.is_empty()).then(|| match ridge {
                        Some(ridge) => error(&test, &solve(sums, &keep, prior, ridge, firm)),
                        None => error(&test, prior),
                    })
                })
                .collect()
        };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
        let (ridge, held_out) = ridges
            .iter()
            .map(|r| (*r, errors(Some(*r))))
            .min_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))
            .unwrap_or((1.0, Vec::new()));
        let w = solve(sums, weights, prior, ridge, firm);
        let gradient = gain_gradient(sums, weights, &w);
        let samples: Vec<[f64; GAIN_COUNT]> = (0..bootstrap)
            .map(|_| {
                let mut drawn = vec![0.0; weights.len()];
                for _ in weights {
                    let i = rng.next_u32() as usize % weights.len().max(1);
                    drawn[i] += weights[i];
                }
                gain_gradient(sums, &drawn, &solve(sums, &drawn, prior, ridge, firm))
            })
            .collect();
        let mut spread = [0.0; GAIN_COUNT];
        for (i, s) in spread.iter_mut().enumerate() {
            let m = mean(&samples.iter().map(|g| g[i]).collect::<Vec<_>>());
            *s = mean(&samples.iter().map(|g| (g[i] - m).powi(2)).collect::<Vec<_>>()).sqrt();
        }
        let total: f64 = sums.iter().zip(weights).map(|(s, w)| s.transitions * w).sum::<f64>().max(1.0);
        let fisher = sums.iter().zip(weights).map(|(s, w)| &s.fisher * (*w / total)).reduce(|a, b| a + b);
        let fisher =
            fisher.map_or_else(Vec::new, |f| Vec::<f64>::try_from(f.reshape([-1])).unwrap_or_default());
        Value { w, ridge, held_out, prior_error: errors(None), gradient, spread, samples, fisher }
    })
}

fn gain_gradient(sums: &[Sums], weights: &[f64], w: &Tensor) -> [f64; GAIN_COUNT] {
    let total: f64 = sums.iter().zip(weights).map(|(s, k)| s.transitions * k).sum::<f64>().max(1.0);
    let mut gradient = [0.0; GAIN_COUNT];
    if let Some(slope) = sums.iter().zip(weights).map(|(s, k)| &s.slope * (*k / total)).reduce(|a, b| a + b) {
        let g = Vec::<f64>::try_from(slope.matmul(w).reshape([-1])).unwrap_or_default();
        for (to, from) in gradient.iter_mut().zip(g) {
            *to = from;
        }
    }
    gradient
}
