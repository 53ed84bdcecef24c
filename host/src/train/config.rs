//! The configuration of a training run: a TOML document, and the presets.

use std::fmt;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use steady_common::observation::RewardWeights;
use steady_data::error::{unknown, usage};
use steady_sim::initial::Spread;
use steady_sim::suggest::did_you_mean;
use steady_sim::{InitialDistribution, World};

use super::env::TrainingTask;
use super::spectral::{Form, Training};

const PRESETS: [(&str, &str); 3] = [
    ("smoke", include_str!("../../presets/smoke.toml")),
    ("quick", include_str!("../../presets/quick.toml")),
    ("paper", include_str!("../../presets/paper.toml")),
];

/// Where episodes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The paper's appendix B.
    Paper,
    /// Position, attitude, velocity, rates and propeller speeds far from the goal.
    Wide,
}

/// How the linear weights w are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluator {
    /// Least squares on the λ-returns of whole episodes: LSTD(λ).
    Returns,
    /// Least squares on single transitions of the newest part of the memory: LSTD(0).
    Lstd,
    /// Adam on the TD error with twin weights and targets, as SAC does it.
    Gradient,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// World to train in: a shipped one by name, or a file.
    pub world: String,
    /// Initial factor of the costs of tilt, velocity, rates and action; they reach their full weight in the
    /// middle of the run. 1 is no curriculum.
    pub curriculum: f32,
    /// More worlds, drawn at random around the paper's gap; 0 trains in `world` alone.
    pub random_worlds: usize,
    /// Where episodes begin.
    pub start: Start,
    pub episode_steps: usize,
    /// Physics steps of a transition, over which the exploration's noise is held.
    pub hold: usize,
    /// Discount of one physics step.
    pub gamma: f32,
    /// Rounds of collecting, learning and improving.
    pub rounds: usize,
    pub episodes: usize,
    /// Whether episodes come in pairs that begin alike and explore in opposite directions.
    pub mirrored: bool,
    /// Transitions the memory holds.
    pub replay: usize,
    /// Width of the hidden layers.
    pub hidden: i64,
    /// Features of φ and μ.
    pub features: i64,
    /// Transitions of a gradient step.
    pub batch: usize,
    /// Gradient steps of a round on φ, μ and the reward model.
    pub updates: usize,
    /// The same in the first round.
    pub first_updates: usize,
    /// Learning rate of the networks.
    pub rate: f64,
    /// Standard deviation of the noise on s′ in L_feat, relative to s′ itself: without it the
    /// dynamics of a simulator are deterministic and have no spectrum.
    pub smoothing: f64,
    /// How φ depends on the action.
    pub form: Form,
    /// Weight of the returns' error in φ's loss; 0 in the paper.
    pub shaping: f64,
    /// As the authors' program: L_feat trains μ only, and φ learns from the returns alone.
    pub only_mu: bool,
    /// How the linear weights are found.
    pub evaluator: Evaluator,
    /// λ of the returns: 1 is Monte Carlo, less bootstraps earlier.
    pub lambda: f32,
    /// Weight of the score-function correction of the gradient: 0 follows Q alone; 1 removes Q's bias at the
    /// price of more noise.
    pub correction: f32,
    /// Newest transitions that LSTD uses.
    pub window: usize,
    /// Ridge of the least squares, relative to the features' mean square.
    pub ridge: f64,
    /// Transitions that must follow one for its return to count: the bootstrapped value at an episode's end
    /// is too inaccurate near it.
    pub lookahead: usize,
    /// Initial standard deviations of the exploration noise, and its target entropy.
    pub std: [f32; 4],
    /// Final factor of the noise, reached geometrically.
    pub std_final: f32,
    /// Learning rate of the noise network and the temperature.
    pub std_rate: f64,
    /// Largest change of a gain in a round, as a logarithm.
    pub step: f32,
    /// Momentum of the gains' steps.
    pub momentum: f32,
    /// Rounds between evaluations; the best gains are kept.
    pub evaluate_every: usize,
    pub evaluate_episodes: usize,
    /// Random worlds in which the gains are improved by whole flights at the end; 0 leaves that out.
    #[serde(default)]
    pub flown_worlds: usize,
    /// Steps of that search.
    #[serde(default)]
    pub flown_steps: usize,
}

impl Config {
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// A preset with changes, each written `key=value`.
    pub fn preset(name: &str, changes: &[String]) -> anyhow::Result<Self> {
        let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
            return Err(unknown("preset", name, &PRESETS.map(|(name, _)| name)));
        };
        let table: toml::Table = toml::from_str(text)?;
        let table = changed(table, changes)?;
        Self::from_toml(&toml::to_string(&table)?)
    }

    pub fn from_toml(text: &str) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let message = error.message().to_owned();
            let hint = message
                .strip_prefix("unknown field `")
                .and_then(|rest| rest.split('`').next())
                .map_or_else(String::new, |key| did_you_mean(key, Self::keys().iter()));
            usage(format!("{}{hint}", error.to_string().trim_end()))
        })?;
        config.check()?;
        Ok(config)
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    fn keys() -> Vec<String> {
        let (_, text) = PRESETS[0];
        toml::from_str::<toml::Table>(text).unwrap_or_default().keys().cloned().collect()
    }

    fn check(&self) -> anyhow::Result<()> {
        let positive = [
            ("episode_steps", self.episode_steps),
            ("hold", self.hold),
            ("rounds", self.rounds),
            ("episodes", self.episodes),
            ("replay", self.replay),
            ("batch", self.batch),
            ("evaluate_every", self.evaluate_every),
            ("evaluate_episodes", self.evaluate_episodes),
        ];
        for (key, value) in positive {
            anyhow::ensure!(value > 0, "`{key}` must be at least 1");
        }
        anyhow::ensure!(
            self.lookahead < self.episode_steps / self.hold,
            "`lookahead` must be shorter than an episode's {} transitions",
            self.episode_steps / self.hold
        );
        anyhow::ensure!(self.hold <= self.episode_steps, "`hold` must not be longer than an episode");
        anyhow::ensure!(self.gamma > 0.0 && self.gamma < 1.0, "`gamma` must lie between 0 and 1");
        anyhow::ensure!(self.hidden > 0 && self.features > 0, "`hidden` and `features` must be at least 1");
        anyhow::ensure!(self.std.iter().all(|s| *s > 0.0), "`std` must be positive");
        anyhow::ensure!((0.0..=1.0).contains(&self.curriculum), "`curriculum` must lie in [0, 1]");
        anyhow::ensure!((0.0..=1.0).contains(&self.lambda), "`lambda` must lie in [0, 1]");
        anyhow::ensure!((0.0..=1.0).contains(&self.correction), "`correction` must lie in [0, 1]");
        anyhow::ensure!(self.shaping >= 0.0, "`shaping` must not be negative");
        anyhow::ensure!(self.std_final > 0.0, "`std_final` must be positive");
        anyhow::ensure!((0.0..1.0).contains(&self.momentum), "`momentum` must lie in [0, 1)");
        Ok(())
    }

    pub fn training(&self) -> Training {
        let Self { rate, smoothing, shaping, only_mu, .. } = *self;
        Training { rate, smoothing, shaping, only_mu }
    }

    /// The reward's weights when a fraction `done` of the rounds is done.
    pub fn weights(&self, done: f32) -> RewardWeights {
        let full = RewardWeights::PAPER;
        let part = (self.curriculum + (1.0 - self.curriculum) * 2.0 * done).clamp(0.0, 1.0);
        RewardWeights {
            position: full.position,
            tilt: part * full.tilt,
            velocity: part * full.velocity,
            rate: part * full.rate,
            action: part * full.action,
        }
    }

    pub fn task(&self) -> anyhow::Result<TrainingTask> {
        let mut worlds = vec![World::load(&self.world)?.compile()?];
        for seed in 0..self.random_worlds as u64 {
            worlds.push(World::sample(seed).compile()?);
        }
        let initial = match self.start {
            Start::Paper => InitialDistribution::Paper,
            Start::Wide => InitialDistribution::Wide(Spread::default()),
        };
        Ok(TrainingTask {
            initial,
            episode_steps: self.episode_steps,
            hold: self.hold,
            gamma: self.gamma,
            mirrored: self.mirrored,
            ..TrainingTask::hover(worlds)
        })
    }
}

impl fmt::Display for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Returns => "returns",
            Self::Lstd => "lstd",
            Self::Gradient => "gradient",
        })
    }
}

/// A table of settings with changes, each written `key=value`.
pub fn changed(mut table: toml::Table, changes: &[String]) -> anyhow::Result<toml::Table> {
    let keys: Vec<String> = table.keys().cloned().collect();
    for change in changes {
        let (key, value) = change
            .split_once('=')
            .ok_or_else(|| usage(format!("`{change}` is not of the form key=value")))?;
        let key = key.trim();
        if !table.contains_key(key) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            return Err(unknown("setting", key, &keys));
        }
        let parsed: toml::Table = toml::from_str(&format!("v = {value}"))
            .or_else(|_| toml::from_str(&format!("v = {value:?}")))
            .map_err(|_| usage(format!("`{value}` is not a value for `{key}`")))?;
        let value = parsed.get("v").cloned().context("no value")?;
        let value = match (table.get(key), value) {
            (Some(toml::Value::Float(_)), toml::Value::Integer(i)) => toml::Value::Float(i as f64),
            (_, value) => value,
        };
        table.insert(key.to_owned(), value);
    }
    Ok(table)
}
