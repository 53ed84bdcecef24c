//! `steady adapt`: from a run and the logs of its flights to a better gain table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressFinish};
use serde::Serialize;
use steady_common::GainTable;
use steady_common::gains::{GAIN_COUNT, GAINS};
use steady_sim::World;
use steady_sim::flight::params;

use crate::log::replay::replay;
use crate::log::{self, Log};
use crate::provenance::Provenance;
use crate::stats::mean_95;
use crate::tensorboard::EventFile;
use crate::train::oracle::{gains_of, theta_of};
use crate::train::run as training;
use crate::{files, gains_file};

use super::adapter::{Adapter, Round};
use super::config::Config;
use super::discovery::Found;
use super::flights::{Cut, Flight};
use super::official;
use super::simulated;
use super::worlds::{Consistent, Verdict};

/// Shorter pieces of flights are not looked at, s.
const LEAST_S: f32 = 2.0;

/// What was found, in the folder of the results.
const REPORT: &str = "adapt.json";

/// Learn from logged flights: discover what the simulator lacks, and improve the gains.
#[derive(Args, Clone, Debug)]
pub struct AdaptCmd {
    /// Run folder of `steady train`.
    #[arg(long)]
    pub run: PathBuf,
    /// Logs of flights: files, or folders with logs in them.
    #[arg(long, required = true, num_args = 1..)]
    pub logs: Vec<PathBuf>,
    /// Use the simulator's skills alone, without discovery.
    #[arg(long)]
    pub transfer_only: bool,
    /// Change one setting.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub changes: Vec<String>,
    /// Random numbers of everything.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Adapt with so many seeds from `--seed` on, each into a folder of its own in `--out`: how much of the
    /// proposal is chance.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// Leave out the seeds that are done.
    #[arg(long)]
    pub resume: bool,
    /// Folder for the new table and what is known about it.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Print what was found as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What an adaptation found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Flights that were learned from.
    pub flights: usize,
    /// Their control steps.
    pub steps: usize,
    /// Control steps computed again, all with the logged bits.
    pub replayed: u64,
    /// What the new skills are like.
    pub discovery: Option<Found>,
    /// Squared TD error relative to the returns' spread, on flights that were not fitted.
    pub error_simulator: f64,
    /// The same with the fitted weights.
    pub error_fitted: f64,
    /// Squared error of the next state on pieces of flights that were not fitted, relative to how far the state
    /// moves: by the simulator that the run was trained in, by its skills alone, and by all skills.
    pub prediction: Prediction,
    /// What the change is believed to bring.
    pub improvement: Improvement,
    /// Part of the allowed step that was taken; 0 when the worlds refused every one.
    pub step: f32,
    /// KL divergence from the present policy, per transition.
    pub divergence: f64,
    /// Sampler seeds of the worlds like the data.
    pub worlds: Vec<u64>,
    /// What became of the table there.
    pub verdict: Verdict,
    /// Gains, most changed first.
    pub gains: Vec<Change>,
    /// L_disc and λ at every update of the discovery.
    #[serde(skip)]
    pub trace: Vec<[f64; 2]>,
}

/// How well the next state is predicted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Prediction {
    /// By the simulator itself, P°.
    pub simulator: f64,
    /// With the simulator's skills alone.
    pub transfer: f64,
    /// With the new skills too, where there are any.
    pub discovery: Option<f64>,
    /// How much of the error discovery takes away, and half the width of its 95 % interval over pieces.
    pub explained: Option<(f64, f64)>,
}

impl Prediction {
    fn of(simulator: f64, round: &Round) -> Self {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
        match &round.transfer {
            None => {
                Self { simulator, transfer: mean(&round.dynamics.held_out), discovery: None, explained: None }
            }
            Some(transfer) => {
                let pairs = transfer.held_out.iter().zip(&round.dynamics.held_out);
                let less: Vec<f64> = pairs.map(|(without, with)| without - with).collect();
                Self {
                    simulator,
                    transfer: mean(&transfer.held_out),
                    discovery: Some(mean(&round.dynamics.held_out)),
                    explained: Some(mean_95(&less)),
                }
            }
        }
    }
}

/// What a change is believed to bring to a flight's cumulative reward.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Improvement {
    /// Reward of a flight with the present gains, without its constant.
    pub present: f64,
    /// How much more the proposed gains bring.
    pub predicted: f64,
    /// Standard deviation of that over bootstrap samples.
    pub spread: f64,
}

/// How a gain changed.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The gain.
    pub name: &'static str,
    /// Its value in the present table.
    pub from: f32,
    /// Its value in the new one.
    pub to: f32,
    /// ∂R/∂ ln k, with R a flight's reward.
    pub gradient: f64,
    /// Its standard deviation over bootstrap samples.
    pub spread: f64,
}

impl AdaptCmd {
    /// Runs the command.
    ///
    /// # Errors
    /// When the run or a log cannot be read, a log does not replay, or there is nothing to learn from.
    pub fn run(&self) -> Result<()> {
        let mut reports = Vec::new();
        for seed in self.seed..self.seed + self.seeds.max(1) {
            let out = if self.seeds > 1 { self.out.join(format!("seed{seed}")) } else { self.out.clone() };
            if self.resume && out.join(REPORT).is_file() {
                eprintln!("{}: done already", out.display());
                continue;
            }
            let (_, report) = Self { seed, out: out.clone(), ..self.clone() }.adapt()?;
            report.log(&out)?;
            let provenance = serde_json::to_vec_pretty(&Provenance::of_this_run(seed))?;
            files::write(&out.join("provenance.json"), &provenance)?;
            if !self.json {
                report.show(&out);
            }
            reports.push(report);
        }
        match reports.as_slice() {
            [report] if self.json => println!("{}", serde_json::to_string_pretty(report)?),
            _ if self.json => println!("{}", serde_json::to_string_pretty(&reports)?),
            [_, _, ..] => {
                let predicted: Vec<f64> = reports.iter().map(|r| r.improvement.predicted).collect();
                let (mean, half) = mean_95(&predicted);
                println!(
                    "{} seeds: believed to bring {mean:+.0} ± {half:.0} (95 % over seeds)",
                    reports.len()
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// Adapts and writes the results; gives the new table and what was found.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn adapt(&self) -> Result<(GainTable, Report)> {
        let mut config = Config::with(&self.changes)?;
        config.discovery &= !self.transfer_only;
        let progress = self.progress();
        progress.set_message("reading the run");
        let trainer = training::load(&self.run, self.threads)?;
        progress.set_message("replaying the logs");
        let replayed = self.check_replay()?;
        let recording = log::transitions(&self.logs)?;
        let mut rounds: Vec<(GainTable, Vec<Flight>)> = Vec::new();
        for segment in &recording.segments {
            let Some(table) = segment.gains else { continue };
            let mut records: Vec<_> = segment.before.into_iter().collect();
            records.extend_from_slice(&segment.steps);
            let rate = segment.steps.first().map_or(0.002, |s| s.dt_s);
            let flights = Flight::from_records(&records, (LEAST_S / rate.max(1e-4)) as usize);
            match rounds.iter_mut().find(|(t, _)| *t == table) {
                Some((_, all)) => all.extend(flights),
                None => rounds.push((table, flights)),
            }
        }
        rounds.retain(|(_, flights)| !flights.is_empty());
        if rounds.is_empty() {
            // Not this firmware's: the run's gains are where its table would begin.
            let table = GainTable {
                vehicle: trainer.task.vehicle,
                gains: trainer.best_gains(),
                ..GainTable::built_in()
            };
            let flights = official::flights(&self.logs, &table.gains, &table.vehicle, LEAST_S)?;
            if !flights.is_empty() {
                rounds.push((table, flights));
            }
        }
        rounds.sort_by_key(|(table, _)| table.sequence);
        let (present, newest) = rounds.last().context(
            "there is nothing to learn from: no log has two seconds of flight with the differentiable law and \
             known gains (`steady log info` shows what is in them)",
        )?;
        let present = *present;
        let flight = newest.iter().max_by_key(|f| f.steps.len()).context("no flight")?.clone();
        let theta = theta_of(&present.gains);
        let mut adapter = Adapter::new(config, &trainer, theta, self.seed);
        let flights: usize = rounds.iter().map(|(_, f)| f.len()).sum();
        for (_, flights) in rounds {
            adapter.next_round();
            adapter.add(flights);
        }
        let simulator = params(&World::load(&trainer.config.world)?)?;
        let length = Cut::of(&trainer.task).steps_per_transition(&adapter.flights);
        let gap = simulated::prediction_error(&simulator, &adapter.flights, length);
        progress.set_message("discovering skills and improving the gains");
        let found = adapter.round(1.0);
        progress.set_message("flying the new gains in worlds like the data");
        let worlds = Consistent::with(&flight, &present.gains, &present.vehicle, self.threads);
        let accepted = worlds.accept(&theta, &found.step.theta, &flight, &present);
        let part = accepted.part;
        // A step that was refused leaves the table's own bits.
        let new = if part > 0.0 { gains_of(&accepted.theta) } else { present.gains };
        let table = GainTable { sequence: present.sequence + 1, gains: new, ..present };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
        let mut gains: Vec<Change> = (0..GAIN_COUNT)
            .map(|i| Change {
                name: GAINS[i].name,
                from: present.gains.to_array()[i],
                to: new.to_array()[i],
                gradient: found.step.gradient[i],
                spread: found.step.gradient_spread[i],
            })
            .collect();
        gains.sort_by(|a, b| (b.to / b.from).ln().abs().total_cmp(&(a.to / a.from).ln().abs()));
        let report = Report {
            flights,
            steps: adapter.flights.iter().map(|f| f.steps.len()).sum(),
            replayed,
            discovery: found.found,
            error_simulator: mean(&found.value.prior_error),
            error_fitted: mean(&found.value.held_out),
            prediction: Prediction::of(gap, &found),
            improvement: Improvement {
                present: found.step.present,
                predicted: found.step.gain,
                spread: found.step.spread,
            },
            step: part,
            divergence: found.step.divergence * f64::from(part * part),
            worlds: worlds.seeds(),
            verdict: accepted.verdict,
            gains,
            trace: adapter.new.map(|new| new.trace).unwrap_or_default(),
        };
        drop(progress);
        write(&self.out, &table, &report)?;
        Ok((table, report))
    }

    /// What is being done, on a terminal.
    fn progress(&self) -> ProgressBar {
        let progress = if self.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        progress.enable_steady_tick(Duration::from_millis(100));
        progress.with_finish(ProgressFinish::AndClear)
    }

    /// Every control step of the logs computed again; nothing is learned from logs that the law does not
    /// reproduce.
    fn check_replay(&self) -> Result<u64> {
        let mut replayed = 0;
        for path in log::find(&self.logs)?.logs {
            let found = replay(&mut Log::open(&path)?, &[])?;
            ensure!(
                found.differing_bits == 0 && found.differing_memory_bits == 0,
                "{}: the law makes something else of this log than the drone did; `steady log replay` shows \
                 where",
                path.display()
            );
            replayed += found.replayed;
        }
        Ok(replayed)
    }
}

impl Report {
    /// TensorBoard events: the discovery update by update, then what came of it.
    fn log(&self, out: &Path) -> Result<()> {
        let mut events = EventFile::create(out)?;
        for (update, [loss, lambda]) in (1..).zip(&self.trace) {
            let values = [("discovery/loss_disc", *loss), ("discovery/lambda", *lambda)];
            events.scalars(update, &values)?;
        }
        let Prediction { simulator, transfer, discovery, .. } = self.prediction;
        let mut values = vec![
            ("prediction/simulator", simulator),
            ("prediction/transfer", transfer),
            ("improvement/predicted", self.improvement.predicted),
            ("improvement/spread", self.improvement.spread),
            ("improvement/step", f64::from(self.step)),
        ];
        values.extend(discovery.map(|error| ("prediction/discovery", error)));
        values.extend(self.discovery.map(|found| ("discovery/correlation", found.correlation)));
        events.scalars(self.trace.len() as u64, &values)
    }

    fn show(&self, out: &Path) {
        println!(
            "{} flights, {} control steps, {} replayed bit for bit",
            self.flights, self.steps, self.replayed
        );
        if self.replayed == 0 {
            println!(
                "the logs are another firmware's: the law's memory and the noise are computed, not read; take the \
                 table for a proposal"
            );
        }
        let Prediction { simulator, transfer, discovery, explained } = self.prediction;
        print!(
            "squared error of the next state on pieces that were not fitted, relative to how far it moves: {simulator:.3} \
             by the simulator, {transfer:.3} with its skills"
        );
        if let (Some(error), Some((less, half))) = (discovery, explained) {
            print!(", {error:.3} with the new ones (less by {less:.3} ± {half:.3})");
        }
        println!();
        if discovery.unwrap_or(transfer) >= 1.0 {
            println!(
                "that is no better than to say that nothing moves: these flights do not tell what other gains would \
                 do; fly with exploration noise"
            );
        }
        println!(
            "squared TD error on flights that were not fitted, relative to the returns' spread: {:.3} with the \
             simulator's weights, {:.3} fitted",
            self.error_simulator, self.error_fitted
        );
        if let Some(found) = &self.discovery {
            println!(
                "new skills: largest correlation with the simulator's {:.1e} (by the penalty alone {:.2})",
                found.correlation, found.correlation_by_penalty
            );
        }
        match &self.verdict {
            Verdict { refused: Some(why), .. } => println!("no change is proposed: {why}"),
            verdict => println!(
                "in {} worlds like the data: reward of a step {:.3} with the present gains, {:.3} with the new; \
                 {:.0} % of the step was taken",
                verdict.worlds,
                verdict.present,
                verdict.new,
                100.0 * self.step
            ),
        }
        let Improvement { present, predicted, spread } = self.improvement;
        println!(
            "reward of a flight: {present:.0} now; the whole step is believed to bring {predicted:+.0} ± {spread:.0}"
        );
        println!("{:<14} {:>10} {:>10} {:>8}  gradient", "gain", "from", "to", "change");
        for c in self.gains.iter().take(8) {
            let change = 100.0 * (c.to / c.from - 1.0);
            println!(
                "{:<14} {:>10.4} {:>10.4} {change:>+7.0}%  {:+.0} ± {:.0}",
                c.name, c.from, c.to, c.gradient, c.spread
            );
        }
        println!("{}", out.join("gains.bin").display());
    }
}

fn write(out: &Path, table: &GainTable, report: &Report) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
    files::write(&out.join("gains.toml"), gains_file::to_toml(table).as_bytes())?;
    files::write(&out.join("gains.bin"), &table.encode())?;
    files::write(&out.join(REPORT), &serde_json::to_vec_pretty(report)?)
}
