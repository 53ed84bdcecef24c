//! The USB controller (OTG_FS) as a device, without DMA: receive FIFO, four endpoints each way, and the
//! computer at the other end of the cable, whose transactions are [`Otg::setup`], [`Otg::input`] and
//! [`Otg::output`].
//!
//! Without a cable nothing ever happens, as far as the firmware can see.

use std::collections::{BTreeMap, VecDeque};

const GAHBCFG: u32 = 0x008;
const GRSTCTL: u32 = 0x010;
const GINTSTS: u32 = 0x014;
const GINTMSK: u32 = 0x018;
const GRXSTSR: u32 = 0x01C;
const GRXSTSP: u32 = 0x020;
const GCCFG: u32 = 0x038;
const CID: u32 = 0x03C;
const DCFG: u32 = 0x800;
const DCTL: u32 = 0x804;
const DSTS: u32 = 0x808;
const DAINT: u32 = 0x818;
const IN: u32 = 0x900;
const OUT: u32 = 0xB00;
const FIFO: u32 = 0x1000;

/// In GINTSTS.
const RXFLVL: u32 = 1 << 4;
const USBSUSP: u32 = 1 << 11;
const USBRST: u32 = 1 << 12;
const ENUMDNE: u32 = 1 << 13;
const IEPINT: u32 = 1 << 18;
const WKUPINT: u32 = 1 << 31;
/// In an endpoint's control register.
const NAKSTS: u32 = 1 << 17;
const STALL: u32 = 1 << 21;
const CNAK: u32 = 1 << 26;
const SNAK: u32 = 1 << 27;
const EPDIS: u32 = 1 << 30;
const EPENA: u32 = 1 << 31;
/// In an endpoint's interrupt register: transfer complete.
const XFRC: u32 = 1;

/// Endpoints each way.
const ENDPOINTS: usize = 4;

/// What an endpoint says to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake<T> {
    /// Nobody there: another address, no cable, or not connected.
    Nothing,
    /// Not now.
    Nak,
    /// This is refused.
    Stall,
    /// Done.
    Done(T),
}

#[derive(Clone, Debug, Default)]
struct Endpoint {
    control: u32,
    interrupt: u32,
    size: u32,
    /// What is written to its FIFO and not yet fetched.
    fifo: VecDeque<u8>,
}

impl Endpoint {
    fn set_control(&mut self, value: u32) {
        let was = self.control;
        // NAK is switched by its two commands; an endpoint goes on until it is done or disabled.
        self.control = value & !(CNAK | SNAK | EPDIS | NAKSTS) | was & (NAKSTS | EPENA);
        if value & SNAK != 0 {
            self.control |= NAKSTS;
        }
        if value & CNAK != 0 {
            self.control &= !NAKSTS;
        }
        if value & EPDIS != 0 {
            self.control &= !EPENA;
        }
    }
}

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct Otg {
    registers: BTreeMap<u32, u32>,
    events: u32,
    /// Entries of the receive FIFO: a status, and the words that belong to it.
    received: VecDeque<(u32, VecDeque<u32>)>,
    /// Words of the entry that was popped last.
    words: VecDeque<u32>,
    inputs: [Endpoint; ENDPOINTS],
    outputs: [Endpoint; ENDPOINTS],
    /// A computer at the other end.
    is_plugged: bool,
    /// Address in force: a new one counts once the request that sets it is confirmed.
    address: u8,
    /// Its 48 MHz run; a reset is never done without.
    pub has_clock: bool,
    /// Nothing works.
    pub is_broken: bool,
}

impl Otg {
    /// The chip is reset; the cable stays.
    pub fn reset(&mut self) {
        *self = Self { is_plugged: self.is_plugged, is_broken: self.is_broken, ..Self::default() };
    }

    fn plain(&self, offset: u32) -> u32 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    fn daint(&self) -> u32 {
        let bits = self.inputs.iter().zip(0..).filter(|(ep, _)| ep.interrupt & self.plain(0x810) != 0);
        bits.fold(0, |all, (_, n)| all | 1 << n)
    }

    fn gintsts(&self) -> u32 {
        let rxflvl = if self.received.is_empty() { 0 } else { RXFLVL };
        let iepint = if self.daint() & self.plain(0x81C) == 0 { 0 } else { IEPINT };
        self.events | rxflvl | iepint
    }

    /// Level of its interrupt.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        self.plain(GAHBCFG) & 1 != 0 && self.gintsts() & self.plain(GINTMSK) != 0
    }

    /// Reads a register; some reads take something out of a FIFO.
    pub fn read(&mut self, offset: u32) -> u32 {
        match offset {
            // The bus is idle; a reset or flush is done at once.
            GRSTCTL if self.is_broken => 0,
            GRSTCTL if !self.has_clock => 1 << 31 | self.plain(GRSTCTL) & 1,
            GRSTCTL => 1 << 31,
            GINTSTS => self.gintsts(),
            GRXSTSR => self.received.front().map_or(0, |(status, _)| *status),
            GRXSTSP => match self.received.pop_front() {
                Some((status, words)) => {
                    self.words = words;
                    status
                }
                None => 0,
            },
            CID => 0x1200,
            // Full speed.
            DSTS => 3 << 1,
            DAINT => self.daint(),
            _ if offset >= FIFO => self.words.pop_front().unwrap_or(0),
            _ => match self.endpoint(offset) {
                Some((endpoint, 0x00)) => endpoint.control,
                Some((endpoint, 0x08)) => endpoint.interrupt,
                Some((endpoint, 0x10)) => endpoint.size,
                Some((endpoint, 0x18)) => 16 - endpoint.fifo.len() as u32 / 4,
                _ => self.plain(offset),
            },
        }
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32) {
        match offset {
            GINTSTS => self.events &= !value,
            GRSTCTL => {
                self.registers.insert(GRSTCTL, value);
                // Receive FIFO, then the transmit FIFOs.
                if value & (1 | 1 << 4) != 0 {
                    self.received.clear();
                    self.words.clear();
                }
                for (endpoint, number) in self.inputs.iter_mut().zip(0..) {
                    let is_meant = value >> 6 & 0x1F == 0x10 || value >> 6 & 0x1F == number;
                    if value & 1 != 0 || value & 1 << 5 != 0 && is_meant {
                        endpoint.fifo.clear();
                    }
                }
            }
            _ if offset >= FIFO => {
                let Some(endpoint) = self.inputs.get_mut((offset / FIFO - 1) as usize) else { return };
                // Four bytes each, but for the last of a transfer.
                let left = (endpoint.size as usize & 0x7_FFFF).saturating_sub(endpoint.fifo.len());
                endpoint.fifo.extend(value.to_le_bytes().iter().take(left));
            }
            _ => match self.endpoint(offset) {
                Some((endpoint, 0x00)) => {
                    endpoint.set_control(value);
                    endpoint.control |= value & EPENA;
                }
                Some((endpoint, 0x08)) => endpoint.interrupt &= !value,
                Some((endpoint, 0x10)) => endpoint.size = value,
                _ => {
                    self.registers.insert(offset, value);
                }
            },
        }
    }

    fn endpoint(&mut self, offset: u32) -> Option<(&mut Endpoint, u32)> {
        let (endpoints, from) = match offset {
            IN..OUT => (&mut self.inputs, IN),
            OUT..0xE00 => (&mut self.outputs, OUT),
            _ => return None,
        };
        let endpoint = endpoints.get_mut(((offset - from) / 0x20) as usize)?;
        Some((endpoint, offset % 0x20))
    }

    /// True when the device shows itself to a computer: transceiver on, no wait for a supply voltage that is
    /// not wired to it, not disconnected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let (on, ignores_supply) = (1 << 16, 1 << 21);
        self.is_plugged
            && self.has_clock
            && !self.is_broken
            && self.plain(GCCFG) & (on | ignores_supply) == on | ignores_supply
            && self.plain(DCTL) & 2 == 0
    }

    /// A cable comes in, with a computer that resets the bus; false when no device shows itself.
    pub fn plug(&mut self) -> bool {
        self.is_plugged = true;
        if self.is_connected() {
            self.events |= USBRST | ENUMDNE;
            self.address = 0;
        }
        self.is_connected()
    }

    /// The cable goes, or the computer falls asleep: nothing happens on the bus any more.
    pub fn unplug(&mut self) {
        self.is_plugged = false;
        self.events |= USBSUSP;
    }

    /// The computer wakes up.
    pub fn wake(&mut self) {
        self.is_plugged = true;
        self.events |= WKUPINT;
    }

    fn is_addressed(&self, address: u8) -> bool {
        self.is_connected() && self.address == address
    }

    fn push(&mut self, endpoint: u8, kind: u32, bytes: &[u8]) {
        let words = bytes.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        });
        let status = kind << 17 | (bytes.len() as u32) << 4 | u32::from(endpoint);
        self.received.push_back((status, words.collect()));
    }

    /// A SETUP transaction, which is always taken.
    pub fn setup(&mut self, address: u8, request: [u8; 8]) -> Handshake<()> {
        if !self.is_addressed(address) {
            return Handshake::Nothing;
        }
        self.inputs[0].control = self.inputs[0].control & !STALL | NAKSTS;
        self.outputs[0].control &= !STALL;
        self.push(0, 6, &request);
        self.push(0, 4, &[]);
        self.outputs[0].control &= !EPENA;
        Handshake::Done(())
    }

    /// An OUT transaction.
    pub fn output(&mut self, address: u8, number: u8, bytes: &[u8]) -> Handshake<()> {
        if !self.is_addressed(address) {
            return Handshake::Nothing;
        }
        let Some(endpoint) = self.outputs.get_mut(usize::from(number)) else { return Handshake::Nothing };
        if endpoint.control & STALL != 0 {
            return Handshake::Stall;
        }
        if endpoint.control & EPENA == 0 || endpoint.control & NAKSTS != 0 {
            return Handshake::Nak;
        }
        endpoint.control = endpoint.control & !EPENA | NAKSTS;
        self.push(number, 2, bytes);
        self.push(number, 3, &[]);
        Handshake::Done(())
    }

    /// An IN transaction.
    pub fn input(&mut self, address: u8, number: u8) -> Handshake<Vec<u8>> {
        if !self.is_addressed(address) {
            return Handshake::Nothing;
        }
        let Some(endpoint) = self.inputs.get_mut(usize::from(number)) else { return Handshake::Nothing };
        if endpoint.control & STALL != 0 {
            return Handshake::Stall;
        }
        let size = endpoint.size as usize & 0x7_FFFF;
        if endpoint.control & EPENA == 0 || endpoint.control & NAKSTS != 0 || endpoint.fifo.len() < size {
            return Handshake::Nak;
        }
        endpoint.control = endpoint.control & !EPENA | NAKSTS;
        (endpoint.size, endpoint.interrupt) = (0, endpoint.interrupt | XFRC);
        let bytes = endpoint.fifo.drain(..).collect();
        if number == 0 {
            self.address = (self.plain(DCFG) >> 4 & 0x7F) as u8;
        }
        Handshake::Done(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> Otg {
        let mut otg = Otg { has_clock: true, ..Otg::default() };
        otg.write(GCCFG, 1 << 16 | 1 << 21);
        assert!(otg.plug());
        otg
    }

    #[test]
    fn nobody_answers_without_a_transceiver_or_at_another_address() {
        let mut otg = Otg { has_clock: true, ..Otg::default() };
        assert!(!otg.plug());
        let mut otg = connected();
        assert_eq!(otg.setup(1, [0; 8]), Handshake::Nothing);
        otg.write(DCFG, 5 << 4);
        assert_eq!(otg.setup(5, [0; 8]), Handshake::Nothing, "not before it is confirmed");
        assert_eq!(otg.setup(0, [0; 8]), Handshake::Done(()));
        otg.write(IN, EPENA | CNAK);
        assert_eq!(otg.input(0, 0), Handshake::Done(vec![]));
        assert_eq!(otg.setup(5, [0; 8]), Handshake::Done(()));
        otg.unplug();
        assert_eq!(otg.setup(5, [0; 8]), Handshake::Nothing);
    }

    #[test]
    fn an_endpoint_takes_one_transfer_until_it_is_enabled_again() {
        let mut otg = connected();
        assert_eq!(otg.output(0, 1, &[1, 2, 3, 4, 5]), Handshake::Nak);
        otg.write(OUT + 0x20, EPENA | CNAK);
        assert_eq!(otg.output(0, 1, &[1, 2, 3, 4, 5]), Handshake::Done(()));
        assert_eq!(otg.output(0, 1, &[6]), Handshake::Nak);
        assert_eq!(otg.read(GINTSTS) & RXFLVL, RXFLVL);
        assert_eq!(otg.read(GRXSTSR), 2 << 17 | 5 << 4 | 1, "looking takes nothing");
        assert_eq!(otg.read(GRXSTSP), 2 << 17 | 5 << 4 | 1);
        assert_eq!((otg.read(FIFO), otg.read(FIFO)), (0x0403_0201, 5));
        assert_eq!(otg.read(GRXSTSP), 3 << 17 | 1);
        assert_eq!(otg.read(GINTSTS) & RXFLVL, 0);
        otg.write(OUT + 0x20, EPENA | CNAK);
        assert_eq!(otg.output(0, 1, &[6]), Handshake::Done(()));
    }

    #[test]
    fn the_computer_gets_what_the_endpoint_was_told_to_send() {
        let mut otg = connected();
        otg.write(0x810, XFRC);
        otg.write(0x81C, 2);
        assert_eq!(otg.input(0, 1), Handshake::Nak);
        otg.write(IN + 0x30, 1 << 19 | 5);
        otg.write(IN + 0x20, EPENA | CNAK);
        otg.write(2 * FIFO, 0x0403_0201);
        assert_eq!(otg.input(0, 1), Handshake::Nak, "not all of it is there");
        otg.write(2 * FIFO, 5);
        assert_eq!(otg.input(0, 1), Handshake::Done(vec![1, 2, 3, 4, 5]));
        assert_eq!(otg.read(GINTSTS) & IEPINT, IEPINT);
        otg.write(IN + 0x28, XFRC);
        assert_eq!((otg.read(GINTSTS) & IEPINT, otg.input(0, 1)), (0, Handshake::Nak));
        otg.write(IN + 0x20, STALL);
        assert_eq!(otg.input(0, 1), Handshake::Stall);
    }
}
