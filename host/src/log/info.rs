//! What is in a log, in short.

use serde::Serialize;
use steady_common::gains_record::GainsRecord;
use steady_common::observation::{REWARD_CONSTANT, RewardWeights, reward};
use steady_common::transition::{Flags, Transition};
use steady_common::usdlog::{Ending, Record, Summary};

use super::steps::each_record;
use super::{Event, Link, Log, LogError, Source, Step};

/// Longest list that is kept: a damaged file must not fill the memory.
const MAX_LISTED: usize = 1000;

/// A log in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// The file.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Version of the format.
    pub version: u16,
    /// Records found.
    pub records: u64,
    /// How it ends: `complete`, `wrong checksum` or `cut off`.
    pub ending: &'static str,
    /// Places where something could not be a record.
    pub damaged_places: u64,
    /// Bytes left out there.
    pub skipped_bytes: u64,
    /// Kinds of records.
    pub events: Vec<EventInfo>,
    /// Control steps, where the log has them.
    pub steps: Option<Steps>,
}

/// One kind of record in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventInfo {
    /// Name.
    pub name: String,
    /// Columns: variables with their units.
    pub columns: Vec<String>,
    /// Records of it.
    pub records: u64,
    /// Time of the first one, s since boot.
    pub first_s: Option<f64>,
    /// Time of the last one, s.
    pub last_s: Option<f64>,
    /// Records a second between these.
    pub rate_hz: Option<f64>,
}

/// The control steps in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Steps {
    /// Control steps found.
    pub found: u64,
    /// Control steps missing between those found.
    pub lost: u64,
    /// Places where they are missing.
    pub gap_count: u64,
    /// The first of these.
    pub gaps: Vec<Gap>,
    /// Times, s, at which the drone started again within the file.
    pub restarts_s: Vec<f64>,
    /// Gains that flew, in order.
    pub gains: Vec<GainsInfo>,
    /// Steps whose gains the log does not tell.
    pub steps_with_unknown_gains: u64,
    /// Steps with exploration noise.
    pub steps_with_noise: u64,
    /// Steps in which the motors could not give what was asked.
    pub saturated_steps: u64,
    /// Lowest battery voltage, V.
    pub battery_lowest_v: f32,
    /// Highest battery voltage, V.
    pub battery_highest_v: f32,
    /// Flights.
    pub flights: Vec<FlightInfo>,
}

/// Steps that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Time of the step behind the gap, s.
    pub time_s: f64,
    /// Sequence number of that step.
    pub sequence: u32,
    /// Steps missing before it.
    pub lost: u32,
}

/// Gains that flew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GainsInfo {
    /// Since when, s since boot.
    pub since_s: f64,
    /// Sequence number of the table; 0 for the built-in gains.
    pub table: u32,
    /// Hash of the run that made it.
    pub source: String,
    /// Set by parameter for a try.
    pub try_out: bool,
}

/// A flight in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FlightInfo {
    /// First step in the air, s since boot.
    pub begin_s: f64,
    /// Last step in the air, s.
    pub end_s: f64,
    /// Steps.
    pub steps: u64,
    /// Steps missing in it.
    pub lost: u64,
    /// Gain table it began with.
    pub table: u32,
    /// Controller it began with, as the parameter `stabilizer.controller` counts them.
    pub controller: u8,
    /// Most height, m.
    pub highest_m: f32,
    /// Mean distance of the estimate from the reference, m.
    pub tracking_error_m: f64,
    /// Largest distance, m.
    pub worst_error_m: f32,
    /// Root mean square of roll and pitch, rad.
    pub tilt_rms_rad: f64,
    /// Sum of the reward without its constant.
    pub cumulative_reward: f64,
    /// The drone came down, or the log went on without it in the air.
    #[serde(rename = "has_ended")]
    pub is_over: bool,
}

/// Reads a log through.
///
/// # Errors
/// If the file cannot be read to its end.
pub fn info<S: Source>(log: &mut Log<S>) -> Result<Info, LogError> {
    let mut events: Vec<EventInfo> = log.events().iter().map(EventInfo::new).collect();
    let mut steps = Steps::default();
    let mut gains = Vec::new();
    let summary = each_record(
        log,
        |record| {
            if let Some(event) = events.get_mut(record.event) {
                event.add(record);
            }
        },
        |step| steps.add(&step),
        |record| note(&mut gains, record),
    )?;
    for event in &mut events {
        event.finish();
    }
    steps.gains = gains;
    steps.flights.iter_mut().for_each(FlightInfo::finish);
    Ok(Info {
        file: log.name().to_owned(),
        bytes: log.size(),
        version: log.version(),
        records: summary.records,
        ending: ending(&summary),
        damaged_places: summary.damaged_places,
        skipped_bytes: summary.skipped_bytes,
        events,
        steps: (steps.found > 0).then_some(steps),
    })
}

/// How a log ends, in words.
#[must_use]
pub fn ending(summary: &Summary) -> &'static str {
    match summary.ending {
        Ending::Complete => "complete",
        Ending::WrongCrc { .. } => "wrong checksum",
        Ending::Cut => "cut off",
    }
}

fn seconds(time_us: u64) -> f64 {
    time_us as f64 / 1e6
}

fn note(list: &mut Vec<GainsInfo>, record: &GainsRecord) {
    let table = &record.table;
    let gains = GainsInfo {
        since_s: seconds(record.time_us),
        table: table.sequence,
        source: format!("{:#018x}", table.source),
        try_out: record.try_out,
    };
    // A file that begins in flight repeats the gains.
    let repeats = |last: &GainsInfo| *last == GainsInfo { since_s: last.since_s, ..gains.clone() };
    if !list.last().is_some_and(repeats) && list.len() < MAX_LISTED {
        list.push(gains);
    }
}

impl EventInfo {
    fn new(event: &Event) -> Self {
        Self {
            name: event.name.clone(),
            columns: event.variables.iter().map(super::Variable::column).collect(),
            records: 0,
            first_s: None,
            last_s: None,
            rate_hz: None,
        }
    }

    fn add(&mut self, record: &Record<'_>) {
        let time = seconds(record.time_us);
        self.records += 1;
        self.first_s.get_or_insert(time);
        self.last_s = Some(time);
    }

    fn finish(&mut self) {
        let span = self.last_s.zip(self.first_s).map(|(last, first)| last - first);
        self.rate_hz = span.filter(|s| *s > 0.0).map(|s| (self.records - 1) as f64 / s);
    }
}

impl Steps {
    fn add(&mut self, step: &Step<'_>) {
        let now = step.now;
        let time_s = seconds(now.time_us);
        if self.found == 0 {
            (self.battery_lowest_v, self.battery_highest_v) = (now.battery_v, now.battery_v);
        }
        self.found += 1;
        match step.link {
            Link::Gap { lost } => {
                self.lost += u64::from(lost);
                self.gap_count += 1;
                if self.gaps.len() < MAX_LISTED {
                    self.gaps.push(Gap { time_s, sequence: now.sequence, lost });
                }
            }
            Link::Restart if self.restarts_s.len() < MAX_LISTED => self.restarts_s.push(time_s),
            Link::First | Link::Next | Link::Restart => {}
        }
        self.steps_with_unknown_gains += u64::from(step.gains.is_none());
        self.steps_with_noise += u64::from(now.flags.has(Flags::NOISE));
        self.saturated_steps += u64::from(now.flags.has(Flags::SATURATED));
        self.battery_lowest_v = self.battery_lowest_v.min(now.battery_v);
        self.battery_highest_v = self.battery_highest_v.max(now.battery_v);
        self.fly(step, time_s);
    }

    fn fly(&mut self, step: &Step<'_>, time_s: f64) {
        let now = step.now;
        if !now.flags.has(Flags::FLYING) {
            if let Some(flight) = self.flights.last_mut() {
                flight.is_over = true;
            }
            return;
        }
        let goes_on = step.link != Link::Restart && self.flights.last().is_some_and(|f| !f.is_over);
        if !goes_on {
            if self.flights.len() >= MAX_LISTED {
                return;
            }
            let (table, controller) = (now.table, now.controller);
            self.flights.push(FlightInfo { begin_s: time_s, table, controller, ..FlightInfo::default() });
        }
        if let Some(flight) = self.flights.last_mut() {
            if let (Link::Gap { lost }, true) = (step.link, goes_on) {
                flight.lost += u64::from(lost);
            }
            flight.end_s = time_s;
            flight.add(now);
        }
    }
}

impl FlightInfo {
    fn add(&mut self, now: &Transition) {
        self.steps += 1;
        self.highest_m = self.highest_m.max(now.state.position.z);
        let error = (now.state.position - now.reference.position).norm();
        self.tracking_error_m += f64::from(error);
        self.worst_error_m = self.worst_error_m.max(error);
        let rpy = now.state.attitude.to_euler();
        self.tilt_rms_rad += f64::from(rpy.x * rpy.x + rpy.y * rpy.y);
        let r = reward(&RewardWeights::PAPER, &now.state, &now.reference, &now.applied) - REWARD_CONSTANT;
        self.cumulative_reward += f64::from(r);
    }

    fn finish(&mut self) {
        let steps = self.steps.max(1) as f64;
        self.tracking_error_m /= steps;
        self.tilt_rms_rad = (self.tilt_rms_rad / steps).sqrt();
    }
}

/// The log for people.
impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let damage = match (self.damaged_places, self.skipped_bytes) {
            (0, 0) => "no damage".to_owned(),
            (places, bytes) => format!("{places} damaged places, {bytes} bytes left out"),
        };
        writeln!(
            f,
            "{}: {} bytes, version {}, {}, {damage}",
            self.file, self.bytes, self.version, self.ending
        )?;
        for e in &self.events {
            write!(f, "  {:<16} {} records of {} values", e.name, e.records, e.columns.len())?;
            if let (Some(first), Some(last)) = (e.first_s, e.last_s) {
                write!(f, ", {first:.3} to {last:.3} s")?;
            }
            if let Some(rate) = e.rate_hz {
                write!(f, ", {rate:.1} a second")?;
            }
            writeln!(f)?;
        }
        match &self.steps {
            Some(steps) => write!(f, "{steps}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "  {:<16} {}, {} lost in {} gaps; {} with noise, {} saturated; battery {:.2} to {:.2} V",
            "control steps",
            self.found,
            self.lost,
            self.gap_count,
            self.steps_with_noise,
            self.saturated_steps,
            self.battery_lowest_v,
            self.battery_highest_v
        )?;
        for gap in &self.gaps {
            let Gap { time_s, sequence, lost } = gap;
            writeln!(f, "  {:<16} {lost} steps are missing before step {sequence} at {time_s:.3} s", "gap")?;
        }
        for time_s in &self.restarts_s {
            writeln!(f, "  {:<16} the drone started again, {time_s:.3} s after boot", "restart")?;
        }
        for g in &self.gains {
            let what = match (g.try_out, g.table) {
                (true, n) => format!("try-out gains over table {n}"),
                (false, 0) => "the built-in gains".to_owned(),
                (false, n) => format!("table {n}, source {}", g.source),
            };
            writeln!(f, "  {:<16} {what}, from {:.3} s on", "gains", g.since_s)?;
        }
        if self.steps_with_unknown_gains > 0 {
            let n = self.steps_with_unknown_gains;
            writeln!(f, "  {:<16} not in the log for {n} steps; `log replay --gains` takes them", "gains")?;
        }
        for x in &self.flights {
            writeln!(
                f,
                "  {:<16} {:.3} to {:.3} s, table {}, up to {:.2} m; error {:.2} cm mean, {:.1} cm worst; roll/pitch RMS {:.2} deg; reward {:.0}",
                "flight",
                x.begin_s,
                x.end_s,
                x.table,
                x.highest_m,
                100.0 * x.tracking_error_m,
                100.0 * x.worst_error_m,
                x.tilt_rms_rad.to_degrees(),
                x.cumulative_reward
            )?;
        }
        Ok(())
    }
}
