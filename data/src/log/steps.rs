//! Control steps of logs: which follow each other, in which flight, and with which gains.

use std::path::{Path, PathBuf};

use steady_common::GainTable;
use steady_common::gains_record::{self, GainsRecord};
use steady_common::inputs_record::{self, Input};
use steady_common::transition::{self, Flags, Link, StepTracker, Transition};
use steady_common::usdlog::{Record, Summary};

use super::{Log, LogError, find};

/// A control step and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct LoggedStep<'a> {
    /// The step.
    pub now: &'a Transition,
    /// The control step before it; only with [`Link::Next`].
    pub before: Option<&'a Transition>,
    /// How it is connected with the record before it.
    pub link: Link,
    /// Number of its flight in the file; `None` on the ground.
    pub flight: Option<u32>,
    /// The gains it was flown with, if the log holds them.
    pub gains: Option<&'a GainTable>,
}

/// Calls `each` with every control step of a log, in the order of the file.
///
/// # Errors
/// If the file cannot be read to its end, or its control steps lack a required field.
pub fn each_step(log: &mut Log, each: impl FnMut(&LoggedStep<'_>)) -> Result<Summary, LogError> {
    each_record(log, |_| {}, each, |_| {})
}

/// Calls `any` with every record, and `step` or `gains` with those that are one.
pub(super) fn each_record(
    log: &mut Log,
    mut any: impl FnMut(&Record<'_>),
    mut step: impl FnMut(&LoggedStep<'_>),
    mut gains: impl FnMut(&GainsRecord),
) -> Result<Summary, LogError> {
    let steps_decoder = log.decoder(transition::Decoder::new)?;
    let gains_decoder = log.decoder(gains_record::Decoder::new)?;
    let mut tracker = StepTracker::default();
    let (mut previous, mut newest) = (None::<Transition>, None::<GainsRecord>);
    log.scan(|record| {
        any(record);
        if let Some(now) = steps_decoder.as_ref().and_then(|d| d.decode(record)) {
            let (link, flight) = tracker.add(&now);
            let before = previous.as_ref().filter(|_| link == Link::Next);
            let known = known_gains(newest.as_ref(), &now);
            step(&LoggedStep { now: &now, before, link, flight, gains: known.as_ref() });
            previous = Some(now);
        } else if let Some(Ok(record)) = gains_decoder.as_ref().and_then(|d| d.decode(record)) {
            gains(&record);
            newest = Some(record);
        }
    })
}

/// The newest gains in the log, if they are the ones that the step names. The built-in gains need no
/// record.
fn known_gains(newest: Option<&GainsRecord>, step: &Transition) -> Option<GainTable> {
    let try_out = step.flags.has(Flags::TRY_OUT);
    let named = newest.filter(|r| r.table.sequence == step.table && r.try_out == try_out);
    let built_in = || (step.table == 0 && !try_out).then(GainTable::built_in);
    named.map(|r| r.table).or_else(built_in)
}

/// Consecutive control steps with the same gains, either all on the ground or all of one flight.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The file.
    pub file: PathBuf,
    /// How the first step is connected with the record before it. With [`Link::Next`] the gains changed,
    /// or the drone took off or landed.
    pub link: Link,
    /// The step before the first one; only with [`Link::Next`].
    pub before: Option<Transition>,
    /// Number of the flight in the file; `None` on the ground.
    pub flight: Option<u32>,
    /// The gains, if the log holds them.
    pub gains: Option<GainTable>,
    /// The steps; at least one.
    pub steps: Vec<Transition>,
}

impl Segment {
    /// Every step with the one before it, as observations need them.
    pub fn pairs(&self) -> impl Iterator<Item = (&Transition, &Transition)> {
        let first = self.before.as_ref().zip(self.steps.first());
        first.into_iter().chain(self.steps.iter().zip(self.steps.iter().skip(1)))
    }

    fn new(file: &Path, step: &LoggedStep<'_>) -> Self {
        Self {
            file: file.to_owned(),
            link: step.link,
            before: step.before.copied(),
            flight: step.flight,
            gains: step.gains.copied(),
            steps: vec![*step.now],
        }
    }
}

/// The control steps of some logs.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Segments in the order of the files.
    pub segments: Vec<Segment>,
}

impl Recording {
    /// Number of control steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.segments.iter().map(|s| s.steps.len()).sum()
    }
}

/// Reads the control steps of logs (files, or folders of them) into memory. Damaged records are left out;
/// logs without control steps, such as the official firmware's, give no segment.
///
/// # Errors
/// If a file cannot be read, is not a log, or its control steps lack a required field.
pub fn transitions(names: &[PathBuf]) -> Result<Recording, LogError> {
    let mut segments: Vec<Segment> = Vec::new();
    for path in find(names)?.logs {
        each_step(&mut Log::open(&path)?, |step| match segments.last_mut() {
            Some(last)
                if step.link == Link::Next
                    && last.flight == step.flight
                    && last.gains.as_ref() == step.gains =>
            {
                last.steps.push(*step.now);
            }
            _ => segments.push(Segment::new(&path, step)),
        })?;
    }
    Ok(Recording { segments })
}
/// Reads what the estimator was given, in the order of the file; nothing from logs that do not have it. Damaged
/// records are left out.
///
/// # Errors
/// If the file cannot be read, is not a log, or its inputs lack a required field.
pub fn inputs(path: &Path) -> Result<Vec<Input>, LogError> {
    let mut log = Log::open(path)?;
    let mut inputs = Vec::new();
    if let Some(decoder) = log.decoder(inputs_record::Decoder::new)? {
        log.scan(|record| inputs.extend(decoder.decode(record)))?;
    }
    Ok(inputs)
}
