//! The cable: a USB device that carries CRTP packets, as the official firmware's does.
//!
//! Vendor and product numbers, strings, endpoints and the one vendor request are those that cflib, cfclient and
//! `steady` look for. Packets go by two bulk endpoints, one packet per transfer. A cable that only charges
//! changes nothing: packets count, and answers go there, from the client's request on until it takes it
//! back, the computer resets or suspends the device, or the cable is pulled.
//!
//! The device is polled and never waited for. What a poll finds is little: one event each.

use heapless::Deque;
use steady_common::crtp::Packet;
use usb_device::bus::{InterfaceNumber, UsbBus, UsbBusAllocator};
use usb_device::class::{ControlOut, UsbClass};
use usb_device::control::{Recipient, RequestType};
use usb_device::descriptor::DescriptorWriter;
use usb_device::device::{StringDescriptors, UsbDevice, UsbDeviceBuilder, UsbDeviceState, UsbRev, UsbVidPid};
use usb_device::endpoint::{EndpointAddress, EndpointIn, EndpointOut, EndpointType};

/// Vendor and product number.
pub const IDS: (u16, u16) = (0x0483, 0x5740);
/// Clients take only devices of this manufacturer for a Crazyflie: the numbers are those of a chip.
pub const MANUFACTURER: &str = "Bitcraze AB";
/// Name of the product.
pub const PRODUCT: &str = "Crazyflie 2.X";
/// Most bytes of a transfer; of a packet there are at most 32.
pub const TRANSFER_SIZE: usize = 64;
/// The vendor request that says where packets go, with this value; the index is 1 for USB.
pub const ROUTE_REQUEST: (u8, u16) = (1, 1);

/// Address of the bulk endpoints, to the drone and from it.
const OUT: u8 = 0x01;
const IN: u8 = 0x81;
/// Subclass and protocol of a vendor's own class say nothing.
const VENDOR_CLASS: u8 = 0xFF;
/// Events looked at in one round: a packet is two, a control transfer up to six.
const EVENTS: usize = 6;
/// Answers that wait for the computer to fetch them.
const OUTBOX: usize = 16;
/// How long a client that asks but does not listen is waited for, ms. Until then its questions wait in the
/// controller, and with them its requests: the controller has one queue.
const PATIENCE_MS: u32 = 200;
/// How long a packet may wait before its client is taken to be gone without a word, ms. Programs that live fetch
/// packets all the time.
const GONE_MS: u32 = 2000;

/// The interface: two endpoints, one request.
struct Interface<'a, B: UsbBus> {
    number: InterfaceNumber,
    to_host: EndpointIn<'a, B>,
    from_host: EndpointOut<'a, B>,
    /// A client wants its packets here.
    is_wanted: bool,
}

impl<B: UsbBus> UsbClass<B> for Interface<'_, B> {
    fn get_configuration_descriptors(&self, writer: &mut DescriptorWriter<'_>) -> usb_device::Result<()> {
        writer.interface(self.number, VENDOR_CLASS, 0, 0)?;
        writer.endpoint(&self.to_host)?;
        writer.endpoint(&self.from_host)
    }

    fn reset(&mut self) {
        self.is_wanted = false;
    }

    fn control_out(&mut self, transfer: ControlOut<'_, '_, '_, B>) {
        let request = *transfer.request();
        let (number, value) = ROUTE_REQUEST;
        if request.request_type == RequestType::Vendor
            && request.recipient == Recipient::Device
            && (request.request, request.value) == (number, value)
        {
            self.is_wanted = request.index == 1;
            // Only a host that has begun another request meanwhile does not get the confirmation.
            let _ = transfer.accept();
        }
    }
}

/// The device with the packets that wait.
pub struct Usb<'a, B: UsbBus> {
    device: UsbDevice<'a, B>,
    interface: Interface<'a, B>,
    outbox: Deque<Packet, OUTBOX>,
    full_since_ms: Option<u32>,
    /// Since when the first packet has been waiting.
    waiting_since_ms: Option<u32>,
    /// The client is taken to be gone; it asks, and is there again.
    is_deaf: bool,
    lost: u32,
    bad: u32,
}

impl<B: UsbBus> core::fmt::Debug for Usb<'_, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Usb").field("state", &self.device.state()).finish_non_exhaustive()
    }
}

impl<'a, B: UsbBus> Usb<'a, B> {
    /// Connects to the bus; `serial` is the drone's number. Nothing when the controller lacks room for the
    /// endpoints.
    #[must_use]
    pub fn new(bus: &'a UsbBusAllocator<B>, serial: &'a str) -> Option<Self> {
        let size = TRANSFER_SIZE as u16;
        let interface = Interface {
            number: bus.interface(),
            to_host: bus.alloc(Some(EndpointAddress::from(IN)), EndpointType::Bulk, size, 0).ok()?,
            from_host: bus.alloc(Some(EndpointAddress::from(OUT)), EndpointType::Bulk, size, 0).ok()?,
            is_wanted: false,
        };
        let strings =
            StringDescriptors::default().manufacturer(MANUFACTURER).product(PRODUCT).serial_number(serial);
        let device = UsbDeviceBuilder::new(bus, UsbVidPid(IDS.0, IDS.1))
            .strings(&[strings])
            .ok()?
            .max_packet_size_0(64)
            .ok()?
            .usb_rev(UsbRev::Usb200)
            .device_release(0x0200)
            .self_powered(true)
            .build();
        Some(Self {
            device,
            interface,
            outbox: Deque::new(),
            full_since_ms: None,
            waiting_since_ms: None,
            is_deaf: false,
            lost: 0,
            bad: 0,
        })
    }

    /// True while a client at the other end wants its packets here, and fetches them.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_wanted() && !self.is_deaf
    }

    fn is_wanted(&self) -> bool {
        self.interface.is_wanted && self.device.state() == UsbDeviceState::Configured
    }

    /// Answers that nobody fetched.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Transfers that were no packet.
    #[must_use]
    pub fn bad(&self) -> u32 {
        self.bad
    }

    /// Looks what has happened on the bus, hands the next packets out, and takes the next ones in; `handle`
    /// gives the answer to a packet. To be called at least every ten milliseconds.
    pub fn poll(&mut self, now_ms: u32, mut handle: impl FnMut(&Packet) -> Option<Packet>) {
        for _ in 0..EVENTS {
            self.device.poll(&mut [&mut self.interface]);
            if self.device.state() == UsbDeviceState::Suspend {
                // The cable is out, or the computer asleep: its client has to ask again.
                self.interface.is_wanted = false;
            }
            self.send();
            if self.may_receive(now_ms)
                && let Some(packet) = self.receive()
                && let Some(answer) = handle(&packet)
            {
                self.post(&answer);
            }
        }
        if self.outbox.is_empty() {
            self.waiting_since_ms = None;
        } else {
            let since_ms = *self.waiting_since_ms.get_or_insert(now_ms);
            self.is_deaf |= now_ms.wrapping_sub(since_ms) >= GONE_MS;
        }
        self.is_deaf &= self.is_wanted();
        if !self.is_on() {
            self.outbox.clear();
        }
    }

    /// True when there is room for what the drone has to say by itself.
    #[must_use]
    pub fn may_post(&self) -> bool {
        self.is_on() && self.outbox.is_empty()
    }

    /// Lets a packet wait for the computer.
    pub fn post(&mut self, packet: &Packet) {
        if self.is_on() && self.outbox.push_back(*packet).is_err() {
            self.lost = self.lost.wrapping_add(1);
        }
        self.send();
    }

    /// Hands packets out until the controller is busy with one.
    fn send(&mut self) {
        while let Some(packet) = self.outbox.front() {
            if !self.is_on() || self.interface.to_host.write(packet.bytes()).is_err() {
                break;
            }
            self.outbox.pop_front();
            self.waiting_since_ms = None;
        }
    }

    /// False while answers wait for the computer, but not for ever.
    fn may_receive(&mut self, now_ms: u32) -> bool {
        if !self.outbox.is_full() {
            self.full_since_ms = None;
            return true;
        }
        now_ms.wrapping_sub(*self.full_since_ms.get_or_insert(now_ms)) >= PATIENCE_MS
    }

    fn receive(&mut self) -> Option<Packet> {
        let mut bytes = [0; TRANSFER_SIZE];
        // Nothing has come: the usual case.
        let length = self.interface.from_host.read(&mut bytes).ok()?;
        if !self.is_wanted() {
            return None;
        }
        self.is_deaf = false;
        let packet = bytes.get(..length).and_then(Packet::from_bytes);
        if packet.is_none() {
            self.bad = self.bad.wrapping_add(1);
        }
        packet
    }
}
