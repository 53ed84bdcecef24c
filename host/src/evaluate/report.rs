//! Results as Markdown, JSON and CSV.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use steady_sim::metrics::{REWARD, TRACKING_ERROR};
use steady_sim::{METRICS, Task};

use super::claims::{Bound, Claim, ClaimStatus, claims, pooled};
use super::harm::{HarmCheck, compare};
use super::results::{ALL_WORLDS, Discovered, Group, Results, TableRow, estimate};
use super::suite::{Suite, SuiteSettings, learned_on};
use crate::closed_loop::journal::Made;
use crate::closed_loop::{ControllerKind, MetricSummary};
use crate::out::Table;
use crate::stats::Estimate;

/// Everything that an evaluation shows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) settings: SuiteSettings,
    pub(crate) rows: Vec<TableRow>,
    /// What it should show and whether it does; of the suites `paper`, `quick` and `outside`.
    pub(crate) claims: Vec<Claim>,
    /// STEADY against the Simulator, flight by flight.
    pub(crate) harm: Vec<HarmCheck>,
    /// What learning from flights took and brought.
    pub(crate) learning: Vec<Learning>,
}

/// Learning of a controller, over seeds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Learning {
    pub(crate) world: String,
    pub(crate) task: Task,
    pub(crate) controller: ControllerKind,
    pub(crate) variation: String,
    pub(crate) loops: usize,
    pub(crate) exploring_flights: usize,
    pub(crate) failed: usize,
    pub(crate) judging_flights: usize,
    /// Iterations without a proposal: the worlds refused every part of the step.
    pub(crate) refused: usize,
    pub(crate) rolled_back: usize,
    /// Loops that ended with the first table.
    pub(crate) unchanged: usize,
    /// Held-out squared error of the next state relative to how far it moves, with the new skills, in the last
    /// adaptation.
    pub(crate) error_with_discovery: Option<Estimate>,
    /// The same with the simulator's skills alone, same flights and gains.
    pub(crate) error_without_discovery: Option<Estimate>,
    /// Largest normalised correlation of a new skill with one of the simulator's.
    pub(crate) correlation: Option<f64>,
    /// The same before the projection: by the penalty λ alone.
    pub(crate) correlation_by_penalty: Option<f64>,
}

impl Report {
    pub(crate) fn new(results: &Results) -> Self {
        Self {
            settings: results.settings.clone(),
            rows: results.rows(),
            claims: match results.settings.suite {
                Suite::Paper | Suite::Quick => claims(results),
                _ if results.settings.paired => pooled(results),
                _ => Vec::new(),
            },
            harm: compare(results),
            learning: results.groups().filter_map(|group| learning(results, group)).collect(),
        }
    }

    /// For people.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let s = &self.settings;
        let p = &s.protocol;
        writeln!(text, "# Evaluation\n")?;
        write!(
            text,
            "{} drone, {} seed{}, preset `{}`; closed loops of {} iterations and {} exploring flights with noise {:?} held {} \
             steps, {} judging flights for each table; every controller judged by {} other flights without noise.",
            p.drone,
            s.seeds.len(),
            if s.seeds.len() == 1 { "" } else { "s" },
            p.preset,
            p.iterations,
            p.flights,
            p.noise,
            p.hold,
            p.judging,
            p.judged
        )?;
        writeln!(text, "{}", if s.seeds.len() > 1 { " ± is the 95 % interval over seeds." } else { "" })?;
        if !self.claims.is_empty() {
            self.write_claims(text)?;
        }
        if s.suite == Suite::Harm || s.paired {
            self.write_harm(text)?;
        }
        let all = s.paired.then(|| ALL_WORLDS.to_owned());
        for world in all.iter().chain(&s.worlds) {
            for task in &s.tasks {
                let rows = self.rows.iter().filter(|r| r.world == *world && r.task == *task);
                write_table(text, world, *task, rows)?;
            }
        }
        self.write_learning(text)
    }

    fn write_claims(&self, text: &mut String) -> std::fmt::Result {
        let count =
            |wanted: fn(&ClaimStatus) -> bool| self.claims.iter().filter(|c| wanted(&c.status)).count();
        writeln!(
            text,
            "\n## Claims\n\n{} met, {} met on average only, {} missed, {} not measured.\n",
            count(|v| *v == ClaimStatus::Met),
            count(|v| *v == ClaimStatus::MetOnAverage),
            count(|v| *v == ClaimStatus::Missed),
            count(|v| matches!(v, ClaimStatus::Unmeasured(_)))
        )?;
        let mut table = Table::new(["claim", "needed", "measured", "status"]);
        for claim in &self.claims {
            let unit = claim.unit;
            let digits = if unit == "%" { 1 } else { 3 };
            let needed = match claim.needed {
                Bound::AtLeast(bound) => format!("≥ {bound} {unit}"),
                Bound::MoreThan(bound) => format!("> {bound} {unit}"),
                Bound::AtMost(bound) => format!("≤ {bound} {unit}"),
            };
            let measured = claim.measured.map_or_else(|| "–".to_owned(), |m| format!("{m:.digits$} {unit}"));
            let status = match &claim.status {
                ClaimStatus::Met => "met",
                ClaimStatus::MetOnAverage => "met on average; the interval does not prove it",
                ClaimStatus::Missed => "**missed**",
                ClaimStatus::Unmeasured(reason) => reason,
            };
            table.row([&claim.text, needed.trim(), measured.trim(), status]);
        }
        write!(text, "{table}")
    }

    fn write_harm(&self, text: &mut String) -> std::fmt::Result {
        let harmed = self.harm.iter().filter(|c| c.harmed).count();
        let failures: usize = self.harm.iter().map(|c| c.new_failures).sum();
        writeln!(
            text,
            "\n## Harm\n\nSTEADY less Simulator, flight by flight with the same seeds; ± over flights. {} {failures} flights \
             failed that do not fail with the simulator's gains.\n",
            match harmed {
                0 => format!(
                    "In none of {} worlds and tasks is STEADY worse beyond its interval.",
                    self.harm.len()
                ),
                n => format!("**In {n} of {} worlds and tasks STEADY does harm.**", self.harm.len()),
            },
        )?;
        let headings = [
            "world",
            "task",
            &TRACKING_ERROR.heading(),
            &REWARD.heading(),
            "new failures",
            "saved",
            "status",
        ];
        let mut table = Table::new(headings);
        for c in &self.harm {
            table.row([
                c.world.clone(),
                c.task.to_string(),
                format!("{:.*}", TRACKING_ERROR.digits, c.tracking_error_m.scaled(TRACKING_ERROR.scale)),
                format!("{:.*}", REWARD.digits, c.cumulative_reward.scaled(REWARD.scale)),
                c.new_failures.to_string(),
                c.saved.to_string(),
                if c.harmed { "**harm**" } else { "no harm" }.to_owned(),
            ]);
        }
        write!(text, "{table}")
    }

    fn write_learning(&self, text: &mut String) -> std::fmt::Result {
        if self.learning.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "\n## Learning\n\nErrors are held-out squared errors of the predicted next state in the last adaptation, relative to \
             what the corrected simulator leaves (or to how far the state moves where none is corrected); with and \
             without discovery on the same flights.\n"
        )?;
        let headings = [
            "world",
            "task",
            "controller",
            "exploring flights",
            "failed",
            "judging flights",
            "steps refused",
            "rolled back",
            "ended with the first table",
            "error with discovery",
            "without",
            "correlation",
            "by λ alone",
        ];
        let dash = || "–".to_owned();
        let shown = |e: &Option<Estimate>| e.map_or_else(dash, |e| format!("{e:.4}"));
        let mut table = Table::new(headings);
        for l in &self.learning {
            table.row([
                l.world.clone(),
                l.task.to_string(),
                name(l.controller, &l.variation),
                l.exploring_flights.to_string(),
                l.failed.to_string(),
                l.judging_flights.to_string(),
                l.refused.to_string(),
                l.rolled_back.to_string(),
                l.unchanged.to_string(),
                shown(&l.error_with_discovery),
                shown(&l.error_without_discovery),
                l.correlation.map_or_else(dash, |c| format!("{c:.1e}")),
                l.correlation_by_penalty.map_or_else(dash, |c| format!("{c:.2}")),
            ]);
        }
        write!(text, "{table}")
    }
}

fn name(controller: ControllerKind, variation: &str) -> String {
    let title = controller.title();
    if variation.is_empty() { title.to_owned() } else { format!("{title}, {variation}") }
}

fn write_table<'a>(
    text: &mut String,
    world: &str,
    task: Task,
    rows: impl Iterator<Item = &'a TableRow>,
) -> std::fmt::Result {
    writeln!(text, "\n## {task}, world {world}\n")?;
    if learned_on(task) != task {
        writeln!(
            text,
            "Nothing was learned on this task: Skill transfer and STEADY fly the gains that they learned on {}.\n",
            learned_on(task)
        )?;
    }
    let mut table = Table::new(["controller".to_owned()].into_iter().chain(MetricSummary::headings()));
    for r in rows {
        table.row([name(r.controller, &r.variation)].into_iter().chain(r.summary.cells()));
    }
    write!(text, "{table}")
}

fn learning(results: &Results, group: Group<'_>) -> Option<Learning> {
    let loops: Vec<_> = results.loops_of(group).collect();
    let found: Vec<_> = loops.iter().filter_map(|l| l.discovery).collect();
    let iterations = || loops.iter().flat_map(|l| &l.journal.iterations).filter(|i| i.number > 0);
    let count = |i: usize| loops.iter().map(|l| l.journal.flight_counts()[i]).sum();
    let explored = loops.iter().flat_map(|l| &l.journal.iterations).flat_map(|i| i.explored.iter().flatten());
    let over = |value: fn(&Discovered) -> f64| estimate(&found.iter().map(value).collect::<Vec<_>>());
    let largest = |value: fn(&Discovered) -> Option<f64>| found.iter().filter_map(value).reduce(f64::max);
    (!loops.is_empty()).then(|| Learning {
        world: group.world.to_owned(),
        task: group.task,
        controller: group.controller,
        variation: group.variation.to_owned(),
        loops: loops.len(),
        exploring_flights: count(0),
        failed: explored.filter(|f| !f.is_good()).count(),
        judging_flights: count(1),
        refused: iterations().filter(|i| i.made == Some(Made::Unchanged)).count(),
        rolled_back: iterations().filter(|i| i.restored.is_some()).count(),
        unchanged: loops.iter().filter(|l| l.journal.end.as_ref().is_some_and(|e| e.best == 0)).count(),
        error_with_discovery: over(|d| d.error_with),
        error_without_discovery: over(|d| d.error_without),
        correlation: largest(|d| d.correlation),
        correlation_by_penalty: largest(|d| d.correlation_by_penalty),
    })
}

/// Every judged flight, one a line.
pub(crate) fn csv(results: &Results) -> Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let key = ["world", "task", "controller", "variation", "seed", "flight"];
    out.write_record(key.into_iter().chain(METRICS.map(|m| m.id)).chain(["failed"]))?;
    for cell in &results.cells {
        for flown in &cell.flights {
            let key = &cell.key;
            let value = |m: &steady_sim::metrics::Metric| {
                flown.metrics.as_ref().map_or_else(String::new, |metrics| (m.get)(metrics).to_string())
            };
            let head = [
                key.world.clone(),
                key.task.to_string(),
                key.controller.name().to_owned(),
                key.variation.clone(),
                key.seed.to_string(),
                flown.flight.to_string(),
            ];
            let failed = u8::from(!flown.is_good()).to_string();
            out.write_record(head.into_iter().chain(METRICS.iter().map(value)).chain([failed]))?;
        }
    }
    Ok(out.into_inner()?)
}
