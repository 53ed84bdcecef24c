//! What the page shows, from the folder of a loop or of a comparison.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use steady_common::GainTable;
use steady_common::gains::{GAIN_COUNT, GAINS};

use super::flight::{Trace, read, round};
use crate::cycle::compare::{self, Comparison, Contender, Row, judged_flight};
use crate::cycle::journal::{self, Journal, Made, Origin};
use crate::cycle::run::flight_name;
use crate::cycle::{Loop, Outcome, Settings};
use crate::fly::Tracking;
use crate::stats::mean_95;

/// Eigenvalues of the skills that are shown.
const MOST_SPECTRUM: usize = 256;
/// Tables that a loop's page shows flights and gains of.
const MOST_TABLES: usize = 6;

/// A mean and the half-width of its 95 % interval.
type Interval = (f64, f64);

/// Everything on the page.
#[derive(Clone, Debug, Serialize)]
pub struct Data {
    /// `loop` or `comparison`.
    pub kind: &'static str,
    /// What was done.
    pub settings: Settings,
    /// How many seeds, and flights of each that judge.
    pub seeds: u32,
    /// Flights that judge a controller, for one seed.
    pub flights: u32,
    /// Version and commit of the program.
    pub program: String,
    /// Commands that give this page again.
    pub commands: Vec<String>,
    /// The table of results.
    pub results: Vec<Standing>,
    /// Learning curves.
    pub curves: Vec<Curve>,
    /// Flights to look at; all flew with the same random numbers.
    pub traces: Vec<Trace>,
    /// Gains.
    pub gains: Gains,
    /// The simulator stage's skills, as its run tells.
    pub skills: Option<Skills>,
    /// What each adaptation found.
    pub adaptations: Vec<Adaptation>,
}

/// A line of the table of results.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// Who flew.
    pub name: String,
    /// Colour.
    pub key: String,
    /// Mean distance from the reference, cm.
    pub tracking_error_cm: Interval,
    /// Cumulative reward.
    pub cumulative_reward: Interval,
    /// Mean height error while hovering, cm.
    pub hover_height_error_cm: Interval,
    /// Root mean square of roll and pitch, degrees.
    pub tilt_rms_deg: Interval,
    /// Flights that ended badly.
    pub crashes: usize,
    /// All flights.
    pub flights: usize,
    /// What was decided, in a loop.
    pub note: String,
}

/// Judging flights of a loop's tables.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Method and seed.
    pub name: String,
    /// Colour.
    pub key: String,
    /// Seed.
    pub seed: u64,
    /// How the loop ended.
    pub end: String,
    /// Tables.
    pub points: Vec<Point>,
}

/// One table's judging flights.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Iteration.
    pub iteration: u32,
    /// Mean distance from the reference of the flights that ended well, cm; none if no flight did.
    pub tracking_error_cm: Option<Interval>,
    /// Cumulative reward of these.
    pub cumulative_reward: Option<Interval>,
    /// The table was kept.
    pub is_kept: bool,
    /// Why, for people.
    pub reason: String,
}

/// Gain tables side by side.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gains {
    /// Name and unit of each gain.
    pub names: Vec<(&'static str, &'static str)>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// One gain table.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Whose.
    pub name: String,
    /// Colour.
    pub key: String,
    /// Where it comes from.
    pub provenance: String,
    /// Values.
    pub values: Vec<f32>,
}

/// The simulator stage's skills.
#[derive(Clone, Debug, Serialize)]
pub struct Skills {
    /// Number of features.
    pub features: u64,
    /// exp of the entropy of their spectrum.
    pub effective_rank: f64,
    /// Eigenvalues as parts of their sum, largest first.
    pub spectrum: Vec<f64>,
    /// Policy, task, R² of held-out returns.
    pub fits: Vec<(String, String, f64)>,
}

/// What an adaptation found.
#[derive(Clone, Debug, Serialize)]
pub struct Adaptation {
    /// Method, seed and iteration.
    pub name: String,
    /// Flights it learned from.
    pub flights: u64,
    /// Control steps computed again to the same bits.
    pub replayed: u64,
    /// Error on flights that were not fitted, with the simulator's weights.
    pub error_simulator: Option<f64>,
    /// The same with the fitted ones.
    pub error_fitted: Option<f64>,
    /// Largest correlation of a new skill with the simulator's.
    pub correlation: Option<f64>,
    /// The same by the penalty alone.
    pub correlation_by_penalty: Option<f64>,
    /// Part of the allowed step that was taken.
    pub step: Option<f64>,
    /// Gains that moved most: name, from, to.
    pub moved: Vec<(String, f64, f64)>,
}

impl Data {
    /// Of a folder.
    pub fn of(folder: &Path) -> Result<Self> {
        if folder.join(compare::NAME).exists() {
            of_comparison(folder, &Comparison::load(folder)?)
        } else if folder.join(journal::NAME).exists() {
            of_loop(folder, &Journal::load(folder)?)
        } else {
            bail!(
                "{} holds no loop: give the folder of `steady loop`, which has a {} or a {}",
                folder.display(),
                journal::NAME,
                compare::NAME
            )
        }
    }
}

fn of_comparison(folder: &Path, comparison: &Comparison) -> Result<Data> {
    let first = 1;
    let mut traces = Vec::new();
    let mut gains = Gains::with_nominal();
    for contender in comparison.rows().iter().map(|r| r.contender) {
        let flight = judged_flight(folder, first, contender, 1);
        traces.push(Trace::load(&flight, contender.name(), contender.folder())?);
        if let Some(table) = contender_table(folder, first, contender)? {
            gains.tables.push(table);
        }
    }
    let (mut curves, mut adaptations) = (Vec::new(), Vec::new());
    for contender in [Contender::Transfer, Contender::Steady] {
        for seed in 1..=u64::from(comparison.seeds) {
            let place = Comparison::loop_folder(folder, seed, contender);
            if !place.join(journal::NAME).exists() {
                continue;
            }
            let journal = Journal::load(&place)?;
            let name = format!("{}, seed {seed}", contender.name());
            adaptations.extend(adaptations_of(&place, &journal, &name)?);
            curves.push(curve(&journal, name, contender.folder()));
        }
    }
    Ok(Data {
        kind: "comparison",
        settings: comparison.settings.clone(),
        seeds: comparison.seeds,
        flights: comparison.flights,
        program: comparison.origin.program.clone(),
        commands: commands(folder, &comparison.origin),
        results: comparison.rows().iter().map(Standing::of_row).collect(),
        curves,
        traces,
        gains,
        skills: skills(&comparison.origin.run)?,
        adaptations,
    })
}

fn of_loop(folder: &Path, journal: &Journal) -> Result<Data> {
    let judged: Vec<_> = journal.iterations.iter().filter_map(|i| Some((i, i.judged.as_ref()?))).collect();
    // The first, the last ones, and always the best.
    let best = journal.best().map(|(number, _)| number);
    let shown =
        |number: u32| number == 0 || Some(number) == best || number as usize + MOST_TABLES > judged.len() + 1;
    let (mut traces, mut gains, mut results) = (Vec::new(), Gains::with_nominal(), Vec::new());
    for (iteration, flights) in &judged {
        let number = iteration.number;
        let name = match iteration.made {
            Some(Made::Simulator) => "Simulator".to_owned(),
            _ => format!("Iteration {number}"),
        };
        let key = if number == 0 { "simulator".to_owned() } else { number.to_string() };
        let key = if number > 0 && Some(number) == best { "steady".to_owned() } else { key };
        let verdict = iteration.verdict.as_ref();
        let kept = if verdict.is_some_and(|v| v.is_kept) { "kept" } else { "rolled back" };
        let note = format!("{kept}: {}", verdict.map_or("", |v| &v.reason));
        results.push(Standing::of_flights(&name, &key, flights, note));
        if shown(number) {
            traces.push(Trace::load(&Loop::judging(folder, number).join(flight_name(1)), &name, &key)?);
            gains.tables.push(Table::new(&name, &key, number, &Loop::table(folder, number)?));
        }
    }
    let method = if journal.settings.transfer_only { Contender::Transfer } else { Contender::Steady };
    Ok(Data {
        kind: "loop",
        settings: journal.settings.clone(),
        seeds: 1,
        flights: journal.settings.judging,
        program: journal.origin.program.clone(),
        commands: commands(folder, &journal.origin),
        results,
        curves: vec![curve(journal, method.name().to_owned(), method.folder())],
        traces,
        gains,
        skills: skills(&journal.origin.run)?,
        adaptations: adaptations_of(folder, journal, method.name())?,
    })
}

impl Standing {
    fn of_row(row: &Row) -> Self {
        let scaled =
            |(mean, half): Interval, scale: f64| (round(mean * scale, 1e4), round(half * scale, 1e4));
        Self {
            name: row.name.to_owned(),
            key: row.contender.folder().to_owned(),
            tracking_error_cm: scaled(row.tracking_error_m, 100.0),
            cumulative_reward: scaled(row.cumulative_reward, 1.0),
            hover_height_error_cm: scaled(row.hover_height_error_m, 100.0),
            tilt_rms_deg: scaled(row.tilt_rms_rad, 1.0_f64.to_degrees()),
            crashes: row.crashes,
            flights: row.flights,
            note: String::new(),
        }
    }

    fn of_flights(name: &str, key: &str, flights: &[Outcome], note: String) -> Self {
        let mean =
            |scale: f64, value: fn(&Tracking) -> f64| mean_of(flights, scale, value).unwrap_or_default();
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
            tracking_error_cm: mean(100.0, |t| t.tracking_error_m),
            cumulative_reward: mean(1.0, |t| t.cumulative_reward),
            hover_height_error_cm: mean(100.0, |t| t.hover_height_error_m),
            tilt_rms_deg: mean(1.0_f64.to_degrees(), |t| t.tilt_rms_rad),
            crashes: flights.iter().filter(|f| !f.is_good).count(),
            flights: flights.len(),
            note,
        }
    }
}

/// Mean over the flights that ended well.
fn mean_of(flights: &[Outcome], scale: f64, value: fn(&Tracking) -> f64) -> Option<Interval> {
    let good: Vec<f64> = flights
        .iter()
        .filter(|f| f.is_good)
        .filter_map(|f| Some(scale * value(f.tracking.as_ref()?)))
        .collect();
    let (mean, half) = mean_95(&good);
    (!good.is_empty()).then(|| (round(mean, 1e4), round(half, 1e4)))
}

fn curve(journal: &Journal, name: String, key: &str) -> Curve {
    let points = journal.iterations.iter().filter_map(|i| {
        let (flights, verdict) = (i.judged.as_ref()?, i.verdict.as_ref()?);
        Some(Point {
            iteration: i.number,
            tracking_error_cm: mean_of(flights, 100.0, |t| t.tracking_error_m),
            cumulative_reward: mean_of(flights, 1.0, |t| t.cumulative_reward),
            is_kept: verdict.is_kept,
            reason: verdict.reason.clone(),
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

impl Gains {
    fn with_nominal() -> Self {
        let nominal = GainTable::built_in();
        let table = Table {
            provenance: "compiled into the firmware".to_owned(),
            ..Table::new("Built-in", "built-in", 0, &nominal)
        };
        Self { names: GAINS.iter().map(|g| (g.name, g.unit)).collect(), tables: vec![table] }
    }
}

impl Table {
    fn new(name: &str, key: &str, iteration: u32, table: &GainTable) -> Self {
        let values = table.gains.to_array();
        debug_assert_eq!(values.len(), GAIN_COUNT);
        Self {
            name: name.to_owned(),
            key: key.to_owned(),
            provenance: format!("iteration {iteration}, source {:#018x}", table.source),
            values: values.to_vec(),
        }
    }
}

/// The gains that a controller flew with, where it has any.
fn contender_table(folder: &Path, seed: u64, contender: Contender) -> Result<Option<Table>> {
    let (place, number) = match contender {
        Contender::Pid => return Ok(None),
        Contender::Simulator => (Comparison::loop_folder(folder, seed, Contender::Steady), 0),
        _ => {
            let place = Comparison::loop_folder(folder, seed, contender);
            let best = Journal::load(&place)?.best().map_or(0, |(number, _)| number);
            (place, best)
        }
    };
    let table = Loop::table(&place, number)?;
    Ok(Some(Table::new(contender.name(), contender.folder(), number, &table)))
}

/// What the adaptations of a loop left; one without a file is left out.
fn adaptations_of(folder: &Path, journal: &Journal, name: &str) -> Result<Vec<Adaptation>> {
    let mut found = Vec::new();
    for iteration in journal.iterations.iter().filter(|i| i.number > 0 && i.made.is_some()) {
        let path = Loop::iteration(folder, iteration.number).join("adapt").join("adapt.json");
        if !path.exists() {
            continue;
        }
        let value: Value = serde_json::from_str(&read(&path)?)
            .with_context(|| format!("{}: is no report of `steady adapt`", path.display()))?;
        let moved = value["gains"].as_array().into_iter().flatten().take(5);
        found.push(Adaptation {
            name: format!("{name}, iteration {}", iteration.number),
            flights: value["flights"].as_u64().unwrap_or(0),
            replayed: value["replayed"].as_u64().unwrap_or(0),
            error_simulator: value["error_simulator"].as_f64(),
            error_fitted: value["error_fitted"].as_f64(),
            correlation: value["discovery"]["correlation"].as_f64(),
            correlation_by_penalty: value["discovery"]["correlation_by_penalty"].as_f64(),
            step: value["step"].as_f64(),
            moved: moved
                .filter_map(|g| {
                    Some((g["name"].as_str()?.to_owned(), g["from"].as_f64()?, g["to"].as_f64()?))
                })
                .collect(),
        });
    }
    Ok(found)
}

/// What the run says of its skills; a run that was moved or interrupted says nothing.
fn skills(run: &Path) -> Result<Option<Skills>> {
    let path = run.join("skills.json");
    if !path.exists() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(&read(&path)?)
        .with_context(|| format!("{}: is no summary of skills", path.display()))?;
    let fits = value["fits"].as_array().into_iter().flatten().filter_map(|f| {
        Some((f["policy"].as_str()?.to_owned(), f["task"].as_str()?.to_owned(), f["r2"].as_f64()?))
    });
    let spectrum = value["spectrum"].as_array().into_iter().flatten();
    Ok(Some(Skills {
        features: value["features"].as_u64().unwrap_or(0),
        effective_rank: value["effective_rank"].as_f64().unwrap_or(0.0),
        spectrum: spectrum.filter_map(Value::as_f64).take(MOST_SPECTRUM).collect(),
        fits: fits.collect(),
    }))
}

/// The commands that lead to this page.
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
    // A loop that trains for itself does so again.
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

/// As a shell takes it.
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
