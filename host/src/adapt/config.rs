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
    /// Ridge of the slopes in the action, relative to that of the values.
    pub firm: f64,
    /// Ridges of the least squares to choose from, relative to the features' mean square.
    pub ridges: Vec<f64>,
    /// Samples of the bootstrap over flights.
    pub bootstrap: usize,
    /// Largest change of a gain in a round, as a logarithm.
    pub step: f32,
    /// Gradients below this part of the largest one give smaller changes in proportion.
    pub soft: f32,
    /// How much of the old direction a new one keeps.
    pub momentum: f32,
    /// τ_π, the price of KL(π‖π°).
    pub tau: f64,
    /// Largest KL divergence of a round's policy from the one before.
    pub trust: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            discovery: true,
            hidden: 128,
            features: 60,
            batch: 512,
            updates: 300,
            rate: 1e-3,
            smoothing: 1.0,
            shaping: 0.0,
            lambda: 0.01,
            correlation: 0.05,
            memory: 0.8,
            lookahead: 20,
            lambda_return: 0.9,
            firm: 1.0,
            ridges: vec![1e-4, 1e-3, 1e-2, 1e-1, 1.0],
            bootstrap: 40,
            step: 0.3,
            soft: 0.05,
            momentum: 0.3,
            tau: 0.0,
            trust: 1e9,
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
        anyhow::ensure!(config.step > 0.0 && config.step <= 1.0, "`step` must lie in (0, 1]");
        Ok(config)
    }
}
