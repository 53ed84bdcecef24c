//! The engine: goes through a loop's stations and keeps its journal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use steady_common::GainTable;
use steady_common::exploration::Exploration;
use steady_sim::METRICS;

use super::drone::{Drone, EEPROM, Flashed, FlightRequest};
use super::journal::{End, Iteration, Journal, Made, NAME, Origin};
use super::learner::Learner;
use super::outcome::{Outcome, mean};
use super::settings::Settings;
use super::trust::{Decision, decide};
use crate::{files, gains_file, jobs};

/// The drone's state after a flash, and after the best table was restored.
const DRONE: &str = "drone";
const RESTORED: &str = "drone-restored";
/// Stations with files of their own.
const ADAPT: &str = "adapt";
const JUDGE: &str = "judge";
const EXPLORE: &str = "explore";
const TABLE: &str = "gains.bin";
/// Part of the name of a folder that is not complete.
const UNFINISHED: &str = ".unfinished-";

pub struct ClosedLoop<'a> {
    folder: PathBuf,
    journal: Journal,
    drone: &'a dyn Drone,
    learner: &'a dyn Learner,
    /// Flights at once.
    jobs: usize,
    /// Prefix of the lines on the terminal; `None` prints nothing.
    name: Option<String>,
    /// Held as long as the loop works here.
    _lock: File,
}

impl std::fmt::Debug for ClosedLoop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosedLoop").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Keeps other programs out of a folder.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    files::make_folder(folder)?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
    file.try_lock()
        .with_context(|| format!("another program works in {}: wait for it, or stop it", folder.display()))?;
    Ok(file)
}

impl<'a> ClosedLoop<'a> {
    /// Begins a loop, or with `resume` continues the one in the folder, if there is one.
    pub fn open(
        folder: &Path,
        settings: Settings,
        origin: Origin,
        resume: bool,
        drone: &'a dyn Drone,
        learner: &'a dyn Learner,
    ) -> Result<Self> {
        settings.check()?;
        let lock = lock(folder)?;
        let there = folder.join(NAME).exists();
        ensure!(
            resume || !there,
            "{} already holds a loop: continue it with --resume, or give another --out",
            folder.display()
        );
        let journal = if there {
            let journal = Journal::load(folder)?;
            let other = journal.settings.differences(&settings);
            ensure!(
                other.is_empty(),
                "the loop in {} was begun with other settings ({}): give the same, or another --out",
                folder.display(),
                other.join(", ")
            );
            if let Some(what) = journal.origin.difference(&origin) {
                bail!(
                    "the loop in {} was begun with another {what}: give the same, or another --out",
                    folder.display()
                );
            }
            journal
        } else {
            Journal::new(settings, origin)
        };
        journal.save(folder)?;
        let mut this = Self {
            folder: folder.to_owned(),
            journal,
            drone,
            learner,
            jobs: 2,
            name: Some(String::new()),
            _lock: lock,
        };
        this.tidy()?;
        Ok(this)
    }

    /// How many flights fly at once, and what lines on the terminal begin with; `None` prints nothing.
    pub fn with(mut self, jobs: usize, name: Option<&str>) -> Self {
        (self.jobs, self.name) = (jobs.max(1), name.map(str::to_owned));
        self
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn iteration_folder(folder: &Path, number: u32) -> PathBuf {
        folder.join(format!("iteration-{number:02}"))
    }

    pub fn table(folder: &Path, number: u32) -> Result<GainTable> {
        let path = Self::iteration_folder(folder, number).join(TABLE);
        gains_file::load(&path.to_string_lossy())
    }

    /// The judging flights' folder of an iteration.
    pub fn judging_folder(folder: &Path, number: u32) -> PathBuf {
        Self::iteration_folder(folder, number).join(JUDGE)
    }

    /// The folder of what an iteration's adaptation found.
    pub fn adapt_folder(folder: &Path, number: u32) -> PathBuf {
        Self::iteration_folder(folder, number).join(ADAPT)
    }

    /// Goes through all stations that are left.
    pub fn run(&mut self) -> Result<&End> {
        while self.journal.end.is_none() {
            let number = match self.journal.iterations.last() {
                Some(last) if last.explored.is_none() => last.number,
                Some(last) => last.number + 1,
                None => 0,
            };
            self.station(number)?;
        }
        self.journal.end.as_ref().context("the loop has no end")
    }

    /// The first iteration alone: the simulator's table, judged and explored.
    pub fn begin(&mut self) -> Result<()> {
        while self.journal.iterations.first().is_none_or(|i| i.explored.is_none()) {
            self.station(0)?;
        }
        Ok(())
    }

    /// Takes over what [`Self::begin`] did in another folder, files and all; nothing when this loop has begun.
    pub fn take_over(&mut self, from: &Path) -> Result<()> {
        if !self.journal.iterations.is_empty() {
            return Ok(());
        }
        let other = Journal::load(from)?;
        let settings = Settings {
            transfer_only: other.settings.transfer_only,
            iterations: other.settings.iterations,
            ..self.journal.settings.clone()
        };
        let differences = settings.differences(&other.settings);
        ensure!(differences.is_empty(), "{}: differs in {}", from.display(), differences.join(", "));
        let first = other.iterations.into_iter().next().filter(|i| i.explored.is_some());
        let first = first.with_context(|| format!("{}: is not flown yet", from.display()))?;
        let to = Self::iteration_folder(&self.folder, 0);
        remove(&to)?;
        link_folder(&Self::iteration_folder(from, 0), &to)?;
        self.journal.iterations.push(first);
        self.journal.save(&self.folder)
    }

    /// The next station of an iteration: done, then written down.
    fn station(&mut self, number: u32) -> Result<()> {
        let mut now = match self.journal.iterations.get(number as usize) {
            Some(iteration) => iteration.clone(),
            None => Iteration { number, ..Iteration::default() },
        };
        let folder = Self::iteration_folder(&self.folder, number);
        files::make_folder(&folder)?;
        let is_kept = now.decision.as_ref().map(|d| d.is_kept);
        let is_changed = now.made != Some(Made::Unchanged);
        match (&now.made, &now.flashed, is_kept) {
            (None, _, _) => {
                let made = self.make(number)?;
                if made == Made::Unchanged {
                    now.decision = Some(Decision::unchanged());
                    self.say(&format!("iteration {number}: no change is proposed"));
                }
                now.made = Some(made);
            }
            (Some(_), None, _) if is_changed => now.flashed = Some(self.flash(number, number, DRONE)?),
            (Some(_), _, None) => {
                let flights = self.judge(number)?;
                let decision = decide(self.journal.best().map(|(_, flights)| flights), &flights);
                self.say(&format!("iteration {number}: {}: {}", described(&flights), decision.reason));
                (now.judged, now.decision) = (Some(flights), Some(decision));
            }
            (_, _, Some(false)) if is_changed && now.restored.is_none() => {
                let (best, _) = self.journal.best().context("there is no table to go back to")?;
                self.say(&format!("iteration {number}: rolled back to the table of iteration {best}"));
                now.restored = Some(self.flash(number, best, RESTORED)?);
            }
            _ if number >= self.journal.settings.iterations && number > 0 => {
                self.end("all iterations are flown");
            }
            _ if number > 0 && self.journal.stale() >= self.journal.settings.patience => {
                let reason = format!("no clear improvement in {} iterations", self.journal.stale());
                self.end(&reason);
            }
            _ => {
                let flights = self.explore(&now)?;
                self.tell_exploration(number, &flights);
                let steps: u64 = flights.iter().map(|f| f.steps).sum();
                now.explored = Some(flights);
                if steps == 0 {
                    self.end("no flight left a log to learn from: check the card");
                } else if self.journal.settings.iterations == 0 {
                    self.end("the first table is flown, and no iteration was asked for");
                }
            }
        }
        match self.journal.iterations.get_mut(number as usize) {
            Some(iteration) => *iteration = now,
            None => self.journal.iterations.push(now),
        }
        self.journal.save(&self.folder)
    }

    fn end(&mut self, reason: &str) {
        let best = self.journal.best().map_or(0, |(number, _)| number);
        self.say(&format!("ended: {reason}; the best table is iteration {best}'s"));
        self.journal.end = Some(End { reason: reason.to_owned(), best });
    }

    /// A table for the iteration, with what is known about it.
    fn make(&mut self, number: u32) -> Result<Made> {
        let folder = Self::iteration_folder(&self.folder, number);
        let (table, made) = if number == 0 {
            (Some(self.learner.first_table()?), Made::Simulator)
        } else {
            let logs: Vec<PathBuf> = self
                .journal
                .iterations
                .iter()
                .flat_map(|i| {
                    let flights = i.explored.iter().flatten().filter(|f| f.steps > 0);
                    let folder = Self::iteration_folder(&self.folder, i.number).join(EXPLORE);
                    flights.map(move |f| folder.join(flight_name(f.flight)))
                })
                .collect();
            let scale = self.journal.scale();
            self.say(&format!("iteration {number}: learning from {} flights", logs.len()));
            let new = whole(&folder.join(ADAPT), |out| self.learner.adapt(&logs, scale, out))?;
            (new, if new.is_some() { Made::Adapted } else { Made::Unchanged })
        };
        if let Some(table) = table {
            files::write(&folder.join("gains.toml"), gains_file::to_toml(&table).as_bytes())?;
            files::write(&folder.join(TABLE), &table.encode())?;
        }
        Ok(made)
    }

    /// Puts the table of an iteration onto the drone as it is now.
    fn flash(&self, number: u32, table: u32, name: &str) -> Result<Flashed> {
        let table = Self::table(&self.folder, table)?;
        let before = self.drone_state();
        let folder = Self::iteration_folder(&self.folder, number).join(name);
        let flashed = whole(&folder, |out| self.drone.flash(before.as_deref(), &table, out))?;
        self.say(&format!("iteration {number}: table {} is on the drone, read back", flashed.sequence));
        Ok(flashed)
    }

    /// The drone's state after its last flash.
    fn drone_state(&self) -> Option<PathBuf> {
        drone_state(&self.folder, &self.journal)
    }

    /// The drone's configuration memory after its last flight.
    fn eeprom(&self) -> Option<PathBuf> {
        let stations = self.journal.iterations.iter().rev().flat_map(|i| {
            let folder = Self::iteration_folder(&self.folder, i.number);
            [i.explored.as_ref().map(|_| folder.join(EXPLORE)), i.judged.as_ref().map(|_| folder.join(JUDGE))]
        });
        stations.flatten().map(|folder| folder.join(EEPROM)).find(|path| path.exists())
    }

    fn judge(&self, number: u32) -> Result<Vec<Outcome>> {
        let flights = self.flights(self.journal.settings.judging_seeds(), |seed, flight| FlightRequest {
            seed,
            exploration: Exploration::DEFAULT,
            ..flight
        })?;
        self.fly_all(&flights, &Self::iteration_folder(&self.folder, number).join(JUDGE))
    }

    fn explore(&self, now: &Iteration) -> Result<Vec<Outcome>> {
        let settings = &self.journal.settings;
        let flights = self.flights(settings.exploring_seeds(now.number), |seed, flight| FlightRequest {
            seed,
            exploration: settings.exploration(seed),
            faults: settings.faults.clone(),
            card_free_mib: settings.card_free_mib,
            ..flight
        })?;
        self.fly_all(&flights, &Self::iteration_folder(&self.folder, now.number).join(EXPLORE))
    }

    /// Flights of the drone as it is now.
    fn flights(
        &self,
        seeds: impl Iterator<Item = u64>,
        make: impl Fn(u64, FlightRequest) -> FlightRequest,
    ) -> Result<Vec<FlightRequest>> {
        let drone = self.drone_state().context("no table was flashed yet")?;
        let eeprom = self.eeprom();
        let flight = |(number, seed)| {
            make(seed, FlightRequest { number, eeprom: eeprom.clone(), ..FlightRequest::new(drone.clone()) })
        };
        Ok((1..).zip(seeds).map(flight).collect())
    }

    fn fly_all(&self, flights: &[FlightRequest], folder: &Path) -> Result<Vec<Outcome>> {
        whole(folder, |out| {
            let outcomes = fly_all(self.drone, flights, out, self.jobs)?;
            // The drone that flies on is the one of the last flight.
            let eeprom = flights.last().map(|f| out.join(flight_name(f.number)).join(EEPROM));
            if let Some(eeprom) = eeprom.filter(|path| path.exists()) {
                let to = out.join(EEPROM);
                fs::copy(&eeprom, &to).with_context(|| format!("{}: cannot be written", to.display()))?;
            }
            Ok(outcomes)
        })
    }

    fn tell_exploration(&self, number: u32, flights: &[Outcome]) {
        self.say(&format!("iteration {number}: exploring: {}", described(flights)));
        for f in flights {
            if let Some(trouble) = &f.trouble {
                self.say(&format!("iteration {number}: exploring flight {}: {trouble}", f.flight));
            }
            if f.new_card {
                self.say(&format!(
                    "iteration {number}: exploring flight {} was flown again with a new card: the first held no log",
                    f.flight
                ));
            }
        }
    }

    fn say(&self, text: &str) {
        if let Some(name) = &self.name {
            eprintln!("{name}{text}");
        }
    }

    /// Removes what a killed loop left without a name, or without an entry in the journal.
    fn tidy(&mut self) -> Result<()> {
        for number in 0..=self.journal.settings.iterations {
            let folder = Self::iteration_folder(&self.folder, number);
            let now = self.journal.iterations.get(number as usize).cloned().unwrap_or_default();
            for (name, is_done) in [
                (ADAPT, now.made.is_some()),
                (DRONE, now.flashed.is_some()),
                (JUDGE, now.judged.is_some()),
                (RESTORED, now.restored.is_some()),
                (EXPLORE, now.explored.is_some()),
            ] {
                if !is_done {
                    remove(&folder.join(name))?;
                }
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
            for entry in entries.filter(|e| e.file_name().to_string_lossy().contains(UNFINISHED)) {
                // A flight of the killed loop may still write there; nobody will take it for something.
                let _ = remove(&entry.path());
            }
        }
        Ok(())
    }
}

/// The drone's state after the last flash that a journal knows of.
pub fn drone_state(folder: &Path, journal: &Journal) -> Option<PathBuf> {
    journal.iterations.iter().rev().find_map(|i| {
        let name = match (&i.restored, &i.flashed) {
            (Some(_), _) => RESTORED,
            (None, Some(_)) => DRONE,
            (None, None) => return None,
        };
        Some(ClosedLoop::iteration_folder(folder, i.number).join(name))
    })
}

/// Name of a flight's folder.
pub fn flight_name(number: u32) -> String {
    format!("flight-{number:02}")
}

/// Flies, some at once; outcomes in the order of the flights.
pub(crate) fn fly_all(
    drone: &dyn Drone,
    flights: &[FlightRequest],
    folder: &Path,
    threads: usize,
) -> Result<Vec<Outcome>> {
    jobs::map(threads, flights, |flight| {
        drone.fly(flight, &folder.join(flight_name(flight.number))).map(Outcome::rounded)
    })
}

/// Flights in a few words: how many are good, and their tracking error and reward.
fn described(flights: &[Outcome]) -> String {
    let good: Vec<Outcome> = flights.iter().filter(|f| f.is_good()).cloned().collect();
    let mut text = format!("{} of {} flights good", good.len(), flights.len());
    for metric in &METRICS[..2] {
        if let Some(value) = mean(&good, metric) {
            text += &format!(", {} {:.*} {}", metric.name, metric.digits, metric.scale * value, metric.unit);
            text.truncate(text.trim_end().len());
        }
    }
    text
}

fn unfinished(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    // With the process's number: flights of a killed loop may still write into theirs.
    name.push(format!("{UNFINISHED}{}", std::process::id()));
    folder.with_file_name(name)
}

/// Makes a folder that gets its name only when it is complete.
pub(crate) fn whole<T>(folder: &Path, make: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let draft = unfinished(folder);
    remove(&draft)?;
    files::make_folder(&draft)?;
    let made = make(&draft)?;
    remove(folder)?;
    fs::rename(&draft, folder).with_context(|| format!("{}: cannot be named", folder.display()))?;
    Ok(made)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A folder with the same files, which take no room twice where links are possible.
fn link_folder(from: &Path, to: &Path) -> Result<()> {
    let problem = || format!("{}: cannot be taken over", from.display());
    fs::create_dir_all(to).with_context(problem)?;
    for entry in fs::read_dir(from).with_context(problem)? {
        let entry = entry.with_context(problem)?;
        let target = to.join(entry.file_name());
        if entry.file_type().with_context(problem)?.is_dir() {
            link_folder(&entry.path(), &target)?;
        } else if fs::hard_link(entry.path(), &target).is_err() {
            fs::copy(entry.path(), &target).with_context(problem)?;
        }
    }
    Ok(())
}
