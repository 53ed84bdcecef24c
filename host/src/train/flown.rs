//! The last stage of a training: gains that fly.
//!
//! Episodes of training have no estimator, no filters and no delays. Gains that are best there may be worse than the
//! built-in ones on a drone. So the trained gains go on from here by whole flights of the native drone, from take-off to
//! touchdown, in random worlds: half of them gaps as the paper's, half drones as measured ones differ.

use anyhow::Result;
use serde::Serialize;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_learn::cma::gains_of;
use steady_learn::search::{Path, Problem, SearchWorld, Settings};
use steady_sim::{Task, World};

/// Seed of the first random world: beyond those of the safety check and of every evaluation.
const FIRST_WORLD: u64 = 1 << 33;
/// Worlds that are drawn at most.
const DRAWN: u64 = 1 << 8;
/// The task that asks for speed.
const TASK: Task = Task::FigureEight;

/// What the last stage brought.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Flown {
    /// Mean reward of a flight with the built-in gains, with those of the rounds, and with the ones handed out.
    pub(crate) nominal: f64,
    pub(crate) rounds: f64,
    pub(crate) found: f64,
    /// How many of the flights failed with each.
    pub(crate) failed: [usize; 3],
    /// Flights of each that these are from.
    pub(crate) flights: usize,
}

/// Searches from the better of trained and built-in gains; the best of all three is handed out.
pub(crate) fn improve(trained: &GainTable, worlds: usize, steps: usize, seed: u64) -> Result<(Gains, Flown)> {
    let path = Path::Task(TASK.into());
    let nominal = GainTable { gains: Gains::nominal(), ..*trained };
    let first = FIRST_WORLD + (seed << 8);
    let mut drawn: Vec<SearchWorld> = Vec::new();
    for number in first..first + DRAWN {
        let world =
            if number.is_multiple_of(2) { World::sample(number) } else { World::sample_measured(number) };
        let one = [SearchWorld::new(number, &world, None)?];
        // Some are too weak for this task with any gains.
        let problem = Problem { worlds: &one, path: &path, present: &nominal };
        if problem.compare(&[nominal.gains], seed)[0].failed == 0 {
            drawn.extend(one);
        }
        if drawn.len() == worlds {
            break;
        }
    }
    let worlds = drawn;
    let problem = |present| Problem { worlds: &worlds, path: &path, present };
    let both = problem(&nominal).compare(&[nominal.gains, trained.gains], seed);
    let start = if both[1].is_better_than(&both[0]) { trained } else { &nominal };
    let settings = Settings { steps, ..Settings::default() };
    let found = gains_of(&problem(start).search(&[f64::INFINITY; GAIN_COUNT], &settings, seed).theta);
    // By flights that the search did not choose by.
    let judged = problem(&nominal).compare(&[nominal.gains, trained.gains, found], seed + 1);
    let best = (0..3).fold(0, |best, i| if judged[i].is_better_than(&judged[best]) { i } else { best });
    let flown = Flown {
        nominal: judged[0].reward,
        rounds: judged[1].reward,
        found: judged[2].reward,
        failed: [0, 1, 2].map(|i| judged[i].failed),
        flights: judged[0].flights,
    };
    Ok(([nominal.gains, trained.gains, found][best], flown))
}
