//! The loop of Algorithm 2: flights in, a better policy out, round by round.

use steady_common::Gains;
use steady_common::exploration::Exploration;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use crate::train::env::Collection;
use crate::train::oracle::{Theta, gains_of};
use crate::train::returns::Returns;
use crate::train::spectral::{ACTION_LEN, Skills};
use crate::train::trainer::Trainer;

use super::config::Config;
use super::discovery::{Data, Discovery, Found};
use super::dynamics::{Dynamics, Features, Regression, Slopes, rows};
use super::flights::{Cut, Cuttings, Flight};
use super::improvement::{self, Step};
use super::rollout::Flown;
use super::synthesis::{self, Value};

/// Flights that are flown again in thought, at most: the newest.
const ROLLED_OUT: usize = 4;
/// What a round that flew no better leaves of the step.
const DISTRUST: f32 = 0.6;
/// The policy's noise counts as at least this.
const LEAST_STD: f32 = 0.005;

/// A policy that learns from flights.
#[derive(Debug)]
pub struct Adapter<'a> {
    /// Settings.
    pub config: Config,
    /// φ°, μ°, and the reward's model.
    old: &'a Skills,
    /// w°.
    old_w: Tensor,
    /// φ, μ.
    pub new: Option<Discovery>,
    cut: Cut,
    /// All flights so far.
    pub flights: Vec<Flight>,
    /// θ of the policy that flies.
    pub theta: Theta,
    rng: Rng,
    round: usize,
}

/// What a round found.
#[derive(Debug)]
pub struct Round {
    /// Q.
    pub value: Value,
    /// Skills.
    pub found: Option<Found>,
    /// What all skills say of the next state.
    pub dynamics: Dynamics,
    /// The same with the simulator's skills alone, where there are new ones.
    pub transfer: Option<Dynamics>,
    /// The proposed step.
    pub step: Step,
}

struct Both<'a>(&'a Skills, Option<&'a Discovery>);

impl Features for Both<'_> {
    fn features(&self, s: &Tensor, a: &Tensor) -> Tensor {
        let old = self.0.features(s, a);
        match self.1 {
            None => old,
            Some(new) => {
                let phi = old.narrow(1, 0, self.0.width() - 2);
                Tensor::cat(&[&old, &new.features(s, a, &phi)], 1)
            }
        }
    }

    fn of_state(&self, s: &Tensor) -> Tensor {
        let none = Tensor::zeros([s.size()[0], 4], (Kind::Float, tch::Device::Cpu));
        let old = self.0.features(s, &none).narrow(1, 0, self.0.width() - 2);
        let parts = match self.1 {
            None => vec![self.0.narrow_to_state(&old)],
            Some(new) => {
                let phi = new.features(s, &none, &old).narrow(1, 0, new.width() / (ACTION_LEN + 1));
                vec![self.0.narrow_to_state(&old), phi]
            }
        };
        Tensor::cat(&parts, 1)
    }
}

impl<'a> Adapter<'a> {
    /// Starts from a run's skills and weights, and the gains that fly.
    #[must_use]
    pub fn new(config: Config, run: &'a Trainer, theta: Theta, seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0x6164_6170);
        let new = config.discovery.then(|| Discovery::new(&mut rng, &config, &run.skills));
        let old_w = run.critic.w().detach().to_kind(Kind::Double).mean_dim(1, true, Kind::Double);
        Self {
            config,
            old: &run.skills,
            old_w,
            new,
            cut: Cut::of(&run.task),
            flights: Vec::new(),
            theta,
            rng,
            round: 0,
        }
    }

    /// The gains that fly.
    #[must_use]
    pub fn gains(&self) -> Gains {
        gains_of(&self.theta)
    }

    /// Takes flights of the present policy.
    pub fn add(&mut self, flights: impl IntoIterator<Item = Flight>) {
        let round = self.round;
        self.flights.extend(flights.into_iter().map(|f| Flight { round, ..f }));
    }

    /// What comes from now on was flown later, with other gains.
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    /// Learns from all flights and proposes a step; the caller decides whether to take it.
    pub fn round(&mut self, scale: f32) -> Round {
        let gains = self.gains();
        let cuttings = self.cut.cut(&self.flights, &gains);
        let found = self.discover(&cuttings.collection);
        let skills = Both(self.old, self.new.as_ref());
        let weights: Vec<f64> =
            self.flights.iter().map(|f| self.config.memory.powi((self.round - f.round) as i32)).collect();
        let value = self.evaluate(&skills, &cuttings, &weights);
        let std = spread(&cuttings.collection);
        let fit = |skills: &Both<'_>, samples: usize, rng: &mut Rng| {
            let regression = Regression::new(skills, &cuttings, &weights);
            regression.fit(&self.config.ridges, samples, rng)
        };
        let mut rng = self.rng;
        let dynamics = fit(&skills, self.config.bootstrap, &mut rng);
        let transfer = self.new.as_ref().map(|_| fit(&Both(self.old, None), 0, &mut rng));
        let step = self.improve(&skills, &cuttings, &dynamics, &std, scale * self.trust());
        self.rng = rng;
        self.round += 1;
        Round { value, found, dynamics, transfer, step }
    }

    /// Part of the step that is taken: less with every round that did not fly better than all before it. So large
    /// steps end where the model's promises do.
    fn trust(&self) -> f32 {
        let mut best = f64::NEG_INFINITY;
        let mut trust = 1.0;
        let rounds = self.flights.iter().map(|f| f.round).max().map_or(0, |r| r + 1);
        for round in 0..rounds {
            let (mut sum, mut steps) = (0.0, 0_usize);
            for flight in self.flights.iter().filter(|f| f.round == round) {
                sum += flight.reward(&self.cut.weights);
                steps += flight.steps.len();
            }
            if steps == 0 {
                continue;
            }
            let reward = sum / steps as f64;
            if reward > best {
                best = reward;
            } else {
                trust *= DISTRUST;
            }
        }
        trust
    }

    /// Q of the present policy over all skills.
    fn evaluate(&self, skills: &Both<'_>, cuttings: &Cuttings, weights: &[f64]) -> Value {
        let sums = synthesis::sums(skills, cuttings, self.config.lookahead, self.config.lambda_return);
        let new = self.new.as_ref().map_or(0, Discovery::width);
        let none = Tensor::zeros([new + synthesis::BASELINE_LEN, 1], (Kind::Double, tch::Device::Cpu));
        let prior = no_grad(|| Tensor::cat(&[&self.old_w, &none], 0));
        synthesis::evaluate(&sums, weights, &prior, &self.config.ridges)
    }

    /// The best change of the gains by the newest flights, flown again in thought.
    fn improve(
        &self,
        skills: &Both<'_>,
        cuttings: &Cuttings,
        dynamics: &Dynamics,
        std: &[f32; 4],
        scale: f32,
    ) -> Step {
        let gains = self.gains();
        let newest = self.flights.iter().map(|f| f.round).max().unwrap_or(0);
        let chosen: Vec<usize> = (0..self.flights.len())
            .rev()
            .filter(|i| self.flights[*i].round == newest)
            .take(ROLLED_OUT)
            .collect();
        let c = &cuttings.collection;
        let numbers: Vec<usize> =
            (0..c.transitions.len()).filter(|i| chosen.contains(&(c.episodes[*i] as usize))).collect();
        let observations: Vec<_> = numbers.iter().map(|i| c.transitions[*i].from).collect();
        let slopes = Slopes::new(skills, &observations);
        let length = self.cut.steps_per_transition(&self.flights);
        let flown = Flown::new(cuttings, &numbers, &gains, length);
        let linear: Vec<_> =
            std::iter::once(&dynamics.m).chain(&dynamics.samples).map(|m| slopes.linear(m)).collect();
        let jacobians: Vec<_> = numbers.iter().map(|i| &c.jacobians[*i]).collect();
        let fisher = improvement::fisher(&jacobians, &gains, std);
        let per_flight = numbers.len() as f64 / chosen.len().max(1) as f64;
        improvement::improve(&self.theta, &flown, &linear, &fisher, per_flight, scale, &self.config)
    }

    /// φ, μ from the flights.
    fn discover(&mut self, collection: &Collection) -> Option<Found> {
        let data = self.new.is_some().then(|| self.data(collection))?;
        let new = self.new.as_mut()?;
        new.look_at(&data.s, &data.a);
        Some(new.learn(self.old, &data, &mut self.rng, &self.config))
    }

    fn data(&self, collection: &Collection) -> Data {
        let t = &collection.transitions;
        let s = rows(t.iter().map(|t| t.from));
        let a = rows(t.iter().map(|t| t.offset));
        let s2 = rows(t.iter().map(|t| t.to));
        let returns = Returns::new(collection);
        // Beyond a flight's end the mean goes on.
        let n = t.len().max(1) as f32;
        let mean = t.iter().map(|t| t.reward).sum::<f32>() / n;
        let discount = t.iter().map(|t| t.discount).sum::<f32>() / n;
        let rest = mean / (1.0 - discount).max(1e-3);
        let value = rows(returns.partial.iter().zip(&returns.discount).map(|(p, d)| [p + d * rest]));
        no_grad(|| {
            let spread = value.std(false).clamp_min(1e-6);
            let value = (&value - value.mean(Kind::Float)) / spread;
            let old_phi = self.old.features(&s, &a).narrow(1, 0, self.old.width() - 2);
            Data { s, a, s2, value, old_phi }
        })
    }
}

/// Standard deviations of the actions beside the law's.
fn spread(collection: &Collection) -> [f32; 4] {
    let t = &collection.transitions;
    let square = |k: usize| t.iter().map(|t| t.offset[k].powi(2)).sum::<f32>() / t.len().max(1) as f32;
    std::array::from_fn(|k| square(k).sqrt().clamp(LEAST_STD, Exploration::LIMIT))
}
