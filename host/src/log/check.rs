//! Is a log whole, plausible, and what the law makes of its inputs?

use serde::Serialize;
use steady_common::transition::Transition;

use super::info::{Info, info};
use super::replay::replay;
use super::{Log, LogError, Source, Step, each_step};

/// A control step later than this after the one before it is late, µs; they come every 2000.
const LATE_US: u64 = 3000;
/// A quaternion's length may differ from one by this.
const NORM_TOLERANCE: f32 = 1e-3;

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The file.
    pub file: String,
    /// What is wrong, in words; empty when all is well.
    pub problems: Vec<String>,
    /// Records in it.
    pub records: u64,
    /// Control steps in it.
    pub steps: u64,
    /// Control steps computed again without a differing bit.
    pub replayed: u64,
}

/// What is odd about control steps, with the first place.
#[derive(Default)]
struct Odd {
    late: Count,
    not_finite: Count,
    not_unit: Count,
}

#[derive(Default)]
struct Count {
    number: u64,
    first: Option<u32>,
}

impl Count {
    fn add(&mut self, is_odd: bool, step: &Transition) {
        if is_odd {
            self.number += 1;
            self.first.get_or_insert(step.sequence);
        }
    }

    fn tell(&self, what: &str, problems: &mut Vec<String>) {
        if let Some(first) = self.first {
            problems.push(format!("{} control steps {what}, first step {first}", self.number));
        }
    }
}

impl Odd {
    fn look(&mut self, step: &Step<'_>) {
        let (now, state) = (step.now, &step.now.state);
        let late = step.before.is_some_and(|before| now.time_us - before.time_us > LATE_US);
        self.late.add(late, now);
        let finite = state.position.is_finite()
            && state.velocity.is_finite()
            && state.rates.is_finite()
            && state.attitude.is_finite()
            && now.action.into_array().iter().all(|v| v.is_finite());
        self.not_finite.add(!finite, now);
        let q = state.attitude;
        let norm = (q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z).sqrt();
        self.not_unit.add(finite && (norm - 1.0).abs() > NORM_TOLERANCE, now);
    }
}

/// Looks at everything that can be wrong with a log.
///
/// # Errors
/// If the file cannot be read to its end.
pub fn check<S: Source>(log: &mut Log<S>) -> Result<Verdict, LogError> {
    let info = info(log)?;
    let mut problems = damage(&info);
    let mut replayed = 0;
    if info.steps.is_some() {
        let mut odd = Odd::default();
        each_step(log, |step| odd.look(&step))?;
        odd.late.tell("are late", &mut problems);
        odd.not_finite.tell("hold values that are not finite", &mut problems);
        odd.not_unit.tell("have an attitude that is no rotation", &mut problems);
        let again = replay(log, &[])?;
        replayed = again.replayed - again.differing_steps;
        if let Some(first) = again.first_difference {
            let (outputs, memory) = (again.differing_bits, again.differing_memory_bits);
            problems.push(format!(
                "computed again, {outputs} bits of the outputs and {memory} of the law's memory differ, \
                 first in step {first}: the firmware flies another law than this program"
            ));
        }
        if again.unknown_gains > 0 {
            problems.push(format!("the gains of {} control steps are not in the log", again.unknown_gains));
        }
    }
    Ok(Verdict {
        file: info.file,
        problems,
        records: info.records,
        steps: info.steps.map_or(0, |s| s.found),
        replayed,
    })
}

fn damage(info: &Info) -> Vec<String> {
    let mut problems = Vec::new();
    match info.ending {
        "complete" => {}
        "cut off" => {
            problems.push("cut off: power was lost or the card pulled while it was written".to_owned())
        }
        _ => problems.push("the file's checksum is wrong: it was changed after it was written".to_owned()),
    }
    if info.skipped_bytes > 0 {
        let (places, bytes) = (info.damaged_places, info.skipped_bytes);
        problems.push(format!("{places} damaged places, {bytes} bytes left out"));
    }
    if info.records == 0 {
        problems.push("there is no record in it".to_owned());
    }
    let Some(steps) = &info.steps else { return problems };
    if steps.lost > 0 {
        problems.push(format!("{} control steps are missing in {} gaps", steps.lost, steps.gap_count));
    }
    if !steps.restarts_s.is_empty() {
        problems.push(format!("the drone started again {} times", steps.restarts_s.len()));
    }
    problems
}
