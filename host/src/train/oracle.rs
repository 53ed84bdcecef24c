//! Gains searched directly in a world, without a model or a value function: the ceiling for learning.
//!
//! The objective is the mean return over a fixed set of initial states, so that it is a deterministic function.

use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_learn::cma;
pub use steady_learn::cma::{Theta, clamp, gains_of, theta_of};

use super::env::TrainingTask;

#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub cma: cma::Search,
    /// Episodes each candidate is scored by.
    pub episodes: usize,
    pub threads: usize,
}

impl Default for Search {
    fn default() -> Self {
        let cma = cma::Search { population: 24, generations: 120, sigma: 0.3, seed: 1 };
        Self { cma, episodes: 128, threads: 2 }
    }
}

/// Searches gains in the task's world; `progress` is called with every generation's number and best value. The random
/// seed is also that of the initial states.
pub fn search(task: &TrainingTask, search: &Search, progress: impl FnMut(usize, f64)) -> Gains {
    let evaluate = |thetas: &[Theta]| {
        let value = |theta| {
            task.evaluate(&gains_of(theta), search.episodes, search.cma.seed, search.threads).mean_return
        };
        thetas.iter().map(value).collect()
    };
    gains_of(&cma::climb([0.0; GAIN_COUNT], &search.cma, evaluate, progress).0)
}
