//! A real drone: tables go onto it by radio, a person flies it and brings its card.
//!
//! Nothing here makes a motor turn. Before every flight the drone gets its settings; the flight itself is commanded by a
//! client that also feeds motion capture. What is known of the flight is what the drone wrote onto its card.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use steady_common::GainTable;
use steady_common::transition::{Flags, Transition};
use steady_radio::client::{Client, parse};
use steady_radio::tables::{MIN_BATTERY_V, Survey};
use steady_radio::toc::Cache;
use steady_radio::{Uri, link};
use steady_sim::FlightMetrics;
use steady_sim::metrics::Accumulator;

use super::drone::{Drone, Flashed, FlightRequest, Track, read_table, write_table};
use super::outcome::Outcome;
use super::virtual_drone::flash_by_radio;
use crate::files;
use crate::fly::{GUARD_TRIPPED, VirtualFlight};
use crate::interrupt::InBootloader;
use crate::log::{self, Log, each_step};

/// Where the drone was by its own estimate, with the columns of the virtual Crazyflie's `truth.csv`.
pub const ESTIMATE: &str = "estimate.csv";
/// Every so many control steps are written there: a hundred a second.
const THIN: usize = 5;
/// Control steps of a flight, at least.
const MIN_STEPS: usize = 500;
/// How often a person is asked for a log that is not there.
const ATTEMPTS: usize = 3;

/// What a person is asked to do.
#[derive(Clone, Debug)]
pub enum Request {
    /// Make the drone ready for a new table.
    Flash { uri: Uri },
    /// Make the drone ready for a flight.
    Prepare {
        /// Whether it will fly with noise.
        with_noise: bool,
    },
    /// Fly, and bring the card.
    Fly {
        task: String,
        /// Number of the flight at its station.
        number: u32,
        with_noise: bool,
        /// Where the card's files are to be found.
        card: PathBuf,
    },
    /// The card has no log of the flight.
    NoLog {
        /// What was looked for, and where.
        what: String,
    },
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noise = |with: bool| if with { "WITH exploration noise" } else { "without noise" };
        match self {
            Self::Flash { uri } => write!(
                f,
                "A new table goes onto {uri}: drone on the floor, switched on, nobody flying it, no other client connected."
            ),
            Self::Prepare { with_noise } => write!(
                f,
                "Next is a flight {}: card in the drone, drone in its place, nose along +x, everybody behind the net. \
                 Switch it on and leave it still; its settings come by radio, no motor turns.",
                noise(*with_noise)
            ),
            Self::Fly { task, number, with_noise, card } => write!(
                f,
                "Fly number {number} now: {task}, once, {}, with the client that has motion capture; emergency stop at hand. \
                 Land, switch off, and put the card into this computer at {}.",
                noise(*with_noise),
                card.display()
            ),
            Self::NoLog { what } => write!(f, "{what}. Is the card in? Was it flown?"),
        }
    }
}

/// Somebody who does what no program can.
pub trait Person: Sync {
    /// Comes back when it is done.
    fn ask(&self, request: &Request) -> Result<()>;
}

#[derive(Debug)]
pub struct Terminal;

impl Person for Terminal {
    fn ask(&self, request: &Request) -> Result<()> {
        eprint!("\n► {request}\n  Enter when it is done, anything else to end: ");
        std::io::stderr().flush()?;
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer).context("there is nobody to ask")?;
        ensure!(read > 0 && answer.trim().is_empty(), "ended; --resume continues from here");
        Ok(())
    }
}

/// A drone with an address, and its card.
#[derive(Debug)]
pub struct RealDrone<P> {
    uri: Uri,
    task: String,
    card: PathBuf,
    out: PathBuf,
    person: P,
    /// Checksums of the logs that belong to a flight; none before they were looked up.
    taken: Mutex<Option<BTreeSet<u32>>>,
}

impl<P: Person> RealDrone<P> {
    /// The drone at an address whose card comes to be at `card`; the loop's folder is `out`.
    pub fn new(uri: Uri, task: String, card: PathBuf, out: PathBuf, person: P) -> Self {
        Self { uri, task, card, out, person, taken: Mutex::new(None) }
    }

    fn connect(&self) -> Result<Client> {
        let mut client = Client::new(link::open(&self.uri)?, Cache::of_user());
        client.platform()?;
        Ok(client)
    }

    /// Settings of a flight; each is read back.
    fn prepare(&self, flight: &FlightRequest) -> Result<()> {
        self.person.ask(&Request::Prepare { with_noise: flight.exploration.enabled })?;
        let mut client = self.connect()?;
        let plan = VirtualFlight {
            controller: flight.controller,
            exploration: flight.exploration,
            ..VirtualFlight::default()
        };
        let mut settings = plan.settings();
        // Also where they are the default: the drone may have stored others.
        settings.push(format!("stabilizer.controller={}", flight.controller.number()));
        if !flight.exploration.enabled {
            settings.push("steady.explore=0".to_owned());
        }
        for setting in settings {
            let (name, value) = setting.split_once('=').context("a setting without a value")?;
            let param = client.param(name)?;
            let value = parse(value, param.kind).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
            client.set(name, param, value)?;
        }
        Ok(())
    }

    /// The first log on the card that is of this flight and of no other.
    fn new_log(&self, sequence: u32, with_noise: bool) -> Result<Option<(PathBuf, Recorded)>> {
        let Ok(found) = log::find(std::slice::from_ref(&self.card)) else { return Ok(None) };
        let mut guard = self.taken.lock().map_err(|_| anyhow::anyhow!("a flight ended badly"))?;
        if guard.is_none() {
            *guard = Some(logs_below(&self.out)?.iter().filter_map(|p| checksum(p).ok()).collect());
        }
        let taken = guard.get_or_insert_default();
        for path in found.logs {
            let sum = checksum(&path)?;
            if taken.contains(&sum) {
                continue;
            }
            let recorded = match Recorded::read(&path, sequence) {
                Ok(recorded) => recorded,
                Err(error) => {
                    eprintln!("{}: left out: {error:#}", path.display());
                    continue;
                }
            };
            let is_whole = recorded.steps.len() >= MIN_STEPS && recorded.has_noise == with_noise;
            // The guard may have ended the flight before it was one.
            if is_whole || (recorded.has_tripped && !recorded.steps.is_empty()) {
                taken.insert(sum);
                return Ok(Some((path, recorded)));
            }
        }
        Ok(None)
    }
}

impl<P: Person> Drone for RealDrone<P> {
    fn flash(&self, _before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed> {
        self.person.ask(&Request::Flash { uri: self.uri.clone() })?;
        let mut client = self.connect()?;
        let survey = Survey::take(&mut client, &mut |_| {})?;
        survey.check(MIN_BATTERY_V)?;
        let flashed = {
            let _waits = InBootloader::begin();
            flash_by_radio(&mut client, &survey, table)?
        };
        write_table(folder, table, &flashed)?;
        Ok(flashed)
    }

    fn fly(&self, flight: &FlightRequest, folder: &Path) -> Result<Outcome> {
        let table = read_table(&flight.drone)?;
        let with_noise = flight.exploration.enabled;
        files::make_folder(folder)?;
        // A loop that was ended after the flight finds its log on the card.
        let mut found = self.new_log(table.sequence, with_noise)?;
        if found.is_none() {
            self.prepare(flight)?;
            self.person.ask(&Request::Fly {
                task: self.task.clone(),
                number: flight.number,
                with_noise,
                card: self.card.clone(),
            })?;
            found = self.new_log(table.sequence, with_noise)?;
        }
        let noise = if with_noise { "with" } else { "without" };
        let what = format!(
            "{} has no new log of a flight with table {} {noise} noise",
            self.card.display(),
            table.sequence
        );
        for _ in 1..ATTEMPTS {
            if found.is_none() {
                self.person.ask(&Request::NoLog { what: what.clone() })?;
                found = self.new_log(table.sequence, with_noise)?;
            }
        }
        let Some((path, recorded)) = found else { bail!("{what}; --resume continues from here") };
        let name = path.file_name().unwrap_or_default();
        fs::copy(&path, folder.join(name))
            .with_context(|| format!("{}: cannot be copied", path.display()))?;
        recorded.write(folder, &name.to_string_lossy())?;
        Ok(recorded.outcome(flight))
    }
}

/// What a log tells of a flight with a certain table.
#[derive(Clone, Debug, Default)]
struct Recorded {
    steps: Vec<Transition>,
    lost: u64,
    has_noise: bool,
    has_tripped: bool,
    has_landed: bool,
}

impl Recorded {
    fn read(path: &Path, sequence: u32) -> Result<Self> {
        let mut this = Self::default();
        each_step(&mut Log::open(path)?, |step| {
            let now = step.now;
            this.has_tripped |= now.guard >= GUARD_TRIPPED;
            if let log::Link::Gap { lost } = step.link {
                this.lost += u64::from(lost);
            }
            if now.is_law_flight() && now.table == sequence {
                this.has_noise |= now.flags.has(Flags::NOISE);
                this.steps.push(*now);
            }
            this.has_landed = !this.steps.is_empty() && step.flight.is_none();
        })?;
        Ok(this)
    }

    /// How well it was flown, by the drone's own estimate.
    fn metrics(&self) -> Option<FlightMetrics> {
        let dt_s = self.steps.first().map_or(0.002, |s| s.dt_s);
        let mut sum = Accumulator::new(f64::from(dt_s));
        for s in &self.steps {
            sum.add(&s.state, &s.reference, &s.applied);
        }
        sum.finish(self.steps.len()).filter(FlightMetrics::is_finite)
    }

    fn outcome(&self, flight: &FlightRequest) -> Outcome {
        let metrics = self.metrics();
        let trouble = if self.has_tripped {
            Some("the gain guard took the table out of flight and landed")
        } else if !self.has_landed {
            Some("its log ends in the air")
        } else if metrics.is_none() {
            Some("its log has a non-finite metric")
        } else {
            None
        };
        Outcome {
            flight: flight.number,
            seed: flight.seed,
            trouble: trouble.map(str::to_owned),
            metrics,
            steps: self.steps.len() as u64,
            lost: self.lost,
            cpu_load: 0.0,
            new_card: false,
        }
    }

    /// What the report shows of a flight.
    fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let mut track = Track::new();
        for s in self.steps.iter().step_by(THIN) {
            track.add(s.time_us, &s.state, Some(&s.reference), s.pwm, s.battery_v);
        }
        track.write(&folder.join(ESTIMATE))?;
        let records = self.steps.len();
        let summary =
            json!({"logs": [{"name": name, "records": records, "law_records": records, "lost": self.lost}]});
        files::write_json(&folder.join("summary.json"), &summary)
    }
}

/// A CRC of another kind than the one that a log ends with: over that, every log has the same.
fn checksum(path: &Path) -> Result<u32> {
    let read = || -> std::io::Result<u32> {
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
        let mut digest = crc.digest();
        let mut file = std::io::BufReader::with_capacity(1 << 20, fs::File::open(path)?);
        loop {
            let part = file.fill_buf()?;
            if part.is_empty() {
                return Ok(digest.finalize());
            }
            digest.update(part);
            let length = part.len();
            file.consume(length);
        }
    };
    read().with_context(|| format!("{}: cannot be read", path.display()))
}

/// All files in a folder and the folders in it whose names are those of logs.
fn logs_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("{}: cannot be read", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if Log::open(&path).is_ok() {
                logs.push(path);
            }
        }
    }
    Ok(logs)
}
