//! Policy improvement: the differentiable Mellinger as the mean, a network as the standard deviation.
//!
//! π(a | s) = N(Mellinger(θ; s), diag σ(s)²). The gains' log-ratios θ climb E[Q(s, a)]: ∂Q/∂a comes from
//! libtorch, ∂a/∂θ from the law's dual numbers. σ(s) is trained as in SAC, by reparameterisation
//! against the entropy, with a temperature α that keeps the entropy at its target.

use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use super::critic::Critic;
use super::env::Jacobian;
use super::nets::{Archive, Mlp, Normaliser, normal};
use super::oracle::{Theta, clamp, gains_of};
use super::spectral::Skills;

/// Largest distance of log σ from its start.
const LOG_STD_RANGE: f64 = 1.5;

/// Weight of a new θ in the running average.
const AVERAGE_RATE: f32 = 0.15;

/// The policy.
#[derive(Debug)]
pub struct Actor {
    /// θ.
    pub theta: Theta,
    /// θ averaged over the last rounds, which has less of the gradient's noise.
    pub average: Theta,
    /// Momentum and mean square of θ's gradient, and the number of steps.
    moments: ([f32; GAIN_COUNT], [f32; GAIN_COUNT], i32),
    /// log σ(s) relative to its start.
    pub std: Mlp,
    /// ln σ at the start, which is also the entropy's target.
    log_std: Tensor,
    /// ln of the factor the noise is scaled by; scheduled, not learned.
    pub log_scale: f64,
    /// ln α.
    pub log_alpha: f32,
}

/// How the twin heads of the critic are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twins {
    /// The mean of both (least squares).
    Mean,
    /// The smaller one (gradient steps, as in SAC).
    Min,
}

/// Q of rows of (s, a), a column.
pub fn q(skills: &Skills, critic: &Critic, twins: Twins, s: &Tensor, a: &Tensor) -> Tensor {
    let values = critic.values(&skills.features(s, a));
    match twins {
        Twins::Mean => values.mean_dim(1, true, Kind::Float),
        Twins::Min => values.min_dim(1, true).0,
    }
}

/// ∂Q/∂a of rows of (s, a).
pub fn action_gradient(skills: &Skills, critic: &Critic, twins: Twins, s: &Tensor, a: &Tensor) -> Tensor {
    let a = a.detach().set_requires_grad(true);
    let total = q(skills, critic, twins, s, &a).sum(Kind::Float);
    let mut gradients = Tensor::run_backward(&[total], &[&a], false, false);
    gradients.pop().unwrap_or(a)
}

/// The score-function gradient (G − Q(s, a)) ∂ln π(a | s)/∂μ, with actions relative to the law's.
///
/// The sum of ∂Q/∂a and this is an unbiased gradient for any Q: Q is a control variate.
pub fn score_gradient(errors: &Tensor, a: &Tensor, std: &Tensor) -> Tensor {
    errors * a / std.square()
}

/// Mean over the rows of (∂Q/∂a)(∂a/∂θ), with θ the log-ratios of `gains`.
pub fn gain_gradient(dq_da: &Tensor, jacobians: &[Jacobian], gains: &Gains) -> [f32; GAIN_COUNT] {
    let rows = Vec::<f32>::try_from(dq_da.reshape([-1])).unwrap_or_default();
    let mut sum = [0.0_f64; GAIN_COUNT];
    for (dq, jacobian) in rows.chunks(4).zip(jacobians) {
        for (dq, row) in dq.iter().zip(jacobian) {
            for (s, j) in sum.iter_mut().zip(row) {
                *s += f64::from(dq * j);
            }
        }
    }
    let n = jacobians.len().max(1) as f64;
    let mut gradient = [0.0; GAIN_COUNT];
    for ((g, s), gain) in gradient.iter_mut().zip(sum).zip(gains.to_array()) {
        *g = (s / n) as f32 * gain;
    }
    gradient
}

impl Actor {
    /// The nominal gains, with initial noise `std`.
    pub fn new(rng: &mut Rng, hidden: i64, std: &[f32; 4], alpha: f32) -> Self {
        let log_std = Tensor::from_slice(&std.map(|s| s.max(1e-6).ln()));
        Self {
            theta: [0.0; GAIN_COUNT],
            average: [0.0; GAIN_COUNT],
            moments: ([0.0; GAIN_COUNT], [0.0; GAIN_COUNT], 0),
            std: Mlp::new(rng, OBSERVATION_LEN as i64, hidden, 4, 0.01),
            log_std,
            log_scale: 0.0,
            log_alpha: alpha.ln(),
        }
    }

    /// The gains, inside their bounds.
    pub fn gains(&self) -> Gains {
        gains_of(&self.theta)
    }

    /// log σ(s) relative to its start.
    fn log_ratio(&self, observations: &Normaliser, s: &Tensor) -> Tensor {
        (self.std.forward(&observations.apply(s)) / LOG_STD_RANGE).tanh() * LOG_STD_RANGE
    }

    /// σ(s).
    pub fn deviation(&self, observations: &Normaliser, s: &Tensor) -> Tensor {
        (self.log_ratio(observations, s) + &self.log_std + self.log_scale).exp()
    }

    /// Moves θ up a gradient: Adam with at most `step` per gain, inside the bounds. The step that pure noise
    /// would give is subtracted, so that gains that do not matter stay where they are.
    pub fn climb(&mut self, gradient: &[f32; GAIN_COUNT], step: f32, momentum: f32) {
        let (m, v, t) = &mut self.moments;
        *t += 1;
        let decay = 0.5 + 0.5 * momentum;
        let (c1, c2) = (1.0 - momentum.powi(*t), 1.0 - decay.powi(*t));
        // Root mean square of the direction if all of the gradient were noise.
        let noise = ((1.0 - momentum) / (1.0 + momentum)).sqrt();
        for (((theta, m), v), g) in self.theta.iter_mut().zip(m).zip(v).zip(gradient) {
            *m = momentum * *m + (1.0 - momentum) * g;
            *v = decay * *v + (1.0 - decay) * g * g;
            let direction = ((*m / c1) / ((*v / c2).sqrt() + 1e-6)).clamp(-1.0, 1.0);
            let sure = (direction.abs() - noise).max(0.02 * direction.abs()) / (1.0 - noise);
            *theta += step * sure * direction.signum();
        }
        clamp(&mut self.theta);
        for (mean, theta) in self.average.iter_mut().zip(&self.theta) {
            *mean += AVERAGE_RATE * (theta - *mean);
        }
    }

    /// One SAC step of σ and α at states with the law's actions `mean`; returns the entropy relative to
    /// its target.
    pub fn explore(
        &mut self,
        skills: &Skills,
        critic: &Critic,
        twins: Twins,
        (s, mean): (&Tensor, &Tensor),
        rng: &mut Rng,
        rate: f64,
    ) -> f64 {
        let log_ratio = self.log_ratio(&skills.observations, s);
        let noise = normal(rng, &mean.size());
        let a = mean + (&log_ratio + &self.log_std + self.log_scale).exp() * noise;
        let entropy = log_ratio.sum_dim_intlist(1, true, Kind::Float);
        let value = q(skills, critic, twins, s, &a);
        let alpha = f64::from(self.log_alpha.exp());
        let loss = (&entropy * (-alpha) - value).mean(Kind::Float);
        self.std.trainable.minimise(&loss, rate);
        let surplus = no_grad(|| entropy.mean(Kind::Float).double_value(&[]));
        // Less entropy than the target raises the temperature.
        self.log_alpha =
            (self.log_alpha - 10.0 * rate as f32 * (surplus as f32).clamp(-1.0, 1.0)).clamp(-12.0, 6.0);
        surplus
    }

    /// Saves or restores everything a checkpoint must hold.
    pub(crate) fn archive(&mut self, archive: &mut Archive) -> anyhow::Result<()> {
        self.std.trainable.archive("std", archive)?;
        archive.values("actor.theta", &mut self.theta)?;
        archive.values("actor.average", &mut self.average)?;
        archive.values("actor.first", &mut self.moments.0)?;
        archive.values("actor.second", &mut self.moments.1)?;
        archive.count("actor.steps", &mut self.moments.2)?;
        archive.values("actor.log_alpha", std::slice::from_mut(&mut self.log_alpha))
    }
}
