//! The training loop (the paper's Algorithm 1): collect, learn skills, evaluate the policy, improve it.
//!
//! One [`Trainer::round`] is one turn of the loop. Everything a round depends on is in the trainer
//! and goes into a checkpoint, so an interrupted run continues with the same bits.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use super::actor::{self, Actor, Twins};
use super::config::{Config, Evaluator, Improvement};
use super::critic::{self, Critic};
use super::env::{Collection, Evaluation, Jacobian, Task};
use super::nets::Saved;
use super::oracle::{Theta, gains_of};
use super::replay::Replay;
use super::spectral::{Losses, Skills};

/// Random numbers of evaluations during training, apart from every training seed.
const EVALUATION_SEED: u64 = 0xe7a1_0001;
/// Random numbers of the final judgement, apart from those that chose the best gains.
pub const JUDGEMENT_SEED: u64 = 0xe7a1_0002;
/// States of a step of the deviation's network.
const EXPLORE_BATCH: usize = 1024;
/// Ridge of the compatible features' least squares, relative to their mean square.
const RIDGE: f64 = 1e-4;
/// How fast the targets of gradient steps follow.
const TARGET_RATE: f64 = 0.005;

/// What happened in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of the round, from 1.
    pub round: usize,
    /// Transitions collected so far.
    pub transitions: u64,
    /// Mean return of the episodes flown with noise.
    pub return_noisy: f64,
    /// Part of them that crashed.
    pub crashed: f64,
    /// L_feat of the last batch.
    pub loss_feature: f64,
    /// Squared error of the reward's model, relative.
    pub loss_reward: f64,
    /// Part of the returns' variance that the value explains, on episodes it was not fitted to.
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

impl Metrics {
    /// Names and values in order; NaN for what there is not.
    #[must_use]
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
    /// Its seed.
    pub seed: u64,
    /// The task.
    pub task: Task,
    /// φ, μ and what belongs to them.
    pub skills: Skills,
    /// w.
    pub critic: Critic,
    /// The policy.
    pub actor: Actor,
    /// ℬ.
    pub replay: Replay,
    rng: Rng,
    threads: usize,
    round: usize,
    best: (Theta, f64),
    /// ∂J/∂θ of the latest round, per transition.
    pub gradient: [f32; GAIN_COUNT],
}

/// Transitions of a collection grouped by episode, with their returns.
struct Returns {
    /// Transitions until the episode's end, this one included.
    ahead: Vec<usize>,
    /// Discounted reward until the episode's end.
    partial: Vec<f32>,
    /// Discount until there.
    discount: Vec<f32>,
    /// Index of the episode's last transition.
    last: Vec<usize>,
}

impl Returns {
    fn new(collection: &Collection) -> Self {
        let n = collection.transitions.len();
        let episodes = collection.episodes.iter().max().map_or(0, |e| *e as usize + 1);
        let mut ahead: Vec<Option<(f32, f32, usize, usize)>> = vec![None; episodes];
        let mut returns =
            Self { ahead: vec![0; n], partial: vec![0.0; n], discount: vec![0.0; n], last: vec![0; n] };
        for (i, (t, &episode)) in collection.transitions.iter().zip(&collection.episodes).enumerate().rev() {
            let (sum, discount, last, count) = match ahead[episode as usize] {
                Some((sum, discount, last, count)) => {
                    (t.reward + t.discount * sum, t.discount * discount, last, count + 1)
                }
                None => (t.reward, t.discount, i, 1),
            };
            ahead[episode as usize] = Some((sum, discount, last, count));
            returns.ahead[i] = count;
            (returns.partial[i], returns.discount[i], returns.last[i]) = (sum, discount, last);
        }
        returns
    }

    /// Transitions whose consequences are known: `lookahead` more follow, or a crash.
    fn known(&self, lookahead: usize) -> Vec<usize> {
        let known = |i: &usize| self.ahead[*i] > lookahead || self.discount[*i] == 0.0;
        (0..self.ahead.len()).filter(known).collect()
    }
}

fn column(values: &[f32]) -> Tensor {
    Tensor::from_slice(values).view([-1, 1])
}

impl Trainer {
    /// A new run.
    ///
    /// # Errors
    /// If the configured world does not exist or is not valid.
    pub fn new(config: Config, seed: u64, threads: usize) -> anyhow::Result<Self> {
        // More threads are slower for networks of this size, and one gives the same bits anywhere.
        crate::torch::set_threads(1);
        let task = config.task()?;
        let mut rng = Rng::new(seed, 0x7472_6169);
        let skills = Skills::new(&mut rng, config.hidden, config.features);
        let critic = Critic::new(skills.width());
        let actor = Actor::new(&mut rng, 64, &config.std, 0.1);
        let replay = Replay::new(config.replay);
        let best = ([0.0; GAIN_COUNT], f64::NEG_INFINITY);
        Ok(Self {
            config,
            seed,
            task,
            skills,
            critic,
            actor,
            replay,
            rng,
            threads,
            round: 0,
            best,
            gradient: [0.0; GAIN_COUNT],
        })
    }

    /// Rounds done.
    #[must_use]
    pub fn rounds_done(&self) -> usize {
        self.round
    }

    /// True when all rounds are done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.round >= self.config.rounds
    }

    /// The best gains so far by evaluation, or the present ones before any.
    #[must_use]
    pub fn best_gains(&self) -> Gains {
        if self.best.1.is_finite() { gains_of(&self.best.0) } else { self.actor.gains() }
    }

    /// How gains fly on initial states that no choice was made by.
    #[must_use]
    pub fn judge(&self, gains: &Gains) -> Evaluation {
        self.task.evaluate(gains, 1024, JUDGEMENT_SEED, self.threads)
    }

    /// One round of the loop.
    pub fn round(&mut self) -> Metrics {
        let collection = self.collect();
        let losses = self.learn_skills();
        let value_r2 = self.evaluate_policy(&collection);
        let entropy = self.improve(&collection);
        self.round += 1;
        let return_eval = self.evaluate();
        Metrics {
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

    /// Flies episodes with noise, remembers them, and updates the inputs' statistics.
    fn collect(&mut self) -> Collection {
        let done = self.round as f64 / self.config.rounds as f64;
        self.actor.log_scale = done * f64::from(self.config.std_final).ln();
        let (actor, skills) = (&self.actor, &self.skills);
        // Unlike any other round's or seed's.
        let seed = self.seed.wrapping_mul(0x0100_0000).wrapping_add(self.round as u64);
        let collection =
            self.task.collect(&actor.gains(), self.config.episodes, seed, self.threads, |observations| {
                let s = Tensor::from_slice(observations).view([-1, OBSERVATION_LEN as i64]);
                let std = no_grad(|| actor.deviation(&skills.observations, &s).reshape([-1]));
                Vec::<f32>::try_from(std).unwrap_or_default()
            });
        for transition in &collection.transitions {
            self.replay.push(transition);
        }
        let batch = self.replay.batch(&self.replay.newest(collection.transitions.len()));
        self.skills.observations.update(&batch.s);
        self.skills.actions.update(&batch.a);
        self.skills.rewards.update(&batch.r);
        collection
    }

    /// Gradient steps on L_feat and the reward's model, and on w where it learns by gradient.
    fn learn_skills(&mut self) -> Losses {
        let c = &self.config;
        let updates = if self.round == 0 { c.first_updates } else { c.updates };
        let mut losses = Losses::default();
        for _ in 0..updates {
            let places = self.replay.draw(&mut self.rng, c.batch);
            let batch = self.replay.batch(&places);
            losses = self.skills.step(&batch, &mut self.rng, c.smoothing, c.rate, c.only_mu);
            if c.evaluator == Evaluator::Gradient {
                let (phi, next) = no_grad(|| {
                    let next = self.skills.features(&batch.s2, &batch.a.zeros_like());
                    (self.skills.features(&batch.s, &batch.a), next * self.replay.discounts(&places))
                });
                self.critic.gradient_step(&phi, &next, &batch.r, c.rate, TARGET_RATE);
            }
        }
        losses
    }

    /// Finds w for the present gains; returns R² of the value on held-out episodes' returns.
    fn evaluate_policy(&mut self, collection: &Collection) -> f64 {
        match self.config.evaluator {
            Evaluator::Returns => self.fit_returns(collection),
            Evaluator::Lstd => self.fit_transitions(critic::lstd),
            Evaluator::Residual => self.fit_transitions(critic::residual),
            Evaluator::Gradient => {}
        }
        let (targets, values) = no_grad(|| self.targets(collection));
        let error = (&targets - values).square().mean(Kind::Double).double_value(&[]);
        let spread = targets.to_kind(Kind::Double).var(false).double_value(&[]);
        1.0 - error / spread.max(1e-12)
    }

    /// Closed-form weights from single transitions of the newest part of the memory, one half for
    /// each twin.
    fn fit_transitions(&mut self, solve: impl Fn(&Tensor, &Tensor, &Tensor, f64) -> Tensor) {
        let places = self.replay.newest(self.config.window);
        let fit = |parity: usize| {
            let half: Vec<usize> =
                places.iter().copied().enumerate().filter(|(i, _)| i % 2 == parity).map(|(_, p)| p).collect();
            let batch = self.replay.batch(&half);
            let phi = self.skills.features(&batch.s, &batch.a);
            let next = self.skills.features(&batch.s2, &batch.a.zeros_like()) * self.replay.discounts(&half);
            solve(&phi, &next, &batch.r, self.config.ridge)
        };
        let w = no_grad(|| Tensor::cat(&[fit(0), fit(1)], 1));
        self.critic.set(&w);
    }

    /// Closed-form weights from the newest episodes' returns: the first twin knows every other pair
    /// of episodes, the second those in between.
    fn fit_returns(&mut self, collection: &Collection) {
        let returns = Returns::new(collection);
        let places = self.replay.newest(collection.transitions.len());
        let w = no_grad(|| {
            let batch = self.replay.batch(&places);
            let none = batch.a.zeros_like();
            let here = self.skills.features(&batch.s, &none);
            let ends: Vec<usize> = returns.last.iter().map(|&i| places[i]).collect();
            let ends = self.skills.features(&self.replay.batch(&ends).s2, &none) * column(&returns.discount);
            let r = column(&returns.partial);
            let fit = |parity: u32| {
                let rows: Vec<i64> = (0..)
                    .zip(&collection.episodes)
                    .filter(|(_, e)| **e / 2 % 2 == parity)
                    .map(|(i, _)| i)
                    .collect();
                let rows = Tensor::from_slice(&rows);
                let pick = |t: &Tensor| t.index_select(0, &rows);
                critic::lstd(&pick(&here), &pick(&ends), &pick(&r), self.config.ridge)
            };
            Tensor::cat(&[fit(0), fit(1)], 1)
        });
        self.critic.set(&w);
    }

    /// Returns of the newest transitions, and their states' values, by the twin that does not know
    /// the episode.
    fn targets(&self, collection: &Collection) -> (Tensor, Tensor) {
        let returns = Returns::new(collection);
        let places = self.replay.newest(collection.transitions.len());
        let batch = self.replay.batch(&places);
        let none = batch.a.zeros_like();
        let other: Vec<i64> = collection.episodes.iter().map(|e| i64::from((e / 2 + 1) % 2)).collect();
        let other = Tensor::from_slice(&other).view([-1, 1]);
        let value = |s: &Tensor| {
            let s = self.critic.values(&self.skills.features(s, &none));
            s.gather(1, &other, false)
        };
        let ends: Vec<usize> = returns.last.iter().map(|&i| places[i]).collect();
        let ends = value(&self.replay.batch(&ends).s2);
        (column(&returns.partial) + column(&returns.discount) * ends, value(&batch.s))
    }

    /// Advantages of the newest transitions, by the twin that does not know the episode: sums of TD
    /// errors that fade by γλ (Schulman's generalised advantages).
    fn advantages(&self, collection: &Collection) -> Vec<f32> {
        let places = self.replay.newest(collection.transitions.len());
        let batch = self.replay.batch(&places);
        let none = batch.a.zeros_like();
        let other: Vec<i64> = collection.episodes.iter().map(|e| i64::from((e / 2 + 1) % 2)).collect();
        let other = Tensor::from_slice(&other).view([-1, 1]);
        let value = |s: &Tensor| {
            let values = self.critic.values(&self.skills.features(s, &none)).gather(1, &other, false);
            Vec::<f32>::try_from(values.reshape([-1])).unwrap_or_default()
        };
        let (here, next) = (value(&batch.s), value(&batch.s2));
        let episodes = collection.episodes.iter().max().map_or(0, |e| *e as usize + 1);
        let mut ahead = vec![0.0_f32; episodes];
        let mut advantages = vec![0.0; here.len()];
        for (i, t) in collection.transitions.iter().enumerate().rev() {
            let later = &mut ahead[collection.episodes[i] as usize];
            *later = t.reward + t.discount * (next[i] + self.config.lambda * *later) - here[i];
            advantages[i] = *later;
        }
        advantages
    }

    /// Moves the gains up Q, then trains the deviation; returns the entropy above its target.
    fn improve(&mut self, collection: &Collection) -> f64 {
        let gains = self.actor.gains();
        let places = self.replay.newest(collection.transitions.len());
        let twins = if self.config.evaluator == Evaluator::Gradient { Twins::Min } else { Twins::Mean };
        let left = 1.0 - self.round as f32 / self.config.rounds as f32;
        let step = self.config.step * (0.1 + 0.9 * left);
        match self.config.improvement {
            Improvement::Compatible => {
                let advantages = no_grad(|| self.advantages(collection));
                let mut rows = Returns::new(collection).known(self.config.lookahead);
                if self.task.mirrored {
                    rows = pairs(collection, &rows);
                }
                let ascent = compatible_gradient(collection, &advantages, &rows, self.task.mirrored, &gains);
                self.gradient = ascent.gradient;
                if self.config.trust > 0.0 {
                    let trust = self.config.trust * (0.1 + 0.9 * left);
                    self.actor.climb_naturally(
                        &ascent.natural,
                        &ascent.metric,
                        trust,
                        step,
                        self.config.momentum,
                    );
                } else {
                    self.actor.climb(&ascent.gradient, step, self.config.momentum);
                }
            }
            Improvement::Skills => {
                let batch = self.replay.batch(&places);
                let dq = actor::action_gradient(
                    &self.skills,
                    &self.critic,
                    twins,
                    &batch.s,
                    &batch.a.zeros_like(),
                );
                let gradient = actor::gain_gradient(&dq, &collection.jacobians, &gains);
                self.actor.climb(&gradient, step, self.config.momentum);
            }
        }
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
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut all = self.skills.saved();
        all.extend(self.critic.saved());
        all.extend(self.actor.saved());
        all.extend(self.replay.saved());
        let words = self.rng.state().map(i64::from);
        all.push(("rng".to_owned(), Tensor::from_slice(&words)));
        all.push(("round".to_owned(), Tensor::from_slice(&[self.round as i64])));
        all.push(("seed".to_owned(), Tensor::from_slice(&[self.seed as i64])));
        all.push(("best.theta".to_owned(), Tensor::from_slice(&self.best.0)));
        all.push(("best.return".to_owned(), Tensor::from_slice(&[self.best.1])));
        Ok(Tensor::write_safetensors(&all, path)?)
    }

    /// Puts back what [`Self::save`] wrote, into a trainer of the same configuration.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or belongs to another configuration or seed.
    pub fn load(&mut self, path: &Path) -> anyhow::Result<()> {
        let read =
            || -> anyhow::Result<Saved> { Ok(Saved(Tensor::read_safetensors(path)?.into_iter().collect())) };
        let mut restore = || -> anyhow::Result<()> {
            let saved = read()?;
            let seed = saved.get("seed", &[1])?.int64_value(&[0]) as u64;
            anyhow::ensure!(seed == self.seed, "it is of seed {seed}, not {}", self.seed);
            self.skills.restore(&saved)?;
            self.critic.restore(&saved)?;
            self.actor.restore(&saved)?;
            self.replay.restore(&saved)?;
            let words = saved.get("rng", &[4])?;
            self.rng = Rng::from_state([0, 1, 2, 3].map(|i| words.int64_value(&[i]) as u32));
            self.round = usize::try_from(saved.get("round", &[1])?.int64_value(&[0]))?;
            saved.get("best.theta", &[GAIN_COUNT as i64])?.f_copy_data(&mut self.best.0, GAIN_COUNT)?;
            self.best.1 = saved.get("best.return", &[1])?.double_value(&[0]);
            Ok(())
        };
        restore().with_context(|| format!("cannot use the checkpoint {}", path.display()))
    }
}

/// Those of the rows that stand beside their mirror image (episodes 2k and 2k + 1, the same time).
fn pairs(collection: &Collection, rows: &[usize]) -> Vec<usize> {
    let episode = |i: usize| collection.episodes[i];
    let is_pair = |w: &&[usize]| matches!(**w, [a, b] if b == a + 1 && episode(a) % 2 == 0 && episode(b) == episode(a) + 1);
    rows.windows(2).filter(is_pair).flatten().copied().collect()
}

/// Directions in which Q grows.
#[derive(Debug)]
pub struct Ascent {
    /// ∂J/∂θ.
    pub gradient: [f32; GAIN_COUNT],
    /// ω, the natural gradient: per change of the action instead of per change of θ.
    pub natural: [f32; GAIN_COUNT],
    /// E[(∂μ/∂θ)ᵀ(∂μ/∂θ)], the mean square change of the action for a change of θ.
    pub metric: Tensor,
}

/// ∂J/∂θ from compatible features: A(s, a) ≈ ωᵀψ with ψ = (∂μ/∂θ)ᵀ(a − μ(s)) by least squares over the
/// given rows, so that ∂Q/∂a = (∂μ/∂θ) ω, and the gradient is E[(∂μ/∂θ)ᵀ ∂Q/∂a].
pub fn compatible_gradient(
    collection: &Collection,
    advantages: &[f32],
    rows: &[usize],
    mirrored: bool,
    gains: &Gains,
) -> Ascent {
    let n = GAIN_COUNT;
    let k = gains.to_array();
    let scaled = |&i: &usize| -> Jacobian {
        collection.jacobians[i].map(|row| std::array::from_fn(|i| row[i] * k[i]))
    };
    let jacobians: Vec<Jacobian> = rows.iter().map(scaled).collect();
    let count = jacobians.len() as i64;
    let j = Tensor::from_slice(&jacobians.concat().concat()).view([count, 4, n as i64]).to_kind(Kind::Double);
    let offsets: Vec<f32> = rows.iter().flat_map(|&i| collection.transitions[i].offset).collect();
    let offsets = Tensor::from_slice(&offsets).view([count, 1, 4]).to_kind(Kind::Double);
    let advantages: Vec<f32> = rows.iter().map(|&i| advantages[i]).collect();
    let psi = offsets.matmul(&j).view([count, n as i64]);
    let a = column(&advantages).to_kind(Kind::Double);
    // Half the difference of a pair.
    let odd = |t: Tensor| {
        let halves = t.view([count / 2, 2, -1]);
        (halves.select(1, 0) - halves.select(1, 1)) * 0.5
    };
    let (psi, a) = if mirrored { (odd(psi), odd(a)) } else { (psi, a) };
    // A crash is worth hundreds of ordinary advantages: it may count as much as the largest of these.
    let spread = a.abs().mean(Kind::Double).double_value(&[]);
    let a = a.clamp(-5.0 * spread, 5.0 * spread);
    let a = &a - a.mean(Kind::Double);
    let samples = psi.size().first().copied().unwrap_or(1) as f64;
    let square = psi.tr().matmul(&psi) / samples;
    let ridge = square.trace().double_value(&[]) / n as f64 * RIDGE;
    let square = square + Tensor::eye(n as i64, (Kind::Double, tch::Device::Cpu)) * ridge.max(1e-12);
    let omega = Tensor::linalg_solve(&square, &(psi.tr().matmul(&a) / samples), true);
    let flat = j.view([count * 4, n as i64]);
    let metric = flat.tr().matmul(&flat) / count as f64;
    let row = |t: &Tensor| {
        let mut out = [0.0; GAIN_COUNT];
        for (o, x) in out.iter_mut().zip(Vec::<f64>::try_from(t.reshape([-1])).unwrap_or_default()) {
            *o = x as f32;
        }
        out
    };
    Ascent { gradient: row(&metric.matmul(&omega)), natural: row(&omega), metric }
}
