//! The Crazyflie's board: the chip's peripherals, what is wired to them, and the time they live in.

pub mod bootloader;
pub mod card;
pub mod eeprom;
pub mod meter;
pub mod nrf;
pub mod ring;
pub mod sensors;

use std::collections::BTreeMap;

use steady_common::crtp::Packet;

use crate::chip::dma::{Dma, Misuse, Wire};
use crate::chip::flash::FlashInterface;
use crate::chip::gpio::{Gpio, Pin};
use crate::chip::i2c::I2c;
use crate::chip::rcc::{Rcc, ResetCause};
use crate::chip::spi::Spi;
use crate::chip::timer::Timer;
use crate::chip::usart::Usart;
use crate::chip::watchdog::Watchdog;
use crate::cortex::cost::{BRANCH_REFILL, Cost, CostTable};
use crate::cortex::map;
use crate::cortex::nvic::Nvic;
use crate::cortex::system::{Request, System};
use crate::cortex::unicorn::{Bus, Masks, Memory};
use crate::outside::Outside;
use card::Card;
use eeprom::Eeprom;
use meter::Meters;
use nrf::{Ack, Nrf};
use ring::LedRing;
use sensors::Sensors;

/// Ticks of the virtual clock in a second: the core's cycles at full speed.
pub const TICKS_PER_S: u64 = 168_000_000;
/// Ticks in a millisecond.
pub const TICKS_PER_MS: u64 = TICKS_PER_S / 1000;
/// Ticks in a microsecond.
pub const TICKS_PER_US: u64 = TICKS_PER_S / 1_000_000;
/// How long the gyroscope's data-ready pin stays high.
const DATA_READY_TICKS: u64 = 300 * TICKS_PER_US;

/// Why the machine cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A register that is not modelled.
    Unmodelled {
        /// Its address.
        address: u32,
        /// True for a store.
        is_write: bool,
    },
    /// DMA was asked for what it cannot do.
    Dma(Misuse),
    /// A floating-point instruction while the unit is off.
    FpuOff,
    /// The firmware, or a fault, resets the chip.
    Reset(ResetCause),
    /// The STM32 stands still: switched off, or in its bootloader.
    Halt,
    /// The core does nothing until a time, though it is awake (a fault).
    Stall(u64),
    /// The power goes off and comes back (a fault).
    PowerCut,
    /// The power is off.
    PowerOff,
    /// A fault within the hard fault handler.
    Lockup,
    /// An exit of the core that should not be possible.
    Unexpected(u32),
}

/// Where to look for what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Tick,
    Timer0,
    Timer1,
    Timer2,
    Timer3,
    Timer4,
    Timer5,
    Usart,
    UsartRx,
    I2c1,
    I2c3,
    Spi,
    Watchdog,
    Plant,
    DataReadyEnd,
    Nrf,
    Limit,
}

const SLOTS: [Slot; 17] = [
    Slot::Tick,
    Slot::Timer0,
    Slot::Timer1,
    Slot::Timer2,
    Slot::Timer3,
    Slot::Timer4,
    Slot::Timer5,
    Slot::Usart,
    Slot::UsartRx,
    Slot::I2c1,
    Slot::I2c3,
    Slot::Spi,
    Slot::Watchdog,
    Slot::Plant,
    Slot::DataReadyEnd,
    Slot::Nrf,
    Slot::Limit,
];

/// Interrupts of TIM2 to TIM7.
const TIMER_INTERRUPTS: [u8; 6] = [28, 29, 30, 50, 54, 55];
const USART6_DR: u32 = 0x4001_1404;
const SPI1_DR: u32 = 0x4001_300C;
const I2C1_DR: u32 = 0x4000_5410;
const I2C3_DR: u32 = 0x4000_5C10;
const TIM3_CCR2: u32 = 0x4000_0438;
/// The LED ring's data line: TIM3 channel 2.
const RING_DATA: Pin = Pin(1, 5);

/// Gyroscope's data ready.
const DATA_READY: Pin = Pin(2, 14);
/// The radio processor's flow control.
const FLOW: Pin = Pin(0, 4);
/// The buses' wires.
const SENSOR_SCL: Pin = Pin(0, 8);
const SENSOR_SDA: Pin = Pin(2, 9);
const DECK_SCL: Pin = Pin(1, 6);
const DECK_SDA: Pin = Pin(1, 7);
/// The card's chip select.
const CARD_SELECT: Pin = Pin(2, 12);
/// Motors M1 to M4: pin, alternate function, index of the timer, channel.
const MOTORS: [(Pin, u8, usize, usize); 4] =
    [(Pin(0, 1), 1, 0, 2), (Pin(1, 11), 1, 0, 4), (Pin(0, 15), 1, 0, 1), (Pin(1, 9), 2, 2, 4)];

/// What the core has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Instructions.
    pub instructions: u64,
    /// Cycles (an estimate), without sleeping.
    pub cycles: u64,
    /// Ticks asleep.
    pub asleep: u64,
}

/// The board.
pub struct Board {
    /// Ticks since power came on first.
    pub now: u64,
    due: [u64; SLOTS.len()],
    deadline: u64,
    /// Ticks per cycle, times two.
    scale: u64,
    costs: CostTable,
    ram_costs: CostTable,
    /// Block that is running, to be charged when it has run.
    running: Option<(Cost, u32)>,
    /// Start of the block that is running.
    pub block_address: u32,
    /// Cycles by halfword of flash where blocks begin, when asked for.
    pub profile: Option<Vec<(u64, u64)>>,
    /// What the core has done.
    pub effort: Effort,
    /// What single functions have done.
    pub meters: Meters,
    /// The event register that WFE waits for.
    pub event: bool,
    /// Why the machine stops.
    pub stop: Option<Stop>,
    /// The interrupt controller.
    pub nvic: Nvic,
    /// The core's registers.
    pub system: System,
    rcc: Rcc,
    /// Ports.
    pub gpio: Gpio,
    dma: Dma,
    flash: FlashInterface,
    timers: [Timer; 6],
    usart: Usart,
    i2c1: I2c,
    /// The sensors' bus.
    pub i2c3: I2c,
    spi: Spi,
    /// The independent watchdog.
    pub watchdog: Watchdog,
    /// Accesses to peripherals whose clock was off, which do nothing: by block of code, the register.
    pub unclocked: BTreeMap<u32, u32>,
    power_control: u32,
    backup: [u32; 40],
    debug_freeze: [u32; 4],
    /// The EEPROM.
    pub eeprom: Eeprom,
    /// Sensors on I2C3.
    pub sensors: Sensors,
    /// The micro-SD card.
    pub card: Card,
    card_selected: bool,
    /// The LED-ring deck; the radio processor knows whether it is mounted.
    pub ring: LedRing,
    /// The radio processor.
    pub nrf: Nrf,
    /// The world outside: physics, ground station, faults.
    pub outside: Box<dyn Outside>,
}

impl Board {
    /// A board with power just switched on and the firmware about to start.
    #[must_use]
    pub fn new(card: Card, eeprom: Eeprom, nrf: Nrf, outside: Box<dyn Outside>) -> Self {
        let mut board = Self {
            now: 0,
            due: [u64::MAX; SLOTS.len()],
            deadline: u64::MAX,
            scale: 2,
            costs: CostTable::new(map::FLASH, map::FLASH_LEN),
            ram_costs: CostTable::new(map::SRAM, map::SRAM_LEN),
            running: None,
            block_address: 0,
            profile: None,
            effort: Effort::default(),
            meters: Meters::default(),
            event: false,
            stop: None,
            nvic: Nvic::default(),
            system: System::default(),
            rcc: Rcc::after_bootloader(ResetCause::PowerOn),
            gpio: Gpio::default(),
            dma: Dma::default(),
            flash: FlashInterface::default(),
            timers: new_timers(),
            usart: Usart::default(),
            i2c1: I2c::default(),
            i2c3: I2c::default(),
            spi: Spi::default(),
            watchdog: Watchdog::default(),
            unclocked: BTreeMap::new(),
            power_control: 0xC000,
            backup: [0; 40],
            debug_freeze: [0; 4],
            eeprom,
            sensors: Sensors::default(),
            card,
            card_selected: false,
            ring: LedRing::default(),
            nrf,
            outside,
        };
        board.set_due(Slot::Plant, TICKS_PER_MS);
        board.set_due(Slot::Nrf, TICKS_PER_MS);
        board.gpio.drive(FLOW, false);
        board.gpio.drive(DATA_READY, false);
        // Pull-ups on both buses.
        for pin in [SENSOR_SCL, SENSOR_SDA, DECK_SCL, DECK_SDA] {
            board.gpio.drive(pin, true);
        }
        board
    }

    /// Resets the chip; sensors, card and radio go on unless power was lost.
    pub fn reset(&mut self, cause: ResetCause) {
        self.nvic.reset();
        self.system = System::default();
        self.rcc = Rcc::after_bootloader(cause);
        self.gpio.reset();
        self.dma = Dma::default();
        self.flash = FlashInterface::default();
        self.timers = new_timers();
        self.usart.reset();
        self.i2c1.reset();
        self.i2c3.reset();
        self.spi.reset();
        self.watchdog = Watchdog::default();
        self.power_control = 0xC000;
        (self.running, self.event, self.stop) = (None, false, None);
        self.after_rcc();
        for slot in SLOTS {
            if !matches!(slot, Slot::Plant | Slot::Nrf | Slot::Limit | Slot::DataReadyEnd) {
                self.set_due(slot, u64::MAX);
            }
        }
        if matches!(cause, ResetCause::PowerOn | ResetCause::BrownOut) {
            self.sensors.power_off();
            self.card.power_off();
            if cause == ResetCause::PowerOn {
                self.backup = [0; 40];
            }
        }
        self.nrf.stm_was_reset();
    }

    /// Counts the work of the functions that begin at these addresses.
    pub fn meter(&mut self, functions: &[u32]) {
        self.costs.mark(functions);
        self.meters = Meters::new(functions.len());
    }

    /// Forgets the costs of code in flash: it has changed.
    pub fn forget_costs(&mut self) {
        self.costs.clear();
    }

    fn set_due(&mut self, slot: Slot, time: u64) {
        self.due[slot as usize] = time;
        self.deadline = self.due.iter().copied().min().unwrap_or(u64::MAX);
    }

    /// The run ends at this time.
    pub fn set_limit(&mut self, time: u64) {
        self.set_due(Slot::Limit, time);
    }

    /// When something happens next.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Lets a sleeping core's time pass until `time`.
    pub fn sleep_until(&mut self, memory: &mut Memory<'_>, time: u64) {
        self.effort.asleep += time.saturating_sub(self.now);
        self.now = self.now.max(time);
        self.events(memory);
    }

    /// Charges cycles that no block accounts for.
    pub fn charge(&mut self, cycles: u64) {
        self.effort.cycles += cycles;
        self.now += cycles * self.scale / 2;
    }

    /// Charges the block that has run, and forgets it.
    #[inline]
    pub fn settle(&mut self, next: Option<u32>) {
        let Some((cost, end)) = self.running.take() else { return };
        let mut cycles = u64::from(cost.cycles);
        if next.is_some_and(|next| next != end) {
            cycles += BRANCH_REFILL;
        }
        self.event |= cost.sends_event;
        self.effort.instructions += u64::from(cost.instructions);
        if let Some(profile) = &mut self.profile
            && let Some(entry) = profile.get_mut((self.block_address.wrapping_sub(map::FLASH) / 2) as usize)
        {
            entry.0 += u64::from(cost.instructions);
            entry.1 += cycles;
        }
        if !self.meters.is_idle() {
            self.meters.charge(self.nvic.depth(), u64::from(cost.instructions), cycles);
        }
        self.charge(cycles);
    }

    /// The sensors' bus hangs, a chip holding its data line, or works again.
    pub fn hang_sensor_bus(&mut self, hangs: bool) {
        self.i2c3.is_stuck = hangs;
        self.gpio.drive(SENSOR_SDA, !hangs);
        self.set_due(Slot::I2c3, self.i2c3.due());
    }

    /// Power of the motors, of 65536, as their pins are driven.
    #[must_use]
    pub fn motors(&self) -> [u16; 4] {
        MOTORS.map(|(pin, function, timer, channel)| {
            let duty = if self.gpio.alternate(pin) == Some(function) {
                self.timers[timer].duty(channel)
            } else if self.gpio.is_output(pin) && self.gpio.level(pin) {
                65536
            } else {
                0
            };
            u16::try_from(duty).unwrap_or(u16::MAX)
        })
    }

    /// PWM frequency of the first motor, Hz.
    #[must_use]
    pub fn motor_frequency_hz(&self) -> f64 {
        self.timers[0].frequency_hz()
    }

    /// Bytes that the serial port lost.
    #[must_use]
    pub fn serial_overruns(&self) -> u64 {
        self.usart.overruns
    }

    /// A packet arrives on the drone's radio address; nothing comes back when nobody is there.
    pub fn radio(&mut self, memory: &mut Memory<'_>, packet: &Packet) -> Option<Ack> {
        let answer = self.nrf.radio(packet, memory.flash, self.now);
        self.wake_receiver();
        answer
    }

    /// A packet arrives on the broadcast address.
    pub fn broadcast(&mut self, packet: &Packet) {
        self.nrf.broadcast(packet);
        self.wake_receiver();
    }

    fn wake_receiver(&mut self) {
        if self.due[Slot::UsartRx as usize] == u64::MAX && self.nrf.has_bytes() {
            self.set_due(Slot::UsartRx, self.now + self.usart.frame_ticks());
        }
    }

    /// Everything that is due happens, in the order of time and then of the slots.
    fn events(&mut self, memory: &mut Memory<'_>) {
        while self.deadline <= self.now {
            let deadline = self.deadline;
            let Some(slot) = SLOTS.into_iter().find(|s| self.due[*s as usize] == deadline) else { return };
            self.event_of(slot, memory);
            if slot == Slot::Limit || self.stop.is_some() {
                return;
            }
        }
    }

    fn event_of(&mut self, slot: Slot, memory: &mut Memory<'_>) {
        let now = self.now;
        match slot {
            Slot::Tick => {
                self.system.tick(&mut self.nvic);
                self.set_due(Slot::Tick, self.system.tick_due());
            }
            Slot::Timer0 | Slot::Timer1 | Slot::Timer2 | Slot::Timer3 | Slot::Timer4 | Slot::Timer5 => {
                let index = slot as usize - Slot::Timer0 as usize;
                self.timers[index].sync(now);
                self.after_timer(index);
            }
            Slot::Usart => {
                self.usart.advance(now);
                while let Some(byte) = self.usart.sent.pop_front() {
                    self.nrf.serial(byte, now);
                }
                self.apply_nrf();
                self.after_usart(memory);
            }
            Slot::UsartRx => {
                if let Some(byte) = self.nrf.next_byte()
                    && self.usart.arrive(byte, now)
                    && self.dma.give(Wire::Usart6Rx, USART6_DR, byte, memory)
                {
                    self.usart.fetch();
                }
                let next = if self.nrf.has_bytes() { now + self.usart.frame_ticks() } else { u64::MAX };
                self.set_due(Slot::UsartRx, next);
                self.after_usart(memory);
            }
            Slot::I2c1 => {
                let left = self.dma.left(Wire::I2c1Rx);
                self.i2c1.advance(&mut self.eeprom, left, now);
                self.after_i2c1(memory);
            }
            Slot::I2c3 => {
                let left = self.dma.left(Wire::I2c3Rx);
                self.i2c3.advance(&mut self.sensors, left, now);
                self.after_i2c3(memory);
            }
            Slot::Spi => {
                if let Some(byte) = self.spi.outgoing(now) {
                    let answer = if self.card_selected { self.card.exchange(byte, now) } else { 0xFF };
                    if self.spi.finish(answer, now) && self.dma.give(Wire::Spi1Rx, SPI1_DR, answer, memory) {
                        self.spi.fetch();
                    }
                }
                self.after_spi(memory);
            }
            Slot::Watchdog => {
                self.set_due(Slot::Watchdog, u64::MAX);
                self.stop = Some(Stop::Reset(ResetCause::Watchdog));
            }
            Slot::Plant => self.plant_event(memory),
            Slot::DataReadyEnd => {
                self.gpio.drive(DATA_READY, false);
                self.set_due(Slot::DataReadyEnd, u64::MAX);
                self.after_gpio();
            }
            Slot::Nrf => {
                self.nrf.tick(memory.flash, now);
                self.apply_nrf();
                let next = self.nrf.due(now);
                self.set_due(Slot::Nrf, next);
            }
            Slot::Limit => {}
        }
    }

    /// A millisecond of the world outside.
    fn plant_event(&mut self, memory: &mut Memory<'_>) {
        self.set_due(Slot::Plant, self.now - self.now % TICKS_PER_MS + TICKS_PER_MS);
        // The outside acts on the board, so it is taken out for the time being.
        let mut outside = std::mem::replace(&mut self.outside, Box::new(crate::outside::Nothing));
        outside.step(self, memory);
        self.outside = outside;
        if self.sensors.has_data_ready_pin() {
            self.gpio.drive(DATA_READY, true);
            self.set_due(Slot::DataReadyEnd, self.now + DATA_READY_TICKS);
            self.after_gpio();
        }
        self.apply_nrf();
    }

    /// What the radio processor wants of the chip's pins.
    fn apply_nrf(&mut self) {
        let flow = self.nrf.is_flow_stopped(self.now);
        if self.gpio.level(FLOW) != flow {
            self.gpio.drive(FLOW, flow);
            self.after_gpio();
        }
        if let Some(stop) = self.nrf.take_request() {
            self.stop = Some(stop);
        }
        let next = self.nrf.due(self.now);
        self.set_due(Slot::Nrf, next);
        self.wake_receiver();
    }

    fn after_gpio(&mut self) {
        for (irq, level) in self.gpio.interrupts() {
            self.nvic.set_line(irq, level);
        }
        let selected = !self.gpio.level(CARD_SELECT) && self.gpio.is_output(CARD_SELECT);
        if self.card_selected && !selected {
            self.card.deselect();
        }
        self.card_selected = selected;
    }

    fn after_timer(&mut self, index: usize) {
        let timer = &self.timers[index];
        let (due, level) = (timer.due(), timer.interrupt());
        self.nvic.set_line(TIMER_INTERRUPTS[index], level);
        self.set_due(SLOTS[Slot::Timer0 as usize + index], due);
    }

    fn after_dma(&mut self, controller: usize) {
        for (irq, level) in self.dma.interrupts(controller) {
            self.nvic.set_line(irq, level);
        }
        if let Some(misuse) = self.dma.misuse.take() {
            self.stop = Some(Stop::Dma(misuse));
        }
    }

    fn after_usart(&mut self, memory: &mut Memory<'_>) {
        while self.usart.wants_byte()
            && let Some(byte) = self.dma.take(Wire::Usart6Tx, USART6_DR, memory)
        {
            self.usart.put(byte, self.now);
        }
        self.nvic.set_line(71, self.usart.interrupt());
        self.set_due(Slot::Usart, self.usart.due());
        self.after_dma(1);
    }

    fn after_spi(&mut self, memory: &mut Memory<'_>) {
        while self.spi.wants_byte()
            && let Some(byte) = self.dma.take(Wire::Spi1Tx, SPI1_DR, memory)
        {
            self.spi.put(byte, self.now);
        }
        self.nvic.set_line(35, self.spi.interrupt());
        self.set_due(Slot::Spi, self.spi.due());
        self.after_dma(1);
    }

    fn after_i2c1(&mut self, memory: &mut Memory<'_>) {
        serve_i2c(&mut self.i2c1, &mut self.dma, [Wire::I2c1Rx, Wire::I2c1Tx], I2C1_DR, memory, self.now);
        let (event, error) = self.i2c1.interrupts();
        self.nvic.set_line(31, event);
        self.nvic.set_line(32, error);
        self.set_due(Slot::I2c1, self.i2c1.due());
        self.after_dma(0);
    }

    fn after_i2c3(&mut self, memory: &mut Memory<'_>) {
        serve_i2c(&mut self.i2c3, &mut self.dma, [Wire::I2c3Rx, Wire::I2c3Tx], I2C3_DR, memory, self.now);
        let (event, error) = self.i2c3.interrupts();
        self.nvic.set_line(72, event);
        self.nvic.set_line(73, error);
        self.set_due(Slot::I2c3, self.i2c3.due());
        self.after_dma(0);
    }

    /// The timer's DMA feeds the LED ring. That a picture takes a third of a millisecond is not
    /// modelled: all of its pulses come at once.
    fn serve_ring(&mut self, memory: &Memory<'_>) {
        let timer = &self.timers[1];
        let is_wired = self.gpio.alternate(RING_DATA) == Some(2);
        if !timer.asks_dma(3) || !is_wired {
            return;
        }
        while let Some(counts) = self.dma.take_half(Wire::Tim3Compare3, TIM3_CCR2, memory) {
            self.ring.pulse(u64::from(counts) * 1_000_000_000 / self.timers[1].clock_hz);
        }
        self.after_dma(0);
    }

    fn after_rcc(&mut self) {
        let core = self.rcc.core_hz().max(1);
        self.scale = (2 * TICKS_PER_S / core).max(2);
        let (apb1, apb1_timers) = self.rcc.apb1_hz();
        for (index, timer) in self.timers.iter_mut().enumerate() {
            if timer.clock_hz != apb1_timers {
                timer.sync(self.now);
                timer.clock_hz = apb1_timers;
                let due = timer.due();
                self.due[Slot::Timer0 as usize + index] = due;
            }
        }
        (self.i2c1.clock_hz, self.i2c3.clock_hz) = (apb1, apb1);
        (self.usart.clock_hz, self.spi.clock_hz) = (self.rcc.apb2_hz(), self.rcc.apb2_hz());
        // Peripherals held in reset lose their state.
        for (bit, port) in [(21, &mut self.i2c1), (23, &mut self.i2c3)] {
            if self.rcc.is_set(0x20, bit) {
                port.reset();
            }
        }
        if self.rcc.is_set(0x24, 5) {
            self.usart.reset();
        }
        if self.rcc.is_set(0x24, 12) {
            self.spi.reset();
        }
    }

    /// Reads a whole register.
    fn register(&mut self, memory: &mut Memory<'_>, address: u32) -> Option<u32> {
        let (base, offset, now) = (address & !0x3FF, address & 0x3FF, self.now);
        match base {
            0x4000_0000..=0x4000_17FF => {
                let index = (base >> 10 & 7) as usize;
                let value = self.timers[index].read(offset, now);
                self.after_timer(index);
                value
            }
            0x4000_2800 => match offset {
                0x00..=0x9F => Some(self.backup[offset as usize / 4]),
                _ => None,
            },
            0x4000_3000 => self.watchdog.read(offset),
            0x4000_5400 => {
                let value = self.i2c1.read(offset, now);
                self.after_i2c1(memory);
                value
            }
            0x4000_5C00 => {
                let value = self.i2c3.read(offset, now);
                self.after_i2c3(memory);
                value
            }
            0x4000_7000 => match offset {
                0 => Some(self.power_control),
                // The regulator is always ready.
                4 => Some(0x0000_4000),
                _ => None,
            },
            0x4001_1400 => {
                let value = self.usart.read(offset);
                self.nvic.set_line(71, self.usart.interrupt());
                value
            }
            0x4001_3000 => {
                let value = self.spi.read(offset);
                self.nvic.set_line(35, self.spi.interrupt());
                value
            }
            0x4001_3800 => self.gpio.read_syscfg(offset),
            0x4001_3C00 => self.gpio.read_exti(offset),
            0x4002_0000..=0x4002_1FFF => self.gpio.read((base >> 10 & 7) as usize, offset),
            0x4002_3800 => self.rcc.read(offset),
            0x4002_3C00 => self.flash.read(offset),
            0x4002_6000 => self.dma.read(0, offset),
            0x4002_6400 => self.dma.read(1, offset),
            _ => None,
        }
    }

    /// Writes a whole register.
    fn set_register(&mut self, memory: &mut Memory<'_>, address: u32, value: u32) -> Option<()> {
        let (base, offset, now) = (address & !0x3FF, address & 0x3FF, self.now);
        match base {
            0x4000_0000..=0x4000_17FF => {
                let index = (base >> 10 & 7) as usize;
                self.timers[index].write(offset, value, now)?;
                self.after_timer(index);
                if index == 1 {
                    self.serve_ring(memory);
                }
            }
            0x4000_2800 => *self.backup.get_mut(offset as usize / 4)? = value,
            0x4000_3000 => {
                self.watchdog.write(offset, value, now)?;
                self.set_due(Slot::Watchdog, self.watchdog.due());
            }
            0x4000_5400 => {
                self.i2c1.write(&mut self.eeprom, offset, value, now)?;
                self.after_i2c1(memory);
            }
            0x4000_5C00 => {
                self.i2c3.write(&mut self.sensors, offset, value, now)?;
                self.after_i2c3(memory);
            }
            0x4000_7000 if offset == 0 => self.power_control = value,
            0x4000_7000 if offset == 4 => {}
            0x4001_1400 => {
                self.usart.write(offset, value, now)?;
                self.after_usart(memory);
            }
            0x4001_3000 => {
                self.spi.write(offset, value, now)?;
                self.after_spi(memory);
            }
            0x4001_3800 => self.gpio.write_syscfg(offset, value)?,
            0x4001_3C00 => {
                self.gpio.write_exti(offset, value)?;
                self.after_gpio();
            }
            0x4002_0000..=0x4002_1FFF => {
                self.gpio.write((base >> 10 & 7) as usize, offset, value)?;
                self.after_gpio();
            }
            0x4002_3800 => {
                self.rcc.write(offset, value)?;
                self.after_rcc();
            }
            0x4002_3C00 => self.flash.write(offset, value)?,
            0x4002_6000 => {
                self.dma.write(0, offset, value)?;
                self.after_i2c1(memory);
                self.after_i2c3(memory);
            }
            0x4002_6400 => {
                self.dma.write(1, offset, value)?;
                self.after_usart(memory);
                self.after_spi(memory);
            }
            _ => return None,
        }
        Some(())
    }

    fn core_register(&mut self, address: u32, size: u32) -> Option<u32> {
        match address {
            0xE000_E100..=0xE000_E4EF => Some(self.nvic.read(address - 0xE000_E100, size)),
            0xE004_2000 => Some(0x1003_6413),
            0xE004_2004..=0xE004_200F => Some(self.debug_freeze[(address as usize - 0xE004_2004) / 4]),
            _ => {
                let word = self.system.read(&self.nvic, address & !3, self.now)?;
                Some(part(word, address, size))
            }
        }
    }

    fn set_core_register(&mut self, address: u32, size: u32, value: u32) -> Option<()> {
        match address {
            0xE000_E100..=0xE000_E4EF => self.nvic.write(address - 0xE000_E100, size, value),
            // Priorities of system exceptions may be written byte by byte.
            0xE000_ED18..=0xE000_ED23 => {
                self.nvic.set_priorities(4 + (address as usize - 0xE000_ED18), size, value);
            }
            0xE004_2004..=0xE004_200F => self.debug_freeze[(address as usize - 0xE004_2004) / 4] = value,
            _ => {
                let request = self.system.write(&mut self.nvic, address, value, self.now)?;
                if request == Request::Reset {
                    self.stop = Some(Stop::Reset(ResetCause::Software));
                }
                self.set_due(Slot::Tick, self.system.tick_due());
            }
        }
        Some(())
    }

    /// Something is due or pending: true when the core must stop for it.
    #[cold]
    fn interrupts(&mut self, memory: &mut Memory<'_>, masks: &dyn Fn() -> Masks) -> bool {
        if self.now >= self.deadline {
            self.events(memory);
        }
        if self.stop.is_some() || self.now >= self.due[Slot::Limit as usize] {
            return true;
        }
        self.nvic.wants() && {
            let masks = masks();
            self.nvic.next(masks.primask, masks.basepri, masks.faultmask).is_some()
        }
    }

    fn refuse(&mut self, stop: Stop) {
        self.stop.get_or_insert(stop);
    }
}

fn new_timers() -> [Timer; 6] {
    // TIM2 and TIM5 have 32 bits.
    [true, false, false, true, false, false].map(Timer::new)
}

/// DMA for an I²C port in both directions.
fn serve_i2c(
    port: &mut I2c,
    dma: &mut Dma,
    [rx, tx]: [Wire; 2],
    register: u32,
    memory: &mut Memory<'_>,
    now: u64,
) {
    while let Some(byte) = port.has_byte() {
        if !dma.give(rx, register, byte, memory) {
            break;
        }
        port.fetch(now);
    }
    while port.wants_byte() {
        match dma.take(tx, register, memory) {
            Some(byte) => port.put(byte, now),
            None => break,
        }
    }
}

/// The bytes of a word that an access of `size` at `address` means.
fn part(word: u32, address: u32, size: u32) -> u32 {
    let shifted = word >> (8 * (address & 3));
    match size {
        1 => shifted & 0xFF,
        2 => shifted & 0xFFFF,
        _ => word,
    }
}

impl Bus for Board {
    #[inline]
    fn block(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, masks: &dyn Fn() -> Masks) -> bool {
        self.settle(Some(address));
        if (self.now >= self.deadline || self.nvic.wants()) && self.interrupts(memory, masks) {
            return true;
        }
        let cost = if address >= map::SRAM {
            self.ram_costs.get(memory.sram, address, size)
        } else {
            self.costs.get(memory.flash, address, size)
        };
        if cost.uses_fpu && !self.system.has_fpu() {
            self.refuse(Stop::FpuOff);
            return true;
        }
        if !self.meters.is_idle() {
            self.meters.block(address, self.nvic.depth());
        }
        if cost.function > 0 {
            self.meters.enter(usize::from(cost.function) - 1, masks().link & !1, self.nvic.depth());
        }
        self.block_address = address;
        self.running = Some((cost, address.wrapping_add(size)));
        false
    }

    fn read(&mut self, memory: &mut Memory<'_>, address: u32, size: u32) -> u32 {
        let value = match address {
            0x2200_0000..=0x23FF_FFFF => {
                let bit = (address - 0x2200_0000) / 4;
                memory.sram.get(bit as usize / 8).map(|byte| u32::from(byte >> (bit % 8) & 1))
            }
            0x4200_0000..=0x43FF_FFFF => {
                let bit = (address - 0x4200_0000) / 4;
                let target = 0x4000_0000 + bit / 8;
                self.register(memory, target & !3).map(|word| word >> (bit % 32) & 1)
            }
            0xE000_0000.. => self.core_register(address, size),
            _ if !self.rcc.has_clock(address) => {
                self.unclocked.insert(self.block_address, address);
                Some(0)
            }
            _ => self.register(memory, address & !3).map(|word| part(word, address, size)),
        };
        value.unwrap_or_else(|| {
            self.refuse(Stop::Unmodelled { address, is_write: false });
            0
        })
    }

    fn write(&mut self, memory: &mut Memory<'_>, address: u32, size: u32, value: u32) {
        let done = match address {
            0x2200_0000..=0x23FF_FFFF => {
                let bit = (address - 0x2200_0000) / 4;
                memory.sram.get_mut(bit as usize / 8).map(|byte| {
                    *byte = *byte & !(1 << (bit % 8)) | ((value & 1) as u8) << (bit % 8);
                })
            }
            0x4200_0000..=0x43FF_FFFF => {
                let bit = (address - 0x4200_0000) / 4;
                let target = (0x4000_0000 + bit / 8) & !3;
                self.register(memory, target).and_then(|word| {
                    let word = word & !(1 << (bit % 32)) | (value & 1) << (bit % 32);
                    self.set_register(memory, target, word)
                })
            }
            0xE000_0000.. => self.set_core_register(address, size, value),
            _ if !self.rcc.has_clock(address) => {
                self.unclocked.insert(self.block_address, address);
                Some(())
            }
            // Narrow stores into the data registers of the serial ports go as they are; elsewhere
            // the other bytes of the word keep their value.
            _ if size == 4 || matches!(address, USART6_DR | SPI1_DR | I2C1_DR | I2C3_DR) => {
                self.set_register(memory, address & !3, value)
            }
            _ => self.register(memory, address & !3).and_then(|word| {
                let shift = 8 * (address & 3);
                let mask = if size == 1 { 0xFF } else { 0xFFFF } << shift;
                self.set_register(memory, address & !3, word & !mask | value << shift & mask)
            }),
        };
        if done.is_none() {
            self.refuse(Stop::Unmodelled { address, is_write: true });
        }
    }

    fn must_stop(&self) -> bool {
        self.stop.is_some()
    }
}
