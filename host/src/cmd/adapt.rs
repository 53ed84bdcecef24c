//! `steady adapt`: from a run and the logs of its flights to a better gain table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressFinish};
use steady_sim::script::Course;

use super::parse;
use crate::adapt::config::Model;
use crate::adapt::report::{Improvement, Lacking, NAME, Prediction};
use crate::adapt::{AdaptOptions, AdaptReport, adapt};
use crate::files;
use crate::provenance::Provenance;
use crate::stats::Estimate;
use crate::tensorboard::EventFile;

/// Learn from logged flights: discover what the simulator lacks, and improve the gains.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cmd {
    /// Run folder of `steady train`.
    #[arg(long)]
    run: PathBuf,
    /// Logs of flights: files, or folders with logs in them.
    #[arg(long, required = true, num_args = 1..)]
    logs: Vec<PathBuf>,
    /// What was flown: a task, or a file of polynomial pieces (.csv). Without it, gains are searched for all of the
    /// newest flight, take-off and landing included.
    #[arg(long)]
    task: Option<Course>,
    /// Use the simulator's skills alone, without discovery.
    #[arg(long)]
    transfer_only: bool,
    /// Change one setting.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse::adapt_setting)]
    changes: Vec<String>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Adapt with this many seeds from `--seed` on, each into a folder of its own in `--out`: how much of the
    /// proposal is chance.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Leave out the seeds that are done.
    #[arg(long)]
    resume: bool,
    /// Folder for the new table and what is known about it.
    #[arg(short, long)]
    out: PathBuf,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let mut reports = Vec::new();
        for seed in self.seed..self.seed + self.seeds.max(1) {
            let out = if self.seeds > 1 { self.out.join(format!("seed{seed}")) } else { self.out.clone() };
            if self.resume && out.join(NAME).is_file() {
                eprintln!("{}: done already", out.display());
                continue;
            }
            let progress = self.progress();
            let adaptation = adapt(&AdaptOptions {
                run: self.run.clone(),
                logs: self.logs.clone(),
                transfer_only: self.transfer_only,
                changes: self.changes.clone(),
                course: self.task.clone(),
                scale: 1.0,
                seed,
                threads: self.threads,
            })?;
            drop(progress);
            adaptation.save(&out)?;
            write_events(&adaptation.report, &out)?;
            let provenance = serde_json::to_vec_pretty(&Provenance::of_this_run(seed))?;
            files::write(&out.join("provenance.json"), &provenance)?;
            if !self.json {
                show(&adaptation.report, &out);
            }
            reports.push(adaptation.report);
        }
        match reports.as_slice() {
            [report] if self.json => println!("{}", serde_json::to_string_pretty(report)?),
            _ if self.json => println!("{}", serde_json::to_string_pretty(&reports)?),
            [_, _, ..] => {
                let predicted: Vec<f64> = reports.iter().map(|r| r.improvement.predicted).collect();
                println!(
                    "{} seeds: predicted reward change {:.0} (95 % over seeds)",
                    reports.len(),
                    Estimate::of(&predicted)
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn progress(&self) -> ProgressBar {
        let progress = if self.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        progress.set_message("learning from the logs");
        progress.enable_steady_tick(Duration::from_millis(100));
        progress.with_finish(ProgressFinish::AndClear)
    }
}

/// TensorBoard events: the discovery update by update, then what came of it.
fn write_events(report: &AdaptReport, out: &Path) -> Result<()> {
    let mut events = EventFile::create(out)?;
    for (update, [loss, lambda]) in (1..).zip(&report.trace) {
        events.scalars(update, &[("discovery/loss_disc", *loss), ("discovery/lambda", *lambda)])?;
    }
    let Prediction { simulator, transfer, discovery, .. } = report.prediction;
    let mut values = vec![
        ("prediction/simulator", simulator),
        ("prediction/transfer", transfer),
        ("improvement/predicted", report.improvement.predicted),
        ("improvement/std", report.improvement.std),
        ("improvement/step", f64::from(report.step)),
    ];
    values.extend(discovery.map(|error| ("prediction/discovery", error)));
    values.extend(report.discovery.map(|found| ("discovery/correlation", found.correlation)));
    events.scalars(report.trace.len() as u64, &values)
}

fn show(report: &AdaptReport, out: &Path) {
    println!(
        "{} flights, {} control steps, {} replayed bit for bit",
        report.flights, report.steps, report.replayed
    );
    if report.replayed == 0 {
        println!(
            "the logs are another firmware's: the law's memory and the noise are computed, not read; check the table \
             before it flies"
        );
    }
    let Prediction { simulator, transfer, discovery, reduction } = report.prediction;
    let by = match report.model {
        Model::Simulator => "with its parameters identified",
        Model::Skills => "on pieces that were not fitted, by its skills",
    };
    print!(
        "squared error of the next state, relative to how far it moves: simulator {simulator:.3}, {by} {transfer:.3}"
    );
    if let (Some(error), Some(less)) = (discovery, reduction) {
        print!(", with the new ones {error:.3} (less by {less:.3})");
    }
    println!();
    if discovery.unwrap_or(transfer) >= 1.0 {
        println!(
            "no better than predicting that nothing moves: these flights do not tell what other gains would do; fly with \
             exploration noise"
        );
    }
    if let Some(found) = &report.discovery {
        println!(
            "new skills: largest correlation with the simulator's {:.1e} (by the penalty alone {:.2})",
            found.correlation, found.correlation_by_penalty
        );
    }
    let worlds = &report.worlds;
    match &worlds.refused {
        Some(why) if report.step == 0.0 => println!("no change is proposed: {why}"),
        _ => println!(
            "in {} worlds that resemble the data: reward {:.0} with the present gains, {:.0} with the new ones; {:.0} % of \
             the step is taken",
            worlds.worlds.len(),
            worlds.present_reward.unwrap_or(f64::NAN),
            worlds.new_reward.unwrap_or(f64::NAN),
            100.0 * report.step
        ),
    }
    let Improvement { present, predicted, std } = report.improvement;
    println!(
        "reward of a flight: {present:.0} now; predicted reward change {predicted:+.0} ± {std:.0} by the whole step"
    );
    if let Some(latency_s) = report.latency_s {
        println!("motion capture is about {:.0} ms late", 1e3 * latency_s);
    }
    if let Some(Lacking { unexplained: [x, y, z, p, q, r], left, .. }) = report.lacking {
        println!(
            "the simulator lacks {x:.2}, {y:.2}, {z:.2} m/s² and {p:.2}, {q:.2}, {r:.2} rad/s² (root mean squares); new \
             skills leave {} of the squares where they were not fitted",
            left.map(|left| format!("{:.0} %", 100.0 * left)).join(", ")
        );
    }
    for p in report.parameters.iter().filter(|p| p.is_told) {
        println!("{:<26} {:>10.3e} ({:.2e} to {:.2e})", p.name, p.value, p.low, p.high);
    }
    println!("{:<14} {:>10} {:>10} {:>8}  gradient", "gain", "from", "to", "change");
    for c in report.gains.iter().take(8) {
        let change = 100.0 * (c.to / c.from - 1.0);
        let gradient = c.gradient.map_or_else(String::new, |[g, std]| format!("  {g:+.0} ± {std:.0}"));
        println!("{:<14} {:>10.4} {:>10.4} {change:>+7.0}%{gradient}", c.name, c.from, c.to);
    }
    println!("{}", out.join("gains.bin").display());
}
