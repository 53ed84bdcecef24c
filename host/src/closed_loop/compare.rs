//! Controllers side by side: closed loops from the same first table, with the simulator's skills alone and with
//! discovery, over several seeds, judged by the same flights.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use steady_sim::metrics::TRACKING_ERROR;

use super::controller::ControllerKind;
use super::drone::{Drone, FlightRequest};
use super::engine::{ClosedLoop, drone_state, flight_name, fly_all, lock, whole};
use super::journal::{Journal, Origin, read_checked};
use super::learner::Learner;
use super::outcome::{MetricSummary, Outcome, mean};
use super::settings::{MAX_FLIGHTS, Settings};
use crate::out::Table;
use crate::{files, jobs};

/// Name of the file with the results.
pub const NAME: &str = "compare.json";
const FORMAT: u32 = 2;
const MAX_SEEDS: u32 = 100;

/// The controllers of the table, in its order.
pub const CONTROLLERS: [ControllerKind; 4] =
    [ControllerKind::Pid, ControllerKind::Simulator, ControllerKind::Transfer, ControllerKind::Steady];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub format: u32,
    /// Settings of the loops; each has its own seed and method.
    pub settings: Settings,
    /// Seeds are 1 to this.
    pub seeds: u32,
    /// Flights that judge a controller for one seed.
    pub flights: u32,
    pub origin: Origin,
    pub results: Vec<Judged>,
}

/// A controller's flights for one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    pub seed: u64,
    pub controller: ControllerKind,
    pub flights: Vec<Outcome>,
    /// Exploring and judging flights that its gains took before; 0 for one that does not learn from flights.
    pub learning_flights: [usize; 2],
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub controller: ControllerKind,
    /// Its name for people.
    pub title: &'static str,
    /// Its metrics over seeds.
    #[serde(flatten)]
    pub summary: MetricSummary,
    /// Exploring and judging flights that its gains took, over all seeds.
    pub learning_flights: [usize; 2],
    /// Tracking error of every seed, m.
    pub seeds_m: Vec<f64>,
}

/// Makes a learner for a loop's settings.
pub type Learners<'a> = &'a (dyn Fn(&Settings) -> Box<dyn Learner> + Sync);

impl Comparison {
    pub fn new(settings: Settings, seeds: u32, flights: u32, origin: Origin) -> Self {
        Self { format: FORMAT, settings, seeds, flights, origin, results: Vec::new() }
    }

    /// Reads and checks the results in a folder.
    pub fn load(folder: &Path) -> Result<Self> {
        read_checked(folder, NAME, "comparison", Self::check)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.format == FORMAT, "its format is {}, not {FORMAT}", self.format);
        self.settings.check()?;
        ensure!((1..=MAX_SEEDS).contains(&self.seeds), "the seeds must be 1 to {MAX_SEEDS}");
        ensure!((1..=MAX_FLIGHTS).contains(&self.flights), "the flights must be 1 to {MAX_FLIGHTS}");
        for judged in &self.results {
            ensure!((1..=u64::from(self.seeds)).contains(&judged.seed), "there is no seed {}", judged.seed);
        }
        Ok(())
    }

    /// The loop's folder for a seed and a method.
    pub fn loop_folder(folder: &Path, seed: u64, controller: ControllerKind) -> PathBuf {
        let name = if controller == ControllerKind::Steady { "steady" } else { "transfer" };
        seed_folder(folder, seed).join(name)
    }

    /// The folder of a controller's judging flights for a seed.
    pub fn judged_folder(folder: &Path, seed: u64, controller: ControllerKind) -> PathBuf {
        seed_folder(folder, seed).join("judged").join(controller.name())
    }

    fn of(&self, seed: u64, controller: ControllerKind) -> Option<&Judged> {
        self.results.iter().find(|j| (j.seed, j.controller) == (seed, controller))
    }

    /// True when every flight is flown.
    pub fn is_complete(&self) -> bool {
        let seeds = 1..=u64::from(self.seeds);
        seeds.into_iter().all(|s| CONTROLLERS.iter().all(|c| self.of(s, *c).is_some()))
    }

    /// The table.
    pub fn rows(&self) -> Vec<Row> {
        CONTROLLERS.into_iter().filter_map(|c| self.row(c)).collect()
    }

    fn row(&self, controller: ControllerKind) -> Option<Row> {
        let seeds: Vec<&Judged> =
            (1..=u64::from(self.seeds)).filter_map(|seed| self.of(seed, controller)).collect();
        let flights: Vec<&[Outcome]> = seeds.iter().map(|j| &j.flights[..]).collect();
        let learning_flights = [0, 1].map(|i| seeds.iter().map(|j| j.learning_flights[i]).sum());
        (!flights.is_empty()).then(|| Row {
            controller,
            title: controller.title(),
            summary: MetricSummary::over_seeds(&flights),
            learning_flights,
            seeds_m: flights.iter().filter_map(|f| mean(f, &TRACKING_ERROR)).collect(),
        })
    }

    pub fn table(&self) -> String {
        let s = &self.settings;
        let intervals = if self.seeds > 1 { "; ± is a 95 % interval over seeds" } else { "" };
        let head = ["controller".to_owned()];
        let mut table = Table::new(
            head.into_iter().chain(MetricSummary::headings()).chain(["flights it took".to_owned()]),
        );
        for r in self.rows() {
            let [explored, judged] = r.learning_flights;
            let used = format!("{explored} exploring, {judged} judging");
            table.row([r.title.to_owned()].into_iter().chain(r.summary.cells()).chain([used]));
        }
        format!(
            "world {}, task {}, {} drone: {} seed{} of {} judged flights, {} iterations of {} flights{intervals}\n\n{table}",
            s.world,
            s.task,
            s.drone,
            self.seeds,
            if self.seeds == 1 { "" } else { "s" },
            self.flights,
            s.iterations,
            s.flights,
        )
    }
}

fn seed_folder(folder: &Path, seed: u64) -> PathBuf {
    folder.join(format!("seed-{seed}"))
}

/// Compares, or with `resume` continues the comparison in the folder.
pub fn compare(
    folder: &Path,
    wanted: Comparison,
    resume: bool,
    drone: &dyn Drone,
    learners: Learners<'_>,
    threads: usize,
) -> Result<Comparison> {
    wanted.check()?;
    let _lock = lock(folder)?;
    let mut comparison = wanted.clone();
    if folder.join(NAME).exists() {
        ensure!(
            resume,
            "{} already holds a comparison: continue it with --resume, or give another --out",
            folder.display()
        );
        comparison = Comparison::load(folder)?;
        let mut other = comparison.settings.differences(&wanted.settings);
        if (comparison.seeds, comparison.flights) != (wanted.seeds, wanted.flights) {
            other.push("number of seeds or judged flights".to_owned());
        }
        other.extend(comparison.origin.difference(&wanted.origin).map(str::to_owned));
        ensure!(
            other.is_empty(),
            "the comparison in {} was begun with another {}: give the same, or another --out",
            folder.display(),
            other.join(", ")
        );
    } else {
        save(folder, &comparison)?;
    }
    let origin = comparison.origin.clone();
    let seeds: Vec<u64> = (1..=u64::from(comparison.seeds)).collect();
    let settings = |seed: u64| Settings { seed, ..comparison.settings.clone() };
    // Both methods begin with the same flights of the simulator's table.
    jobs::map(threads, &seeds, |seed| {
        let learner = learners(&settings(*seed));
        let settings = Settings { iterations: 0, ..settings(*seed) };
        let place = seed_folder(folder, *seed).join("start");
        let start = ClosedLoop::open(&place, settings, origin.clone(), true, drone, &*learner)?;
        start.with(1, Some(&format!("seed {seed}: "))).begin()
    })?;
    let methods = [ControllerKind::Steady, ControllerKind::Transfer];
    let loops: Vec<(u64, ControllerKind)> = seeds.iter().flat_map(|s| methods.map(|m| (*s, m))).collect();
    jobs::map(threads, &loops, |(seed, method)| {
        let settings = Settings { transfer_only: *method == ControllerKind::Transfer, ..settings(*seed) };
        let learner = learners(&settings);
        let place = Comparison::loop_folder(folder, *seed, *method);
        let mut this = ClosedLoop::open(&place, settings, origin.clone(), true, drone, &*learner)?
            .with(1, Some(&format!("seed {seed}, {}: ", method.title())));
        this.take_over(&seed_folder(folder, *seed).join("start"))?;
        this.run().map(|_| ())
    })?;
    let kept = Mutex::new(comparison.clone());
    let judged: Vec<(u64, ControllerKind)> =
        seeds.iter().flat_map(|s| CONTROLLERS.map(|c| (*s, c))).collect();
    jobs::map(threads, &judged, |(seed, controller)| {
        if comparison.of(*seed, *controller).is_some() {
            return Ok(());
        }
        let judged = judge(folder, &settings(*seed), comparison.flights, *controller, drone)?;
        eprintln!("seed {seed}, {}: {} flights judged", controller.title(), judged.flights.len());
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.results.push(judged);
        kept.results.sort_by_key(|j| (j.seed, j.controller));
        save(folder, &kept)
    })?;
    Ok(kept.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The flights that judge a controller for one seed.
fn judge(
    folder: &Path,
    settings: &Settings,
    flights: u32,
    controller: ControllerKind,
    drone: &dyn Drone,
) -> Result<Judged> {
    let seed = settings.seed;
    let place = if controller.learns_from_flights() {
        Comparison::loop_folder(folder, seed, controller)
    } else {
        seed_folder(folder, seed).join("start")
    };
    let journal = Journal::load(&place)?;
    let state = drone_state(&place, &journal).context("no table was flashed")?;
    let place = Comparison::judged_folder(folder, seed, controller);
    let flights = judged_requests(controller, &state, settings.comparing_seeds(flights));
    if let Some(parent) = place.parent() {
        files::make_folder(parent)?;
    }
    let flights = whole(&place, |out| fly_all(drone, &flights, out, 1))?;
    let learning_flights = if controller.learns_from_flights() { journal.flight_counts() } else { [0; 2] };
    Ok(Judged { seed, controller, flights, learning_flights })
}

/// Flights that judge a controller: from power-on, without noise.
pub(crate) fn judged_requests(
    controller: ControllerKind,
    state: &Path,
    seeds: impl Iterator<Item = u64>,
) -> Vec<FlightRequest> {
    let request = |(number, seed)| FlightRequest {
        number,
        seed,
        controller: controller.on_drone(),
        ..FlightRequest::new(state.to_owned())
    };
    (1..).zip(seeds).map(request).collect()
}

/// A judged flight's folder.
pub fn judged_flight(folder: &Path, seed: u64, controller: ControllerKind, number: u32) -> PathBuf {
    Comparison::judged_folder(folder, seed, controller).join(flight_name(number))
}

fn save(folder: &Path, comparison: &Comparison) -> Result<()> {
    files::write_json(&folder.join(NAME), comparison)
}
