//! The ground's part of a flight: what is uploaded, what the drone is asked to do and for how long, and
//! which part of the flight counts.
//!
//! A flight has four legs: take-off, approach to where the task starts, the task, landing. Whoever flies
//! (the virtual Crazyflie's ground station by radio, the native drone by function calls) sends the
//! [`request`](Script::request) of each [`Leg`] and stays in it for its
//! [`duration`](Script::duration_us).

use std::path::Path;
use std::str::FromStr;

use steady_common::commander::{HighLevel, Pace};
use steady_common::planner::{MEMORY_LEN, PIECE_LEN, Planner};
use steady_common::trajectory::Piece;
use steady_common::{Reference, State, Trajectory, Vec3};

use crate::paths;
use crate::task::Task;

/// Pieces that fit into the drone's trajectory memory.
pub const MAX_PIECES: usize = MEMORY_LEN / PIECE_LEN;
/// Height of the take-off, m.
const HEIGHT_M: f32 = 1.0;
/// Duration of take-off and landing, s.
const TAKE_OFF_S: f32 = 2.0;
const LAND_S: f32 = 3.0;
/// Rest after take-off, approach, trajectory and landing, s.
const REST_S: f32 = 1.0;
/// Mean speed of the approach, m/s.
const APPROACH_SPEED_M_S: f32 = 0.3;
/// A task that starts this near to where the take-off ends needs no approach, m.
const NEAR_M: f32 = 0.01;
/// Time in which a path that ends at speed comes to rest, s.
const BRAKE_S: f32 = 1.5;
/// A path that ends slower than this ends at rest, m/s and rad/s.
const REST_SPEED: f32 = 0.01;
/// Number of the uploaded trajectory.
const TRAJECTORY_ID: u8 = 1;
/// Bytes written to the planner's copy at a time.
const CHUNK: usize = 16;

/// What is flown between take-off and landing.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// A task.
    Task(Task),
    /// Polynomial pieces, starting where the drone hovers.
    Pieces(Vec<Piece>),
}

impl From<Task> for Course {
    fn from(task: Task) -> Self {
        Self::Task(task)
    }
}

impl FromStr for Course {
    type Err = String;

    /// A task's name, or a CSV file as Crazyswarm writes it: rows of a duration and eight coefficients
    /// each for x, y, z and yaw.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.ends_with(".csv") {
            let or_file = |error| format!("{error}, or a file of polynomial pieces (.csv)");
            return text.parse().map(Self::Task).map_err(or_file);
        }
        let content = std::fs::read_to_string(Path::new(text)).map_err(|error| format!("{text}: {error}"))?;
        parse_pieces(&content).map(Self::Pieces).map_err(|error| format!("{text}: {error}"))
    }
}

fn parse_pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(|c: char| c.is_alphabetic() || c == '#') {
            continue;
        }
        let mut values = Vec::new();
        for field in line.split(',').map(str::trim).filter(|field| !field.is_empty()) {
            match field.parse::<f32>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => return Err(format!("line {number}: `{field}` is not a finite number")),
            }
        }
        let [duration, coefficients @ ..] = values.as_slice() else { continue };
        if coefficients.len() != 32 {
            return Err(format!("line {number}: {} values instead of 33", values.len()));
        }
        if *duration <= 0.0 {
            return Err(format!("line {number}: a piece cannot last {duration} s"));
        }
        let axis = |i: usize| std::array::from_fn(|k| coefficients[8 * i + k]);
        pieces.push(Piece { duration: *duration, axes: std::array::from_fn(axis) });
    }
    let n = pieces.len() + usize::from(pieces.last().and_then(brake).is_some());
    match pieces.len() {
        0 => Err("no pieces".to_owned()),
        n if n > MAX_PIECES => Err(format!("{n} pieces; the drone's memory holds {MAX_PIECES}")),
        _ if n > MAX_PIECES => {
            Err(format!("it ends at speed, and the {MAX_PIECES} pieces leave no room for one to brake in"))
        }
        _ => Ok(pieces),
    }
}

/// A part of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Straight up to 1 m.
    TakeOff,
    /// To where the task starts.
    Approach,
    /// The task itself.
    Task,
    /// Down to the floor.
    Land,
}

/// A flight as the ground commands it.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    course: Course,
    pieces: Vec<Piece>,
    /// Flown after the pieces if those end at speed. It does not count.
    brake: Option<Piece>,
    hold_s: f32,
}

impl Script {
    /// The flight for a task or pieces.
    #[must_use]
    pub fn new(course: impl Into<Course>) -> Self {
        let course = course.into();
        let pieces = match &course {
            Course::Task(Task::FigureEight) => fit(&Trajectory::FIGURE_EIGHT, MAX_PIECES - 1),
            Course::Task(Task::Square) => paths::SQUARE.to_vec(),
            Course::Task(Task::Helix) => paths::HELIX.to_vec(),
            Course::Task(Task::Hover | Task::TakeoffLand) => Vec::new(),
            Course::Pieces(pieces) => pieces.clone(),
        };
        let hold_s = match course {
            Course::Task(Task::Hover) => Task::Hover.duration_s(),
            // The rest after the take-off is part of it.
            Course::Task(Task::TakeoffLand) => Task::TakeoffLand.duration_s() - TAKE_OFF_S - REST_S - LAND_S,
            _ => REST_S,
        };
        let brake = pieces.last().and_then(brake).filter(|_| pieces.len() < MAX_PIECES);
        Self { course, pieces, brake, hold_s }
    }

    /// The same with another time at rest in the task, s.
    #[must_use]
    pub fn holding(mut self, seconds: f32) -> Self {
        self.hold_s = seconds.max(REST_S);
        self
    }

    /// What is flown.
    #[must_use]
    pub fn course(&self) -> &Course {
        &self.course
    }

    /// What is flown after each other, until the drone is at rest.
    fn uploaded(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().chain(&self.brake)
    }

    /// The bytes for the trajectory memory; empty when the task needs none.
    #[must_use]
    pub fn upload(&self) -> Vec<u8> {
        let values = self.uploaded().flat_map(|p| p.axes.into_iter().flatten().chain([p.duration]));
        values.flat_map(f32::to_le_bytes).collect()
    }

    /// Gives the uploaded pieces their number.
    #[must_use]
    pub fn define(&self) -> Option<HighLevel> {
        let pieces = u8::try_from(self.uploaded().count()).ok().filter(|n| *n > 0)?;
        Some(HighLevel::DefineTrajectory { id: TRAJECTORY_ID, offset: 0, pieces })
    }

    /// The leg after this one.
    #[must_use]
    pub fn after(&self, leg: Leg) -> Option<Leg> {
        match leg {
            Leg::TakeOff if self.approach().is_some() => Some(Leg::Approach),
            Leg::TakeOff | Leg::Approach => Some(Leg::Task),
            Leg::Task => Some(Leg::Land),
            Leg::Land => None,
        }
    }

    /// What the drone is asked at the beginning of a leg; `None` where it just stays.
    #[must_use]
    pub fn request(&self, leg: Leg) -> Option<HighLevel> {
        let (relative, yaw) = (false, Some(0.0));
        match leg {
            Leg::TakeOff => {
                Some(HighLevel::TakeOff { height: HEIGHT_M, relative, yaw, pace: Pace::Duration(TAKE_OFF_S) })
            }
            Leg::Approach => {
                let (position, duration) = self.approach()?;
                Some(HighLevel::GoTo { relative, linear: false, position, yaw: 0.0, duration })
            }
            Leg::Task => (!self.pieces.is_empty()).then_some(HighLevel::StartTrajectory {
                id: TRAJECTORY_ID,
                time_scale: 1.0,
                reversed: false,
                relative_position: matches!(self.course, Course::Pieces(_)),
                relative_yaw: false,
            }),
            Leg::Land => Some(HighLevel::Land { height: 0.0, relative, yaw, pace: Pace::Duration(LAND_S) }),
        }
    }

    /// How long a leg lasts, µs.
    #[must_use]
    pub fn duration_us(&self, leg: Leg) -> u64 {
        let rest = microseconds(REST_S);
        match leg {
            Leg::TakeOff => microseconds(TAKE_OFF_S) + rest,
            Leg::Approach => self.approach().map_or(0, |(_, duration_s)| microseconds(duration_s) + rest),
            Leg::Task => {
                let brake_s = self.brake.map_or(0.0, |brake| brake.duration);
                self.trajectory_us() + microseconds(brake_s + self.hold_s)
            }
            Leg::Land => microseconds(LAND_S) + rest,
        }
    }

    /// Whether a moment of the flight counts: all of take-off and landing when they are the task,
    /// otherwise the task leg, a trajectory until its end.
    #[must_use]
    pub fn counts(&self, leg: Leg, elapsed_us: u64) -> bool {
        match self.course {
            Course::Task(Task::TakeoffLand) => true,
            Course::Task(Task::Hover) => leg == Leg::Task,
            _ => leg == Leg::Task && elapsed_us <= self.trajectory_us(),
        }
    }

    /// Planned length of the part that counts, s.
    #[must_use]
    pub fn counted_s(&self) -> f32 {
        match self.course {
            Course::Task(Task::TakeoffLand) => TAKE_OFF_S + REST_S + self.hold_s + LAND_S,
            Course::Task(Task::Hover) => self.hold_s,
            _ => self.pieces.iter().map(|p| p.duration).sum(),
        }
    }

    fn trajectory_us(&self) -> u64 {
        match self.course {
            // The fitted pieces' durations do not add up to exactly the same.
            Course::Task(task) if !self.pieces.is_empty() => microseconds(task.duration_s()),
            _ => microseconds(self.pieces.iter().map(|p| p.duration).sum()),
        }
    }

    /// Where the task starts and how long the way takes, if the take-off does not end there.
    fn approach(&self) -> Option<(Vec3, f32)> {
        let Course::Task(task) = self.course else { return None };
        if self.pieces.is_empty() {
            return None;
        }
        let start = task.trajectory().at(0.0).position;
        let distance = (start - Vec3::Z * HEIGHT_M).norm();
        (distance > NEAR_M).then(|| (start, (distance / APPROACH_SPEED_M_S).max(1.0)))
    }
}

fn microseconds(seconds: f32) -> u64 {
    (seconds * 1e6) as u64
}

/// A copy of the drone's planner, asked the same things at the same time: where the drone should be,
/// whatever the drone itself makes of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannerCopy(Planner);

impl PlannerCopy {
    /// Writes the script's trajectory into the copy's memory.
    pub fn upload(&mut self, script: &Script) {
        for (chunk, bytes) in script.upload().chunks(CHUNK).enumerate() {
            // The script checked that they fit.
            let _ = self.0.write_memory(chunk * CHUNK, bytes);
        }
    }

    /// Takes what the drone has taken; `truth` is where a take-off starts.
    pub fn request(&mut self, request: &HighLevel, truth: &State) {
        let _ = self.0.request(request, &Reference::hover(truth.position));
    }

    /// The reference `dt_s` later; `None` on the floor.
    pub fn advance(&mut self, dt_s: f32) -> Option<Reference> {
        self.0.advance(dt_s)
    }
}

/// A trajectory as pieces that continue position, velocity and acceleration.
fn fit(trajectory: &Trajectory<'_>, count: usize) -> Vec<Piece> {
    let duration = f64::from(trajectory.duration()) / count as f64;
    let values = |reference: &Reference| {
        let [p, v, a] = [reference.position, reference.velocity, reference.acceleration];
        [[p.x, v.x, a.x], [p.y, v.y, a.y], [p.z, v.z, a.z], [reference.yaw, reference.yaw_rate, 0.0]]
    };
    (0..count)
        .map(|i| {
            let at = |k: usize| values(&trajectory.at((duration * k as f64) as f32));
            let (start, end) = (at(i), at(i + 1));
            let axis = |k: usize| quintic(start[k].map(f64::from), end[k].map(f64::from), duration);
            Piece { duration: duration as f32, axes: std::array::from_fn(axis) }
        })
        .collect()
}

/// A piece from the end of another to rest, if that ends at speed: a reference that stops within a control step is
/// a blow to fast gains.
fn brake(last: &Piece) -> Option<Piece> {
    let end = last.at(last.duration);
    if end.velocity.norm() < REST_SPEED && end.yaw_rate.abs() < REST_SPEED {
        return None;
    }
    let duration = f64::from(BRAKE_S);
    let axis = |p: f32, v: f32, a: f32| {
        let [p, v, a] = [p, v, a].map(f64::from);
        // The end for which the fifth-order term is zero.
        let rest = p + v * duration / 2.0 + a * duration * duration / 12.0;
        quintic([p, v, a], [rest, 0.0, 0.0], duration)
    };
    let (p, v, a) = (end.position, end.velocity, end.acceleration);
    let axes =
        [axis(p.x, v.x, a.x), axis(p.y, v.y, a.y), axis(p.z, v.z, a.z), axis(end.yaw, end.yaw_rate, 0.0)];
    Some(Piece { duration: BRAKE_S, axes })
}

/// The fifth-order polynomial between two states (position, velocity, acceleration).
fn quintic([p0, v0, a0]: [f64; 3], [p1, v1, a1]: [f64; 3], t: f64) -> [f32; 8] {
    let (d, t2) = (p1 - p0, t * t);
    let c3 = (20.0 * d - (8.0 * v1 + 12.0 * v0) * t - (3.0 * a0 - a1) * t2) / (2.0 * t2 * t);
    let c4 = (-30.0 * d + (14.0 * v1 + 16.0 * v0) * t + (3.0 * a0 - 2.0 * a1) * t2) / (2.0 * t2 * t2);
    let c5 = (12.0 * d - 6.0 * (v1 + v0) * t - (a0 - a1) * t2) / (2.0 * t2 * t2 * t);
    [p0, v0, a0 / 2.0, c3, c4, c5, 0.0, 0.0].map(|c| c as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_eight_fits_into_the_trajectory_memory() {
        let script = Script::new(Task::FigureEight);
        assert!(script.upload().len() <= MEMORY_LEN);
        let eight = Trajectory::FIGURE_EIGHT;
        let flown = Trajectory::Poly4d { pieces: &script.pieces, offset: Vec3::ZERO };
        for i in 0..1357 {
            let t = i as f32 * 0.01;
            let (a, b) = (eight.at(t), flown.at(t));
            assert!((a.position - b.position).norm() < 2e-4, "{t}: {a:?} {b:?}");
            assert!((a.velocity - b.velocity).norm() < 5e-3, "{t}: {a:?} {b:?}");
        }
    }

    /// Flies every task in the planner's copy alone: it takes every request, the part that counts is as
    /// long as the task, and it follows the task's own trajectory.
    #[test]
    fn the_planner_follows_every_task() {
        for task in Task::ALL {
            let script = Script::new(task);
            assert!((script.counted_s() - task.duration_s()).abs() < 1e-3, "{task}");
            let mut copy = PlannerCopy::default();
            copy.upload(&script);
            let on_floor = State::default();
            if let Some(define) = script.define() {
                copy.0.request(&define, &Reference::default()).unwrap();
            }
            let (mut next, mut counted_ms, mut last_z) = (Some(Leg::TakeOff), 0, 0.0);
            while let Some(leg) = next {
                if let Some(request) = script.request(leg) {
                    copy.0.request(&request, &Reference::hover(on_floor.position)).unwrap();
                }
                for ms in 0..script.duration_us(leg) / 1000 {
                    let reference = copy.advance(0.001);
                    counted_ms += u64::from(reference.is_some() && script.counts(leg, 1000 * ms));
                    let Some(reference) = reference else { continue };
                    last_z = reference.position.z;
                    let is_path = leg == Leg::Task && !task.starts_on_floor();
                    if is_path && script.counts(leg, 1000 * (ms + 1)) {
                        // The planner's clock, a sum of many small steps, is 2 ms off after 13 s.
                        let wanted = task.trajectory().at((ms + 1) as f32 * 0.001);
                        assert!((reference.position - wanted.position).norm() < 5e-3, "{task} {ms} ms");
                    }
                }
                next = script.after(leg);
            }
            assert!(last_z < 0.01, "{task} ends at {last_z} m");
            assert!((counted_ms as f32 * 1e-3 - task.duration_s()).abs() < 0.01, "{task}: {counted_ms} ms");
        }
    }

    /// Whatever is flown, the reference never jumps in velocity, and ends where the drone can stay.
    #[test]
    fn paths_that_end_at_speed_brake() {
        for task in [Task::FigureEight, Task::Square, Task::Helix] {
            let script = Script::new(task);
            let pieces: Vec<Piece> = script.uploaded().copied().collect();
            let flown = Trajectory::Poly4d { pieces: &pieces, offset: Vec3::ZERO };
            let end_s = script.duration_us(Leg::Task) as f32 * 1e-6 - script.hold_s;
            let mut last = flown.at(0.0);
            for ms in 0..(1000.0 * end_s) as u32 + 10 {
                let now = flown.at(ms as f32 * 1e-3);
                assert!((now.velocity - last.velocity).norm() < 0.02, "{task} {ms} ms: {now:?}");
                assert!(now.acceleration.norm() < 12.0, "{task} {ms} ms: {now:?}");
                last = now;
            }
            assert!(last.velocity.norm() < REST_SPEED, "{task}: {last:?}");
            assert!(last.position.norm() < 2.5, "{task}: {last:?}");
        }
        assert!(Script::new(Task::FigureEight).brake.is_some());
        assert!(Script::new(Task::Square).brake.is_none());
        let moving = format!("1.0,0,1{}\n", ",0".repeat(30));
        assert!(Script::new(Course::Pieces(parse_pieces(&moving).unwrap())).brake.is_some());
        assert!(parse_pieces(&moving.repeat(MAX_PIECES - 1)).is_ok());
        let error = parse_pieces(&moving.repeat(MAX_PIECES)).unwrap_err();
        assert!(error.contains("no room"), "{error}");
    }

    #[test]
    fn trajectories_are_read_from_csv() {
        let row =
            (0..33).map(|i| if i == 0 { "2.0".into() } else { format!("{i}") }).collect::<Vec<_>>().join(",");
        let pieces = parse_pieces(&format!("duration,x^0\n{row},\n")).unwrap();
        assert_eq!((pieces[0].duration, pieces[0].axes[0][0], pieces[0].axes[3][7]), (2.0, 1.0, 32.0));
        for (bad, why) in [
            ("", "no pieces"),
            ("1,2,3", "line 1: 3 values instead of 33"),
            (&row.replace("2.0", "-1"), "cannot last -1 s"),
            (&row.replace("32", "NaN"), "`NaN` is not a finite number"),
            (&row.replace("2.0", "2x"), "`2x` is not a finite number"),
        ] {
            let error = parse_pieces(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
        let error = "sqare".parse::<Course>().unwrap_err();
        assert!(error.contains("did you mean `square`") && error.contains(".csv"), "{error}");
        let error = "nowhere.csv".parse::<Course>().unwrap_err();
        assert!(error.starts_with("nowhere.csv: "), "{error}");
    }
}
