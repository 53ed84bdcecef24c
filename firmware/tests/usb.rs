//! The cable, with a computer and a controller on the PC: what a computer sees of the drone, and which way
//! packets go.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex, MutexGuard};

use steady_common::crtp::Packet;
use steady_firmware::usb::{IDS, MANUFACTURER, PRODUCT, Usb};
use usb_device::bus::{PollResult, UsbBus, UsbBusAllocator};
use usb_device::endpoint::{EndpointAddress, EndpointType};
use usb_device::{Result, UsbDirection, UsbError};

const SERIAL: &str = "001A00323333510C30353935";

/// What is on its way.
#[derive(Default)]
struct Wire {
    is_reset: bool,
    is_suspended: bool,
    is_resumed: bool,
    setup: Option<Vec<u8>>,
    to_drone: [Option<Vec<u8>>; 2],
    from_drone: [Option<Vec<u8>>; 2],
    fetched: u16,
    is_stalled: bool,
    address: u8,
    endpoints: Vec<(u8, u8, u16)>,
}

/// The controller.
struct Controller(Arc<Mutex<Wire>>);

impl UsbBus for Controller {
    fn alloc_ep(
        &mut self,
        _: UsbDirection,
        address: Option<EndpointAddress>,
        kind: EndpointType,
        size: u16,
        _: u8,
    ) -> Result<EndpointAddress> {
        let address = address.ok_or(UsbError::InvalidEndpoint)?;
        self.0.lock().unwrap().endpoints.push((address.into(), kind.to_bm_attributes(), size));
        Ok(address)
    }
    fn enable(&mut self) {}
    fn reset(&self) {
        self.0.lock().unwrap().address = 0;
    }
    fn set_device_address(&self, address: u8) {
        self.0.lock().unwrap().address = address;
    }
    fn write(&self, endpoint: EndpointAddress, bytes: &[u8]) -> Result<usize> {
        let place = &mut self.0.lock().unwrap().from_drone[endpoint.index()];
        if place.is_some() {
            return Err(UsbError::WouldBlock);
        }
        *place = Some(bytes.to_vec());
        Ok(bytes.len())
    }
    fn read(&self, endpoint: EndpointAddress, into: &mut [u8]) -> Result<usize> {
        let mut wire = self.0.lock().unwrap();
        let setup = if endpoint.index() == 0 { wire.setup.take() } else { None };
        let bytes = setup.or_else(|| wire.to_drone[endpoint.index()].take()).ok_or(UsbError::WouldBlock)?;
        into.get_mut(..bytes.len()).ok_or(UsbError::BufferOverflow)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }
    fn set_stalled(&self, _: EndpointAddress, is_stalled: bool) {
        self.0.lock().unwrap().is_stalled = is_stalled;
    }
    fn is_stalled(&self, _: EndpointAddress) -> bool {
        self.0.lock().unwrap().is_stalled
    }
    fn suspend(&self) {}
    fn resume(&self) {}
    fn poll(&self) -> PollResult {
        let wire = &mut *self.0.lock().unwrap();
        for (event, result) in [
            (&mut wire.is_reset, PollResult::Reset),
            (&mut wire.is_suspended, PollResult::Suspend),
            (&mut wire.is_resumed, PollResult::Resume),
        ] {
            if std::mem::take(event) {
                return result;
            }
        }
        let bit = |is: bool, number: u16| u16::from(is) << number;
        let ep_setup = bit(wire.setup.is_some(), 0);
        let ep_out = bit(wire.to_drone[0].is_some(), 0) | bit(wire.to_drone[1].is_some(), 1);
        let ep_in_complete = std::mem::take(&mut wire.fetched);
        if ep_setup | ep_out | ep_in_complete == 0 {
            return PollResult::None;
        }
        PollResult::Data { ep_out, ep_in_complete, ep_setup }
    }
}

/// A computer with a drone that echoes.
struct Computer {
    wire: Arc<Mutex<Wire>>,
    usb: Usb<'static, Controller>,
    now_ms: u32,
    heard: usize,
}

/// Request type, request, value, index, and length of what comes back.
type Request = (u8, u8, u16, u16, u16);

/// The request that cflib sends for `usb://`.
const TO_USB: Request = (0x40, 1, 1, 1, 0);
const TO_RADIO: Request = (0x40, 1, 1, 0, 0);

impl Computer {
    fn new() -> Self {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let bus = Box::leak(Box::new(UsbBusAllocator::new(Controller(Arc::clone(&wire)))));
        Self { wire, usb: Usb::new(bus, SERIAL).unwrap(), now_ms: 0, heard: 0 }
    }

    /// Plugged in, and everything as a computer does it before a program may use the device.
    fn configured() -> Self {
        let mut computer = Self::new();
        computer.wire().is_reset = true;
        computer.round();
        computer.control((0x00, 5, 7, 0, 0)).unwrap();
        assert_eq!(computer.wire().address, 7);
        computer.control((0x00, 9, 1, 0, 0)).unwrap();
        computer
    }

    /// The same, with a client that wants packets by USB.
    fn connected() -> Self {
        let mut computer = Self::configured();
        computer.control(TO_USB).unwrap();
        assert!(computer.usb.is_on());
        computer
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap()
    }

    /// A millisecond of the drone, which echoes what it hears.
    fn round(&mut self) {
        self.now_ms += 1;
        self.usb.poll(self.now_ms, |packet| {
            self.heard += 1;
            Some(*packet)
        });
    }

    fn fetch(&mut self, endpoint: usize) -> Option<Vec<u8>> {
        let bytes = self.wire().from_drone[endpoint].take()?;
        self.wire().fetched |= 1 << endpoint;
        self.round();
        Some(bytes)
    }

    /// A control transfer; nothing when the drone refuses it.
    fn control(&mut self, (kind, request, value, index, length): Request) -> Option<Vec<u8>> {
        let ([v0, v1], [i0, i1], [l0, l1]) = (value.to_le_bytes(), index.to_le_bytes(), length.to_le_bytes());
        self.wire().is_stalled = false;
        self.wire().from_drone[0] = None;
        self.wire().setup = Some(vec![kind, request, v0, v1, i0, i1, l0, l1]);
        self.round();
        let mut bytes = Vec::new();
        if kind & 0x80 == 0 {
            if self.wire().is_stalled {
                return None;
            }
            assert_eq!(self.fetch(0).unwrap(), [], "the confirmation");
            return Some(bytes);
        }
        while !self.wire().is_stalled && bytes.len() < usize::from(length) {
            let part = self.fetch(0).unwrap();
            bytes.extend(&part);
            if part.len() < 64 {
                break;
            }
        }
        if self.wire().is_stalled {
            return None;
        }
        self.wire().to_drone[0] = Some(Vec::new());
        self.round();
        Some(bytes)
    }

    fn text(&mut self, number: u8) -> String {
        let bytes = self.control((0x80, 6, 0x300 | u16::from(number), 0x409, 255)).unwrap();
        let units: Vec<u16> = bytes[2..].as_chunks().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        String::from_utf16(&units).unwrap()
    }

    fn send(&mut self, bytes: &[u8]) {
        assert!(self.wire().to_drone[1].is_none(), "the drone has not taken the last one");
        self.wire().to_drone[1] = Some(bytes.to_vec());
        self.round();
    }
}

fn packet(number: u8) -> [u8; 3] {
    [0xF0, number, 1]
}

#[test]
fn a_computer_sees_what_the_official_clients_look_for() {
    let mut computer = Computer::configured();
    let about = computer.control((0x80, 6, 0x100, 0, 18)).unwrap();
    assert_eq!(about.len(), 18);
    assert_eq!((about[2..4].to_vec(), about[7]), (vec![0x00, 0x02], 64), "USB 2.0, 64 bytes for requests");
    assert_eq!((u16::from_le_bytes([about[8], about[9]]), u16::from_le_bytes([about[10], about[11]])), IDS);
    assert_eq!((about[8..12].to_vec(), about[17]), (vec![0x83, 0x04, 0x40, 0x57], 1));
    assert_eq!(computer.text(about[14]), "Bitcraze AB");
    assert_eq!((computer.text(about[14]), computer.text(about[15])), (MANUFACTURER.into(), PRODUCT.into()));
    assert_eq!(computer.text(about[16]), SERIAL);
    let configuration = computer.control((0x80, 6, 0x200, 0, 255)).unwrap();
    assert_eq!(configuration.len(), 9 + 9 + 7 + 7);
    assert_eq!(configuration[7], 0xC0, "powered by its battery");
    assert_eq!(configuration[9..18], [9, 4, 0, 0, 2, 0xFF, 0, 0, 0], "one interface of the vendor's class");
    assert_eq!(configuration[18..25], [7, 5, 0x81, 2, 64, 0, 0], "bulk to the computer");
    assert_eq!(configuration[25..32], [7, 5, 0x01, 2, 64, 0, 0], "bulk to the drone");
}

#[test]
fn a_cable_that_only_charges_changes_nothing() {
    let mut computer = Computer::new();
    computer.round();
    assert!(!computer.usb.is_on(), "nothing plugged in");
    let mut computer = Computer::configured();
    assert!(!computer.usb.is_on() && !computer.usb.may_post());
    computer.send(&packet(1));
    computer.usb.post(&Packet::from_bytes(&packet(2)).unwrap());
    for _ in 0..10 {
        computer.round();
    }
    assert_eq!((computer.heard, computer.fetch(1)), (0, None), "taken from the bus, but not heard");
}

#[test]
fn packets_go_both_ways_once_a_client_asks_for_it_and_until_it_takes_it_back() {
    let mut computer = Computer::connected();
    for number in 0..100 {
        computer.send(&packet(number));
        assert_eq!(computer.fetch(1).unwrap(), packet(number));
    }
    assert!(computer.usb.may_post());
    computer.usb.post(&Packet::from_bytes(&packet(200)).unwrap());
    assert_eq!(computer.fetch(1).unwrap(), packet(200), "what the drone says by itself");
    computer.control(TO_RADIO).unwrap();
    assert!(!computer.usb.is_on());
    computer.send(&packet(1));
    assert_eq!((computer.heard, computer.fetch(1)), (100, None));
    computer.control(TO_USB).unwrap();
    computer.send(&packet(2));
    assert_eq!(computer.fetch(1).unwrap(), packet(2));
}

#[test]
fn other_requests_are_refused() {
    let mut computer = Computer::configured();
    let (kind, request, value, index, length) = TO_USB;
    for wrong in [
        (0x41, request, value, index, length),
        (0x20, request, value, index, length),
        (kind, 2, value, index, length),
        (kind, request, 2, index, length),
        (0xC0, request, value, index, 8),
    ] {
        assert_eq!(computer.control(wrong), None, "{wrong:?}");
        assert!(!computer.usb.is_on(), "{wrong:?}");
    }
    computer.control(TO_USB).unwrap();
    assert!(computer.usb.is_on(), "and the right one still works");
}

#[test]
fn a_pulled_cable_a_sleeping_computer_and_a_reset_end_it() {
    for end in 0..3 {
        let mut computer = Computer::connected();
        for number in 0..5 {
            computer.usb.post(&Packet::from_bytes(&packet(number)).unwrap());
        }
        match end {
            0 | 1 => computer.wire().is_suspended = true,
            _ => computer.wire().is_reset = true,
        }
        computer.round();
        assert!(!computer.usb.is_on() && !computer.usb.may_post(), "{end}");
        computer.usb.post(&Packet::from_bytes(&packet(9)).unwrap());
        // The computer wakes up, or the cable comes back: the client must ask again, and hears nothing old
        // but what the controller had already.
        if end == 0 {
            computer.wire().is_resumed = true;
        } else {
            computer.wire().is_reset = true;
            computer.round();
            computer.control((0x00, 5, 7, 0, 0)).unwrap();
            computer.control((0x00, 9, 1, 0, 0)).unwrap();
        }
        computer.round();
        assert!(!computer.usb.is_on(), "{end}");
        let old = computer.fetch(1);
        assert!(old.is_none_or(|bytes| bytes == packet(0)), "{end}");
        computer.control(TO_USB).unwrap();
        assert_eq!(computer.fetch(1), None, "{end}");
        computer.send(&packet(7));
        assert_eq!(computer.fetch(1).unwrap(), packet(7), "{end}");
    }
}

#[test]
fn a_computer_that_asks_and_does_not_listen_is_slowed_down_and_loses_answers_not_the_drone() {
    let mut computer = Computer::connected();
    let (mut taken, mut waited_ms) = (0_u8, 0);
    while waited_ms < 20 {
        if computer.wire().to_drone[1].is_none() {
            (taken, waited_ms) = (taken + 1, 0);
            computer.wire().to_drone[1] = Some(packet(taken).to_vec());
        }
        computer.round();
        waited_ms += 1;
    }
    assert_eq!(computer.heard, 17, "one in the controller, sixteen that wait");
    assert_eq!(computer.usb.lost(), 0);
    // It listens again: every answer is there, in order.
    let answers: Vec<_> = std::iter::from_fn(|| computer.fetch(1)).collect();
    assert_eq!(answers.len(), 18);
    assert!((1..).zip(&answers).all(|(number, answer)| *answer == packet(number)));
    // One that never listens must not keep the bus from its requests.
    for number in 0..18 {
        computer.wire().to_drone[1].get_or_insert_with(|| packet(number).to_vec());
        computer.round();
    }
    assert!(computer.wire().to_drone[1].is_some());
    for _ in 0..300 {
        computer.round();
    }
    assert!(computer.wire().to_drone[1].is_none());
    assert_eq!(computer.usb.lost(), 1);
}

#[test]
fn transfers_that_are_no_packet_are_counted_and_dropped() {
    let mut computer = Computer::connected();
    for bytes in [&[][..], &[0; 33], &[0xFF; 64]] {
        computer.send(bytes);
    }
    assert_eq!((computer.heard, computer.usb.bad()), (0, 3));
    computer.send(&[0xF0; 32]);
    assert_eq!(computer.fetch(1).unwrap(), [0xF0; 32], "the longest one");
}

/// A program that crashed cannot take its request back: after two seconds the radio has everything again.
#[test]
fn a_client_that_is_gone_without_a_word_is_given_up_until_it_asks_again() {
    let mut computer = Computer::connected();
    for number in 0..2 {
        computer.usb.post(&Packet::from_bytes(&packet(number)).unwrap());
    }
    for _ in 0..1990 {
        computer.round();
    }
    assert!(computer.usb.is_on());
    for _ in 0..20 {
        computer.round();
    }
    assert!(!computer.usb.is_on());
    // It was only busy: what waited is lost, but for what the controller had, and it goes on.
    computer.send(&packet(7));
    assert!(computer.usb.is_on());
    assert_eq!(computer.fetch(1).unwrap(), packet(0));
    assert_eq!(computer.fetch(1).unwrap(), packet(7));
    // One that fetches a packet now and then is there.
    for number in 0..10 {
        computer.usb.post(&Packet::from_bytes(&packet(number)).unwrap());
        computer.usb.post(&Packet::from_bytes(&packet(number)).unwrap());
        for _ in 0..1500 {
            computer.round();
        }
        assert!(computer.usb.is_on());
        while computer.fetch(1).is_some() {}
    }
}
