//! Settings of the real-world stage.

use serde::{Deserialize, Serialize};

use crate::train::config::changed;

/// How flights become better gains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whether new skills are discovered; without it the simulator's are transferred alone.
    pub discovery: bool,
    /// Width of the hidden layers of the new φ and μ.
    pub hidden: i64,
    /// New features.
    pub features: i64,
    /// Transitions of a gradient step.
    pub batch: usize,
    /// Gradient steps of a round.
    pub updates: usize,
    /// Learning rate.
    pub rate: f64,
    /// Standard deviation of the noise on s′ in L_disc, relative to s′ itself.
    pub smoothing: f64,
    /// How much the error of the returns counts in the new φ's loss; the paper's method has 0.
    pub shaping: f64,
    /// λ at the start; it grows while a correlation with the simulator's skills is above `correlation`.
    pub lambda: f64,
    /// Largest normalised correlation between a new skill and one of the simulator's.
    pub correlation: f64,
    /// What a round's flights count for in the next round.
    pub memory: f64,
    /// Transitions that must follow one for its return to count.
    pub lookahead: usize,
    /// λ of the λ-returns that the weights are fitted to.
    pub lambda_return: f64,
    /// Ridges of the least squares to choose from, relative to the features' mean square.
    pub ridges: Vec<f64>,
    /// Samples of the bootstrap over pieces of flights; the step must be good in their mean.
    pub bootstrap: usize,
    /// Largest change of a gain in a round, as a logarithm.
    pub step: f32,
    /// The same for the attitude and rate loops, whose limits lie beyond what transitions of 50 ms show.
    pub fast_step: f32,
    /// τ_π, the price of KL(π‖π_present) of a flight in units of its reward.
    pub tau: f64,
    /// Price of a gain's squared change where it does not change the policy at all.
    pub still: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            discovery: true,
            hidden: 128,
            features: 260,
            batch: 512,
            updates: 60,
            rate: 1e-3,
            smoothing: 1.0,
            shaping: 0.0,
            lambda: 0.01,
            correlation: 0.05,
            memory: 0.9,
            lookahead: 20,
            lambda_return: 0.9,
            ridges: vec![1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1],
            bootstrap: 8,
            step: 0.3,
            fast_step: 0.05,
            tau: 0.1,
            still: 20.0,
        }
    }
}

impl Config {
    /// The default settings with changes, each written `key=value`.
    ///
    /// # Errors
    /// If there is no such key (the nearest is suggested), or a value does not fit.
    pub fn with(changes: &[String]) -> anyhow::Result<Self> {
        let table = toml::Table::try_from(Self::default())?;
        let config: Self = changed(table, changes)?.try_into()?;
        anyhow::ensure!(config.updates > 0 && config.batch > 0, "`updates` and `batch` must be at least 1");
        anyhow::ensure!(
            config.hidden > 0 && config.features > 0,
            "`hidden` and `features` must be at least 1"
        );
        anyhow::ensure!(!config.ridges.is_empty(), "`ridges` must not be empty");
        anyhow::ensure!((0.0..=1.0).contains(&config.lambda_return), "`lambda_return` must lie in [0, 1]");
        anyhow::ensure!((0.0..=1.0).contains(&config.memory), "`memory` must lie in [0, 1]");
        for (name, step) in [("step", config.step), ("fast_step", config.fast_step)] {
            anyhow::ensure!(step > 0.0 && step <= 1.0, "`{name}` must lie in (0, 1]");
        }
        anyhow::ensure!(config.tau >= 0.0 && config.still >= 0.0, "`tau` and `still` must not be negative");
        Ok(config)
    }
}
