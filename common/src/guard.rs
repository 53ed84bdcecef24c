//! The gain guard: new gains fly under supervision (a Simplex architecture).
//!
//! A table that has not yet completed a flight flies inside an [`Envelope`] of tracking error, tilt
//! and rates. When it leaves the envelope for longer than the envelope allows, the guard trips:
//! from that control step on the last proven table flies, and the flight ends with a landing. A
//! table becomes proven by completing a flight.

/// Limits for unproven gains, and how long each may be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Envelope {
    /// The guard is on.
    pub enabled: bool,
    /// Largest distance from the reference, m.
    pub tracking_m: f32,
    /// For longer than this, ms.
    pub tracking_ms: u16,
    /// Largest tilt, rad.
    pub tilt_rad: f32,
    /// For longer than this, ms.
    pub tilt_ms: u16,
    /// Largest body rate, rad/s.
    pub rate_rad_s: f32,
    /// For longer than this, ms.
    pub rate_ms: u16,
}

impl Envelope {
    /// Wide enough for the project's tasks with gains that are not adapted to decks and weak motors yet;
    /// narrow enough to recover from.
    pub const DEFAULT: Self = Self {
        enabled: true,
        tracking_m: 0.6,
        tracking_ms: 200,
        tilt_rad: 0.7,
        tilt_ms: 40,
        rate_rad_s: 8.0,
        rate_ms: 30,
    };
}

impl Default for Envelope {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trip {
    /// Too far from the reference.
    Tracking = 1,
    /// Too much tilt.
    Tilt = 2,
    /// Turning too fast.
    Rate = 3,
    /// The estimate or the action is non-finite.
    NotANumber = 4,
}

/// Inputs of the guard in a control step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Distance from the reference, m.
    pub tracking_m: f32,
    /// Tilt, rad.
    pub tilt_rad: f32,
    /// Size of the body rates, rad/s.
    pub rate_rad_s: f32,
}

/// State of the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Proven gains fly, or the guard is switched off.
    #[default]
    Idle,
    /// Unproven gains fly inside the envelope.
    Watching,
    /// They have left it; the last proven table flies.
    Tripped(Trip),
}

impl Status {
    /// As a number: 0 idle, 1 watching, 2 and up tripped by tracking, tilt, rate, not a number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Watching => 1,
            Self::Tripped(trip) => 1 + trip as u8,
        }
    }
}

/// The guard of one flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guard {
    status: Status,
    tracking_ms: f32,
    tilt_ms: f32,
    rate_ms: f32,
    flown_s: f32,
}

/// Shorter flights do not prove gains, s.
const PROVING_S: f32 = 5.0;

impl Guard {
    /// Starts a flight.
    pub fn start(&mut self, proven: bool, envelope: &Envelope) {
        let status = if proven || !envelope.enabled { Status::Idle } else { Status::Watching };
        *self = Self { status, ..Self::default() };
    }

    /// State of the guard.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// True from the step in which the gains were taken out of flight.
    #[must_use]
    pub fn is_tripped(&self) -> bool {
        matches!(self.status, Status::Tripped(_))
    }

    /// One control step of `dt` seconds in the air, before the law computes.
    pub fn step(&mut self, envelope: &Envelope, measured: &Measured, dt: f32) -> Status {
        self.flown_s += dt;
        if self.status != Status::Watching {
            return self.status;
        }
        let ms = 1000.0 * dt;
        let exceeds = |time: &mut f32, value: f32, limit: f32, patience: u16| {
            *time = if value > limit { *time + ms } else { 0.0 };
            *time > f32::from(patience)
        };
        let Measured { tracking_m, tilt_rad, rate_rad_s } = *measured;
        let tracking = exceeds(&mut self.tracking_ms, tracking_m, envelope.tracking_m, envelope.tracking_ms);
        let tilt = exceeds(&mut self.tilt_ms, tilt_rad, envelope.tilt_rad, envelope.tilt_ms);
        let rate = exceeds(&mut self.rate_ms, rate_rad_s, envelope.rate_rad_s, envelope.rate_ms);
        let number = tracking_m.is_finite() && tilt_rad.is_finite() && rate_rad_s.is_finite();
        self.status = match (number, tilt, rate, tracking) {
            (false, ..) => Status::Tripped(Trip::NotANumber),
            (_, true, ..) => Status::Tripped(Trip::Tilt),
            (_, _, true, _) => Status::Tripped(Trip::Rate),
            (_, _, _, true) => Status::Tripped(Trip::Tracking),
            _ => Status::Watching,
        };
        self.status
    }

    /// The flight ended normally; true when that proves the gains it was flown with.
    #[must_use]
    pub fn completes(&self) -> bool {
        !self.is_tripped() && self.flown_s >= PROVING_S
    }
}
