//! `loop.json`: which stations of a loop are done, and what came of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::judge::{Verdict, judge};
use super::settings::Settings;
use super::stage::{Flashed, Outcome};
use crate::files;
use crate::fly::Tracking;
use crate::stats::mean_95;

/// Name of the file.
pub const NAME: &str = "loop.json";
/// Version of its format.
const FORMAT: u32 = 1;
/// Longer journals are not ours.
const MOST_BYTES: u64 = 64 << 20;

/// The journal of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Version of the format.
    pub format: u32,
    /// What the loop does.
    pub settings: Settings,
    /// What it began with.
    pub origin: Origin,
    /// Iterations so far; the last one may be unfinished.
    pub iterations: Vec<Iteration>,
    /// How it ended, when it has.
    pub end: Option<End>,
}

/// What a loop began with; a loop goes on with the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// CRC-32 of its gain table's page.
    pub table_crc32: u32,
    /// CRC-32 of the firmware's image.
    pub firmware_crc32: u32,
    /// The program's version and commit.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
}

/// One table: how it was made, flashed, judged, and what was flown with the best table afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iteration {
    /// From 0, which is the simulator's table.
    pub number: u32,
    /// There is a table, in the iteration's folder.
    pub made: Option<Made>,
    /// It is on the drone.
    pub flashed: Option<Flashed>,
    /// Its judging flights.
    pub judged: Option<Vec<Outcome>>,
    /// What they say of it.
    pub verdict: Option<Verdict>,
    /// The best table is on the drone again.
    pub restored: Option<Flashed>,
    /// Flights with noise of the best table.
    pub explored: Option<Vec<Outcome>>,
}

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// The simulator stage.
    Simulator,
    /// Learned from flights.
    Adapted,
    /// The flights ask for no change: there is no new table.
    Unchanged,
}

/// How a loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Why, for people.
    pub reason: String,
    /// Iteration whose table is the best; it is on the drone.
    pub best: u32,
}

impl Journal {
    /// A loop that has not begun.
    #[must_use]
    pub fn new(settings: Settings, origin: Origin) -> Self {
        Self { format: FORMAT, settings, origin, iterations: Vec::new(), end: None }
    }

    /// Reads and checks the journal of a folder.
    ///
    /// # Errors
    /// If there is none, or it cannot be one of a loop; the text says what is wrong with it.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let length = std::fs::metadata(&path)
            .with_context(|| format!("{} holds no loop: it has no {NAME}", folder.display()))?
            .len();
        ensure!(length <= MOST_BYTES, "{}: {length} bytes are no journal", path.display());
        let text = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let parse = || -> Result<Self> {
            let journal: Self = serde_json::from_slice(&text)?;
            journal.check()?;
            Ok(journal)
        };
        parse().with_context(|| {
            format!("{}: is no journal of this version's loop; begin anew in another folder", path.display())
        })
    }

    /// Writes it, in one step.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        files::write(&folder.join(NAME), &serde_json::to_vec_pretty(self)?)
    }

    /// Number of the best iteration so far, and its judging flights.
    #[must_use]
    pub fn best(&self) -> Option<(u32, &[Outcome])> {
        best_of(&self.iterations)
    }

    /// Iterations in a row at the end that brought no clear improvement.
    #[must_use]
    pub fn stale(&self) -> u32 {
        self.trailing(|v| !v.is_improvement())
    }

    /// Iterations in a row at the end whose table was not kept.
    #[must_use]
    pub fn refused(&self) -> u32 {
        self.trailing(|v| !v.is_kept)
    }

    fn trailing(&self, is: impl Fn(&Verdict) -> bool) -> u32 {
        let verdicts = self.iterations.iter().rev().filter_map(|i| i.verdict.as_ref());
        verdicts.take_while(|v| is(v)).count() as u32
    }

    /// What came of every table, for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| iteration | tracking error (cm) | cumulative reward | roll/pitch RMS (deg) | badly ended | verdict\n\
             |----------:|--------------------:|------------------:|---------------------:|------------:|--------\n",
        );
        for (iteration, flights) in self.iterations.iter().filter_map(|i| Some((i, i.judged.as_ref()?))) {
            let shown = |scale: f64, digits: usize, value: fn(&Tracking) -> f64| {
                let good = flights.iter().filter(|f| f.is_good).filter_map(|f| f.tracking.as_ref());
                let (mean, half) = mean_95(&good.map(|t| scale * value(t)).collect::<Vec<_>>());
                format!("{mean:.digits$} ± {half:.digits$}")
            };
            let verdict = iteration.verdict.as_ref();
            let kept = if verdict.is_some_and(|v| v.is_kept) { "kept" } else { "rolled back" };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {:>9} | {:>19} | {:>17} | {:>20} | {:>7} / {} | {kept}: {}",
                iteration.number,
                shown(100.0, 2, |t| t.tracking_error_m),
                shown(1.0, 0, |t| t.cumulative_reward),
                shown(1.0_f64.to_degrees(), 2, |t| t.tilt_rms_rad),
                flights.iter().filter(|f| !f.is_good).count(),
                flights.len(),
                verdict.map_or("", |v| &v.reason),
            );
        }
        if let Some(end) = &self.end {
            let _ = writeln!(
                text,
                "\nended: {}; the drone flies the table of iteration {}",
                end.reason, end.best
            );
        }
        text
    }

    /// A journal says nothing that cannot have happened.
    fn check(&self) -> Result<()> {
        ensure!(self.format == FORMAT, "its format is {}, not {FORMAT}", self.format);
        self.settings.check()?;
        ensure!(
            self.iterations.len() <= self.settings.iterations as usize + 1,
            "it has {} iterations, of {} at most",
            self.iterations.len(),
            self.settings.iterations + 1
        );
        for (i, iteration) in self.iterations.iter().enumerate() {
            let is_last = i + 1 == self.iterations.len();
            self.check_iteration(i, is_last).with_context(|| format!("iteration {}", iteration.number))?;
        }
        if let Some(end) = &self.end {
            let best = self.best().map(|(number, _)| number);
            ensure!(best == Some(end.best), "its end names iteration {} as the best", end.best);
        }
        Ok(())
    }

    fn check_iteration(&self, index: usize, is_last: bool) -> Result<()> {
        let now = &self.iterations[index];
        ensure!(now.number as usize == index, "it stands where iteration {index} should");
        match now.made {
            Some(Made::Simulator) => ensure!(index == 0, "the simulator's table comes first"),
            Some(_) => ensure!(index > 0, "there is nothing to learn from yet"),
            None => {}
        }
        let Some(flights) = &now.judged else {
            ensure!(now.verdict.is_none(), "it has a verdict without flights");
            ensure!(now.restored.is_none() && now.explored.is_none(), "it was flown before it was judged");
            ensure!(now.flashed.is_none() || now.made.is_some(), "it was flashed before it was made");
            ensure!(is_last, "it is unfinished, and others come after it");
            return Ok(());
        };
        ensure!(now.flashed.is_some() && now.made.is_some(), "it was judged before it was on the drone");
        check_flights(flights, self.settings.judging_seeds())?;
        let best = best_of(&self.iterations[..index]);
        let verdict = judge(best.map(|(_, flights)| flights), flights);
        ensure!(now.verdict.as_ref() == Some(&verdict), "its verdict does not follow from its flights");
        ensure!(now.restored.is_none() || !verdict.is_kept, "a table that was kept needs no restoring");
        match &now.explored {
            Some(flights) => {
                ensure!(verdict.is_kept || now.restored.is_some(), "the best table was not restored");
                check_flights(flights, self.settings.exploring_seeds(now.number))
            }
            None if is_last => Ok(()),
            None => bail!("it is unfinished, and others come after it"),
        }
    }
}

fn best_of(iterations: &[Iteration]) -> Option<(u32, &[Outcome])> {
    iterations.iter().rev().find_map(|i| match (&i.verdict, &i.judged) {
        (Some(verdict), Some(flights)) if verdict.is_kept => Some((i.number, flights.as_slice())),
        _ => None,
    })
}

fn check_flights(flights: &[Outcome], seeds: impl Iterator<Item = u64>) -> Result<()> {
    let wanted: Vec<u64> = seeds.collect();
    let found: Vec<u64> = flights.iter().map(|f| f.seed).collect();
    ensure!(found == wanted, "its flights have the seeds {found:?} instead of {wanted:?}");
    Ok(())
}
