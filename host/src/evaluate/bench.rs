//! Everything there is to do for a comparison, and where its results are kept.
//!
//! Every result is a file of its own that is there whole or not at all, so that an evaluation can be ended at
//! any moment and taken up again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steady_common::gains::GAIN_COUNT;
use steady_common::law::Vehicle;
use steady_common::{GainTable, Gains};
use steady_sim::Params;
use steady_sim::flight::{self, Task};
use steady_sim::pilot::Pilot;

use crate::train::config::Config as TrainConfig;
use crate::train::run as training;
use crate::{files, gains_file};

use super::campaign::{self, Campaign, Mission};
use super::ceiling;
use super::judge::{self, Flown, Use};
use super::suite::{self, Controller, Plan, Settings, learned_on};

/// The plan's file in the folder.
const PLAN: &str = "plan.json";

/// Who flew what, where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// World.
    pub world: String,
    /// Task.
    pub task: Task,
    /// Controller.
    pub controller: Controller,
    /// Variation of how it learned; usually none.
    pub variation: String,
    /// Seed of its training and its flights.
    pub seed: u64,
}

/// Flights for the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Who flew what, where.
    pub key: Key,
    /// How they went.
    pub flights: Vec<Flown>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// A training in the simulator.
    Train {
        /// Its seed.
        seed: u64,
        /// In many random worlds.
        randomised: bool,
    },
    /// The oracle's search.
    Search {
        /// World.
        world: String,
        /// Task.
        task: Task,
    },
    /// A campaign.
    Learn(Key),
    /// Flights for the record.
    Judge(Key),
}

/// The oracle's gains.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Searched {
    gains: [f32; GAIN_COUNT],
}

/// A comparison and its folder.
#[derive(Debug)]
pub struct Bench {
    /// What is compared.
    pub settings: Settings,
    out: PathBuf,
    worlds: BTreeMap<String, Params>,
    /// Trainings that were there before, by their seeds.
    runs: BTreeMap<u64, PathBuf>,
}

impl Bench {
    /// Checks settings; nothing is written yet. Given runs take the place of trainings, and their seeds that of
    /// the settings'.
    ///
    /// # Errors
    /// If a world, a preset, a setting or a run is not valid.
    pub fn new(settings: Settings, out: &Path, runs: &[PathBuf]) -> Result<Self> {
        let mut settings = settings.without_repetitions()?;
        let mut worlds = BTreeMap::new();
        for name in &mut settings.worlds {
            let (label, world) = suite::world(name)?;
            let params = flight::params(&world)?;
            ensure!(worlds.insert(label.clone(), params).is_none(), "there are two worlds named `{label}`");
            *name = label;
        }
        TrainConfig::preset(&settings.plan.preset, &[])?;
        let mut by_seed = BTreeMap::new();
        for run in runs {
            let seed = training::load(run, 1)?.seed;
            ensure!(
                by_seed.insert(seed, run.clone()).is_none(),
                "two of the runs have seed {seed}: {} is one of them",
                run.display()
            );
        }
        if !by_seed.is_empty() {
            settings.seeds = by_seed.keys().copied().collect();
        }
        ensure!(settings.seeds.iter().all(|s| *s < 1 << 16), "seeds must be below {}", 1 << 16);
        Ok(Self { settings, out: out.to_owned(), worlds, runs: by_seed })
    }

    /// Prepares the folder, or makes sure that it holds the beginnings of this very evaluation.
    ///
    /// # Errors
    /// If it holds something else, or cannot be written.
    pub fn open(&self, resume: bool) -> Result<()> {
        let path = self.out.join(PLAN);
        if path.exists() {
            ensure!(
                resume,
                "{} already holds an evaluation: continue it with --resume, or give another --out",
                self.out.display()
            );
            let begun: Plan = read(&path)?;
            let (was, is) = (serde_json::to_value(&begun)?, serde_json::to_value(&self.settings.plan)?);
            let fields = was.as_object().into_iter().flatten();
            for (name, value) in fields {
                ensure!(
                    is.get(name) == Some(value),
                    "{} was begun with {name} = {value}, not {}: give the same options, or another --out",
                    self.out.display(),
                    is.get(name).unwrap_or_default()
                );
            }
            return Ok(());
        }
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("{}: cannot be made", self.out.display()))?;
        write(&path, &self.settings.plan)
    }

    /// Everything that is to be judged.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let s = &self.settings;
        let mut keys = Vec::new();
        for world in &s.worlds {
            for task in &s.tasks {
                for controller in &s.controllers {
                    for variation in s.variations_of(*controller) {
                        keys.extend(s.seeds.iter().map(|seed| Key {
                            world: world.clone(),
                            task: *task,
                            controller: *controller,
                            variation: variation.to_owned(),
                            seed: *seed,
                        }));
                    }
                }
            }
        }
        keys
    }

    /// Everything that is not done yet, what takes long first.
    ///
    /// # Errors
    /// If a result that is there cannot be read.
    pub fn jobs(&self) -> Result<Vec<Job>> {
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
    #[must_use]
    pub fn needs(&self, job: &Job) -> Vec<Job> {
        match job {
            Job::Train { .. } => Vec::new(),
            Job::Search { .. } => vec![Job::Train { seed: self.first_seed(), randomised: false }],
            Job::Learn(key) => vec![Job::Train { seed: key.seed, randomised: false }],
            Job::Judge(key) => match key.controller {
                Controller::Pid => Vec::new(),
                Controller::Simulator => vec![Job::Train { seed: key.seed, randomised: false }],
                Controller::DomainRandomisation => vec![Job::Train { seed: key.seed, randomised: true }],
                Controller::Oracle => vec![Job::Search { world: key.world.clone(), task: key.task }],
                Controller::Transfer | Controller::Steady => vec![Job::Learn(learning(key))],
            },
        }
    }

    /// Does a job and keeps its result.
    ///
    /// # Errors
    /// If something that it needs cannot be read, or its result not be written.
    pub fn work(&self, job: &Job) -> Result<()> {
        match job {
            Job::Train { seed, randomised } => {
                let worlds = if *randomised { self.settings.plan.random_worlds } else { 0 };
                let changes = [format!("random_worlds={worlds}")];
                let config = TrainConfig::preset(&self.settings.plan.preset, &changes)?;
                let folder = self.run_of(*seed, *randomised);
                // Unfinished when interrupted; those who need it do not begin then.
                training::train_into(&folder, &config, *seed, 1).map(|_| ())
            }
            Job::Search { world, task } => {
                let start = self.table(self.first_seed(), false)?;
                let params = self.world(world)?;
                let gains = ceiling::search(params, *task, &start.gains, start.vehicle, &self.settings.plan);
                write(&self.search_path(world, *task), &Searched { gains: gains.to_array() })
            }
            Job::Learn(key) => {
                let plan = &self.settings.plan;
                let (flights, rounds) = plan.flights_and_rounds(&key.variation)?;
                let mission = Mission {
                    world: self.world(&key.world)?,
                    task: key.task,
                    flights,
                    rounds,
                    noise: plan.noise,
                    hold: plan.hold,
                    probes: plan.probes,
                    seed: key.seed,
                };
                let config = plan.adaptation(&key.variation, key.controller == Controller::Steady)?;
                let campaign = campaign::fly(&self.run_of(key.seed, false), &mission, &config)?;
                write(&self.path("campaigns", key), &campaign)
            }
            Job::Judge(key) => {
                let seeds = (0..self.settings.plan.judged).map(|i| Use::Judgement.seed(key.seed, i));
                let flights = judge::fly(self.world(&key.world)?, self.pilot(key)?, key.task, seeds)?;
                write(&self.path("cells", key), &Cell { key: key.clone(), flights })
            }
        }
    }

    fn is_done(&self, job: &Job) -> Result<bool> {
        Ok(match job {
            Job::Train { seed, randomised } => self.is_trained(*seed, *randomised),
            Job::Search { world, task } => {
                let path = self.search_path(world, *task);
                path.exists() && read::<Searched>(&path).map(|_| true)?
            }
            Job::Learn(key) => {
                let path = self.path("campaigns", key);
                path.exists() && read::<Campaign>(&path).map(|_| true)?
            }
            Job::Judge(key) => self.path("cells", key).exists() && self.cell(key).map(|_| true)?,
        })
    }

    fn is_trained(&self, seed: u64, randomised: bool) -> bool {
        if !randomised && self.runs.contains_key(&seed) {
            return true;
        }
        let result = std::fs::read(self.run_of(seed, randomised).join("result.json")).unwrap_or_default();
        let result: serde_json::Value = serde_json::from_slice(&result).unwrap_or_default();
        result.get("complete") == Some(&serde_json::Value::Bool(true))
    }

    /// Flights for the record that are there.
    ///
    /// # Errors
    /// If they cannot be read, or are of somebody else.
    pub fn cell(&self, key: &Key) -> Result<Cell> {
        let path = self.path("cells", key);
        let cell: Cell = read(&path)?;
        ensure!(
            cell.key == *key && cell.flights.len() == self.settings.plan.judged,
            "{}: these are {} flights of {}, not {} of {key}; delete the file to fly them again",
            path.display(),
            cell.flights.len(),
            cell.key,
            self.settings.plan.judged,
        );
        Ok(cell)
    }

    /// The campaign by which a controller learned.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
    pub fn campaign(&self, key: &Key) -> Result<Campaign> {
        read(&self.path("campaigns", &learning(key)))
    }

    /// Who flies for a key.
    ///
    /// # Errors
    /// If what was learned or searched cannot be read.
    pub fn pilot(&self, key: &Key) -> Result<Pilot> {
        let law = |gains: [f32; GAIN_COUNT], vehicle: Vehicle, path: &Path| -> Result<Pilot> {
            let gains = Gains::from_array(gains);
            gains.check().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            Ok(Pilot::mellinger(gains, vehicle))
        };
        Ok(match key.controller {
            Controller::Pid => Pilot::pid(),
            Controller::Simulator | Controller::DomainRandomisation => {
                let table = self.table(key.seed, key.controller == Controller::DomainRandomisation)?;
                Pilot::mellinger(table.gains, table.vehicle)
            }
            Controller::Oracle => {
                let path = self.search_path(&key.world, key.task);
                law(read::<Searched>(&path)?.gains, self.table(self.first_seed(), false)?.vehicle, &path)?
            }
            Controller::Transfer | Controller::Steady => {
                let path = self.path("campaigns", &learning(key));
                law(read::<Campaign>(&path)?.gains, self.table(key.seed, false)?.vehicle, &path)?
            }
        })
    }

    /// A world by its name.
    ///
    /// # Errors
    /// If it is none of the comparison's.
    pub fn world(&self, name: &str) -> Result<&Params> {
        self.worlds.get(name).with_context(|| format!("there is no world `{name}` here"))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.out
    }

    fn first_seed(&self) -> u64 {
        self.settings.seeds.first().copied().unwrap_or(1)
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

    fn table(&self, seed: u64, randomised: bool) -> Result<GainTable> {
        let path = self.run_of(seed, randomised).join("gains.bin");
        gains_file::load(&path.to_string_lossy())
    }

    fn search_path(&self, world: &str, task: Task) -> PathBuf {
        self.out.join("oracle").join(world).join(format!("{}.json", task.name()))
    }

    fn path(&self, kind: &str, key: &Key) -> PathBuf {
        let who = if key.variation.is_empty() {
            key.controller.id().to_owned()
        } else {
            format!("{}@{}", key.controller.id(), key.variation)
        };
        let folder = self.out.join(kind).join(&key.world).join(key.task.name()).join(who);
        folder.join(format!("seed-{}.json", key.seed))
    }
}

/// The campaign's key: the task is the one that is learned on.
fn learning(key: &Key) -> Key {
    Key { task: learned_on(key.task), ..key.clone() }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| {
        format!("{}: cannot be understood; delete the file to compute it again", path.display())
    })
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    }
    files::write(path, &serde_json::to_vec_pretty(value)?)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {} in {}, seed {}",
            self.controller.title(),
            self.task.name(),
            self.world,
            self.seed
        )?;
        if self.variation.is_empty() { Ok(()) } else { write!(f, ", {}", self.variation) }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Train { seed, randomised: false } => write!(f, "training, seed {seed}"),
            Self::Train { seed, .. } => write!(f, "training in random worlds, seed {seed}"),
            Self::Search { world, task } => write!(f, "oracle's search on {} in {world}", task.name()),
            Self::Learn(key) => write!(f, "learning of {key}"),
            Self::Judge(key) => write!(f, "judging {key}"),
        }
    }
}
