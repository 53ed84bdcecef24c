//! The cable to a drone's own USB socket: one packet per bulk transfer.
//!
//! Nothing gets lost on it, and the drone need not be polled. It listens from the client's request on, and
//! goes back to the radio when the client goes. The bootloader is at the radio processor, out of its reach.

use std::time::Duration;

use steady_common::crtp::Packet;

use super::{Link, Peer, Traffic};
use crate::error::{Error, Result};

/// How long the drone may be busy before a packet counts as lost.
const BUSY: Duration = Duration::from_millis(500);
/// Silence after which nothing of an earlier client is left in the drone.
const QUIET: Duration = Duration::from_millis(20);
/// Most packets that an earlier client may have left there.
const LEFT_OVER: usize = 64;

/// Single transfers: a cable, or a model of one.
pub trait Cable {
    /// Asks the drone to exchange packets here, or by radio again.
    ///
    /// # Errors
    /// If the cable is gone.
    fn route(&mut self, to_usb: bool) -> Result<()>;

    /// Hands a packet over; false when the drone did not take it in time.
    ///
    /// # Errors
    /// If the cable is gone.
    fn write(&mut self, bytes: &[u8], wait: Duration) -> Result<bool>;

    /// Waits for a transfer.
    ///
    /// # Errors
    /// If the cable is gone.
    fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>>;

    /// Time since it was opened.
    fn now(&self) -> Duration;
}

/// A link by cable.
#[derive(Debug)]
pub struct Usb<C: Cable> {
    cable: C,
    traffic: Traffic,
}

impl<C: Cable> Usb<C> {
    /// Has the drone talk by this cable.
    ///
    /// # Errors
    /// If the cable is gone.
    pub fn new(mut cable: C) -> Result<Self> {
        cable.route(false)?;
        for _ in 0..LEFT_OVER {
            if cable.read(QUIET)?.is_none() {
                break;
            }
        }
        cable.route(true)?;
        Ok(Self { cable, traffic: Traffic::default() })
    }
}

impl<C: Cable> Drop for Usb<C> {
    fn drop(&mut self) {
        // A drone that is gone goes back by itself.
        let _ = self.cable.route(false);
    }
}

impl<C: Cable> Link for Usb<C> {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        self.traffic.sent += u64::from(!packet.is_null());
        self.cable.write(packet.bytes(), BUSY).map(|_| ())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let until = self.cable.now() + wait;
        loop {
            let left = until.saturating_sub(self.cable.now());
            let Some(bytes) = self.cable.read(left)? else { return Ok(None) };
            // Transfers that are no packet, and empty packets, are of no use to anybody.
            if let Some(packet) = Packet::from_bytes(&bytes).filter(|packet| !packet.is_null()) {
                self.traffic.received += 1;
                return Ok(Some(packet));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn now(&self) -> Duration {
        self.cable.now()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn has_radio_processor(&self) -> bool {
        false
    }

    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        match peer {
            Peer::Firmware => Ok(()),
            Peer::Bootloader { .. } => Err(Error::no_bootloader()),
        }
    }
}

#[cfg(feature = "dongle")]
pub use socket::{Socket, scan};

/// The USB sockets of this machine.
#[cfg(feature = "dongle")]
mod socket {
    use std::time::{Duration, Instant};

    use rusb::{Device, DeviceHandle, GlobalContext};

    use super::{Cable, Usb};
    use crate::error::{Error, Result};
    use crate::link::{UDEV_RULE_DRONE, permission};
    use crate::uri::UsbUri;

    /// Vendor and product: a chip's, so that the manufacturer must be looked at too.
    const IDS: (u16, u16) = (0x0483, 0x5740);
    const MANUFACTURER: &str = "Bitcraze AB";
    const TO_DRONE: u8 = 0x01;
    const FROM_DRONE: u8 = 0x81;
    /// A request of the vendor to the device, from the computer.
    const VENDOR_OUT: u8 = 0x40;
    /// Where packets go: number and value of the request; its index is 1 for USB.
    const ROUTE: (u8, u16) = (1, 1);
    const REQUEST_TIME: Duration = Duration::from_secs(1);
    const MISSING: &str = "no drone was found on USB: plug it in, switch it on, and see whether `lsusb -d 0483:5740` shows \
                           it; one that runs another firmware or is in its bootloader is not listed";

    /// A drone's cable in a socket of this machine.
    pub struct Socket {
        handle: DeviceHandle<GlobalContext>,
        opened: Instant,
    }

    pub(super) fn explain(error: rusb::Error) -> Error {
        Error::Dongle(match error {
            rusb::Error::Access => permission("drone (or another device with its numbers)", UDEV_RULE_DRONE),
            rusb::Error::Busy => {
                "the drone's USB is in use by another program: close it (cfclient, another steady)".to_owned()
            }
            rusb::Error::NoDevice | rusb::Error::Io | rusb::Error::Pipe => {
                "the drone's cable was pulled, or the drone was switched off: plug it in and try again"
                    .to_owned()
            }
            error => format!("the drone's USB fails ({error}): unplug it, plug it in and try again"),
        })
    }

    /// A drone in a socket, opened.
    struct Found {
        handle: DeviceHandle<GlobalContext>,
        serial: String,
    }

    /// Looks at a device; nothing when it is something else.
    fn look(device: &Device<GlobalContext>) -> Option<rusb::Result<Found>> {
        let about = device.device_descriptor().ok()?;
        if (about.vendor_id(), about.product_id()) != IDS {
            return None;
        }
        let read = || {
            let handle = device.open()?;
            let manufacturer = handle.read_manufacturer_string_ascii(&about)?;
            let serial = handle.read_serial_number_string_ascii(&about)?;
            Ok((manufacturer, Found { handle, serial }))
        };
        match read() {
            Ok((manufacturer, found)) => (manufacturer == MANUFACTURER).then_some(Ok(found)),
            Err(error) => Some(Err(error)),
        }
    }

    fn drones() -> Result<Vec<rusb::Result<Found>>> {
        Ok(rusb::devices().map_err(explain)?.iter().filter_map(|device| look(&device)).collect())
    }

    /// How many drones there are; their addresses count from 0.
    ///
    /// # Errors
    /// If there is one that may not be used.
    pub fn scan() -> Result<usize> {
        let drones = drones()?.into_iter().collect::<rusb::Result<Vec<Found>>>().map_err(explain)?;
        Ok(drones.len())
    }

    impl Socket {
        /// Opens a drone.
        ///
        /// # Errors
        /// If there is none, or it may not be used; the text says what to do.
        pub fn open(uri: &UsbUri) -> Result<Usb<Self>> {
            let (mut refused, mut serials) = (None, Vec::new());
            for (number, drone) in drones()?.into_iter().enumerate() {
                let found = match drone {
                    Ok(found) => found,
                    Err(error) => {
                        refused = Some(error);
                        continue;
                    }
                };
                if uri.matches(number, &found.serial) {
                    // Other systems than Linux have no such driver.
                    let _ = found.handle.set_auto_detach_kernel_driver(true);
                    found.handle.claim_interface(0).map_err(explain)?;
                    return Usb::new(Self { handle: found.handle, opened: Instant::now() });
                }
                serials.push(found.serial);
            }
            Err(match refused {
                Some(error) => explain(error),
                None if serials.is_empty() => Error::Dongle(MISSING.to_owned()),
                None => {
                    let there = serials.join(", ");
                    Error::Dongle(format!("no drone at usb://{uri}; on USB there is: {there}"))
                }
            })
        }
    }

    /// A time-out of zero would mean none.
    fn at_least_a_millisecond(wait: Duration) -> Duration {
        wait.max(Duration::from_millis(1))
    }

    impl Cable for Socket {
        fn route(&mut self, to_usb: bool) -> Result<()> {
            let (request, value) = ROUTE;
            self.handle
                .write_control(VENDOR_OUT, request, value, u16::from(to_usb), &[], REQUEST_TIME)
                .map(|_| ())
                .map_err(explain)
        }

        fn write(&mut self, bytes: &[u8], wait: Duration) -> Result<bool> {
            match self.handle.write_bulk(TO_DRONE, bytes, at_least_a_millisecond(wait)) {
                Ok(_) => Ok(true),
                Err(rusb::Error::Timeout) => Ok(false),
                Err(error) => Err(explain(error)),
            }
        }

        fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
            let mut bytes = vec![0; 64];
            match self.handle.read_bulk(FROM_DRONE, &mut bytes, at_least_a_millisecond(wait)) {
                Ok(length) => {
                    bytes.truncate(length);
                    Ok(Some(bytes))
                }
                Err(rusb::Error::Timeout) => Ok(None),
                Err(error) => Err(explain(error)),
            }
        }

        fn now(&self) -> Duration {
            self.opened.elapsed()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;

    /// A drone that echoes packets while it is switched to USB.
    #[derive(Default)]
    struct Drone {
        is_on: bool,
        routes: Vec<bool>,
        waiting: VecDeque<Vec<u8>>,
        is_busy: bool,
        is_gone: bool,
        now: Duration,
    }

    impl Cable for Rc<RefCell<Drone>> {
        fn route(&mut self, to_usb: bool) -> Result<()> {
            let mut drone = self.borrow_mut();
            drone.is_on = to_usb;
            drone.routes.push(to_usb);
            Ok(())
        }
        fn write(&mut self, bytes: &[u8], wait: Duration) -> Result<bool> {
            let mut drone = self.borrow_mut();
            if drone.is_gone {
                return Err(Error::Dongle("gone".to_owned()));
            }
            if drone.is_busy {
                drone.now += wait;
                return Ok(false);
            }
            if drone.is_on {
                drone.waiting.push_back(bytes.to_vec());
            }
            Ok(true)
        }
        fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
            let mut drone = self.borrow_mut();
            let bytes = drone.waiting.pop_front();
            if bytes.is_none() {
                drone.now += wait;
            }
            Ok(bytes)
        }
        fn now(&self) -> Duration {
            self.borrow().now
        }
    }

    const WAIT: Duration = Duration::from_millis(50);

    #[test]
    fn a_link_switches_the_drone_to_usb_and_back_and_hears_nothing_old() {
        let drone = Rc::new(RefCell::new(Drone::default()));
        drone.borrow_mut().waiting.extend([vec![0xD1, 9], vec![0xD1, 8]]);
        let mut link = Usb::new(Rc::clone(&drone)).unwrap();
        assert_eq!(link.receive(WAIT).unwrap(), None, "what an earlier client left is gone");
        let packet = Packet::from_bytes(&[0xD1, 0]).unwrap();
        link.send(&packet).unwrap();
        for nonsense in [vec![], vec![0; 33], vec![0xFF]] {
            drone.borrow_mut().waiting.push_front(nonsense);
        }
        assert_eq!(link.receive(WAIT).unwrap(), Some(packet));
        assert_eq!(link.traffic(), Traffic { sent: 1, received: 1, ..Traffic::default() });
        drop(link);
        assert_eq!(drone.borrow().routes, [false, true, false]);
    }

    #[test]
    fn a_busy_drone_is_waited_for_and_a_pulled_cable_is_told() {
        let drone = Rc::new(RefCell::new(Drone::default()));
        let mut link = Usb::new(Rc::clone(&drone)).unwrap();
        let packet = Packet::from_bytes(&[0xD1, 0]).unwrap();
        drone.borrow_mut().is_busy = true;
        let before = link.now();
        link.send(&packet).unwrap();
        assert_eq!(link.now() - before, BUSY, "lost, as by radio: the question is repeated");
        drone.borrow_mut().is_gone = true;
        assert_eq!(link.send(&packet).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn the_bootloader_is_refused_before_anything_is_done() {
        let drone = Rc::new(RefCell::new(Drone::default()));
        let mut link = Usb::new(Rc::clone(&drone)).unwrap();
        let error = crate::bootloader::Bootloader::enter(&mut link).unwrap_err().to_string();
        assert!(error.contains("radio://"), "{error}");
        assert!(drone.borrow().waiting.is_empty(), "nothing was sent");
        assert!(crate::bootloader::Bootloader::cold(&mut link).is_err());
    }

    #[cfg(feature = "dongle")]
    #[test]
    fn usb_errors_end_in_what_to_do() {
        for (error, words) in [
            (rusb::Error::Access, &["99-bitcraze.rules", "0483", "5740", "udevadm", "plugdev"][..]),
            (rusb::Error::Busy, &["another program"]),
            (rusb::Error::NoDevice, &["plug it in"]),
            (rusb::Error::Pipe, &["plug it in"]),
            (rusb::Error::Other, &["plug it in"]),
        ] {
            let error = socket::explain(error);
            assert_eq!(error.exit_code(), 3);
            assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        }
    }
}
