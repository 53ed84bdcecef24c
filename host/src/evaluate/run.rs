//! `steady evaluate`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use steady_common::exploration::Exploration;
use steady_sim::flight::Task;

use crate::cmd::fly::Noise;
use crate::files;
use crate::provenance::Provenance;
use crate::train::run::interrupt;

use super::bench::{Bench, Job};
use super::results::Results;
use super::suite::{Controller, Settings, Suite};
use super::{figures, queue, report};

/// Compare controllers over tasks, worlds and seeds, as the paper does.
///
/// Trains in the simulator, learns from simulated flights, flies for the record, and writes tables
/// (results.md, results.json, flights.csv), whether each claim is met, and pictures. What is finished is kept:
/// --resume with the same options goes on where an evaluation was ended.
#[derive(Args, Clone, Debug)]
pub struct EvaluateCmd {
    /// What it is for; every other option changes the suite's own value.
    #[arg(long, value_enum, default_value = "paper")]
    suite: Suite,
    /// Worlds: shipped ones, files, or sample-N for number N of the sampler.
    #[arg(long, value_name = "WORLD", num_args = 1..)]
    world: Vec<String>,
    /// Tasks: hover, takeoff-land, figure8, and two that nobody learns on: square, helix.
    #[arg(long, value_name = "TASK", num_args = 1..)]
    task: Vec<Task>,
    /// Controllers.
    #[arg(long, value_enum, value_name = "CONTROLLER", num_args = 1..)]
    controller: Vec<Controller>,
    /// Seeds 1 to so many.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Run folders of `steady train` to use instead of training; they bring their seeds.
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "seeds")]
    run: Vec<PathBuf>,
    /// Preset of the trainings.
    #[arg(long)]
    preset: Option<String>,
    /// Flights to learn from, in each task.
    #[arg(long)]
    flights: Option<usize>,
    /// Rounds in which they are flown.
    #[arg(long)]
    rounds: Option<usize>,
    /// Noise in these flights: standard deviations of thrust, roll, pitch and yaw.
    #[arg(long, value_name = "T,R,P,Y")]
    noise: Option<Noise>,
    /// Control steps for which a draw of the noise is held.
    #[arg(long)]
    hold: Option<u16>,
    /// Change one setting of the adaptation.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Flights that every controller is judged by.
    #[arg(long)]
    judged: Option<usize>,
    /// Generations of the oracle's search.
    #[arg(long)]
    oracle_generations: Option<usize>,
    /// Folder for everything.
    #[arg(short, long)]
    out: PathBuf,
    /// Go on with an evaluation that was ended; worlds, tasks, controllers and seeds may be added.
    #[arg(long)]
    resume: bool,
    /// Things that are computed at the same time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print the results as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

impl EvaluateCmd {
    /// Runs the command.
    ///
    /// # Errors
    /// When an option is not valid, or a file cannot be read or written.
    pub fn run(&self) -> Result<()> {
        let started = Instant::now();
        let bench = Bench::new(self.settings()?, &self.out, &self.run)?;
        bench.open(self.resume)?;
        let jobs = bench.jobs()?;
        let progress = Progress::new(&self.out, jobs.len())?;
        interrupt::expect_saving();
        let work = |job: &Job| {
            let begun = Instant::now();
            bench.work(job).with_context(|| job.to_string())?;
            progress.done(job, begun.elapsed().as_secs_f64())
        };
        let complete = queue::run(&jobs, self.threads, |job| bench.needs(job), work, interrupt::asked)?;
        progress.close();
        if !complete {
            eprintln!("Interrupted. The same command with --resume goes on.");
            std::process::exit(130);
        }
        let results = Results::load(&bench)?;
        let report = report::Report::new(&results);
        let (text, json) = (report.markdown(), serde_json::to_vec_pretty(&report)?);
        let write = |name: &str, bytes: &[u8]| files::write(&self.out.join(name), bytes);
        write("results.md", text.as_bytes())?;
        write("results.json", &json)?;
        write("flights.csv", &report::csv(&results)?)?;
        let seed = results.settings.seeds.first().copied().unwrap_or(1);
        write("provenance.json", &serde_json::to_vec_pretty(&Provenance::of_this_run(seed))?)?;
        let pictures = figures::draw(&bench, &results)?;
        if self.json {
            println!("{}", String::from_utf8_lossy(&json));
        } else {
            print!("{text}");
        }
        eprintln!(
            "{} jobs in {:.0} s; results.md, results.json, flights.csv and {} pictures in {}",
            jobs.len(),
            started.elapsed().as_secs_f64(),
            pictures.len(),
            self.out.display()
        );
        Ok(())
    }

    /// The suite with this command's changes.
    fn settings(&self) -> Result<Settings> {
        let mut s = Settings::of(self.suite);
        let plan = &mut s.plan;
        let set = |place: &mut usize, value: Option<usize>, name: &str| {
            *place = value.unwrap_or(*place);
            ensure!((1..=10_000).contains(place), "--{name} must be from 1 to 10000");
            Ok(())
        };
        set(&mut plan.flights, self.flights, "flights")?;
        // Fewer flights than the suite's rounds are one a round.
        plan.rounds = plan.rounds.min(plan.flights);
        set(&mut plan.rounds, self.rounds, "rounds")?;
        set(&mut plan.judged, self.judged, "judged")?;
        set(&mut plan.oracle_generations, self.oracle_generations, "oracle-generations")?;
        ensure!(
            plan.rounds <= plan.flights,
            "{} flights cannot be flown in {} rounds: a round needs one at least",
            plan.flights,
            plan.rounds
        );
        plan.preset = self.preset.clone().unwrap_or_else(|| plan.preset.clone());
        plan.noise = self.noise.map_or(plan.noise, |noise| noise.0);
        ensure!(
            plan.noise.iter().all(|std| *std > 0.0 && *std <= Exploration::LIMIT),
            "--noise must be above 0: nothing can be learned of what is never tried"
        );
        plan.hold = self.hold.unwrap_or(plan.hold);
        ensure!(plan.hold > 0, "--hold must be at least 1");
        plan.adapt.clone_from(&self.changes);
        if !self.world.is_empty() {
            s.worlds.clone_from(&self.world);
        }
        if !self.task.is_empty() {
            s.tasks = distinct(&self.task);
        }
        if !self.controller.is_empty() {
            s.controllers = distinct(&self.controller);
        }
        if let Some(seeds) = self.seeds {
            s.seeds = (1..=seeds).collect();
        }
        Ok(s)
    }
}

/// The first of each.
fn distinct<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    all.iter().enumerate().filter(|(i, item)| !all[..*i].contains(item)).map(|(_, item)| *item).collect()
}

/// A bar on a terminal, plain lines elsewhere, and `times.csv` with what each thing took.
struct Progress {
    bar: Option<ProgressBar>,
    jobs: usize,
    done: Mutex<(usize, std::fs::File)>,
}

impl Progress {
    fn new(out: &std::path::Path, jobs: usize) -> Result<Self> {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}");
            let bar = ProgressBar::new(jobs as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let path = out.join("times.csv");
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { bar, jobs, done: Mutex::new((0, file)) })
    }

    fn done(&self, job: &Job, seconds: f64) -> Result<()> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0 += 1;
        writeln!(done.1, "\"{job}\",{seconds:.1}").context("times.csv: cannot be written")?;
        let line = format!("{}/{} {job}: {seconds:.1} s", done.0, self.jobs);
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.println(line);
            }
            None => eprintln!("{line}"),
        }
        Ok(())
    }

    fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
