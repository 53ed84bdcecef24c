//! The ground: who is at the other end of the radio, in virtual time.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use steady_common::State;
use steady_common::crtp::Packet;
use steady_sim::Rng;
use steady_sim::world::Radio;

use crate::board::Board;
use crate::board::nrf::Ack;
use crate::cortex::unicorn::Memory;
use crate::mission::Mission;
use crate::network::{Network, Trouble};

/// Random stream of the radio's losses.
const RADIO_STREAM: u64 = 2000;
/// Time between polls while there is nothing to say, and while there is.
const IDLE_POLL_US: u64 = 10_000;
const BUSY_POLL_US: u64 = 1_000;
/// Empty answers after which a client polls less often.
const EMPTY_POLLS: u32 = 10;

/// Whatever is at the ground's end of the radio.
pub trait Ground {
    /// A millisecond has passed.
    fn millisecond(&mut self, now_us: u64, truth: &State, board: &mut Board, memory: &mut Memory<'_>);
    /// The mission, where one is flown.
    fn mission(&self) -> Option<&Mission> {
        None
    }
}

/// No ground station.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Ground for Silence {
    fn millisecond(&mut self, _now: u64, _truth: &State, _board: &mut Board, _memory: &mut Memory<'_>) {}
}

/// The radio dongle: polls the drone, repeats what was not acknowledged.
#[derive(Debug)]
pub struct Dongle {
    queue: VecDeque<(u64, Packet)>,
    next_poll_us: u64,
    /// Empty answers in a row, and how many of them make it poll less often.
    empty: (u32, u32),
    rng: Rng,
    radio: Radio,
    /// Packets sent, and polls that were not acknowledged.
    pub polls: (u64, u64),
}

impl Dongle {
    /// A dongle on a radio with losses and latency.
    #[must_use]
    pub fn new(radio: &Radio, seed: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            next_poll_us: 0,
            empty: (0, 0),
            rng: Rng::new(seed, RADIO_STREAM),
            radio: radio.clone(),
            polls: (0, 0),
        }
    }

    /// A dongle as clients drive it: it polls less often only after ten empty answers.
    #[must_use]
    pub fn eager(radio: &Radio, seed: u64) -> Self {
        Self { empty: (0, EMPTY_POLLS), ..Self::new(radio, seed) }
    }

    /// Queues a packet; it goes out in order, after the latency of the way to the dongle.
    pub fn send(&mut self, now_us: u64, packet: Packet) {
        let mut delay_s = self.radio.latency_s;
        if self.radio.jitter_mean_s > 0.0 {
            delay_s += self.radio.jitter_mean_s * -(1.0 - self.rng.uniform()).ln();
        }
        self.queue.push_back((now_us + (delay_s * 1e6) as u64, packet));
        self.next_poll_us = self.next_poll_us.min(now_us + BUSY_POLL_US);
    }

    /// A millisecond: what the drone answered, if anything.
    pub fn poll(&mut self, now_us: u64, board: &mut Board, memory: &mut Memory<'_>) -> Option<Packet> {
        if now_us < self.next_poll_us {
            return None;
        }
        self.polls.0 += 1;
        let ready = self.queue.front().is_some_and(|(at, _)| *at <= now_us);
        let packet = if ready { self.queue.front().map_or(Packet::NULL, |(_, p)| *p) } else { Packet::NULL };
        let is_lost = self.radio.loss_probability > 0.0 && self.rng.chance(self.radio.loss_probability);
        let answer = if is_lost { None } else { board.radio(memory, &packet) };
        let Some(Ack(answer)) = answer else {
            self.polls.1 += 1;
            self.next_poll_us = now_us + BUSY_POLL_US;
            return None;
        };
        let answer = answer.filter(|p| !p.is_null() || p.bytes().len() > 1);
        if ready {
            self.queue.pop_front();
        }
        self.empty.0 = if answer.is_some() || ready { 0 } else { self.empty.0.saturating_add(1) };
        let is_busy = answer.is_some() || !self.queue.is_empty() || self.empty.0 < self.empty.1;
        self.next_poll_us = now_us + if is_busy { BUSY_POLL_US } else { IDLE_POLL_US };
        answer
    }
}

/// A client on the network: one packet a datagram, as the official Python client's UDP driver.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    arrived: Receiver<(SocketAddr, Vec<u8>)>,
    client: Option<SocketAddr>,
    dongle: Dongle,
    broadcast: Option<Receiver<Packet>>,
    uplink: Network,
    downlink: Network,
    /// Datagrams received and sent.
    pub traffic: (u64, u64),
}

impl Udp {
    /// Listens on an address.
    ///
    /// # Errors
    /// If the address is in use or not ours.
    pub fn listen(address: &str, radio: &Radio, seed: u64, trouble: Trouble) -> Result<Self> {
        let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let (sender, arrived) = channel();
        let ears = socket.try_clone()?;
        // The system keeps only few datagrams; this way a burst waits here.
        std::thread::spawn(move || hear(&ears, &sender));
        Ok(Self {
            socket,
            arrived,
            client: None,
            broadcast: None,
            dongle: Dongle::eager(radio, seed),
            uplink: Network::new(trouble, seed, 0),
            downlink: Network::new(trouble, seed, 1),
            traffic: (0, 0),
        })
    }

    /// The same, and packets for all drones arrive here too.
    #[must_use]
    pub fn with_broadcast(mut self, broadcast: Receiver<Packet>) -> Self {
        self.broadcast = Some(broadcast);
        self
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not know.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }
}

/// Packets for all drones.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast;

impl Broadcast {
    /// Listens on an address for so many drones.
    ///
    /// # Errors
    /// If the address is in use or not ours.
    pub fn listen(address: &str, drones: usize) -> Result<Vec<Receiver<Packet>>> {
        let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        println!("broadcasts on udp://{}", socket.local_addr()?);
        let (senders, receivers): (Vec<Sender<Packet>>, Vec<Receiver<Packet>>) =
            (0..drones).map(|_| channel()).unzip();
        let (sender, arrived) = channel();
        std::thread::spawn(move || hear(&socket, &sender));
        std::thread::spawn(move || {
            for packet in arrived.iter().filter_map(|(_, bytes)| Packet::from_bytes(&bytes)) {
                // A drone that has ended does not keep the others from hearing.
                for drone in &senders {
                    let _ = drone.send(packet);
                }
            }
        });
        Ok(receivers)
    }
}

/// Receives datagrams until the receiver is dropped.
fn hear(socket: &UdpSocket, sender: &Sender<(SocketAddr, Vec<u8>)>) {
    let mut buffer = [0; 64];
    loop {
        // A client that is gone makes itself heard as an error; another may come.
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        if sender.send((from, buffer[..len].to_vec())).is_err() {
            return;
        }
    }
}

impl Ground for Udp {
    fn millisecond(&mut self, now_us: u64, _truth: &State, board: &mut Board, memory: &mut Memory<'_>) {
        while let Ok((from, bytes)) = self.arrived.try_recv() {
            self.client = Some(from);
            self.traffic.0 += 1;
            // A scan: any answer will do. It also polls, like any null packet.
            if bytes == [0xFF] {
                let _ = self.socket.send_to(&[0xFF], from);
                self.dongle.next_poll_us = now_us;
            } else if let Some(packet) = Packet::from_bytes(&bytes) {
                self.uplink.put(now_us, packet);
            }
        }
        while let Some(packet) = self.broadcast.as_ref().and_then(|all| all.try_recv().ok()) {
            board.broadcast(&packet);
        }
        while let Some(packet) = self.uplink.take(now_us) {
            self.dongle.send(now_us, packet);
        }
        if let Some(answer) = self.dongle.poll(now_us, board, memory) {
            self.downlink.put(now_us, answer);
        }
        while let Some(answer) = self.downlink.take(now_us) {
            if let Some(client) = self.client {
                self.traffic.1 += 1;
                let _ = self.socket.send_to(answer.bytes(), client);
            }
        }
    }
}
