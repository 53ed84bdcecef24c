//! The numbers of a comparison, put together over flights and seeds.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use steady_sim::flight::Task;

use crate::stats::mean_95;

use super::bench::{Bench, Cell, Key};
use super::campaign::Campaign;
use super::judge::Flown;
use super::suite::{Controller, Settings, learned_on};

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half-width of the interval; nothing for a single value.
    pub half: Option<f64>,
    /// Values.
    pub n: usize,
}

impl Estimate {
    /// Of values, if there are any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, half) = mean_95(values);
        let n = values.len();
        (n > 0).then_some(Self { mean, half: (n > 1).then_some(half), n })
    }

    /// In another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, half: self.half.map(|h| h * factor.abs()), ..self }
    }

    /// With so many digits after the point.
    #[must_use]
    pub fn text(&self, digits: usize) -> String {
        match self.half {
            Some(half) => format!("{:.digits$} ± {half:.digits$}", self.mean),
            None => format!("{:.digits$}", self.mean),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Mean distance from the reference, m.
    TrackingError,
    /// Cumulative reward.
    Reward,
    /// Mean height error in hover, m.
    HeightError,
    /// Root mean square of roll and pitch, rad.
    Tilt,
    /// Part of the flights that crashed.
    Crashes,
}

impl Metric {
    /// Of a flight.
    #[must_use]
    pub fn of(self, flown: &Flown) -> f64 {
        match self {
            Self::TrackingError => flown.tracking_error_m.into(),
            Self::Reward => flown.cumulative_reward.into(),
            Self::HeightError => flown.hover_height_error_m.into(),
            Self::Tilt => flown.tilt_rms_rad.into(),
            Self::Crashes => f64::from(u8::from(flown.crashed)),
        }
    }
}

/// All seeds of a controller in a task and world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// World.
    pub world: &'a str,
    /// Task.
    pub task: Task,
    /// Controller.
    pub controller: Controller,
    /// Variation of how it learned.
    pub variation: &'a str,
}

impl Group<'_> {
    fn has(&self, key: &Key) -> bool {
        (key.world.as_str(), key.task, key.controller, key.variation.as_str())
            == (self.world, self.task, self.controller, self.variation)
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// World.
    pub world: String,
    /// Task.
    pub task: Task,
    /// Controller.
    pub controller: Controller,
    /// Variation of how it learned.
    pub variation: String,
    /// The task it learned on, if it learned from flights.
    pub learned_on: Option<Task>,
    /// Mean distance from the reference, m.
    pub tracking_error_m: Option<Estimate>,
    /// Cumulative reward.
    pub cumulative_reward: Option<Estimate>,
    /// Mean height error in hover, m; nothing where nothing hovers.
    pub hover_height_error_m: Option<Estimate>,
    /// Root mean square of roll and pitch, rad.
    pub tilt_rms_rad: Option<Estimate>,
    /// Flights.
    pub flights: usize,
    /// Those that crashed.
    pub crashes: usize,
}

/// Everything that was flown.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was compared.
    pub settings: Settings,
    /// Flights for the record.
    pub cells: Vec<Cell>,
    /// How it was learned, by the keys that were learned.
    pub campaigns: Vec<(Key, Campaign)>,
}

impl Results {
    /// Reads what a finished comparison left.
    ///
    /// # Errors
    /// If something is missing or cannot be read.
    pub fn load(bench: &Bench) -> Result<Self> {
        let keys = bench.keys();
        let cells = keys.iter().map(|key| bench.cell(key)).collect::<Result<_>>()?;
        let learned: Vec<&Key> = keys
            .iter()
            .filter(|key| key.controller.learns_from_flights() && learned_on(key.task) == key.task)
            .collect();
        let campaigns =
            learned.into_iter().map(|key| Ok((key.clone(), bench.campaign(key)?))).collect::<Result<_>>()?;
        Ok(Self { settings: bench.settings.clone(), cells, campaigns })
    }

    /// Flights of a group, seed by seed.
    pub fn flights<'a>(&'a self, group: Group<'a>) -> impl Iterator<Item = (u64, &'a [Flown])> {
        let cells = self.cells.iter().filter(move |cell| group.has(&cell.key));
        cells.map(|cell| (cell.key.seed, &cell.flights[..]))
    }

    /// Means over the flights of each seed.
    #[must_use]
    pub fn per_seed(&self, group: Group, metric: Metric) -> BTreeMap<u64, f64> {
        self.flights(group)
            .filter(|(_, flights)| !flights.is_empty())
            .map(|(seed, flights)| {
                (seed, flights.iter().map(|f| metric.of(f)).sum::<f64>() / flights.len() as f64)
            })
            .collect()
    }

    /// Mean and interval over seeds.
    #[must_use]
    pub fn estimate(&self, group: Group, metric: Metric) -> Option<Estimate> {
        Estimate::of(&self.per_seed(group, metric).into_values().collect::<Vec<_>>())
    }

    /// Every group that was flown.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
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

    /// The table.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let hovers = |task: Task| matches!(task, Task::Hover | Task::TakeoffLand);
        self.groups()
            .map(|group| {
                let all = || self.flights(group).flat_map(|(_, flights)| flights);
                Row {
                    world: group.world.to_owned(),
                    task: group.task,
                    controller: group.controller,
                    variation: group.variation.to_owned(),
                    learned_on: group.controller.learns_from_flights().then(|| learned_on(group.task)),
                    tracking_error_m: self.estimate(group, Metric::TrackingError),
                    cumulative_reward: self.estimate(group, Metric::Reward),
                    hover_height_error_m: self
                        .estimate(group, Metric::HeightError)
                        .filter(|_| hovers(group.task)),
                    tilt_rms_rad: self.estimate(group, Metric::Tilt),
                    flights: all().count(),
                    crashes: all().filter(|f| f.crashed).count(),
                }
            })
            .collect()
    }

    /// Campaigns of a controller on a task in a world, in a variation.
    pub fn campaigns_of<'a>(&'a self, group: Group<'a>) -> impl Iterator<Item = &'a Campaign> {
        self.campaigns.iter().filter(move |(key, _)| group.has(key)).map(|(_, campaign)| campaign)
    }
}

/// Values of pairs with the same seed.
pub fn paired(a: &BTreeMap<u64, f64>, b: &BTreeMap<u64, f64>, value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().filter_map(|(seed, a)| Some(value(*a, *b.get(seed)?))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::suite::Suite;
    use super::*;

    /// Flights of one controller and seed, two of them, `spread` about the given tracking error and reward.
    pub(crate) fn cell(task: Task, controller: Controller, seed: u64, error_m: f32, reward: f32) -> Cell {
        let flown = |sign: f32| Flown {
            tracking_error_m: error_m * (1.0 + 0.01 * sign),
            cumulative_reward: reward,
            hover_height_error_m: 0.5 * error_m,
            tilt_rms_rad: 0.1 * error_m,
            crashed: false,
        };
        let key = Key { world: "paper".to_owned(), task, controller, variation: String::new(), seed };
        Cell { key, flights: vec![flown(-1.0), flown(1.0)] }
    }

    pub(crate) fn results(cells: Vec<Cell>) -> Results {
        let settings = Settings { seeds: vec![1, 2, 3], ..Settings::of(Suite::Paper) };
        Results { settings, cells, campaigns: Vec::new() }
    }

    #[test]
    fn means_are_over_seeds_of_means_over_flights() {
        let cells = (1..=3)
            .map(|seed| cell(Task::FigureEight, Controller::Steady, seed, 0.01 * seed as f32, -1000.0))
            .collect();
        let results = results(cells);
        let group =
            Group { world: "paper", task: Task::FigureEight, controller: Controller::Steady, variation: "" };
        let found = results.estimate(group, Metric::TrackingError).unwrap();
        assert_eq!(found.n, 3);
        assert!((found.mean - 0.02).abs() < 1e-6, "{found:?}");
        // t(2) × 0.01 / √3.
        assert!((found.half.unwrap() - 4.303 * 0.01 / 3.0_f64.sqrt()).abs() < 1e-5, "{found:?}");
        assert_eq!(results.estimate(Group { world: "nominal", ..group }, Metric::Reward), None);
        let row = results.rows().into_iter().find(|r| r.flights > 0).unwrap();
        assert_eq!((row.flights, row.crashes, row.hover_height_error_m), (6, 0, None));
        assert_eq!(row.learned_on, Some(Task::FigureEight));
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(Estimate::of(&[3.0]).unwrap().half, None);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, 3.0]).unwrap().times(-100.0).text(0), "-200 ± 1271");
    }
}
