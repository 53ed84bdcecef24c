//! The last stage of a training: gains that fly.
//!
//! Episodes of training have no estimator, no filters and no delays. Gains that are best there may be worse than the
//! built-in ones on a drone. So the trained gains go on from here by whole flights of the native drone, from take-off to
//! touchdown, in random worlds: half of them gaps as the paper's, half drones as measured ones differ.

use anyhow::{Result, ensure};
use serde::Serialize;
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_learn::cma::{gains_of, theta_of};
use steady_learn::search::{Path, Problem, SearchWorld, Settings, Standing};
use steady_sim::{Task, World};

/// Seed of the first random world: beyond those of the safety check and of every evaluation.
const FIRST_WORLD: u64 = 1 << 33;
/// Worlds that are drawn at most.
const DRAWN: u64 = 1 << 8;
/// The task that asks for speed.
const TASK: Task = Task::FigureEight;

/// Flights that choose where the search begins, and those that choose what is handed out.
const CHOOSING: u64 = 16;
const JUDGING: u64 = 48;

/// What the last stage brought.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Flown {
    /// The built-in gains.
    pub(crate) nominal: Standing,
    /// Those that were best in episodes.
    pub(crate) trained: Standing,
    /// Those that are handed out.
    pub(crate) chosen: Standing,
}

/// Searches from the better of trained and built-in gains, and hands out the best of all: by flights that neither search
/// nor start was chosen by.
pub(crate) fn improve(trained: &GainTable, worlds: usize, steps: usize, seed: u64) -> Result<(Gains, Flown)> {
    let path = Path::Task(TASK.into());
    let nominal = GainTable { gains: Gains::nominal(), ..*trained };
    let worlds = flyable(worlds, seed, &path, &nominal)?;
    let problem = |present| Problem { worlds: &worlds, path: &path, present };
    let both = problem(&nominal).compare(&[nominal.gains, trained.gains], CHOOSING, seed);
    let start = if both[1].is_better_than(&both[0]) { trained } else { &nominal };
    let settings = Settings { steps, ..Settings::default() };
    let found = problem(start).search(&[f64::INFINITY; GAIN_COUNT], &settings, seed).theta;
    // Half of the way has more margin.
    let from = theta_of(&start.gains);
    let half = std::array::from_fn(|i| 0.5 * (from[i] + found[i]));
    let gains = [nominal.gains, trained.gains, gains_of(&half), gains_of(&found)];
    let judged = problem(&nominal).compare(&gains, JUDGING, seed.wrapping_add(1));
    let best =
        (1..gains.len()).fold(0, |best, i| if judged[i].is_better_than(&judged[best]) { i } else { best });
    Ok((gains[best], Flown { nominal: judged[0], trained: judged[1], chosen: judged[best] }))
}

/// Random worlds in which the drone can do the task: some are too weak for it with any gains.
fn flyable(count: usize, seed: u64, path: &Path, nominal: &GainTable) -> Result<Vec<SearchWorld>> {
    let first = FIRST_WORLD.wrapping_add(seed << 8);
    let mut worlds = Vec::new();
    for number in (0..DRAWN).map(|i| first.wrapping_add(i)) {
        if worlds.len() == count {
            break;
        }
        let world =
            if number.is_multiple_of(2) { World::sample(number) } else { World::sample_measured(number) };
        let one = [SearchWorld::new(number, &world, None)?];
        let problem = Problem { worlds: &one, path, present: nominal };
        if problem.compare(&[nominal.gains], CHOOSING, seed)[0].failed == 0 {
            worlds.extend(one);
        }
    }
    ensure!(!worlds.is_empty(), "the built-in gains fly in none of {DRAWN} random worlds");
    Ok(worlds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_that_fall_out_of_the_air_are_not_handed_out_and_what_is_flies_no_worse_than_the_built_in_ones() {
        let trained = GainTable { gains: gains_of(&[2.0; GAIN_COUNT]), ..GainTable::built_in() };
        let (gains, flown) = improve(&trained, 1, 1, 1).unwrap();
        assert!(flown.trained.failed > 0, "{flown:?}");
        assert!(gains != trained.gains && !flown.nominal.is_better_than(&flown.chosen), "{flown:?}");
        assert_eq!((flown.chosen.failed, flown.chosen.flights), (0, JUDGING as usize), "{flown:?}");
    }
}
