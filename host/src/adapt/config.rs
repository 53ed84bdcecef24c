//! Settings of the real-world stage.

use serde::{Deserialize, Serialize};

use steady_learn::discovery::MAX_UNITS;
use steady_learn::discovery::Settings as Discovery;
use steady_learn::search::Settings as Search;

use crate::closed_loop::TrustRegion;
use crate::train::config::changed;

/// What predicts flights with other gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The simulator, its parameters identified from the flights, and skills for what it lacks.
    #[default]
    Simulator,
    /// What all skills predict of the next state, without the simulator.
    Skills,
}

/// How flights become better gains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What gains are improved in.
    pub model: Model,
    /// Whether new skills are discovered; without, the simulator's are transferred alone.
    pub discovery: bool,
    /// New skills on the simulator's residual; with 0 there are its inputs alone (`model = "simulator"`).
    pub units: usize,
    /// Gauss–Newton steps of the search for gains (`model = "simulator"`).
    pub search_steps: usize,
    /// Width of the hidden layers of the new φ and μ (`model = "skills"`, like all below but for `tau`).
    pub hidden: i64,
    pub features: i64,
    /// Transitions of a gradient step.
    pub batch: usize,
    /// Gradient steps of an adaptation.
    pub updates: usize,
    /// Learning rate.
    pub rate: f64,
    /// Standard deviation of the noise on s′ in L_disc, relative to s′ itself.
    pub smoothing: f64,
    /// λ at the start; it grows while a correlation with the simulator's skills is above `correlation`.
    pub lambda: f64,
    /// Largest normalised correlation between a new skill and one of the simulator's.
    pub correlation: f64,
    /// Weight of an iteration's flights in the next iteration.
    pub memory: f64,
    /// Ridges of the least squares to choose from, relative to the features' mean square.
    pub ridges: Vec<f64>,
    /// Samples of the bootstrap over pieces of flights; a step is chosen by their mean.
    pub bootstrap: usize,
    /// Largest change of a gain's logarithm ([`TrustRegion::step`]).
    pub step: f32,
    /// The same for the attitude and rate loops ([`TrustRegion::fast_step`]).
    pub fast_step: f32,
    /// τ_π, the penalty on KL(π‖π_present) of a flight, in units of its reward.
    pub tau: f64,
    /// Penalty on the squared change of the gains' logarithms.
    #[serde(alias = "still")]
    pub l2_penalty: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: Model::default(),
            discovery: true,
            units: Discovery::default().units,
            search_steps: Search::default().steps,
            hidden: 128,
            features: 260,
            batch: 512,
            updates: 60,
            rate: 1e-3,
            smoothing: 1.0,
            lambda: 0.01,
            correlation: 0.05,
            memory: 0.9,
            ridges: vec![1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1],
            bootstrap: 8,
            step: 0.3,
            fast_step: 0.05,
            tau: 0.1,
            l2_penalty: 20.0,
        }
    }
}

impl Config {
    /// The default settings with changes, each written `key=value`.
    pub fn with(changes: &[String]) -> anyhow::Result<Self> {
        let table = toml::Table::try_from(Self::default())?;
        // `still` is the name that `l2_penalty` had in older loops.
        let changes: Vec<String> = changes
            .iter()
            .map(|c| {
                c.strip_prefix("still=").map_or_else(|| c.clone(), |value| format!("l2_penalty={value}"))
            })
            .collect();
        let config: Self = changed(table, &changes)?.try_into()?;
        anyhow::ensure!(config.updates > 0 && config.batch > 0, "`updates` and `batch` must be at least 1");
        anyhow::ensure!(
            config.hidden > 0 && config.features > 0,
            "`hidden` and `features` must be at least 1"
        );
        anyhow::ensure!(config.units <= MAX_UNITS, "`units` may be at most {MAX_UNITS}");
        anyhow::ensure!(!config.ridges.is_empty(), "`ridges` must not be empty");
        anyhow::ensure!((0.0..=1.0).contains(&config.memory), "`memory` must lie in [0, 1]");
        for (name, step) in [("step", config.step), ("fast_step", config.fast_step)] {
            anyhow::ensure!(step > 0.0 && step <= 1.0, "`{name}` must lie in (0, 1]");
        }
        anyhow::ensure!(
            config.tau >= 0.0 && config.l2_penalty >= 0.0,
            "`tau` and `l2_penalty` must not be negative"
        );
        Ok(config)
    }

    /// How gains are searched in the corrected simulator.
    pub(super) fn search(&self) -> Search {
        Search { steps: self.search_steps, ..Search::default() }
    }

    /// How skills for what the simulator lacks are learned.
    pub(super) fn discovery(&self) -> Discovery {
        Discovery { units: self.units, ..Discovery::default() }
    }

    pub fn trust_region(&self, scale: f32) -> TrustRegion {
        match self.model {
            Model::Skills => TrustRegion { step: self.step, fast_step: self.fast_step, scale },
            // Whole flights show what fast loops do, and need no small steps.
            Model::Simulator => TrustRegion { step: 1.5, fast_step: 1.0, scale },
        }
    }
}
