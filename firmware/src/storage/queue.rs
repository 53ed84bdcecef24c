//! From the flight step to the card, without ever waiting.

use core::sync::atomic::{AtomicU32, Ordering};

use heapless::spsc::{Consumer, Producer};
use steady_common::bytes::Writer;
use steady_common::gains_record::GainsRecord;
use steady_common::transition::Transition;
use steady_common::usdlog::{FIXED_FREQUENCY_ID, write::record_prefix};

use super::config::{MAX_VARIABLES, Plan};
use crate::toc::{self, View};

/// Bytes of the extra event's longest record.
const MAX_EXTRA: usize = 10 + 4 * MAX_VARIABLES;

/// A record of the extra event, as it goes into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    bytes: [u8; MAX_EXTRA],
    length: u8,
}

impl Extra {
    /// The record.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// One record on its way to the card.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "most are transitions, and there is no heap")]
pub enum Item {
    /// A control step.
    Transition(Transition),
    /// A record of the extra event.
    Extra(Extra),
    /// The gains that fly from now on.
    Gains(GainsRecord),
}

/// What the flight side has produced and lost, since boot.
#[derive(Debug, Default)]
pub struct Counters {
    produced: AtomicU32,
    lost: AtomicU32,
}

impl Counters {
    /// Nothing produced.
    #[must_use]
    pub const fn new() -> Self {
        Self { produced: AtomicU32::new(0), lost: AtomicU32::new(0) }
    }

    /// Records that should be logged, and those of them that found the queue full.
    #[must_use]
    pub fn read(&self) -> (u32, u32) {
        // Lost first: it must never seem that more was lost than produced.
        let lost = self.lost.load(Ordering::Acquire);
        (self.produced.load(Ordering::Acquire), lost)
    }
}

/// The flight side's end.
pub struct Feed<'a> {
    queue: Producer<'a, Item>,
    counters: &'a Counters,
}

impl core::fmt::Debug for Feed<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Feed").field("counters", self.counters).finish_non_exhaustive()
    }
}

impl<'a> Feed<'a> {
    /// Into a queue, with its counters.
    pub fn new(queue: Producer<'a, Item>, counters: &'a Counters) -> Self {
        Self { queue, counters }
    }

    /// Hands a record over; one that finds no room is lost and counted. True when it found room.
    pub fn push(&mut self, item: Item) -> bool {
        self.counters.produced.fetch_add(1, Ordering::AcqRel);
        let taken = self.queue.enqueue(item).is_ok();
        if !taken {
            self.counters.lost.fetch_add(1, Ordering::AcqRel);
        }
        taken
    }
}

/// The storage side's end.
pub struct Drain<'a> {
    queue: Consumer<'a, Item>,
    counters: &'a Counters,
    /// The newest gains that came through.
    gains: Option<GainsRecord>,
}

impl core::fmt::Debug for Drain<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Drain").field("counters", self.counters).finish_non_exhaustive()
    }
}

impl<'a> Drain<'a> {
    /// Out of a queue, with its counters.
    pub fn new(queue: Consumer<'a, Item>, counters: &'a Counters) -> Self {
        Self { queue, counters, gains: None }
    }

    /// The next record.
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.queue.dequeue();
        if let Some(Item::Gains(gains)) = item {
            self.gains = Some(gains);
        }
        item
    }

    /// The gains that fly, as far as the queue has told.
    #[must_use]
    pub fn gains(&self) -> Option<GainsRecord> {
        self.gains
    }

    /// Records produced and lost on the flight side.
    #[must_use]
    pub fn counters(&self) -> (u32, u32) {
        self.counters.read()
    }
}

/// Makes records of the extra event at its period.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    plan: Plan,
    next_us: u64,
}

impl Sampler {
    /// For a plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self { plan, next_us: 0 }
    }

    /// The record that is due, if one is. To be called in every flight step.
    pub fn sample(&mut self, view: &View<'_>) -> Option<Item> {
        let now_us = view.telemetry.time_us;
        if self.plan.is_off() || now_us < self.next_us {
            return None;
        }
        let period_us = 1000 * u64::from(self.plan.period_ms);
        self.next_us = if self.next_us + period_us > now_us { self.next_us } else { now_us } + period_us;
        let mut bytes = [0; MAX_EXTRA];
        let mut w = Writer::new(&mut bytes);
        w.put(&record_prefix(FIXED_FREQUENCY_ID, now_us));
        for id in self.plan.variables() {
            if let Some(log) = toc::log(*id) {
                (log.get)(view).write(&mut w);
            }
        }
        let length = u8::try_from(w.len()?).ok()?;
        Some(Item::Extra(Extra { bytes, length }))
    }
}
