//! Summary of a log.

use serde::Serialize;
use steady_common::gains_record::GainsRecord;
use steady_common::transition::{Flags, Link};
use steady_common::usdlog::{Ending, Record, Summary};
use steady_sim::metrics::{Accumulator, FlightMetrics};

use super::steps::each_record;
use super::{Event, Log, LogError, LoggedStep, Variable};

/// Longest list that is kept, so that a damaged file cannot fill the memory.
const MAX_LISTED: usize = 1000;

/// Summary of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// The file.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Version of the file format.
    pub version: u16,
    /// Valid records.
    pub records: u64,
    /// How it ends: `complete`, `wrong checksum` or `cut off`.
    pub ending: &'static str,
    /// Places with bytes that are not a record.
    pub damaged_places: u64,
    /// Number of these bytes.
    pub skipped_bytes: u64,
    /// Kinds of records.
    pub events: Vec<EventInfo>,
    /// Control steps, if the log has any.
    pub steps: Option<StepsInfo>,
}

/// Summary of one kind of record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventInfo {
    /// Name of the event.
    pub name: String,
    /// Names of the variables with their units.
    pub columns: Vec<String>,
    /// Number of records.
    pub records: u64,
    /// Time of the first record, s since boot.
    pub first_s: Option<f64>,
    /// Time of the last record, s since boot.
    pub last_s: Option<f64>,
    /// Records per second in between.
    pub rate_hz: Option<f64>,
}

/// Summary of the control steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepsInfo {
    /// Control steps in the log.
    pub found: u64,
    /// Control steps missing between them.
    pub lost: u64,
    /// Number of gaps.
    pub gap_count: u64,
    /// The first gaps.
    pub gaps: Vec<Gap>,
    /// Times, s since boot, of the first step after each restart.
    pub restarts_s: Vec<f64>,
    /// Gains in the order they flew.
    pub gains: Vec<GainsInfo>,
    /// Steps whose gains are not in the log.
    pub steps_with_unknown_gains: u64,
    /// Steps with exploration noise.
    pub steps_with_noise: u64,
    /// Steps in which a motor was at its limit.
    pub saturated_steps: u64,
    /// Lowest battery voltage, V.
    pub battery_lowest_v: f32,
    /// Highest battery voltage, V.
    pub battery_highest_v: f32,
    /// The flights.
    pub flights: Vec<FlightInfo>,
}

/// Missing control steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Time of the step after the gap, s since boot.
    pub time_s: f64,
    /// Sequence number of that step.
    pub sequence: u32,
    /// Number of missing steps.
    pub lost: u32,
}

/// Gains that flew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GainsInfo {
    /// Time of the first step with them, s since boot.
    pub since_s: f64,
    /// Sequence number of the table; 0 for the built-in gains.
    pub table: u32,
    /// Hash of the run that made the table.
    pub source: String,
    /// Set by parameter, over the table's.
    pub try_out: bool,
}

/// Summary of a flight, by the drone's own estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlightInfo {
    /// Time of the first step in the air, s since boot.
    pub begin_s: f64,
    /// Time of the last step in the air, s since boot.
    pub end_s: f64,
    /// Control steps.
    pub steps: u64,
    /// Control steps that are missing.
    pub lost: u64,
    /// Gain table of the first step.
    pub table: u32,
    /// Controller of the first step, as in the parameter `stabilizer.controller`.
    pub controller: u8,
    /// Maximum height, m.
    pub max_height_m: f32,
    /// How well it was flown, over all of its steps.
    #[serde(flatten)]
    pub metrics: FlightMetrics,
    /// False if the log ends in the air.
    pub has_ended: bool,
}

/// Summarises a log.
///
/// # Errors
/// If the file cannot be read to its end, or its control steps lack a required field.
pub fn info(log: &mut Log) -> Result<Info, LogError> {
    summarise(log, |_| {})
}

/// As [`info`], and calls `each` with every control step.
pub(super) fn summarise(log: &mut Log, mut each: impl FnMut(&LoggedStep<'_>)) -> Result<Info, LogError> {
    let mut events: Vec<EventInfo> = log.events().iter().map(EventInfo::new).collect();
    let mut steps = StepsInfo::default();
    let mut gains = Vec::new();
    let mut flight = Flight::default();
    let summary = each_record(
        log,
        |record| {
            if let Some(event) = events.get_mut(record.event) {
                event.add(record);
            }
        },
        |step| {
            steps.add(step);
            flight.add(step, &mut steps.flights);
            each(step);
        },
        |record| add_gains(&mut gains, record),
    )?;
    flight.end(&mut steps.flights, false);
    events.iter_mut().for_each(EventInfo::finish);
    steps.gains = gains;
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

fn ending(summary: &Summary) -> &'static str {
    match summary.ending {
        Ending::Complete => "complete",
        Ending::WrongCrc { .. } => "wrong checksum",
        Ending::Cut => "cut off",
    }
}

fn seconds(time_us: u64) -> f64 {
    time_us as f64 / 1e6
}

fn add_gains(list: &mut Vec<GainsInfo>, record: &GainsRecord) {
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
            columns: event.variables.iter().map(Variable::column).collect(),
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

impl StepsInfo {
    fn add(&mut self, step: &LoggedStep<'_>) {
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
    }
}

/// The flight that is being read.
#[derive(Default)]
struct Flight(Option<(u32, FlightInfo, Accumulator)>);

impl Flight {
    fn add(&mut self, step: &LoggedStep<'_>, flights: &mut Vec<FlightInfo>) {
        if self.0.as_ref().map(|(number, ..)| *number) != step.flight {
            self.end(flights, true);
        }
        let Some(number) = step.flight else { return };
        let now = step.now;
        let time_s = seconds(now.time_us);
        let (_, info, metrics) = self.0.get_or_insert_with(|| {
            let info = FlightInfo {
                begin_s: time_s,
                end_s: time_s,
                steps: 0,
                lost: 0,
                table: now.table,
                controller: now.controller,
                max_height_m: 0.0,
                metrics: FlightMetrics::default(),
                has_ended: false,
            };
            (number, info, Accumulator::new(f64::from(now.dt_s)))
        });
        if let (Link::Gap { lost }, true) = (step.link, info.steps > 0) {
            info.lost += u64::from(lost);
        }
        info.steps += 1;
        info.end_s = time_s;
        info.max_height_m = info.max_height_m.max(now.state.position.z);
        metrics.add(&now.state, &now.reference, &now.applied);
    }

    fn end(&mut self, flights: &mut Vec<FlightInfo>, has_ended: bool) {
        if let Some((_, info, metrics)) = self.0.take()
            && flights.len() < MAX_LISTED
        {
            let metrics = metrics.finish(info.steps as usize).unwrap_or_default();
            flights.push(FlightInfo { metrics, has_ended, ..info });
        }
    }
}

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
                write!(f, ", {rate:.1} per second")?;
            }
            writeln!(f)?;
        }
        match &self.steps {
            Some(steps) => write!(f, "{steps}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for StepsInfo {
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
            writeln!(f, "  {:<16} {lost} steps missing before step {sequence} at {time_s:.3} s", "gap")?;
        }
        for time_s in &self.restarts_s {
            writeln!(f, "  {:<16} the drone restarted, {time_s:.3} s after boot", "restart")?;
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
                "  {:<16} {:.3} to {:.3} s, table {}, up to {:.2} m; {}, maximum error {:.1} cm",
                "flight",
                x.begin_s,
                x.end_s,
                x.table,
                x.max_height_m,
                x.metrics.line(),
                100.0 * x.metrics.max_error_m
            )?;
        }
        Ok(())
    }
}
