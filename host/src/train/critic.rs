//! Policy evaluation: Q(s, a) = wᵀφ(s, a), twin weights, by least squares or by gradient steps.
//!
//! [`lstd`] solves the fixed point of equation (3) of the paper in closed form:
//! E[φ (φ − γφ′)ᵀ] w = E[φ r] with a ridge. [`Critic::gradient_step`] is the usual alternative, Adam
//! on the TD error against slowly moving targets.

use tch::{Kind, Tensor, no_grad};

use super::nets::{Archive, Trainable};

/// Twin linear weights and their targets.
#[derive(Debug)]
pub struct Critic {
    /// w, one column for each twin.
    pub weights: Trainable,
    /// Target weights of gradient steps.
    target: Tensor,
}

/// Solves for the weights of the value of a policy.
///
/// Rows of `phi` are φ(s, a), rows of `next` are γφ(s′, a′) with a′ from the policy (0 after the
/// end), `r` is a column of rewards. `ridge` is relative to the mean square of the features.
pub fn lstd(phi: &Tensor, next: &Tensor, r: &Tensor, ridge: f64) -> Tensor {
    no_grad(|| {
        let (phi, next, r) = (phi.to_kind(Kind::Double), next.to_kind(Kind::Double), r.to_kind(Kind::Double));
        let (n, d) = phi.size2().unwrap_or((1, 1));
        // Scaled to unit mean square, so that the ridge is the same for every feature.
        let scale = phi.square().mean_dim(0, true, Kind::Double).sqrt().clamp_min(1e-6);
        let (phi, next) = (phi / &scale, next / &scale);
        let a = phi.tr().matmul(&(&phi - next)) / n as f64
            + Tensor::eye(d, (Kind::Double, tch::Device::Cpu)) * ridge;
        let b = phi.tr().matmul(&r) / n as f64;
        (Tensor::linalg_solve(&a, &b, true) / scale.tr()).to_kind(Kind::Float)
    })
}

impl Critic {
    /// Zero weights for `width` features.
    pub fn new(width: i64) -> Self {
        let weights = Tensor::zeros([width, 2], (Kind::Float, tch::Device::Cpu));
        let target = weights.copy();
        Self { weights: Trainable::new(&[weights]), target }
    }

    /// w, one column for each twin.
    pub fn w(&self) -> &Tensor {
        &self.weights.leaves()[0]
    }

    /// Both twins' values of rows of features.
    pub fn values(&self, phi: &Tensor) -> Tensor {
        phi.matmul(self.w())
    }

    /// Sets the weights, of both twins or one column each.
    pub fn set(&mut self, weights: &Tensor) {
        no_grad(|| {
            let mut w = self.w().shallow_clone();
            w.copy_(&weights.expand_as(&w));
            self.target.copy_(&w);
        });
    }

    /// One step of Adam on the TD error of both twins: r + γ min Q̄(s′, a′). Arguments as in [`lstd`];
    /// returns the mean squared error.
    pub fn gradient_step(&mut self, phi: &Tensor, next: &Tensor, r: &Tensor, rate: f64, tau: f64) -> f64 {
        let goal = no_grad(|| next.matmul(&self.target).min_dim(1, true).0 + r);
        let loss = (self.values(phi) - goal).square().mean(Kind::Float);
        self.weights.minimise(&loss, rate);
        no_grad(|| {
            let w = self.w().shallow_clone();
            let _ = self.target.lerp_(&w, tau);
        });
        loss.double_value(&[])
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, archive: &mut Archive) -> anyhow::Result<()> {
        self.weights.archive("w", archive)?;
        archive.tensor("w.target", &mut self.target)
    }
}
