//! A real drone as a stage: tables go onto it by radio, a person flies it and brings its card.
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
use steady_common::observation::{REWARD_CONSTANT, RewardWeights, reward};
use steady_common::transition::{Flags, Transition};
use steady_radio::client::{Client, parse};
use steady_radio::tables::{MIN_BATTERY_V, Survey};
use steady_radio::toc::Cache;
use steady_radio::{Uri, link};

use super::stage::{Flashed, Flight, Outcome, Stage};
use super::virtual_drone::{TRIPPED, flash_by_radio};
use crate::files;
use crate::fly::{Plan, Tracking};
use crate::interrupt::InBootloader;
use crate::log::{self, Log, each_step};

/// The table that is on the drone, in the folder of its state.
const TABLE: &str = "table.bin";
/// Where the drone was by its own estimate, with the columns of the virtual Crazyflie's `truth.csv`.
pub const ESTIMATE: &str = "estimate.csv";
/// Every so many control steps are written there: a hundred a second.
const THIN: usize = 5;
/// Shorter flights are none, control steps.
const LEAST_STEPS: usize = 500;
/// How often a person is asked for a log that is not there.
const ATTEMPTS: usize = 3;

/// What a person is asked to do.
#[derive(Clone, Debug)]
pub enum Request {
    /// Make the drone ready for a new table.
    Flash {
        /// Where it is.
        uri: Uri,
    },
    /// Make the drone ready for a flight.
    Prepare {
        /// Whether it will fly with noise.
        with_noise: bool,
    },
    /// Fly, and bring the card.
    Fly {
        /// What.
        task: String,
        /// Number of the flight at its station.
        number: u32,
        /// Whether with noise.
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
    ///
    /// # Errors
    /// If it is not going to be done.
    fn ask(&self, request: &Request) -> Result<()>;
}

/// The person at the terminal.
#[derive(Debug)]
pub struct Terminal;

impl Person for Terminal {
    fn ask(&self, request: &Request) -> Result<()> {
        eprint!("\n► {request}\n  Enter when it is done, anything else to end: ");
        std::io::stderr().flush()?;
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer).context("there is nobody to ask")?;
        ensure!(read > 0 && answer.trim().is_empty(), "ended; --resume goes on from here");
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
    fn prepare(&self, flight: &Flight) -> Result<()> {
        self.person.ask(&Request::Prepare { with_noise: flight.exploration.enabled })?;
        let mut client = self.connect()?;
        let plan = Plan { controller: flight.controller, exploration: flight.exploration, ..Plan::default() };
        let mut settings = plan.settings();
        // Whatever the drone has stored.
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
            let is_whole = recorded.steps.len() >= LEAST_STEPS && recorded.has_noise == with_noise;
            // The guard may have ended the flight before it was one.
            if is_whole || (recorded.has_tripped && !recorded.steps.is_empty()) {
                taken.insert(sum);
                return Ok(Some((path, recorded)));
            }
        }
        Ok(None)
    }
}

impl<P: Person> Stage for RealDrone<P> {
    fn flash(&self, _before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed> {
        self.person.ask(&Request::Flash { uri: self.uri.clone() })?;
        let mut client = self.connect()?;
        let survey = Survey::take(&mut client, &mut |_| {})?;
        survey.check(MIN_BATTERY_V)?;
        let flashed = {
            let _waits = InBootloader::begin();
            flash_by_radio(&mut client, &survey, table)?
        };
        let written = GainTable { sequence: flashed.sequence, ..*table };
        files::write(&folder.join(TABLE), &written.encode())?;
        Ok(flashed)
    }

    fn fly(&self, flight: &Flight, folder: &Path) -> Result<Outcome> {
        let path = flight.drone.join(TABLE);
        let page = fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let table = GainTable::decode(&page).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
        let with_noise = flight.exploration.enabled;
        fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
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
        let Some((path, recorded)) = found else { bail!("{what}; --resume goes on from here") };
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
        let wanted = Flags(Flags::FLYING.0 | Flags::LAW.0);
        each_step(&mut Log::open(path)?, |step| {
            let now = step.now;
            this.has_tripped |= now.guard >= TRIPPED;
            if let log::Link::Gap { lost } = step.link {
                this.lost += u64::from(lost);
            }
            let flies = now.flags.has(Flags::FLYING);
            if now.flags.has(wanted) && now.table == sequence {
                this.has_noise |= now.flags.has(Flags::NOISE);
                this.steps.push(*now);
            }
            this.has_landed = !this.steps.is_empty() && !flies;
        })?;
        Ok(this)
    }

    /// How well it was flown, by the drone's own estimate.
    fn tracking(&self) -> Option<Tracking> {
        let n = self.steps.len() as f64;
        let mut t = Tracking::default();
        let mut still = 0.0;
        for s in &self.steps {
            let error = f64::from((s.state.position - s.reference.position).norm());
            let rpy = s.state.attitude.to_euler();
            t.duration_s += f64::from(s.dt_s);
            t.tracking_error_m += error / n;
            t.max_error_m = t.max_error_m.max(error);
            let r = reward(&RewardWeights::PAPER, &s.state, &s.reference, &s.applied);
            t.cumulative_reward += f64::from(r - REWARD_CONSTANT);
            t.tilt_rms_rad += f64::from(rpy.x * rpy.x + rpy.y * rpy.y) / n;
            if s.reference.position.z > 0.5 && s.reference.velocity.norm() < 1e-3 {
                still += 1.0;
                t.hover_height_error_m += f64::from((s.state.position.z - s.reference.position.z).abs());
            }
        }
        t.tilt_rms_rad = t.tilt_rms_rad.sqrt();
        t.hover_height_error_m /= f64::max(still, 1.0);
        let is_sound = t.cumulative_reward.is_finite() && t.tracking_error_m.is_finite();
        (!self.steps.is_empty() && is_sound).then_some(t)
    }

    fn outcome(&self, flight: &Flight) -> Outcome {
        let tracking = self.tracking();
        let trouble = if self.has_tripped {
            Some("the gain guard took the table out of flight and landed")
        } else if !self.has_landed {
            Some("its log ends in the air")
        } else if tracking.is_none() {
            Some("there was nothing to track")
        } else {
            None
        };
        Outcome {
            flight: flight.number,
            seed: flight.seed,
            is_good: trouble.is_none(),
            trouble: trouble.map(str::to_owned),
            tracking,
            steps: self.steps.len() as u64,
            lost: self.lost,
            cpu_load: 0.0,
            new_card: false,
        }
    }

    /// What the page shows of a flight.
    fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let mut out = csv::Writer::from_writer(Vec::new());
        out.write_record([
            "time_us",
            "x",
            "y",
            "z",
            "roll",
            "pitch",
            "yaw",
            "ref_x",
            "ref_y",
            "ref_z",
            "m1",
            "m2",
            "m3",
            "m4",
            "battery_v",
        ])?;
        for s in self.steps.iter().step_by(THIN) {
            let (p, a, r) = (s.state.position, s.state.attitude.to_euler(), s.reference.position);
            let floats = [p.x, p.y, p.z, a.x, a.y, a.z, r.x, r.y, r.z];
            let row = std::iter::once(s.time_us.to_string())
                .chain(floats.map(|v| v.to_string()))
                .chain(s.pwm.map(|v| v.to_string()))
                .chain([s.battery_v.to_string()]);
            out.write_record(row)?;
        }
        files::write(&folder.join(ESTIMATE), &out.into_inner()?)?;
        let records = self.steps.len();
        let summary =
            json!({"logs": [{"name": name, "records": records, "law_records": records, "lost": self.lost}]});
        files::write(&folder.join("summary.json"), &serde_json::to_vec_pretty(&summary)?)
    }
}

/// Of another kind than the one that a log ends with, which makes that kind's the same for all logs.
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
