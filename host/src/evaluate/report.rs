//! Results as Markdown for people, JSON for programs and CSV for spreadsheets.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::claims::{Bound, Claim, Verdict, claims};
use super::harm::{Comparison, compare};
use super::results::{Estimate, Group, Metric, Results, Row};
use super::suite::{Controller, Settings, Suite};

/// Everything that a comparison shows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was compared.
    pub settings: Settings,
    /// The table.
    pub rows: Vec<Row>,
    /// What it should show and whether it does; of the suites `paper` and `quick`.
    pub claims: Vec<Claim>,
    /// STEADY against the Simulator, flight by flight.
    pub harm: Vec<Comparison>,
    /// What learning from flights went through.
    pub learning: Vec<Learning>,
}

/// Learning of a controller, over seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Learning {
    /// World.
    pub world: String,
    /// Task.
    pub task: steady_sim::flight::Task,
    /// Controller.
    pub controller: Controller,
    /// Variation.
    pub variation: String,
    /// Campaigns.
    pub campaigns: usize,
    /// Flights with noise.
    pub flights: usize,
    /// Those that crashed.
    pub crashes: usize,
    /// Rounds whose step was refused outright.
    pub refused: usize,
    /// Rounds that flew so much worse that their gains were given up.
    pub rolled_back: usize,
    /// Campaigns that ended with the gains of their start, as nothing clearly better was flown.
    pub unchanged: usize,
    /// Squared error of the next state on pieces of flights that were not fitted, relative to how far the state
    /// moves, with the new skills.
    pub error_with_discovery: Option<Estimate>,
    /// The same with the simulator's skills alone, same flights and gains.
    pub error_without_discovery: Option<Estimate>,
    /// Largest normalised correlation of a new skill with one of the simulator's.
    pub correlation: Option<f64>,
    /// The same before the projection: what the penalty λ alone achieves.
    pub correlation_by_penalty: Option<f64>,
}

impl Report {
    /// Of results.
    #[must_use]
    pub fn new(results: &Results) -> Self {
        let shows = matches!(results.settings.suite, Suite::Paper | Suite::Quick);
        Self {
            settings: results.settings.clone(),
            rows: results.rows(),
            claims: if shows { claims(results) } else { Vec::new() },
            harm: compare(results),
            learning: results.groups().filter_map(|group| learning(results, group)).collect(),
        }
    }

    /// For people.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let s = &self.settings;
        let plan = &s.plan;
        writeln!(text, "# Evaluation\n")?;
        writeln!(
            text,
            "{} seed{}, preset `{}`; {} flights of learning in {} rounds with noise {:?} held {} steps; judged by {} \
             flights without noise that nothing was learned from. ± is the 95 % interval over seeds.",
            s.seeds.len(),
            if s.seeds.len() == 1 { "" } else { "s" },
            plan.preset,
            plan.flights,
            plan.rounds,
            plan.noise,
            plan.hold,
            plan.judged
        )?;
        if !self.claims.is_empty() {
            self.write_claims(text)?;
        }
        if s.suite == Suite::Harm {
            self.write_harm(text)?;
        }
        for world in &s.worlds {
            for task in &s.tasks {
                let rows = self.rows.iter().filter(|r| r.world == *world && r.task == *task);
                write_table(text, world, *task, rows)?;
            }
        }
        self.write_learning(text)
    }

    fn write_claims(&self, text: &mut String) -> std::fmt::Result {
        let count = |wanted: fn(&Verdict) -> bool| self.claims.iter().filter(|c| wanted(&c.verdict)).count();
        writeln!(
            text,
            "\n## Claims\n\n{} met, {} met on average only, {} missed, {} not measured.\n",
            count(|v| *v == Verdict::Met),
            count(|v| *v == Verdict::MetOnAverage),
            count(|v| *v == Verdict::Missed),
            count(|v| matches!(v, Verdict::Unmeasured(_)))
        )?;
        writeln!(text, "| claim | needed | measured | verdict |\n|---|---:|---:|---|")?;
        for claim in &self.claims {
            let unit = claim.unit;
            let digits = if unit == "%" { 1 } else { 3 };
            let needed = match claim.needed {
                Bound::AtLeast(bound) => format!("≥ {bound} {unit}"),
                Bound::MoreThan(bound) => format!("> {bound} {unit}"),
                Bound::AtMost(bound) => format!("≤ {bound} {unit}"),
            };
            let measured =
                claim.measured.map_or_else(|| "–".to_owned(), |m| format!("{} {unit}", m.text(digits)));
            let verdict = match &claim.verdict {
                Verdict::Met => "met",
                Verdict::MetOnAverage => "met on average; the interval does not prove it",
                Verdict::Missed => "**missed**",
                Verdict::Unmeasured(reason) => reason,
            };
            writeln!(text, "| {} | {} | {} | {verdict} |", claim.text, needed.trim(), measured.trim())?;
        }
        Ok(())
    }

    fn write_harm(&self, text: &mut String) -> std::fmt::Result {
        let harmed = self.harm.iter().filter(|c| c.harmed).count();
        let crashes: usize = self.harm.iter().map(|c| c.new_crashes).sum();
        writeln!(
            text,
            "\n## Harm\n\nSTEADY less Simulator, flight by flight with the same seeds; ± over flights. {} {} crashes \
             that the simulator's gains do not have.\n",
            match harmed {
                0 => format!(
                    "In none of {} worlds and tasks is STEADY worse beyond its interval.",
                    self.harm.len()
                ),
                n => format!("**In {n} of {} worlds and tasks STEADY does harm.**", self.harm.len()),
            },
            if crashes == 0 { "No".to_owned() } else { format!("**{crashes}**") },
        )?;
        writeln!(
            text,
            "| world | task | tracking error (cm) | cumulative reward | new crashes | crashes saved | verdict |\n\
             |---|---|---:|---:|---:|---:|---|"
        )?;
        for c in &self.harm {
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                c.world,
                c.task.name(),
                c.tracking_error_m.times(100.0).text(2),
                c.cumulative_reward.text(0),
                c.new_crashes,
                c.saved,
                if c.harmed { "**harm**" } else { "no harm" }
            )?;
        }
        Ok(())
    }

    fn write_learning(&self, text: &mut String) -> std::fmt::Result {
        if self.learning.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "\n## Learning\n\nErrors are squared errors of the predicted next state on pieces of flights that were not fitted, \
             relative to how far the state moves, in the last round; with and without discovery on the same flights.\n"
        )?;
        writeln!(
            text,
            "| world | task | controller | flights | crashed | steps refused | gains given up | ended with the \
             start's | error with discovery | without | correlation | by λ alone \
             |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        )?;
        let shown = |e: &Option<Estimate>| e.map_or_else(|| "–".to_owned(), |e| e.text(4));
        for l in &self.learning {
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                l.world,
                l.task.name(),
                name(l.controller, &l.variation),
                l.flights,
                l.crashes,
                l.refused,
                l.rolled_back,
                l.unchanged,
                shown(&l.error_with_discovery),
                shown(&l.error_without_discovery),
                l.correlation.map_or_else(|| "–".to_owned(), |c| format!("{c:.1e}")),
                l.correlation_by_penalty.map_or_else(|| "–".to_owned(), |c| format!("{c:.2}")),
            )?;
        }
        Ok(())
    }
}

fn name(controller: Controller, variation: &str) -> String {
    let title = controller.title();
    if variation.is_empty() { title.to_owned() } else { format!("{title}, {variation}") }
}

fn write_table<'a>(
    text: &mut String,
    world: &str,
    task: steady_sim::flight::Task,
    rows: impl Iterator<Item = &'a Row>,
) -> std::fmt::Result {
    writeln!(text, "\n## {}, world {world}\n", task.name())?;
    if super::suite::learned_on(task) != task {
        writeln!(
            text,
            "Nobody learned on this task: Skill transfer and STEADY fly the gains that they learned on {}.\n",
            super::suite::learned_on(task).name()
        )?;
    }
    writeln!(
        text,
        "| controller | tracking error (cm) | cumulative reward | hover height error (cm) | roll/pitch RMS (deg) | \
         crashes |\n|---|---:|---:|---:|---:|---:|"
    )?;
    let shown = |e: Option<Estimate>, factor: f64, digits| {
        e.map_or_else(|| "–".to_owned(), |e| e.times(factor).text(digits))
    };
    for r in rows {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} of {} |",
            name(r.controller, &r.variation),
            shown(r.tracking_error_m, 100.0, 2),
            shown(r.cumulative_reward, 1.0, 0),
            shown(r.hover_height_error_m, 100.0, 2),
            shown(r.tilt_rms_rad, 1_f64.to_degrees(), 2),
            r.crashes,
            r.flights
        )?;
    }
    Ok(())
}

fn learning(results: &Results, group: Group) -> Option<Learning> {
    let campaigns: Vec<_> = results.campaigns_of(group).collect();
    let found: Vec<_> = campaigns.iter().filter_map(|c| c.discovery).collect();
    let rounds = || campaigns.iter().flat_map(|c| &c.rounds);
    let estimate = |f: fn(&super::campaign::Discovered) -> f32| {
        Estimate::of(&found.iter().map(|d| f64::from(f(d))).collect::<Vec<_>>())
    };
    (!campaigns.is_empty()).then(|| Learning {
        world: group.world.to_owned(),
        task: group.task,
        controller: group.controller,
        variation: group.variation.to_owned(),
        campaigns: campaigns.len(),
        flights: campaigns.iter().filter_map(|c| c.rounds.last()).map(|r| r.flights).sum(),
        crashes: rounds().map(|r| r.crashes).sum(),
        refused: rounds().filter(|r| r.part == 0.0 && r.refused.is_some()).count(),
        rolled_back: rounds().filter(|r| r.rolled_back).count(),
        unchanged: campaigns.iter().filter(|c| !c.is_kept).count(),
        error_with_discovery: estimate(|d| d.error_with),
        error_without_discovery: estimate(|d| d.error_without),
        correlation: found.iter().map(|d| f64::from(d.correlation)).reduce(f64::max),
        correlation_by_penalty: found
            .iter()
            .filter_map(|d| d.correlation_by_penalty)
            .map(f64::from)
            .reduce(f64::max),
    })
}

/// Every flight for the record, one a line.
///
/// # Errors
/// Never, as nothing is written to a file.
pub fn csv(results: &Results) -> Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "world",
        "task",
        "controller",
        "variation",
        "seed",
        "flight",
        "tracking_error_m",
        "cumulative_reward",
        "hover_height_error_m",
        "tilt_rms_rad",
        "crashed",
    ])?;
    for cell in &results.cells {
        for (index, flown) in cell.flights.iter().enumerate() {
            let key = &cell.key;
            out.write_record([
                key.world.as_str(),
                key.task.name(),
                key.controller.id(),
                &key.variation,
                &key.seed.to_string(),
                &index.to_string(),
                &Metric::TrackingError.of(flown).to_string(),
                &Metric::Reward.of(flown).to_string(),
                &Metric::HeightError.of(flown).to_string(),
                &Metric::Tilt.of(flown).to_string(),
                &u8::from(flown.crashed).to_string(),
            ])?;
        }
    }
    Ok(out.into_inner()?)
}
