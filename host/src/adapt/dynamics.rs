//! What skills predict of the next state: E[s′ | s, a] = s + Mᵀ[ū(s), a, path].
//!
//! The skills factor the transition probabilities, P(s′ | s, a) = φ̄(s, a)ᵀ μ̄(s′) with φ̄ = ū(s) ⊗ (1, a), so the
//! expectation of anything in s′ is linear in φ̄. Of the products with a only a itself is used: the rest is more
//! than a few flights can tell. M is found in closed form, with a ridge that is chosen for each value of s′
//! by predicting pieces of flights that were not fitted.

use steady_common::observation::{OBSERVATION_LEN, layout};
use steady_common::{Quat, Vec3};
use steady_sim::Rng;
use tch::{Device, Kind, Tensor, no_grad};

use super::flights::{PATH_LEN, TransitionBatch};

/// Values of a state: position, attitude, velocity, rates, the last action and the law's integrals. The rest of
/// the observation follows from them (the quaternion, the motors) or is gone within a transition (the
/// differences).
pub const STATE_LEN: usize = 25;
/// Position, attitude, velocity and rates: the first values of a state.
pub const BODY_LEN: usize = 12;
/// Where these stand in the observation.
const STATE: [std::ops::Range<usize>; 2] = [layout::POSITION, layout::EULER.start..layout::INTEGRAL_RATE.end];
/// The path at s and at s′, products of the first in pairs, and 1.
pub const PATH_COLUMNS: i64 = (2 * PATH_LEN + PATH_LEN * (PATH_LEN + 1) / 2 + 1) as i64;

/// Pieces of flights for cross-validation and the bootstrap.
const BLOCKS: usize = 24;
/// Transitions of a piece at least: one second.
const MIN_BLOCK: usize = 20;
/// Parts of the cross-validation.
const FOLDS: usize = 4;
/// Flights that stay in the air are those of a stable loop: no mode of the dynamics grows, and the slowest
/// fades within some twenty seconds.
const SLOWEST: f64 = 0.9975;
/// How much weaker than the rest the path's columns are held: what a path costs is the real drone's.
const PATH_HELD: f64 = 1e-3;

const DOUBLE: (Kind, Device) = (Kind::Double, Device::Cpu);

/// Where a value of the state stands in the observation.
pub const fn place(value: usize) -> usize {
    let [position, rest] = STATE;
    if value < position.end { value } else { value - position.end + rest.start }
}

/// Where a value of the observation stands in the state.
pub(super) const fn state_index(place: usize) -> usize {
    let [position, rest] = STATE;
    if place < position.end { place } else { place - rest.start + position.end }
}

/// An observation with one value of its state changed.
pub fn changed(observation: &[f32; OBSERVATION_LEN], value: usize, by: f32) -> [f32; OBSERVATION_LEN] {
    let mut o = *observation;
    o[place(value)] += by;
    if layout::EULER.contains(&place(value)) {
        let [roll, pitch, yaw] = std::array::from_fn(|i| o[layout::EULER.start + i]);
        let q = Quat::from_euler(Vec3::new(roll, pitch, yaw));
        o[layout::QUATERNION].copy_from_slice(&[q.w, q.x, q.y, q.z]);
    }
    o
}

/// Skills as the dynamics use them.
pub trait Features {
    /// ū(s), the part of φ̄ = ū(s) ⊗ (1, a) that does not depend on the action.
    fn of_state(&self, s: &Tensor) -> Tensor;
}

/// Observations as rows of a tensor.
pub fn rows<const N: usize>(values: impl Iterator<Item = [f32; N]>) -> Tensor {
    Tensor::from_slice(&values.flatten().collect::<Vec<f32>>()).view([-1, N as i64])
}

/// What the path itself does: its columns beside the state's.
pub fn path_columns(path: &[[f32; PATH_LEN]; 2]) -> Vec<f32> {
    let [at, after] = path;
    let pairs = (0..PATH_LEN).flat_map(|i| (i..PATH_LEN).map(move |j| at[i] * at[j]));
    at.iter().chain(after).copied().chain(pairs).chain([1.0]).collect()
}

/// Transitions as a regression: columns of [ū, a, path], and s′ − s.
#[derive(Debug)]
pub struct Regression {
    x: Tensor,
    y: Tensor,
    blocks: Vec<Block>,
}

/// A piece of a flight, summed up.
#[derive(Debug)]
struct Block {
    first: i64,
    count: i64,
    weight: f64,
    xx: Tensor,
    xy: Tensor,
}

impl Regression {
    /// Of transitions, with a weight for each flight.
    pub fn new(features: &impl Features, t: &TransitionBatch, weights: &[f64]) -> Self {
        no_grad(|| {
            let s = rows(t.iter().map(|t| t.from));
            let a = rows(t.iter().map(|t| t.offset));
            let path =
                Tensor::from_slice(&t.iter().flat_map(|t| path_columns(&t.path)).collect::<Vec<f32>>());
            let x = Tensor::cat(&[features.of_state(&s), a, path.view([-1, PATH_COLUMNS])], 1);
            let x = x.to_kind(Kind::Double);
            let y: Vec<f64> = t
                .iter()
                .flat_map(|t| (0..STATE_LEN).map(|v| f64::from(t.to[place(v)] - t.from[place(v)])))
                .collect();
            let y = Tensor::from_slice(&y).view([-1, STATE_LEN as i64]);
            let length = (t.len() / BLOCKS).max(MIN_BLOCK);
            let mut blocks = Vec::new();
            let mut first = 0;
            while first < t.len() {
                let flight = t[first].flight;
                let same = (first..t.len()).take_while(|i| t[*i].flight == flight);
                let count = same.take(length).count().max(1);
                let (at, n) = (first as i64, count as i64);
                let (bx, by) = (x.narrow(0, at, n), y.narrow(0, at, n));
                let weight = weights.get(flight).copied().unwrap_or(1.0);
                let (xx, xy) = (bx.tr().matmul(&bx), bx.tr().matmul(&by));
                blocks.push(Block { first: at, count: n, weight, xx, xy });
                first += count;
            }
            Self { x, y, blocks }
        })
    }

    /// Columns of [φ̄, path].
    pub fn width(&self) -> i64 {
        self.x.size()[1]
    }

    fn weights(&self) -> Vec<f64> {
        self.blocks.iter().map(|b| b.weight).collect()
    }

    /// M with weights of the pieces, one for each ridge.
    fn solve(&self, weights: &[f64], ridges: &[f64]) -> Vec<Tensor> {
        let total: f64 =
            self.blocks.iter().zip(weights).map(|(b, w)| b.count as f64 * w).sum::<f64>().max(1.0);
        let add = |of: fn(&Block) -> &Tensor, like: [i64; 2]| {
            let mut sum = Tensor::zeros(like, DOUBLE);
            for (block, w) in self.blocks.iter().zip(weights).filter(|(_, w)| **w > 0.0) {
                sum += of(block) * (*w / total);
            }
            sum
        };
        let d = self.width();
        let (xx, xy) = (add(|b| &b.xx, [d, d]), add(|b| &b.xy, [d, STATE_LEN as i64]));
        // Scaled to unit mean square, so that the ridge means the same for every column.
        let scale = xx.diagonal(0, 0, 1).clamp_min(1e-18).sqrt().view([-1, 1]);
        let (xx, xy) = (xx / &scale / scale.tr(), xy / &scale);
        let held = Tensor::ones([d, 1], DOUBLE);
        let _ = held.narrow(0, d - PATH_COLUMNS, PATH_COLUMNS).fill_(PATH_HELD);
        ridges
            .iter()
            .map(|ridge| {
                let square = &xx + Tensor::diag(&held.view([-1]), 0) * *ridge;
                Tensor::linalg_solve(&square, &xy, true) / &scale
            })
            .collect()
    }

    /// Squared errors of s′ by M on a piece, for each value.
    fn errors(&self, block: &Block, m: &Tensor) -> Vec<f64> {
        let x = self.x.narrow(0, block.first, block.count);
        let miss = self.y.narrow(0, block.first, block.count) - x.matmul(m);
        Vec::try_from(miss.square().mean_dim(0, false, Kind::Double)).unwrap_or_default()
    }

    /// Finds M, its uncertainty, and how well it predicts what it was not fitted to.
    pub fn fit(&self, ridges: &[f64], samples: usize, rng: &mut Rng) -> Dynamics {
        no_grad(|| {
            let weights = self.weights();
            let mut errors: Vec<Vec<Vec<f64>>> = vec![Vec::new(); self.blocks.len()];
            for fold in 0..FOLDS {
                let keep: Vec<f64> = weights
                    .iter()
                    .enumerate()
                    .map(|(i, w)| if i % FOLDS == fold { 0.0 } else { *w })
                    .collect();
                let fitted = self.solve(&keep, ridges);
                for (i, block) in self.blocks.iter().enumerate().filter(|(i, _)| i % FOLDS == fold) {
                    errors[i] = fitted.iter().map(|m| self.errors(block, m)).collect();
                }
            }
            let count: f64 = self.blocks.iter().map(|b| b.count as f64 * b.weight).sum();
            let total = |ridge: usize, value: usize| -> f64 {
                let part = |(b, e): (&Block, &Vec<Vec<f64>>)| b.count as f64 * b.weight * e[ridge][value];
                self.blocks.iter().zip(&errors).map(part).sum::<f64>() / count.max(1.0)
            };
            let chosen: Vec<usize> = (0..STATE_LEN)
                .map(|v| (0..ridges.len()).min_by(|a, b| total(*a, v).total_cmp(&total(*b, v))).unwrap_or(0))
                .collect();
            let spread: Vec<f64> =
                Vec::try_from(self.y.square().mean_dim(0, false, Kind::Double)).unwrap_or_default();
            let relative = |e: &dyn Fn(usize) -> f64| -> f64 {
                (0..BODY_LEN).map(|v| e(v) / spread[v].max(1e-18)).sum::<f64>() / BODY_LEN as f64
            };
            let held_out = errors.iter().map(|e| relative(&|v| e[chosen[v]][v])).collect();
            let pick = |fitted: &[Tensor]| {
                let columns: Vec<Tensor> =
                    (0..).zip(&chosen).map(|(v, ridge)| fitted[*ridge].narrow(1, v, 1)).collect();
                Tensor::cat(&columns, 1)
            };
            let m = pick(&self.solve(&weights, ridges));
            let samples = (0..samples)
                .map(|_| {
                    let mut drawn = vec![0.0; weights.len()];
                    for _ in &weights {
                        let i = rng.next_u32() as usize % weights.len();
                        drawn[i] += weights[i];
                    }
                    pick(&self.solve(&drawn, ridges))
                })
                .collect();
            Dynamics { m, samples, held_out }
        })
    }
}

/// M.
#[derive(Debug)]
pub struct Dynamics {
    /// Rows for [ū, a, path], columns for s′ − s.
    pub m: Tensor,
    /// M of bootstrap samples of the pieces.
    pub samples: Vec<Tensor>,
    /// Squared error of the body's s′ on pieces that were not fitted, relative to how far the state moves;
    /// one for each piece.
    pub held_out: Vec<f64>,
}

/// The dynamics about the flights: s′ = A s + B a + what does not depend on them.
#[derive(Clone, Debug)]
pub struct Linear {
    /// What each value of s does to s′.
    pub a: Box<[[f64; STATE_LEN]; STATE_LEN]>,
    /// What each value of a does to s′.
    pub b: [[f64; STATE_LEN]; 4],
}

/// How ū changes with each value of the state, in the mean over rows of s.
#[derive(Debug)]
pub struct Slopes(Tensor);

impl Slopes {
    /// By differences over part of each value's spread: what matters is how the skills rise over the distances
    /// flown, not at a point.
    pub fn new(features: &impl Features, observations: &[[f32; OBSERVATION_LEN]]) -> Self {
        let n = observations.len().max(1) as f32;
        let slope = |v: usize| {
            let mean = observations.iter().map(|o| o[place(v)]).sum::<f32>() / n;
            let square = observations.iter().map(|o| (o[place(v)] - mean).powi(2)).sum::<f32>() / n;
            let step = (0.5 * square.sqrt()).max(1e-4);
            let moved = |by: f32| features.of_state(&rows(observations.iter().map(|o| changed(o, v, by))));
            (moved(step) - moved(-step)).mean_dim(0, true, Kind::Double) / f64::from(2.0 * step)
        };
        Self(no_grad(|| Tensor::cat(&(0..STATE_LEN).map(slope).collect::<Vec<_>>(), 0)))
    }

    pub fn linear(&self, m: &Tensor) -> Linear {
        let width = self.0.size()[1];
        let (a, b) = no_grad(|| {
            let one = Tensor::eye(STATE_LEN as i64, DOUBLE);
            (stable(&(self.0.matmul(&m.narrow(0, 0, width)) + one)), m.narrow(0, width, 4))
        });
        let numbers = |t: &Tensor| Vec::<f64>::try_from(t.reshape([-1])).unwrap_or_default();
        let mut linear = Linear { a: Box::new([[0.0; STATE_LEN]; STATE_LEN]), b: [[0.0; STATE_LEN]; 4] };
        linear.a.iter_mut().flatten().zip(numbers(&a)).for_each(|(to, from)| *to = from);
        linear.b.iter_mut().flatten().zip(numbers(&b)).for_each(|(to, from)| *to = from);
        linear
    }
}

/// A matrix whose eigenvalues beyond [`SLOWEST`] are scaled back to it.
fn stable(a: &Tensor) -> Tensor {
    let (values, vectors) = a.linalg_eig();
    let size = values.abs();
    if size.max().double_value(&[]) <= SLOWEST {
        return a.copy();
    }
    let kept = &values * (SLOWEST / size).clamp_max(1.0);
    (&vectors * kept.unsqueeze(0)).matmul(&Tensor::linalg_inv(&vectors)).real()
}
