//! A flight as a ground station flies it: wait, arm, take off, do the task, land, disarm, switch off.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use steady_common::commander::{HighLevel, Pace};
use steady_common::crtp::{Packet, Port, high_level, memory, param, supervisor};
use steady_common::planner::{PIECE_LEN, Planner};
use steady_common::trajectory::Piece;
use steady_common::{Reference, State, Trajectory};

use crate::board::Board;
use crate::cortex::unicorn::Memory;
use crate::ground::{Dongle, Ground};
use crate::setting::Setting;

/// Height of the flights, m.
const HEIGHT_M: f32 = 1.0;
/// Duration of a take-off and of a landing, s.
const TAKE_OFF_S: f32 = 2.0;
const LAND_S: f32 = 3.0;
/// An answer that does not come in this time is asked for again.
const PATIENCE_US: u64 = 300_000;
/// What the drone does not do in this time it will not do.
const GIVE_UP_US: u64 = 20_000_000;
/// Pieces that fit into the trajectory memory.
const MAX_PIECES: usize = 31;

/// What is flown.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// 10 s at 1 m.
    Hover,
    /// Up, 7 s at 1 m, down.
    TakeoffLand,
    /// Two figure eights at 1 m.
    FigureEight,
    /// A polynomial trajectory, from where the drone hovers.
    Pieces(Vec<Piece>),
}

impl Task {
    /// A task by its name, or a trajectory from a CSV file (duration, then eight coefficients each for
    /// x, y, z and yaw in every row, as Crazyswarm writes them).
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "hover" => Ok(Self::Hover),
            "takeoff-land" => Ok(Self::TakeoffLand),
            "figure8" => Ok(Self::FigureEight),
            path if path.ends_with(".csv") => {
                let text = std::fs::read_to_string(Path::new(path))
                    .with_context(|| format!("cannot read {path}"))?;
                parse_pieces(&text).with_context(|| format!("{path} is no trajectory"))
            }
            other => bail!("`{other}` is no task: hover, takeoff-land, figure8 or a file of pieces (.csv)"),
        }
    }

    /// The pieces to upload.
    fn pieces(&self) -> Vec<Piece> {
        match self {
            Self::FigureEight => fit(&Trajectory::FIGURE_EIGHT, MAX_PIECES),
            Self::Pieces(pieces) => pieces.clone(),
            _ => Vec::new(),
        }
    }
}

fn parse_pieces(text: &str) -> Result<Task> {
    let mut pieces = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(|c: char| c.is_alphabetic() || c == '#') {
            continue;
        }
        let values: Vec<f32> = line
            .split(',')
            .map(|v| v.trim())
            .filter(|v| !v.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("line {}", number + 1))?;
        ensure!(values.len() == 33, "line {} has {} values instead of 33", number + 1, values.len());
        ensure!(
            values[0] > 0.0 && values.iter().all(|v| v.is_finite()),
            "line {}: no such piece",
            number + 1
        );
        let axis = |i: usize| std::array::from_fn(|k| values[1 + 8 * i + k]);
        pieces.push(Piece { duration: values[0], axes: std::array::from_fn(axis) });
    }
    ensure!(!pieces.is_empty(), "there are no pieces");
    ensure!(pieces.len() <= MAX_PIECES, "{} pieces do not fit into the drone's {MAX_PIECES}", pieces.len());
    Ok(Task::Pieces(pieces))
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

/// The fifth-order polynomial between two states (position, velocity, acceleration).
fn quintic([p0, v0, a0]: [f64; 3], [p1, v1, a1]: [f64; 3], t: f64) -> [f32; 8] {
    let (d, t2) = (p1 - p0, t * t);
    let c3 = (20.0 * d - (8.0 * v1 + 12.0 * v0) * t - (3.0 * a0 - a1) * t2) / (2.0 * t2 * t);
    let c4 = (-30.0 * d + (14.0 * v1 + 16.0 * v0) * t + (3.0 * a0 - 2.0 * a1) * t2) / (2.0 * t2 * t2);
    let c5 = (12.0 * d - 6.0 * (v1 + v0) * t - (a0 - a1) * t2) / (2.0 * t2 * t2 * t);
    [p0, v0, a0 / 2.0, c3, c4, c5, 0.0, 0.0].map(|c| c as f32)
}

/// The bytes of pieces as the drone's memory holds them.
fn piece_bytes(pieces: &[Piece]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pieces.len() * PIECE_LEN);
    for piece in pieces {
        for value in piece.axes.into_iter().flatten().chain([piece.duration]) {
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

/// Where the mission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits until the drone may be armed.
    Wait,
    /// Sets a parameter: which of them, tried as which type.
    Set(usize, usize),
    /// Looks for the trajectory memory.
    FindMemory(u8),
    /// Uploads the trajectory, from this byte on.
    Upload(usize),
    /// Gives the trajectory its number.
    Define,
    /// Arms.
    Arm,
    /// Waits until the motors may turn.
    Armed,
    /// Takes off.
    TakeOff,
    /// In the air until the take-off has ended.
    Rising,
    /// Starts the task.
    Start,
    /// Flies the task.
    Task,
    /// Lands.
    Land,
    /// Comes down.
    Sinking,
    /// Disarms.
    Disarm,
    /// Lets the drone close its files.
    Close,
    /// The power button was pressed.
    SwitchOff,
    /// All done.
    Done,
    /// Something did not happen.
    Failed,
}

/// One step of the mission for the summary: time, where the drone should have been.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Virtual time, µs.
    pub time_us: u64,
    /// The reference.
    pub reference: Reference,
    /// Part of the task that is evaluated.
    pub counts: bool,
}

/// The mission.
pub struct Mission {
    dongle: Dongle,
    task: Task,
    bytes: Vec<u8>,
    pieces: u8,
    memory_id: u8,
    settings: Vec<Setting>,
    /// Where it is, since when.
    pub phase: Phase,
    since_us: u64,
    now_us: u64,
    asked_us: Option<u64>,
    /// A copy of the drone's planner that was asked the same things: the reference.
    planner: Planner,
    /// Reference, millisecond by millisecond, while there is one.
    pub wanted: Vec<Wanted>,
    /// What the drone said on its console.
    pub console: String,
    /// Phases with the time they began.
    pub history: Vec<(u64, Phase)>,
    /// Why it failed.
    pub failure: Option<String>,
    /// The supervisor's bits as last heard.
    pub info: u16,
    info_asked_us: u64,
    /// Time in the air before it lands anyway, for the hover, µs.
    hold_us: u64,
}

impl Mission {
    /// A mission over a radio.
    #[must_use]
    pub fn new(task: Task, dongle: Dongle) -> Self {
        let pieces = task.pieces();
        Self {
            dongle,
            bytes: piece_bytes(&pieces),
            pieces: pieces.len() as u8,
            memory_id: 0,
            settings: Vec::new(),
            phase: Phase::Wait,
            since_us: 0,
            now_us: 0,
            asked_us: None,
            planner: Planner::default(),
            wanted: Vec::new(),
            console: String::new(),
            history: vec![(0, Phase::Wait)],
            failure: None,
            info: 0,
            info_asked_us: 0,
            hold_us: match task {
                Task::Hover => 10_000_000,
                Task::TakeoffLand => 7_000_000,
                _ => 1_000_000,
            },
            task,
        }
    }

    /// The same with another time in the air at rest, s.
    #[must_use]
    pub fn holding(mut self, seconds: f32) -> Self {
        self.hold_us = (seconds.max(1.0) * 1e6) as u64;
        self
    }

    /// The same with parameters set before the drone is armed.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<Setting>) -> Self {
        self.settings = settings;
        self
    }

    /// True when there is nothing left to do.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // After a failure it is watched for a while what the drone does on its own.
        self.phase == Phase::Done || self.phase == Phase::Failed && self.now_us > self.since_us + 5_000_000
    }

    /// True from the take-off to the end of the landing.
    #[must_use]
    pub fn is_airborne(&self) -> bool {
        matches!(self.phase, Phase::Rising | Phase::Start | Phase::Task | Phase::Land | Phase::Sinking)
    }

    /// Radio packets sent, and those not acknowledged.
    #[must_use]
    pub fn polls(&self) -> (u64, u64) {
        self.dongle.polls
    }

    fn go(&mut self, phase: Phase, now_us: u64) {
        (self.phase, self.since_us, self.asked_us) = (phase, now_us, None);
        self.history.push((now_us, phase));
    }

    fn fail(&mut self, why: impl Into<String>, now_us: u64) {
        self.failure = Some(format!("{} ({:?} since {} ms)", why.into(), self.phase, self.since_us / 1000));
        self.go(Phase::Failed, now_us);
    }

    /// Asks, and asks again while no answer comes.
    fn ask(&mut self, packet: Packet, now_us: u64) {
        if self.asked_us.is_none_or(|asked| now_us - asked >= PATIENCE_US) {
            self.asked_us = Some(now_us);
            self.dongle.send(now_us, packet);
        }
    }

    fn fly(&mut self, action: HighLevel, now_us: u64) {
        self.ask(high_level::Request::everyone(action).encode(), now_us);
    }

    fn action(&self) -> Option<HighLevel> {
        let yaw = Some(0.0);
        match self.phase {
            Phase::Define => Some(HighLevel::DefineTrajectory { id: 1, offset: 0, pieces: self.pieces }),
            Phase::TakeOff => Some(HighLevel::TakeOff {
                height: HEIGHT_M,
                relative: false,
                yaw,
                pace: Pace::Duration(TAKE_OFF_S),
            }),
            Phase::Start => Some(HighLevel::StartTrajectory {
                id: 1,
                time_scale: 1.0,
                reversed: false,
                relative_position: matches!(self.task, Task::Pieces(_)),
                relative_yaw: false,
            }),
            Phase::Land => {
                Some(HighLevel::Land { height: 0.0, relative: false, yaw, pace: Pace::Duration(LAND_S) })
            }
            _ => None,
        }
    }

    /// What is asked in this phase.
    fn speak(&mut self, now_us: u64, board: &mut Board) {
        let waited = now_us - self.since_us;
        match self.phase {
            Phase::Set(index, attempt) => {
                let setting = self.settings.get(index);
                match (setting.and_then(|s| s.packet(attempt)), setting) {
                    (Some(packet), _) => self.ask(packet, now_us),
                    (None, Some(setting)) => {
                        let why =
                            format!("the drone does not take {setting}: no such parameter, or no such value");
                        self.fail(why, now_us);
                    }
                    (None, None) => self.go(self.prepared(), now_us),
                }
            }
            Phase::FindMemory(id) => self.ask(memory::Request::Info(id).encode(), now_us),
            Phase::Upload(at) => {
                let end = (at + memory::MAX_READ).min(self.bytes.len());
                if let Some(data) = self.bytes.get(at..end).and_then(memory::Data::new) {
                    let id = self.memory_id;
                    self.ask(memory::Request::Write { id, address: at as u32, data }.encode(), now_us);
                }
            }
            Phase::Arm => self.ask(supervisor::Request::Arm(true).encode(), now_us),
            Phase::Disarm => self.ask(supervisor::Request::Arm(false).encode(), now_us),
            Phase::Close if waited > 1_500_000 => {
                board.nrf.press_button(board.now);
                self.go(Phase::SwitchOff, now_us);
            }
            Phase::SwitchOff if board.nrf.is_shut_down || waited > 2_000_000 => self.go(Phase::Done, now_us),
            Phase::Rising if waited > (TAKE_OFF_S * 1e6) as u64 + 1_000_000 => {
                self.go(if self.bytes.is_empty() { Phase::Task } else { Phase::Start }, now_us);
            }
            Phase::Task if waited > self.task_us() => self.go(Phase::Land, now_us),
            Phase::Sinking if waited > (LAND_S * 1e6) as u64 + 1_000_000 => self.go(Phase::Disarm, now_us),
            _ => {
                if let Some(action) = self.action() {
                    self.fly(action, now_us);
                }
            }
        }
        let limit = match self.phase {
            Phase::Task => u64::MAX,
            _ => GIVE_UP_US,
        };
        if !matches!(self.phase, Phase::Done | Phase::Failed) && waited > limit {
            let blockers = format!("the drone does not go on, supervisor {:#06x}", self.info);
            self.fail(blockers, now_us);
        }
        // The supervisor's state, ten times a second.
        if matches!(self.phase, Phase::Wait | Phase::Armed | Phase::Task | Phase::Rising)
            && now_us - self.info_asked_us >= 100_000
        {
            self.info_asked_us = now_us;
            self.dongle.send(now_us, supervisor::Request::Bitfield.encode());
        }
    }

    /// What follows when all parameters are set.
    fn prepared(&self) -> Phase {
        if self.bytes.is_empty() { Phase::Arm } else { Phase::FindMemory(0) }
    }

    fn task_us(&self) -> u64 {
        match &self.task {
            Task::FigureEight => (Trajectory::FIGURE_EIGHT.duration() * 1e6) as u64 + self.hold_us,
            Task::Pieces(pieces) => {
                (pieces.iter().map(|p| p.duration).sum::<f32>() * 1e6) as u64 + self.hold_us
            }
            // The second of rest after the take-off counts as hovering.
            Task::TakeoffLand => self.hold_us - 1_000_000,
            Task::Hover => self.hold_us,
        }
    }

    /// What the drone said.
    fn listen(&mut self, packet: &Packet, now_us: u64, truth: &State) {
        match packet.port() {
            Some(Port::Console) => self.console.push_str(&String::from_utf8_lossy(packet.data())),
            Some(Port::Supervisor) => match supervisor::Reply::decode(packet) {
                Ok(supervisor::Reply::Bitfield(info)) => {
                    self.info = info;
                    if self.phase == Phase::Wait && info & 1 != 0 {
                        self.go(Phase::Set(0, 0), now_us);
                    } else if self.phase == Phase::Armed && info & 0b1000 != 0 {
                        self.go(Phase::TakeOff, now_us);
                    }
                }
                Ok(supervisor::Reply::Arm { success, .. }) => match self.phase {
                    Phase::Arm if success => self.go(Phase::Armed, now_us),
                    Phase::Disarm => self.go(Phase::Close, now_us),
                    _ => {}
                },
                _ => {}
            },
            Some(Port::Param) => {
                if let (Phase::Set(index, attempt), Ok(param::Reply::SetByName { group, name, error })) =
                    (self.phase, param::Reply::decode(packet))
                    && self.settings.get(index).is_some_and(|s| s.is(group, name))
                {
                    let next = if error == 0 { (index + 1, 0) } else { (index, attempt + 1) };
                    self.go(Phase::Set(next.0, next.1), now_us);
                }
            }
            Some(Port::Memory) => match (self.phase, memory::Reply::decode(packet)) {
                (Phase::FindMemory(wanted), Ok(memory::Reply::Info { id, kind, .. })) if id == wanted => {
                    if memory::Kind::from_byte(kind) == Some(memory::Kind::Trajectory) {
                        self.memory_id = id;
                        self.go(Phase::Upload(0), now_us);
                    } else if id < 16 {
                        self.go(Phase::FindMemory(id + 1), now_us);
                    } else {
                        self.fail("the drone has no trajectory memory", now_us);
                    }
                }
                (Phase::Upload(at), Ok(memory::Reply::Write { address, error, .. }))
                    if address as usize == at =>
                {
                    if error != 0 {
                        return self.fail(format!("writing the trajectory failed with {error}"), now_us);
                    }
                    let next = at + memory::MAX_READ;
                    let is_last = next >= self.bytes.len();
                    self.go(if is_last { Phase::Define } else { Phase::Upload(next) }, now_us);
                }
                _ => {}
            },
            Some(Port::HighLevel) => self.heard_flight(packet, now_us, truth),
            _ => {}
        }
    }

    fn heard_flight(&mut self, packet: &Packet, now_us: u64, truth: &State) {
        let (Some(action), Ok(reply)) = (self.action(), high_level::Reply::decode(packet)) else { return };
        let asked = high_level::Request::everyone(action).encode();
        if asked.data().first() != reply.echo.first() {
            return;
        }
        if reply.result != 0 {
            return self.fail(format!("the drone refused {action:?} with {}", reply.result), now_us);
        }
        let next = match self.phase {
            Phase::Define => Phase::Arm,
            Phase::TakeOff => Phase::Rising,
            Phase::Start => Phase::Task,
            _ => Phase::Sinking,
        };
        self.mirror(&action, truth);
        self.go(next, now_us);
    }

    /// Does in the copy of the planner what the drone's planner does.
    fn mirror(&mut self, action: &HighLevel, truth: &State) {
        let present = self.wanted.last().map_or(Reference::hover(truth.position), |w| w.reference);
        if let HighLevel::DefineTrajectory { .. } = action {
            let bytes = std::mem::take(&mut self.bytes);
            for (at, chunk) in (0..).step_by(memory::MAX_READ).zip(bytes.chunks(memory::MAX_READ)) {
                let _ = self.planner.write_memory(at, chunk);
            }
            self.bytes = bytes;
        }
        let _ = self.planner.request(action, &present);
    }
}

impl Ground for Mission {
    fn millisecond(&mut self, now_us: u64, truth: &State, board: &mut Board, memory: &mut Memory<'_>) {
        self.now_us = now_us;
        if let Some(reference) = self.planner.advance(0.001) {
            // A trajectory counts until its end; the rest after it does not.
            let flown_us = now_us - self.since_us;
            let counts = match self.task {
                Task::TakeoffLand => true,
                Task::Hover => self.phase == Phase::Task,
                _ => self.phase == Phase::Task && flown_us + self.hold_us <= self.task_us(),
            };
            self.wanted.push(Wanted { time_us: now_us, reference, counts });
        }
        self.speak(now_us, board);
        if let Some(answer) = self.dongle.poll(now_us, board, memory) {
            self.listen(&answer, now_us, truth);
        }
    }

    fn mission(&self) -> Option<&Mission> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use steady_common::Vec3;

    use super::*;

    #[test]
    fn the_figure_eight_fits_into_the_trajectory_memory() {
        let pieces = Task::FigureEight.pieces();
        assert!(piece_bytes(&pieces).len() <= 4096);
        let eight = Trajectory::FIGURE_EIGHT;
        let flown = Trajectory::Poly4d { pieces: &pieces, offset: Vec3::ZERO };
        for i in 0..1357 {
            let t = i as f32 * 0.01;
            let (a, b) = (eight.at(t), flown.at(t));
            assert!((a.position - b.position).norm() < 2e-4, "{t}: {a:?} {b:?}");
            assert!((a.velocity - b.velocity).norm() < 5e-3, "{t}: {a:?} {b:?}");
        }
    }

    #[test]
    fn trajectories_are_read_from_csv() {
        let row =
            (0..33).map(|i| if i == 0 { "2.0".into() } else { format!("{i}") }).collect::<Vec<_>>().join(",");
        let Task::Pieces(pieces) = parse_pieces(&format!("duration,x^0\n{row},\n")).unwrap() else {
            panic!()
        };
        assert_eq!((pieces[0].duration, pieces[0].axes[0][0], pieces[0].axes[3][7]), (2.0, 1.0, 32.0));
        for bad in ["", "1,2,3", &row.replace("2.0", "-1")] {
            assert!(parse_pieces(bad).is_err());
        }
        assert!(Task::parse("loop").is_err());
    }
}
