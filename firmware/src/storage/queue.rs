//! From the flight step to the card, without ever waiting.

use core::sync::atomic::{AtomicU32, Ordering};

use heapless::spsc::{Consumer, Producer};
use steady_common::bytes::Writer;
use steady_common::estimator::Estimator;
use steady_common::gains_record::GainsRecord;
use steady_common::inputs_record::{Inputs, Tick};
use steady_common::transition::Transition;
use steady_common::usdlog::write::record_prefix;

use super::config::{LogPlan, MAX_VARIABLES, Trigger};
use super::inputs::InputRecorder;
use crate::telemetry::Telemetry;
use crate::toc::{self, View};

/// Bytes of the longest record of an extra event: prefix, payload, variables.
const MAX_EXTRA: usize = 10 + 1 + 4 * MAX_VARIABLES;

/// A record of an extra event, as it goes into the file.
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
    /// A record of an extra event.
    Extra(Extra),
    /// The gains that fly from now on.
    Gains(GainsRecord),
    /// What the estimator was given.
    Inputs(Inputs),
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

    /// The newest gains that came through the queue.
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

/// Makes the records of the extra events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    plan: LogPlan,
    next_us: u64,
    seen: Option<Seen>,
    inputs: InputRecorder,
}

/// How often things had happened when the sampler last looked.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    steps: u32,
    positions: u32,
    poses: u32,
    readings: u32,
}

impl Seen {
    fn of(telemetry: &Telemetry) -> Self {
        Self {
            steps: telemetry.timing.steps,
            positions: telemetry.mocap_frames.wrapping_sub(telemetry.mocap_poses),
            poses: telemetry.mocap_poses,
            readings: telemetry.barometer_readings,
        }
    }
}

impl Sampler {
    /// For a plan.
    #[must_use]
    pub fn new(plan: LogPlan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// No log is written: the next one begins with whole inputs.
    pub fn rest(&mut self) {
        self.inputs = InputRecorder::default();
    }

    /// Hands over the records that are due. To be called in every flight step, with what the estimator was given.
    pub fn sample(
        &mut self,
        view: &View<'_>,
        estimation: Option<(&Tick, &Estimator)>,
        mut push: impl FnMut(Item),
    ) {
        if self.plan.inputs {
            self.inputs.add(estimation, |inputs| push(Item::Inputs(inputs)));
        }
        let now_us = view.telemetry.time_us;
        let now = Seen::of(view.telemetry);
        let before = self.seen.replace(now).unwrap_or(now);
        let timer = now_us >= self.next_us;
        if timer {
            let period_us = 1000 * u64::from(self.plan.period_ms);
            self.next_us = if self.next_us + period_us > now_us { self.next_us } else { now_us } + period_us;
        }
        for (trigger, variables) in self.plan.events() {
            let due = match trigger {
                Trigger::FixedFrequency => timer,
                Trigger::Position => now.positions != before.positions,
                Trigger::Pose => now.poses != before.poses,
                Trigger::Gyroscope | Trigger::Acceleration => now.steps != before.steps,
                Trigger::Barometer => now.readings != before.readings,
            };
            if due && let Some(extra) = record(trigger, variables, view) {
                push(Item::Extra(extra));
            }
        }
    }
}

fn record(trigger: Trigger, variables: &[u16], view: &View<'_>) -> Option<Extra> {
    let mut bytes = [0; MAX_EXTRA];
    let mut w = Writer::new(&mut bytes);
    w.put(&record_prefix(trigger.id(), view.telemetry.time_us));
    if trigger.payload().is_some() {
        w.put(&[0]);
    }
    for id in variables {
        if let Some(log) = toc::log(*id) {
            (log.get)(view).write(&mut w);
        }
    }
    let length = u8::try_from(w.len()?).ok()?;
    Some(Extra { bytes, length })
}
