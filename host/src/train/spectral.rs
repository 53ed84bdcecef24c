//! Skills: the spectral representation φ(s, a), μ(s′) of the dynamics.
//!
//! P(s′ | s, a) ≈ φ(s, a)ᵀ μ(s′), learned with the paper's surrogate loss
//! L_feat = −2 E[φ(s, a)ᵀ μ(s′)] + E_(s,a) E_s′ [(φ(s, a)ᵀ μ(s′))²]
//! where the second s′ is drawn from the batch, independently of (s, a).
//!
//! A network ρ(s, a) predicts a transition's reward; it and a constant are appended to φ, so that
//! the reward is linear in the features as a linear MDP has it.

use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor};

use super::nets::{Mlp, Normaliser, Saved};

/// Values of an action.
const ACTION_LEN: i64 = 4;

/// φ, μ, the reward's model, and what normalises their inputs.
#[derive(Debug)]
pub struct Skills {
    /// φ(s, a).
    pub phi: Mlp,
    /// μ(s′).
    pub mu: Mlp,
    /// ρ(s, a), the normalised reward.
    pub rho: Mlp,
    /// Statistics of observations.
    pub observations: Normaliser,
    /// Statistics of actions.
    pub actions: Normaliser,
    /// Statistics of rewards.
    pub rewards: Normaliser,
    features: i64,
}

/// A batch of transitions as tensors.
#[derive(Debug)]
pub struct Batch {
    /// s, one row each.
    pub s: Tensor,
    /// a.
    pub a: Tensor,
    /// r, a column.
    pub r: Tensor,
    /// s′.
    pub s2: Tensor,
}

/// Losses of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// L_feat.
    pub feature: f64,
    /// Mean squared error of the normalised reward.
    pub reward: f64,
}

impl Skills {
    /// Skills with random weights.
    #[must_use]
    pub fn new(rng: &mut Rng, hidden: i64, features: i64) -> Self {
        let s = OBSERVATION_LEN as i64;
        // Products of d features should start of order one.
        let scale = (features as f64).powf(-0.25);
        Self {
            phi: Mlp::new(rng, s + ACTION_LEN, hidden, features, scale),
            mu: Mlp::new(rng, s, hidden, features, scale),
            rho: Mlp::new(rng, s + ACTION_LEN, hidden / 2, 1, 0.1),
            observations: Normaliser::new(s),
            actions: Normaliser::new(ACTION_LEN),
            rewards: Normaliser::new(1),
            features,
        }
    }

    /// Number of columns of [`Self::features`]: φ, the reward and the constant.
    #[must_use]
    pub fn width(&self) -> i64 {
        self.features + 2
    }

    /// Normalised (s, a).
    fn pair(&self, s: &Tensor, a: &Tensor) -> Tensor {
        Tensor::cat(&[self.observations.apply(s), self.actions.apply(a)], 1)
    }

    /// [φ(s, a), ρ(s, a), 1], one row each.
    pub fn features(&self, s: &Tensor, a: &Tensor) -> Tensor {
        let x = self.pair(s, a);
        let rho = self.rho.forward(&x);
        let one = rho.ones_like();
        Tensor::cat(&[self.phi.forward(&x), rho, one], 1)
    }

    /// L_feat of a batch.
    pub fn loss(&self, batch: &Batch) -> Tensor {
        let x = self.pair(&batch.s, &batch.a);
        spectral_loss(&self.phi.forward(&x), &self.mu.forward(&self.observations.apply(&batch.s2)))
    }

    /// One step of Adam on L_feat for φ (unless `only_mu`) and μ, and on the reward's model.
    pub fn step(&mut self, batch: &Batch, rng: &mut Rng, smoothing: f64, rate: f64, only_mu: bool) -> Losses {
        let x = self.pair(&batch.s, &batch.a);
        let phi = self.phi.forward(&x);
        let phi = if only_mu { phi.detach() } else { phi };
        let blur = super::nets::normal(rng, &batch.s2.size()) * smoothing;
        let mu = self.mu.forward(&(self.observations.apply(&batch.s2) + blur));
        let loss = spectral_loss(&phi, &mu);
        let trained: Vec<&Tensor> = if only_mu {
            self.mu.trainable.leaves().iter().collect()
        } else {
            self.phi.trainable.leaves().iter().chain(self.mu.trainable.leaves()).collect()
        };
        let mut gradients = Tensor::run_backward(&[&loss], &trained, false, false);
        if only_mu {
            self.mu.trainable.adam(&gradients, rate);
        } else {
            let of_mu = gradients.split_off(self.phi.trainable.leaves().len());
            self.phi.trainable.adam(&gradients, rate);
            self.mu.trainable.adam(&of_mu, rate);
        }
        let error = (self.rho.forward(&x) - self.rewards.apply(&batch.r)).square().mean(Kind::Float);
        self.rho.trainable.minimise(&error, rate);
        Losses { feature: loss.double_value(&[]), reward: error.double_value(&[]) }
    }

    /// Everything a checkpoint must hold, by name.
    #[must_use]
    pub fn saved(&self) -> Vec<(String, Tensor)> {
        let mut all = self.phi.trainable.saved("phi");
        all.extend(self.mu.trainable.saved("mu"));
        all.extend(self.rho.trainable.saved("rho"));
        all.extend(self.observations.saved("observations"));
        all.extend(self.actions.saved("actions"));
        all.extend(self.rewards.saved("rewards"));
        all
    }

    /// Puts back what [`Self::saved`] gave.
    ///
    /// # Errors
    /// When a tensor is missing or has another size.
    pub fn restore(&mut self, saved: &Saved) -> anyhow::Result<()> {
        self.phi.trainable.restore("phi", saved)?;
        self.mu.trainable.restore("mu", saved)?;
        self.rho.trainable.restore("rho", saved)?;
        self.observations.restore("observations", saved)?;
        self.actions.restore("actions", saved)?;
        self.rewards.restore("rewards", saved)
    }
}

/// L_feat from φ and μ of a batch.
///
/// The second term is over all pairs of the batch (those that belong together are among them, one
/// in n): ‖ΦMᵀ‖² / n². For large batches it is computed as tr(ΦᵀΦ MᵀM) / n², the same number.
pub fn spectral_loss(phi: &Tensor, mu: &Tensor) -> Tensor {
    let (n, d) = phi.size2().unwrap_or((1, 1));
    let positive = (phi * mu).sum(Kind::Float) / n as f64;
    let negative = if n > 2 * d {
        (phi.tr().matmul(phi) * mu.tr().matmul(mu)).sum(Kind::Float)
    } else {
        phi.matmul(&mu.tr()).square().sum(Kind::Float)
    };
    negative / (n * n) as f64 - positive * 2.0
}
