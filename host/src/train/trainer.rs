//! The training loop (the paper's Algorithm 1): collect, learn skills, evaluate the policy, improve it.
//!
//! One [`Trainer::round`] is one turn of the loop. Everything a round depends on is in the trainer
//! and goes into a checkpoint, so an interrupted run continues with the same bits.

use std::path::Path;

use anyhow::Context;
use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use super::actor::{self, Actor, Twins};
use super::config::{Config, Evaluator};
use super::critic::{self, Critic};
use super::env::{Collection, Evaluation, TrainingTask, Transition};
use super::nets::Archive;
use super::oracle::{Theta, gains_of};
use super::replay::Replay;
use super::returns::{Features, Returns, Rows, r_squared};
use super::spectral::{Losses, Skills};

/// Seed of evaluations during training, apart from every training seed.
const EVALUATION_SEED: u64 = 0xe7a1_0001;
/// Seed of the final evaluation, apart from the one that chose the best gains.
pub const JUDGEMENT_SEED: u64 = 0xe7a1_0002;
/// Batch size of the noise network's step.
const EXPLORE_BATCH: usize = 1024;
/// Rate of the target weights' moving average.
const TARGET_RATE: f64 = 0.005;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundMetrics {
    /// Number of the round, from 1.
    pub round: usize,
    pub transitions: u64,
    /// Mean return of the episodes flown with noise.
    pub return_noisy: f64,
    /// Fraction of them that crashed.
    pub crashed: f64,
    /// L_feat of the last batch.
    pub loss_feature: f64,
    /// Mean squared error of the normalised reward.
    pub loss_reward: f64,
    /// R² of Q on returns of episodes it was not fitted to.
    pub value_r2: f64,
    /// Entropy above its target.
    pub entropy: f64,
    /// Temperature α.
    pub alpha: f64,
    /// Mean return without noise, in the rounds that evaluate.
    pub return_eval: Option<f64>,
    /// The best of these so far.
    pub return_best: f64,
}

impl RoundMetrics {
    /// Names and values in order; NaN where there is no value.
    pub fn values(&self) -> [(&'static str, f64); 11] {
        [
            ("round", self.round as f64),
            ("transitions", self.transitions as f64),
            ("rollout/return", self.return_noisy),
            ("rollout/crashed", self.crashed),
            ("train/loss_feature", self.loss_feature),
            ("train/loss_reward", self.loss_reward),
            ("train/value_r2", self.value_r2),
            ("train/entropy", self.entropy),
            ("train/alpha", self.alpha),
            ("eval/return", self.return_eval.unwrap_or(f64::NAN)),
            ("eval/best", self.return_best),
        ]
    }
}

/// A run in progress.
#[derive(Debug)]
pub struct Trainer {
    /// Its configuration.
    pub config: Config,
    pub seed: u64,
    pub task: TrainingTask,
    /// φ and μ.
    pub skills: Skills,
    /// w.
    pub critic: Critic,
    /// The policy.
    pub actor: Actor,
    /// ℬ.
    pub replay: Replay,
    rng: Rng,
    pub(crate) threads: usize,
    round: usize,
    best: (Theta, f64),
}

impl Trainer {
    pub fn new(config: Config, seed: u64, threads: usize) -> anyhow::Result<Self> {
        // One thread gives the same bits anywhere.
        crate::torch::set_threads(1);
        let task = config.task()?;
        let mut rng = Rng::new(seed, 0x7472_6169);
        let skills = Skills::new(&mut rng, config.form, config.hidden, config.features);
        let critic = Critic::new(skills.width());
        let actor = Actor::new(&mut rng, 64, &config.std, 0.1);
        let replay = Replay::new(config.replay);
        let best = ([0.0; GAIN_COUNT], f64::NEG_INFINITY);
        Ok(Self { config, seed, task, skills, critic, actor, replay, rng, threads, round: 0, best })
    }

    pub fn rounds_done(&self) -> usize {
        self.round
    }

    /// True when all rounds are done.
    pub fn is_done(&self) -> bool {
        self.round >= self.config.rounds
    }

    /// The best gains so far by evaluation, or the present ones before any.
    pub fn best_gains(&self) -> Gains {
        if self.best.1.is_finite() { gains_of(&self.best.0) } else { self.actor.gains() }
    }

    /// Evaluates gains on initial states that no choice was based on.
    pub fn judge(&self, gains: &Gains) -> Evaluation {
        self.task.evaluate(gains, 1024, JUDGEMENT_SEED, self.threads)
    }

    pub fn round(&mut self) -> RoundMetrics {
        let collection = self.collect();
        let losses = self.learn_skills();
        let features = Features::new(&self.skills, &collection);
        let value_r2 = self.evaluate_policy(&collection, &features);
        let entropy = self.improve(&collection, &features);
        self.round += 1;
        let return_eval = self.evaluate();
        RoundMetrics {
            round: self.round,
            transitions: self.replay.pushed(),
            return_noisy: collection.mean_return,
            crashed: collection.crashed,
            loss_feature: losses.feature,
            loss_reward: losses.reward,
            value_r2,
            entropy,
            alpha: f64::from(self.actor.log_alpha.exp()),
            return_eval,
            return_best: self.best.1,
        }
    }

    /// Flies episodes with noise, stores them, and updates the inputs' statistics.
    fn collect(&mut self) -> Collection {
        let done = self.round as f32 / self.config.rounds as f32;
        self.actor.log_scale = f64::from(done * self.config.std_final.ln());
        let task = TrainingTask { weights: self.config.weights(done), ..self.task.clone() };
        let (actor, skills) = (&self.actor, &self.skills);
        // Unlike any other round's or seed's.
        let seed = self.seed.wrapping_mul(0x0100_0000).wrapping_add(self.round as u64);
        let collection =
            task.collect(&actor.gains(), self.config.episodes, seed, self.threads, |observations| {
                let s = Tensor::from_slice(observations).view([-1, OBSERVATION_LEN as i64]);
                let std = no_grad(|| actor.deviation(&skills.observations, &s).reshape([-1]));
                Vec::<f32>::try_from(std).unwrap_or_default()
            });
        let values = no_grad(|| self.values(&collection));
        for (transition, value) in collection.transitions.iter().zip(values) {
            self.replay.push(transition, value);
        }
        let batch = self.replay.batch(&self.replay.newest(collection.transitions.len()));
        self.skills.observations.update(&batch.s);
        self.skills.actions.update(&batch.a);
        self.skills.rewards.update(&batch.r);
        self.skills.returns.update(&batch.value);
        collection
    }

    /// Monte-Carlo returns, bootstrapped with the present value at the episodes' ends.
    fn values(&self, collection: &Collection) -> Vec<f32> {
        let Returns { partial, discount, last, .. } = Returns::new(collection);
        let ends = if self.round == 0 {
            let mean = |f: fn(&Transition) -> f32| {
                collection.transitions.iter().map(f).sum::<f32>() / collection.transitions.len().max(1) as f32
            };
            vec![mean(|t| t.reward) / (1.0 - mean(|t| t.discount)); partial.len()]
        } else {
            let ends: Vec<f32> = last.iter().flat_map(|&i| collection.transitions[i].to).collect();
            let ends = Tensor::from_slice(&ends).view([-1, OBSERVATION_LEN as i64]);
            let none = Tensor::zeros([partial.len() as i64, 4], (Kind::Float, tch::Device::Cpu));
            let values = actor::q(&self.skills, &self.critic, self.twins(), &ends, &none);
            Vec::<f32>::try_from(values.reshape([-1])).unwrap_or_default()
        };
        partial.iter().zip(discount).zip(ends).map(|((p, d), v)| p + d * v).collect()
    }

    fn twins(&self) -> Twins {
        if self.config.evaluator == Evaluator::Gradient { Twins::Min } else { Twins::Mean }
    }

    /// Gradient steps on L_feat and the reward model, and on w where it learns by gradient.
    fn learn_skills(&mut self) -> Losses {
        let c = &self.config;
        let updates = if self.round == 0 { c.first_updates } else { c.updates };
        let mut losses = Losses::default();
        for _ in 0..updates {
            let places = self.replay.draw(&mut self.rng, c.batch);
            let batch = self.replay.batch(&places);
            losses = self.skills.step(&batch, &mut self.rng, &c.training());
            if c.evaluator == Evaluator::Gradient {
                let (phi, next) = no_grad(|| {
                    let next = self.skills.features(&batch.s2, &batch.a.zeros_like());
                    (self.skills.features(&batch.s, &batch.a), next * &batch.discount)
                });
                self.critic.gradient_step(&phi, &next, &batch.r, c.rate, TARGET_RATE);
            }
        }
        losses
    }

    /// Finds w for the present gains; returns R² of Q on held-out episodes' returns.
    fn evaluate_policy(&mut self, collection: &Collection, features: &Features) -> f64 {
        let rows = Rows::new(features, collection, self.config.lambda);
        match self.config.evaluator {
            Evaluator::Returns => {
                let fit = |parity| {
                    let Rows { phi, ends, r, .. } = rows.of(collection, parity, self.config.lookahead);
                    critic::lstd(&phi, &ends, &r, self.config.ridge)
                };
                self.critic.set(&no_grad(|| Tensor::cat(&[fit(0), fit(1)], 1)));
            }
            Evaluator::Lstd => self.fit_transitions(),
            Evaluator::Gradient => {}
        }
        let errors = [0, 1].map(|parity: u32| {
            // By the twin that was not fitted to these episodes.
            let Rows { phi, ends, r, .. } = rows.of(collection, 1 - parity, self.config.lookahead);
            let w = self.critic.w().narrow(1, i64::from(parity), 1);
            no_grad(|| r_squared(&(r + ends.matmul(&w)), &phi.matmul(&w)))
        });
        errors.iter().sum::<f64>() / 2.0
    }

    /// Closed-form weights from single transitions of the newest part of the memory, one half for
    /// each twin.
    fn fit_transitions(&mut self) {
        let places = self.replay.newest(self.config.window);
        let fit = |parity: usize| {
            let half: Vec<usize> =
                places.iter().copied().enumerate().filter(|(i, _)| i % 2 == parity).map(|(_, p)| p).collect();
            let batch = self.replay.batch(&half);
            let phi = self.skills.features(&batch.s, &batch.a);
            let next = self.skills.features(&batch.s2, &batch.a.zeros_like()) * &batch.discount;
            critic::lstd(&phi, &next, &batch.r, self.config.ridge)
        };
        let w = no_grad(|| Tensor::cat(&[fit(0), fit(1)], 1));
        self.critic.set(&w);
    }

    /// Moves the gains up Q, then trains the noise; returns the entropy above its target.
    fn improve(&mut self, collection: &Collection, features: &Features) -> f64 {
        let gains = self.actor.gains();
        let twins = self.twins();
        let places = self.replay.newest(collection.transitions.len());
        let batch = self.replay.batch(&places);
        let none = batch.a.zeros_like();
        let mut dq_da = actor::action_gradient(&self.skills, &self.critic, twins, &batch.s, &none);
        if self.config.correction > 0.0 {
            dq_da += self.residual_gradient(collection, features, &batch.s, &batch.a)
                * f64::from(self.config.correction);
        }
        let gradient = actor::gain_gradient(&dq_da, &collection.jacobians, &gains);
        let left = 1.0 - self.round as f32 / self.config.rounds as f32;
        self.actor.climb(&gradient, self.config.step * (0.1 + 0.9 * left), self.config.momentum);
        let few: Vec<usize> =
            places.iter().copied().step_by(places.len().div_ceil(EXPLORE_BATCH).max(1)).collect();
        let batch = self.replay.batch(&few);
        let none = batch.a.zeros_like();
        self.actor.explore(
            &self.skills,
            &self.critic,
            twins,
            (&batch.s, &none),
            &mut self.rng,
            self.config.std_rate,
        )
    }

    /// The returns' residual as a gradient with respect to the actions.
    fn residual_gradient(
        &self,
        collection: &Collection,
        features: &Features,
        s: &Tensor,
        a: &Tensor,
    ) -> Tensor {
        no_grad(|| {
            let errors = Rows::new(features, collection, 1.0).errors(collection, self.critic.w());
            actor::score_gradient(&errors, a, &self.actor.deviation(&self.skills.observations, s))
        })
    }

    fn evaluate(&mut self) -> Option<f64> {
        if !self.round.is_multiple_of(self.config.evaluate_every) && !self.is_done() {
            return None;
        }
        let judge = |theta: &Theta| {
            let episodes = self.config.evaluate_episodes;
            self.task.evaluate(&gains_of(theta), episodes, EVALUATION_SEED, self.threads).mean_return
        };
        let (present, mean) = (judge(&self.actor.theta), judge(&self.actor.average));
        let (theta, found) =
            if mean > present { (self.actor.average, mean) } else { (self.actor.theta, present) };
        if found > self.best.1 {
            self.best = (theta, found);
        }
        Some(found)
    }

    /// Writes everything to a file.
    pub fn save(&mut self, path: &Path) -> anyhow::Result<()> {
        let mut archive = Archive::to_write();
        self.archive(&mut archive)?;
        archive.write(path)
    }

    /// Puts back what [`Self::save`] wrote, into a trainer of the same configuration and seed.
    pub fn load(&mut self, path: &Path) -> anyhow::Result<()> {
        Archive::read(path)
            .and_then(|mut archive| self.archive(&mut archive))
            .with_context(|| format!("cannot use the checkpoint {}", path.display()))
    }

    fn archive(&mut self, archive: &mut Archive) -> anyhow::Result<()> {
        let mut seed = self.seed as i64;
        archive.integer("seed", &mut seed)?;
        anyhow::ensure!(seed as u64 == self.seed, "it is of seed {}, not {}", seed as u64, self.seed);
        self.skills.archive(archive)?;
        self.critic.archive(archive)?;
        self.actor.archive(archive)?;
        self.replay.archive(archive)?;
        let mut words = self.rng.state().map(i64::from);
        archive.values("rng", &mut words)?;
        self.rng = Rng::from_state(words.map(|word| word as u32));
        archive.count("round", &mut self.round)?;
        archive.values("best.theta", &mut self.best.0)?;
        archive.values("best.return", std::slice::from_mut(&mut self.best.1))
    }
}
