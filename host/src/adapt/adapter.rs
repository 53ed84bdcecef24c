//! The loop of Algorithm 2: flights in, a better policy out, round by round.

use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use crate::train::env::Collection;
use crate::train::oracle::{Theta, gains_of};
use crate::train::returns::Returns;
use crate::train::spectral::Skills;

use super::config::Config;
use super::discovery::{Data, Discovery, Found};
use super::flights::{Cut, Flight};
use super::step::{self, Momentum, Step};
use super::synthesis::{self, Features, Value};

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
    /// Standard deviations of the policy's noise.
    std: [f32; 4],
    /// All flights so far.
    pub flights: Vec<Flight>,
    /// θ of the policy that flies.
    pub theta: Theta,
    /// θ of π°.
    pub origin: Theta,
    momentum: Momentum,
    rng: Rng,
    round: usize,
}

/// What a round found.
#[derive(Debug)]
pub struct Round {
    /// Q and the gradient.
    pub value: Value,
    /// Skills.
    pub found: Option<Found>,
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
}

impl<'a> Adapter<'a> {
    /// Starts from a simulator's skills, weights and policy.
    #[must_use]
    pub fn new(
        config: Config,
        old: &'a Skills,
        old_w: &Tensor,
        cut: Cut,
        std: [f32; 4],
        theta: Theta,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed, 0x6164_6170);
        let new = config.discovery.then(|| Discovery::new(&mut rng, &config, old));
        let old_w = old_w.detach().to_kind(Kind::Double).mean_dim(1, true, Kind::Double);
        Self {
            config,
            old,
            old_w,
            new,
            cut,
            std,
            flights: Vec::new(),
            theta,
            origin: theta,
            momentum: [0.0; GAIN_COUNT],
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
        let sums = synthesis::sums(
            &skills,
            &cuttings,
            &gains,
            &self.std,
            self.config.lookahead,
            self.config.lambda_return,
        );
        let width = self.old.width() + self.new.as_ref().map_or(0, Discovery::width);
        let prior = no_grad(|| {
            let none = width - self.old.width() + synthesis::BASELINE_LEN;
            let none = Tensor::zeros([none, 1], (Kind::Double, tch::Device::Cpu));
            Tensor::cat(&[&self.old_w, &none], 0)
        });
        let weights: Vec<f64> = self
            .flights
            .iter()
            .take(sums.len())
            .map(|f| self.config.memory.powi((self.round - f.round) as i32))
            .collect();
        let value = synthesis::evaluate(
            &sums,
            &weights,
            &prior,
            &self.firmness(),
            &self.config.ridges,
            self.config.bootstrap,
            &mut self.rng,
        );
        let step = step::step(&self.theta, &self.origin, &value, &mut self.momentum, scale, &self.config);
        self.round += 1;
        Round { value, found, step }
    }

    /// How much harder than the rest the slopes in the action are held to what the simulator says of them.
    fn firmness(&self) -> Tensor {
        let cpu = (Kind::Double, tch::Device::Cpu);
        let block = |features: i64| {
            let u = features / 5;
            [Tensor::ones([u, 1], cpu), Tensor::ones([features - u, 1], cpu) * self.config.firm]
        };
        let mut parts: Vec<Tensor> = block(self.old.width() - 2).into();
        parts.push(Tensor::ones([2, 1], cpu));
        if let Some(new) = &self.new {
            parts.extend(block(new.width()));
        }
        parts.push(Tensor::ones([synthesis::BASELINE_LEN, 1], cpu));
        Tensor::cat(&parts, 0)
    }

    /// φ, μ from the flights.
    fn discover(&mut self, collection: &Collection) -> Option<Found> {
        let data = self.data(collection);
        let new = self.new.as_mut()?;
        new.look_at(&data.s, &data.a);
        Some(new.learn(self.old, &data, &mut self.rng, &self.config))
    }

    fn data(&self, collection: &Collection) -> Data {
        let rows = |values: Vec<f32>, width: i64| Tensor::from_slice(&values).view([-1, width]);
        let t = &collection.transitions;
        let s = rows(t.iter().flat_map(|t| t.from.observation).collect(), OBSERVATION_LEN as i64);
        let a = rows(t.iter().flat_map(|t| t.offset).collect(), 4);
        let s2 = rows(t.iter().flat_map(|t| t.to.observation).collect(), OBSERVATION_LEN as i64);
        let returns = Returns::new(collection);
        // Beyond a flight's end the mean goes on.
        let n = t.len().max(1) as f32;
        let mean = t.iter().map(|t| t.reward).sum::<f32>() / n;
        let discount = t.iter().map(|t| t.discount).sum::<f32>() / n;
        let rest = mean / (1.0 - discount).max(1e-3);
        let value =
            rows(returns.partial.iter().zip(&returns.discount).map(|(p, d)| p + d * rest).collect(), 1);
        no_grad(|| {
            let spread = value.std(false).clamp_min(1e-6);
            let value = (&value - value.mean(Kind::Float)) / spread;
            let old_phi = self.old.features(&s, &a).narrow(1, 0, self.old.width() - 2);
            Data { s, a, s2, value, old_phi }
        })
    }
}
