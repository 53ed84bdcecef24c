//! Policy evaluation over [φ°, φ] in closed form: LSTD(λ) from the simulator's weights.
//!
//! Everything that the least squares needs is summed up for each flight, so that cross-validation is a few
//! small linear systems.

use tch::{Kind, Tensor, no_grad};

use crate::train::returns::Returns;

use super::dynamics::{Features, rows};
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
    /// φ, γφ′ and r of the rows, to test weights with.
    phi: Tensor,
    ends: Tensor,
    r: Tensor,
}

/// Sums of every flight of a collection.
pub fn sums(skills: &impl Features, cuttings: &Cuttings, lookahead: usize, lambda: f64) -> Vec<Sums> {
    let Cuttings { collection, path, .. } = cuttings;
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
                let s = rows(all.iter().map(|i| at(i).from));
                let a = rows(all.iter().map(|i| at(i).offset));
                let s2 = rows(all.iter().map(|i| at(i).to));
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
                Sums {
                    square: phi.tr().matmul(&(&phi - &ends)),
                    right: phi.tr().matmul(&r),
                    power: phi.square().sum_dim_intlist(0, false, Kind::Double),
                    rows: known.len() as f64,
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

/// Weights of flights in one fit.
fn solve(sums: &[Sums], weights: &[f64], prior: &Tensor, ridge: f64) -> Tensor {
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
    let held = scale.ones_like();
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

/// The value of a policy.
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
}

/// Finds the weights, with the ridge by cross-validation over flights.
pub fn evaluate(sums: &[Sums], weights: &[f64], prior: &Tensor, ridges: &[f64]) -> Value {
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
                        Some(ridge) => error(&test, &solve(sums, &keep, prior, ridge)),
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
        Value { w: solve(sums, weights, prior, ridge), ridge, held_out, prior_error: errors(None) }
    })
}
