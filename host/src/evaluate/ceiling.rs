//! The oracle: gains searched in the very world and task that they are judged in.

use anyhow::Result;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_learn::cma::gains_of;
use steady_learn::search::{Path, Problem, SearchWorld, Settings};
use steady_sim::{Task, World};

/// Seeds of the search's flights: beyond every loop's.
const FIRST_SEED: u64 = 1 << 20;
/// Worlds of different numbers have different flights.
const WORLDS: u64 = 3;

/// Searches gains for the highest mean cumulative reward of native flights: the best of searches from several tables.
pub(crate) fn search(world: &World, task: Task, starts: &[GainTable], steps: usize) -> Result<Gains> {
    let worlds: Vec<SearchWorld> =
        (0..WORLDS).map(|i| SearchWorld::new(FIRST_SEED + i, world, None)).collect::<Result<_, _>>()?;
    let settings = Settings { steps, l2_penalty: 0.0 };
    let path = Path::Task(task.into());
    let found = (1..).zip(starts).map(|(seed, present)| {
        let bounds = [f64::INFINITY; GAIN_COUNT];
        let found = Problem { worlds: &worlds, path: &path, present }.search(&bounds, &settings, seed);
        (found.failed, -(found.present + found.change), gains_of(&found.theta))
    });
    let best = found.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    Ok(best.map_or_else(Gains::nominal, |(_, _, gains)| gains))
}
