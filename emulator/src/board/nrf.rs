//! The radio processor (nRF51): radio on one side, syslink to the STM32 on the other, and power.

use std::collections::VecDeque;

use steady_common::cload::{Reply, Request, Target};
use steady_common::crtp::{Packet, link};
use steady_common::syslink::{BatteryState, DeckId, Frame, Kind, ONE_WIRE_CHUNK, Parser};

use super::bootloader::Bootloader;
use super::{Stop, TICKS_PER_MS, TICKS_PER_US};
use crate::chip::rcc::ResetCause;

/// Name in the LED-ring deck's memory.
const LED_RING: &[u8; 9] = b"bcLedRing";
/// Packets that wait for the ground to ask for them, with the one that was sent last; more are dropped
/// silently.
const TX_RING: usize = 7;
/// Radio reception begins without being told after this time.
const READY_ANYWAY: u64 = 3000 * TICKS_PER_MS;
/// Period of battery and signal-strength messages.
const REPORT: u64 = 10 * TICKS_PER_MS;
/// The first of them comes so long after the radio processor's start.
const FIRST_REPORT: u64 = 1010 * TICKS_PER_MS;
/// How long looking for decks takes: a few one-wire searches (an estimate).
const SCAN: u64 = 20 * TICKS_PER_MS;
/// From the reset command to the reset.
const RESET_DELAY: u64 = 100 * TICKS_PER_MS;
/// From a reset of both processors until the bootloader hears the radio (an estimate).
const BOOTLOADER_START: u64 = 200 * TICKS_PER_MS;
/// From a pressed button to the power going off, if the STM32 does not allow it sooner.
const SHUTDOWN: u64 = 1000 * TICKS_PER_MS;
/// How long the receive buffer is taken for full after a radio packet: exercises flow control.
const FLOW_PAUSE: u64 = 60 * TICKS_PER_US;
/// Bytes of a deck's memory.
const ONE_WIRE_LEN: usize = 112;
/// Device address, from which the bootloader's radio address is made.
const DEVICE_ADDRESS: [u8; 6] = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC];

/// Acknowledgement of a radio packet, with what the drone had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack(pub Option<Packet>);

/// What the last acknowledgement carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// There was none yet.
    Nothing,
    /// No packet: a lone header.
    Empty(Packet),
    /// The first packet of the ring. It stays there until the next acknowledgement.
    First,
    /// The answer to a packet that switched safelink.
    Service(Packet),
}

/// What the radio processor is going to do with the STM32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    Bootloader,
    Firmware,
}

/// The radio processor.
#[derive(Debug)]
pub struct Nrf {
    parser: Parser,
    to_stm: VecDeque<u8>,
    tx_ring: VecDeque<Packet>,
    carried: Carried,
    /// A client has switched safelink on; only a client or a restart switches it off.
    has_safelink: bool,
    /// Numbers of the last packet up and of the last acknowledgement.
    numbers: (bool, bool),
    /// The STM32 has spoken: before that nothing is sent to it.
    is_heard: bool,
    is_ready: bool,
    reports: bool,
    next_report: u64,
    started: u64,
    flow_until: u64,
    armed_reset: bool,
    restart: Option<(u64, Restart)>,
    request: Option<Stop>,
    /// When the power goes off although the STM32 has not answered.
    power_off_at: Option<u64>,
    /// `Some` while the STM32 is in its bootloader.
    pub bootloader: Option<Box<Bootloader>>,
    /// The bootloader hears nothing before this time.
    bootloader_from: u64,
    /// Flash pages that bootloaders have written so far.
    pages_written: u64,
    /// The power fails when so many more radio packets have arrived (a fault).
    pub cut_after_packets: Option<u64>,
    /// The power fails after so many more flash words in the next bootloader (a fault).
    pub cut_after_words: Option<u64>,
    /// The power fails in the next erase, when this part of it is done (a fault).
    pub cut_in_erase: Option<f64>,
    decks: Vec<[u8; ONE_WIRE_LEN]>,
    /// How long looking for decks takes, ticks.
    pub scan_ticks: u64,
    /// When the decks that are looked for are found.
    scan_done: Option<u64>,
    /// Voltage of the battery, V.
    pub battery_v: f32,
    /// The radio hears nothing (a fault).
    pub is_deaf: bool,
    /// Its buffer stays full until this time (a fault).
    pub blocked_until: u64,
    /// Channel, data rate and address as the STM32 set them.
    pub radio_settings: (Option<u8>, Option<u8>, Option<[u8; 5]>),
    /// The STM32 acknowledged a shutdown.
    pub is_shut_down: bool,
    /// Frames with errors from the STM32, packets dropped because the ring was full, packets that
    /// came although the STM32 had no permission to send one.
    pub losses: Losses,
    tokens: u64,
    /// Packets of the ground, without polls, that safelink took for repeats and dropped.
    pub repeats: u64,
}

/// What went wrong between the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets for the ground that found no room.
    pub dropped: u64,
    /// Packets sent without permission.
    pub unasked: u64,
}

/// The micro-SD deck's memory: it uses IO4 and the SPI pins.
fn micro_sd_deck() -> [u8; ONE_WIRE_LEN] {
    deck(DeckId::MICRO_SD, 0x0000_0E80, b"bcUSD")
}

/// A deck's memory: header, then the board's name and revision.
fn deck(id: DeckId, pins: u32, name: &[u8]) -> [u8; ONE_WIRE_LEN] {
    let mut memory = [0xFF; ONE_WIRE_LEN];
    memory[..8].copy_from_slice(&id.encode(pins));
    let mut elements = vec![0, name.len() as u8 + 5, 1, name.len() as u8];
    elements.extend(name);
    elements.extend(b"\x02\x01A");
    memory[8..8 + elements.len()].copy_from_slice(&elements);
    let crc = elements.iter().fold(0xFFFF_FFFFu32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0xEDB8_8320 } else { 0 })
    });
    memory[8 + elements.len()] = !crc as u8;
    memory
}

impl Nrf {
    /// A radio processor that has just started, with the micro-SD deck mounted or not.
    #[must_use]
    pub fn new(has_micro_sd: bool) -> Self {
        Self {
            parser: Parser::new(),
            to_stm: VecDeque::new(),
            tx_ring: VecDeque::new(),
            carried: Carried::Nothing,
            has_safelink: false,
            numbers: (true, true),
            is_heard: false,
            is_ready: false,
            reports: false,
            next_report: u64::MAX,
            started: 0,
            flow_until: 0,
            armed_reset: false,
            restart: None,
            request: None,
            power_off_at: None,
            bootloader: None,
            bootloader_from: 0,
            pages_written: 0,
            cut_after_packets: None,
            cut_after_words: None,
            cut_in_erase: None,
            scan_ticks: SCAN,
            scan_done: None,
            decks: if has_micro_sd { vec![micro_sd_deck()] } else { Vec::new() },
            battery_v: 4.2,
            is_deaf: false,
            blocked_until: 0,
            radio_settings: (None, None, None),
            is_shut_down: false,
            losses: Losses::default(),
            tokens: 0,
            repeats: 0,
        }
    }

    /// Mounts the LED-ring deck, which uses IO2 and IO3.
    pub fn mount_led_ring(&mut self) {
        self.decks.push(deck(DeckId::LED_RING, 0x0000_0060, LED_RING));
    }

    /// The LED-ring deck is mounted.
    #[must_use]
    pub fn has_led_ring(&self) -> bool {
        self.deck_names().iter().any(|name| name.as_bytes() == LED_RING)
    }

    /// Names of the decks that are mounted.
    #[must_use]
    pub fn deck_names(&self) -> Vec<String> {
        // The first element after the header of eight bytes, and two of lengths, is the name.
        let name = |memory: &[u8; ONE_WIRE_LEN]| {
            let len = usize::from(memory[11]);
            String::from_utf8_lossy(memory.get(12..12 + len).unwrap_or_default()).into_owned()
        };
        self.decks.iter().map(name).collect()
    }

    /// A client has switched safelink on.
    #[must_use]
    pub fn has_safelink(&self) -> bool {
        self.has_safelink
    }

    /// The STM32 starts anew; the radio processor goes on.
    pub fn stm_was_reset(&mut self) {
        self.parser = Parser::new();
        self.to_stm.clear();
    }

    /// Bytes for the STM32 are waiting.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        !self.to_stm.is_empty()
    }

    /// The next byte for the STM32.
    pub fn next_byte(&mut self) -> Option<u8> {
        self.to_stm.pop_front()
    }

    /// True while the STM32 must not send.
    #[must_use]
    pub fn is_flow_stopped(&self, now: u64) -> bool {
        now < self.flow_until || now < self.blocked_until
    }

    /// When [`Self::tick`] is needed next.
    #[must_use]
    pub fn due(&self, now: u64) -> u64 {
        let mut due = now + 100 * TICKS_PER_MS;
        due = due.min(self.next_report.max(now + 1));
        for at in self.restart.map(|(at, _)| at).into_iter().chain(self.power_off_at).chain(self.scan_done) {
            due = due.min(at.max(now + 1));
        }
        if let Some(at) = self.bootloader.as_ref().and_then(|b| b.due(now)) {
            due = due.min(at.max(now + 1));
        }
        for until in [self.flow_until, self.blocked_until] {
            if now < until {
                due = due.min(until);
            }
        }
        due
    }

    /// What it wants of the machine.
    pub fn take_request(&mut self) -> Option<Stop> {
        self.request.take()
    }

    /// Time passes.
    pub fn tick(&mut self, flash: &mut [u8], now: u64) {
        if let Some(bootloader) = &mut self.bootloader
            && bootloader.advance(flash, now)
        {
            self.request = Some(Stop::PowerCut);
            return;
        }
        if now >= self.next_report {
            self.next_report = now + REPORT;
            let battery = BatteryState { voltage: self.battery_v, ..BatteryState::default() };
            self.send(Kind::BatteryState, &battery.encode());
            self.send(Kind::RadioRssi, &[44]);
        }
        if !self.is_ready && now >= self.started + READY_ANYWAY {
            self.is_ready = true;
        }
        if self.scan_done.is_some_and(|at| now >= at) {
            self.scan_done = None;
            let count = self.decks.len() as u8;
            self.send(Kind::OneWireScan, &[count]);
        }
        if self.power_off_at.is_some_and(|at| now >= at) {
            self.power_off_at = None;
            self.request = Some(Stop::PowerOff);
        }
        if let Some((at, restart)) = self.restart
            && now >= at
        {
            self.restart = None;
            self.restart_stm(restart, flash, now);
        }
    }

    fn restart_stm(&mut self, restart: Restart, flash: &mut [u8], now: u64) {
        self.begin_anew(flash, now);
        match restart {
            Restart::Bootloader => {
                let mut bootloader = Bootloader::default();
                bootloader.cut_after_words = self.cut_after_words.take();
                bootloader.cut_in_erase = self.cut_in_erase.take();
                self.bootloader = Some(Box::new(bootloader));
                self.bootloader_from = now + BOOTLOADER_START;
                self.is_ready = true;
                self.request = Some(Stop::Halt);
            }
            Restart::Firmware => self.request = Some(Stop::Reset(ResetCause::Pin)),
        }
    }

    /// Both processors start; what a bootloader was doing to the flash stays half done.
    fn begin_anew(&mut self, flash: &mut [u8], now: u64) {
        self.pages_written = self.pages_written();
        if let Some(bootloader) = &mut self.bootloader {
            bootloader.cut(flash, now);
        }
        *self = Self {
            decks: std::mem::take(&mut self.decks),
            scan_ticks: self.scan_ticks,
            battery_v: self.battery_v,
            losses: self.losses,
            started: now,
            is_deaf: self.is_deaf,
            pages_written: self.pages_written,
            cut_after_packets: self.cut_after_packets,
            cut_after_words: self.cut_after_words,
            cut_in_erase: self.cut_in_erase,
            ..Self::new(false)
        };
    }

    /// The power goes off and comes back.
    pub fn power_cut(&mut self, flash: &mut [u8], now: u64) {
        self.begin_anew(flash, now);
    }

    /// Puts the STM32 into its bootloader, as holding the button at power-on does.
    pub fn cold_boot(&mut self, flash: &mut [u8], now: u64) {
        self.restart_stm(Restart::Bootloader, flash, now);
    }

    /// Flash pages that bootloaders have written so far.
    #[must_use]
    pub fn pages_written(&self) -> u64 {
        self.pages_written + self.bootloader.as_ref().map_or(0, |b| b.pages_written)
    }

    /// Nothing is being done to the flash.
    #[must_use]
    pub fn is_flash_idle(&self) -> bool {
        self.bootloader.as_ref().is_none_or(|b| b.is_idle())
    }

    fn send(&mut self, kind: Kind, data: &[u8]) {
        if !self.is_heard || self.bootloader.is_some() {
            return;
        }
        if let Some(frame) = Frame::new(kind, data) {
            let (bytes, len) = frame.encode();
            self.to_stm.extend(&bytes[..len]);
        }
    }

    /// A byte from the STM32.
    pub fn serial(&mut self, byte: u8, now: u64) {
        if let Some(frame) = self.parser.push(byte) {
            self.frame(&frame, now);
        }
    }

    /// Frames from the STM32 that were damaged.
    #[must_use]
    pub fn damaged(&self) -> u32 {
        self.parser.damaged()
    }

    fn frame(&mut self, frame: &Frame, now: u64) {
        self.is_heard = true;
        let data = frame.data();
        match frame.kind() {
            Some(Kind::RadioRaw) => {
                if self.tokens == 0 {
                    self.losses.unasked += 1;
                }
                self.tokens = self.tokens.saturating_sub(1);
                if let Some(packet) = Packet::from_bytes(data) {
                    self.queue(packet);
                }
                self.flow_until = now + FLOW_PAUSE;
            }
            Some(kind @ Kind::RadioChannel) => {
                self.radio_settings.0 = data.first().copied();
                self.send(kind, data);
            }
            Some(kind @ Kind::RadioDataRate) => {
                self.radio_settings.1 = data.first().copied();
                self.send(kind, data);
            }
            Some(kind @ Kind::RadioAddress) => {
                self.radio_settings.2 = data.try_into().ok();
                self.send(kind, data);
            }
            Some(kind @ (Kind::RadioContinuousWave | Kind::RadioPower)) => self.send(kind, data),
            Some(kind @ Kind::RadioReady) => {
                self.is_ready = true;
                self.send(kind, &[]);
            }
            Some(Kind::BatteryAutoUpdate) => {
                self.reports = true;
                self.next_report = now.max(self.started + FIRST_REPORT);
            }
            Some(Kind::SwitchOff) => self.request = Some(Stop::PowerOff),
            Some(Kind::StmOff) => self.request = Some(Stop::Halt),
            Some(Kind::ShutdownAck) => {
                self.is_shut_down = true;
                self.request = Some(Stop::PowerOff);
            }
            Some(Kind::OneWireScan) => self.scan_done = Some(now + self.scan_ticks),
            Some(kind @ Kind::OneWireInfo) => {
                let index = data.first().copied().unwrap_or(0xFF);
                if usize::from(index) < self.decks.len() {
                    self.send(kind, &[index, 0x0D, index, 2, 3, 4, 5, 6, 7]);
                } else {
                    self.send(kind, &[0xFF]);
                }
            }
            Some(kind @ Kind::OneWireRead) => {
                let answer = self.one_wire(data);
                self.send(kind, answer.as_deref().unwrap_or(&[0xFF]));
            }
            Some(kind @ Kind::OneWireWrite) => self.send(kind, &[0xFE]),
            Some(kind @ Kind::NrfVersion) => self.send(kind, b"2026.03\0"),
            Some(kind @ Kind::DebugProbe) => self.send(kind, &[0; 8]),
            _ => {}
        }
    }

    fn one_wire(&self, data: &[u8]) -> Option<Vec<u8>> {
        let [index, low, high] = *data.first_chunk()?;
        let memory = self.decks.get(usize::from(index))?;
        let start = usize::from(u16::from_le_bytes([low, high]));
        let mut answer = vec![index, low, high];
        answer.extend((start..start + ONE_WIRE_CHUNK).map(|i| memory.get(i).copied().unwrap_or(0xFF)));
        Some(answer)
    }

    /// The button: asks the STM32 to close its files. The power goes off when it answers, or after a
    /// second; there is no way for it to refuse.
    pub fn press_button(&mut self, now: u64) {
        self.send(Kind::ShutdownRequest, &[]);
        self.power_off_at.get_or_insert(now + SHUTDOWN);
    }

    /// A packet on the drone's address; `None` when nobody acknowledges it.
    pub fn radio(&mut self, packet: &Packet, flash: &mut [u8], now: u64) -> Option<Ack> {
        if self.is_deaf || !self.is_ready || self.restart.is_some() {
            return None;
        }
        if let Some(left) = &mut self.cut_after_packets {
            if *left == 0 {
                self.cut_after_packets = None;
                self.request = Some(Stop::PowerCut);
                return None;
            }
            *left -= 1;
        }
        if let Some(bootloader) = &mut self.bootloader {
            if now < self.bootloader_from {
                return None;
            }
            if let Some((Target::Nrf51, request)) = Request::decode(packet) {
                return Some(Ack(self.own_command(request, flash, now)));
            }
            return Some(Ack(bootloader.packet(packet, flash, now)));
        }
        if packet.is_null() {
            match packet.data() {
                [0x80..=0x8F, ..] => return Some(Ack(None)),
                // Answered by the main loop, so with the next acknowledgement; not subject to safelink.
                [0xFE, ..] => {
                    let ack = self.acknowledge();
                    let request = Request::decode(packet).map(|(_, request)| request);
                    if let Some(answer) = request.and_then(|r| self.own_command(r, flash, now)) {
                        self.queue(answer);
                    }
                    return Some(ack);
                }
                _ => {}
            }
        }
        if let Some(on) = link::is_safelink(packet) {
            self.has_safelink = on;
            self.settle();
            self.carried = Carried::Service(*packet);
            self.numbers = (true, true);
            return Some(self.last());
        }
        let (up, down) = packet.numbers();
        if self.has_safelink && up == self.numbers.0 {
            self.repeats += u64::from(!packet.is_null());
        } else {
            self.numbers.0 = !self.numbers.0;
            // Radio control does not reach the STM32.
            if !(packet.is_null() && matches!(packet.data(), [0x03, _, _, ..])) {
                self.tokens += 1;
                self.send(Kind::RadioRaw, packet.bytes());
            }
        }
        if !self.has_safelink || down != self.numbers.1 {
            self.numbers.1 = !self.numbers.1;
            return Some(self.acknowledge());
        }
        Some(self.last())
    }

    /// A packet for the ground.
    fn queue(&mut self, packet: Packet) {
        if self.tx_ring.len() < TX_RING {
            self.tx_ring.push_back(packet);
        } else {
            self.losses.dropped += 1;
        }
    }

    /// The last acknowledgement has arrived: its packet leaves the ring. As in the official firmware one
    /// leaves after an answer to a switch of safelink too, although it was not sent.
    fn settle(&mut self) {
        if !matches!(self.carried, Carried::Empty(_)) {
            self.tx_ring.pop_front();
        }
    }

    /// The next acknowledgement.
    fn acknowledge(&mut self) -> Ack {
        self.settle();
        let down = self.numbers.1;
        self.carried = match self.tx_ring.front_mut() {
            Some(packet) => {
                if self.has_safelink {
                    *packet = packet.numbered(false, down);
                }
                Carried::First
            }
            None => Carried::Empty(Packet::NULL.numbered(false, down)),
        };
        self.last()
    }

    /// The last acknowledgement once more.
    fn last(&self) -> Ack {
        Ack(match self.carried {
            Carried::Nothing => None,
            Carried::Empty(packet) | Carried::Service(packet) => Some(packet),
            Carried::First => self.tx_ring.front().copied(),
        })
    }

    /// A packet on the broadcast address.
    pub fn broadcast(&mut self, packet: &Packet) {
        if !self.is_deaf && self.is_ready {
            self.send(Kind::RadioRawBroadcast, packet.bytes());
        }
    }

    /// Commands for the radio processor itself: they work whatever the STM32 does.
    fn own_command(&mut self, request: Request, flash: &mut [u8], now: u64) -> Option<Packet> {
        let reply = match request {
            Request::ResetInit => {
                self.armed_reset = true;
                Reply::DeviceAddress(DEVICE_ADDRESS)
            }
            Request::ResetToBootloader | Request::ResetToFirmware => {
                if std::mem::take(&mut self.armed_reset) {
                    let into = if request == Request::ResetToFirmware {
                        Restart::Firmware
                    } else {
                        Restart::Bootloader
                    };
                    self.restart = Some((now + RESET_DELAY, into));
                }
                return None;
            }
            Request::AllOff => {
                self.request = Some(Stop::PowerOff);
                return None;
            }
            Request::Stm32Off => {
                self.request = Some(Stop::Halt);
                return None;
            }
            Request::Stm32On => {
                self.restart_stm(Restart::Firmware, flash, now);
                return None;
            }
            Request::GetVoltage => Reply::Voltage(self.battery_v),
            Request::GetInfo if self.bootloader.is_some() => Reply::Info(steady_common::cload::Info::NRF51),
            _ => return None,
        };
        Some(reply.encode(Target::Nrf51))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: Kind, data: &[u8]) -> Vec<u8> {
        let (bytes, len) = Frame::new(kind, data).unwrap().encode();
        bytes[..len].to_vec()
    }

    fn say(nrf: &mut Nrf, kind: Kind, data: &[u8]) {
        bytes(kind, data).iter().for_each(|b| nrf.serial(*b, 0));
    }

    fn hear(nrf: &mut Nrf) -> Vec<Frame> {
        let mut parser = Parser::new();
        std::iter::from_fn(|| nrf.next_byte()).filter_map(|b| parser.push(b)).collect()
    }

    fn is_empty(ack: Option<Ack>) -> bool {
        matches!(ack, Some(Ack(Some(packet))) if packet.is_null() && packet.data().is_empty())
    }

    fn packet(bytes: &[u8]) -> Packet {
        Packet::from_bytes(bytes).unwrap()
    }

    /// The bytes of the packets that reached the STM32.
    fn reached(nrf: &mut Nrf) -> Vec<Vec<u8>> {
        hear(nrf).iter().filter(|f| f.kind() == Some(Kind::RadioRaw)).map(|f| f.data().to_vec()).collect()
    }

    /// As `esb.c` of the official firmware has it: both numbers begin at 1, a packet is taken when its
    /// number differs, and the acknowledgement is repeated when the number of the last one comes again.
    #[test]
    fn safelink_drops_a_repeated_packet_and_repeats_an_acknowledgement() {
        let mut nrf = Nrf::new(false);
        say(&mut nrf, Kind::RadioReady, &[]);
        hear(&mut nrf);
        let on = packet(&[0xFF, 0x05, 0x01]);
        assert_eq!(nrf.radio(&on, &mut [], 0), Some(Ack(Some(on))), "confirmed at once");
        assert!(reached(&mut nrf).is_empty(), "and not handed on");
        // Whoever knows nothing of it has both bits set: acknowledged, and never seen by the STM32.
        for _ in 0..3 {
            nrf.radio(&packet(&[0xDD, 0x00]), &mut [], 0);
        }
        assert!(reached(&mut nrf).is_empty());
        nrf.radio(&packet(&[0xD1, 0x00]), &mut [], 0);
        nrf.radio(&packet(&[0xD1, 0x00]), &mut [], 0);
        assert_eq!(reached(&mut nrf), [[0xD1, 0x00]], "the second is a repeat");
        for n in 0..2 {
            say(&mut nrf, Kind::RadioRaw, &[0xD1, n]);
        }
        let down = |nrf: &mut Nrf, header: u8| nrf.radio(&packet(&[header]), &mut [], 0);
        let first = down(&mut nrf, 0xF7);
        assert_eq!(first, Some(Ack(Some(packet(&[0xD5, 0])))), "numbered");
        assert_eq!(down(&mut nrf, 0xF7), first, "its acknowledgement was lost: again");
        assert_eq!(down(&mut nrf, 0xF3), Some(Ack(Some(packet(&[0xD1, 1])))));
        // The radio processor's own commands get through in any state.
        let voltage = Request::GetVoltage.encode(Target::Nrf51);
        nrf.radio(&voltage, &mut [], 0);
        let Some(Ack(Some(answer))) = down(&mut nrf, 0xF7) else { panic!("no answer") };
        assert!(matches!(Reply::decode(&answer), Some((Target::Nrf51, Reply::Voltage(_)))));
        reached(&mut nrf);
        let off = packet(&[0xFF, 0x05, 0x00]);
        assert_eq!(nrf.radio(&off, &mut [], 0), Some(Ack(Some(off))));
        for _ in 0..3 {
            nrf.radio(&packet(&[0xDD, 0x00]), &mut [], 0);
        }
        assert_eq!(reached(&mut nrf).len(), 3);
        nrf.radio(&on, &mut [], 0);
        nrf.power_cut(&mut [], 0);
        assert!(!nrf.has_safelink, "a restart switches it off");
    }

    #[test]
    fn silent_until_spoken_to_then_reports_after_the_first_second() {
        let mut nrf = Nrf::new(true);
        nrf.tick(&mut [], TICKS_PER_MS);
        assert!(!nrf.has_bytes());
        say(&mut nrf, Kind::RadioReady, &[]);
        say(&mut nrf, Kind::BatteryAutoUpdate, &[]);
        assert_eq!(hear(&mut nrf)[0].kind(), Some(Kind::RadioReady));
        nrf.battery_v = 3.75;
        nrf.tick(&mut [], FIRST_REPORT - 1);
        assert!(!nrf.has_bytes(), "none in the first second");
        nrf.tick(&mut [], FIRST_REPORT);
        let frames = hear(&mut nrf);
        assert_eq!(BatteryState::decode(frames[0].data()).unwrap().voltage, 3.75);
        assert_eq!(frames[1].kind(), Some(Kind::RadioRssi));
    }

    #[test]
    fn packets_go_both_ways_with_permission() {
        let mut nrf = Nrf::new(false);
        assert_eq!(nrf.radio(&Packet::NULL, &mut [], 0), None, "not ready yet");
        say(&mut nrf, Kind::RadioReady, &[]);
        hear(&mut nrf);
        assert!(is_empty(nrf.radio(&Packet::NULL, &mut [], 0)));
        assert_eq!(hear(&mut nrf)[0].kind(), Some(Kind::RadioRaw));
        say(&mut nrf, Kind::RadioRaw, &[0xF1, 1, 2, 3]);
        assert!(nrf.is_flow_stopped(FLOW_PAUSE - 1) && !nrf.is_flow_stopped(FLOW_PAUSE));
        assert_eq!(nrf.radio(&Packet::NULL, &mut [], 0), Some(Ack(Packet::from_bytes(&[0xF1, 1, 2, 3]))));
        for _ in 0..10 {
            say(&mut nrf, Kind::RadioRaw, &[0]);
        }
        assert_eq!(nrf.losses, Losses { dropped: 4, unasked: 9 });
    }

    #[test]
    fn the_deck_identifies_itself() {
        let mut nrf = Nrf::new(true);
        say(&mut nrf, Kind::OneWireScan, &[]);
        nrf.tick(&mut [], SCAN - 1);
        assert!(!nrf.has_bytes(), "it takes its time");
        nrf.tick(&mut [], SCAN);
        assert_eq!(hear(&mut nrf)[0].data(), [1]);
        say(&mut nrf, Kind::OneWireRead, &[0, 0, 0]);
        let frames = hear(&mut nrf);
        let (_, _, memory) = steady_common::syslink::one_wire_read_answer(frames[0].data()).unwrap();
        assert_eq!(DeckId::decode(&memory), Some(DeckId::MICRO_SD));
        assert_eq!(&memory[12..17], b"bcUSD");
        say(&mut nrf, Kind::OneWireRead, &[1, 0, 0]);
        assert_eq!(hear(&mut nrf)[0].data(), [0xFF]);
    }

    #[test]
    fn warm_boot_needs_both_commands_and_100_ms() {
        let mut nrf = Nrf::new(false);
        say(&mut nrf, Kind::RadioReady, &[]);
        let reset = Request::ResetToBootloader.encode(Target::Nrf51);
        nrf.radio(&reset, &mut [], 0);
        assert_eq!(nrf.restart, None);
        assert!(
            is_empty(nrf.radio(&Request::ResetInit.encode(Target::Nrf51), &mut [], 0)),
            "its main loop answers"
        );
        let Some(Ack(Some(answer))) = nrf.radio(&Packet::NULL, &mut [], 0) else { panic!("no answer") };
        assert_eq!(Reply::decode(&answer), Some((Target::Nrf51, Reply::DeviceAddress(DEVICE_ADDRESS))));
        nrf.radio(&reset, &mut [], 0);
        nrf.tick(&mut [], RESET_DELAY - 1);
        assert!(nrf.bootloader.is_none());
        nrf.tick(&mut [], RESET_DELAY);
        assert_eq!(nrf.take_request(), Some(Stop::Halt));
        assert!(nrf.bootloader.is_some());
        let info = Request::GetInfo.encode(Target::Stm32);
        assert_eq!(nrf.radio(&info, &mut [], RESET_DELAY), None, "still starting");
        assert_eq!(nrf.radio(&info, &mut [], RESET_DELAY + BOOTLOADER_START), Some(Ack(None)));
    }

    #[test]
    fn the_power_fails_at_the_packet_that_was_named() {
        let mut nrf = Nrf::new(false);
        say(&mut nrf, Kind::RadioReady, &[]);
        nrf.cut_after_packets = Some(2);
        for n in 0..2 {
            assert!(nrf.radio(&Packet::NULL, &mut [], n).is_some());
            assert_eq!(nrf.take_request(), None);
        }
        assert_eq!(nrf.radio(&Packet::NULL, &mut [], 3), None);
        assert_eq!(nrf.take_request(), Some(Stop::PowerCut));
    }
}
