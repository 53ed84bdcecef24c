//! Replays a log: the same law and the same inputs give the same bits.
//!
//! Every control step of the differentiable law is computed from its record, and the result is compared
//! bit by bit with the log: the four values of the action, and the law's memory for the next step
//! (integrals, derivatives, attitude error).
//!
//! Where the log has the estimator's inputs, its estimate is computed again too ([`super::estimate`]).

use serde::Serialize;
use steady_common::gain_table::GainTable;
use steady_common::law::{self, Memory, PerLoop};
use steady_common::transition::Flags;

use super::estimate::{self, EstimateReplay};
use super::{Link, Log, LogError, LoggedStep, each_step};

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replay {
    /// Control steps in the log.
    pub steps: u64,
    /// Steps that were replayed.
    pub replayed: u64,
    /// Steps of another controller, or of none.
    pub other_controller: u64,
    /// Steps of the law that need the step before, which is missing.
    pub without_predecessor: u64,
    /// Steps of the law whose gains are not in the log.
    pub unknown_gains: u64,
    /// Bits that differ in the law's four outputs.
    pub differing_bits: u64,
    /// Steps with differing outputs.
    pub differing_steps: u64,
    /// Steps whose memory was compared with the one that the replay of the step before gave.
    pub memories_compared: u64,
    /// Bits that differ in the memory.
    pub differing_memory_bits: u64,
    /// Sequence number of the first step that differs.
    pub first_difference: Option<u32>,
    /// The estimates, if the log has the estimator's inputs.
    pub estimates: Option<EstimateReplay>,
}

impl Replay {
    /// True when steps were replayed and none of them differs.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.replayed > 0
            && self.differing_bits == 0
            && self.differing_memory_bits == 0
            && self.estimates.as_ref().is_none_or(EstimateReplay::is_exact)
    }
}

impl std::fmt::Display for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.steps == 0 {
            return write!(f, "no control steps to replay");
        }
        write!(
            f,
            "{} of {} control steps replayed: {} bits differ in the outputs, {} in the law's memory",
            self.replayed, self.steps, self.differing_bits, self.differing_memory_bits
        )?;
        for (count, why) in [
            (self.other_controller, "of another controller or none"),
            (self.without_predecessor, "without the step before"),
            (self.unknown_gains, "with unknown gains (--gains)"),
        ] {
            if count > 0 {
                write!(f, "; {count} left out, {why}")?;
            }
        }
        if let Some(sequence) = self.first_difference {
            write!(f, "; first in step {sequence}")?;
        }
        self.estimates.as_ref().map_or(Ok(()), |estimates| write!(f, "; {estimates}"))
    }
}

/// Replays a log. `tables` are gain tables for logs that do not hold their own.
///
/// # Errors
/// If the file cannot be read to its end, or its control steps lack a required field.
pub fn replay(log: &mut Log, tables: &[GainTable]) -> Result<Replay, LogError> {
    let mut replayer = Replayer::new(tables);
    each_step(log, |step| replayer.add(step))?;
    Ok(Replay { estimates: estimate::replay(log)?, ..replayer.result })
}

/// Replays a log step by step.
pub(super) struct Replayer<'a> {
    tables: &'a [GainTable],
    /// The law's memory after the replay of the last step.
    memory: Option<Memory>,
    pub(super) result: Replay,
}

impl<'a> Replayer<'a> {
    pub(super) fn new(tables: &'a [GainTable]) -> Self {
        Self { tables, memory: None, result: Replay::default() }
    }

    pub(super) fn add(&mut self, step: &LoggedStep<'_>) {
        let (now, result, expected) = (step.now, &mut self.result, self.memory.take());
        result.steps += 1;
        if !now.flags.has(Flags::LAW) {
            result.other_controller += 1;
            return;
        }
        let given = || self.tables.iter().find(|t| t.sequence == now.table && !now.flags.has(Flags::TRY_OUT));
        let Some(table) = step.gains.or_else(given) else {
            result.unknown_gains += 1;
            return;
        };
        let Some(mut memory) = now.law_memory(step.before) else {
            result.without_predecessor += 1;
            return;
        };
        let mut memory_bits = 0;
        if let (Some(expected), Link::Next, false) = (expected, step.link, now.flags.has(Flags::LAW_RESET)) {
            result.memories_compared += 1;
            memory_bits = differing(values(&expected), values(&memory));
        }
        let action =
            law::step(&table.gains, &table.vehicle, &now.state, &now.reference, &mut memory, now.dt_s);
        let bits = differing(action.into_array(), now.action.into_array());
        result.replayed += 1;
        result.differing_memory_bits += memory_bits;
        result.differing_bits += bits;
        result.differing_steps += u64::from(bits > 0);
        if bits > 0 || memory_bits > 0 {
            result.first_difference.get_or_insert(now.sequence);
        }
        self.memory = Some(memory);
    }
}

fn differing(a: impl IntoIterator<Item = f32>, b: impl IntoIterator<Item = f32>) -> u64 {
    a.into_iter().zip(b).map(|(a, b)| u64::from((a.to_bits() ^ b.to_bits()).count_ones())).sum()
}

fn values(memory: &Memory) -> impl Iterator<Item = f32> {
    let loops = |l: PerLoop| [l.position, l.velocity, l.attitude, l.rate];
    let vectors = [memory.integral, memory.derivative, memory.error].into_iter().flat_map(loops);
    vectors.flat_map(|v| [v.x, v.y, v.z])
}
