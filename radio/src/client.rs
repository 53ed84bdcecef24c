//! Client of the firmware's services. The larger services have a module each.

mod logs;
mod memory;
mod params;
mod supervision;
mod text;

use std::time::Duration;

use steady_common::board::Board;
use steady_common::cload;
use steady_common::crtp::toc::{self as wire, Info};
use steady_common::crtp::{Packet, Port, console, link, platform};
use steady_common::value::Value;

use crate::ask::{self, Retry};
use crate::error::{Error, Result};
use crate::link::{Link, Traffic};
use crate::toc::{Cache, Entry, MAX_ENTRIES};

pub use logs::Active;
pub use params::{Param, describe};
pub use supervision::Flags;
pub use text::{parse, show};

/// For single requests.
const ASK: Retry = Retry::new(60, 4000, 1);
/// For many requests. Six fit into the radio processor's buffer beside what the drone says by itself.
const ASK_MANY: Retry = Retry::new(40, 4000, 6);
/// For requests that write the EEPROM.
const ASK_SLOW: Retry = Retry::new(500, 6000, 1);
/// Maximum length of unread console text, bytes.
const CONSOLE_ROOM: usize = 64 * 1024;

/// Identity of the drone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Version of the protocol.
    pub protocol: i32,
    /// Version of the firmware.
    pub firmware: String,
    /// Name of the device.
    pub device: String,
}

impl Platform {
    /// Refuses a board that Steady's firmware cannot fly: others have the same processor and bootloader,
    /// and accept the image all the same.
    ///
    /// # Errors
    /// With the board's name.
    pub fn check_board(&self) -> Result<()> {
        let board = Board::from_device_name(&self.device);
        if board.is_supported() {
            return Ok(());
        }
        let name = if board == Board::Unknown { &self.device } else { board.device_name() };
        Err(Error::Refused(format!(
            "this is a {name}: Steady flies the Crazyflie 2.1 and 2.1+ only. Nothing was written; use the official \
             firmware on it"
        )))
    }
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

/// Collects console text.
fn hear(console: &mut Vec<u8>, packet: &Packet) {
    if let Ok(text) = console::decode(packet)
        && console.len() + text.len() <= CONSOLE_ROOM
    {
        console.extend(text);
    }
}

impl Client {
    /// Makes a client; sends nothing yet.
    #[must_use]
    pub fn new(link: Box<dyn Link>, cache: Cache) -> Self {
        Self { link, cache, params: None, logs: None, console: Vec::new(), next_block: None }
    }

    /// The link.
    pub fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
    }

    /// Traffic statistics of the link.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.link.traffic()
    }

    /// Time since the link was opened.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.link.now()
    }

    /// Drops what was cached; to be called after a restart of the drone.
    pub fn forget(&mut self) {
        (self.params, self.logs, self.next_block) = (None, None, None);
    }

    fn ask<T>(
        &mut self,
        what: &str,
        request: &Packet,
        retry: Retry,
        accept: impl FnMut(&Packet) -> Option<T>,
    ) -> Result<T> {
        let console = &mut self.console;
        ask::one(&mut *self.link, what, request, retry, accept, &mut |p| hear(console, p))
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
        self.link.set_safelink(count > 1)?;
        let answers = ask::many(&mut *self.link, what, count, ASK_MANY, request, accept, other, progress);
        self.link.set_safelink(false)?;
        answers
    }

    /// Protocol version; also tells whether the firmware runs.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn protocol(&mut self, timeout: Duration) -> Result<i32> {
        let retry = ASK.with_timeout(timeout);
        let request = platform::Request::ProtocolVersion.encode();
        self.ask("the protocol version", &request, retry, |p| match platform::Reply::decode(p) {
            Ok(platform::Reply::ProtocolVersion(version)) => Some(version),
            _ => None,
        })
    }

    /// Identity of the drone.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn platform(&mut self) -> Result<Platform> {
        let protocol = self.protocol(ASK.timeout).map_err(|error| match error {
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

    /// Sends `count` echoes one after the other, without repeats; returns how many came back, and their
    /// mean round trip, s.
    ///
    /// # Errors
    /// If the link is gone.
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

    /// Battery voltage, V, measured by the radio processor; by radio it works without the firmware.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn battery_v(&mut self) -> Result<f32> {
        if !self.link.has_radio_processor() {
            let value = self.log_once(&["pm.vbat"])?.first().copied();
            let Some(Value::F32(volts)) = value else {
                return Err(Error::invalid_reply("the battery voltage", "not a number"));
            };
            return Ok(volts);
        }
        let request = cload::Request::GetVoltage.encode(cload::Target::Nrf51);
        self.ask("the battery voltage", &request, ASK, |p| match cload::Reply::decode(p) {
            Some((cload::Target::Nrf51, cload::Reply::Voltage(volts))) if volts.is_finite() => Some(volts),
            _ => None,
        })
    }

    fn table(&mut self, port: Port, what: &str) -> Result<Vec<Entry>> {
        let request = wire::Request::Info.encode(port);
        let info: Info = self.ask(what, &request, ASK, |p| match wire::Reply::decode(p, port) {
            Ok(wire::Reply::Info(info)) => Some(info),
            _ => None,
        })?;
        if info.count > MAX_ENTRIES {
            return Err(Error::invalid_reply(what, format!("{} entries", info.count)));
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

    /// Console text since the last call; waits at most `wait` for more.
    ///
    /// # Errors
    /// If the link is gone.
    pub fn console(&mut self, wait: Duration) -> Result<String> {
        let until = self.link.now() + wait;
        // A poll, so that the drone sees a client.
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
