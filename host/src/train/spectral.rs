//! Skills: the spectral representation φ(s, a), μ(s′) of the dynamics.
//!
//! P(s′ | s, a) ≈ φ(s, a)ᵀ μ(s′), learned with the paper's surrogate loss
//! L_feat = −2 E[φ(s, a)ᵀ μ(s′)] + E_(s,a) E_s′ [(φ(s, a)ᵀ μ(s′))²]
//! where the second s′ is drawn from the batch, independently of (s, a).
//!
//! A network ρ(s, a) predicts a transition's reward; it and a constant are appended to φ, so that
//! the reward is linear in the features as a linear MDP has it.

use serde::{Deserialize, Serialize};
use steady_common::observation::{OBSERVATION_LEN, layout};
use steady_sim::Rng;
use tch::{Kind, Tensor};

use super::nets::{Archive, Mlp, Normaliser, Trainable, minimise};

pub const ACTION_LEN: i64 = 4;

/// Indices of what μ sees of s′. The rest of an observation follows from these or repeats the last
/// action, whose noise would otherwise fill the spectrum.
pub const OUTCOME: [i64; 15] = {
    use layout::{EULER, INTEGRAL_POSITION, POSITION, RATES, VELOCITY};
    let parts = [POSITION, EULER, VELOCITY, RATES, INTEGRAL_POSITION];
    let mut indices = [0; 15];
    let mut i = 0;
    while i < indices.len() {
        indices[i] = (parts[i / 3].start + i % 3) as i64;
        i += 1;
    }
    indices
};

/// How φ depends on the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// φ(s, a) = u(s) ⊗ (1, a). A drone's dynamics are affine in its thrust and torques, and so is
    /// wᵀφ: values and advantages have separate weights, so that an error in the value does not become a
    /// slope of the advantage.
    Affine,
    /// φ is one network of s and a together.
    Joint,
}

/// φ, μ, the reward model, and the normalisation of their inputs.
#[derive(Debug)]
pub struct Skills {
    /// u(s), or φ(s, a) itself where the form is joint.
    pub phi: Mlp,
    /// μ(s′).
    pub mu: Mlp,
    /// ρ(s, a), the normalised reward.
    pub rho: Mlp,
    /// Weights of the normalised return in [φ, 1], for the returns' part of φ's loss.
    pub head: Trainable,
    pub observations: Normaliser,
    pub actions: Normaliser,
    pub rewards: Normaliser,
    pub returns: Normaliser,
    form: Form,
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
    /// Discounts, a column.
    pub discount: Tensor,
    /// Monte-Carlo returns, a column.
    pub value: Tensor,
}

/// How φ and μ are trained.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// Learning rate of the networks.
    pub rate: f64,
    /// Standard deviation of the noise on s′, relative to s′ itself.
    pub smoothing: f64,
    /// How much the error of the returns counts in φ's loss.
    pub shaping: f64,
    /// Whether L_feat trains μ only, and φ learns from the returns alone.
    pub only_mu: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// L_feat.
    pub feature: f64,
    /// Mean squared error of the normalised reward.
    pub reward: f64,
    /// Mean squared error of the normalised return.
    pub value: f64,
}

impl Skills {
    /// Skills with random weights; the number of features is rounded up to what the form can have.
    pub fn new(rng: &mut Rng, form: Form, hidden: i64, features: i64) -> Self {
        let s = OBSERVATION_LEN as i64;
        let (inputs, outputs, features) = match form {
            Form::Affine => {
                let u = (features + ACTION_LEN) / (ACTION_LEN + 1);
                (s, u, u * (ACTION_LEN + 1))
            }
            Form::Joint => (s + ACTION_LEN, features, features),
        };
        // Products of `features` features start at order one.
        let scale = (features as f64).powf(-0.25);
        Self {
            phi: Mlp::new(rng, inputs, hidden, outputs, scale),
            mu: Mlp::new(rng, OUTCOME.len() as i64, hidden, features, scale),
            rho: Mlp::new(rng, s + ACTION_LEN, hidden / 2, 1, 0.1),
            head: Trainable::new(&[Tensor::zeros([features + 1, 1], (Kind::Float, tch::Device::Cpu))]),
            observations: Normaliser::new(s),
            actions: Normaliser::new(ACTION_LEN),
            rewards: Normaliser::new(1),
            returns: Normaliser::new(1),
            form,
            features,
        }
    }

    /// Number of columns of [`Self::features`]: φ, the reward and the constant.
    pub fn width(&self) -> i64 {
        self.features + 2
    }

    /// The columns of φ that depend on the state alone: u(s) where φ is u(s) ⊗ (1, a).
    pub fn narrow_to_state(&self, phi: &Tensor) -> Tensor {
        match self.form {
            Form::Affine => phi.narrow(1, 0, self.features / (ACTION_LEN + 1)),
            Form::Joint => phi.shallow_clone(),
        }
    }

    /// φ of normalised s and a, one row each.
    fn phi(&self, s: &Tensor, a: &Tensor) -> Tensor {
        match self.form {
            Form::Affine => affine(&self.phi.forward(s), a),
            Form::Joint => self.phi.forward(&Tensor::cat(&[s, a], 1)),
        }
    }

    /// μ of normalised s′ with noise of a given deviation on it.
    fn mu(&self, s2: &Tensor, rng: &mut Rng, smoothing: f64) -> Tensor {
        let seen = s2.index_select(1, &Tensor::from_slice(&OUTCOME));
        if smoothing == 0.0 {
            return self.mu.forward(&seen);
        }
        let noise = super::nets::normal(rng, &seen.size()) * smoothing;
        self.mu.forward(&(seen + noise))
    }

    /// μ(s′) with noise of a given deviation on s′, one row each.
    pub fn outcome(&self, s2: &Tensor, rng: &mut Rng, smoothing: f64) -> Tensor {
        self.mu(&self.observations.apply(s2), rng, smoothing)
    }

    /// [φ(s, a), ρ(s, a), 1], one row each.
    pub fn features(&self, s: &Tensor, a: &Tensor) -> Tensor {
        let (s, a) = (self.observations.apply(s), self.actions.apply(a));
        let rho = self.rho.forward(&Tensor::cat(&[&s, &a], 1));
        let one = rho.ones_like();
        Tensor::cat(&[self.phi(&s, &a), rho, one], 1)
    }

    /// L_feat of a batch, with noise of a given deviation on s′.
    pub fn loss(&self, batch: &Batch, rng: &mut Rng, smoothing: f64) -> Tensor {
        let phi = self.phi(&self.observations.apply(&batch.s), &self.actions.apply(&batch.a));
        spectral_loss(&phi, &self.mu(&self.observations.apply(&batch.s2), rng, smoothing))
    }

    /// One Adam step on L_feat for φ and μ, with the returns' error where it shapes φ, and on the
    /// reward model.
    pub fn step(&mut self, batch: &Batch, rng: &mut Rng, how: &Training) -> Losses {
        let (s, a) = (self.observations.apply(&batch.s), self.actions.apply(&batch.a));
        let phi = self.phi(&s, &a);
        let mu = self.mu(&self.observations.apply(&batch.s2), rng, how.smoothing);
        let feature = spectral_loss(&if how.only_mu { phi.detach() } else { phi.shallow_clone() }, &mu);
        let mut losses = Losses { feature: feature.double_value(&[]), ..Losses::default() };
        let mut loss = feature;
        if how.shaping > 0.0 {
            let w = &self.head.leaves()[0];
            let value = phi.matmul(&w.narrow(0, 0, self.features)) + w.get(self.features);
            let error = (value - self.returns.apply(&batch.value)).square().mean(Kind::Float);
            losses.value = error.double_value(&[]);
            loss += error * how.shaping;
        }
        let phi_learns = !how.only_mu || how.shaping > 0.0;
        let mut trained = vec![&mut self.mu.trainable];
        if phi_learns {
            trained.push(&mut self.phi.trainable);
        }
        if how.shaping > 0.0 {
            trained.push(&mut self.head);
        }
        minimise(&loss, &mut trained, how.rate);
        let error = (self.rho.forward(&Tensor::cat(&[&s, &a], 1)) - self.rewards.apply(&batch.r))
            .square()
            .mean(Kind::Float);
        self.rho.trainable.minimise(&error, how.rate);
        losses.reward = error.double_value(&[]);
        losses
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, archive: &mut Archive) -> anyhow::Result<()> {
        self.phi.trainable.archive("phi", archive)?;
        self.mu.trainable.archive("mu", archive)?;
        self.rho.trainable.archive("rho", archive)?;
        self.head.archive("head", archive)?;
        self.observations.archive("observations", archive)?;
        self.actions.archive("actions", archive)?;
        self.rewards.archive("rewards", archive)?;
        self.returns.archive("returns", archive)
    }
}

/// u ⊗ (1, a), row by row.
pub fn affine(u: &Tensor, a: &Tensor) -> Tensor {
    let one = Tensor::ones([a.size()[0], 1], (Kind::Float, tch::Device::Cpu));
    let factors = Tensor::cat(&[one, a.shallow_clone()], 1);
    (factors.unsqueeze(2) * u.unsqueeze(1)).flatten(1, 2)
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
