//! UDP link to the virtual Crazyflie: one packet per datagram, as in the official Python client. Its
//! radio processor may have safelink on like a real one's.

use std::io::ErrorKind;
use std::net::{ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use steady_common::crtp::Packet;

use super::esb::Numbering;
use super::{Link, Peer, Traffic};
use crate::error::{Error, Result};

/// A link over UDP.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    opened: Instant,
    traffic: Traffic,
    numbering: Numbering,
}

impl Udp {
    /// Opens a link to HOST:PORT. A missing drone shows only with the first request.
    ///
    /// # Errors
    /// If the host is not known, or the system has no socket for us.
    pub fn open(address: &str) -> Result<Self> {
        let failed = |error| Error::Io { what: format!("cannot talk to udp://{address}"), error };
        let peer = address
            .to_socket_addrs()
            .map_err(failed)?
            .next()
            .ok_or_else(|| failed(std::io::Error::new(ErrorKind::NotFound, "the host has no address")))?;
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(peer).map_err(failed)?;
        Ok(Self {
            socket,
            opened: Instant::now(),
            traffic: Traffic::default(),
            numbering: Numbering::default(),
        })
    }
}

impl Udp {
    fn put(&self, packet: &Packet) -> Result<()> {
        match self.socket.send(packet.bytes()) {
            Err(error) if !is_absence(error.kind()) => {
                Err(Error::Io { what: "sending a datagram failed".to_owned(), error })
            }
            _ => Ok(()),
        }
    }
}

/// Without a drone on the port, datagrams are refused. It may come back.
fn is_absence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

impl Link for Udp {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        self.traffic.sent += u64::from(packet.bytes().len() > 1);
        if let Some(switch) = self.numbering.switch() {
            self.put(&switch)?;
        }
        let packet = self.numbering.stamp(packet);
        self.numbering.next();
        self.put(&packet)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let failed = |error| Error::Io { what: "waiting for a datagram failed".to_owned(), error };
        let until = Instant::now() + wait;
        let mut buffer = [0; 2048];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // A timeout of zero would mean no timeout.
            self.socket.set_read_timeout(Some(left.max(Duration::from_micros(100)))).map_err(failed)?;
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    // Invalid packets and echoed polls are ignored.
                    if let Some(packet) = buffer.get(..length).and_then(Packet::from_bytes)
                        && length > 1
                        && !self.numbering.hear(&packet)
                    {
                        self.traffic.received += 1;
                        return Ok(Some(packet));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_absence(error.kind()) => {
                    std::thread::sleep(left.min(Duration::from_millis(10)));
                }
                Err(error) => return Err(failed(error)),
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        self.numbering.begin(peer);
        // One drone, one socket: whichever program runs answers.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use steady_common::crtp::link;

    use super::*;

    #[test]
    fn packets_go_both_ways_and_nonsense_is_dropped() {
        let drone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut udp = Udp::open(&drone.local_addr().unwrap().to_string()).unwrap();
        let packet = Packet::from_bytes(&[0xD1, 0]).unwrap();
        udp.send(&packet).unwrap();
        let mut buffer = [0; 64];
        let (length, _) = drone.recv_from(&mut buffer).unwrap();
        assert_eq!(Packet::from_bytes(&buffer[..length]), Some(link::safelink(false)));
        let (length, from) = drone.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], packet.bytes());
        for datagram in [&[][..], &[0xFF], &[0; 33], &[0xFF, 0x05, 0x00], &[0xD1, 0, 12]] {
            drone.send_to(datagram, from).unwrap();
        }
        let got = udp.receive(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(got.bytes(), [0xD1, 0, 12]);
        assert_eq!(udp.traffic(), Traffic { sent: 1, received: 1, ..Traffic::default() });
    }

    #[test]
    fn nobody_there_is_silence() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut link = Udp::open(&port.to_string()).unwrap();
        for _ in 0..3 {
            link.send(&Packet::from_bytes(&[0xD1, 0]).unwrap()).unwrap();
            assert_eq!(link.receive(Duration::from_millis(5)).unwrap(), None);
        }
    }
}
