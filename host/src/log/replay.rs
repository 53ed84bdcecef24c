//! A flight computed again on the PC: the same law, the same inputs, so the same bits.
//!
//! Every control step of the differentiable law is computed from its record alone, and the step's
//! outcome is compared bit by bit with what the drone logged: the four values of the action, and what
//! the law remembers for the next step (integrals, derivatives, attitude error).

use serde::Serialize;
use steady_common::gain_table::GainTable;
use steady_common::law::{self, Memory, PerLoop};
use steady_common::transition::{Flags, Transition};

use super::{Link, Log, LogError, Source, Step, each_step};

/// What came of a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replay {
    /// Control steps in the log.
    pub steps: u64,
    /// Steps that were computed again.
    pub replayed: u64,
    /// Steps that another controller made, or none.
    pub other_controller: u64,
    /// Steps of the law whose memory needs the step before, which is missing.
    pub without_predecessor: u64,
    /// Steps of the law whose gains the log does not tell.
    pub unknown_gains: u64,
    /// Bits that differ in the law's four outputs.
    pub differing_bits: u64,
    /// Steps with differing outputs.
    pub differing_steps: u64,
    /// Steps whose memory could be compared with what the replay of the step before left.
    pub memories_compared: u64,
    /// Bits that differ there.
    pub differing_memory_bits: u64,
    /// Sequence number of the first step that differs.
    pub first_difference: Option<u32>,
}

impl Replay {
    /// True when steps were computed again and none of them differs.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.replayed > 0 && self.differing_bits == 0 && self.differing_memory_bits == 0
    }

    fn differs(&mut self, step: &Transition) {
        self.first_difference.get_or_insert(step.sequence);
    }
}

/// Computes a log's steps again. `tables` are gain tables for logs that do not hold their own.
///
/// # Errors
/// If the file cannot be read to its end.
pub fn replay<S: Source>(log: &mut Log<S>, tables: &[GainTable]) -> Result<Replay, LogError> {
    let mut outcome = Replay::default();
    let mut carried = None;
    each_step(log, |step| carried = one(&mut outcome, tables, carried.take(), &step))?;
    Ok(outcome)
}

/// One step; takes the memory that the step before left, and gives the one that this leaves.
fn one(
    outcome: &mut Replay,
    tables: &[GainTable],
    carried: Option<Memory>,
    step: &Step<'_>,
) -> Option<Memory> {
    let now = step.now;
    outcome.steps += 1;
    if !now.flags.has(Flags::LAW) {
        outcome.other_controller += 1;
        return None;
    }
    let given = || tables.iter().find(|t| t.sequence == now.table && !now.flags.has(Flags::TRY_OUT));
    let Some(table) = step.gains.or_else(given) else {
        outcome.unknown_gains += 1;
        return None;
    };
    let Some(mut memory) = now.law_memory(step.before) else {
        outcome.without_predecessor += 1;
        return None;
    };
    if let (Some(carried), Link::Next, false) = (carried, step.link, now.flags.has(Flags::LAW_RESET)) {
        outcome.memories_compared += 1;
        let bits = differing(values(&carried), values(&memory));
        outcome.differing_memory_bits += bits;
        if bits > 0 {
            outcome.differs(now);
        }
    }
    let again = law::step(&table.gains, &table.vehicle, &now.state, &now.reference, &mut memory, now.dt_s);
    outcome.replayed += 1;
    let bits = differing(again.into_array(), now.action.into_array());
    outcome.differing_bits += bits;
    if bits > 0 {
        outcome.differing_steps += 1;
        outcome.differs(now);
    }
    Some(memory)
}

fn differing(a: impl IntoIterator<Item = f32>, b: impl IntoIterator<Item = f32>) -> u64 {
    a.into_iter().zip(b).map(|(a, b)| u64::from((a.to_bits() ^ b.to_bits()).count_ones())).sum()
}

/// What the law remembers, value by value.
fn values(memory: &Memory) -> impl Iterator<Item = f32> {
    let loops = |l: PerLoop| [l.position, l.velocity, l.attitude, l.rate];
    let vectors = [memory.integral, memory.derivative, memory.error].into_iter().flat_map(loops);
    vectors.flat_map(|v| [v.x, v.y, v.z])
}
