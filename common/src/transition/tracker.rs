//! Which control steps of a log belong together: the one rule for gaps, restarts and flights.

use super::{Flags, Transition};

/// How a control step is connected with the one before it in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The first one of the file.
    First,
    /// The next control step.
    Next,
    /// Control steps are missing in between.
    Gap {
        /// How many.
        lost: u32,
    },
    /// Time or sequence number went back: the drone restarted.
    Restart,
}

/// Follows the control steps of one file.
///
/// A flight lasts from the first step with [`Flags::FLYING`] to the last. Missing steps do not end it, a
/// restart does.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepTracker {
    /// Time and sequence number of the step before.
    previous: Option<(u64, u32)>,
    is_flying: bool,
    flights: u32,
}

impl StepTracker {
    /// Takes the next step: how it is linked to the one before it, and the number of its flight in the
    /// file, from 0; `None` on the ground.
    pub fn add(&mut self, step: &Transition) -> (Link, Option<u32>) {
        let link = self.link(step);
        let is_flying = step.flags.has(Flags::FLYING);
        if is_flying && (!self.is_flying || link == Link::Restart) {
            self.flights += 1;
        }
        self.is_flying = is_flying;
        self.previous = Some((step.time_us, step.sequence));
        (link, if is_flying { self.flights.checked_sub(1) } else { None })
    }

    fn link(&self, step: &Transition) -> Link {
        let Some((time_us, sequence)) = self.previous else { return Link::First };
        // Half of the range is ahead, the other half behind.
        match step.sequence.wrapping_sub(sequence) {
            _ if step.time_us < time_us => Link::Restart,
            1 => Link::Next,
            ahead @ 2..0x8000_0000 => Link::Gap { lost: ahead - 1 },
            _ => Link::Restart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn gaps_restarts_and_flights_are_found() {
        let step = |sequence: u32, time_ms: u64, is_flying: bool| Transition {
            sequence,
            time_us: 1000 * time_ms,
            flags: Flags::default().with(Flags::FLYING, is_flying),
            ..Transition::default()
        };
        let steps = [
            (step(u32::MAX, 10, false), Link::First, None),
            (step(0, 12, true), Link::Next, Some(0)),
            (step(4, 20, true), Link::Gap { lost: 3 }, Some(0)),
            (step(5, 22, false), Link::Next, None),
            (step(6, 24, true), Link::Next, Some(1)),
            (step(7, 4, true), Link::Restart, Some(2)),
            (step(7, 6, true), Link::Restart, Some(3)),
            (step(3, 8, false), Link::Restart, None),
        ];
        let mut tracker = StepTracker::default();
        let found: Vec<_> = steps.iter().map(|(step, ..)| tracker.add(step)).collect();
        assert_eq!(found, steps.map(|(_, link, flight)| (link, flight)));
    }
}
