//! Commands to the drone, and their priorities: streamed set-points or the high-level planner.
//!
//! A [`Command`] is a checked request in the project's conventions (right-handed, SI); protocol
//! codecs make them from packets. [`Commander`] keeps the newest set-point and decides, as the
//! official firmware does, whether it or the high-level planner flies: streamed set-points outrank
//! the planner until the client says that it has stopped streaming.

use crate::estimator::Mocap;
use crate::{Reference, Vec3, math};

/// Bytes of trajectory memory that one [`Command::WriteTrajectory`] can carry.
pub const TRAJECTORY_CHUNK: usize = 26;

/// A command to the flight task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// A streamed set-point.
    Setpoint(Setpoint),
    /// Streaming has ended; the last set-point stays valid for a while, then the planner takes over.
    NotifySetpointsStop {
        /// How long the last set-point stays valid, ms.
        remain_valid_ms: u32,
    },
    /// Something for the high-level planner.
    HighLevel(HighLevel),
    /// Bytes for the trajectory memory.
    WriteTrajectory {
        /// Where they go, from the start of the memory.
        offset: u16,
        /// How many of `bytes` count.
        length: u8,
        /// The bytes.
        bytes: [u8; TRAJECTORY_CHUNK],
    },
    /// Arm or disarm.
    Arm(bool),
    /// Motors off at once, locked until the next boot.
    EmergencyStop,
    /// Starts, and from then on feeds, the watchdog that stops the drone when it is not fed.
    EmergencyWatchdog,
    /// Leave the state after a crash.
    Recover,
    /// A motion capture sample of this drone.
    Mocap(Mocap),
    /// Start the estimator again, at its configured place.
    ResetEstimator,
    /// The power goes off soon: land now. Cannot be cancelled.
    SwitchOff,
    /// A client has set a motor's power by hand: the motor test goes on for a while.
    TestMotors,
}

/// One streamed set-point. Angles and rates are right-handed: pitch is positive nose down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Setpoint {
    /// Motors off.
    #[default]
    Stop,
    /// A place and a heading.
    Position {
        /// World frame, m.
        position: Vec3,
        /// rad.
        yaw: f32,
    },
    /// Place, velocity, acceleration, heading and body rates.
    FullState {
        /// Everything the control law follows.
        reference: Reference,
        /// Body rates, rad/s (the stock Mellinger uses them).
        rates: Vec3,
    },
    /// A velocity in the world frame.
    Velocity {
        /// m/s.
        velocity: Vec3,
        /// rad/s.
        yaw_rate: f32,
    },
    /// A velocity along the heading at a height.
    Hover {
        /// Forwards, m/s.
        forward: f32,
        /// To the left, m/s.
        left: f32,
        /// rad/s.
        yaw_rate: f32,
        /// m.
        height: f32,
    },
    /// Attitude at a height.
    HeightAttitude {
        /// rad.
        roll: f32,
        /// rad, positive nose down.
        pitch: f32,
        /// rad/s.
        yaw_rate: f32,
        /// m.
        height: f32,
    },
    /// Attitude with a vertical speed.
    ClimbAttitude {
        /// rad.
        roll: f32,
        /// rad, positive nose down.
        pitch: f32,
        /// rad/s.
        yaw_rate: f32,
        /// Upwards, m/s.
        climb: f32,
    },
    /// Attitude (or its rates) and thrust: manual flight.
    Manual {
        /// rad, or rad/s.
        roll: f32,
        /// rad, or rad/s, positive nose down.
        pitch: f32,
        /// rad/s.
        yaw_rate: f32,
        /// Part of full thrust, 0 to 1.
        thrust: f32,
        /// Roll and pitch are rates.
        rates: bool,
    },
}

impl Setpoint {
    /// True when every number is finite; other set-points must not be flown.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let all = |values: &[f32]| values.iter().all(|v| v.is_finite());
        match *self {
            Self::Stop => true,
            Self::Position { position, yaw } => position.is_finite() && yaw.is_finite(),
            Self::FullState { reference: r, rates } => {
                r.position.is_finite()
                    && r.velocity.is_finite()
                    && r.acceleration.is_finite()
                    && rates.is_finite()
                    && all(&[r.yaw, r.yaw_rate])
            }
            Self::Velocity { velocity, yaw_rate } => velocity.is_finite() && yaw_rate.is_finite(),
            Self::Hover { forward, left, yaw_rate, height } => all(&[forward, left, yaw_rate, height]),
            Self::HeightAttitude { roll, pitch, yaw_rate, height } => all(&[roll, pitch, yaw_rate, height]),
            Self::ClimbAttitude { roll, pitch, yaw_rate, climb } => all(&[roll, pitch, yaw_rate, climb]),
            Self::Manual { roll, pitch, yaw_rate, thrust, .. } => all(&[roll, pitch, yaw_rate, thrust]),
        }
    }

    /// True when flying it needs to know where the drone is.
    #[must_use]
    pub fn needs_position(&self) -> bool {
        matches!(
            self,
            Self::Position { .. } | Self::FullState { .. } | Self::Velocity { .. } | Self::Hover { .. }
        )
    }
}

/// How long a manoeuvre takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Seconds in all.
    Duration(f32),
    /// Mean speed, m/s; not above zero means the official default of 0.5.
    Speed(f32),
}

/// Something for the high-level planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HighLevel {
    /// Straight up.
    TakeOff {
        /// m.
        height: f32,
        /// The height is above the present one, not absolute.
        relative: bool,
        /// Heading at the end, rad; `None` keeps the present one.
        yaw: Option<f32>,
        /// How fast.
        pace: Pace,
    },
    /// Straight down, motors off at the end.
    Land {
        /// m.
        height: f32,
        /// The height is above the present one (so usually negative), not absolute.
        relative: bool,
        /// Heading at the end, rad; `None` keeps the present one.
        yaw: Option<f32>,
        /// How fast.
        pace: Pace,
    },
    /// Motors off.
    Stop,
    /// To a place, smoothly.
    GoTo {
        /// Position and yaw are relative to where the drone should be now.
        relative: bool,
        /// At constant speed along a straight line instead of smoothly.
        linear: bool,
        /// m.
        position: Vec3,
        /// rad.
        yaw: f32,
        /// s.
        duration: f32,
    },
    /// Along a circle whose radius and height change: a spiral.
    Spiral {
        /// The drone looks at the centre (or away from it) instead of along its way.
        sideways: bool,
        /// Turns to the right, seen from above.
        clockwise: bool,
        /// How far around the centre, rad, at most one turn.
        angle: f32,
        /// Distance from the centre at the start, m.
        start_radius: f32,
        /// Distance from the centre at the end, m.
        end_radius: f32,
        /// Height gained, m.
        climb: f32,
        /// s.
        duration: f32,
    },
    /// Pieces in the trajectory memory get a number.
    DefineTrajectory {
        /// The number.
        id: u8,
        /// First byte in the trajectory memory.
        offset: u32,
        /// Number of poly4d pieces.
        pieces: u8,
    },
    /// Fly a defined trajectory.
    StartTrajectory {
        /// The number.
        id: u8,
        /// Factor on its duration; above one is slower.
        time_scale: f32,
        /// From its end to its start.
        reversed: bool,
        /// Shifted so that it starts where the drone should be now.
        relative_position: bool,
        /// Turned so that it starts at the present heading.
        relative_yaw: bool,
    },
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A number is non-finite or out of range.
    Value,
    /// The planner cannot do that from where it is (take-off while flying, landing on the ground).
    Planner,
    /// No such trajectory, or it does not fit into the memory.
    Trajectory,
    /// The drone does not know where it is.
    NoPosition,
    /// Not armed, or the supervisor does not allow it.
    Supervisor,
    /// Arming is blocked; the blockers say why.
    Blocked,
}

/// Source of the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// None: motors off.
    #[default]
    None,
    /// The high-level planner.
    Planner,
    /// Streamed set-points.
    Stream,
}

/// Keeps the newest set-point and selects the source of the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Commander {
    setpoint: Setpoint,
    received_ms: u32,
    source: Source,
    /// Streaming ends at this time.
    ends_ms: Option<u32>,
}

impl Commander {
    /// A streamed set-point has arrived. It outranks the planner.
    ///
    /// # Errors
    /// If a number in it is not finite.
    pub fn stream(&mut self, setpoint: Setpoint, now_ms: u32) -> Result<(), Refusal> {
        if !setpoint.is_finite() {
            return Err(Refusal::Value);
        }
        (self.setpoint, self.received_ms, self.source, self.ends_ms) =
            (setpoint, now_ms, Source::Stream, None);
        Ok(())
    }

    /// Streaming ends in so many milliseconds.
    pub fn stream_stops(&mut self, remain_valid_ms: u32, now_ms: u32) {
        if self.source == Source::Stream {
            self.ends_ms = Some(now_ms.wrapping_add(remain_valid_ms.min(MAX_REMAIN_MS)));
        }
    }

    /// The planner has something to fly. Refused while set-points are streamed; a stream that has
    /// been silent for longer than `stale_ms` counts as ended, so that somebody else can land the drone.
    ///
    /// # Errors
    /// While set-points are streamed.
    pub fn plan(&mut self, now_ms: u32, stale_ms: u32) -> Result<(), Refusal> {
        if self.source == Source::Stream && self.ends_ms.is_none() && self.age_ms(now_ms) <= stale_ms {
            return Err(Refusal::Planner);
        }
        (self.source, self.ends_ms) = (Source::Planner, None);
        Ok(())
    }

    /// No source any more: after a landing or a stop.
    pub fn silence(&mut self) {
        *self = Self::default();
    }

    /// The source at this time.
    pub fn source(&mut self, now_ms: u32) -> Source {
        if let Some(end) = self.ends_ms
            && now_ms.wrapping_sub(end) < u32::MAX / 2
        {
            (self.source, self.ends_ms) = (Source::Planner, None);
        }
        self.source
    }

    /// The newest streamed set-point.
    #[must_use]
    pub fn setpoint(&self) -> &Setpoint {
        &self.setpoint
    }

    /// Age of what is flown, ms: of the streamed set-point, or 0 for the planner.
    #[must_use]
    pub fn age_ms(&self, now_ms: u32) -> u32 {
        if self.source == Source::Stream { now_ms.wrapping_sub(self.received_ms) } else { 0 }
    }
}

/// Longest time a set-point may stay valid after streaming has stopped, ms.
const MAX_REMAIN_MS: u32 = 10_000;

/// Turns velocity set-points into references that move along: position is the integral of velocity.
///
/// The reference is never further from the drone than [`Follower::LEASH_M`], so that a drone that is
/// held back does not shoot off afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Follower {
    reference: Reference,
    started: bool,
}

impl Follower {
    /// How far the reference may run ahead of the drone, m per axis.
    pub const LEASH_M: f32 = 0.5;

    /// The next one starts from where the drone is.
    pub fn restart(&mut self) {
        self.started = false;
    }

    /// The reference `dt` seconds on, with a velocity in the world frame; where `height` is given,
    /// it stands for the vertical velocity.
    pub fn advance(
        &mut self,
        position: Vec3,
        yaw: f32,
        velocity: Vec3,
        height: Option<f32>,
        yaw_rate: f32,
        dt: f32,
    ) -> Reference {
        if !self.started {
            self.reference = Reference { yaw, ..Reference::hover(position) };
            self.started = true;
        }
        let leash = |wanted: f32, at: f32| at + math::bound(wanted - at, Self::LEASH_M);
        let moved = self.reference.position + velocity * dt;
        let mut next = Reference {
            position: Vec3::new(
                leash(moved.x, position.x),
                leash(moved.y, position.y),
                leash(moved.z, position.z),
            ),
            velocity,
            acceleration: Vec3::ZERO,
            yaw: math::wrap_angle(self.reference.yaw + yaw_rate * dt),
            yaw_rate,
        };
        if let Some(height) = height {
            // Towards the height at a limited speed, without a jump of the reference.
            let step = math::bound(height - self.reference.position.z, MAX_CLIMB * dt);
            next.position.z = self.reference.position.z + step;
            next.velocity.z = step / dt;
        }
        self.reference = next;
        next
    }
}

/// Fastest change of height of a hover set-point, m/s.
const MAX_CLIMB: f32 = 0.5;
