//! Flights for the record, and which random numbers are used for what.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use steady_sim::flight;
use steady_sim::pilot::Pilot;
use steady_sim::{FlightMetrics, Params, Task};

/// What a flight is flown for. No two uses share a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Learning.
    Learning = 1,
    /// The learning curve.
    Probe = 2,
    /// The oracle's search.
    Search = 3,
    /// The final judgement.
    Judgement = 4,
}

impl Use {
    /// Seed of flight number `index` of the evaluation's seed `seed`.
    #[must_use]
    pub fn seed(self, seed: u64, index: usize) -> u64 {
        ((self as u64) << 48) | ((seed & 0xffff) << 32) | (index as u64 & 0xffff_ffff)
    }
}

/// What came of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flown {
    /// Mean distance from the reference, m.
    pub tracking_error_m: f32,
    /// Sum of the rewards without their constant.
    pub cumulative_reward: f32,
    /// Mean height error while the reference stands still in the air, m.
    pub hover_height_error_m: f32,
    /// Root mean square of (roll, pitch), rad.
    pub tilt_rms_rad: f32,
    /// True when it crashed.
    pub crashed: bool,
}

impl Flown {
    fn new(summary: &FlightMetrics) -> Result<Self> {
        let flown = Self {
            tracking_error_m: summary.tracking_error_m as f32,
            cumulative_reward: summary.cumulative_reward as f32,
            hover_height_error_m: summary.hover_height_error_m as f32,
            tilt_rms_rad: summary.tilt_rms_rad as f32,
            crashed: summary.crash.is_some(),
        };
        let values =
            [flown.tracking_error_m, flown.cumulative_reward, flown.hover_height_error_m, flown.tilt_rms_rad];
        ensure!(values.iter().all(|v| v.is_finite()), "a flight came to no number: {summary:?}");
        Ok(flown)
    }
}

/// Flies a task without noise, once for each seed.
///
/// # Errors
/// If a flight comes to something that is no number.
pub fn fly(world: &Params, pilot: Pilot, task: Task, seeds: impl Iterator<Item = u64>) -> Result<Vec<Flown>> {
    seeds.map(|seed| Flown::new(&flight::fly(world, pilot, task, seed, |_| {}))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_uses_share_a_seed() {
        let mut all = std::collections::BTreeSet::new();
        for what in [Use::Learning, Use::Probe, Use::Search, Use::Judgement] {
            for seed in 0..4 {
                for index in 0..25 {
                    assert!(all.insert(what.seed(seed, index)));
                }
            }
        }
    }
}
