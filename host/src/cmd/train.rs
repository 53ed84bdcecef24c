//! `steady train`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use steady_learn::search::Standing;

use crate::out::Table;
use crate::torch;
use crate::train::config::Config;
use crate::train::curve;
use crate::train::flown::Flown;
use crate::train::run::{self, TrainingResult};
use crate::train::summary::Summary;
use crate::train::trainer::{RoundMetrics, Trainer};

/// Learn skills and a policy in a simulated world.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cmd {
    /// smoke (seconds), quick (minutes) or paper (half an hour).
    #[arg(long, default_value = "quick")]
    preset: String,
    /// World to train in: a shipped one or a file.
    #[arg(long)]
    world: Option<String>,
    /// Random seed; the same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Train this many seeds, one after the other, from `--seed` on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Change one setting of the preset.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Folder for the results; default: one in `runs` named after preset, world and seed.
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

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        if let Some(folder) = &self.resume {
            let trainer = run::load(folder, self.threads)?;
            return self.finish(&[self.train(trainer, folder)?]);
        }
        let mut changes = self.changes.clone();
        changes.extend(self.world.iter().map(|world| format!("world={world}")));
        let config = Config::preset(&self.preset, &changes)?;
        if self.print_config {
            print!("{}", config.to_toml());
            return Ok(());
        }
        let mut results = Vec::new();
        for seed in self.seed..self.seed + self.seeds.max(1) {
            let name = Path::new(&config.world).file_stem().unwrap_or_default().to_string_lossy();
            let folder = match &self.out {
                Some(out) if self.seeds <= 1 => out.clone(),
                Some(out) => out.join(format!("seed{seed}")),
                None => PathBuf::from(format!("runs/{}-{name}-seed{seed}", self.preset)),
            };
            let trainer = Trainer::new(config.clone(), seed, self.threads)?;
            run::begin(&folder, &config, seed)?;
            results.push(self.train(trainer, &folder)?);
            if results.last().is_some_and(|result| !result.complete) {
                break;
            }
        }
        self.finish(&results)
    }

    fn train(&self, trainer: Trainer, folder: &Path) -> Result<TrainingResult> {
        torch::set_threads(self.torch_threads);
        let progress = Progress::new(&trainer, self.json);
        let (result, summary) = run::train(trainer, folder, |metrics| progress.show(metrics))?;
        drop(progress);
        if !self.json {
            summary.iter().for_each(show);
            println!(
                "seed {}: return {:.1} ± {:.1} (nominal gains {:.1}) after {} transitions and {:.0} s; {}",
                result.seed,
                result.learned_return,
                result.standard_error,
                result.nominal_return,
                result.transitions,
                result.seconds,
                folder.display()
            );
            if let Some(flown) = result.flown {
                show_flown(&flown);
            }
        }
        Ok(result)
    }

    fn finish(&self, results: &[TrainingResult]) -> Result<()> {
        if let [first, _, ..] = results {
            let runs: Vec<PathBuf> = results.iter().map(|o| o.folder.clone()).collect();
            let folder = first.folder.parent().unwrap_or(Path::new("."));
            let [svg, png] = curve::draw(folder, &runs, first.nominal_return)?;
            if !self.json {
                println!("learning curve over {} seeds: {}, {}", runs.len(), svg.display(), png.display());
            }
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(results)?);
        }
        if results.iter().any(|o| !o.complete) {
            eprintln!("Interrupted. Continue with --resume and the folder.");
            std::process::exit(130);
        }
        Ok(())
    }
}

/// How well the skills represent returns.
fn show(summary: &Summary) {
    println!(
        "skills: {} features, effective rank {:.0}, held-out L_feat {:.2}; R² of held-out returns:",
        summary.features, summary.effective_rank, summary.held_out_loss
    );
    for fit in &summary.fits {
        println!("  {:<14} {:<13} {:.3}", fit.policy, fit.task, fit.r2);
    }
}

/// What whole flights made of the gains.
fn show_flown(flown: &Flown) {
    let mut table = Table::new(["figure eight in random worlds", "reward", "failed"]);
    let rows = [
        ("built-in gains", flown.nominal),
        ("best in episodes", flown.trained),
        ("gains.toml", flown.chosen),
    ];
    for (name, Standing { reward, failed, flights }) in rows {
        table.row([name.to_owned(), format!("{reward:.0}"), format!("{failed} of {flights}")]);
    }
    print!("{table}");
}

/// A bar on a terminal, plain lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    started: Instant,
}

impl Progress {
    fn new(trainer: &Trainer, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = (is_terminal && !quiet).then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ETA {eta}");
            let bar =
                ProgressBar::new(trainer.config.rounds as u64).with_position(trainer.rounds_done() as u64);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, plain: !is_terminal && !quiet, started: Instant::now() }
    }

    fn show(&self, m: &RoundMetrics) {
        let rate = m.transitions as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
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
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
