//! `steady train` and `steady oracle`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use steady_common::Gains;
use steady_common::gain_table::GainTable;
use steady_common::gains::{BOUNDS_ID, GAINS};

use crate::checkpoint::Store;
use crate::provenance::Provenance;
use crate::tensorboard::EventFile;
use crate::{files, gains_file};

use super::config::Config;
use super::curve;
use super::oracle::{self, Search};
use super::summary::{self, Summary};
use super::trainer::{JUDGEMENT_SEED, Metrics, Trainer};

/// What a run folder holds.
const CONFIG: &str = "config.toml";
const PROVENANCE: &str = "provenance.json";
const CHECKPOINTS: &str = "checkpoints";
/// Time between checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// Learn skills and a policy in a simulated world.
#[derive(Args, Clone, Debug)]
pub struct TrainCmd {
    /// smoke (seconds), quick (minutes) or paper (half an hour).
    #[arg(long, default_value = "quick")]
    preset: String,
    /// World to train in: a shipped one or a file.
    #[arg(long)]
    world: Option<String>,
    /// Random numbers of everything; the same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Train so many seeds, one after the other, from `--seed` on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Change one setting of the preset.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Folder for the results; if not given, one in `runs` named after preset, world and seed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Continue an interrupted run in its folder.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["out", "seeds", "changes", "world"])]
    resume: Option<PathBuf>,
    /// Simulator threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Threads of libtorch. Two are a quarter faster on an idle machine and far slower on a busy one, and a
    /// run has the same bits only with the same number.
    #[arg(long, default_value_t = 1)]
    torch_threads: usize,
    /// Print the configuration and stop.
    #[arg(long)]
    print_config: bool,
    /// Print results as JSON.
    #[arg(long)]
    json: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Seed.
    pub seed: u64,
    /// Folder with the results.
    pub folder: PathBuf,
    /// Mean return of the nominal gains.
    pub nominal_return: f64,
    /// Mean return of the learned gains, on initial states they were not chosen by.
    pub learned_return: f64,
    /// Standard error of that mean.
    pub standard_error: f64,
    /// Part of the learned gains' episodes that crashed.
    pub crashed: f64,
    /// Time it took, s.
    pub seconds: f64,
    /// Transitions collected.
    pub transitions: u64,
    /// True when all rounds were done.
    pub complete: bool,
}

impl TrainCmd {
    /// Runs the command.
    ///
    /// # Errors
    /// When the configuration is wrong, or a file cannot be read or written.
    pub fn run(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.resume {
            let trainer = load(folder, self.threads)?;
            return self.finish(&[self.train(trainer, folder)?]);
        }
        let mut changes = self.changes.clone();
        changes.extend(self.world.iter().map(|world| format!("world={world}")));
        let config = Config::preset(&self.preset, &changes)?;
        if self.print_config {
            print!("{}", config.to_toml());
            return Ok(());
        }
        let mut outcomes = Vec::new();
        for seed in self.seed..self.seed + self.seeds.max(1) {
            let name = Path::new(&config.world).file_stem().unwrap_or_default().to_string_lossy();
            let folder = match &self.out {
                Some(out) if self.seeds <= 1 => out.clone(),
                Some(out) => out.join(format!("seed{seed}")),
                None => PathBuf::from(format!("runs/{}-{name}-seed{seed}", self.preset)),
            };
            begin(&folder, &config, seed)?;
            let outcome = self.train(Trainer::new(config.clone(), seed, self.threads)?, &folder)?;
            let stop = !outcome.complete;
            outcomes.push(outcome);
            if stop {
                break;
            }
        }
        self.finish(&outcomes)
    }

    fn finish(&self, outcomes: &[Outcome]) -> anyhow::Result<()> {
        if let [first, _, ..] = outcomes {
            let runs: Vec<PathBuf> = outcomes.iter().map(|o| o.folder.clone()).collect();
            let folder = first.folder.parent().unwrap_or(Path::new("."));
            let [svg, png] = curve::draw(folder, &runs, first.nominal_return)?;
            if !self.json {
                println!("learning curve over {} seeds: {}, {}", runs.len(), svg.display(), png.display());
            }
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(outcomes)?);
        }
        if outcomes.iter().any(|o| !o.complete) {
            eprintln!("Interrupted. Continue with --resume and the folder.");
            std::process::exit(130);
        }
        Ok(())
    }

    /// Trains until the end or an interrupt, with checkpoints in between.
    fn train(&self, mut trainer: Trainer, folder: &Path) -> anyhow::Result<Outcome> {
        let started = Instant::now();
        let mut saved = Instant::now();
        crate::torch::set_threads(self.torch_threads);
        let store = Store::open(&folder.join(CHECKPOINTS))?;
        let mut log = Log::open(folder, trainer.rounds_done())?;
        let progress = Progress::new(trainer.config.rounds, trainer.rounds_done(), self.json);
        interrupt::expect_saving();
        while !trainer.is_done() && !interrupt::asked() {
            let metrics = trainer.round();
            log.add(&metrics)?;
            progress.show(&metrics, started);
            if saved.elapsed() > CHECKPOINT_EVERY {
                store.save(trainer.rounds_done() as u64, |path| trainer.save(path))?;
                saved = Instant::now();
            }
        }
        store.save(trainer.rounds_done() as u64, |path| trainer.save(path))?;
        progress.close();
        let gains = trainer.best_gains();
        let (nominal, learned) = (trainer.judge(&Gains::nominal()), trainer.judge(&gains));
        write_gains(folder, &gains, &trainer)?;
        let outcome = Outcome {
            seed: trainer.seed,
            folder: folder.to_owned(),
            nominal_return: nominal.mean_return,
            learned_return: learned.mean_return,
            standard_error: learned.standard_error,
            crashed: learned.crashed,
            seconds: started.elapsed().as_secs_f64(),
            transitions: trainer.replay.pushed(),
            complete: trainer.is_done(),
        };
        files::write(&folder.join("result.json"), &serde_json::to_vec_pretty(&outcome)?)?;
        if outcome.complete {
            curve::draw(folder, &[folder.to_owned()], outcome.nominal_return)?;
            let summary = summary::summarise(&trainer, self.threads)?;
            summary.save(folder)?;
            if !self.json {
                show(&summary);
            }
        }
        if !self.json {
            println!(
                "seed {}: return {:.1} ± {:.1} (nominal gains {:.1}) after {} transitions and {:.0} s; {}",
                outcome.seed,
                outcome.learned_return,
                outcome.standard_error,
                outcome.nominal_return,
                outcome.transitions,
                outcome.seconds,
                folder.display()
            );
        }
        Ok(outcome)
    }
}

/// Trains into a folder without a word, from where it was left; false when it was interrupted.
///
/// # Errors
/// When the folder holds a run of another configuration or seed, or a file cannot be read or written.
pub fn train_into(folder: &Path, config: &Config, seed: u64, threads: usize) -> anyhow::Result<bool> {
    let begun = folder.join(CONFIG).exists() && folder.join(PROVENANCE).exists();
    let trainer = if begun {
        load(folder, threads)?
    } else {
        // A run of which only the configuration was written has not begun.
        let _ = std::fs::remove_file(folder.join(CONFIG));
        begin(folder, config, seed)?;
        Trainer::new(config.clone(), seed, threads)?
    };
    anyhow::ensure!(
        trainer.config == *config && trainer.seed == seed,
        "{}: this run has another configuration or seed; give another folder",
        folder.display()
    );
    let quiet = TrainCmd {
        preset: String::new(),
        world: None,
        seed,
        seeds: 1,
        changes: Vec::new(),
        out: None,
        resume: None,
        threads,
        torch_threads: 1,
        print_config: false,
        json: true,
    };
    Ok(quiet.train(trainer, folder)?.complete)
}

/// What the skills are good for, for people.
fn show(summary: &Summary) {
    println!(
        "skills: {} features, effective rank {:.0}, held-out L_feat {:.2}; R² of held-out returns:",
        summary.features, summary.effective_rank, summary.held_out_loss
    );
    for fit in &summary.fits {
        println!("  {:<14} {:<13} {:.3}", fit.policy, fit.task, fit.r2);
    }
}

/// Prepares a run folder.
fn begin(folder: &Path, config: &Config, seed: u64) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    anyhow::ensure!(
        !folder.join(CONFIG).exists(),
        "{} already holds a run: continue it with --resume, or give another --out",
        folder.display()
    );
    files::write(&folder.join(CONFIG), config.to_toml().as_bytes())?;
    let provenance = serde_json::to_vec_pretty(&Provenance::of_this_run(seed))?;
    files::write(&folder.join(PROVENANCE), &provenance)
}

/// A run as its folder holds it.
///
/// # Errors
/// When it is no run folder, or its files cannot be read.
pub fn load(folder: &Path, threads: usize) -> anyhow::Result<Trainer> {
    let config = std::fs::read_to_string(folder.join(CONFIG))
        .with_context(|| format!("{} is no run folder: it has no {CONFIG}", folder.display()))?;
    let mut trainer = Trainer::new(Config::from_toml(&config)?, seed_of(folder)?, threads)?;
    restore(&mut trainer, folder)?;
    Ok(trainer)
}

/// The seed that a run folder says it has.
pub(crate) fn seed_of(folder: &Path) -> anyhow::Result<u64> {
    let path = folder.join(PROVENANCE);
    let text = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let value: serde_json::Value = serde_json::from_slice(&text)?;
    value
        .get("seed")
        .and_then(serde_json::Value::as_u64)
        .with_context(|| format!("{}: no seed", path.display()))
}

/// Loads the newest intact checkpoint; a run that has none begins at its beginning.
fn restore(trainer: &mut Trainer, folder: &Path) -> anyhow::Result<()> {
    let found = Store::open(&folder.join(CHECKPOINTS))?.find()?;
    for damaged in &found.damaged {
        eprintln!("{damaged}; the one before it is used");
    }
    match found.newest {
        Some(checkpoint) => trainer.load(&checkpoint.data),
        None => Ok(()),
    }
}

/// `gains.toml` for people and `gains.bin`, the page for the drone.
fn write_gains(folder: &Path, gains: &Gains, trainer: &Trainer) -> anyhow::Result<()> {
    let table = GainTable {
        sequence: 1,
        bounds_id: BOUNDS_ID,
        source: run_id(trainer),
        vehicle: trainer.task.vehicle,
        gains: *gains,
    };
    files::write(&folder.join("gains.toml"), gains_file::to_toml(&table).as_bytes())?;
    files::write(&folder.join("gains.bin"), &table.encode())
}

/// A number that stands for the run's configuration and seed (FNV-1a; never 0).
fn run_id(trainer: &Trainer) -> u64 {
    let text = format!("{}{}", trainer.config.to_toml(), trainer.seed);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    hash.max(1)
}

/// `metrics.csv` and the TensorBoard events.
struct Log {
    csv: std::fs::File,
    events: EventFile,
}

impl Log {
    /// Opens the log; rounds after `keep` are of an interrupted run and go.
    fn open(folder: &Path, keep: usize) -> anyhow::Result<Self> {
        let path = folder.join("metrics.csv");
        let names: Vec<&str> = Metrics::default().values().iter().map(|(name, _)| *name).collect();
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let header = names.join(",") + "\n";
        let kept = old.lines().skip(1).take(keep).fold(header, |all, line| all + line + "\n");
        files::write(&path, kept.as_bytes())?;
        let csv = std::fs::OpenOptions::new().append(true).open(&path)?;
        Ok(Self { csv, events: EventFile::create(folder)? })
    }

    fn add(&mut self, metrics: &Metrics) -> anyhow::Result<()> {
        let values = metrics.values();
        let cell = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let row: Vec<String> = values.iter().map(|(_, value)| cell(*value)).collect();
        writeln!(self.csv, "{}", row.join(",")).context("metrics.csv: cannot be written")?;
        let scalars: Vec<(&str, f64)> = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        self.events.scalars(metrics.transitions, &scalars)
    }
}

/// A bar on a terminal, plain lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
}

impl Progress {
    fn new(rounds: usize, done: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ETA {eta}");
            let bar = ProgressBar::new(rounds as u64).with_position(done as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, plain: !terminal && !quiet }
    }

    fn show(&self, m: &Metrics, started: Instant) {
        let rate = m.transitions as f64 / started.elapsed().as_secs_f64().max(1e-9);
        if let Some(bar) = &self.bar {
            bar.set_position(m.round as u64);
            bar.set_message(format!("best {:.1}  {rate:.0} transitions/s", m.return_best));
        } else if let (true, Some(eval)) = (self.plain, m.return_eval) {
            println!(
                "round {} return {eval:.1} best {:.1} transitions {} ({rate:.0}/s)",
                m.round, m.return_best, m.transitions
            );
        }
    }

    fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Ctrl-C.
pub mod interrupt {
    use std::sync::atomic::{AtomicBool, Ordering};

    static ASKED: AtomicBool = AtomicBool::new(false);
    static TRAINING: AtomicBool = AtomicBool::new(false);

    /// Tells the program's handler of Ctrl-C that there is something to save.
    pub fn expect_saving() {
        TRAINING.store(true, Ordering::Relaxed);
    }

    /// True when something is being trained that will look at [`asked`].
    #[must_use]
    pub fn can_wait() -> bool {
        TRAINING.load(Ordering::Relaxed)
    }

    /// To be called from the program's handler of Ctrl-C: trainings save and stop after their round.
    pub fn ask() {
        ASKED.store(true, Ordering::Relaxed);
    }

    /// True once [`ask`] was called.
    #[must_use]
    pub fn asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}

/// Search gains directly in a world: the ceiling for everything that learns.
#[derive(Args, Clone, Debug)]
pub struct OracleCmd {
    /// World to search in: a shipped one or a file.
    #[arg(long, default_value = "nominal")]
    world: String,
    /// Preset whose task is flown.
    #[arg(long, default_value = "quick")]
    preset: String,
    /// Random numbers of the search and its initial states.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Generations of the search.
    #[arg(long, default_value_t = 120)]
    generations: usize,
    /// Candidates in a generation.
    #[arg(long, default_value_t = 24)]
    population: usize,
    /// Episodes that a candidate is judged by.
    #[arg(long, default_value_t = 128)]
    episodes: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What a search came to.
#[derive(Clone, Debug, Serialize)]
struct Found {
    world: String,
    nominal_return: f64,
    oracle_return: f64,
    standard_error: f64,
    crashed: f64,
    seconds: f64,
    gains: std::collections::BTreeMap<&'static str, f32>,
}

impl OracleCmd {
    /// Runs the command.
    ///
    /// # Errors
    /// When the world or the preset does not exist or is not valid.
    pub fn run(&self) -> anyhow::Result<()> {
        let task = Config::preset(&self.preset, &[format!("world={}", self.world)])?.task()?;
        let search = Search {
            population: self.population,
            generations: self.generations,
            episodes: self.episodes,
            seed: self.seed,
            threads: self.threads,
            ..Search::default()
        };
        let started = Instant::now();
        let (gains, _) = oracle::search(&task, &search, |generation, best| {
            if !self.json && generation % 10 == 9 {
                println!("generation {} best {best:.2}", generation + 1);
            }
        });
        let judge = |gains: &Gains| task.evaluate(gains, 1024, JUDGEMENT_SEED, self.threads);
        let (nominal, best) = (judge(&Gains::nominal()), judge(&gains));
        let found = Found {
            world: self.world.clone(),
            nominal_return: nominal.mean_return,
            oracle_return: best.mean_return,
            standard_error: best.standard_error,
            crashed: best.crashed,
            seconds: started.elapsed().as_secs_f64(),
            gains: GAINS.iter().map(|g| g.name).zip(gains.to_array()).collect(),
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&found)?);
        } else {
            println!(
                "return {:.2} ± {:.2} (nominal gains {:.2}) after {:.0} s",
                found.oracle_return, found.standard_error, found.nominal_return, found.seconds
            );
            for (name, value) in &found.gains {
                println!("{name:?} = {value:?}");
            }
        }
        Ok(())
    }
}
