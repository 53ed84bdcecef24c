//! Controllers side by side: from the same simulator's table, with the simulator's skills alone and with
//! discovery, over several seeds, judged by the same flights.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::journal::{Journal, Origin};
use super::run::{Loop, drone, flight_name, fly_all, lock, whole};
use super::settings::Settings;
use super::stage::{Flight, Outcome, Stage, Teacher};
use crate::files;
use crate::fly::{Controller, Tracking};
use crate::stats::mean_95;

/// Name of the file with the results.
pub const NAME: &str = "compare.json";
const FORMAT: u32 = 1;
const MOST_BYTES: u64 = 64 << 20;
/// Flights that judge a controller for one seed, at most.
const MOST_FLIGHTS: u32 = 200;
const MOST_SEEDS: u32 = 100;

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// The official firmware's cascaded PID.
    Pid,
    /// The simulator's gains.
    Simulator,
    /// Gains adapted with the simulator's skills alone.
    Transfer,
    /// Gains adapted with discovered skills.
    Steady,
}

impl Contender {
    /// In the order of the table.
    pub const ALL: [Self; 4] = [Self::Pid, Self::Simulator, Self::Transfer, Self::Steady];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "Built-in PID",
            Self::Simulator => "Simulator",
            Self::Transfer => "Skill transfer",
            Self::Steady => "STEADY",
        }
    }

    /// Name of its folder.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Simulator => "simulator",
            Self::Transfer => "transfer",
            Self::Steady => "steady",
        }
    }
}

/// What is compared, and what came of it so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Version of the format.
    pub format: u32,
    /// Settings of the loops; each has its own seed and method.
    pub settings: Settings,
    /// Seeds are 1 to this.
    pub seeds: u32,
    /// Flights that judge a controller for one seed.
    pub flights: u32,
    /// What all loops began with.
    pub origin: Origin,
    /// Results so far.
    pub results: Vec<Judged>,
}

/// A controller's flights for one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// The seed.
    pub seed: u64,
    /// Who flew.
    pub contender: Contender,
    /// The flights.
    pub flights: Vec<Outcome>,
}

/// A line of the table: means over seeds, each with the half-width of its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Who flew.
    pub contender: Contender,
    /// Its name.
    pub name: &'static str,
    /// Mean distance from the reference, m.
    pub tracking_error_m: (f64, f64),
    /// Cumulative reward without its constant.
    pub cumulative_reward: (f64, f64),
    /// Mean height error while hovering, m.
    pub hover_height_error_m: (f64, f64),
    /// Root mean square of roll and pitch, rad.
    pub tilt_rms_rad: (f64, f64),
    /// Flights that did not end as they should.
    pub crashes: usize,
    /// All flights.
    pub flights: usize,
    /// Tracking error of every seed, m.
    pub seeds_m: Vec<f64>,
}

/// Makes a teacher for a loop's settings.
pub type Teachers<'a> = &'a (dyn Fn(&Settings) -> Box<dyn Teacher> + Sync);

impl Comparison {
    /// A comparison that has not begun.
    #[must_use]
    pub fn new(settings: Settings, seeds: u32, flights: u32, origin: Origin) -> Self {
        Self { format: FORMAT, settings, seeds, flights, origin, results: Vec::new() }
    }

    /// Reads and checks the results in a folder.
    ///
    /// # Errors
    /// If there are none, or they cannot be a comparison's.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let length = std::fs::metadata(&path)
            .with_context(|| format!("{} holds no comparison: it has no {NAME}", folder.display()))?
            .len();
        ensure!(length <= MOST_BYTES, "{}: {length} bytes are no comparison", path.display());
        let text = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let parse = || -> Result<Self> {
            let this: Self = serde_json::from_slice(&text)?;
            this.check()?;
            Ok(this)
        };
        parse().with_context(|| format!("{}: is no comparison of this version", path.display()))
    }

    fn check(&self) -> Result<()> {
        ensure!(self.format == FORMAT, "its format is {}, not {FORMAT}", self.format);
        self.settings.check()?;
        ensure!((1..=MOST_SEEDS).contains(&self.seeds), "the seeds must be 1 to {MOST_SEEDS}");
        ensure!((1..=MOST_FLIGHTS).contains(&self.flights), "the flights must be 1 to {MOST_FLIGHTS}");
        for judged in &self.results {
            ensure!((1..=u64::from(self.seeds)).contains(&judged.seed), "there is no seed {}", judged.seed);
        }
        Ok(())
    }

    /// The loop's folder for a seed and a method.
    #[must_use]
    pub fn loop_folder(folder: &Path, seed: u64, contender: Contender) -> PathBuf {
        let name = if contender == Contender::Steady { "steady" } else { "transfer" };
        seed_folder(folder, seed).join(name)
    }

    /// The folder of a controller's judging flights for a seed.
    #[must_use]
    pub fn judged_folder(folder: &Path, seed: u64, contender: Contender) -> PathBuf {
        seed_folder(folder, seed).join("judged").join(contender.folder())
    }

    fn of(&self, seed: u64, contender: Contender) -> Option<&Judged> {
        self.results.iter().find(|j| (j.seed, j.contender) == (seed, contender))
    }

    /// True when every flight is flown.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let seeds = 1..=u64::from(self.seeds);
        seeds.into_iter().all(|s| Contender::ALL.iter().all(|c| self.of(s, *c).is_some()))
    }

    /// The table.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        Contender::ALL.into_iter().filter_map(|c| self.row(c)).collect()
    }

    fn row(&self, contender: Contender) -> Option<Row> {
        let judged: Vec<&Judged> =
            (1..=u64::from(self.seeds)).filter_map(|seed| self.of(seed, contender)).collect();
        if judged.is_empty() {
            return None;
        }
        // A seed is one sample: its flights share its gains.
        let seeds = |value: fn(&Tracking) -> f64| -> Vec<f64> {
            let mean = |j: &Judged| {
                let good: Vec<f64> = j
                    .flights
                    .iter()
                    .filter(|f| f.is_good)
                    .filter_map(|f| f.tracking.as_ref().map(value))
                    .collect();
                (!good.is_empty()).then(|| good.iter().sum::<f64>() / good.len() as f64)
            };
            judged.iter().filter_map(|j| mean(j)).collect()
        };
        let mean = |value: fn(&Tracking) -> f64| mean_95(&seeds(value));
        let flights = || judged.iter().flat_map(|j| &j.flights);
        Some(Row {
            contender,
            name: contender.name(),
            tracking_error_m: mean(|t| t.tracking_error_m),
            cumulative_reward: mean(|t| t.cumulative_reward),
            hover_height_error_m: mean(|t| t.hover_height_error_m),
            tilt_rms_rad: mean(|t| t.tilt_rms_rad),
            crashes: flights().filter(|f| !f.is_good).count(),
            flights: flights().count(),
            seeds_m: seeds(|t| t.tracking_error_m),
        })
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let s = &self.settings;
        let mut text = format!(
            "world {}, task {}: {} seeds of {} flights each, {} iterations of {} flights; ± is a 95 % interval over \
             seeds\n\n\
             | controller     | tracking error (cm) | cumulative reward | hover height error (cm) | roll/pitch RMS (deg) | crashes |\n\
             |----------------|--------------------:|------------------:|------------------------:|---------------------:|--------:|\n",
            s.world, s.task, self.seeds, self.flights, s.iterations, s.flights
        );
        for r in self.rows() {
            let shown = |(mean, half): (f64, f64), scale: f64, digits: usize| {
                format!("{:.digits$} ± {:.digits$}", scale * mean, scale * half)
            };
            let degrees = 1.0_f64.to_degrees();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {:<14} | {:>19} | {:>17} | {:>23} | {:>20} | {:>4} / {} |",
                r.name,
                shown(r.tracking_error_m, 100.0, 2),
                shown(r.cumulative_reward, 1.0, 0),
                shown(r.hover_height_error_m, 100.0, 2),
                shown(r.tilt_rms_rad, degrees, 2),
                r.crashes,
                r.flights,
            );
        }
        text
    }
}

fn seed_folder(folder: &Path, seed: u64) -> PathBuf {
    folder.join(format!("seed-{seed}"))
}

/// Compares, or with `resume` goes on with the comparison in the folder.
///
/// # Errors
/// If the folder holds another one, or a station cannot be done.
pub fn compare(
    folder: &Path,
    wanted: Comparison,
    resume: bool,
    stage: &dyn Stage,
    teachers: Teachers<'_>,
    jobs: usize,
) -> Result<Comparison> {
    wanted.check()?;
    let _lock = lock(folder)?;
    let mut comparison = wanted.clone();
    if folder.join(NAME).exists() {
        ensure!(
            resume,
            "{} already holds a comparison: go on with --resume, or give another --out",
            folder.display()
        );
        comparison = Comparison::load(folder)?;
        let other = comparison.settings.differences(&wanted.settings);
        ensure!(
            other.is_empty()
                && (comparison.seeds, comparison.flights) == (wanted.seeds, wanted.flights)
                && (comparison.origin.table_crc32, comparison.origin.firmware_crc32)
                    == (wanted.origin.table_crc32, wanted.origin.firmware_crc32),
            "the comparison in {} was begun with another run, firmware, number of seeds or flights, or other \
             settings ({}): give the same, or another --out",
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
    each(jobs, &seeds, |seed| {
        let teacher = teachers(&settings(*seed));
        let settings = Settings { iterations: 0, ..settings(*seed) };
        let place = seed_folder(folder, *seed).join("start");
        let start = Loop::open(&place, settings, origin.clone(), true, stage, &*teacher)?;
        start.with(1, &format!("seed {seed}, beginning: ")).begin()
    })?;
    let methods = [Contender::Steady, Contender::Transfer];
    let loops: Vec<(u64, Contender)> = seeds.iter().flat_map(|s| methods.map(|m| (*s, m))).collect();
    each(jobs, &loops, |(seed, method)| {
        let settings = Settings { transfer_only: *method == Contender::Transfer, ..settings(*seed) };
        let teacher = teachers(&settings);
        let place = Comparison::loop_folder(folder, *seed, *method);
        let mut this = Loop::open(&place, settings, origin.clone(), true, stage, &*teacher)?
            .with(1, &format!("seed {seed}, {}: ", method.name()));
        this.take_over(&seed_folder(folder, *seed).join("start"))?;
        this.run().map(|_| ())
    })?;
    let kept = Mutex::new(comparison.clone());
    let judged: Vec<(u64, Contender)> = seeds.iter().flat_map(|s| Contender::ALL.map(|c| (*s, c))).collect();
    each(jobs, &judged, |(seed, contender)| {
        if comparison.of(*seed, *contender).is_some() {
            return Ok(());
        }
        let flights = judge(folder, &settings(*seed), comparison.flights, *contender, stage)?;
        eprintln!("seed {seed}, {}: {} judging flights flown", contender.name(), flights.len());
        let Ok(mut kept) = kept.lock() else { bail!("a result could not be kept") };
        kept.results.push(Judged { seed: *seed, contender: *contender, flights });
        kept.results.sort_by_key(|j| (j.seed, j.contender));
        save(folder, &kept)
    })?;
    match kept.into_inner() {
        Ok(comparison) => Ok(comparison),
        Err(_) => bail!("a result could not be kept"),
    }
}

/// The flights that judge a controller for one seed.
fn judge(
    folder: &Path,
    settings: &Settings,
    flights: u32,
    contender: Contender,
    stage: &dyn Stage,
) -> Result<Vec<Outcome>> {
    let place = match contender {
        Contender::Pid | Contender::Simulator => seed_folder(folder, settings.seed).join("start"),
        _ => Comparison::loop_folder(folder, settings.seed, contender),
    };
    let drone = drone(&place, &Journal::load(&place)?).context("no table was flashed")?;
    let controller = if contender == Contender::Pid { Controller::Pid } else { Controller::Law };
    let flights: Vec<Flight> = (1..)
        .zip(settings.comparing_seeds(flights))
        .map(|(number, seed)| Flight { number, seed, controller, ..Flight::of(drone.clone()) })
        .collect();
    let place = Comparison::judged_folder(folder, settings.seed, contender);
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("{}: cannot make the folder", parent.display()))?;
    }
    whole(&place, |out| fly_all(stage, &flights, out, 1))
}

/// A judged flight's folder.
#[must_use]
pub fn judged_flight(folder: &Path, seed: u64, contender: Contender, number: u32) -> PathBuf {
    Comparison::judged_folder(folder, seed, contender).join(flight_name(number))
}

fn save(folder: &Path, comparison: &Comparison) -> Result<()> {
    files::write(&folder.join(NAME), &serde_json::to_vec_pretty(comparison)?)
}

/// Does something for each, some at once; ends with the first that fails.
fn each<T: Sync>(jobs: usize, all: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let failed = || failure.lock().map_or(true, |f| f.is_some());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, all.len().max(1)) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if failed() {
                        return;
                    }
                    if let Err(error) = work(one)
                        && let Ok(mut failure) = failure.lock()
                    {
                        failure.get_or_insert(error);
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error),
        Err(_) => bail!("a loop could not be watched"),
    }
}
