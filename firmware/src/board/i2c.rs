//! The two I2C buses: I2C3 with the sensors, I2C1 with the EEPROM; 400 kHz.
//!
//! A transfer is a job in a static; interrupts carry it through (start, address, register bytes,
//! repeated start, then the received bytes by DMA), and the task that waits for it sleeps meanwhile.
//! Nothing waits for a bus without a limit: a job that does not end in time resets the peripheral and
//! clocks a stuck chip free.
//!
//! Own, because the HAL's I2C waits for the bus in loops without a limit, or, with DMA, has neither an async
//! interface nor a way out of a bus that hangs.

use core::cell::RefCell;

use critical_section::Mutex;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use embassy_time::{Duration, with_timeout};
use embedded_hal_async::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
use stm32f4xx_hal::gpio::{Alternate, OpenDrain, PA8, PB6, PB7, PC9, Pin, PinState, Pull, Speed};
use stm32f4xx_hal::pac::{I2C1, I2C3, i2c1, interrupt};
use stm32f4xx_hal::rcc::{Enable, Rcc};

use super::dma::{Controller, Stream, Transfer};
use super::{reg, time};

/// Most bytes one job can write: an EEPROM page and its address.
const WRITE_SIZE: usize = 34;
/// Most bytes one job can read.
const READ_SIZE: usize = 64;

/// Times a transfer that was not acknowledged is done again.
const RETRIES: u8 = 2;

/// APB1, MHz.
const APB1_MHZ: u8 = 42;
/// 400 kHz with a low phase twice the high phase: 42 MHz / (3 · 35).
const CLOCK_CONTROL: u16 = 35;
/// Rise time of 300 ns in APB1 cycles, plus one.
const RISE_TIME: u8 = 13;

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Start sent, to write.
    Start,
    /// Address sent, to write; then the bytes.
    Writing,
    /// Repeated start sent (or the first start of a pure read).
    Restart,
    /// Bytes arrive by DMA.
    Reading,
}

/// One transfer: write some bytes, then read some.
struct Job {
    phase: Phase,
    address: u8,
    write: [u8; WRITE_SIZE],
    to_write: u8,
    written: u8,
    read: [u8; READ_SIZE],
    to_read: u8,
}

impl Job {
    const fn new() -> Self {
        Self {
            phase: Phase::Idle,
            address: 0,
            write: [0; WRITE_SIZE],
            to_write: 0,
            written: 0,
            read: [0; READ_SIZE],
            to_read: 0,
        }
    }
}

/// A bus's hardware.
struct Hardware {
    is_sensors: bool,
    receive: Stream,
}

/// A bus: hardware, the job, and how it ended.
pub(crate) struct Shared {
    hardware: Hardware,
    job: Mutex<RefCell<Job>>,
    outcome: Signal<CriticalSectionRawMutex, Result<(), ErrorKind>>,
}

static SENSORS: Shared = Shared {
    hardware: Hardware {
        is_sensors: true,
        receive: Stream { controller: Controller::One, number: 2, channel: 3 },
    },
    job: Mutex::new(RefCell::new(Job::new())),
    outcome: Signal::new(),
};

static EEPROM: Shared = Shared {
    hardware: Hardware {
        is_sensors: false,
        receive: Stream { controller: Controller::One, number: 5, channel: 1 },
    },
    job: Mutex::new(RefCell::new(Job::new())),
    outcome: Signal::new(),
};

/// A wire of a bus.
type Wire<const P: char, const N: u8> = Pin<P, N, Alternate<4, OpenDrain>>;

/// One of the buses, as the task that owns it sees it: clock and data wire by port and number.
pub(crate) struct Bus<const CP: char, const CN: u8, const DP: char, const DN: u8> {
    shared: &'static Shared,
    scl: Wire<CP, CN>,
    sda: Wire<DP, DN>,
    /// Longest time a transfer may take.
    limit: Duration,
}

/// The sensors' bus.
pub(crate) type SensorBus = Bus<'A', 8, 'C', 9>;
/// The EEPROM's bus.
pub(crate) type EepromBus = Bus<'B', 6, 'B', 7>;

/// The sensors' bus. The peripheral is given up: the interrupts use it.
pub(crate) fn sensors(_: I2C3, scl: PA8, sda: PC9, rcc: &mut Rcc) -> SensorBus {
    I2C3::enable(rcc);
    let scl = scl.into_alternate_open_drain().internal_resistor(Pull::Up).speed(Speed::Medium);
    let sda = sda.into_alternate_open_drain().internal_resistor(Pull::Up).speed(Speed::Medium);
    // The longest sensor transfer takes 0.6 ms.
    Bus { shared: &SENSORS, scl, sda, limit: Duration::from_millis(2) }
}

/// The EEPROM's bus, likewise.
pub(crate) fn eeprom(_: I2C1, scl: PB6, sda: PB7, rcc: &mut Rcc) -> EepromBus {
    I2C1::enable(rcc);
    let scl = scl.into_alternate_open_drain().internal_resistor(Pull::Up).speed(Speed::Medium);
    let sda = sda.into_alternate_open_drain().internal_resistor(Pull::Up).speed(Speed::Medium);
    Bus { shared: &EEPROM, scl, sda, limit: Duration::from_millis(10) }
}

impl Hardware {
    fn block(&self) -> &'static i2c1::RegisterBlock {
        if self.is_sensors { reg::i2c3() } else { reg::i2c1() }
    }

    /// Switches the event and error interrupts on or off.
    fn set_events(&self, on: bool) {
        self.block().cr2().modify(|_, w| w.itevten().bit(on).iterren().bit(on));
    }

    /// Brings the peripheral to its idle state, without interrupts.
    fn reset(&self) {
        self.receive.stop();
        let i2c = self.block();
        i2c.cr1().write(|w| w.swrst().set_bit());
        i2c.cr1().write(|w| w);
        // SAFETY: the values are in the fields' ranges; the reference manual wants bit 14 of the own address,
        // which there is none of, at 1.
        unsafe {
            i2c.cr2().write(|w| w.freq().bits(APB1_MHZ));
            i2c.ccr().write(|w| w.f_s().set_bit().ccr().bits(CLOCK_CONTROL));
            i2c.oar1().write(|w| w.bits(1 << 14));
        }
        i2c.trise().write(|w| w.trise().set(RISE_TIME));
        i2c.cr1().write(|w| w.pe().set_bit());
    }
}

/// Half a bit of a slow clock.
fn half_bit() {
    let start = time::now_us_low();
    while time::now_us_low().wrapping_sub(start) < 5 {}
}

impl Shared {
    /// Works on the job with interrupts off. The sections are short and do not nest, so that the job
    /// is always free.
    fn with_job<T>(&self, work: impl FnOnce(&mut Job) -> T) -> Option<T> {
        critical_section::with(|cs| self.job.borrow(cs).try_borrow_mut().ok().map(|mut job| work(&mut job)))
    }

    fn end(&self, job: &mut Job, outcome: Result<(), ErrorKind>) {
        let i2c = self.hardware.block();
        i2c.cr1().modify(|_, w| w.stop().set_bit());
        i2c.cr2().modify(|_, w| w.dmaen().clear_bit().last().clear_bit());
        job.phase = Phase::Idle;
        self.outcome.signal(outcome);
    }

    /// Start sent, address acknowledged, byte sent.
    fn on_event(&self) {
        self.with_job(|job| {
            let i2c = self.hardware.block();
            let status = i2c.sr1().read();
            match job.phase {
                Phase::Start if status.sb().bit_is_set() => {
                    job.phase = Phase::Writing;
                    i2c.dr().write(|w| w.dr().set(job.address << 1));
                }
                Phase::Restart if status.sb().bit_is_set() => {
                    job.phase = Phase::Reading;
                    i2c.dr().write(|w| w.dr().set((job.address << 1) | 1));
                }
                Phase::Writing if status.addr().bit_is_set() => {
                    // Reading the second status register ends the address phase.
                    let _ = i2c.sr2().read();
                    self.write_next(job);
                }
                // Both the data and the shift register are empty.
                Phase::Writing if status.btf().bit_is_set() => self.write_next(job),
                Phase::Reading if status.addr().bit_is_set() => {
                    // A single byte is refused from the start, more by the DMA's last one.
                    let more = job.to_read > 1;
                    i2c.cr1().modify(|_, w| w.ack().bit(more));
                    i2c.cr2().modify(|_, w| w.dmaen().set_bit().last().bit(more));
                    let _ = i2c.sr2().read();
                }
                // Nobody waits for an event. Not every one can be cleared without putting something on
                // the wires, and one that stays pending would fire again at once, endlessly: the next job
                // switches events on again.
                Phase::Idle => self.hardware.set_events(false),
                // A start that the job did not ask for.
                _ if status.sb().bit_is_set() => self.end(job, Err(ErrorKind::Other)),
                // What is left of the phase before: drop it.
                _ => {
                    let _ = i2c.sr2().read();
                    let _ = i2c.dr().read();
                }
            }
        });
    }

    fn write_next(&self, job: &mut Job) {
        let i2c = self.hardware.block();
        if job.written < job.to_write {
            let byte = job.write.get(usize::from(job.written)).copied().unwrap_or(0);
            job.written += 1;
            i2c.dr().write(|w| w.dr().set(byte));
        } else if job.to_read > 0 {
            job.phase = Phase::Restart;
            i2c.cr1().modify(|_, w| w.ack().set_bit().start().set_bit());
        } else {
            self.end(job, Ok(()));
        }
    }

    /// Not acknowledged, arbitration lost, a byte too late, misplaced start or stop.
    fn on_error(&self) {
        self.with_job(|job| {
            let i2c = self.hardware.block();
            let status = i2c.sr1().read();
            let refused = status.af().bit_is_set();
            let lost =
                status.arlo().bit_is_set() || status.ovr().bit_is_set() || status.timeout().bit_is_set();
            if status.berr().bit_is_set() && !refused && !lost {
                // A start or stop out of place. Noise looks like that too, and the transfer goes on all the
                // same; one that does not runs into its limit.
                // SAFETY: a one leaves an error flag, a zero clears it; the other flags are read-only.
                i2c.sr1().write(|w| unsafe { w.bits(u16::MAX) }.berr().clear_bit());
                return;
            }
            // Zeros clear the error flags; the others are read-only.
            i2c.sr1().reset();
            self.hardware.receive.stop();
            if job.phase == Phase::Idle {
                // Nobody waits for it.
                self.hardware.set_events(false);
                return;
            }
            let kind =
                if refused { ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown) } else { ErrorKind::Bus };
            self.end(job, Err(kind));
        });
    }

    /// All bytes are there, or the DMA failed.
    fn on_received(&self) {
        self.with_job(|job| {
            let flags = self.hardware.receive.take_flags();
            if job.phase == Phase::Reading && (flags.complete || flags.error) {
                let outcome = if flags.error { Err(ErrorKind::Overrun) } else { Ok(()) };
                self.end(job, outcome);
            }
        });
    }
}

impl<const CP: char, const CN: u8, const DP: char, const DN: u8> Bus<CP, CN, DP, DN> {
    /// Brings wires and peripheral to rest. The clock of the firmware must run.
    pub(crate) fn start(mut self) -> Self {
        self.free();
        self.shared.hardware.reset();
        self
    }

    /// Frees a bus whose data line a chip holds low in the middle of a byte: nine clocks and a stop.
    fn free(&mut self) {
        let Self { scl, sda, .. } = self;
        scl.with_open_drain_output_in_state(PinState::High, |scl| {
            sda.with_open_drain_output_in_state(PinState::High, |sda| {
                for _ in 0..9 {
                    if sda.is_high() {
                        break;
                    }
                    scl.set_low();
                    half_bit();
                    scl.set_high();
                    half_bit();
                }
                sda.set_low();
                half_bit();
                sda.set_high();
                half_bit();
            });
        });
    }

    /// Writes some bytes, then reads some. A chip that does not acknowledge is asked again.
    async fn transfer(&mut self, address: u8, write: &[u8], read: &mut [u8]) -> Result<(), ErrorKind> {
        let mut outcome = self.attempt(address, write, read).await;
        for _ in 0..RETRIES {
            if !matches!(outcome, Err(ErrorKind::NoAcknowledge(_))) {
                break;
            }
            outcome = self.attempt(address, write, read).await;
        }
        outcome
    }

    async fn attempt(&mut self, address: u8, write: &[u8], read: &mut [u8]) -> Result<(), ErrorKind> {
        let outcome = match self.begin(address, write, read.len()) {
            Ok(()) => {
                with_timeout(self.limit, self.shared.outcome.wait()).await.unwrap_or(Err(ErrorKind::Other))
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                let copied = self
                    .shared
                    .with_job(|job| job.read.get(..read.len()).map(|bytes| read.copy_from_slice(bytes)));
                copied.flatten().ok_or(ErrorKind::Other)
            }
            // A chip that does not answer leaves the bus in order; everything else may not.
            Err(ErrorKind::NoAcknowledge(source)) => Err(ErrorKind::NoAcknowledge(source)),
            Err(error) => {
                self.recover();
                Err(error)
            }
        }
    }

    fn begin(&mut self, address: u8, write: &[u8], to_read: usize) -> Result<(), ErrorKind> {
        let hardware = &self.shared.hardware;
        let i2c = hardware.block();
        // The stop condition of the job before takes a few microseconds.
        let start = time::now_us_low();
        while i2c.cr1().read().stop().bit_is_set() {
            if time::now_us_low().wrapping_sub(start) > 50 {
                return Err(ErrorKind::Bus);
            }
        }
        self.shared.outcome.reset();
        let begun = self.shared.with_job(|job| {
            job.address = address;
            job.write.get_mut(..write.len()).ok_or(ErrorKind::Other)?.copy_from_slice(write);
            let buffer = job.read.get_mut(..to_read).ok_or(ErrorKind::Other)?;
            if to_read > 0 {
                hardware.receive.start(Transfer {
                    peripheral: i2c.dr().as_ptr() as u32,
                    memory: buffer.as_mut_ptr() as u32,
                    length: to_read as u16,
                    wide: false,
                    to_peripheral: false,
                    advance: true,
                    circular: false,
                    interrupt: true,
                });
            }
            (job.to_write, job.to_read, job.written) = (write.len() as u8, to_read as u8, 0);
            job.phase = if write.is_empty() && to_read > 0 { Phase::Restart } else { Phase::Start };
            hardware.set_events(true);
            i2c.cr1().modify(|_, w| w.ack().set_bit().start().set_bit());
            Ok(())
        });
        begun.unwrap_or(Err(ErrorKind::Other))
    }

    fn recover(&mut self) {
        // First of all: the wires are about to be moved by hand, and whatever the peripheral sees in
        // that must not reach the handlers.
        self.shared.hardware.set_events(false);
        self.shared.with_job(|job| job.phase = Phase::Idle);
        self.free();
        self.shared.hardware.reset();
        self.shared.outcome.reset();
    }
}

impl<const CP: char, const CN: u8, const DP: char, const DN: u8> ErrorType for Bus<CP, CN, DP, DN> {
    type Error = ErrorKind;
}

impl<const CP: char, const CN: u8, const DP: char, const DN: u8> I2c for Bus<CP, CN, DP, DN> {
    async fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), ErrorKind> {
        // What the chips here need: a write, a read, or a write and a read.
        match operations {
            [Operation::Write(write), Operation::Read(read)] => self.transfer(address, write, read).await,
            [Operation::Write(write)] => self.transfer(address, write, &mut []).await,
            [Operation::Read(read)] => self.transfer(address, &[], read).await,
            _ => Err(ErrorKind::Other),
        }
    }
}

#[interrupt]
fn I2C3_EV() {
    SENSORS.on_event();
}

#[interrupt]
fn I2C3_ER() {
    SENSORS.on_error();
}

#[interrupt]
fn DMA1_STREAM2() {
    SENSORS.on_received();
}

#[interrupt]
fn I2C1_EV() {
    EEPROM.on_event();
}

#[interrupt]
fn I2C1_ER() {
    EEPROM.on_error();
}

#[interrupt]
fn DMA1_STREAM5() {
    EEPROM.on_received();
}
