//! The radio link on top of single transmissions: repeats, polls, and safelink.
//!
//! The drone answers with the acknowledgement, so there is one thread and no queue but the answers that
//! came while sending.
//!
//! Safelink is a state of the drone's radio processor. Clients switch it on and leave it on, and then it
//! acknowledges but drops every packet whose number repeats. So it is switched off before the first
//! packet, after every change of target, and when the drone was away: two programs can then talk to one
//! drone, and single questions are repeated until they are answered anyway. For many questions at once it
//! is switched on, because then an answer whose acknowledgement was lost comes again at once. Packets are
//! always numbered: when another program switches safelink in between, at most every second packet is
//! dropped.

use std::collections::VecDeque;
use std::time::Duration;

use steady_common::crtp::{Packet, link};

use super::{Link, Peer, Traffic};
use crate::error::Result;

/// How often a packet is sent before it is taken for lost; each time the dongle itself tries four times.
const TRIES: usize = 10;
/// Transmissions without an acknowledgement after which the drone may have restarted.
const AWAY: u32 = 100;
/// Empty answers in a row after which polling slows down.
const EMPTY_POLLS: u32 = 10;
/// Pause between polls then.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ack {
    /// What it carried.
    pub packet: Option<Packet>,
    /// Its signal strength, dBm, if the dongle reports it.
    pub rssi_dbm: Option<f64>,
}

/// Transmits single packets: a dongle, or a model of one.
pub trait Transmitter {
    /// One transmission; `None` when nobody acknowledged it.
    ///
    /// # Errors
    /// If the transmitter itself is gone.
    fn transmit(&mut self, packet: &Packet) -> Result<Option<Ack>>;

    /// Talks to this program from now on.
    ///
    /// # Errors
    /// If the transmitter itself is gone.
    fn tune(&mut self, peer: Peer) -> Result<()>;

    /// Time since it was opened.
    fn now(&self) -> Duration;

    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// Numbers packets as safelink does, and knows whether it was switched as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbering {
    up: bool,
    down: bool,
    wanted: bool,
    /// The drone has confirmed what is wanted.
    is_confirmed: bool,
    /// Confirmations so far: each sets the numbers anew.
    confirmed: u32,
    /// It knows no safelink.
    is_bootloader: bool,
}

impl Numbering {
    /// What must still be sent, until the drone has confirmed it.
    pub(super) fn switch(self) -> Option<Packet> {
        (!self.is_confirmed && !self.is_bootloader).then(|| link::safelink(self.wanted))
    }

    /// Safelink is to be on or off.
    pub(super) fn want(&mut self, on: bool) {
        self.is_confirmed &= self.wanted == on;
        self.wanted = on;
    }

    /// The packet with its numbers.
    pub(super) fn stamp(self, packet: &Packet) -> Packet {
        if self.is_bootloader { *packet } else { packet.numbered(self.up, self.down) }
    }

    /// The packet has arrived: the next one gets the other numbers.
    pub(super) fn next(&mut self) {
        (self.up, self.down) = (!self.up, !self.down);
    }

    /// True for the confirmation of a switch, which is of no use to anybody else.
    pub(super) fn hear(&mut self, packet: &Packet) -> bool {
        let switched = link::is_safelink(packet);
        if switched == Some(self.wanted) {
            // The radio processor's numbers are 1 after that.
            (self.up, self.down, self.is_confirmed) = (false, false, true);
            self.confirmed = self.confirmed.wrapping_add(1);
        }
        switched.is_some()
    }

    /// Talks to a program of which nothing is known.
    pub(super) fn begin(&mut self, peer: Peer) {
        (self.wanted, self.is_confirmed, self.is_bootloader) = (false, false, peer != Peer::Firmware);
    }

    /// The drone was away: safelink may be switched otherwise.
    fn doubt(&mut self) {
        self.is_confirmed = false;
    }
}

/// A link through a transmitter.
#[derive(Debug)]
pub struct Esb<T> {
    transmitter: T,
    numbering: Numbering,
    unheard: u32,
    answers: VecDeque<Packet>,
    empty: u32,
    traffic: Traffic,
    rssi: (f64, u64),
}

impl<T: Transmitter> Esb<T> {
    /// A link to the firmware; sends nothing yet.
    ///
    /// # Errors
    /// If the transmitter cannot be tuned.
    pub fn new(transmitter: T) -> Result<Self> {
        let mut link = Self {
            transmitter,
            numbering: Numbering::default(),
            unheard: 0,
            answers: VecDeque::new(),
            empty: 0,
            traffic: Traffic { acknowledged: Some((0, 0)), ..Traffic::default() },
            rssi: (0.0, 0),
        };
        link.switch_to(Peer::Firmware)?;
        Ok(link)
    }

    /// One transmission; true when it was acknowledged.
    fn exchange(&mut self, packet: &Packet) -> Result<bool> {
        let ack = self.transmitter.transmit(packet)?;
        if let Some((good, all)) = &mut self.traffic.acknowledged {
            *all += 1;
            *good += u64::from(ack.is_some());
        }
        let Some(ack) = ack else {
            self.unheard = self.unheard.saturating_add(1);
            if self.unheard >= AWAY {
                self.numbering.doubt();
            }
            return Ok(false);
        };
        self.unheard = 0;
        if let Some(rssi) = ack.rssi_dbm {
            self.rssi = (self.rssi.0 + rssi, self.rssi.1 + 1);
            self.traffic.rssi_dbm = Some(self.rssi.0 / self.rssi.1 as f64);
        }
        match ack.packet {
            Some(packet) if self.numbering.hear(&packet) => {}
            // A lone header is an empty acknowledgement.
            Some(packet) if packet.bytes().len() > 1 => {
                self.empty = 0;
                self.traffic.received += 1;
                self.answers.push_back(packet);
            }
            _ => self.empty = self.empty.saturating_add(1),
        }
        Ok(true)
    }

    /// One transmission of a packet with its numbers, with safelink as it should be if the drone is there.
    fn say(&mut self, packet: &Packet) -> Result<bool> {
        if let Some(switch) = self.numbering.switch() {
            self.exchange(&switch)?;
        }
        let confirmed = self.numbering.confirmed;
        if !self.exchange(&self.numbering.stamp(packet))? {
            return Ok(false);
        }
        // A confirmation once more, because the first was lost: the packet was taken for a repeat.
        if self.numbering.confirmed != confirmed {
            return Ok(false);
        }
        self.numbering.next();
        Ok(true)
    }
}

impl<T: Transmitter> Link for Esb<T> {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        self.traffic.sent += 1;
        self.empty = 0;
        for _ in 0..TRIES {
            if self.say(packet)? {
                break;
            }
        }
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let until = self.now() + wait;
        loop {
            if let Some(packet) = self.answers.pop_front() {
                return Ok(Some(packet));
            }
            let left = until.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(None);
            }
            if self.empty > EMPTY_POLLS {
                self.transmitter.pause(left.min(IDLE_POLL));
            }
            self.say(&Packet::NULL)?;
        }
    }

    fn now(&self) -> Duration {
        self.transmitter.now()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn set_safelink(&mut self, on: bool) -> Result<()> {
        self.numbering.want(on);
        for _ in 0..TRIES {
            let Some(switch) = self.numbering.switch() else { break };
            self.exchange(&switch)?;
        }
        Ok(())
    }

    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        self.answers.clear();
        self.numbering.begin(peer);
        self.transmitter.tune(peer)
    }
}
