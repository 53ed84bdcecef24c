//! The numbers of an evaluation, put together over flights and seeds.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use steady_sim::Task;
use steady_sim::metrics::Metric;

use crate::adapt::report::NAME as ADAPT_REPORT;
use crate::closed_loop::journal::Made;
use crate::closed_loop::outcome::mean;
use crate::closed_loop::{ClosedLoop, ControllerKind, Journal, MetricSummary, Outcome};
use crate::stats::Estimate;

use super::bench::{Bench, Cell, Key};
use super::suite::{SuiteSettings, learned_on};

/// The world's name in rows over all of them.
pub(crate) const ALL_WORLDS: &str = "all";

/// All seeds of a controller in a task and world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    pub(crate) world: &'a str,
    pub(crate) task: Task,
    pub(crate) controller: ControllerKind,
    pub(crate) variation: &'a str,
}

impl Group<'_> {
    fn has(&self, key: &Key) -> bool {
        (key.world.as_str(), key.task, key.controller, key.variation.as_str())
            == (self.world, self.task, self.controller, self.variation)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TableRow {
    pub(crate) world: String,
    pub(crate) task: Task,
    pub(crate) controller: ControllerKind,
    pub(crate) variation: String,
    /// The task it learned on, if it learned from flights.
    pub(crate) learned_on: Option<Task>,
    /// Its metrics over seeds.
    #[serde(flatten)]
    pub(crate) summary: MetricSummary,
}

/// A closed loop by which a controller learned.
#[derive(Clone, Debug)]
pub(crate) struct LearnedLoop {
    pub(crate) journal: Journal,
    /// What discovery brought to the last adaptation, where there was discovery.
    pub(crate) discovery: Option<Discovered>,
}

/// From `adapt.json`: held-out errors of the next state with the new skills and without them (relative to what the
/// corrected simulator leaves, or to how far the state moves where there is none), and where skills stand beside φ°, the
/// largest correlation of a new one with one of those, after the projection and by the penalty λ alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discovered {
    pub(crate) error_with: f64,
    pub(crate) error_without: f64,
    pub(crate) correlation: Option<f64>,
    pub(crate) correlation_by_penalty: Option<f64>,
}

/// Everything that was flown.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) settings: SuiteSettings,
    pub(crate) cells: Vec<Cell>,
    pub(crate) loops: Vec<(Key, LearnedLoop)>,
}

impl LearnedLoop {
    /// Reads what a loop left.
    fn load(folder: &std::path::Path) -> Result<Self> {
        let journal = Journal::load(folder)?;
        let adapted = journal.iterations.iter().rev().find(|i| i.made != Some(Made::Simulator));
        let Some(last) = adapted else { return Ok(Self { journal, discovery: None }) };
        let path = ClosedLoop::adapt_folder(folder, last.number).join(ADAPT_REPORT);
        // Direct search and the simulator's gradient have none.
        if !path.exists() {
            return Ok(Self { journal, discovery: None });
        }
        let text = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let report: Value = serde_json::from_slice(&text)
            .with_context(|| format!("{}: not a report of `steady adapt`", path.display()))?;
        let left = report["lacking"]["left"].as_array();
        let left: Vec<f64> = left.into_iter().flatten().filter_map(Value::as_f64).collect();
        let errors = || match left.is_empty() {
            true => {
                let prediction = &report["prediction"];
                Some((prediction["discovery"].as_f64()?, prediction["transfer"].as_f64()?))
            }
            false => Some((left.iter().sum::<f64>() / left.len() as f64, 1.0)),
        };
        let discovered = || {
            let (error_with, error_without) = errors()?;
            Some(Discovered {
                error_with,
                error_without,
                correlation: report["discovery"]["correlation"].as_f64(),
                correlation_by_penalty: report["discovery"]["correlation_by_penalty"].as_f64(),
            })
        };
        Ok(Self { discovery: discovered(), journal })
    }
}

impl Results {
    /// Reads everything that an evaluation left.
    pub(crate) fn load(bench: &Bench) -> Result<Self> {
        let keys = bench.keys();
        let cells = keys.iter().map(|key| bench.cell(key)).collect::<Result<_>>()?;
        let loops = keys
            .into_iter()
            .filter(|key| key.controller.learns_from_flights() && learned_on(key.task) == key.task)
            .map(|key| {
                let learned = LearnedLoop::load(&bench.loop_folder(&key))?;
                Ok((key, learned))
            })
            .collect::<Result<_>>()?;
        Ok(Self { settings: bench.settings.clone(), cells, loops })
    }

    /// Flights of a group, seed by seed.
    pub(crate) fn flights<'a>(&'a self, group: Group<'a>) -> impl Iterator<Item = (u64, &'a [Outcome])> {
        let cells = self.cells.iter().filter(move |cell| group.has(&cell.key));
        cells.map(|cell| (cell.key.seed, &cell.flights[..]))
    }

    /// Means over the flights of each seed.
    pub(crate) fn per_seed(&self, group: Group<'_>, metric: &Metric) -> BTreeMap<u64, f64> {
        self.flights(group).filter_map(|(seed, flights)| Some((seed, mean(flights, metric)?))).collect()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let s = &self.settings;
        s.worlds.iter().flat_map(move |world| {
            s.tasks.iter().flat_map(move |task| {
                s.controllers.iter().flat_map(move |controller| {
                    s.variations_of(*controller).map(move |variation| Group {
                        world,
                        task: *task,
                        controller: *controller,
                        variation,
                    })
                })
            })
        })
    }

    pub(crate) fn rows(&self) -> Vec<TableRow> {
        let row = |group: Group<'_>| {
            let seeds: Vec<&[Outcome]> = self.flights(group).map(|(_, flights)| flights).collect();
            TableRow {
                world: group.world.to_owned(),
                task: group.task,
                controller: group.controller,
                variation: group.variation.to_owned(),
                learned_on: group.controller.learns_from_flights().then(|| learned_on(group.task)),
                summary: MetricSummary::over_seeds(&seeds),
            }
        };
        let each = self.groups().map(row);
        if self.settings.paired {
            self.pooled_rows().into_iter().chain(each).collect()
        } else {
            each.collect()
        }
    }

    /// Means over worlds, each with its seed.
    fn pooled_rows(&self) -> Vec<TableRow> {
        let s = &self.settings;
        let row = |task: Task, controller: ControllerKind| {
            let in_each = |cell: &&Cell| cell.key.task == task && cell.key.controller == controller;
            let samples: Vec<&[Outcome]> =
                self.cells.iter().filter(in_each).map(|cell| &cell.flights[..]).collect();
            TableRow {
                world: ALL_WORLDS.to_owned(),
                task,
                controller,
                variation: String::new(),
                learned_on: controller.learns_from_flights().then(|| learned_on(task)),
                summary: MetricSummary::over_seeds(&samples),
            }
        };
        s.tasks.iter().flat_map(|task| s.controllers.iter().map(|c| row(*task, *c))).collect()
    }

    /// Loops of a controller on a task in a world, in a variation.
    pub(crate) fn loops_of<'a>(&'a self, group: Group<'a>) -> impl Iterator<Item = &'a LearnedLoop> {
        self.loops.iter().filter(move |(key, _)| group.has(key)).map(|(_, learned)| learned)
    }
}

/// Values of pairs with the same seed.
pub(crate) fn paired(
    a: &BTreeMap<u64, f64>,
    b: &BTreeMap<u64, f64>,
    value: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    a.iter().filter_map(|(seed, a)| Some(value(*a, *b.get(seed)?))).collect()
}

pub(crate) fn estimate(samples: &[f64]) -> Option<Estimate> {
    (!samples.is_empty()).then(|| Estimate::of(samples))
}

#[cfg(test)]
pub(crate) mod tests {
    use steady_sim::metrics::{REWARD, TRACKING_ERROR};

    use super::super::suite::Suite;
    use super::*;
    use crate::closed_loop::outcome::tests::outcome;

    /// Two flights of one controller and seed, 1 % about the given tracking error.
    pub(crate) fn cell(task: Task, controller: ControllerKind, seed: u64, error_m: f64, reward: f64) -> Cell {
        let flown = |flight: u32, sign: f64| {
            let mut flown = outcome(flight, error_m * (1.0 + 0.01 * sign), reward);
            if let (Some(metrics), Task::TakeoffLand) = (&mut flown.metrics, task) {
                metrics.hover_height_error_m = 0.5 * error_m;
            }
            flown
        };
        let key = Key { world: "paper".to_owned(), task, controller, variation: String::new(), seed };
        Cell { key, flights: vec![flown(1, -1.0), flown(2, 1.0)] }
    }

    pub(crate) fn results(cells: Vec<Cell>) -> Results {
        let settings = SuiteSettings { seeds: vec![1, 2, 3], ..SuiteSettings::of(Suite::Paper) };
        Results { settings, cells, loops: Vec::new() }
    }

    #[test]
    fn means_are_over_seeds_of_means_over_flights() {
        let eight = Task::FigureEight;
        let cells = (1..=3)
            .map(|seed| cell(eight, ControllerKind::Steady, seed, 0.01 * seed as f64, -1000.0))
            .collect();
        let results = results(cells);
        let group = Group { world: "paper", task: eight, controller: ControllerKind::Steady, variation: "" };
        let row = results.rows().into_iter().find(|r| r.summary.flights > 0).unwrap();
        let found = row.summary.get(&TRACKING_ERROR).unwrap();
        assert!((found.mean - 0.02).abs() < 1e-6, "{found:?}");
        // t(2) × 0.01 / √3.
        assert!((found.half_width.unwrap() - 4.3027 * 0.01 / 3.0_f64.sqrt()).abs() < 1e-5, "{found:?}");
        assert!(results.per_seed(Group { world: "nominal", ..group }, &REWARD).is_empty());
        assert_eq!((row.summary.flights, row.summary.failed), (6, 0));
        assert_eq!(row.learned_on, Some(eight));
    }
}
