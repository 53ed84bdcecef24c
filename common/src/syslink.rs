//! Syslink: the serial protocol between the Crazyflie's two processors, STM32 and nRF51.
//!
//! A frame is `BC CF | type | length | data | ckA ckB`; ckA is the sum of type, length and data,
//! ckB the sum of the running ckA, both modulo 256.

use crate::bytes::{Reader, Writer};

/// Maximum data bytes of a frame.
pub const MAX_DATA: usize = 64;
/// Maximum bytes of a frame on the line.
pub const MAX_FRAME: usize = MAX_DATA + OVERHEAD;
/// Bytes of a frame beside its data.
const OVERHEAD: usize = 6;
const START: [u8; 2] = [0xBC, 0xCF];

/// Type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A CRTP packet to or from the radio.
    RadioRaw = 0x00,
    /// Radio channel, 0 to 125.
    RadioChannel = 0x01,
    /// Radio data rate: 0 for 250 kbit/s, 1 for 1 Mbit/s, 2 for 2 Mbit/s.
    RadioDataRate = 0x02,
    /// Continuous carrier for tests.
    RadioContinuousWave = 0x03,
    /// Signal strength, −dBm.
    RadioRssi = 0x04,
    /// Radio address, least significant byte first.
    RadioAddress = 0x05,
    /// A CRTP packet that was broadcast.
    RadioRawBroadcast = 0x06,
    /// Transmission power, dBm.
    RadioPower = 0x07,
    /// Peer-to-peer packet.
    P2p = 0x08,
    /// Peer-to-peer broadcast.
    P2pBroadcast = 0x0A,
    /// The STM32 is ready for radio packets.
    RadioReady = 0x0B,
    /// Switch everything off.
    SwitchOff = 0x11,
    /// Battery and charger.
    BatteryState = 0x13,
    /// Asks for battery and signal strength from now on.
    BatteryAutoUpdate = 0x14,
    /// The button was pressed: say when the files are closed.
    ShutdownRequest = 0x15,
    /// The files are closed.
    ShutdownAck = 0x16,
    /// The nRF51's LED on.
    LedOn = 0x17,
    /// The nRF51's LED off.
    LedOff = 0x18,
    /// Deck controller firmware update.
    DeckDfu = 0x19,
    /// Switch the STM32 off.
    StmOff = 0x1A,
    /// How many one-wire memories there are.
    OneWireScan = 0x20,
    /// Identity of a one-wire memory.
    OneWireInfo = 0x21,
    /// Contents of a one-wire memory.
    OneWireRead = 0x22,
    /// Writes a one-wire memory.
    OneWireWrite = 0x23,
    /// Version of the nRF51's firmware.
    NrfVersion = 0x30,
    /// Diagnostics.
    DebugProbe = 0xF0,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 26] = [
        Self::RadioRaw,
        Self::RadioChannel,
        Self::RadioDataRate,
        Self::RadioContinuousWave,
        Self::RadioRssi,
        Self::RadioAddress,
        Self::RadioRawBroadcast,
        Self::RadioPower,
        Self::P2p,
        Self::P2pBroadcast,
        Self::RadioReady,
        Self::SwitchOff,
        Self::BatteryState,
        Self::BatteryAutoUpdate,
        Self::ShutdownRequest,
        Self::ShutdownAck,
        Self::LedOn,
        Self::LedOff,
        Self::DeckDfu,
        Self::StmOff,
        Self::OneWireScan,
        Self::OneWireInfo,
        Self::OneWireRead,
        Self::OneWireWrite,
        Self::NrfVersion,
        Self::DebugProbe,
    ];

    /// The kind of a type byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame; its type may be unknown.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    kind: u8,
    length: u8,
    data: [u8; MAX_DATA],
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        // The rest of the array holds whatever the parser saw before.
        (self.kind, self.data()) == (other.kind, other.data())
    }
}

impl Eq for Frame {}

impl Frame {
    /// A frame; `None` when the data are longer than [`MAX_DATA`].
    #[must_use]
    pub fn new(kind: Kind, data: &[u8]) -> Option<Self> {
        let mut frame =
            Self { kind: kind as u8, length: u8::try_from(data.len()).ok()?, data: [0; MAX_DATA] };
        frame.data.get_mut(..data.len())?.copy_from_slice(data);
        Some(frame)
    }

    /// The type byte.
    #[must_use]
    pub fn kind_byte(&self) -> u8 {
        self.kind
    }

    /// Its type, if known.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_byte(self.kind)
    }

    /// The data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.data.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// The bytes for the line, and how many they are.
    #[must_use]
    pub fn encode(&self) -> ([u8; MAX_FRAME], usize) {
        let mut bytes = [0; MAX_FRAME];
        let mut sum = Checksum::default();
        sum.add(self.kind);
        sum.add(self.length);
        self.data().iter().for_each(|b| sum.add(*b));
        let mut w = Writer::new(&mut bytes);
        w.put(&START).put(&[self.kind, self.length]).put(self.data()).put(&[sum.a, sum.b]);
        let length = w.len().unwrap_or(0);
        (bytes, length)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Checksum {
    a: u8,
    b: u8,
}

impl Checksum {
    fn add(&mut self, byte: u8) {
        self.a = self.a.wrapping_add(byte);
        self.b = self.b.wrapping_add(self.a);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Start1,
    Start2,
    Kind,
    Length,
    Data,
    SumA,
    SumB,
}

/// Finds frames in a stream of bytes, one byte at a time.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    expect: Expect,
    frame: Frame,
    received: u8,
    sum: Checksum,
    damaged: u32,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Waits for the first frame.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            expect: Expect::Start1,
            frame: Frame { kind: 0, length: 0, data: [0; MAX_DATA] },
            received: 0,
            sum: Checksum { a: 0, b: 0 },
            damaged: 0,
        }
    }

    /// Frames that began and turned out wrong (length or checksum).
    #[must_use]
    pub fn damaged(&self) -> u32 {
        self.damaged
    }

    /// Takes the next byte; returns a frame when it was the last of one.
    pub fn push(&mut self, byte: u8) -> Option<Frame> {
        match self.expect {
            Expect::Start1 => self.restart(byte),
            Expect::Start2 if byte == START[1] => {
                (self.expect, self.sum, self.received) = (Expect::Kind, Checksum::default(), 0);
            }
            Expect::Start2 => self.restart(byte),
            Expect::Kind => {
                self.sum.add(byte);
                (self.frame.kind, self.expect) = (byte, Expect::Length);
            }
            Expect::Length if usize::from(byte) > MAX_DATA => self.reject(byte),
            Expect::Length => {
                self.sum.add(byte);
                self.frame.length = byte;
                self.expect = if byte == 0 { Expect::SumA } else { Expect::Data };
            }
            Expect::Data => {
                self.sum.add(byte);
                if let Some(room) = self.frame.data.get_mut(usize::from(self.received)) {
                    *room = byte;
                }
                self.received += 1;
                if self.received == self.frame.length {
                    self.expect = Expect::SumA;
                }
            }
            Expect::SumA if byte == self.sum.a => self.expect = Expect::SumB,
            Expect::SumB if byte == self.sum.b => {
                self.expect = Expect::Start1;
                return Some(self.frame);
            }
            Expect::SumA | Expect::SumB => self.reject(byte),
        }
        None
    }

    /// A byte outside a frame may be the start of one.
    fn restart(&mut self, byte: u8) {
        self.expect = if byte == START[0] { Expect::Start2 } else { Expect::Start1 };
    }

    fn reject(&mut self, byte: u8) {
        self.damaged = self.damaged.wrapping_add(1);
        self.restart(byte);
    }
}

/// Battery and charger as the nRF51 measures them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatteryState {
    /// The battery is being charged.
    pub charging: bool,
    /// USB power is there.
    pub usb: bool,
    /// Battery voltage, V.
    pub voltage: f32,
    /// Charging current, mA.
    pub charge_current_ma: f32,
}

impl BatteryState {
    /// Reads the data of a [`Kind::BatteryState`] frame; a trailing temperature is ignored.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let mut r = Reader::new(data);
        let (flags, voltage, charge_current_ma) = (r.u8()?, r.f32()?, r.f32()?);
        Some(Self { charging: flags & 1 != 0, usb: flags & 2 != 0, voltage, charge_current_ma })
    }

    /// The data of a [`Kind::BatteryState`] frame.
    #[must_use]
    pub fn encode(&self) -> [u8; 9] {
        let mut data = [0; 9];
        let mut w = Writer::new(&mut data);
        w.put(&[u8::from(self.charging) | u8::from(self.usb) << 1])
            .put(&self.voltage.to_le_bytes())
            .put(&self.charge_current_ma.to_le_bytes());
        data
    }
}

/// Bytes of a one-wire memory that one [`Kind::OneWireRead`] brings.
pub const ONE_WIRE_CHUNK: usize = 29;

/// Asks for bytes of a one-wire memory: the data of a [`Kind::OneWireRead`] frame to the nRF51.
#[must_use]
pub fn one_wire_read_request(index: u8, address: u16) -> [u8; 3] {
    let [low, high] = address.to_le_bytes();
    [index, low, high]
}

/// Bytes of a one-wire memory: index, address, contents. `None` for the nRF51's error answers.
#[must_use]
pub fn one_wire_read_answer(data: &[u8]) -> Option<(u8, u16, [u8; ONE_WIRE_CHUNK])> {
    let mut r = Reader::new(data);
    Some((r.u8()?, r.u16()?, r.array()?))
}

/// Of whose checksums decks keep the lowest byte; a static, or its table would be on the stack.
static DECK_CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// Bytes of a deck's one-wire memory.
pub const ONE_WIRE_SIZE: usize = 112;

/// A deck: its one-wire memory with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deck {
    /// Which deck it is.
    pub id: DeckId,
    /// The memory's own number.
    pub serial: [u8; 8],
    /// What it holds.
    pub memory: [u8; ONE_WIRE_SIZE],
}

impl Deck {
    /// True when the names behind the header are whole as well: version, length, elements, and the low
    /// byte of the CRC-32 over these.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let names = self.memory.get(8..).unwrap_or(&[]);
        let length = names.get(1).map_or(0, |length| 2 + usize::from(*length));
        let Some((covered, rest)) = names.split_at_checked(length) else { return false };
        let crc = DECK_CRC.checksum(covered);
        DeckId::decode(&self.memory) == Some(self.id)
            && rest.first().is_some_and(|c| u32::from(*c) == crc & 0xFF)
    }
}

/// What identifies a deck, from the first bytes of its one-wire memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeckId {
    /// Vendor.
    pub vendor: u8,
    /// Product.
    pub product: u8,
}

impl DeckId {
    /// The micro-SD deck.
    pub const MICRO_SD: Self = Self { vendor: 0xBC, product: 0x08 };
    /// The LED-ring deck.
    pub const LED_RING: Self = Self { vendor: 0xBC, product: 0x01 };

    /// Reads the memory's header; `None` when it is blank or damaged (its CRC is the low byte of
    /// the CRC-32 over the seven bytes before).
    #[must_use]
    pub fn decode(memory: &[u8]) -> Option<Self> {
        let (header, rest) = memory.split_first_chunk::<7>()?;
        let crc = DECK_CRC.checksum(header);
        let [magic, _, _, _, _, vendor, product] = *header;
        (magic == 0xEB && u32::from(*rest.first()?) == crc & 0xFF).then_some(Self { vendor, product })
    }

    /// The header of such a memory, as decks carry it.
    #[must_use]
    pub fn encode(self, used_pins: u32) -> [u8; 8] {
        let [p0, p1, p2, p3] = used_pins.to_le_bytes();
        let header = [0xEB, p0, p1, p2, p3, self.vendor, self.product];
        let [crc, ..] = DECK_CRC.checksum(&header).to_le_bytes();
        [0xEB, p0, p1, p2, p3, self.vendor, self.product, crc]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn parse(bytes: &[u8]) -> (Vec<Frame>, u32) {
        let mut parser = Parser::new();
        let frames = bytes.iter().filter_map(|b| parser.push(*b)).collect();
        (frames, parser.damaged())
    }

    fn bytes(frame: &Frame) -> Vec<u8> {
        let (bytes, length) = frame.encode();
        bytes[..length].to_vec()
    }

    #[test]
    fn known_frames() {
        let frame = |kind, data: &[u8]| bytes(&Frame::new(kind, data).unwrap());
        assert_eq!(frame(Kind::RadioReady, &[]), [0xBC, 0xCF, 0x0B, 0x00, 0x0B, 0x16]);
        assert_eq!(frame(Kind::BatteryAutoUpdate, &[]), [0xBC, 0xCF, 0x14, 0x00, 0x14, 0x28]);
        assert_eq!(frame(Kind::RadioChannel, &[80]), [0xBC, 0xCF, 0x01, 0x01, 0x50, 0x52, 0x55]);
        assert!(Frame::new(Kind::RadioRaw, &[0; MAX_DATA + 1]).is_none());
    }

    #[test]
    fn kinds_are_unique() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_byte(kind as u8), Some(kind));
        }
        assert_eq!(Kind::from_byte(0x99), None);
    }

    #[test]
    fn battery_and_deck_survive_the_round_trip() {
        let state = BatteryState { charging: true, usb: false, voltage: 3.87, charge_current_ma: 440.5 };
        assert_eq!(BatteryState::decode(&state.encode()), Some(state));
        assert_eq!(BatteryState::decode(&[0; 8]), None);
        let mut memory = DeckId::MICRO_SD.encode(0x0000_0F00);
        assert_eq!(DeckId::decode(&memory), Some(DeckId::MICRO_SD));
        memory[2] ^= 1;
        assert_eq!(DeckId::decode(&memory), None);
        assert_eq!(one_wire_read_answer(&[0xFF]), None);
    }

    #[test]
    fn a_start_byte_inside_damage_is_not_missed() {
        let good = bytes(&Frame::new(Kind::RadioReady, &[]).unwrap());
        for broken in [&[0xBC][..], &[0xBC, 0xCF, 0x01, 200], &[0xBC, 0xCF, 0x01, 0x01, 0x50, 0x53]] {
            let stream = [broken, &good].concat();
            assert_eq!(parse(&stream).0.len(), 1, "{broken:02x?}");
        }
    }

    proptest! {
        #[test]
        fn frames_are_found_in_noise(
            noise in prop::collection::vec(0_u8..0xBC, 0..50),
            frames in prop::collection::vec((0..26_usize, prop::collection::vec(any::<u8>(), 0..=MAX_DATA)), 0..8),
        ) {
            let frames: Vec<_> = frames.iter().map(|(k, d)| Frame::new(Kind::ALL[*k], d).unwrap()).collect();
            let mut stream = noise.clone();
            for frame in &frames {
                stream.extend(bytes(frame));
                stream.extend(&noise);
            }
            let (found, damaged) = parse(&stream);
            prop_assert_eq!(found, frames);
            prop_assert_eq!(damaged, 0);
        }

        #[test]
        fn one_changed_byte_never_gives_another_frame(
            data in prop::collection::vec(any::<u8>(), 0..=MAX_DATA), at in any::<prop::sample::Index>(), by in 1_u8..,
        ) {
            let frame = Frame::new(Kind::RadioRaw, &data).unwrap();
            let mut stream = bytes(&frame);
            let at = at.index(stream.len());
            stream[at] = stream[at].wrapping_add(by);
            // A longer length may swallow what follows; a wrong frame must not come out.
            stream.extend([0; MAX_FRAME]);
            prop_assert!(parse(&stream).0.iter().all(|f| *f == frame));
        }

        #[test]
        fn anything_is_survived(stream in prop::collection::vec(any::<u8>(), 0..600)) {
            parse(&stream);
        }
    }
}
