//! Searches for drones.

use std::net::UdpSocket;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::uri::Uri;

/// Ports on which virtual drones listen.
const PORTS: std::ops::RangeInclusive<u16> = 19850..=19859;
/// How long a virtual drone may take to answer.
const WAIT: Duration = Duration::from_millis(100);

/// Virtual drones on a host, by a poll to each of the usual ports.
///
/// # Errors
/// If the system has no socket for us.
pub fn udp(host: &str) -> Result<Vec<Uri>> {
    let failed = |error| Error::Io { what: format!("cannot look for drones on {host}"), error };
    let mut found = Vec::new();
    let mut sockets = Vec::new();
    for port in PORTS {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
        socket.set_read_timeout(Some(WAIT)).map_err(failed)?;
        // Unknown hosts and closed ports have no drones.
        if socket.connect((host, port)).is_ok() && socket.send(&[0xFF]).is_ok() {
            sockets.push((port, socket));
        }
    }
    for (port, socket) in sockets {
        if socket.recv(&mut [0; 64]).is_ok() {
            found.push(Uri::Udp(format!("{host}:{port}")));
        }
    }
    Ok(found)
}

/// Drones on a cable.
///
/// # Errors
/// If there is one that may not be used, or this program was built without support for USB.
pub fn usb() -> Result<Vec<Uri>> {
    #[cfg(feature = "dongle")]
    let found = crate::link::scan_usb()
        .map(|count| (0..count).map(|n| Uri::Usb(crate::uri::UsbUri::Number(n))).collect());
    #[cfg(not(feature = "dongle"))]
    let found = Err(Error::Dongle("this program was built without USB".to_owned()));
    found
}

/// Drones that acknowledge at an address, through a dongle.
///
/// # Errors
/// If the dongle cannot be used.
#[cfg(feature = "dongle")]
pub fn radio(dongle: usize, address: [u8; 5]) -> Result<Vec<Uri>> {
    Ok(crate::link::Dongle::scan(dongle, address)?.into_iter().map(Uri::Radio).collect())
}

/// Drones that acknowledge at an address, through a dongle.
///
/// # Errors
/// Always: this program was built without support for the dongle.
#[cfg(not(feature = "dongle"))]
pub fn radio(_dongle: usize, _address: [u8; 5]) -> Result<Vec<Uri>> {
    Err(Error::Dongle("this program was built without the Crazyradio".to_owned()))
}
