//! The firmware's services, as a program on the PC uses them.

use std::time::Duration;

use steady_common::cload;
use steady_common::crtp::log::{self, Variable, Variables};
use steady_common::crtp::memory::{self, MAX_READ};
use steady_common::crtp::param::{self, Raw};
use steady_common::crtp::toc::{self as wire, Info};
use steady_common::crtp::{Packet, Port, console, errno, link, platform, supervisor};
use steady_common::supervisor::Blockers;
use steady_common::value::{Type, Value};

use crate::ask::{self, Patience};
use crate::error::{Error, Result};
use crate::link::{Link, Traffic};
use crate::toc::{Cache, Entry, MAX_ENTRIES};

/// For single questions.
const ASK: Patience = Patience::new(60, 4000, 1);
/// For many of them. Six fit into the radio processor's buffer beside what the drone says by itself.
const ASK_MANY: Patience = Patience::new(40, 4000, 6);
/// The EEPROM takes its time.
const ASK_SLOW: Patience = Patience::new(500, 6000, 1);
/// Period of a log block that is read once: it comes again should it be lost.
const LOG_PERIOD_MS: u16 = 20;
/// How long the flight loop may take to begin after a start: sensors wake up and the gyroscope is
/// calibrated.
const STARTING: Duration = Duration::from_secs(6);
/// Blocks that are tried for one reading.
const LOG_ATTEMPTS: usize = 4;
/// Most text that waits to be taken.
const CONSOLE_ROOM: usize = 64 * 1024;

/// What the drone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Version of the protocol.
    pub protocol: i32,
    /// Version of the firmware.
    pub firmware: String,
    /// Name of the device.
    pub device: String,
}

/// The supervisor's flags, as `supervisor.info` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    const NAMES: [&'static str; 12] = [
        "can be armed",
        "armed",
        "arms by itself",
        "can fly",
        "flying",
        "tumbled",
        "locked",
        "crashed",
        "planner active",
        "planner finished",
        "planner off",
        "deck fault",
    ];

    /// Motors may turn.
    #[must_use]
    pub fn is_armed(self) -> bool {
        self.0 & (1 << 1) != 0
    }

    /// In the air.
    #[must_use]
    pub fn is_flying(self) -> bool {
        self.0 & (1 << 4) != 0
    }

    /// Stopped until the next boot.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0 & (1 << 6) != 0
    }

    /// What they say, in words.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        (0..).zip(Self::NAMES).filter(|(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name).collect()
    }
}

/// Which gains the firmware flies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// Sequence number of the table; 0 for the built-in gains.
    pub sequence: u32,
    /// It has completed a flight.
    pub is_proven: bool,
    /// Gains to try stand in for the table's.
    pub is_try_out: bool,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// Its number.
    pub id: u16,
    /// Its type.
    pub kind: Type,
    /// It cannot be written.
    pub is_read_only: bool,
    /// It can be kept over a restart.
    pub may_be_kept: bool,
}

/// A connection to a drone's firmware.
pub struct Client {
    link: Box<dyn Link>,
    cache: Cache,
    params: Option<Vec<Entry>>,
    logs: Option<Vec<Entry>>,
    console: Vec<u8>,
    next_block: Option<u8>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("traffic", &self.link.traffic()).finish_non_exhaustive()
    }
}

/// Keeps what the drone says by itself.
fn hear(console: &mut Vec<u8>, packet: &Packet) {
    if let Ok(text) = console::decode(packet)
        && console.len() + text.len() <= CONSOLE_ROOM
    {
        console.extend(text);
    }
}

impl Client {
    /// Over a link; nothing is sent yet.
    #[must_use]
    pub fn new(link: Box<dyn Link>, cache: Cache) -> Self {
        Self { link, cache, params: None, logs: None, console: Vec::new(), next_block: None }
    }

    /// The link.
    pub fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
    }

    /// What went over the link.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.link.traffic()
    }

    /// Time since the link was opened.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.link.now()
    }

    /// The drone has been restarted: what was known of it may be wrong.
    pub fn forget(&mut self) {
        (self.params, self.logs, self.next_block) = (None, None, None);
    }

    fn ask<T>(
        &mut self,
        what: &str,
        request: &Packet,
        patience: Patience,
        accept: impl FnMut(&Packet) -> Option<T>,
    ) -> Result<T> {
        let console = &mut self.console;
        ask::one(&mut *self.link, what, request, patience, accept, &mut |p| hear(console, p))
    }

    fn ask_many<T>(
        &mut self,
        what: &str,
        count: usize,
        request: impl Fn(usize) -> Packet,
        accept: impl FnMut(&Packet) -> Option<(usize, T)>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<T>> {
        let console = &mut self.console;
        let other = &mut |p: &Packet| hear(console, p);
        ask::many(&mut *self.link, what, count, ASK_MANY, request, accept, other, progress)
    }

    /// Version of the protocol, asked for so long: whether the firmware is there at all.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn protocol(&mut self, patience: Duration) -> Result<i32> {
        let patience = ASK.for_ms(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        let request = platform::Request::ProtocolVersion.encode();
        self.ask("the protocol version", &request, patience, |p| match platform::Reply::decode(p) {
            Ok(platform::Reply::ProtocolVersion(version)) => Some(version),
            _ => None,
        })
    }

    /// What the drone is.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn platform(&mut self) -> Result<Platform> {
        let protocol = self.protocol(ASK.give_up).map_err(|error| match error {
            Error::NoAnswer { what, seconds, .. } => Error::NoAnswer {
                what,
                seconds,
                advice: ": is the drone switched on, is the address right, is another program connected? \
                         `steady scan` looks for drones"
                    .to_owned(),
            },
            error => error,
        })?;
        let request = platform::Request::FirmwareVersion.encode();
        let firmware =
            self.ask("the firmware version", &request, ASK, |p| match platform::Reply::decode(p) {
                Ok(platform::Reply::FirmwareVersion(text)) => {
                    Some(crate::printable(text.trim_end_matches('\0')))
                }
                _ => None,
            })?;
        let request = platform::Request::DeviceName.encode();
        let device = self.ask("the device name", &request, ASK, |p| match platform::Reply::decode(p) {
            Ok(platform::Reply::DeviceName(text)) => Some(crate::printable(text.trim_end_matches('\0'))),
            _ => None,
        })?;
        Ok(Platform { protocol, firmware, device })
    }

    /// Sends so many echoes, one at a time and each once: how many came back, and how long they took on
    /// average, s.
    ///
    /// # Errors
    /// When the link is gone.
    pub fn echo(&mut self, count: u32) -> Result<(u32, f64)> {
        let (mut back, mut took) = (0, 0.0);
        for n in 0..count {
            let Some(packet) = Packet::new(Port::Link, link::ECHO, &n.to_le_bytes()) else { break };
            let sent = self.link.now();
            self.link.send(&packet)?;
            let until = sent + Duration::from_millis(100);
            while let Some(answer) = self.link.receive(until.saturating_sub(self.link.now()))? {
                if answer.port() == Some(Port::Link) && answer.data() == packet.data() {
                    back += 1;
                    took += (self.link.now() - sent).as_secs_f64();
                    break;
                }
                hear(&mut self.console, &answer);
            }
        }
        Ok((back, if back > 0 { took / f64::from(back) } else { 0.0 }))
    }

    /// Battery voltage, V, as the radio processor measures it: also when the firmware is dead.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn battery_v(&mut self) -> Result<f32> {
        let request = cload::Request::GetVoltage.encode(cload::Target::Nrf51);
        self.ask("the battery voltage", &request, ASK, |p| match cload::Reply::decode(p) {
            Some((cload::Target::Nrf51, cload::Reply::Voltage(volts))) if volts.is_finite() => Some(volts),
            _ => None,
        })
    }

    /// The supervisor's flags.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn flags(&mut self) -> Result<Flags> {
        let request = supervisor::Request::Bitfield.encode();
        self.ask("the supervisor's state", &request, ASK, |p| match supervisor::Reply::decode(p) {
            Ok(supervisor::Reply::Bitfield(bits)) => Some(Flags(bits)),
            _ => None,
        })
    }

    /// Arms or disarms; tells why not.
    ///
    /// # Errors
    /// When nobody answers, or the drone refuses.
    pub fn arm(&mut self, arm: bool) -> Result<()> {
        let request = supervisor::Request::Arm(arm).encode();
        // The drone answers after at most 100 ms.
        let patience = Patience::new(200, 4000, 1);
        let armed = self.ask("arming", &request, patience, |p| match supervisor::Reply::decode(p) {
            Ok(supervisor::Reply::Arm { armed, .. }) => Some(armed),
            _ => None,
        })?;
        if armed == arm {
            return Ok(());
        }
        if !arm {
            return Err(Error::Refused(
                "the drone stays armed: it is flying? `steady stop` stops it".to_owned(),
            ));
        }
        let why = self.blockers()?;
        Err(Error::Refused(format!("the drone does not arm; what stands against it: {why}")))
    }

    /// What stands against arming, in words.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn blockers(&mut self) -> Result<String> {
        if self.find_log("steady.blockers")?.is_none() {
            return Ok(self.flags()?.words().join(", "));
        }
        let bits = match self.log_once(&["steady.blockers"])?.first() {
            Some(Value::U16(bits)) => *bits,
            _ => 0,
        };
        let names: Vec<&str> =
            Blockers::NAMES.iter().filter(|(b, _)| bits & b.0 != 0).map(|(_, name)| *name).collect();
        Ok(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
    }

    /// Leaves the state after a crash.
    ///
    /// # Errors
    /// When nobody answers, or the drone is still on its back.
    pub fn recover(&mut self) -> Result<()> {
        let request = supervisor::Request::Recover.encode();
        let patience = Patience::new(200, 4000, 1);
        let recovered = self.ask("recovery", &request, patience, |p| match supervisor::Reply::decode(p) {
            Ok(supervisor::Reply::Recover { recovered, .. }) => Some(recovered),
            _ => None,
        })?;
        if recovered {
            return Ok(());
        }
        Err(Error::Refused("the drone does not recover: put it upright on the floor first".to_owned()))
    }

    /// Motors off until the next boot. Asked again until the drone says that it is locked.
    ///
    /// # Errors
    /// When the drone does not confirm it.
    pub fn stop(&mut self) -> Result<()> {
        let stop = supervisor::Request::EmergencyStop.encode();
        // Nobody answers this one, so it is sent often first and confirmed afterwards.
        for _ in 0..5 {
            self.link.send(&stop)?;
        }
        let ask = supervisor::Request::Bitfield.encode();
        let until = self.link.now() + Duration::from_secs(4);
        while self.link.now() < until {
            self.link.send(&stop)?;
            self.link.send(&ask)?;
            let again = self.link.now() + Duration::from_millis(50);
            while let Some(packet) = self.link.receive(again.saturating_sub(self.link.now()))? {
                match supervisor::Reply::decode(&packet) {
                    Ok(supervisor::Reply::Bitfield(bits)) if Flags(bits).is_locked() => return Ok(()),
                    _ => hear(&mut self.console, &packet),
                }
                if self.link.now() >= again {
                    break;
                }
            }
        }
        Err(Error::NoAnswer {
            what: "the emergency stop".to_owned(),
            seconds: 4.0,
            advice: ": it was sent many times, but the drone has not confirmed it; keep away from it"
                .to_owned(),
        })
    }

    fn table(&mut self, port: Port, what: &str) -> Result<Vec<Entry>> {
        let request = wire::Request::Info.encode(port);
        let info: Info = self.ask(what, &request, ASK, |p| match wire::Reply::decode(p, port) {
            Ok(wire::Reply::Info(info)) => Some(info),
            _ => None,
        })?;
        if info.count > MAX_ENTRIES {
            return Err(Error::nonsense(what, format!("{} entries", info.count)));
        }
        if let Some(entries) = self.cache.load(port, info) {
            return Ok(entries);
        }
        let request = |n: usize| wire::Request::Item(u16::try_from(n).unwrap_or(u16::MAX)).encode(port);
        let accept = |p: &Packet| match wire::Reply::decode(p, port) {
            Ok(wire::Reply::Item(item)) => {
                let (group, name) = (item.group.to_owned(), item.name.to_owned());
                Some((usize::from(item.id), Entry { id: item.id, kind: item.kind, group, name }))
            }
            _ => None,
        };
        let entries = self.ask_many(what, usize::from(info.count), request, accept, &mut |_| {})?;
        self.cache.save(port, info, &entries);
        Ok(entries)
    }

    /// All parameters.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn params(&mut self) -> Result<&[Entry]> {
        if self.params.is_none() {
            self.params = Some(self.table(Port::Param, "the table of parameters")?);
        }
        Ok(self.params.as_deref().unwrap_or_default())
    }

    /// All log variables.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn logs(&mut self) -> Result<&[Entry]> {
        if self.logs.is_none() {
            self.logs = Some(self.table(Port::Log, "the table of log variables")?);
        }
        Ok(self.logs.as_deref().unwrap_or_default())
    }

    /// A parameter by its full name.
    ///
    /// # Errors
    /// When nobody answers, or there is no such parameter; the text names similar ones.
    pub fn param(&mut self, full_name: &str) -> Result<Param> {
        let entries = self.params()?;
        let Some(entry) = entries.iter().find(|e| e.full_name() == full_name) else {
            let group = full_name.split('.').next().unwrap_or_default();
            let near: Vec<String> = entries
                .iter()
                .filter(|e| e.group == group)
                .take(40)
                .map(|e| crate::printable(&e.full_name()))
                .collect();
            let advice = if near.is_empty() {
                "; `steady param list` shows all".to_owned()
            } else {
                format!("; its group has {}", near.join(", "))
            };
            return Err(Error::Refused(format!("the drone has no parameter `{full_name}`{advice}")));
        };
        describe(entry)
    }

    /// Values of parameters, by their numbers and types.
    ///
    /// # Errors
    /// When nobody answers, or an answer has another type than the table says.
    pub fn values(&mut self, params: &[Param], progress: &mut dyn FnMut(usize)) -> Result<Vec<Value>> {
        let request = |n: usize| {
            let id = params.get(n).map_or(0, |p| p.id);
            param::Request::Read(id).encode().unwrap_or(Packet::NULL)
        };
        let accept = |p: &Packet| match param::Reply::decode(p) {
            Ok(param::Reply::Read(id, answer)) => {
                let index = params.iter().position(|p| p.id == id)?;
                Some((index, answer))
            }
            _ => None,
        };
        let answers = self.ask_many("parameters", params.len(), request, accept, progress)?;
        params
            .iter()
            .zip(answers)
            .map(|(param, answer)| {
                let what = || format!("parameter {}", param.id);
                let raw = answer.map_err(|code| Error::nonsense(what(), format!("error {code}")))?;
                raw.value(param.kind).ok_or_else(|| Error::nonsense(what(), "a value of another type"))
            })
            .collect()
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn get(&mut self, param: Param) -> Result<Value> {
        let values = self.values(&[param], &mut |_| {})?;
        values.into_iter().next().ok_or_else(|| Error::nonsense("a parameter", "nothing"))
    }

    /// Sets a parameter and makes sure that it is in force.
    ///
    /// # Errors
    /// When nobody answers, or the drone keeps another value.
    pub fn set(&mut self, name: &str, param: Param, value: Value) -> Result<()> {
        if param.is_read_only {
            return Err(Error::Refused(format!("`{name}` can only be read")));
        }
        let raw = Raw::from(value);
        let request = param::Request::Write(param.id, raw)
            .encode()
            .map_err(|e| Error::nonsense(format!("setting {name}"), e.to_string()))?;
        let told =
            self.ask(&format!("setting {name}"), &request, ASK, |p| match param::Reply::decode(p) {
                Ok(param::Reply::Write(id, raw)) if id == param.id => Some(raw),
                _ => None,
            })?;
        // An answer to an older question may have been late: what counts is what is in force.
        if told != raw {
            let now = self.get(param)?;
            if Raw::from(now) != raw {
                return Err(Error::Refused(format!(
                    "the drone refuses {name} = {}: it is out of range, or cannot change now; it stays {}",
                    show(value),
                    show(now)
                )));
            }
        }
        Ok(())
    }

    /// Keeps a parameter's present value over restarts.
    ///
    /// # Errors
    /// When nobody answers, or the drone does not keep it.
    pub fn store(&mut self, name: &str, param: Param) -> Result<()> {
        if !param.may_be_kept {
            return Err(Error::Refused(format!("`{name}` is not one of the parameters the drone keeps")));
        }
        let request = param::Request::Store(param.id)
            .encode()
            .map_err(|e| Error::nonsense(format!("storing {name}"), e.to_string()))?;
        let error =
            self.ask(&format!("storing {name}"), &request, ASK_SLOW, |p| match param::Reply::decode(p) {
                Ok(param::Reply::Store(id, error)) if id == param.id => Some(error),
                _ => None,
            })?;
        if error != 0 {
            return Err(Error::Refused(format!(
                "the drone cannot keep {name} (error {error}): its memory fails or is full"
            )));
        }
        Ok(())
    }

    /// A log variable by its full name, where the drone has it.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn find_log(&mut self, full_name: &str) -> Result<Option<(u16, Type)>> {
        let found = self.logs()?.iter().find(|e| e.full_name() == full_name);
        Ok(found.and_then(|e| Some((e.id, log::type_of(e.kind)?))))
    }

    /// Present values of log variables, at most 26 bytes of them.
    ///
    /// # Errors
    /// When nobody answers, or a variable does not exist.
    pub fn log_once(&mut self, names: &[&str]) -> Result<Vec<Value>> {
        let mut kinds = Vec::new();
        let mut list = Vec::new();
        for name in names {
            let (id, kind) = self.find_log(name)?.ok_or_else(|| {
                Error::Refused(format!("the drone has no log variable `{name}`: is Steady's firmware on it?"))
            })?;
            kinds.push(kind);
            list.push(Variable { kind: log::type_code(kind), id });
        }
        let variables =
            Variables::new(&list).ok_or_else(|| Error::nonsense("a log block", "too many variables"))?;
        let size: usize = kinds.iter().map(|k| k.size()).sum();
        // Something that was sent earlier and arrives late may delete the block: then there is another.
        let mut attempts = 1..=LOG_ATTEMPTS;
        let bytes = loop {
            match (self.log_block(variables, size), attempts.next()) {
                (Ok(bytes), _) => break bytes,
                (Err(Error::NoAnswer { .. }), Some(_)) => {}
                (Err(error), _) => return Err(error),
            }
        };
        let mut rest = bytes.as_slice();
        kinds
            .into_iter()
            .map(|kind| {
                let value = kind.read(rest).ok_or_else(|| Error::nonsense("log data", "too few bytes"))?;
                rest = rest.get(kind.size()..).unwrap_or_default();
                Ok(value)
            })
            .collect()
    }

    /// One packet of a log block that is made for it and deleted again.
    fn log_block(&mut self, variables: Variables, size: usize) -> Result<Vec<u8>> {
        let block = match self.next_block {
            Some(block) => block,
            None => {
                self.log_control(log::Request::Reset, &[])?;
                0
            }
        };
        // Blocks take turns, so that late data of an old one is not taken for the new one's.
        self.next_block = Some((block + 1) % log::MAX_BLOCKS);
        self.log_control(log::Request::Create(block, variables), &[errno::EEXIST])?;
        let start = log::Request::Start { block, period_ms: LOG_PERIOD_MS, old: false }.encode();
        let values = self.ask("log data", &start, ASK.for_ms(1000), |p| match log::Reply::decode(p) {
            Ok(log::Reply::Data { block: b, values, .. }) if b == block && values.len() == size => {
                Some(values.to_vec())
            }
            _ => None,
        });
        // Whatever came of it, the drone need not go on.
        let gone = self.log_control(log::Request::Delete(block), &[errno::ENOENT]);
        let bytes = values?;
        gone.map(|()| bytes)
    }

    fn log_control(&mut self, request: log::Request, fine: &[u8]) -> Result<()> {
        let command = request.command();
        let error = self.ask("a log block", &request.encode(), ASK, |p| match log::Reply::decode(p) {
            Ok(log::Reply::Control { command: c, error, .. }) if c == command => Some(error),
            _ => None,
        })?;
        if error == 0 || fine.contains(&error) {
            return Ok(());
        }
        Err(Error::nonsense("a log block", format!("error {error}")))
    }

    /// Which gains the firmware flies. A drone that has just started is waited for: it tells once its
    /// flight loop runs.
    ///
    /// # Errors
    /// When nobody answers, this is not Steady's firmware, or its flight loop does not run.
    pub fn active_table(&mut self) -> Result<Active> {
        let until = self.link.now() + STARTING;
        loop {
            match self.log_once(&["steady.table", "steady.proven", "steady.tryOut", "steady.seq"])?[..] {
                [Value::U32(sequence), Value::U8(proven), Value::U8(try_out), Value::U32(steps)] => {
                    if steps > 0 {
                        return Ok(Active { sequence, is_proven: proven != 0, is_try_out: try_out != 0 });
                    }
                }
                _ => return Err(Error::nonsense("the active table", "values of other types")),
            }
            if self.link.now() >= until {
                return Err(Error::Refused(
                    "the drone's flight loop does not run, so it does not tell which table it flies: its sensors \
                     fail? `steady console` shows what it says"
                        .to_owned(),
                ));
            }
        }
    }

    /// The first memory of a kind, and its size.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn find_memory(&mut self, kind: memory::Kind) -> Result<Option<(u8, u32)>> {
        let request = memory::Request::Count.encode();
        let count =
            self.ask("the number of memories", &request, ASK, |p| match memory::Reply::decode(p) {
                Ok(memory::Reply::Count(count)) => Some(count),
                _ => None,
            })?;
        for id in 0..count {
            let request = memory::Request::Info(id).encode();
            let (found, size) = self.ask("a memory", &request, ASK, |p| match memory::Reply::decode(p) {
                Ok(memory::Reply::Info { id: i, kind, size, .. }) if i == id => Some((kind, size)),
                _ => None,
            })?;
            if found == kind as u8 {
                return Ok(Some((id, size)));
            }
        }
        Ok(None)
    }

    /// Parts of a memory: offset and length each.
    ///
    /// # Errors
    /// When nobody answers, or the drone cannot read there.
    pub fn read_memory(
        &mut self,
        id: u8,
        parts: &[(u32, usize)],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Vec<u8>>> {
        let mut chunks: Vec<(u32, u8)> = Vec::new();
        for &(start, length) in parts {
            for offset in (0..length).step_by(MAX_READ) {
                let size = u8::try_from((length - offset).min(MAX_READ)).unwrap_or(u8::MAX);
                chunks.push((start + u32::try_from(offset).unwrap_or(u32::MAX), size));
            }
        }
        let index: std::collections::HashMap<u32, usize> =
            chunks.iter().enumerate().map(|(n, (address, _))| (*address, n)).collect();
        let request = |n: usize| {
            let (address, length) = chunks.get(n).copied().unwrap_or_default();
            memory::Request::Read { id, address, length }.encode()
        };
        let accept = |p: &Packet| match memory::Reply::decode(p) {
            Ok(memory::Reply::Read { id: i, address, data }) if i == id => {
                let n = *index.get(&address)?;
                let wanted = usize::from(chunks.get(n)?.1);
                match data {
                    Ok(data) if data.bytes().len() == wanted => Some((n, Ok(data))),
                    Ok(_) => None,
                    Err(code) => Some((n, Err(code))),
                }
            }
            _ => None,
        };
        let total = chunks.len();
        let answers = self.ask_many("a memory", total, request, accept, &mut |done| progress(done, total))?;
        let mut answers = answers.into_iter();
        parts
            .iter()
            .map(|&(start, length)| {
                let mut bytes = Vec::with_capacity(length);
                for _ in 0..length.div_ceil(MAX_READ) {
                    let data = answers.next().unwrap_or(Err(errno::EIO)).map_err(|code| {
                        Error::nonsense(format!("memory {id} at {start:#x}"), format!("error {code}"))
                    })?;
                    bytes.extend(data.bytes());
                }
                Ok(bytes)
            })
            .collect()
    }

    /// What the drone has said since the last call; waits for more, at most so long.
    ///
    /// # Errors
    /// When the link is gone.
    pub fn console(&mut self, wait: Duration) -> Result<String> {
        let until = self.link.now() + wait;
        // A poll, so that the drone knows that somebody listens.
        self.link.send(&Packet::NULL)?;
        loop {
            let left = until.saturating_sub(self.link.now());
            match self.link.receive(left)? {
                Some(packet) => hear(&mut self.console, &packet),
                None => break,
            }
            if left.is_zero() {
                break;
            }
        }
        let bytes = std::mem::take(&mut self.console);
        Ok(crate::printable(&String::from_utf8_lossy(&bytes)))
    }
}

/// What the table says of a parameter.
///
/// # Errors
/// When its type is none that is known.
pub fn describe(entry: &Entry) -> Result<Param> {
    let kind = param::type_of(entry.kind).ok_or_else(|| {
        Error::nonsense(
            format!("parameter {}", crate::printable(&entry.full_name())),
            format!("type {:#04x}", entry.kind),
        )
    })?;
    Ok(Param {
        id: entry.id,
        kind,
        is_read_only: entry.kind & param::READ_ONLY != 0,
        may_be_kept: entry.kind & param::EXTENDED != 0,
    })
}

/// A value for people.
#[must_use]
pub fn show(value: Value) -> String {
    match value {
        Value::U8(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::U16(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
    }
}

/// A value of a type from text.
///
/// # Errors
/// When it is no number, or does not fit.
pub fn parse(text: &str, kind: Type) -> std::result::Result<Value, String> {
    let whole = |what: &str| format!("`{text}` is no {what}");
    let digits = text.strip_prefix("0x");
    macro_rules! number {
        ($type:ident, $variant:ident, $what:literal) => {
            digits
                .map_or_else(|| text.parse(), |d| $type::from_str_radix(d, 16))
                .map(Value::$variant)
                .map_err(|_| whole($what))
        };
    }
    match kind {
        Type::U8 => number!(u8, U8, "whole number from 0 to 255"),
        Type::I8 => number!(i8, I8, "whole number from -128 to 127"),
        Type::U16 => number!(u16, U16, "whole number from 0 to 65535"),
        Type::I16 => number!(i16, I16, "whole number from -32768 to 32767"),
        Type::U32 => number!(u32, U32, "whole number from 0 to 4294967295"),
        Type::I32 => number!(i32, I32, "whole number of 32 bits"),
        Type::F32 | Type::F16 => match text.parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(Value::F32(value)),
            _ => Err(whole("number")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_their_type_and_nonsense_is_named() {
        assert_eq!(parse("0x1F", Type::U8), Ok(Value::U8(31)));
        assert_eq!(parse("-3", Type::I16), Ok(Value::I16(-3)));
        assert_eq!(parse("0.5", Type::F32), Ok(Value::F32(0.5)));
        for (text, kind) in
            [("256", Type::U8), ("x", Type::F32), ("nan", Type::F32), ("1.5", Type::U16), ("-1", Type::U32)]
        {
            assert!(parse(text, kind).unwrap_err().contains(text), "{text}");
        }
        assert_eq!(show(Value::F32(0.1)), "0.1");
    }

    #[test]
    fn flags_in_words() {
        assert_eq!(Flags(0b1_0010).words(), ["armed", "flying"]);
        assert!(Flags(2).is_armed() && !Flags(2).is_flying());
    }
}
