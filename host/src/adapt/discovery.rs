//! Skill discovery: φ, μ for what the simulator's φ°, μ° do not explain of real flights.
//!
//! L_disc is L_feat over [φ°, φ] and [μ°, μ] with φ° and μ° as they are, plus λ Σ |⟨φ°ᵢ, φⱼ⟩| in normalised
//! form. λ grows until the correlations are small; what the penalty leaves is then projected out, so that
//! the new skills are orthogonal to the old ones on the data.

use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use crate::train::nets::{Mlp, Normaliser, Trainable, minimise};
use crate::train::spectral::{ACTION_LEN, OUTCOME, Skills, affine, spectral_loss};

use super::config::Config;
use super::dynamics::{STATE_LEN, place};

/// λ grows to at most this many times its first value.
const MAX_LAMBDA_FACTOR: f64 = 1e3;

/// New skills.
#[derive(Debug)]
pub struct Discovery {
    /// u(s) of the new φ(s, a) = u(s) ⊗ (1, a) is this network and a linear part.
    pub phi: Mlp,
    /// The linear part of u(s). It begins with one value of s for each feature: what a drone does next is close
    /// to linear in what it does now, and the simulator's skills, made for wide ranges, are coarse there.
    pub linear: Trainable,
    /// The new μ(s′).
    pub mu: Mlp,
    /// Statistics of the flights' observations and actions.
    observations: Normaliser,
    actions: Normaliser,
    /// What is subtracted: φ = ψ − φ°·project.
    project: Tensor,
    /// λ.
    pub lambda: f64,
    features: i64,
    /// L_disc and λ at every update of the latest learning.
    pub trace: Vec<[f64; 2]>,
}

/// The flights' transitions as tensors, and what the simulator's skills say of them.
#[derive(Debug)]
pub struct Data {
    /// s, a, s′, one row each.
    pub s: Tensor,
    /// a.
    pub a: Tensor,
    /// s′.
    pub s2: Tensor,
    /// φ°(s, a).
    pub old_phi: Tensor,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Found {
    /// L_disc of the last batch.
    pub loss: f64,
    /// Largest normalised correlation before and after the projection.
    pub correlation_by_penalty: f64,
    /// After it.
    pub correlation: f64,
    /// λ in the end.
    pub lambda: f64,
}

impl Discovery {
    /// New skills with random weights beside `old` ones.
    pub fn new(rng: &mut Rng, config: &Config, old: &Skills) -> Self {
        let u = (config.features + ACTION_LEN) / (ACTION_LEN + 1);
        let features = u * (ACTION_LEN + 1);
        let scale = 0.3 * (features as f64).powf(-0.25);
        let cpu = (Kind::Float, tch::Device::Cpu);
        let width = old.width() - 2;
        let first: Vec<i64> = (0..STATE_LEN).take(u as usize).map(|v| place(v) as i64).collect();
        let linear = Tensor::eye(OBSERVATION_LEN as i64, cpu)
            .index_select(1, &Tensor::from_slice(&first))
            .constant_pad_nd([0, u - first.len() as i64]);
        Self {
            phi: Mlp::new(rng, OBSERVATION_LEN as i64, config.hidden, u, scale),
            linear: Trainable::new(&[linear * scale]),
            mu: Mlp::new(rng, OUTCOME.len() as i64, config.hidden, features, scale),
            observations: Normaliser::new(OBSERVATION_LEN as i64),
            actions: Normaliser::new(ACTION_LEN),
            project: Tensor::zeros([width, features], cpu),
            lambda: config.lambda,
            features,
            trace: Vec::new(),
        }
    }

    /// Number of new features.
    pub fn width(&self) -> i64 {
        self.features
    }

    /// φ(s, a) before the projection.
    fn psi(&self, s: &Tensor, a: &Tensor) -> Tensor {
        let s = self.observations.apply(s);
        let u = self.phi.forward(&s) + s.matmul(&self.linear.leaves()[0]);
        affine(&u, &self.actions.apply(a))
    }

    /// φ(s, a), given φ°(s, a).
    pub fn features(&self, s: &Tensor, a: &Tensor, old_phi: &Tensor) -> Tensor {
        self.psi(s, a) - old_phi.matmul(&self.project)
    }

    /// Sets the normalisation to the statistics of these inputs.
    pub fn normalise_to(&mut self, s: &Tensor, a: &Tensor) {
        self.observations = Normaliser::new(OBSERVATION_LEN as i64);
        self.actions = Normaliser::new(ACTION_LEN);
        self.observations.update(s);
        self.actions.update(a);
    }

    fn mu(&self, s2: &Tensor, rng: &mut Rng, smoothing: f64) -> Tensor {
        let seen = self.observations.apply(s2).index_select(1, &Tensor::from_slice(&OUTCOME));
        let noise = crate::train::nets::normal(rng, &seen.size()) * smoothing;
        self.mu.forward(&(seen + noise))
    }

    pub fn learn(&mut self, old: &Skills, data: &Data, rng: &mut Rng, config: &Config) -> Found {
        let n = data.s.size().first().copied().unwrap_or(0);
        let batch = (config.batch as i64).min(n);
        let mut found = Found::default();
        self.trace.clear();
        for update in 0..config.updates {
            let rows: Vec<i64> =
                (0..batch).map(|_| (u64::from(rng.next_u32()) % n.max(1) as u64) as i64).collect();
            let rows = Tensor::from_slice(&rows);
            let pick = |t: &Tensor| t.index_select(0, &rows);
            let (s, a, s2, old_phi) = (pick(&data.s), pick(&data.a), pick(&data.s2), pick(&data.old_phi));
            let psi = self.psi(&s, &a);
            let old_mu = no_grad(|| old.outcome(&s2, rng, config.smoothing));
            let mu = self.mu(&s2, rng, config.smoothing);
            let disc = spectral_loss(&Tensor::cat(&[&old_phi, &psi], 1), &Tensor::cat(&[&old_mu, &mu], 1));
            found.loss = disc.double_value(&[]);
            let correlations = correlations(&old_phi, &psi);
            if update % 5 == 0 {
                // λ rises while the constraint is broken and falls slowly while it is kept. The largest of
                // many correlations of a batch is above 0 by chance alone.
                let chance = 3.0 / (batch as f64).sqrt();
                let broken = largest(&correlations) > config.correlation + chance;
                self.lambda = (self.lambda * if broken { 1.2 } else { 0.95 })
                    .clamp(config.lambda, MAX_LAMBDA_FACTOR * config.lambda);
            }
            self.trace.push([found.loss, self.lambda]);
            let loss = disc + correlations.abs().sum(Kind::Float) * (self.lambda / self.features as f64);
            let mut trained = [&mut self.phi.trainable, &mut self.linear, &mut self.mu.trainable];
            minimise(&loss, &mut trained, config.rate);
        }
        no_grad(|| {
            let psi = self.psi(&data.s, &data.a);
            found.correlation_by_penalty = largest(&correlations(&data.old_phi, &psi));
            self.project = projection(&data.old_phi, &psi);
            let phi = psi - data.old_phi.matmul(&self.project);
            found.correlation = largest(&correlations(&data.old_phi, &phi));
        });
        found.lambda = self.lambda;
        found
    }
}

/// E[xᵢ yⱼ] in normalised form.
pub fn correlations(x: &Tensor, y: &Tensor) -> Tensor {
    let size = |t: &Tensor| t.square().mean_dim(0, true, Kind::Float).sqrt().clamp_min(1e-6);
    let n = x.size().first().copied().unwrap_or(1) as f64;
    (x / size(x)).tr().matmul(&(y / size(y))) / n
}

fn largest(correlations: &Tensor) -> f64 {
    if correlations.numel() == 0 { 0.0 } else { correlations.abs().max().double_value(&[]) }
}

/// Least squares of y on x, with a ridge that keeps dependent columns of x apart.
fn projection(x: &Tensor, y: &Tensor) -> Tensor {
    let (x, y) = (x.to_kind(Kind::Double), y.to_kind(Kind::Double));
    let (n, d) = x.size2().unwrap_or((1, 1));
    let scale = x.square().mean_dim(0, true, Kind::Double).sqrt().clamp_min(1e-9);
    let x = x / &scale;
    let square = x.tr().matmul(&x) / n as f64 + Tensor::eye(d, (Kind::Double, tch::Device::Cpu)) * 1e-6;
    (Tensor::linalg_solve(&square, &(x.tr().matmul(&y) / n as f64), true) / scale.tr()).to_kind(Kind::Float)
}
