//! The high-level planner: take-off, landing, go-to and polynomial trajectories as references.
//!
//! It behaves as the official firmware's: one seventh-order piece from the present reference to the
//! goal (position, velocity and acceleration are continued, the end is at rest), yaw goes the short
//! way, taking off is possible on the ground only, and the motors are off once a landing has ended.

use crate::bytes::Reader;
use crate::commander::{HighLevel, Pace, Refusal};
use crate::trajectory::{COEFFICIENTS, Piece};
use crate::{Reference, Vec3, math};

/// Size of the trajectory memory, bytes.
pub const MEMORY_LEN: usize = 4096;
/// Size of a poly4d piece in it: 4 × 8 coefficients and the duration, bytes.
pub const PIECE_LEN: usize = 4 * (4 * COEFFICIENTS + 1);
/// Number of trajectories that can be defined.
pub const TRAJECTORIES: usize = 31;

/// Default speed of manoeuvres, m/s.
const DEFAULT_SPEED: f32 = 0.5;
/// Shortest manoeuvre, s.
const MIN_DURATION: f32 = 0.1;
/// Longest manoeuvre, s.
const MAX_DURATION: f32 = 600.0;
/// Furthest goal, m.
const MAX_DISTANCE: f32 = 100.0;

/// State of the planner, as in the official firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// On the ground.
    #[default]
    Idle,
    /// In the air.
    Flying,
    /// Coming down.
    Landing,
}

/// Status of the planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its state.
    pub phase: Phase,
    /// The present manoeuvre has reached its end.
    pub finished: bool,
    /// Defined trajectories, one bit each.
    pub defined: u32,
}

impl Status {
    /// Bits 8 (active) and 9 (finished) of the official `supervisor.info`.
    #[must_use]
    pub fn info_bits(self) -> u16 {
        u16::from(self.phase != Phase::Idle) << 8 | u16::from(self.finished) << 9
    }

    /// Whether the planner would accept this now, so that a client can be answered at once.
    ///
    /// # Errors
    /// If it would not.
    pub fn check(self, request: &HighLevel) -> Result<(), Refusal> {
        let all = |values: &[f32]| values.iter().all(|v| v.is_finite() && math::abs(*v) <= MAX_DISTANCE);
        let lasts = |s: f32| (0.0..=MAX_DURATION).contains(&s);
        match *request {
            HighLevel::TakeOff { height, yaw, pace, .. } | HighLevel::Land { height, yaw, pace, .. } => {
                let number = match pace {
                    Pace::Duration(s) => lasts(s),
                    Pace::Speed(speed) => speed.is_finite(),
                };
                if !number || !all(&[height, yaw.unwrap_or(0.0)]) {
                    return Err(Refusal::Value);
                }
                let possible = match request {
                    HighLevel::TakeOff { .. } => self.phase == Phase::Idle,
                    _ => self.phase == Phase::Flying,
                };
                if possible { Ok(()) } else { Err(Refusal::Planner) }
            }
            HighLevel::Stop => Ok(()),
            HighLevel::GoTo { position, yaw, duration, .. } => {
                if !all(&position.to_array()) || !all(&[yaw]) || !lasts(duration) {
                    Err(Refusal::Value)
                } else if self.phase == Phase::Flying {
                    Ok(())
                } else {
                    Err(Refusal::Planner)
                }
            }
            HighLevel::Spiral { angle, start_radius, end_radius, climb, duration, .. } => {
                if !all(&[angle, start_radius, end_radius, climb]) || !lasts(duration) {
                    Err(Refusal::Value)
                } else if self.phase == Phase::Flying {
                    Ok(())
                } else {
                    Err(Refusal::Planner)
                }
            }
            HighLevel::DefineTrajectory { id, offset, pieces } => {
                let end = (offset as usize).saturating_add(usize::from(pieces) * PIECE_LEN);
                let fits = usize::from(id) < TRAJECTORIES && pieces > 0 && end <= MEMORY_LEN;
                if fits { Ok(()) } else { Err(Refusal::Trajectory) }
            }
            HighLevel::StartTrajectory { id, time_scale, .. } => {
                if !(0.05..=100.0).contains(&time_scale) {
                    Err(Refusal::Value)
                } else if usize::from(id) >= TRAJECTORIES || self.defined & (1 << id) == 0 {
                    Err(Refusal::Trajectory)
                } else if self.phase == Phase::Flying {
                    Ok(())
                } else {
                    Err(Refusal::Planner)
                }
            }
        }
    }
}

/// The bytes of uploaded trajectories.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory([u8; MEMORY_LEN]);

impl Default for Memory {
    fn default() -> Self {
        Self([0; MEMORY_LEN])
    }
}

impl Memory {
    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Puts bytes at an offset.
    ///
    /// # Errors
    /// If they do not fit; nothing is written then.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Refusal> {
        let end = offset.checked_add(bytes.len()).ok_or(Refusal::Trajectory)?;
        self.0.get_mut(offset..end).ok_or(Refusal::Trajectory)?.copy_from_slice(bytes);
        Ok(())
    }

    /// The duration of the poly4d piece at an offset, s, `None` if it is not one that can be flown.
    #[must_use]
    pub fn duration(&self, offset: usize) -> Option<f32> {
        let last = offset.checked_add(PIECE_LEN - size_of::<f32>())?;
        let duration = Reader::new(self.0.get(last..)?).f32()?;
        (duration > 0.0 && duration <= MAX_DURATION).then_some(duration)
    }

    /// The poly4d piece at an offset, `None` if it is not one that can be flown.
    #[must_use]
    pub fn piece(&self, offset: usize) -> Option<Piece> {
        let mut r = Reader::new(self.0.get(offset..offset.checked_add(PIECE_LEN)?)?);
        let mut axes = [[0.0; COEFFICIENTS]; 4];
        for c in axes.iter_mut().flatten() {
            *c = r.f32()?;
        }
        let finite = axes.iter().flatten().all(|c| c.is_finite());
        let duration = self.duration(offset).filter(|_| finite)?;
        Some(Piece { duration, axes })
    }
}

/// Where pieces are in the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Definition {
    offset: u16,
    pieces: u8,
}

impl Definition {
    fn offset_of(self, number: u8) -> usize {
        usize::from(self.offset) + usize::from(number) * PIECE_LEN
    }
}

/// A trajectory being flown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    definition: Definition,
    time_scale: f32,
    reversed: bool,
    /// Added to positions after turning.
    shift: Vec3,
    /// Added to yaw; positions are turned by it about the start.
    turn: f32,
    total_s: f32,
}

/// What is being flown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Motion {
    /// Standing still.
    Hold(Reference),
    /// One smooth piece.
    Segment(Piece),
    /// Pieces from the memory.
    Run(Run),
}

/// The planner.
#[derive(Clone, Debug, PartialEq)]
pub struct Planner {
    phase: Phase,
    motion: Motion,
    elapsed_s: f32,
    memory: Memory,
    definitions: [Definition; TRAJECTORIES],
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            motion: Motion::Hold(Reference::default()),
            elapsed_s: 0.0,
            memory: Memory::default(),
            definitions: [Definition::default(); TRAJECTORIES],
        }
    }
}

impl Planner {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> Status {
        let defined = self
            .definitions
            .iter()
            .enumerate()
            .fold(0, |bits, (id, d)| if d.pieces > 0 { bits | 1 << id } else { bits });
        Status { phase: self.phase, finished: self.is_finished(), defined }
    }

    /// The trajectory memory.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Puts bytes into the trajectory memory. A trajectory that is being flown is not changed under
    /// the drone: then they are refused.
    ///
    /// # Errors
    /// If they do not fit, or a trajectory is being flown.
    pub fn write_memory(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Refusal> {
        if matches!(self.motion, Motion::Run(_)) && !self.is_finished() {
            return Err(Refusal::Planner);
        }
        self.memory.write(offset, bytes)
    }

    /// Executes a request; `present` is where the drone is, or should be, when a manoeuvre begins.
    ///
    /// # Errors
    /// If it is refused.
    pub fn request(&mut self, request: &HighLevel, present: &Reference) -> Result<(), Refusal> {
        self.status().check(request)?;
        // In flight manoeuvres continue the reference; from the ground they start where the drone is.
        let from = if self.phase == Phase::Idle { *present } else { self.now() };
        match *request {
            HighLevel::TakeOff { height, relative, yaw, pace } => {
                self.vertical(&from, height, relative, yaw, pace);
                self.phase = Phase::Flying;
            }
            HighLevel::Land { height, relative, yaw, pace } => {
                self.vertical(&from, height, relative, yaw, pace);
                self.phase = Phase::Landing;
            }
            HighLevel::Stop => self.stop(),
            HighLevel::GoTo { relative, linear, position, yaw, duration } => {
                let (base, base_yaw) = if relative { (from.position, from.yaw) } else { (Vec3::ZERO, 0.0) };
                let (goal, yaw) = (base + position, base_yaw + yaw);
                let build = if linear { line } else { smooth };
                self.begin(Motion::Segment(build(&from, goal, yaw, lasting(duration))));
            }
            HighLevel::Spiral { sideways, clockwise, angle, start_radius, end_radius, climb, duration } => {
                let turn = if clockwise { -angle } else { angle };
                let way = Spiral {
                    turn: math::bound(turn, 2.0 * math::PI),
                    radii: [start_radius, end_radius].map(|r| if r > 0.0 { r } else { 0.0 }),
                    side: if clockwise { -1.0 } else { 1.0 },
                    sideways,
                    climb,
                    duration: lasting(duration),
                };
                self.begin(Motion::Segment(way.piece(&from)));
            }
            HighLevel::DefineTrajectory { id, offset, pieces } => self.define(id, offset, pieces)?,
            HighLevel::StartTrajectory { id, time_scale, reversed, relative_position, relative_yaw } => {
                let run = self.run(id, time_scale, reversed, relative_position, relative_yaw, &from)?;
                self.begin(Motion::Run(run));
            }
        }
        Ok(())
    }

    /// Streamed set-points fly now: when they end, hold the place they left the drone at.
    pub fn follow(&mut self, reference: &Reference) {
        self.phase = Phase::Flying;
        self.begin(Motion::Hold(Reference { yaw: reference.yaw, ..Reference::hover(reference.position) }));
    }

    /// On the ground.
    pub fn stop(&mut self) {
        self.phase = Phase::Idle;
        self.begin(Motion::Hold(Reference::default()));
    }

    /// The reference `dt` seconds on; `None` on the ground.
    pub fn advance(&mut self, dt: f32) -> Option<Reference> {
        if self.phase == Phase::Idle {
            return None;
        }
        self.elapsed_s += dt;
        if self.is_finished() {
            if self.phase == Phase::Landing {
                self.stop();
                return None;
            }
            // Long hovers must not lose the clock's resolution.
            let last = self.now();
            self.motion = Motion::Hold(Reference { yaw: last.yaw, ..Reference::hover(last.position) });
        }
        Some(self.now())
    }

    fn begin(&mut self, motion: Motion) {
        (self.motion, self.elapsed_s) = (motion, 0.0);
    }

    fn is_finished(&self) -> bool {
        match &self.motion {
            Motion::Hold(_) => true,
            Motion::Segment(piece) => self.elapsed_s >= piece.duration,
            Motion::Run(run) => self.elapsed_s >= run.total_s * run.time_scale,
        }
    }

    fn now(&self) -> Reference {
        match &self.motion {
            Motion::Hold(reference) => *reference,
            Motion::Segment(piece) => piece.at(self.elapsed_s),
            Motion::Run(run) => self.run_at(run, self.elapsed_s),
        }
    }

    fn vertical(&mut self, from: &Reference, height: f32, relative: bool, yaw: Option<f32>, pace: Pace) {
        let z = if relative { from.position.z + height } else { height };
        let goal = Vec3::new(from.position.x, from.position.y, z);
        let duration = match pace {
            Pace::Duration(s) => s,
            Pace::Speed(v) => math::abs(z - from.position.z) / if v > 0.0 { v } else { DEFAULT_SPEED },
        };
        let piece = smooth(from, goal, yaw.unwrap_or(from.yaw), lasting(duration));
        self.begin(Motion::Segment(piece));
    }

    fn define(&mut self, id: u8, offset: u32, pieces: u8) -> Result<(), Refusal> {
        if let Motion::Run(_) = self.motion
            && !self.is_finished()
        {
            return Err(Refusal::Planner);
        }
        let offset = u16::try_from(offset).map_err(|_| Refusal::Trajectory)?;
        for piece in 0..usize::from(pieces) {
            // Refused now rather than in the air.
            self.memory.piece(usize::from(offset) + piece * PIECE_LEN).ok_or(Refusal::Trajectory)?;
        }
        let slot = self.definitions.get_mut(usize::from(id)).ok_or(Refusal::Trajectory)?;
        *slot = Definition { offset, pieces };
        Ok(())
    }

    fn run(
        &self,
        id: u8,
        time_scale: f32,
        reversed: bool,
        relative_position: bool,
        relative_yaw: bool,
        from: &Reference,
    ) -> Result<Run, Refusal> {
        let definition = *self.definitions.get(usize::from(id)).ok_or(Refusal::Trajectory)?;
        let mut total_s = 0.0;
        for number in 0..definition.pieces {
            total_s += self.piece(definition, number).ok_or(Refusal::Trajectory)?.duration;
        }
        let still = Run { definition, time_scale, reversed, shift: Vec3::ZERO, turn: 0.0, total_s };
        let start = self.run_at(&still, 0.0);
        let turn = if relative_yaw { math::wrap_angle(from.yaw - start.yaw) } else { 0.0 };
        let shift = if relative_position { from.position - turned(start.position, turn) } else { Vec3::ZERO };
        Ok(Run { shift, turn, ..still })
    }

    fn piece(&self, definition: Definition, number: u8) -> Option<Piece> {
        self.memory.piece(definition.offset_of(number))
    }

    /// The reference `elapsed` seconds into a run.
    fn run_at(&self, run: &Run, elapsed: f32) -> Reference {
        let along = math::clamp(elapsed / run.time_scale, 0.0, run.total_s);
        let t = if run.reversed { run.total_s - along } else { along };
        // Only durations on the way to the piece: reading whole pieces took most of a control step.
        let (mut start, mut found) = (0.0, None);
        for number in 0..run.definition.pieces {
            let Some(duration) = self.memory.duration(run.definition.offset_of(number)) else { break };
            found = Some((number, t - start));
            start += duration;
            if t <= start {
                break;
            }
        }
        let reference =
            found.and_then(|(number, t)| Some(self.piece(run.definition, number)?.at(t))).unwrap_or_default();
        let speed = if run.reversed { -1.0 } else { 1.0 } / run.time_scale;
        Reference {
            position: turned(reference.position, run.turn) + run.shift,
            velocity: turned(reference.velocity, run.turn) * speed,
            acceleration: turned(reference.acceleration, run.turn) * (speed * speed),
            yaw: math::wrap_angle(reference.yaw + run.turn),
            yaw_rate: reference.yaw_rate * speed,
        }
    }
}

fn lasting(duration: f32) -> f32 {
    math::clamp(duration, MIN_DURATION, MAX_DURATION)
}

fn turned(v: Vec3, yaw: f32) -> Vec3 {
    let (s, c) = math::sin_cos(yaw);
    Vec3::new(c * v.x - s * v.y, s * v.x + c * v.y, v.z)
}

/// A circle around a centre whose distance changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spiral {
    /// Around the centre, rad, to the left.
    turn: f32,
    /// Distance from the centre at the start and at the end, m.
    radii: [f32; 2],
    /// Where the centre is: 1 on the left (or, `sideways`, behind), −1 on the other side.
    side: f32,
    sideways: bool,
    climb: f32,
    duration: f32,
}

impl Spiral {
    /// From the centre to the drone, and how that changes with the heading: both of length one.
    fn outwards(&self, yaw: f32) -> (Vec3, Vec3) {
        let (sin, cos) = math::sin_cos(yaw);
        if self.sideways {
            (Vec3::new(cos, sin, 0.0) * self.side, Vec3::new(-sin, cos, 0.0) * self.side)
        } else {
            (Vec3::new(sin, -cos, 0.0) * self.side, Vec3::new(cos, sin, 0.0) * self.side)
        }
    }

    /// One piece, as the official planner's: place, velocity and acceleration of a spiral at both
    /// ends, a polynomial between them.
    fn piece(&self, from: &Reference) -> Piece {
        let rate = self.turn / self.duration;
        let [start, end] = self.radii;
        let (widening, rising) = ((end - start) / self.duration, self.climb / self.duration);
        let end_yaw = from.yaw + self.turn;
        let at = |yaw: f32, radius: f32| {
            let (out, along) = self.outwards(yaw);
            let velocity = out * widening + along * (radius * rate) + Vec3::Z * rising;
            let acceleration = along * (2.0 * widening * rate) - out * (radius * rate * rate);
            (out * radius, velocity, acceleration)
        };
        let (out, v0, a0) = at(from.yaw, start);
        let (out_end, v1, a1) = at(end_yaw, end);
        let p0 = from.position;
        let p1 = p0 - out + out_end + Vec3::Z * self.climb;
        let ends = |axis: fn(Vec3) -> f32| [[p0, v0, a0].map(axis), [p1, v1, a1].map(axis)];
        let piece = |[from, to]: [[f32; 3]; 2]| septic(from, to, self.duration);
        Piece {
            duration: self.duration,
            axes: [
                piece(ends(|v| v.x)),
                piece(ends(|v| v.y)),
                piece(ends(|v| v.z)),
                piece([[from.yaw, rate, 0.0], [end_yaw, rate, 0.0]]),
            ],
        }
    }
}

/// One piece from a reference to rest at a goal, as the official planner's.
fn smooth(from: &Reference, goal: Vec3, yaw: f32, duration: f32) -> Piece {
    let end_yaw = from.yaw + math::wrap_angle(yaw - from.yaw);
    let (p, v, a) = (from.position, from.velocity, from.acceleration);
    Piece {
        duration,
        axes: [
            septic([p.x, v.x, a.x], [goal.x, 0.0, 0.0], duration),
            septic([p.y, v.y, a.y], [goal.y, 0.0, 0.0], duration),
            septic([p.z, v.z, a.z], [goal.z, 0.0, 0.0], duration),
            septic([from.yaw, from.yaw_rate, 0.0], [end_yaw, 0.0, 0.0], duration),
        ],
    }
}

/// One piece at constant speed along a straight line.
fn line(from: &Reference, goal: Vec3, yaw: f32, duration: f32) -> Piece {
    let end_yaw = from.yaw + math::wrap_angle(yaw - from.yaw);
    let axis = |start: f32, end: f32| [start, (end - start) / duration, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let p = from.position;
    Piece {
        duration,
        axes: [axis(p.x, goal.x), axis(p.y, goal.y), axis(p.z, goal.z), axis(from.yaw, end_yaw)],
    }
}

/// Coefficients of the degree-7 polynomial without a cubic term between two positions, velocities and
/// accelerations, `t` seconds apart.
fn septic([p0, v0, a0]: [f32; 3], [p1, v1, a1]: [f32; 3], t: f32) -> [f32; COEFFICIENTS] {
    let d = p0 - p1;
    let (t2, t3) = (t * t, t * t * t);
    let t4 = t2 * t2;
    [
        p0,
        v0,
        0.5 * a0,
        0.0,
        -5.0 * (14.0 * d + 8.0 * t * v0 + 6.0 * t * v1 + 2.0 * t2 * a0 - t2 * a1) / (2.0 * t4),
        (84.0 * d + 45.0 * t * v0 + 39.0 * t * v1 + 10.0 * t2 * a0 - 7.0 * t2 * a1) / (t4 * t),
        -(140.0 * d + 72.0 * t * v0 + 68.0 * t * v1 + 15.0 * t2 * a0 - 13.0 * t2 * a1) / (2.0 * t4 * t2),
        2.0 * (10.0 * d + 5.0 * t * v0 + 5.0 * t * v1 + t2 * a0 - t2 * a1) / (t4 * t3),
    ]
}
