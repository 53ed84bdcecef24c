//! The report's data, from the folder of a loop or of a comparison.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steady_common::GainTable;
use steady_common::gains::GAINS;
use steady_sim::METRICS;
use steady_sim::metrics::Metric;

use super::flight::{Trace, read, round};
use crate::closed_loop::compare::{self, Comparison, Row, judged_flight};
use crate::closed_loop::engine::flight_name;
use crate::closed_loop::journal::{self, Journal, Made, Origin};
use crate::closed_loop::{ClosedLoop, ControllerKind, MetricSummary, Settings};
use crate::error::usage;
use crate::stats::Estimate;

/// Eigenvalues of the skills that are shown.
const MAX_SPECTRUM: usize = 256;
/// Tables of a loop whose flights and gains are shown.
const MAX_TABLES: usize = 6;
/// Gain changes of an adaptation that are shown.
const MAX_CHANGES: usize = 5;

/// Everything on the page.
#[derive(Clone, Debug, Serialize)]
pub struct Data {
    /// `loop` or `comparison`.
    kind: &'static str,
    settings: Settings,
    seeds: u32,
    /// Judging flights of a controller for one seed.
    flights: u32,
    /// Version and commit of the program.
    program: String,
    /// Commands that give this page again.
    commands: Vec<String>,
    /// Columns of the table of results.
    metrics: Vec<Column>,
    results: Vec<Standing>,
    curves: Vec<Curve>,
    /// Flights to look at; all flew with the same seed.
    traces: Vec<Trace>,
    /// Name and unit of each gain.
    gains: Vec<(&'static str, &'static str)>,
    tables: Vec<NamedTable>,
    /// Skills of the run the loop began with, if it is still there.
    skills: Option<SkillsSummary>,
    adaptations: Vec<Adaptation>,
}

#[derive(Clone, Debug, Serialize)]
struct Column {
    id: &'static str,
    heading: String,
    digits: usize,
    larger_is_better: bool,
}

/// Estimates by [`Metric::id`], in the unit of the column's heading.
type Estimates = BTreeMap<&'static str, Estimate>;

/// A row of the table of results.
#[derive(Clone, Debug, Serialize)]
struct Standing {
    name: String,
    /// Colour.
    key: String,
    metrics: Estimates,
    failed: usize,
    flights: usize,
    /// The decision, in a loop.
    note: String,
}

/// Judging flights of a loop's tables.
#[derive(Clone, Debug, Serialize)]
struct Curve {
    name: String,
    /// Colour.
    key: String,
    seed: u64,
    end: String,
    points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    iteration: u32,
    metrics: Estimates,
    is_kept: bool,
    reason: String,
}

#[derive(Clone, Debug, Serialize)]
struct NamedTable {
    name: String,
    /// Colour.
    key: String,
    provenance: String,
    values: Vec<f32>,
}

/// `skills.json` of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SkillsSummary {
    features: u64,
    effective_rank: f64,
    /// Eigenvalues as fractions of their sum, largest first.
    spectrum: Vec<f64>,
    fits: Vec<Fit>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fit {
    policy: String,
    task: String,
    r2: f64,
}

/// `adapt.json` of an iteration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Adaptation {
    name: String,
    flights: u64,
    replayed: u64,
    discovery: Option<Discovery>,
    step: Option<f64>,
    /// Changes, largest first.
    gains: Vec<GainChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Discovery {
    correlation: Option<f64>,
    correlation_by_penalty: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct GainChange {
    name: String,
    from: f64,
    to: f64,
}

impl Data {
    /// From a folder that holds a loop or a comparison.
    pub fn of(folder: &Path) -> Result<Self> {
        if folder.join(compare::NAME).exists() {
            of_comparison(folder, &Comparison::load(folder)?)
        } else if folder.join(journal::NAME).exists() {
            of_loop(folder, &Journal::load(folder)?)
        } else if !folder.exists() {
            Err(usage(format!("{}: there is no such folder", folder.display())))
        } else {
            Err(usage(format!(
                "{} holds no loop: give the folder of `steady loop`, which has a {} or a {}",
                folder.display(),
                journal::NAME,
                compare::NAME
            )))
        }
    }

    fn new(kind: &'static str, folder: &Path, settings: &Settings, origin: &Origin) -> Result<Self> {
        let nominal = NamedTable {
            provenance: "compiled into the firmware".to_owned(),
            ..NamedTable::new("Built-in", "built-in", 0, &GainTable::built_in())
        };
        let column = |m: &Metric| Column {
            id: m.id,
            heading: m.heading(),
            digits: m.digits,
            larger_is_better: m.larger_is_better,
        };
        Ok(Self {
            kind,
            settings: settings.clone(),
            seeds: 1,
            flights: settings.judging,
            program: origin.program.clone(),
            commands: commands(folder, origin),
            metrics: METRICS.iter().map(column).collect(),
            results: Vec::new(),
            curves: Vec::new(),
            traces: Vec::new(),
            gains: GAINS.iter().map(|g| (g.name, g.unit)).collect(),
            tables: vec![nominal],
            skills: skills(&origin.run)?,
            adaptations: Vec::new(),
        })
    }
}

fn of_comparison(folder: &Path, comparison: &Comparison) -> Result<Data> {
    let first = 1;
    let mut data = Data::new("comparison", folder, &comparison.settings, &comparison.origin)?;
    (data.seeds, data.flights) = (comparison.seeds, comparison.flights);
    for row in comparison.rows() {
        let controller = row.controller;
        let flight = judged_flight(folder, first, controller, 1);
        data.traces.push(Trace::load(&flight, controller.title(), controller.name())?);
        data.tables.extend(controller_table(folder, first, controller)?);
        data.results.push(Standing::of_row(&row));
    }
    for controller in [ControllerKind::Transfer, ControllerKind::Steady] {
        for seed in 1..=u64::from(comparison.seeds) {
            let place = Comparison::loop_folder(folder, seed, controller);
            if !place.join(journal::NAME).exists() {
                continue;
            }
            let journal = Journal::load(&place)?;
            let name = format!("{}, seed {seed}", controller.title());
            data.adaptations.extend(adaptations_of(&place, &journal, &name)?);
            data.curves.push(curve(&journal, name, controller.name()));
        }
    }
    Ok(data)
}

fn of_loop(folder: &Path, journal: &Journal) -> Result<Data> {
    let mut data = Data::new("loop", folder, &journal.settings, &journal.origin)?;
    let judged: Vec<_> = journal.iterations.iter().filter_map(|i| Some((i, i.judged.as_ref()?))).collect();
    // The first, the last ones, and always the best.
    let best = journal.best().map(|(number, _)| number);
    let is_shown =
        |number: u32| number == 0 || Some(number) == best || number as usize + MAX_TABLES > judged.len() + 1;
    for (iteration, flights) in &judged {
        let number = iteration.number;
        let name = match iteration.made {
            Some(Made::Simulator) => "Simulator".to_owned(),
            _ => format!("Iteration {number}"),
        };
        let key = match number {
            0 => "simulator".to_owned(),
            _ if Some(number) == best => "steady".to_owned(),
            _ => number.to_string(),
        };
        let decision = iteration.decision.as_ref();
        let kept = if decision.is_some_and(|d| d.is_kept) { "kept" } else { "rolled back" };
        if is_shown(number) {
            data.traces.push(Trace::load(
                &ClosedLoop::judging_folder(folder, number).join(flight_name(1)),
                &name,
                &key,
            )?);
            data.tables.push(NamedTable::new(&name, &key, number, &ClosedLoop::table(folder, number)?));
        }
        let note = format!("{kept}: {}", decision.map_or("", |d| &d.reason));
        data.results.push(Standing::new(&name, &key, &MetricSummary::of_flights(flights), note));
    }
    let method =
        if journal.settings.transfer_only { ControllerKind::Transfer } else { ControllerKind::Steady };
    data.curves.push(curve(journal, method.title().to_owned(), method.name()));
    data.adaptations = adaptations_of(folder, journal, method.title())?;
    Ok(data)
}

/// Every metric of a summary, in the unit of the column's heading.
fn estimates(summary: &MetricSummary) -> Estimates {
    let shown = |metric: &Metric| {
        let Estimate { mean, half_width } = summary.get(metric)?.scaled(metric.scale);
        Some((metric.id, Estimate { mean: round(mean, 1e4), half_width: half_width.map(|h| round(h, 1e4)) }))
    };
    METRICS.iter().filter_map(shown).collect()
}

impl Standing {
    fn new(name: &str, key: &str, summary: &MetricSummary, note: String) -> Self {
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
            metrics: estimates(summary),
            failed: summary.failed,
            flights: summary.flights,
            note,
        }
    }

    fn of_row(row: &Row) -> Self {
        Self::new(row.title, row.controller.name(), &row.summary, String::new())
    }
}

fn curve(journal: &Journal, name: String, key: &str) -> Curve {
    let points = journal.iterations.iter().filter_map(|i| {
        let (flights, decision) = (i.judged.as_ref()?, i.decision.as_ref()?);
        Some(Point {
            iteration: i.number,
            metrics: estimates(&MetricSummary::of_flights(flights)),
            is_kept: decision.is_kept,
            reason: decision.reason.clone(),
        })
    });
    Curve {
        name,
        key: key.to_owned(),
        seed: journal.settings.seed,
        end: journal.end.as_ref().map_or("not ended".to_owned(), |e| e.reason.clone()),
        points: points.collect(),
    }
}

impl NamedTable {
    fn new(name: &str, key: &str, iteration: u32, table: &GainTable) -> Self {
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
            provenance: format!("iteration {iteration}, source {:#018x}", table.source),
            values: table.gains.to_array().to_vec(),
        }
    }
}

fn controller_table(folder: &Path, seed: u64, controller: ControllerKind) -> Result<Option<NamedTable>> {
    let (place, number) = match controller {
        ControllerKind::Pid => return Ok(None),
        ControllerKind::Simulator => (Comparison::loop_folder(folder, seed, ControllerKind::Steady), 0),
        _ => {
            let place = Comparison::loop_folder(folder, seed, controller);
            let best = Journal::load(&place)?.best().map_or(0, |(number, _)| number);
            (place, best)
        }
    };
    let table = ClosedLoop::table(&place, number)?;
    Ok(Some(NamedTable::new(controller.title(), controller.name(), number, &table)))
}

/// The adaptations of a loop; one without a file is left out.
fn adaptations_of(folder: &Path, journal: &Journal, name: &str) -> Result<Vec<Adaptation>> {
    let mut found = Vec::new();
    for iteration in journal.iterations.iter().filter(|i| i.number > 0 && i.made.is_some()) {
        let path = ClosedLoop::adapt_folder(folder, iteration.number).join("adapt.json");
        if let Some(mut adaptation) = parse::<Adaptation>(&path)? {
            adaptation.name = format!("{name}, iteration {}", iteration.number);
            adaptation.gains.truncate(MAX_CHANGES);
            found.push(adaptation);
        }
    }
    Ok(found)
}

/// The skills of a run; one that was moved or interrupted has none.
fn skills(run: &Path) -> Result<Option<SkillsSummary>> {
    let mut skills: Option<SkillsSummary> = parse(&run.join("skills.json"))?;
    if let Some(skills) = &mut skills {
        skills.spectrum.truncate(MAX_SPECTRUM);
    }
    Ok(skills)
}

/// A JSON file, if it exists.
fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_str(&read(path)?).map(Some).with_context(|| format!("{}: is damaged", path.display()))
}

/// The commands that give this page again.
fn commands(folder: &Path, origin: &Origin) -> Vec<String> {
    let commit = origin.program.split(' ').nth(1).unwrap_or("unknown").trim_end_matches('+');
    let mut commands = Vec::new();
    if commit != "unknown" {
        commands.push(format!("git checkout {}", quoted(commit)));
    }
    commands.push("cargo xtask firmware".to_owned());
    let provenance = read(&origin.run.join("provenance.json")).unwrap_or_default();
    let provenance: Value = serde_json::from_str(&provenance).unwrap_or_default();
    let trained: Vec<String> = provenance["command"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    // A run in the loop's own folder is trained by the loop.
    if !trained.is_empty() && !origin.run.starts_with(folder.canonicalize().unwrap_or_default()) {
        commands.push(command_line(&trained));
    }
    commands.push(command_line(&origin.command));
    commands.push(format!("steady report {}", quoted(&folder.to_string_lossy())));
    commands
}

fn command_line(words: &[String]) -> String {
    let rest = words.iter().skip(1).filter(|w| *w != "--resume").map(|w| quoted(w));
    std::iter::once("steady".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}

/// Quoted for a shell, where it has to be.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_a_shell_takes_them() {
        let words =
            ["/tmp/steady", "loop", "--out", "my loop", "--task", "it's", "--resume"].map(str::to_owned);
        assert_eq!(command_line(&words), r"steady loop --out 'my loop' --task 'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
