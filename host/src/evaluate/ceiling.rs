//! The oracle: gains searched in the very world and task that they are judged in.

use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_learn::cma::gains_of;
use steady_learn::search::{Path, Problem, Settings};
use steady_sim::Task;
use steady_sim::plant::PlantParams;

use super::suite::Protocol;

/// Seeds of the search's flights: beyond every loop's.
const FIRST_SEED: u64 = 1 << 48;

/// Searches gains for the highest mean cumulative reward of native flights: the best of searches from several tables.
pub(crate) fn search(world: &PlantParams, task: Task, starts: &[GainTable], protocol: &Protocol) -> Gains {
    let worlds: Vec<(u64, PlantParams)> =
        (0..protocol.oracle_flights.max(1) as u64).map(|i| (FIRST_SEED + i, world.clone())).collect();
    let settings = Settings {
        population: protocol.oracle_population,
        generations: protocol.oracle_generations,
        l2_penalty: 0.0,
        ..Settings::default()
    };
    let path = Path::Task(task.into());
    let found = (1..).zip(starts).map(|(seed, present)| {
        let found = Problem { worlds: &worlds, path: &path, present }.search(
            &[f64::INFINITY; GAIN_COUNT],
            &settings,
            seed,
        );
        (found.failed, -(found.present + found.change), gains_of(&found.theta))
    });
    let best = found.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    best.map_or_else(Gains::nominal, |(_, _, gains)| gains)
}
