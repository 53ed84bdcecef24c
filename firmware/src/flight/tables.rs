//! Which gains fly: the active table, try-out gains in its place, or the last proven table.

use steady_common::board::Board;
use steady_common::guard::{Envelope, Guard, Measured, Status};
use steady_common::{GainTable, Gains};

use super::CONTROL_DT;
use super::imu::Trims;
use crate::settings::TryOut;
use crate::telemetry::ActiveTable;

/// What the table area, the persistent store and the processor said at boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boot {
    /// The newest valid table.
    pub active: GainTable,
    /// It has completed a flight.
    pub active_proven: bool,
    /// The last table that has completed a flight; the built-in one if there is none.
    pub proven: GainTable,
    /// How the accelerometer is turned.
    pub trims: Trims,
    /// Which board it is.
    pub board: Board,
}

impl Default for Boot {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Boot {
    /// From the newest valid table and the table that last completed a flight, where there are such.
    #[must_use]
    pub fn new(newest: Option<GainTable>, proven: Option<GainTable>) -> Self {
        let built_in = GainTable::built_in();
        let (active, proven) = (newest.unwrap_or(built_in), proven.unwrap_or(built_in));
        // The built-in gains need no proof: there is nothing else to fall back to.
        let active_proven = newest.is_none() || active == proven;
        Self { active, active_proven, proven, trims: Trims::default(), board: Board::default() }
    }
}

/// An event to store or to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A table has completed its first flight: keep its sequence number.
    TableProven {
        /// Sequence number.
        sequence: u32,
    },
    /// The guard has taken gains out of flight.
    GuardTripped {
        /// Sequence number of the table they came with.
        sequence: u32,
        /// They were try-out gains.
        try_out: bool,
        /// The guard's state, by its number.
        code: u8,
    },
}

/// The tables on board and their guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tables {
    boot: Boot,
    /// What flies when nothing is wrong: the active table, perhaps with try-out gains.
    chosen: GainTable,
    try_out: bool,
    /// Gains the guard took out of flight: not flown again until the next boot.
    refused: Option<Gains>,
    guard: Guard,
}

impl Tables {
    /// With what was found at boot.
    #[must_use]
    pub fn new(boot: Boot) -> Self {
        Self { chosen: boot.active, boot, try_out: false, refused: None, guard: Guard::default() }
    }

    /// The table that flies.
    #[must_use]
    pub fn flying(&self) -> &GainTable {
        if self.has_fallen_back() { &self.boot.proven } else { &self.chosen }
    }

    fn has_fallen_back(&self) -> bool {
        self.guard.is_tripped() || self.refused == Some(self.chosen.gains)
    }

    /// What others may know.
    #[must_use]
    pub fn status(&self) -> ActiveTable {
        let fell_back = self.has_fallen_back();
        ActiveTable {
            sequence: self.flying().sequence,
            proven: fell_back || self.boot.active_proven && !self.try_out,
            try_out: self.try_out && !fell_back,
        }
    }

    /// The guard's state.
    #[must_use]
    pub fn guard(&self) -> Status {
        self.guard.status()
    }

    /// True when the selected gains are valid.
    #[must_use]
    pub fn is_good(&self, try_out: &TryOut) -> bool {
        self.boot.proven.check().is_ok()
            && self.boot.active.check().is_ok()
            && (!try_out.enabled || try_out.gains.check().is_ok())
    }

    /// Starts or stops using try-out gains. Call it only where gains may change: disarmed or
    /// hovering. Gains outside their bounds are not taken.
    pub fn choose(&mut self, try_out: &TryOut, envelope: &Envelope, airborne: bool) {
        let wanted = if try_out.enabled { try_out.gains } else { self.boot.active.gains };
        let unchanged = wanted == self.chosen.gains && try_out.enabled == self.try_out;
        if unchanged || self.guard.is_tripped() || wanted.check().is_err() {
            return;
        }
        self.chosen = GainTable { gains: wanted, ..self.boot.active };
        self.try_out = try_out.enabled;
        if airborne {
            self.start(envelope);
        }
    }

    /// A flight begins.
    pub fn start(&mut self, envelope: &Envelope) {
        self.guard = Guard::default();
        let proven = self.status().proven;
        self.guard.start(proven, envelope);
    }

    /// One control step in the air, before the law computes.
    pub fn watch(&mut self, envelope: &Envelope, measured: &Measured) -> Option<Event> {
        let was_tripped = self.guard.is_tripped();
        let (sequence, try_out) = (self.flying().sequence, self.try_out);
        let status = self.guard.step(envelope, measured, CONTROL_DT);
        if was_tripped || !self.guard.is_tripped() {
            return None;
        }
        self.refused = Some(self.chosen.gains);
        Some(Event::GuardTripped { sequence, try_out, code: status.code() })
    }

    /// A flight has ended as it should.
    pub fn complete(&mut self) -> Option<Event> {
        let status = self.status();
        let proves = self.guard.completes() && !status.proven && !status.try_out;
        self.guard = Guard::default();
        if !proves {
            return None;
        }
        self.boot.active_proven = true;
        self.boot.proven = self.boot.active;
        Some(Event::TableProven { sequence: status.sequence })
    }

    /// A flight has ended in another way: the guard is ready for the next.
    pub fn abandon(&mut self) {
        self.guard = Guard::default();
    }
}
