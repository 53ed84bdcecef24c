//! The clients' side: one module per CRTP port, and the one place where packets are handed to them.
//!
//! [`Services::handle`] takes a packet and gives the answer, if there is one; [`Services::poll`]
//! gives what the drone says by itself (log blocks, console text, answers that had to wait). What the
//! flight task must do leaves as [`Command`]s; what must be kept in the EEPROM leaves as
//! [`StoreJob`]s, because that memory is slow. Packets that make no sense are dropped and counted.

mod commander;
mod console;
mod high_level;
mod localization;
mod log;
mod memory;
mod param;
mod pending;
mod platform;

pub use console::Console;
pub use memory::{Flash, NoFlash};
pub use param::{StoreDone, StoreJob, StoreRequest};

use steady_common::board::Board;
use steady_common::commander::Command;
use steady_common::config_block::ConfigBlock;
use steady_common::crtp::{Malformed, Packet, Port, link};
use steady_common::syslink::Deck;

use crate::drivers::Doubts;
use crate::ring::LedMemory;
use crate::route::Route;
use crate::settings::Settings;
use crate::storage::Status;
use crate::telemetry::Telemetry;
use crate::toc::View;

/// What is known of the drone beside its flight. The board keeps it up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Device {
    /// The SD card.
    pub storage: Status,
    /// The micro-SD deck was found.
    pub micro_sd_deck: bool,
    /// The LED-ring deck was found.
    pub led_ring_deck: bool,
    /// All self-tests have passed.
    pub self_test_passed: bool,
    /// What the sensors' own tests find doubtful.
    pub doubts: Doubts,
    /// First 32 bits of the firmware's commit.
    pub revision: u32,
    /// The firmware was built from a changed tree.
    pub modified: bool,
    /// Which board it is.
    pub board: Board,
    /// Version text of the firmware, at most 29 bytes are sent.
    pub version: &'static str,
    /// Last byte of the radio address: which entries of a packed packet are for this drone.
    pub address: u8,
    /// Signal strength, −dBm.
    pub rssi: u8,
    /// Something was heard in the last second.
    pub connected: bool,
    /// CRTP packets that made no sense.
    pub bad_packets: u32,
    /// Syslink frames that were damaged.
    pub bad_frames: u32,
}

/// Everything the services work with.
pub struct Context<'a> {
    /// The link that is served: where a packet came from, and where an answer goes.
    pub route: Route,
    /// What parameters change.
    pub settings: &'a mut Settings,
    /// The last flight step.
    pub telemetry: &'a Telemetry,
    /// The rest of the drone.
    pub device: &'a Device,
    /// The gain tables' flash.
    pub flash: &'a dyn Flash,
    /// Takes commands for the flight task; false when there is no room for another.
    pub send: &'a mut dyn FnMut(Command) -> bool,
}

impl core::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Context").field("device", self.device).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// For reading parameters and log variables.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { settings: self.settings, telemetry: self.telemetry, device: self.device }
    }
}

/// Time of radio silence after which the client is taken to be gone, ms.
pub const SILENCE_MS: u32 = 1000;

/// All services.
#[derive(Debug)]
pub struct Services {
    /// Text for the client.
    pub console: Console,
    params: param::Params,
    logs: log::Logs,
    memories: memory::Memories,
    planner: high_level::HighLevelService,
    sticks: commander::Sticks,
    pending: pending::Pending,
    last_heard_ms: Option<u32>,
    usb_is_on: bool,
    bad_packets: u32,
    lost_commands: u32,
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

/// The outcome of a packet: an answer, silence, or a complaint.
type Outcome = Result<Option<Packet>, Malformed>;

impl Services {
    /// Nothing heard yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            console: Console::new(),
            params: param::Params::new(),
            logs: log::Logs::new(),
            memories: memory::Memories::new(),
            planner: high_level::HighLevelService::default(),
            sticks: commander::Sticks::default(),
            pending: pending::Pending::default(),
            last_heard_ms: None,
            usb_is_on: false,
            bad_packets: 0,
            lost_commands: 0,
        }
    }

    /// Packets that made no sense.
    #[must_use]
    pub fn bad_packets(&self) -> u32 {
        self.bad_packets
    }

    /// Commands for which the flight task had no room.
    #[must_use]
    pub fn lost_commands(&self) -> u32 {
        self.lost_commands
    }

    /// A client has switched the packets to USB, or is gone from there. One without log blocks: those that
    /// run belong to the other.
    pub fn set_usb(&mut self, is_on: bool) {
        if self.usb_is_on != is_on {
            self.usb_is_on = is_on;
            self.logs.reset();
            self.pending.forget(Route::Usb);
        }
    }

    /// Where the drone's own reports go (log blocks, console, changed parameters): to USB while a client
    /// wants them there, as with the official firmware.
    #[must_use]
    pub fn reports_go_by(&self) -> Route {
        if self.usb_is_on { Route::Usb } else { Route::Radio }
    }

    /// True when there is a client: on USB, or one whose radio was heard in the last second.
    #[must_use]
    pub fn is_connected(&self, now_ms: u32) -> bool {
        self.is_connected_by(Route::Usb, now_ms) || self.is_connected_by(Route::Radio, now_ms)
    }

    fn is_connected_by(&self, route: Route, now_ms: u32) -> bool {
        match route {
            // Clients poll by radio, and say nothing by USB while they have nothing to ask.
            Route::Radio => self.last_heard_ms.is_some_and(|t| now_ms.wrapping_sub(t) <= SILENCE_MS),
            Route::Usb => self.usb_is_on,
        }
    }

    fn hear(&mut self, now_ms: u32, route: Route) {
        if route == Route::Radio {
            self.last_heard_ms = Some(now_ms);
        }
    }

    /// Takes a packet that was sent to this drone; gives the answer.
    pub fn handle(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) -> Option<Packet> {
        self.hear(now_ms, context.route);
        if packet.is_null() {
            return None;
        }
        self.counted(|services| services.dispatch(now_ms, packet, context))
    }

    /// Takes a packet that was sent to everyone: motion capture and emergencies only, never answered.
    pub fn handle_broadcast(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) {
        self.hear(now_ms, context.route);
        if packet.is_null() {
            return;
        }
        self.counted(|services| match packet.port() {
            Some(Port::Localization) => services.localization(packet, context),
            Some(Port::Setpoint | Port::HighLevel | Port::Supervisor) => {
                services.dispatch(now_ms, packet, context).map(|_| None)
            }
            _ => Err(Malformed::Port),
        });
    }

    /// The next thing the drone has to say by itself on a link. To be called until nothing comes.
    pub fn poll(&mut self, now_ms: u32, context: &Context<'_>) -> Option<Packet> {
        let (route, reports) = (context.route, context.route == self.reports_go_by());
        if !self.is_connected_by(route, now_ms) {
            if reports {
                self.logs.reset();
            }
            self.pending.forget(route);
            return None;
        }
        let answer = self.pending.poll(route, now_ms, context.telemetry);
        if answer.is_some() || !reports {
            return answer;
        }
        self.params
            .poll(&context.view())
            .or_else(|| self.console.poll())
            .or_else(|| self.logs.poll(now_ms, &context.view()))
    }

    /// The decks that were found: clients can read their memories.
    pub fn set_decks(&mut self, decks: &[Deck]) {
        self.memories.set_decks(decks);
    }

    /// The configuration block in the EEPROM, which clients can read and write.
    pub fn set_config(&mut self, config: &ConfigBlock) {
        self.memories.config = *config;
    }

    /// What clients have put into the LED ring's memory.
    #[must_use]
    pub fn led_memory(&self) -> &LedMemory {
        &self.memories.leds
    }

    /// The next thing the EEPROM must do for a client.
    pub fn next_store_job(&mut self) -> Option<StoreJob> {
        self.memories.next_job().or_else(|| self.params.next_job())
    }

    /// What the EEPROM did.
    pub fn store_done(&mut self, done: &StoreDone, context: &Context<'_>) -> Option<Packet> {
        match done.job.request {
            StoreRequest::Configure(block) => Some(self.configured(&block, done.result.is_ok())),
            _ => self.params.job_done(done, &context.view()),
        }
    }

    /// A parameter has changed by itself: tell the client.
    pub fn param_changed(&mut self, group: &str, name: &str) {
        self.params.changed(group, name);
    }

    fn counted(&mut self, work: impl FnOnce(&mut Self) -> Outcome) -> Option<Packet> {
        work(self).unwrap_or_else(|_| {
            self.bad_packets = self.bad_packets.wrapping_add(1);
            None
        })
    }

    fn dispatch(&mut self, now_ms: u32, packet: &Packet, context: &mut Context<'_>) -> Outcome {
        match packet.port().ok_or(Malformed::Port)? {
            // Text goes only the other way.
            Port::Console => Err(Malformed::Port),
            Port::Param => self.params.handle(packet, context),
            Port::Commander | Port::Setpoint => self.setpoint(now_ms, packet, context),
            Port::Memory => self.memory(packet, context),
            Port::Log => self.logs.handle(now_ms, packet),
            Port::Localization => self.localization(packet, context),
            Port::HighLevel => self.high_level(packet, context),
            Port::Supervisor => self.supervisor(now_ms, packet, context),
            Port::Platform => self.platform(now_ms, packet, context),
            Port::Link => match packet.channel() {
                link::ECHO => Ok(Some(*packet)),
                link::SOURCE => Ok(Some(link::source())),
                // Sink; null packets do not come here.
                _ => Ok(None),
            },
        }
    }

    /// Hands a command to the flight task.
    fn send(&mut self, command: Command, context: &mut Context<'_>) {
        if !(context.send)(command) {
            self.lost_commands = self.lost_commands.wrapping_add(1);
        }
    }
}
