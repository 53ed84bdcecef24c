//! Whether what was learned ever makes a drone fly worse than before.

use serde::Serialize;
use steady_sim::Task;
use steady_sim::metrics::{Metric, REWARD, TRACKING_ERROR};

use super::results::{Group, Results, estimate};
use crate::closed_loop::{ControllerKind, Outcome};
use crate::stats::Estimate;

/// STEADY against the Simulator in one world and task, flight by flight with the same seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HarmCheck {
    pub(crate) world: String,
    pub(crate) task: Task,
    /// Tracking error with STEADY less that with the simulator's gains, m; below zero is better.
    pub(crate) tracking_error_m: Estimate,
    /// The same of the cumulative reward; above zero is better.
    pub(crate) cumulative_reward: Estimate,
    /// Flights that failed with STEADY and not with the simulator's gains.
    pub(crate) new_failures: usize,
    /// Flights that failed with the simulator's gains and not with STEADY.
    pub(crate) saved: usize,
    /// Worse beyond its interval, or with new failures.
    pub(crate) harmed: bool,
}

/// All worlds and tasks in which both flew.
pub(crate) fn compare(results: &Results) -> Vec<HarmCheck> {
    let steady =
        results.groups().filter(|g| g.controller == ControllerKind::Steady && g.variation.is_empty());
    steady.filter_map(|group| in_world(results, group)).collect()
}

fn in_world(results: &Results, group: Group) -> Option<HarmCheck> {
    let before = Group { controller: ControllerKind::Simulator, ..group };
    let pairs: Vec<_> = results
        .flights(group)
        .flat_map(|(seed, new)| {
            let old = results.flights(before).find(|(s, _)| *s == seed).map_or(&[][..], |(_, old)| old);
            new.iter().zip(old)
        })
        .collect();
    let difference = |metric: &Metric| {
        let value = |(new, old): &(&Outcome, &Outcome)| {
            Some((metric.get)(new.metrics.as_ref()?) - (metric.get)(old.metrics.as_ref()?))
        };
        estimate(&pairs.iter().filter_map(value).collect::<Vec<_>>())
    };
    let (error, reward) = (difference(&TRACKING_ERROR)?, difference(&REWARD)?);
    let new_failures = pairs.iter().filter(|(new, old)| !new.is_good() && old.is_good()).count();
    let saved = pairs.iter().filter(|(new, old)| new.is_good() && !old.is_good()).count();
    // A single flight has no interval: any difference counts.
    let half = |e: &Estimate| e.half_width.unwrap_or(0.0);
    let worse = error.mean - half(&error) > 0.0 || reward.mean + half(&reward) < 0.0;
    Some(HarmCheck {
        world: group.world.to_owned(),
        task: group.task,
        tracking_error_m: error,
        cumulative_reward: reward,
        new_failures,
        saved,
        harmed: worse || new_failures > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{cell, results};
    use super::*;

    fn compared(steady: f64, reward: f64, crash: bool) -> HarmCheck {
        let mut new = cell(Task::FigureEight, ControllerKind::Steady, 1, steady, reward);
        new.flights[1].trouble = crash.then(|| "it crashed".to_owned());
        let old = cell(Task::FigureEight, ControllerKind::Simulator, 1, 0.1, -1000.0);
        compare(&results(vec![new, old])).remove(0)
    }

    #[test]
    fn better_is_no_harm_and_worse_or_crashed_is() {
        let better = compared(0.05, -900.0, false);
        assert!(!better.harmed && better.tracking_error_m.mean < 0.0, "{better:?}");
        assert!(compared(0.15, -900.0, false).harmed);
        assert!(compared(0.05, -1100.0, false).harmed);
        let crashed = compared(0.05, -900.0, true);
        assert_eq!((crashed.harmed, crashed.new_failures, crashed.saved), (true, 1, 0));
        assert!(!compared(0.1, -1000.0, false).harmed, "the same is no harm");
    }
}
