//! Whether what was learned ever makes a drone fly worse than before.

use serde::Serialize;
use steady_sim::flight::Task;

use super::results::{Estimate, Group, Metric, Results};
use super::suite::Controller;

/// STEADY against the Simulator in one world and task, flight by flight with the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// World.
    pub world: String,
    /// Task.
    pub task: Task,
    /// Tracking error with STEADY less that with the simulator's gains, m; below zero is better.
    pub tracking_error_m: Estimate,
    /// The same of the cumulative reward; above zero is better.
    pub cumulative_reward: Estimate,
    /// Flights that crashed with STEADY and not with the simulator's gains.
    pub new_crashes: usize,
    /// Flights that crashed with the simulator's gains and not with STEADY.
    pub saved: usize,
    /// Worse beyond its interval, or crashed.
    pub harmed: bool,
}

/// All worlds and tasks in which both flew.
#[must_use]
pub fn compare(results: &Results) -> Vec<Comparison> {
    let steady = results.groups().filter(|g| g.controller == Controller::Steady && g.variation.is_empty());
    steady.filter_map(|group| in_world(results, group)).collect()
}

fn in_world(results: &Results, group: Group) -> Option<Comparison> {
    let before = Group { controller: Controller::Simulator, ..group };
    let pairs: Vec<_> = results
        .flights(group)
        .flat_map(|(seed, new)| {
            let old = results.flights(before).find(|(s, _)| *s == seed).map_or(&[][..], |(_, old)| old);
            new.iter().zip(old)
        })
        .collect();
    let difference = |metric: Metric| {
        let values: Vec<f64> = pairs.iter().map(|(new, old)| metric.of(new) - metric.of(old)).collect();
        Estimate::of(&values)
    };
    let (error, reward) = (difference(Metric::TrackingError)?, difference(Metric::Reward)?);
    let new_crashes = pairs.iter().filter(|(new, old)| new.crashed && !old.crashed).count();
    let saved = pairs.iter().filter(|(new, old)| !new.crashed && old.crashed).count();
    let worse =
        error.mean - error.half.unwrap_or(0.0) > 0.0 || reward.mean + reward.half.unwrap_or(0.0) < 0.0;
    Some(Comparison {
        world: group.world.to_owned(),
        task: group.task,
        tracking_error_m: error,
        cumulative_reward: reward,
        new_crashes,
        saved,
        harmed: worse || new_crashes > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{cell, results};
    use super::*;

    fn compared(steady: f32, reward: f32, crash: bool) -> Comparison {
        let mut new = cell(Task::FigureEight, Controller::Steady, 1, steady, reward);
        new.flights[1].crashed = crash;
        let old = cell(Task::FigureEight, Controller::Simulator, 1, 0.1, -1000.0);
        compare(&results(vec![new, old])).remove(0)
    }

    #[test]
    fn better_is_no_harm_and_worse_or_crashed_is() {
        let better = compared(0.05, -900.0, false);
        assert!(!better.harmed && better.tracking_error_m.mean < 0.0, "{better:?}");
        assert!(compared(0.15, -900.0, false).harmed);
        assert!(compared(0.05, -1100.0, false).harmed);
        let crashed = compared(0.05, -900.0, true);
        assert_eq!((crashed.harmed, crashed.new_crashes, crashed.saved), (true, 1, 0));
        assert!(!compared(0.1, -1000.0, false).harmed, "the same is no harm");
    }
}
