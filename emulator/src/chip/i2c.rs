//! I²C master with the timing of its bits, DMA and clock stretching as the F4's old peripheral does it.

/// A device on the bus, chosen by its 7-bit address.
pub trait Slaves {
    /// A start or repeated start with this address; false when nobody answers.
    fn start(&mut self, address: u8, is_read: bool, now: u64) -> bool;
    /// A byte for the addressed device; false when it does not acknowledge.
    fn write(&mut self, byte: u8, now: u64) -> bool;
    /// A byte from the addressed device.
    fn read(&mut self, now: u64) -> u8;
    /// The transfer ends.
    fn stop(&mut self, now: u64);
}

const SB: u32 = 1;
const ADDR: u32 = 1 << 1;
const BTF: u32 = 1 << 2;
const RXNE: u32 = 1 << 6;
const TXE: u32 = 1 << 7;
const BERR: u32 = 1 << 8;
const ARLO: u32 = 1 << 9;
const AF: u32 = 1 << 10;
const TIMEOUT: u32 = 1 << 14;

const CR1_START: u32 = 1 << 8;
const CR1_STOP: u32 = 1 << 9;
const CR1_ACK: u32 = 1 << 10;
const CR1_POS: u32 = 1 << 11;
const CR1_RESET: u32 = 1 << 15;
const CR2_DMA: u32 = 1 << 11;
const CR2_LAST: u32 = 1 << 12;

/// What is on the wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Nothing; the clock rests.
    Quiet,
    /// A start condition.
    Start,
    /// The address byte.
    Address(u8),
    /// A byte to the slave.
    Out(u8),
    /// A byte from the slave.
    In,
}

/// The port.
#[derive(Clone, Debug)]
pub struct I2c {
    /// Clock of the bus, Hz.
    pub clock_hz: u64,
    cr1: u32,
    cr2: u32,
    oar: [u32; 2],
    sr1: u32,
    /// Master, busy, transmitting.
    is_master: bool,
    is_busy: bool,
    is_sender: bool,
    ccr: u32,
    trise: u32,
    filter: u32,
    data: u8,
    /// A byte to send that waits for the wire.
    waiting: Option<u8>,
    /// A received byte that waits for the data register.
    stretched: Option<u8>,
    /// The byte after which the master does not acknowledge has been received.
    refused: bool,
    received: u32,
    wire: Wire,
    done: u64,
    read_sr1: bool,
    /// The bus hangs: nothing ends any more (a fault).
    pub is_stuck: bool,
    /// Noise on the wires looks like a start or stop in every transfer (a fault).
    pub is_noisy: bool,
}

impl Default for I2c {
    fn default() -> Self {
        Self {
            clock_hz: 42_000_000,
            cr1: 0,
            cr2: 0,
            oar: [0; 2],
            sr1: 0,
            is_master: false,
            is_busy: false,
            is_sender: false,
            ccr: 0,
            trise: 2,
            filter: 0,
            data: 0,
            waiting: None,
            stretched: None,
            refused: false,
            received: 0,
            wire: Wire::Quiet,
            done: u64::MAX,
            read_sr1: false,
            is_stuck: false,
            is_noisy: false,
        }
    }
}

impl I2c {
    /// Held in reset: registers as after power-on; the wires are what they are.
    pub fn reset(&mut self) {
        *self = Self {
            clock_hz: self.clock_hz,
            is_stuck: self.is_stuck,
            is_noisy: self.is_noisy,
            ..Self::default()
        };
    }

    /// Time of one bit in ticks of 168 MHz.
    fn bit_ticks(&self) -> u64 {
        let ccr = u64::from(self.ccr & 0xFFF).max(1);
        let periods = match self.ccr >> 14 {
            0 | 1 => 2 * ccr,
            2 => 3 * ccr,
            _ => 25 * ccr,
        };
        periods * 168_000_000 / self.clock_hz
    }

    /// Clock on the wire, Hz.
    #[must_use]
    pub fn rate_hz(&self) -> u64 {
        168_000_000 / self.bit_ticks()
    }

    /// When what is on the wires ends.
    #[must_use]
    pub fn due(&self) -> u64 {
        if self.is_stuck { u64::MAX } else { self.done }
    }

    fn put_on_wire(&mut self, wire: Wire, now: u64) {
        let bits = match wire {
            Wire::Start => 1,
            _ => 9,
        };
        (self.wire, self.done) = (wire, now + bits * self.bit_ticks());
    }

    fn quiet(&mut self) {
        (self.wire, self.done) = (Wire::Quiet, u64::MAX);
    }

    /// A start or stop that was asked for happens when the wires are free.
    fn conditions(&mut self, slaves: &mut dyn Slaves, now: u64) {
        if self.wire != Wire::Quiet {
            return;
        }
        if self.cr1 & CR1_STOP != 0 && self.is_master {
            slaves.stop(now);
            self.cr1 &= !CR1_STOP;
            (self.is_master, self.is_busy, self.is_sender) = (false, false, false);
            self.sr1 &= !(TXE | BTF);
            self.waiting = None;
        }
        if self.cr1 & CR1_START != 0 && self.sr1 & SB == 0 {
            self.sr1 &= !(TXE | BTF);
            (self.is_sender, self.waiting) = (false, None);
            self.is_busy = true;
            self.put_on_wire(Wire::Start, now);
        }
    }

    /// The next byte from the slave, if there is room for it and it is wanted.
    fn receive(&mut self, now: u64) {
        let wanted = self.is_master && !self.is_sender && !self.refused && self.sr1 & ADDR == 0;
        if wanted && self.wire == Wire::Quiet && self.stretched.is_none() {
            self.put_on_wire(Wire::In, now);
        }
    }

    /// The next byte to the slave, if there is one.
    fn send(&mut self, now: u64) {
        if self.wire == Wire::Quiet
            && self.is_sender
            && let Some(byte) = self.waiting.take()
        {
            self.put_on_wire(Wire::Out(byte), now);
            self.sr1 |= TXE;
        }
    }

    /// Whether the byte just received is acknowledged. `left` are the items DMA still expects.
    fn acknowledges(&self, left: u32) -> bool {
        if self.cr2 & CR2_DMA != 0 && self.cr2 & CR2_LAST != 0 {
            return left > 1;
        }
        if self.cr1 & CR1_POS != 0 && self.received == 0 {
            return true;
        }
        self.cr1 & CR1_ACK != 0
    }

    /// What was on the wires has ended. `left` are the items DMA still expects to receive.
    pub fn advance(&mut self, slaves: &mut dyn Slaves, left: u32, now: u64) {
        if self.due() > now {
            return;
        }
        let wire = self.wire;
        self.quiet();
        match wire {
            Wire::Quiet => {}
            Wire::Start => {
                self.cr1 &= !CR1_START;
                self.sr1 |= SB;
                self.is_master = true;
            }
            Wire::Address(byte) => {
                let is_read = byte & 1 != 0;
                (self.refused, self.received, self.stretched) = (false, 0, None);
                if self.is_noisy {
                    self.sr1 |= BERR;
                }
                if slaves.start(byte >> 1, is_read, now) {
                    self.sr1 |= ADDR;
                    self.is_sender = !is_read;
                } else {
                    self.sr1 |= AF;
                }
            }
            Wire::Out(byte) => {
                if !slaves.write(byte, now) {
                    self.sr1 |= AF;
                } else if self.waiting.is_none() {
                    self.sr1 |= BTF;
                }
                self.send(now);
            }
            Wire::In => {
                let byte = slaves.read(now);
                self.refused = !self.acknowledges(left);
                self.received += 1;
                if self.sr1 & RXNE != 0 {
                    self.stretched = Some(byte);
                    self.sr1 |= BTF;
                } else {
                    self.data = byte;
                    self.sr1 |= RXNE;
                    self.receive(now);
                }
            }
        }
        // A stop asked for during a reception waits until the refused byte has come.
        let receiving = self.wire == Wire::In;
        if !receiving {
            self.conditions(slaves, now);
        }
    }

    /// A received byte for DMA.
    #[must_use]
    pub fn has_byte(&self) -> Option<u8> {
        (self.cr2 & CR2_DMA != 0 && self.sr1 & RXNE != 0).then_some(self.data)
    }

    /// The data register was read.
    pub fn fetch(&mut self, now: u64) -> u8 {
        let byte = self.data;
        self.sr1 &= !(RXNE | BTF);
        if let Some(next) = self.stretched.take() {
            self.data = next;
            self.sr1 |= RXNE;
        }
        self.receive(now);
        byte
    }

    /// True when the port asks DMA for a byte to send.
    #[must_use]
    pub fn wants_byte(&self) -> bool {
        self.cr2 & CR2_DMA != 0 && self.is_sender && self.sr1 & (TXE | ADDR | AF) == TXE
    }

    /// The data register is written.
    pub fn put(&mut self, byte: u8, now: u64) {
        if self.sr1 & SB != 0 {
            self.sr1 &= !SB;
            self.put_on_wire(Wire::Address(byte), now);
            return;
        }
        self.sr1 &= !(TXE | BTF);
        self.waiting = Some(byte);
        self.send(now);
    }

    /// Levels of the event and the error interrupt.
    #[must_use]
    pub fn interrupts(&self) -> (bool, bool) {
        let mut events = SB | ADDR | BTF;
        if self.cr2 & (1 << 10) != 0 {
            events |= TXE | RXNE;
        }
        let errors = BERR | ARLO | AF | TIMEOUT | 1 << 11;
        (
            self.cr2 & (1 << 9) != 0 && self.sr1 & events != 0,
            self.cr2 & (1 << 8) != 0 && self.sr1 & errors != 0,
        )
    }

    /// Reads a register.
    pub fn read(&mut self, offset: u32, now: u64) -> Option<u32> {
        Some(match offset {
            0x00 => self.cr1,
            0x04 => self.cr2,
            0x08 | 0x0C => self.oar[(offset as usize - 8) / 4],
            0x10 => u32::from(self.fetch(now)),
            0x14 => {
                self.read_sr1 = true;
                self.sr1
            }
            0x18 => {
                if self.read_sr1 && self.sr1 & ADDR != 0 {
                    self.sr1 &= !ADDR;
                    if self.is_sender {
                        self.sr1 |= TXE;
                        self.send(now);
                    } else {
                        self.receive(now);
                    }
                }
                self.read_sr1 = false;
                u32::from(self.is_master) | u32::from(self.is_busy) << 1 | u32::from(self.is_sender) << 2
            }
            0x1C => self.ccr,
            0x20 => self.trise,
            0x24 => self.filter,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, slaves: &mut dyn Slaves, offset: u32, value: u32, now: u64) -> Option<()> {
        match offset {
            0x00 => {
                if value & CR1_RESET != 0 || value & 1 == 0 {
                    slaves.stop(now);
                    let old = self.clone();
                    self.reset();
                    if value & CR1_RESET == 0 {
                        // Switching off keeps the configuration.
                        (self.cr2, self.oar, self.ccr, self.trise) = (old.cr2, old.oar, old.ccr, old.trise);
                    }
                    self.cr1 = value & !(CR1_START | CR1_STOP);
                    return Some(());
                }
                self.cr1 = value;
                self.conditions(slaves, now);
            }
            0x04 => self.cr2 = value,
            0x08 | 0x0C => self.oar[(offset as usize - 8) / 4] = value,
            0x10 => self.put(value as u8, now),
            // Error flags are cleared by writing 0.
            0x14 => self.sr1 &= value | !(BERR | ARLO | AF | TIMEOUT | 1 << 11),
            0x18 => {}
            0x1C => self.ccr = value,
            0x20 => self.trise = value,
            0x24 => self.filter = value,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device at 0x18 whose registers count up from the one chosen.
    #[derive(Default)]
    struct Counter {
        next: u8,
        log: Vec<u8>,
        stops: usize,
    }

    impl Slaves for Counter {
        fn start(&mut self, address: u8, _is_read: bool, _now: u64) -> bool {
            address == 0x18
        }
        fn write(&mut self, byte: u8, _now: u64) -> bool {
            self.next = byte;
            self.log.push(byte);
            true
        }
        fn read(&mut self, _now: u64) -> u8 {
            self.next += 1;
            self.next - 1
        }
        fn stop(&mut self, _now: u64) {
            self.stops += 1;
        }
    }

    struct Bench {
        i2c: I2c,
        device: Counter,
        now: u64,
    }

    impl Bench {
        fn new() -> Self {
            let mut bench = Self { i2c: I2c::default(), device: Counter::default(), now: 0 };
            bench.write(0x1C, 0x8000 | 35);
            bench.write(0x00, 1);
            bench
        }
        fn write(&mut self, offset: u32, value: u32) {
            self.i2c.write(&mut self.device, offset, value, self.now).unwrap();
        }
        fn read(&mut self, offset: u32) -> u32 {
            self.i2c.read(offset, self.now).unwrap()
        }
        fn wait(&mut self, flags: u32) {
            while self.read(0x14) & flags != flags {
                assert_ne!(self.i2c.due(), u64::MAX, "waits for {flags:#x}, has {:#x}", self.i2c.sr1);
                self.now = self.i2c.due();
                self.i2c.advance(&mut self.device, 0, self.now);
            }
        }
        fn address(&mut self, byte: u32) {
            self.write(0x00, self.i2c.cr1 | CR1_START);
            self.wait(SB);
            self.write(0x10, byte);
        }
    }

    #[test]
    fn register_read_with_repeated_start_at_400_khz() {
        let mut b = Bench::new();
        assert_eq!(b.i2c.rate_hz(), 400_000);
        b.address(0x30);
        b.wait(ADDR);
        b.read(0x18);
        b.write(0x10, 0x42);
        b.wait(BTF);
        b.write(0x00, 1 | CR1_ACK);
        b.address(0x31);
        b.wait(ADDR);
        b.read(0x18);
        b.wait(RXNE);
        assert_eq!(b.read(0x10), 0x42);
        b.wait(RXNE);
        b.write(0x00, 1 | CR1_STOP);
        assert_eq!(b.read(0x10), 0x43);
        b.wait(RXNE);
        assert_eq!(b.read(0x10), 0x44);
        assert_eq!((b.device.stops, b.read(0x18) & 3), (1, 0));
        // Three starts and six bytes of nine bits take about 140 µs.
        assert!((130..150).contains(&(b.now / 168)), "{}", b.now / 168);
    }

    #[test]
    fn nobody_at_the_address() {
        let mut b = Bench::new();
        b.address(0x40);
        b.wait(AF);
        b.write(0x14, 0);
        b.write(0x00, 1 | CR1_STOP);
        assert_eq!((b.read(0x14), b.read(0x18)), (0, 0));
    }
}
