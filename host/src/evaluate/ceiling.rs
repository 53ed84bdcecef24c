//! The oracle: gains searched in the very world and task that they are judged in.

use steady_common::{GainTable, Gains};
use steady_native::{Plan, Until};
use steady_sim::Task;
use steady_sim::plant::PlantParams;

use crate::train::oracle::{Search, climb, gains_of, theta_of};

use super::suite::Protocol;

/// Seeds of the search's flights: beyond every loop's.
const FIRST_SEED: u64 = 1 << 48;

/// Searches gains for the highest mean cumulative reward of native flights, from `start` on.
pub(crate) fn search(world: &PlantParams, task: Task, start: &GainTable, protocol: &Protocol) -> Gains {
    let settings = Search {
        population: protocol.oracle_population,
        generations: protocol.oracle_generations,
        sigma: 0.2,
        ..Search::default()
    };
    let judge = |theta: &[f32; 24]| {
        let table = GainTable { gains: gains_of(theta), ..*start };
        let reward = |i| {
            let plan = Plan { table, seed: FIRST_SEED + i, until: Until::TaskEnd, ..Plan::new(task) };
            let flown = steady_native::fly(world, &plan, |_| {});
            flown.metrics.map_or(f64::NEG_INFINITY, |m| m.cumulative_reward)
        };
        let flights = protocol.oracle_flights.max(1) as u64;
        let mean = (0..flights).map(reward).sum::<f64>() / flights as f64;
        if mean.is_finite() { mean } else { f64::NEG_INFINITY }
    };
    let (theta, _) = climb(theta_of(&start.gains), &settings, judge, |_, _| {});
    gains_of(&theta)
}
