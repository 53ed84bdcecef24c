//! Everything there is to do for an evaluation, and where its results are kept.
//!
//! Every result is a file or a folder that is complete or not there, so that an evaluation can be interrupted at any
//! moment and continued.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steady_common::gains::GAIN_COUNT;
use steady_common::{GainTable, Gains};
use steady_sim::{Task, World};

use crate::closed_loop::compare::judged_requests;
use crate::closed_loop::engine::{flight_name, fly_all, whole};
use crate::closed_loop::journal::{Origin, file_crc32};
use crate::closed_loop::learner::{DirectSearch, Gradient, Learner, SkillLearner};
use crate::closed_loop::{ClosedLoop, ControllerKind, DroneKind, Journal, Outcome, Settings};
use crate::error::usage;
use crate::fly::is_steady;
use crate::train::config::Config as TrainConfig;
use crate::train::run as training;
use crate::{files, gains_file};

use super::ceiling;
use super::suite::{Protocol, SuiteSettings, learned_on};

/// Another firmware's own controllers.
const OFFICIAL: [ControllerKind; 2] = [ControllerKind::OfficialPid, ControllerKind::OfficialMellinger];
/// Tables of STEADY's that the oracle's search begins with, at most.
const MAX_LEARNED_STARTS: usize = 2;
/// The protocol's file in the folder.
const PROTOCOL: &str = "protocol.json";

/// A controller in a task, a world and a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    pub(crate) world: String,
    pub(crate) task: Task,
    pub(crate) controller: ControllerKind,
    pub(crate) variation: String,
    /// Seed of its training and its flights.
    pub(crate) seed: u64,
}

/// Flights that judge a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cell {
    pub(crate) key: Key,
    pub(crate) flights: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Train {
        seed: u64,
        /// In many random worlds.
        randomised: bool,
    },
    /// The oracle's search.
    Search { world: String, task: Task },
    /// A closed loop.
    Learn(Key),
    /// Flights that judge a controller.
    Judge(Key),
}

/// The oracle's gains.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Searched {
    gains: [f32; GAIN_COUNT],
}

#[derive(Debug)]
struct BenchWorld {
    /// Its name or file.
    source: String,
    world: World,
}

/// An evaluation and its folder.
#[derive(Debug)]
pub(crate) struct Bench {
    /// What is compared.
    pub(crate) settings: SuiteSettings,
    out: PathBuf,
    /// By their names in tables.
    worlds: BTreeMap<String, BenchWorld>,
    /// Given trainings, by their seeds.
    runs: BTreeMap<u64, PathBuf>,
    drone: DroneKind,
    /// Our own image, where it is not the one that is built.
    elf: Option<PathBuf>,
    /// Another firmware's image, with the official controllers.
    official: Option<PathBuf>,
}

impl Bench {
    /// Checks settings; nothing is written yet. Given runs take the place of trainings, and their seeds that of
    /// the settings'. `elf` is a virtual drone's image; that of another firmware flies beside our own, and its
    /// controllers are compared too.
    pub(crate) fn new(
        settings: SuiteSettings,
        out: &Path,
        runs: &[PathBuf],
        drone: DroneKind,
        elf: Option<PathBuf>,
    ) -> Result<Self> {
        let mut settings = settings.checked()?;
        drone.name().clone_into(&mut settings.protocol.drone);
        ensure!(!matches!(drone, DroneKind::Real(_)), "an evaluation flies native or virtual drones");
        let (mut elf, mut official) = (elf, None);
        if drone == DroneKind::Virtual
            && let Some(image) = &elf
            && !is_steady(image)?
        {
            settings.protocol.official_crc32 = file_crc32(image)?;
            official = elf.take();
        }
        match (&official, settings.controllers.iter().any(|c| c.is_official())) {
            (Some(_), false) => settings.controllers.extend(OFFICIAL),
            (None, true) => {
                let text =
                    "the official controllers need another firmware's image: give --drone virtual --elf FILE";
                return Err(usage(text));
            }
            _ => {}
        }
        let mut worlds = BTreeMap::new();
        for name in &mut settings.worlds {
            let label = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let world = BenchWorld { source: name.clone(), world: World::load(name)? };
            ensure!(worlds.insert(label.clone(), world).is_none(), "there are two worlds named `{label}`");
            *name = label;
        }
        TrainConfig::preset(&settings.protocol.preset, &[])?;
        let mut by_seed = BTreeMap::new();
        for run in runs {
            let run = run.canonicalize().with_context(|| format!("{}: not a run folder", run.display()))?;
            let seed = training::load(&run, 1)?.seed;
            ensure!(
                by_seed.insert(seed, run.clone()).is_none(),
                "two of the runs have seed {seed}: {} is one of them",
                run.display()
            );
        }
        if !by_seed.is_empty() {
            settings.seeds = by_seed.keys().copied().collect();
        }
        if settings.paired {
            // What has no partner is not flown.
            let count = settings.worlds.len().min(settings.seeds.len());
            settings.worlds.truncate(count);
            settings.seeds.truncate(count);
        }
        ensure!(settings.seeds.iter().all(|s| *s < 1 << 16), "seeds must be below {}", 1 << 16);
        Ok(Self { settings, out: out.to_owned(), worlds, runs: by_seed, drone, elf, official })
    }

    /// Prepares the folder, or makes sure that it holds the beginnings of this very evaluation.
    pub(crate) fn open(&self, resume: bool) -> Result<()> {
        let path = self.out.join(PROTOCOL);
        if path.exists() {
            ensure!(
                resume,
                "{} already holds an evaluation: continue it with --resume, or give another --out",
                self.out.display()
            );
            let begun: Protocol = read(&path)?;
            let (was, is) = (serde_json::to_value(&begun)?, serde_json::to_value(&self.settings.protocol)?);
            let fields = was.as_object().into_iter().flatten();
            for (name, value) in fields {
                // Another firmware's controllers may be added as others may.
                let is_new = name == "official_crc32" && *value == 0;
                ensure!(
                    is_new || is.get(name) == Some(value),
                    "{} was begun with {name} = {value}, not {}: give the same options, or another --out",
                    self.out.display(),
                    is.get(name).unwrap_or_default()
                );
            }
        }
        files::make_folder(&self.out)?;
        write(&path, &self.settings.protocol)
    }

    /// Everything that is to be judged.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let s = &self.settings;
        let mut keys = Vec::new();
        for world in &s.worlds {
            for task in &s.tasks {
                for controller in &s.controllers {
                    for variation in s.variations_of(*controller) {
                        keys.extend(s.seeds_in(world).into_iter().map(|seed| Key {
                            world: world.clone(),
                            task: *task,
                            controller: *controller,
                            variation: variation.to_owned(),
                            seed,
                        }));
                    }
                }
            }
        }
        keys
    }

    /// Everything that is not done yet, what takes long first.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>> {
        let mut jobs: Vec<Job> = self.keys().into_iter().map(Job::Judge).collect();
        let mut at = 0;
        while let Some(job) = jobs.get(at).cloned() {
            for need in self.needs(&job) {
                if !jobs.contains(&need) {
                    jobs.push(need);
                }
            }
            at += 1;
        }
        jobs.sort_by_key(|job| match job {
            Job::Train { seed, randomised } => (if *randomised { 2 } else { 0 }, *seed),
            Job::Learn(key) => (1, key.seed),
            Job::Search { .. } => (1, 0),
            Job::Judge(key) => (3, key.seed),
        });
        let mut open = Vec::new();
        for job in jobs {
            if !self.is_done(&job)? {
                open.push(job);
            }
        }
        Ok(open)
    }

    /// What a job needs the results of.
    pub(crate) fn needs(&self, job: &Job) -> Vec<Job> {
        match job {
            Job::Train { .. } => Vec::new(),
            Job::Search { world, task } => {
                let learned = self.learned_in(world, *task).into_iter().map(|key| Job::Learn(learning(&key)));
                learned
                    .chain([Job::Train { seed: self.settings.first_seed(world), randomised: false }])
                    .collect()
            }
            Job::Learn(key) => vec![Job::Train { seed: key.seed, randomised: false }],
            Job::Judge(key) => match key.controller {
                ControllerKind::Pid
                | ControllerKind::Nominal
                | ControllerKind::StockMellinger
                | ControllerKind::OfficialPid
                | ControllerKind::OfficialMellinger => Vec::new(),
                ControllerKind::Simulator => vec![Job::Train { seed: key.seed, randomised: false }],
                ControllerKind::DomainRandomisation => vec![Job::Train { seed: key.seed, randomised: true }],
                ControllerKind::Oracle => vec![Job::Search { world: key.world.clone(), task: key.task }],
                ControllerKind::Transfer
                | ControllerKind::Steady
                | ControllerKind::DirectSearch
                | ControllerKind::Gradient
                | ControllerKind::Regression => vec![Job::Learn(learning(key))],
            },
        }
    }

    /// What STEADY learned in a world and task: the oracle searches from there, too, and is no worse.
    fn learned_in(&self, world: &str, task: Task) -> Vec<Key> {
        let is_start = |key: &Key| {
            let Key { controller, variation, .. } = key;
            *controller == ControllerKind::Steady
                && variation.is_empty()
                && key.world == world
                && key.task == task
        };
        self.keys().into_iter().filter(is_start).take(MAX_LEARNED_STARTS).collect()
    }

    /// Does a job and keeps its result.
    pub(crate) fn work(&self, job: &Job) -> Result<()> {
        let protocol = &self.settings.protocol;
        match job {
            Job::Train { seed, randomised } => {
                let worlds = if *randomised { protocol.random_worlds } else { 0 };
                let changes = [format!("random_worlds={worlds}")];
                let config = TrainConfig::preset(&protocol.preset, &changes)?;
                let folder = self.run_of(*seed, *randomised);
                // Unfinished when interrupted; what needs it does not begin then.
                training::train_into(&folder, &config, *seed, 1).map(|_| ())
            }
            Job::Search { world, task } => {
                let mut starts =
                    vec![self.trained(self.settings.first_seed(world), false)?, GainTable::built_in()];
                for learned in self.learned_in(world, *task) {
                    starts.extend(self.table(&learned)?);
                }
                let gains =
                    ceiling::search(&self.world(world)?.world, *task, &starts, protocol.oracle_steps)?;
                write(&self.search_path(world, *task), &Searched { gains: gains.to_array() })
            }
            Job::Learn(key) => self.learn(key),
            Job::Judge(key) => {
                let flights = self.judge(key)?;
                write(&self.cell_path(key), &Cell { key: key.clone(), flights })
            }
        }
    }

    fn loop_settings(&self, key: &Key) -> Result<Settings> {
        let world = &self.world(&key.world)?.source;
        self.settings.protocol.closed_loop(key.controller, &key.variation, world, key.task, key.seed)
    }

    /// One closed loop in its own folder.
    fn learn(&self, key: &Key) -> Result<()> {
        crate::torch::set_threads(1);
        let settings = self.loop_settings(key)?;
        let run = self.run_of(key.seed, false);
        let run = run.canonicalize().with_context(|| format!("{}: not a run folder", run.display()))?;
        let drone = settings.simulated_drone(self.elf.as_deref())?;
        let learner: Box<dyn Learner> = match key.controller {
            ControllerKind::DirectSearch => Box::new(DirectSearch { run: run.clone(), seed: settings.seed }),
            ControllerKind::Gradient => Box::new(Gradient { run: run.clone(), course: key.task.into() }),
            _ => Box::new(SkillLearner::new(&run, &settings, 1)),
        };
        let origin = Origin::new(&run, &self.drone, self.elf.as_deref())?;
        let folder = self.path("loops", key);
        let mut this = ClosedLoop::open(&folder, settings, origin, true, &*drone, &*learner)?.with(1, None);
        this.run().map(|_| ())
    }

    /// Flights of a controller without noise, with seeds that neither learning nor the search used. The first
    /// one's folder is kept for the figures.
    fn judge(&self, key: &Key) -> Result<Vec<Outcome>> {
        let table = self.table(key)?;
        let settings = self.loop_settings(key)?;
        let elf = if key.controller.is_official() { &self.official } else { &self.elf };
        let drone = settings.simulated_drone(elf.as_deref())?;
        let folder = self.path("cells", key);
        files::make_folder(folder.parent().unwrap_or(&self.out))?;
        whole(&folder, |out| {
            let state = out.join("drone");
            files::make_folder(&state)?;
            if let Some(table) = table {
                drone.flash(None, &table, &state)?;
            }
            let seeds = settings.comparing_seeds(self.settings.protocol.judged);
            let flights = judged_requests(key.controller, &state, seeds);
            let outcomes = fly_all(&*drone, &flights, out, 1)?;
            for other in &flights[1..] {
                let folder = out.join(flight_name(other.number));
                std::fs::remove_dir_all(&folder)
                    .with_context(|| format!("{}: cannot be removed", folder.display()))?;
            }
            for outcome in &outcomes {
                let seed = outcome.seed;
                ensure!(outcome.metrics.is_some(), "the flight with seed {seed} has no finite metrics");
            }
            Ok(outcomes)
        })
    }

    fn is_done(&self, job: &Job) -> Result<bool> {
        Ok(match job {
            Job::Train { seed, randomised } => self.is_trained(*seed, *randomised),
            Job::Search { world, task } => {
                let path = self.search_path(world, *task);
                path.exists() && read::<Searched>(&path).map(|_| true)?
            }
            Job::Learn(key) => {
                let folder = self.path("loops", key);
                let has_journal = folder.join(crate::closed_loop::journal::NAME).exists();
                has_journal && Journal::load(&folder)?.end.is_some()
            }
            Job::Judge(key) => self.cell_path(key).exists() && self.cell(key).map(|_| true)?,
        })
    }

    fn is_trained(&self, seed: u64, randomised: bool) -> bool {
        if !randomised && self.runs.contains_key(&seed) {
            return true;
        }
        training::is_complete(&self.run_of(seed, randomised))
    }

    /// The flights that judge a controller.
    pub(crate) fn cell(&self, key: &Key) -> Result<Cell> {
        let path = self.cell_path(key);
        let cell: Cell = read(&path)?;
        let judged = self.settings.protocol.judged;
        ensure!(
            cell.key == *key && cell.flights.len() == judged as usize,
            "{}: these are {} flights of {}, not {judged} of {key}; delete the file to fly them again",
            path.display(),
            cell.flights.len(),
            cell.key,
        );
        Ok(cell)
    }

    /// The folder of the closed loop by which a controller learned.
    pub(crate) fn loop_folder(&self, key: &Key) -> PathBuf {
        self.path("loops", &learning(key))
    }

    /// The folder of a controller's first judged flight.
    pub(crate) fn first_flight(&self, key: &Key) -> PathBuf {
        self.path("cells", key).join(flight_name(1))
    }

    /// The gains that a controller flies with; none for another firmware's.
    fn table(&self, key: &Key) -> Result<Option<GainTable>> {
        let table = match key.controller {
            ControllerKind::OfficialPid | ControllerKind::OfficialMellinger => return Ok(None),
            ControllerKind::Pid | ControllerKind::Nominal | ControllerKind::StockMellinger => {
                GainTable::built_in()
            }
            ControllerKind::Simulator => self.trained(key.seed, false)?,
            ControllerKind::DomainRandomisation => self.trained(key.seed, true)?,
            ControllerKind::Oracle => {
                let path = self.search_path(&key.world, key.task);
                let gains = Gains::from_array(read::<Searched>(&path)?.gains);
                gains.check().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
                GainTable { gains, ..self.trained(self.settings.first_seed(&key.world), false)? }
            }
            ControllerKind::Transfer
            | ControllerKind::Steady
            | ControllerKind::DirectSearch
            | ControllerKind::Gradient
            | ControllerKind::Regression => {
                let folder = self.loop_folder(key);
                match Journal::load(&folder)?.end {
                    Some(end) => ClosedLoop::table(&folder, end.best)?,
                    None => bail!("{}: has not ended", folder.display()),
                }
            }
        };
        Ok(Some(table))
    }

    fn world(&self, name: &str) -> Result<&BenchWorld> {
        self.worlds.get(name).with_context(|| format!("there is no world `{name}` here"))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.out
    }

    fn run_of(&self, seed: u64, randomised: bool) -> PathBuf {
        match self.runs.get(&seed) {
            Some(run) if !randomised => run.clone(),
            _ => self
                .out
                .join(if randomised { "train-randomised" } else { "train" })
                .join(format!("seed-{seed}")),
        }
    }

    fn trained(&self, seed: u64, randomised: bool) -> Result<GainTable> {
        let path = self.run_of(seed, randomised).join("gains.bin");
        gains_file::load(&path.to_string_lossy())
    }

    fn search_path(&self, world: &str, task: Task) -> PathBuf {
        self.out.join("oracle").join(world).join(format!("{}.json", task.name()))
    }

    fn path(&self, kind: &str, key: &Key) -> PathBuf {
        let who = if key.variation.is_empty() {
            key.controller.name().to_owned()
        } else {
            format!("{}@{}", key.controller.name(), key.variation)
        };
        let folder = self.out.join(kind).join(&key.world).join(key.task.name()).join(who);
        folder.join(format!("seed-{}", key.seed))
    }

    fn cell_path(&self, key: &Key) -> PathBuf {
        self.path("cells", key).with_extension("json")
    }
}

/// The key of the loop: the task is the one that is learned on.
fn learning(key: &Key) -> Key {
    Key { task: learned_on(key.task), ..key.clone() }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| {
        format!("{}: not a result of this version; delete the file to compute it again", path.display())
    })
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    if let Some(folder) = path.parent() {
        files::make_folder(folder)?;
    }
    files::write(path, &serde_json::to_vec_pretty(value)?)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} in {}, seed {}", self.controller.title(), self.task, self.world, self.seed)?;
        if self.variation.is_empty() { Ok(()) } else { write!(f, ", {}", self.variation) }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Train { seed, randomised: false } => write!(f, "training, seed {seed}"),
            Self::Train { seed, .. } => write!(f, "training in random worlds, seed {seed}"),
            Self::Search { world, task } => write!(f, "oracle on {task} in {world}"),
            Self::Learn(key) => write!(f, "learning of {key}"),
            Self::Judge(key) => write!(f, "judging {key}"),
        }
    }
}
