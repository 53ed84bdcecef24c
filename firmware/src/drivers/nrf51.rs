//! The radio processor: how the link is brought up and what is exchanged, apart from the wire.
//!
//! The nRF51 says nothing before it has heard a frame, and gives the radio free only when it is told
//! that we are ready. [`Link`] leads that dialogue (radio settings, version, battery, decks, ready),
//! with time-outs and retries, and watches that it stays alive: battery reports come every 10 ms, and
//! when they stop, the dialogue starts again. A packet may be sent for every packet received.

use heapless::Vec;
use steady_common::syslink::{
    BatteryState, Deck, DeckId, Frame, Kind, ONE_WIRE_CHUNK, ONE_WIRE_SIZE, one_wire_read_answer,
    one_wire_read_request,
};

/// Most decks that are asked who they are.
pub const MAX_DECKS: usize = 4;
/// Packets that may be sent ahead: half of the nRF51's queue.
const MAX_TOKENS: u8 = 4;
/// Time for an answer, ms.
const ANSWER_MS: u32 = 100;
/// Time for looking for decks, ms, which the official firmware waits too.
const SCAN_MS: u32 = 5000;
/// Time for reading a part of a deck's memory, ms.
const DECK_MS: u32 = 1000;
/// Times a question is asked.
const ATTEMPTS: u8 = 3;
/// Time without any battery report after which the nRF51 has to be started again, ms. The first one
/// comes 1010 ms after its start.
const SILENCE_MS: u32 = 2000;

/// Radio settings, from the configuration memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioSettings {
    /// 0 to 125.
    pub channel: u8,
    /// 0 for 250 kbit/s, 1 for 1 Mbit/s, 2 for 2 Mbit/s.
    pub data_rate: u8,
    /// Five bytes, the last one printed last.
    pub address: u64,
}

impl Default for RadioSettings {
    fn default() -> Self {
        Self { channel: 80, data_rate: 2, address: 0xE7_E7E7_E7E7 }
    }
}

/// Where the dialogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Channel,
    DataRate,
    Address,
    Version,
    Battery,
    Scan,
    /// The memory of a deck, from this byte on.
    Deck(u8, u16),
    /// The number of a deck's memory.
    Serial(u8),
    Ready,
    Running,
}

/// What a frame meant for the rest of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet from the radio, sent to us or to everyone.
    Packet,
    /// The button was pressed: close the files, then call [`Link::shut_down`].
    Shutdown,
    /// Nothing; the link has taken note.
    Nothing,
}

/// The link to the radio processor.
#[derive(Clone, Debug)]
pub struct Link {
    settings: RadioSettings,
    stage: Stage,
    asked_ms: Option<u32>,
    attempts: u8,
    deck_count: u8,
    decks: Vec<Deck, MAX_DECKS>,
    tokens: u8,
    battery: Option<BatteryState>,
    heard_ms: u32,
    rssi: u8,
    restarts: u32,
    acknowledge_shutdown: bool,
}

impl Link {
    /// Before the first frame.
    #[must_use]
    pub fn new(settings: RadioSettings) -> Self {
        Self {
            settings,
            stage: Stage::Channel,
            asked_ms: None,
            attempts: 0,
            deck_count: 0,
            decks: Vec::new(),
            tokens: 0,
            battery: None,
            heard_ms: 0,
            rssi: 0,
            restarts: 0,
            acknowledge_shutdown: false,
        }
    }

    /// True once the radio is free and everything is known that can be.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Running
    }

    /// The decks that are mounted.
    #[must_use]
    pub fn decks(&self) -> &[Deck] {
        &self.decks
    }

    /// The newest battery report.
    #[must_use]
    pub fn battery(&self) -> Option<BatteryState> {
        self.battery
    }

    /// Signal strength, −dBm.
    #[must_use]
    pub fn rssi(&self) -> u8 {
        self.rssi
    }

    /// Times the dialogue had to start again.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// True when a packet may be sent now.
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.tokens > 0
    }

    /// A packet has been sent.
    pub fn sent(&mut self) {
        self.tokens = self.tokens.saturating_sub(1);
    }

    /// The files are closed: the nRF51 may switch us off.
    pub fn shut_down(&mut self) {
        self.acknowledge_shutdown = true;
    }

    /// Radio settings have changed.
    pub fn configure(&mut self, settings: RadioSettings) {
        if self.settings != settings {
            self.settings = settings;
            self.enter(Stage::Channel);
        }
    }

    /// Takes a frame.
    pub fn on_frame(&mut self, now_ms: u32, frame: &Frame) -> Received {
        match frame.kind() {
            Some(Kind::RadioRaw) => {
                self.tokens = (self.tokens + 1).min(MAX_TOKENS);
                return Received::Packet;
            }
            Some(Kind::RadioRawBroadcast) => return Received::Packet,
            Some(Kind::ShutdownRequest) => return Received::Shutdown,
            Some(Kind::BatteryState) => {
                if let Some(state) = BatteryState::decode(frame.data()).filter(is_plausible) {
                    self.battery = Some(state);
                }
                self.heard_ms = now_ms;
            }
            Some(Kind::RadioRssi) => self.rssi = frame.data().first().copied().unwrap_or(self.rssi),
            Some(Kind::NrfVersion) if self.stage == Stage::Version => self.enter(Stage::Battery),
            Some(Kind::OneWireScan) if self.stage == Stage::Scan => {
                self.deck_count = frame.data().first().copied().unwrap_or(0).min(MAX_DECKS as u8);
                self.decks.clear();
                self.enter(if self.deck_count > 0 { Stage::Deck(0, 0) } else { Stage::Ready });
            }
            Some(Kind::OneWireRead) => self.on_deck(frame.data()),
            Some(Kind::OneWireInfo) => self.on_serial(frame.data()),
            _ => {}
        }
        Received::Nothing
    }

    fn on_deck(&mut self, data: &[u8]) {
        let Stage::Deck(index, address) = self.stage else { return };
        match one_wire_read_answer(data) {
            Some((answered, at, bytes)) if (answered, at) == (index, address) => {
                if address == 0 {
                    // No deck that can be known: the next one.
                    let Some(id) = DeckId::decode(&bytes) else { return self.next_deck(index) };
                    // More than fit were not asked for.
                    let _ = self.decks.push(Deck { id, serial: [0; 8], memory: [0xFF; ONE_WIRE_SIZE] });
                }
                let memory = self.decks.last_mut().and_then(|d| d.memory.get_mut(usize::from(address)..));
                memory.unwrap_or(&mut []).iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
                let next = address + ONE_WIRE_CHUNK as u16;
                let more = usize::from(next) < ONE_WIRE_SIZE;
                self.enter(if more { Stage::Deck(index, next) } else { Stage::Serial(index) });
            }
            // An answer to an older question.
            Some(_) => {}
            // An error answer.
            None => self.next_deck(index),
        }
    }

    fn on_serial(&mut self, data: &[u8]) {
        let Stage::Serial(index) = self.stage else { return };
        if let (Some((answered, serial)), Some(deck)) = (data.split_first(), self.decks.last_mut())
            && *answered == index
            && let Some(serial) = serial.first_chunk()
        {
            deck.serial = *serial;
        }
        self.next_deck(index);
    }

    fn next_deck(&mut self, index: u8) {
        let next = index + 1;
        self.enter(if next < self.deck_count { Stage::Deck(next, 0) } else { Stage::Ready });
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.asked_ms, self.attempts) = (stage, None, 0);
    }

    /// The next frame of the dialogue to send, if it is time for one.
    pub fn next_frame(&mut self, now_ms: u32) -> Option<Frame> {
        if self.acknowledge_shutdown {
            self.acknowledge_shutdown = false;
            return Frame::new(Kind::ShutdownAck, &[]);
        }
        if self.stage == Stage::Running {
            if now_ms.wrapping_sub(self.heard_ms) < SILENCE_MS {
                return None;
            }
            self.restarts = self.restarts.wrapping_add(1);
            self.enter(Stage::Channel);
        }
        if let Some(asked) = self.asked_ms {
            let limit_ms = match self.stage {
                Stage::Scan => SCAN_MS,
                Stage::Deck(..) | Stage::Serial(_) => DECK_MS,
                _ => ANSWER_MS,
            };
            if now_ms.wrapping_sub(asked) < limit_ms {
                return None;
            }
            if self.attempts >= ATTEMPTS {
                self.give_up();
            }
        }
        self.ask(now_ms)
    }

    /// No answer: go on without.
    fn give_up(&mut self) {
        match self.stage {
            Stage::Version => self.enter(Stage::Battery),
            Stage::Deck(index, _) | Stage::Serial(index) => self.next_deck(index),
            _ => self.enter(Stage::Ready),
        }
    }

    fn ask(&mut self, now_ms: u32) -> Option<Frame> {
        let settings = self.settings;
        // What needs no answer is sent once, and the next stage follows at once.
        let (frame, then) = match self.stage {
            Stage::Channel => (Frame::new(Kind::RadioChannel, &[settings.channel]), Some(Stage::DataRate)),
            Stage::DataRate => (Frame::new(Kind::RadioDataRate, &[settings.data_rate]), Some(Stage::Address)),
            Stage::Address => {
                let [a, b, c, d, e, ..] = settings.address.to_le_bytes();
                (Frame::new(Kind::RadioAddress, &[a, b, c, d, e]), Some(Stage::Version))
            }
            Stage::Version => (Frame::new(Kind::NrfVersion, &[]), None),
            Stage::Scan => (Frame::new(Kind::OneWireScan, &[]), None),
            Stage::Deck(index, address) => {
                (Frame::new(Kind::OneWireRead, &one_wire_read_request(index, address)), None)
            }
            Stage::Serial(index) => (Frame::new(Kind::OneWireInfo, &[index]), None),
            // Before the decks, which may take long.
            Stage::Battery => (Frame::new(Kind::BatteryAutoUpdate, &[]), Some(Stage::Scan)),
            Stage::Ready => (Frame::new(Kind::RadioReady, &[]), Some(Stage::Running)),
            Stage::Running => return None,
        };
        match then {
            Some(stage) => self.enter(stage),
            None => (self.asked_ms, self.attempts) = (Some(now_ms), self.attempts + 1),
        }
        if self.stage == Stage::Running {
            self.heard_ms = now_ms;
        }
        frame
    }
}

/// A lithium cell, or nothing connected; not noise.
fn is_plausible(state: &BatteryState) -> bool {
    (0.0..6.0).contains(&state.voltage)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn ids(link: &Link) -> Vec<DeckId> {
        link.decks().iter().map(|deck| deck.id).collect()
    }

    /// A radio processor with decks; each question can be left unanswered.
    struct Nrf {
        decks: Vec<Option<DeckId>>,
        deaf_to: Vec<Kind>,
        heard: Vec<Kind>,
    }

    impl Nrf {
        fn answer(&mut self, frame: &Frame) -> Option<Frame> {
            let kind = frame.kind().unwrap();
            self.heard.push(kind);
            if self.deaf_to.contains(&kind) {
                return None;
            }
            match kind {
                Kind::NrfVersion => Frame::new(kind, b"2024.1\0"),
                Kind::OneWireScan => Frame::new(kind, &[self.decks.len() as u8]),
                Kind::OneWireRead => {
                    let index = frame.data()[0];
                    let Some(deck) = self.decks[usize::from(index)] else {
                        return Frame::new(kind, &[0xFF]);
                    };
                    let mut memory = [0x55; 4 * ONE_WIRE_CHUNK];
                    memory[..8].copy_from_slice(&deck.encode(0));
                    let address = usize::from(u16::from_le_bytes([frame.data()[1], frame.data()[2]]));
                    let mut data = frame.data().to_vec();
                    data.extend(&memory[address..address + ONE_WIRE_CHUNK]);
                    Frame::new(kind, &data)
                }
                Kind::OneWireInfo => Frame::new(kind, &[frame.data()[0], 1, 2, 3, 4, 5, 6, 7, 8]),
                Kind::RadioChannel | Kind::RadioDataRate | Kind::RadioAddress | Kind::RadioReady => {
                    Some(*frame)
                }
                _ => None,
            }
        }
    }

    fn run(nrf: &mut Nrf, link: &mut Link, from_ms: u32, ms: u32) {
        for now in from_ms..from_ms + ms {
            while let Some(frame) = link.next_frame(now) {
                if let Some(answer) = nrf.answer(&frame) {
                    assert_eq!(link.on_frame(now, &answer), Received::Nothing);
                }
            }
        }
    }

    fn nrf(decks: &[Option<DeckId>]) -> Nrf {
        Nrf { decks: decks.to_vec(), deaf_to: Vec::new(), heard: Vec::new() }
    }

    #[test]
    fn comes_up_in_order_and_finds_the_decks() {
        let mut nrf = nrf(&[Some(DeckId::LED_RING), None, Some(DeckId::MICRO_SD)]);
        let mut link = Link::new(RadioSettings::default());
        run(&mut nrf, &mut link, 0, 2);
        assert!(link.is_up());
        assert_eq!(ids(&link), [DeckId::LED_RING, DeckId::MICRO_SD]);
        let deck = link.decks()[1];
        assert_eq!((deck.serial, &deck.memory[..8]), ([1, 2, 3, 4, 5, 6, 7, 8], &deck.id.encode(0)[..]));
        assert!(deck.memory[8..].iter().all(|byte| *byte == 0x55), "to its end");
        let order = [
            Kind::RadioChannel,
            Kind::RadioDataRate,
            Kind::RadioAddress,
            Kind::NrfVersion,
            Kind::BatteryAutoUpdate,
            Kind::OneWireScan,
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireInfo,
            Kind::OneWireRead, // Refused: no deck there.
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireRead,
            Kind::OneWireInfo,
            Kind::RadioReady,
        ];
        assert_eq!(nrf.heard, order);
    }

    #[test]
    fn silence_to_a_question_does_not_stop_the_radio() {
        for deaf in [Kind::NrfVersion, Kind::OneWireScan, Kind::OneWireRead, Kind::OneWireInfo] {
            let mut nrf = nrf(&[Some(DeckId::MICRO_SD)]);
            nrf.deaf_to.push(deaf);
            let mut link = Link::new(RadioSettings::default());
            let limit_ms = match deaf {
                Kind::OneWireScan => SCAN_MS,
                Kind::NrfVersion => ANSWER_MS,
                _ => DECK_MS,
            };
            run(&mut nrf, &mut link, 0, 3 * limit_ms + 2);
            assert!(link.is_up(), "{deaf:?}");
            assert_eq!(nrf.heard.iter().filter(|k| **k == deaf).count(), 3);
        }
    }

    #[test]
    fn a_deck_scan_may_take_five_seconds() {
        let mut nrf = nrf(&[Some(DeckId::MICRO_SD)]);
        nrf.deaf_to.push(Kind::OneWireScan);
        let mut link = Link::new(RadioSettings::default());
        run(&mut nrf, &mut link, 0, SCAN_MS - 1);
        assert!(nrf.heard.contains(&Kind::BatteryAutoUpdate), "the battery does not wait for the decks");
        let asked = |nrf: &Nrf| nrf.heard.iter().filter(|k| **k == Kind::OneWireScan).count();
        assert_eq!(asked(&nrf), 1, "asked once, and waited");
        link.on_frame(SCAN_MS - 1, &Frame::new(Kind::OneWireScan, &[1]).unwrap());
        run(&mut nrf, &mut link, SCAN_MS, 2);
        assert_eq!(ids(&link), [DeckId::MICRO_SD]);
        assert!(link.is_up());
    }

    #[test]
    fn a_restarted_radio_processor_is_started_again() {
        let mut nrf = nrf(&[Some(DeckId::MICRO_SD)]);
        let mut link = Link::new(RadioSettings::default());
        run(&mut nrf, &mut link, 0, 2);
        let report = BatteryState { voltage: 3.9, ..BatteryState::default() };
        let report = Frame::new(Kind::BatteryState, &report.encode()).unwrap();
        for now in (0..5000).step_by(10) {
            link.on_frame(now, &report);
            assert_eq!(link.next_frame(now), None);
        }
        assert_eq!(link.battery().unwrap().voltage, 3.9);
        nrf.heard.clear();
        run(&mut nrf, &mut link, 5000, SILENCE_MS + 100);
        assert_eq!(link.restarts(), 1);
        assert!(nrf.heard.contains(&Kind::RadioReady) && nrf.heard.contains(&Kind::BatteryAutoUpdate));
        assert_eq!(ids(&link), [DeckId::MICRO_SD]);
    }

    #[test]
    fn one_packet_may_go_for_each_that_came() {
        let mut link = Link::new(RadioSettings::default());
        let packet = Frame::new(Kind::RadioRaw, &[0xFF]).unwrap();
        assert!(!link.may_send());
        for _ in 0..10 {
            assert_eq!(link.on_frame(0, &packet), Received::Packet);
        }
        for _ in 0..MAX_TOKENS {
            assert!(link.may_send());
            link.sent();
        }
        assert!(!link.may_send());
        // A broadcast is a packet, but the nRF51 has no answer slot for it.
        let broadcast = Frame::new(Kind::RadioRawBroadcast, &[0x62]).unwrap();
        assert_eq!(link.on_frame(0, &broadcast), Received::Packet);
        assert!(!link.may_send());
    }

    #[test]
    fn shutdown_waits_for_the_files() {
        let mut nrf = nrf(&[]);
        let mut link = Link::new(RadioSettings::default());
        run(&mut nrf, &mut link, 0, 2);
        let request = Frame::new(Kind::ShutdownRequest, &[]).unwrap();
        assert_eq!(link.on_frame(2, &request), Received::Shutdown);
        assert_eq!(link.next_frame(3), None);
        link.shut_down();
        assert_eq!(link.next_frame(4).unwrap().kind(), Some(Kind::ShutdownAck));
        assert_eq!(link.next_frame(5), None);
    }

    #[test]
    fn impossible_voltages_are_not_believed() {
        let mut link = Link::new(RadioSettings::default());
        for voltage in [f32::NAN, -1.0, 77.0] {
            let state = BatteryState { voltage, ..BatteryState::default() };
            link.on_frame(0, &Frame::new(Kind::BatteryState, &state.encode()).unwrap());
            assert_eq!(link.battery(), None);
        }
    }

    #[test]
    fn new_radio_settings_are_sent() {
        let mut nrf = nrf(&[]);
        let mut link = Link::new(RadioSettings::default());
        run(&mut nrf, &mut link, 0, 2);
        link.configure(RadioSettings { channel: 90, ..RadioSettings::default() });
        let frame = link.next_frame(3).unwrap();
        assert_eq!((frame.kind(), frame.data()), (Some(Kind::RadioChannel), &[90][..]));
    }
}
