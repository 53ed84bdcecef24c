//! `steady evaluate`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use steady_sim::Task;

use super::parse::{self, Noise};
use crate::closed_loop::{ControllerKind, DroneKind};
use crate::evaluate::bench::{Bench, Job};
use crate::evaluate::results::Results;
use crate::evaluate::suite::{Suite, SuiteSettings};
use crate::evaluate::{figures, report};
use crate::provenance::Provenance;
use crate::{files, interrupt, jobs};

/// Compare controllers over tasks, worlds and seeds, as the paper does.
///
/// Trains in the simulator, learns from flights in closed loops, judges every controller by other flights, and writes
/// tables (results.md, results.json, flights.csv), whether each claim is met, and figures. What is finished is kept:
/// --resume with the same options continues an evaluation that was interrupted.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cmd {
    /// The suite; every other option changes the suite's own value.
    #[arg(long, value_enum, default_value = "paper")]
    suite: Suite,
    /// The drone that flies: native (the firmware's flight code on this computer) or virtual (the firmware's image on
    /// the virtual Crazyflie, slower).
    #[arg(long, value_name = "native|virtual", default_value = "native")]
    drone: DroneKind,
    /// Firmware image of a virtual drone; default: where `cargo xtask firmware` puts it. Another firmware's image, the
    /// official one for example, flies beside ours: its own PID and Mellinger are compared too.
    #[arg(long)]
    elf: Option<PathBuf>,
    /// Worlds: shipped ones, files, or sample-N, measured-N or outside-N for number N of a sampler.
    #[arg(long, value_name = "WORLD", num_args = 1.., value_parser = parse::world)]
    world: Vec<String>,
    /// Tasks: hover, takeoff-land, figure8, and two that nothing learns on: square, helix.
    #[arg(long, value_name = "TASK", num_args = 1.., value_parser = parse::task)]
    task: Vec<Task>,
    /// Controllers.
    #[arg(long, value_enum, value_name = "CONTROLLER", num_args = 1..)]
    controller: Vec<ControllerKind>,
    /// Seeds 1 to so many.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Run folders of `steady train` to use instead of training; they bring their seeds.
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "seeds")]
    run: Vec<PathBuf>,
    /// Preset of the trainings.
    #[arg(long, value_parser = parse::preset)]
    preset: Option<String>,
    /// Exploring flights to learn from, in each task.
    #[arg(long)]
    flights: Option<u32>,
    /// Iterations of the closed loop that they are flown in.
    #[arg(long, alias = "rounds")]
    iterations: Option<u32>,
    /// Flights without noise that judge the table of an iteration.
    #[arg(long)]
    judging: Option<u32>,
    /// Noise in the exploring flights: standard deviations of thrust, roll, pitch and yaw.
    #[arg(long, value_name = "T,R,P,Y")]
    noise: Option<Noise>,
    /// Control steps for which a draw of the noise is held.
    #[arg(long)]
    hold: Option<u16>,
    /// Change one setting of the adaptation.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse::adapt_setting)]
    changes: Vec<String>,
    /// Flights that every controller is judged by in the end.
    #[arg(long)]
    judged: Option<u32>,
    /// Gauss–Newton steps of each of the oracle's searches.
    #[arg(long)]
    oracle_steps: Option<usize>,
    /// Folder for everything.
    #[arg(short, long)]
    out: PathBuf,
    /// Continue an evaluation that was interrupted; worlds, tasks, controllers and seeds may be added.
    #[arg(long)]
    resume: bool,
    /// Jobs at the same time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print the results as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let started = Instant::now();
        let bench = Bench::new(self.settings()?, &self.out, &self.run, self.drone.clone(), self.elf.clone())?;
        bench.open(self.resume)?;
        let open = bench.jobs()?;
        let progress = Progress::new(&self.out, open.len())?;
        interrupt::expect_saving();
        let work = |job: &Job| {
            let begun = Instant::now();
            bench.work(job).with_context(|| job.to_string())?;
            progress.done(job, begun.elapsed().as_secs_f64())
        };
        let complete = jobs::run(&open, self.threads, |job| bench.needs(job), work, interrupt::asked)?;
        progress.close();
        if !complete {
            eprintln!("Interrupted. The same command with --resume continues.");
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
            open.len(),
            started.elapsed().as_secs_f64(),
            pictures.len(),
            self.out.display()
        );
        Ok(())
    }

    /// The suite with this command's changes.
    fn settings(&self) -> Result<SuiteSettings> {
        let mut s = SuiteSettings::of(self.suite);
        let p = &mut s.protocol;
        fn set<T>(place: &mut T, value: Option<T>, max: T, name: &str) -> Result<()>
        where
            T: Copy + PartialOrd + From<u8> + std::fmt::Display,
        {
            *place = value.unwrap_or(*place);
            ensure!(*place >= T::from(1) && *place <= max, "--{name} must be from 1 to {max}");
            Ok(())
        }
        set(&mut p.flights, self.flights, 9999, "flights")?;
        // Fewer flights than the suite's iterations are one an iteration.
        p.iterations = p.iterations.min(p.flights);
        set(&mut p.iterations, self.iterations, p.flights, "iterations")?;
        set(&mut p.judging, self.judging, 200, "judging")?;
        set(&mut p.judged, self.judged, 9999, "judged")?;
        set(&mut p.oracle_steps, self.oracle_steps, 1000, "oracle-steps")?;
        p.preset = self.preset.clone().unwrap_or_else(|| p.preset.clone());
        p.noise = self.noise.map_or(p.noise, |noise| noise.0);
        ensure!(
            p.noise.iter().all(|std| *std > 0.0),
            "--noise must be above 0: without it nothing is explored"
        );
        p.hold = self.hold.unwrap_or(p.hold);
        p.adapt.clone_from(&self.changes);
        if !self.world.is_empty() {
            s.worlds.clone_from(&self.world);
            s.paired = false;
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

/// A bar on a terminal, plain lines elsewhere, and `times.csv` with the time of each job.
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
