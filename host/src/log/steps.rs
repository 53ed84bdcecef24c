//! Control steps out of logs: which follow on which, and with which gains they were flown.

use std::path::{Path, PathBuf};

use steady_common::GainTable;
use steady_common::gains_record::{self, GainsRecord};
use steady_common::transition::{self, Flags, Transition};
use steady_common::usdlog::{Record, Summary};

use super::{Log, LogError, Source, find};

/// How a step is connected with the one before it in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The file's first.
    First,
    /// The very next control step.
    Next,
    /// So many control steps are missing between the two.
    Gap {
        /// How many.
        lost: u32,
    },
    /// Time or sequence number went back: the drone started again.
    Restart,
}

impl Link {
    fn between(before: &Transition, now: &Transition) -> Self {
        let ahead = now.sequence.wrapping_sub(before.sequence);
        // Half the range is "ahead"; a sequence number that stands still is no step forward either.
        if now.time_us < before.time_us || ahead == 0 || ahead > u32::MAX / 2 {
            Self::Restart
        } else if ahead == 1 {
            Self::Next
        } else {
            Self::Gap { lost: ahead - 1 }
        }
    }
}

/// A control step and what it stands on.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The step.
    pub now: &'a Transition,
    /// The control step before it; there is one only for [`Link::Next`].
    pub before: Option<&'a Transition>,
    /// How it is connected with the record before it.
    pub link: Link,
    /// The gains it was flown with, where the log tells.
    pub gains: Option<&'a GainTable>,
    /// They are not those of the record before it.
    pub gains_changed: bool,
}

/// Follows the steps of one file.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    before: Option<Transition>,
    newest: Option<GainsRecord>,
    gains: Option<GainTable>,
}

impl Tracker {
    /// Takes note of a record of gains.
    pub fn gains(&mut self, record: GainsRecord) {
        self.newest = Some(record);
    }

    /// Takes the next step and shows it with what is known about it.
    pub fn step<R>(&mut self, now: &Transition, show: impl FnOnce(Step<'_>) -> R) -> R {
        let link = self.before.as_ref().map_or(Link::First, |before| Link::between(before, now));
        let gains = known_gains(self.newest.as_ref(), now);
        let gains_changed = self.before.is_some() && gains != self.gains;
        let before = self.before.as_ref().filter(|_| link == Link::Next);
        let shown = show(Step { now, before, link, gains: gains.as_ref(), gains_changed });
        (self.before, self.gains) = (Some(*now), gains);
        shown
    }
}

/// The gains of a step: those of the newest record of gains, if they are the ones that the step names.
/// The built-in gains need no record.
#[must_use]
pub fn known_gains(newest: Option<&GainsRecord>, step: &Transition) -> Option<GainTable> {
    let try_out = step.flags.has(Flags::TRY_OUT);
    let named = newest.filter(|r| r.table.sequence == step.table && r.try_out == try_out);
    let built_in = || (step.table == 0 && !try_out).then(GainTable::built_in);
    named.map(|r| r.table).or_else(built_in)
}

/// Gives every control step of a log in the order of the file.
///
/// # Errors
/// If the file cannot be read to its end.
pub fn each_step<S: Source>(log: &mut Log<S>, each: impl FnMut(Step<'_>)) -> Result<Summary, LogError> {
    each_record(log, |_| {}, each, |_| {})
}

/// Gives every record, and again every control step and every record of gains as what they are.
///
/// # Errors
/// If the file cannot be read to its end.
pub(super) fn each_record<S: Source>(
    log: &mut Log<S>,
    mut any: impl FnMut(&Record<'_>),
    mut step: impl FnMut(Step<'_>),
    mut gains: impl FnMut(&GainsRecord),
) -> Result<Summary, LogError> {
    let steps_decoder = log.decoder(transition::Decoder::new)?;
    let gains_decoder = log.decoder(gains_record::Decoder::new)?;
    let mut tracker = Tracker::default();
    log.scan(|record| {
        any(record);
        if let Some(now) = steps_decoder.as_ref().and_then(|d| d.decode(record)) {
            tracker.step(&now, &mut step);
        } else if let Some(Ok(record)) = gains_decoder.as_ref().and_then(|d| d.decode(record)) {
            gains(&record);
            tracker.gains(record);
        }
    })
}

/// Why a segment begins where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The file begins.
    File,
    /// So many steps before it are missing.
    Gap {
        /// How many.
        lost: u32,
    },
    /// The drone started again.
    Restart,
    /// The gains changed in flight or between flights; the step before is there.
    Gains,
}

/// Control steps with consecutive sequence numbers, flown with the same gains.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The file.
    pub file: PathBuf,
    /// Why it begins where it does.
    pub beginning: Beginning,
    /// The step before the first one, where it is there.
    pub before: Option<Transition>,
    /// The gains, where the log tells them.
    pub gains: Option<GainTable>,
    /// The steps; at least one.
    pub steps: Vec<Transition>,
}

/// A part of a segment that was flown: from the first step in the air to the last.
#[derive(Clone, Copy, Debug)]
pub struct Flight<'a> {
    /// The step before the first one, where it is there.
    pub before: Option<&'a Transition>,
    /// The gains, where the log tells them.
    pub gains: Option<&'a GainTable>,
    /// The steps in the air.
    pub steps: &'a [Transition],
}

impl Segment {
    /// The parts in which the drone was in the air.
    pub fn flights(&self) -> impl Iterator<Item = Flight<'_>> {
        let mut end = 0;
        self.steps.chunk_by(|a, b| is_airborne(a) == is_airborne(b)).filter_map(move |steps| {
            let start = end;
            end += steps.len();
            let before = match start.checked_sub(1) {
                Some(last) => self.steps.get(last),
                None => self.before.as_ref(),
            };
            let flies = steps.first().is_some_and(is_airborne);
            flies.then_some(Flight { before, gains: self.gains.as_ref(), steps })
        })
    }
}

fn is_airborne(step: &Transition) -> bool {
    step.flags.has(Flags::FLYING)
}

impl<'a> Flight<'a> {
    /// Every step with the one before it: what observations need.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a Transition, &'a Transition)> + use<'a> {
        let first = self.before.zip(self.steps.first());
        first.into_iter().chain(self.steps.iter().zip(self.steps.iter().skip(1)))
    }
}

/// Everything in some logs that can be learned from.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Segments in the order of the files.
    pub segments: Vec<Segment>,
    /// What the scan of each file found.
    pub files: Vec<(PathBuf, Summary)>,
}

impl Recording {
    /// Control steps in all.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.segments.iter().map(|s| s.steps.len()).sum()
    }
}

/// Reads the control steps of logs (files, or folders of them) into memory, split wherever steps are
/// missing, the drone started again, or the gains changed. Damage is left out; whole logs without
/// control steps, such as the official firmware's, give no segment.
///
/// # Errors
/// If a file cannot be read or is no log.
pub fn transitions(names: &[PathBuf]) -> Result<Recording, LogError> {
    let mut recording = Recording::default();
    for path in find(names)?.logs {
        let mut log = Log::open(&path)?;
        let summary = each_step(&mut log, |step| add(&mut recording.segments, &path, &step))?;
        recording.files.push((path, summary));
    }
    Ok(recording)
}

fn add(segments: &mut Vec<Segment>, file: &Path, step: &Step<'_>) {
    let beginning = match step.link {
        Link::First => Beginning::File,
        Link::Gap { lost } => Beginning::Gap { lost },
        Link::Restart => Beginning::Restart,
        Link::Next if step.gains_changed => Beginning::Gains,
        Link::Next => {
            if let Some(segment) = segments.last_mut() {
                segment.steps.push(*step.now);
            }
            return;
        }
    };
    segments.push(Segment {
        file: file.to_owned(),
        beginning,
        before: step.before.copied(),
        gains: step.gains.copied(),
        steps: vec![*step.now],
    });
}
