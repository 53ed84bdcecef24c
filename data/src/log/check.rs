//! Checks a log: complete, plausible, and exactly replayed.

use serde::Serialize;
use steady_common::transition::Transition;

use super::info::{Info, summarise};
use super::replay::Replayer;
use super::{Log, LogError, LoggedStep, estimate};

/// A control step this long after the one before it is late, µs; they come every 2000.
const LATE_US: u64 = 3000;
/// A quaternion's norm may differ from one by this.
const NORM_TOLERANCE: f32 = 1e-3;

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogCheck {
    /// The file.
    pub file: String,
    /// What is wrong; empty when all is well.
    pub problems: Vec<String>,
    /// Records in the log.
    pub records: u64,
    /// Control steps in the log.
    pub steps: u64,
    /// Control steps replayed without a differing bit.
    pub replayed: u64,
}

/// Counts control steps with a problem.
#[derive(Default)]
struct Count {
    number: u64,
    first: Option<u32>,
}

impl Count {
    fn add(&mut self, is_wrong: bool, step: &Transition) {
        if is_wrong {
            self.number += 1;
            self.first.get_or_insert(step.sequence);
        }
    }

    fn report(&self, problem: &str, problems: &mut Vec<String>) {
        if let Some(first) = self.first {
            problems.push(format!("{} control steps {problem}, first step {first}", self.number));
        }
    }
}

#[derive(Default)]
struct Counts {
    late: Count,
    not_finite: Count,
    not_unit: Count,
}

impl Counts {
    fn add(&mut self, step: &LoggedStep<'_>) {
        let (now, state) = (step.now, &step.now.state);
        let is_late = step.before.is_some_and(|before| now.time_us - before.time_us > LATE_US);
        self.late.add(is_late, now);
        let is_finite = state.position.is_finite()
            && state.velocity.is_finite()
            && state.rates.is_finite()
            && state.attitude.is_finite()
            && now.action.into_array().iter().all(|v| v.is_finite());
        self.not_finite.add(!is_finite, now);
        let q = state.attitude;
        let norm = (q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z).sqrt();
        self.not_unit.add(is_finite && (norm - 1.0).abs() > NORM_TOLERANCE, now);
    }
}

/// Checks a log.
///
/// # Errors
/// If the file cannot be read to its end, or its control steps lack a required field.
pub fn check(log: &mut Log) -> Result<LogCheck, LogError> {
    let mut counts = Counts::default();
    let mut replayer = Replayer::new(&[]);
    let info = summarise(log, |step| {
        counts.add(step);
        replayer.add(step);
    })?;
    let replay = replayer.result;
    let mut problems = damage(&info);
    counts.late.report("are late", &mut problems);
    counts.not_finite.report("have non-finite values", &mut problems);
    counts.not_unit.report("have an attitude that is not a unit quaternion", &mut problems);
    if let Some(first) = replay.first_difference {
        let (outputs, memory) = (replay.differing_bits, replay.differing_memory_bits);
        problems.push(format!(
            "replayed, {outputs} bits of the outputs and {memory} of the law's memory differ, first in step \
             {first}: the firmware flies another law than this program"
        ));
    }
    if let Some(estimates) = estimate::replay(log)? {
        let (states, filters) = (estimates.differing_bits, estimates.differing_snapshot_bits);
        if states > 0 || filters > 0 {
            problems.push(format!(
                "replayed from its inputs, {states} bits of the estimate and {filters} of the estimator's snapshots \
                 differ, first in step {}",
                estimates.first_difference.map_or_else(|| "none".to_owned(), |step| step.to_string())
            ));
        }
        if estimates.gaps > 0 {
            problems.push(format!("inputs of the estimator are missing in {} places", estimates.gaps));
        }
    }
    if replay.unknown_gains > 0 {
        problems.push(format!("the gains of {} control steps are not in the log", replay.unknown_gains));
    }
    Ok(LogCheck {
        file: info.file,
        problems,
        records: info.records,
        steps: replay.steps,
        replayed: replay.replayed - replay.differing_steps,
    })
}

fn damage(info: &Info) -> Vec<String> {
    let mut problems = Vec::new();
    match info.ending {
        "complete" => {}
        "cut off" => {
            problems.push("cut off: power was lost or the card pulled while it was written".to_owned())
        }
        _ => problems.push("the file's checksum is wrong: it was damaged after it was written".to_owned()),
    }
    if info.skipped_bytes > 0 {
        let (places, bytes) = (info.damaged_places, info.skipped_bytes);
        problems.push(format!("{places} damaged places, {bytes} bytes left out"));
    }
    if info.records == 0 {
        problems.push("it has no records".to_owned());
    }
    let Some(steps) = &info.steps else { return problems };
    if steps.lost > 0 {
        problems.push(format!("{} control steps are missing in {} gaps", steps.lost, steps.gap_count));
    }
    if !steps.restarts_s.is_empty() {
        problems.push(format!("the drone restarted {} times", steps.restarts_s.len()));
    }
    problems
}
