//! `loop.json`: which stations of a loop are done, and what came of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::drone::{DroneKind, Flashed};
use super::outcome::{MetricSummary, Outcome};
use super::settings::Settings;
use super::trust::{Decision, TrustRegion, decide};
use crate::files;
use crate::fly::find_image;
use crate::out::Table;
use crate::provenance::{COMMIT, VERSION};

pub const NAME: &str = "loop.json";
const FORMAT: u32 = 2;
/// Longest firmware image that is read.
const MAX_ELF_BYTES: u64 = 256 << 20;
/// Longer files are not read.
pub(super) const MAX_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    pub format: u32,
    pub settings: Settings,
    /// What it began with.
    pub origin: Origin,
    /// Iterations so far; the last one may be unfinished.
    pub iterations: Vec<Iteration>,
    pub end: Option<End>,
}

/// What a loop began with; it continues only with the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Run folder of `steady train`.
    pub run: PathBuf,
    /// CRC-32 of its gain table's page.
    pub table_crc32: u32,
    /// CRC-32 of the firmware's image; 0 for a native drone.
    pub firmware_crc32: u32,
    /// The program's version and commit.
    pub program: String,
    pub command: Vec<String>,
}

impl Origin {
    /// Of a run and a drone; `elf` is the firmware's image, which is looked for if not given.
    pub fn new(run: &Path, drone: &DroneKind, elf: Option<&Path>) -> Result<Self> {
        Ok(Self {
            run: run.to_owned(),
            table_crc32: file_crc32(&run.join("gains.bin"))?,
            firmware_crc32: match drone {
                DroneKind::Native => 0,
                DroneKind::Virtual | DroneKind::Real(_) => file_crc32(&find_image(elf)?)?,
            },
            program: format!("{VERSION} {COMMIT}"),
            command: std::env::args().collect(),
        })
    }

    /// What differs from another origin, if a loop of that cannot continue with this.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.table_crc32 != other.table_crc32 {
            Some("run")
        } else if self.firmware_crc32 != other.firmware_crc32 {
            Some("firmware image")
        } else {
            None
        }
    }
}

/// CRC-32 of a table or an image.
pub(crate) fn file_crc32(path: &Path) -> Result<u32> {
    let length = std::fs::metadata(path).map_or(0, |m| m.len());
    ensure!(length <= MAX_ELF_BYTES, "{}: {length} bytes are too many", path.display());
    let bytes = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&bytes))
}

/// One table: how it was made, flashed and judged, and what was flown with the best table afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iteration {
    /// From 0, which is the simulator's table.
    pub number: u32,
    /// There is a table in the iteration's folder, or none was proposed.
    pub made: Option<Made>,
    /// It is on the drone.
    pub flashed: Option<Flashed>,
    pub judged: Option<Vec<Outcome>>,
    /// What they say of it.
    pub decision: Option<Decision>,
    /// The best table is on the drone again.
    pub restored: Option<Flashed>,
    /// Exploring flights of the best table.
    pub explored: Option<Vec<Outcome>>,
}

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    Simulator,
    /// Learned from flights.
    Adapted,
    /// No change was proposed: there is no new table.
    Unchanged,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Why, for people.
    pub reason: String,
    /// Iteration whose table is the best; it is on the drone.
    pub best: u32,
}

impl Journal {
    pub fn new(settings: Settings, origin: Origin) -> Self {
        Self { format: FORMAT, settings, origin, iterations: Vec::new(), end: None }
    }

    /// Reads and checks the journal of a folder.
    pub fn load(folder: &Path) -> Result<Self> {
        read_checked(folder, NAME, "loop", |journal: &Self| journal.check())
    }

    /// Writes it, in one step.
    pub fn save(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(NAME), self)
    }

    /// Number of the best iteration so far, and its judging flights.
    pub fn best(&self) -> Option<(u32, &[Outcome])> {
        best_of(&self.iterations)
    }

    /// Decisions about adaptations, in order.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.iterations.iter().skip(1).filter_map(|i| i.decision.as_ref())
    }

    /// Iterations in a row at the end without a clear improvement.
    pub fn stale(&self) -> u32 {
        self.decisions().rev().take_while(|d| !d.is_improvement()).count() as u32
    }

    /// Part of the usual step that the next adaptation may take.
    pub fn scale(&self) -> f32 {
        TrustRegion::scale_after(self.decisions())
    }

    /// Exploring and judging flights so far.
    pub fn flight_counts(&self) -> [usize; 2] {
        let count = |of: fn(&Iteration) -> &Option<Vec<Outcome>>| {
            self.iterations.iter().filter_map(|i| of(i).as_ref()).map(Vec::len).sum()
        };
        [count(|i| &i.explored), count(|i| &i.judged)]
    }

    /// What came of every table, for people.
    pub fn table(&self) -> String {
        let head = ["iteration".to_owned()];
        let mut table =
            Table::new(head.into_iter().chain(MetricSummary::headings()).chain(["decision".to_owned()]));
        for (iteration, decision) in self.iterations.iter().filter_map(|i| Some((i, i.decision.as_ref()?))) {
            let text = match (iteration.made, decision.is_kept) {
                (Some(Made::Unchanged), _) => decision.reason.clone(),
                (_, true) => format!("kept: {}", decision.reason),
                (_, false) => format!("rolled back: {}", decision.reason),
            };
            let cells = MetricSummary::of_flights(iteration.judged.as_deref().unwrap_or_default()).cells();
            table.row([iteration.number.to_string()].into_iter().chain(cells).chain([text]));
        }
        let mut text = table.to_string();
        let [explored, judged] = self.flight_counts();
        text += &format!("\n{explored} exploring and {judged} judging flights");
        match &self.end {
            Some(end) => {
                text +=
                    &format!("; ended: {}; the drone flies the table of iteration {}\n", end.reason, end.best)
            }
            None => text.push('\n'),
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
        if now.made == Some(Made::Unchanged) {
            ensure!(
                now.flashed.is_none() && now.judged.is_none() && now.restored.is_none(),
                "there is no table to flash or judge"
            );
            ensure!(
                now.decision == Some(Decision::unchanged()),
                "its decision does not follow from its flights"
            );
        } else {
            let Some(flights) = &now.judged else {
                ensure!(now.decision.is_none(), "it has a decision without flights");
                ensure!(
                    now.restored.is_none() && now.explored.is_none(),
                    "it was flown before it was judged"
                );
                ensure!(now.flashed.is_none() || now.made.is_some(), "it was flashed before it was made");
                ensure!(is_last, "it is unfinished, and others come after it");
                return Ok(());
            };
            ensure!(now.flashed.is_some() && now.made.is_some(), "it was judged before it was on the drone");
            check_flights(flights, self.settings.judging_seeds())?;
            let best = best_of(&self.iterations[..index]);
            let decision = decide(best.map(|(_, flights)| flights), flights);
            ensure!(
                now.decision.as_ref() == Some(&decision),
                "its decision does not follow from its flights"
            );
            ensure!(now.restored.is_none() || !decision.is_kept, "a table that was kept needs no restoring");
            ensure!(
                now.explored.is_none() || decision.is_kept || now.restored.is_some(),
                "the best table was not restored"
            );
        }
        match &now.explored {
            Some(flights) => check_flights(flights, self.settings.exploring_seeds(now.number)),
            None if is_last => Ok(()),
            None => bail!("it is unfinished, and others come after it"),
        }
    }
}

/// Reads a JSON file of a folder and checks it.
pub(super) fn read_checked<T: serde::de::DeserializeOwned>(
    folder: &Path,
    name: &str,
    what: &str,
    check: impl FnOnce(&T) -> Result<()>,
) -> Result<T> {
    let path = folder.join(name);
    let length = std::fs::metadata(&path)
        .with_context(|| format!("{} holds no {what}: it has no {name}", folder.display()))?
        .len();
    ensure!(length <= MAX_BYTES, "{}: {length} bytes are too many for a {what}", path.display());
    let text = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let parse = || -> Result<T> {
        let value: T = serde_json::from_slice(&text)?;
        check(&value)?;
        Ok(value)
    };
    parse().with_context(|| {
        format!("{}: not a {what} of this version; start again in another folder", path.display())
    })
}

fn best_of(iterations: &[Iteration]) -> Option<(u32, &[Outcome])> {
    iterations.iter().rev().find_map(|i| match (&i.decision, &i.judged) {
        (Some(decision), Some(flights)) if decision.is_kept => Some((i.number, flights.as_slice())),
        _ => None,
    })
}

fn check_flights(flights: &[Outcome], seeds: impl Iterator<Item = u64>) -> Result<()> {
    let wanted: Vec<u64> = seeds.collect();
    let found: Vec<u64> = flights.iter().map(|f| f.seed).collect();
    ensure!(found == wanted, "its flights have the seeds {found:?} instead of {wanted:?}");
    Ok(())
}
