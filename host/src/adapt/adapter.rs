//! One adaptation: flights in, a better policy out.

use steady_common::Gains;
use steady_common::exploration::Exploration;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

use crate::closed_loop::TrustRegion;
use crate::train::oracle::{Theta, gains_of};
use crate::train::spectral::{ACTION_LEN, Skills};
use crate::train::trainer::Trainer;

use super::config::Config;
use super::discovery::{Data, Discovery, Found};
use super::dynamics::{Dynamics, Features, Regression, Slopes, rows};
use super::flights::{FlightData, FlightTransition, TransitionBatch, Windowing};
use super::improvement::{self, GainStep};
use super::rollout::Rollout;

/// Flights that are rolled out, at most: the newest.
const MAX_ROLLED_OUT: usize = 4;
/// The policy's noise counts as at least this.
const MIN_STD: f32 = 0.005;

/// A policy that learns from flights.
#[derive(Debug)]
pub struct Adapter<'a> {
    /// Settings.
    pub config: Config,
    /// φ°, μ°.
    old: &'a Skills,
    /// φ, μ.
    pub new: Option<Discovery>,
    windowing: Windowing,
    pub flights: Vec<FlightData>,
    /// θ of the policy that flies.
    theta: Theta,
    rng: Rng,
}

#[derive(Debug)]
pub struct Learned {
    /// Skills.
    pub found: Option<Found>,
    /// What all skills predict of the next state.
    pub dynamics: Dynamics,
    /// The same with the simulator's skills alone, where there are new ones.
    pub transfer: Option<Dynamics>,
    pub step: GainStep,
}

/// The simulator's skills, and the new ones where there are any.
struct CombinedSkills<'a>(&'a Skills, Option<&'a Discovery>);

impl Features for CombinedSkills<'_> {
    fn of_state(&self, s: &Tensor) -> Tensor {
        let none = Tensor::zeros([s.size()[0], ACTION_LEN], (Kind::Float, tch::Device::Cpu));
        let old = self.0.features(s, &none).narrow(1, 0, self.0.width() - 2);
        let mut parts = vec![self.0.narrow_to_state(&old)];
        if let Some(new) = self.1 {
            parts.push(new.features(s, &none, &old).narrow(1, 0, new.width() / (ACTION_LEN + 1)));
        }
        Tensor::cat(&parts, 1)
    }
}

impl<'a> Adapter<'a> {
    /// Starts from a run's skills and the gains that fly.
    pub fn new(config: Config, run: &'a Trainer, theta: Theta, seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0x6164_6170);
        let new = config.discovery.then(|| Discovery::new(&mut rng, &config, &run.skills));
        let windowing = Windowing::of(&run.task);
        Self { config, old: &run.skills, new, windowing, flights: Vec::new(), theta, rng }
    }

    /// Adds flights of an iteration; the last one flew the present gains.
    pub fn add(&mut self, iteration: usize, flights: impl IntoIterator<Item = FlightData>) {
        self.flights.extend(flights.into_iter().map(|f| FlightData { iteration, ..f }));
    }

    fn newest(&self) -> usize {
        self.flights.iter().map(|f| f.iteration).max().unwrap_or(0)
    }

    /// Learns from all flights and proposes a step within the trust region.
    pub fn learn(&mut self, region: &TrustRegion) -> Learned {
        let gains = gains_of(&self.theta);
        let batch = self.windowing.transitions(&self.flights, &gains);
        let found = self.discover(&batch);
        let newest = self.newest();
        let weights: Vec<f64> =
            self.flights.iter().map(|f| self.config.memory.powi((newest - f.iteration) as i32)).collect();
        let mut rng = self.rng;
        let mut fit = |skills: &CombinedSkills<'_>, samples: usize| {
            Regression::new(skills, &batch, &weights).fit(&self.config.ridges, samples, &mut rng)
        };
        let skills = CombinedSkills(self.old, self.new.as_ref());
        let dynamics = fit(&skills, self.config.bootstrap);
        let transfer = self.new.as_ref().map(|_| fit(&CombinedSkills(self.old, None), 0));
        let step = self.improve(&skills, &batch, &dynamics, &gains, region);
        Learned { found, dynamics, transfer, step }
    }

    /// The best change of the gains by rollouts of the newest flights.
    fn improve(
        &self,
        skills: &CombinedSkills<'_>,
        batch: &TransitionBatch,
        dynamics: &Dynamics,
        gains: &Gains,
        region: &TrustRegion,
    ) -> GainStep {
        let newest = self.newest();
        let is_newest = |i: &usize| self.flights[*i].iteration == newest;
        let chosen: Vec<usize> =
            (0..self.flights.len()).rev().filter(is_newest).take(MAX_ROLLED_OUT).collect();
        let transitions: Vec<&FlightTransition> =
            batch.iter().filter(|t| chosen.contains(&t.flight)).collect();
        let observations: Vec<_> = transitions.iter().map(|t| t.from).collect();
        let slopes = Slopes::new(skills, &observations);
        let length = self.windowing.steps_per_transition(&self.flights);
        let rollout = Rollout::new(&transitions, gains, length);
        let linear: Vec<_> =
            std::iter::once(&dynamics.m).chain(&dynamics.samples).map(|m| slopes.linear(m)).collect();
        let jacobians: Vec<_> = transitions.iter().map(|t| &t.jacobian).collect();
        let fisher = improvement::fisher(&jacobians, gains, &noise_std(batch));
        let per_flight = transitions.len() as f64 / chosen.len().max(1) as f64;
        improvement::improve(&self.theta, &rollout, &linear, &fisher, per_flight, region, &self.config)
    }

    /// φ, μ from the flights.
    fn discover(&mut self, batch: &TransitionBatch) -> Option<Found> {
        let new = self.new.as_mut()?;
        let s = rows(batch.iter().map(|t| t.from));
        let a = rows(batch.iter().map(|t| t.offset));
        let s2 = rows(batch.iter().map(|t| t.to));
        let old_phi = no_grad(|| self.old.features(&s, &a).narrow(1, 0, self.old.width() - 2));
        new.normalise_to(&s, &a);
        Some(new.learn(self.old, &Data { s, a, s2, old_phi }, &mut self.rng, &self.config))
    }
}

/// Standard deviations of the actions relative to the law's.
fn noise_std(batch: &TransitionBatch) -> [f32; 4] {
    let square =
        |k: usize| batch.iter().map(|t| t.offset[k].powi(2)).sum::<f32>() / batch.len().max(1) as f32;
    std::array::from_fn(|k| square(k).sqrt().clamp(MIN_STD, Exploration::LIMIT))
}
