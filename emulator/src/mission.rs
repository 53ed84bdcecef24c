//! A flight as a ground station flies it: wait, arm, take off, do the task, land, disarm, switch off.

use steady_common::commander::HighLevel;
use steady_common::crtp::{Packet, Port, high_level, memory, param, platform, supervisor, toc};
use steady_common::{Reference, State};
use steady_sim::script::{Course, Leg, PlannerCopy, Script};

use crate::board::Board;
use crate::cortex::unicorn::Memory;
use crate::ground::{Dongle, Ground};
use crate::setting::Setting;

/// An unanswered request is repeated after this time.
const PATIENCE_US: u64 = 300_000;
/// A phase that takes longer than this has failed.
const GIVE_UP_US: u64 = 20_000_000;

/// From this protocol version on firmware has a supervisor that can be asked (releases from 2026.04 on).
const SUPERVISOR_VERSION: i32 = 12;

/// Where the mission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits until the drone may be armed.
    Wait,
    /// Asks a firmware that is not ours what it is.
    Identify,
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
    /// Asks for a leg of the flight.
    Ask(Leg),
    /// Flies a leg.
    Fly(Leg),
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

/// Where the drone should have been in one millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Virtual time, µs.
    pub time_us: u64,
    /// The reference.
    pub reference: Reference,
    /// This moment counts in the metrics.
    pub counts: bool,
}

/// What a drone says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Identity {
    /// Name of the device.
    pub device: Option<String>,
    /// Version of the firmware.
    pub version: Option<String>,
    /// Number of parameters.
    pub parameters: Option<u16>,
    /// Number of log variables.
    pub log_variables: Option<u16>,
}

impl Identity {
    /// What is not known yet; nothing when all is.
    fn question(&self) -> Option<Packet> {
        if self.device.is_none() {
            Some(platform::Request::DeviceName.encode())
        } else if self.version.is_none() {
            Some(platform::Request::FirmwareVersion.encode())
        } else if self.parameters.is_none() {
            Some(toc::Request::Info.encode(Port::Param))
        } else if self.log_variables.is_none() {
            Some(toc::Request::Info.encode(Port::Log))
        } else {
            None
        }
    }

    /// Takes what an answer tells.
    fn hear(&mut self, packet: &Packet) {
        match platform::Reply::decode(packet) {
            Ok(platform::Reply::DeviceName(name)) => self.device = Some(name.to_owned()),
            Ok(platform::Reply::FirmwareVersion(version)) => self.version = Some(version.to_owned()),
            _ => {}
        }
        for (port, count) in [(Port::Param, &mut self.parameters), (Port::Log, &mut self.log_variables)] {
            if let Ok(toc::Reply::Info(info)) = toc::Reply::decode(packet, port) {
                *count = Some(info.count);
            }
        }
    }
}

/// The mission.
pub struct Mission {
    dongle: Dongle,
    script: Script,
    bytes: Vec<u8>,
    memory_id: u8,
    settings: Vec<Setting>,
    /// What the drone says it is, once it was asked.
    pub identity: Option<Identity>,
    /// Where it is, since when.
    pub phase: Phase,
    since_us: u64,
    now_us: u64,
    asked_us: Option<u64>,
    planner: PlannerCopy,
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
    /// The drone has said something.
    pub has_answered: bool,
    /// The firmware has no supervisor that can be asked: arming is a platform command, whose answer tells all.
    is_old: bool,
}

impl Mission {
    /// A mission over a radio.
    #[must_use]
    pub fn new(course: impl Into<Course>, dongle: Dongle) -> Self {
        let script = Script::new(course);
        Self {
            dongle,
            bytes: script.upload(),
            script,
            memory_id: 0,
            settings: Vec::new(),
            identity: None,
            phase: Phase::Wait,
            since_us: 0,
            now_us: 0,
            asked_us: None,
            planner: PlannerCopy::default(),
            wanted: Vec::new(),
            console: String::new(),
            history: vec![(0, Phase::Wait)],
            failure: None,
            info: 0,
            info_asked_us: 0,
            has_answered: false,
            is_old: false,
        }
    }

    /// The same with another time in the air at rest, s.
    #[must_use]
    pub fn holding(mut self, seconds: f32) -> Self {
        self.script = self.script.holding(seconds);
        self
    }

    /// The same with parameters set before the drone is armed.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<Setting>) -> Self {
        self.settings = settings;
        self
    }

    /// The same, and the drone is asked first what firmware it has.
    #[must_use]
    pub fn identifying(mut self) -> Self {
        self.identity = Some(Identity::default());
        self
    }

    /// What the ground asks for.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
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
        matches!(self.phase, Phase::Fly(_) | Phase::Ask(Leg::Approach | Leg::Task | Leg::Land))
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
        match self.phase {
            Phase::Define => self.script.define(),
            Phase::Ask(leg) => self.script.request(leg),
            _ => None,
        }
    }

    /// What follows when a leg has been flown.
    fn after(&self, leg: Leg) -> Phase {
        match self.script.after(leg) {
            Some(next) if self.script.request(next).is_none() => Phase::Fly(next),
            Some(next) => Phase::Ask(next),
            None => Phase::Disarm,
        }
    }

    /// What is asked in this phase.
    fn speak(&mut self, now_us: u64, board: &mut Board) {
        let waited = now_us - self.since_us;
        match self.phase {
            Phase::Identify => match self.identity.as_ref().and_then(Identity::question) {
                Some(packet) => self.ask(packet, now_us),
                None => self.go(Phase::Set(0, 0), now_us),
            },
            Phase::Set(index, attempt) => {
                let setting = self.settings.get(index);
                match (setting.and_then(|s| s.packet(attempt)), setting) {
                    (Some(packet), _) => self.ask(packet, now_us),
                    (None, Some(setting)) => {
                        let why = format!(
                            "the drone refuses {setting}: no such parameter, or a value out of range"
                        );
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
            Phase::Arm => self.ask(self.arming(true), now_us),
            Phase::Disarm => self.ask(self.arming(false), now_us),
            Phase::Close if waited > 1_500_000 => {
                board.nrf.press_button(board.now);
                self.go(Phase::SwitchOff, now_us);
            }
            Phase::SwitchOff if board.nrf.is_shut_down || waited > 2_000_000 => self.go(Phase::Done, now_us),
            Phase::Fly(leg) if waited > self.script.duration_us(leg) => self.go(self.after(leg), now_us),
            _ => {
                if let Some(action) = self.action() {
                    self.fly(action, now_us);
                }
            }
        }
        let limit = match self.phase {
            Phase::Fly(_) => u64::MAX,
            _ => GIVE_UP_US,
        };
        if !matches!(self.phase, Phase::Done | Phase::Failed) && waited > limit {
            let why = match self.has_answered {
                true => format!("the drone does not go on, supervisor {:#06x}", self.info),
                false => "the drone does not answer on the radio".to_owned(),
            };
            self.fail(why, now_us);
        }
        // The supervisor's state, ten times a second.
        let listens = match self.phase {
            Phase::Fly(leg) => leg != Leg::Land,
            phase => matches!(phase, Phase::Wait | Phase::Armed),
        };
        if listens && now_us - self.info_asked_us >= 100_000 {
            self.info_asked_us = now_us;
            self.dongle.send(now_us, supervisor::Request::Bitfield.encode());
            if self.phase == Phase::Wait && self.identity.is_some() {
                self.dongle.send(now_us, platform::Request::ProtocolVersion.encode());
            }
        }
    }

    fn arming(&self, arm: bool) -> Packet {
        if self.is_old {
            platform::Request::Arm(arm).encode()
        } else {
            supervisor::Request::Arm(arm).encode()
        }
    }

    /// What follows when all parameters are set.
    fn prepared(&self) -> Phase {
        if self.bytes.is_empty() { Phase::Arm } else { Phase::FindMemory(0) }
    }

    /// What the drone said.
    fn listen(&mut self, packet: &Packet, now_us: u64, truth: &State) {
        self.has_answered = true;
        if let (Phase::Identify, Some(identity)) = (self.phase, &mut self.identity) {
            let before = identity.clone();
            identity.hear(packet);
            if *identity != before {
                self.asked_us = None;
            }
        }
        match packet.port() {
            Some(Port::Console) => self.console.push_str(&String::from_utf8_lossy(packet.data())),
            Some(Port::Supervisor) => match supervisor::Reply::decode(packet) {
                Ok(supervisor::Reply::Bitfield(info)) => {
                    self.info = info;
                    // Some firmware arms itself.
                    if self.phase == Phase::Wait && info & 0b11 != 0 {
                        let asks = self.identity.is_some();
                        self.go(if asks { Phase::Identify } else { Phase::Set(0, 0) }, now_us);
                    } else if self.phase == Phase::Armed && info & 0b1000 != 0 {
                        self.go(Phase::Ask(Leg::TakeOff), now_us);
                    }
                }
                Ok(supervisor::Reply::Arm { success, .. }) => match self.phase {
                    Phase::Arm if success => self.go(Phase::Armed, now_us),
                    Phase::Disarm => self.go(Phase::Close, now_us),
                    _ => {}
                },
                _ => {}
            },
            Some(Port::Platform) => {
                // Old firmware cuts the second byte of its answer off.
                let armed = match *packet.data() {
                    [1, success, ..] if packet.channel() == 0 => success != 0,
                    _ => false,
                };
                match (self.phase, platform::Reply::decode(packet)) {
                    (Phase::Wait, Ok(platform::Reply::ProtocolVersion(version)))
                        if version < SUPERVISOR_VERSION =>
                    {
                        self.is_old = true;
                        self.go(Phase::Identify, now_us);
                    }
                    (Phase::Arm, _) if self.is_old && armed => self.go(Phase::Ask(Leg::TakeOff), now_us),
                    (Phase::Disarm, _) if self.is_old && armed => self.go(Phase::Close, now_us),
                    _ => {}
                }
            }
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
            Phase::Ask(leg) => Phase::Fly(leg),
            _ => Phase::Arm,
        };
        if self.phase == Phase::Define {
            self.planner.upload(&self.script);
        }
        self.planner.request(&action, truth);
        self.go(next, now_us);
    }
}

impl Ground for Mission {
    fn millisecond(&mut self, now_us: u64, truth: &State, board: &mut Board, memory: &mut Memory<'_>) {
        self.now_us = now_us;
        if let Some(reference) = self.planner.advance(0.001) {
            let counts = match self.phase {
                // Nothing is flown here but the way to the next leg.
                Phase::Ask(leg) => leg != Leg::Task && self.script.counts(leg, 0),
                Phase::Fly(leg) => self.script.counts(leg, now_us - self.since_us),
                _ => false,
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
