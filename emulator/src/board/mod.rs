//! The Crazyflie's board: the chip's peripherals, what is wired to them, and the time they live in.

pub mod bootloader;
mod bus;
pub mod card;
pub mod eeprom;
pub mod meter;
pub mod nrf;
mod registers;
pub mod ring;
mod schedule;
pub mod sensors;
mod wiring;

use std::collections::BTreeMap;

use steady_common::crtp::Packet;
use steady_radio::firmware::is_steady;

use crate::chip::dma::{Dma, Misuse};
use crate::chip::flash::FlashInterface;
use crate::chip::gpio::Gpio;
use crate::chip::i2c::I2c;
use crate::chip::otg::Otg;
use crate::chip::rcc::{Rcc, ResetCause};
use crate::chip::spi::Spi;
use crate::chip::timer::Timer;
use crate::chip::usart::Usart;
use crate::chip::watchdog::Watchdog;
use crate::cortex::cost::{Cost, CostTable, Traits};
use crate::cortex::map;
use crate::cortex::nvic::Nvic;
use crate::cortex::system::System;
use crate::cortex::unicorn::Memory;
use crate::outside::Outside;
use card::Card;
use eeprom::Eeprom;
use meter::{Locks, Meters};
use nrf::{Ack, Nrf};
use ring::LedRing;
use schedule::{SLOTS, Slot};
use sensors::Sensors;
use wiring::{DATA_READY, DECK_SCL, DECK_SDA, FLOW, MOTORS, SENSOR_SCL, SENSOR_SDA};

/// Ticks of the virtual clock in a second: the core's cycles at full speed.
pub const TICKS_PER_S: u64 = 168_000_000;
/// Ticks in a millisecond.
pub const TICKS_PER_MS: u64 = TICKS_PER_S / 1000;
/// Ticks in a microsecond.
pub const TICKS_PER_US: u64 = TICKS_PER_S / 1_000_000;

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
    /// Many exits of the core in a row, and no time passed.
    NoProgress,
    /// An exit of the core that should not be possible.
    Unexpected(u32),
}

/// What the core has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Instructions.
    pub instructions: u64,
    /// Cycles (an estimate), without sleeping.
    pub cycles: u64,
    /// Ticks asleep.
    pub asleep: u64,
}

/// When a block of code needs no more than to be counted: looked at before every block, and renewed whenever
/// anything else than such blocks has happened.
#[derive(Clone, Copy, Debug)]
struct Plain {
    /// Nothing happens before this time; 0 when something waits already.
    until: u64,
    /// Blocks that have any of these need more.
    not: Traits,
    /// So does the block at this address: a function that is counted returns there.
    not_at: u32,
}

impl Plain {
    /// It always needs more.
    const NEVER: Self = Self { until: 0, not: Traits::NONE, not_at: 1 };
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
    /// Block that is running, to be charged when it has run, and where it ends.
    running: Option<(Cost, u32)>,
    /// What follows from the rest of the board for blocks that only take their time.
    plain: Plain,
    /// Start of the block that is running.
    pub block_address: u32,
    /// Cycles by halfword of flash where blocks begin, when asked for.
    pub profile: Option<Vec<(u64, u64)>>,
    /// What the core has done.
    pub effort: ProcessorTime,
    /// How long interrupts were off.
    pub locks: Locks,
    /// Most bytes in a row that left for the radio processor while its flow control said stop.
    pub bytes_against_flow: u64,
    against_flow: u64,
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
    /// The EEPROM's bus.
    pub i2c1: I2c,
    /// The sensors' bus.
    pub i2c3: I2c,
    spi: Spi,
    /// The independent watchdog.
    pub watchdog: Watchdog,
    /// Accesses to peripherals whose clock was off, which do nothing: by block of code, the register.
    pub unclocked: BTreeMap<u32, u32>,
    /// The USB controller and the computer at its cable.
    pub otg: Otg,
    /// Last values written to registers of parts that are only stubs: the analogue converters.
    stubs: BTreeMap<u32, u32>,
    /// The image has written to its own flash.
    pub flash_changed: bool,
    /// Also stops at what a chip puts up with, but no firmware should do.
    is_strict: bool,
    /// Whether it does so for every image; `None` for our own alone.
    strict: Option<bool>,
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
    /// The byte that is on its way from the radio processor.
    on_line: Option<u8>,
    /// The channel that the ground sends on: the first that the firmware has chosen.
    ground_channel: Option<u8>,
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
            plain: Plain::NEVER,
            block_address: 0,
            profile: None,
            effort: ProcessorTime::default(),
            locks: Locks::default(),
            bytes_against_flow: 0,
            against_flow: 0,
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
            otg: Otg::default(),
            stubs: BTreeMap::new(),
            flash_changed: false,
            is_strict: true,
            strict: None,
            power_control: 0xC000,
            backup: [0; 40],
            debug_freeze: [0; 4],
            eeprom,
            sensors: Sensors::default(),
            card,
            card_selected: false,
            ring: LedRing::default(),
            nrf,
            on_line: None,
            ground_channel: None,
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
        self.meters.at_depth(0, self.effort);
        self.locks.reset();
        self.system = System::default();
        self.rcc = Rcc::after_bootloader(cause);
        self.gpio.reset();
        self.dma = Dma::default();
        self.dma.is_lenient = !self.is_strict;
        self.otg.reset();
        self.stubs.clear();
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
            if !matches!(slot, Slot::Plant | Slot::Nrf | Slot::UsartRx | Slot::Limit | Slot::DataReadyEnd) {
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
        // The radio processor knows of the resets it has a part in; of the others it knows nothing, and goes
        // on sending.
        if !matches!(cause, ResetCause::Software | ResetCause::Watchdog) {
            self.nrf.stm_was_reset();
            self.on_line = None;
            self.set_due(Slot::UsartRx, u64::MAX);
        }
    }

    /// The clocks are as after a reset: a debugger has started the firmware, not the bootloader.
    pub fn skip_bootloader(&mut self) {
        self.rcc = Rcc::after_reset(ResetCause::Pin);
        self.after_rcc();
    }

    /// Whether the run also stops at what a chip puts up with, but no firmware should do.
    pub fn set_strict(&mut self, is_strict: bool) {
        (self.strict, self.is_strict) = (Some(is_strict), is_strict);
        self.dma.is_lenient = !is_strict;
    }

    /// The image in flash starts. Our own must not do what a chip only puts up with: store into locked flash,
    /// start a DMA stream with old flags, change one that is on.
    pub(crate) fn choose_strictness(&mut self, flash: &[u8]) {
        self.is_strict = self.strict.unwrap_or_else(|| is_steady(flash));
        self.dma.is_lenient = !self.is_strict;
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

    /// The sensors' bus hangs, a chip holding its data line, or works again.
    pub fn hang_sensor_bus(&mut self, hangs: bool) {
        self.i2c3.is_stuck = hangs;
        self.gpio.drive(SENSOR_SDA, !hangs);
        self.set_due(Slot::I2c3, self.i2c3.due());
    }

    /// The radio processor takes no bytes for so many ticks.
    pub fn block_flow(&mut self, ticks: u64) {
        self.nrf.blocked_until = self.now + ticks;
        self.apply_nrf();
    }

    /// A debugger holds the core, or lets it go. The peripherals go on, except those that the firmware wants
    /// to stand still as well.
    pub fn debug_halt(&mut self, halted: bool) {
        let (now, freeze) = (self.now, self.debug_freeze[1]);
        for index in 0..self.timers.len() {
            self.timers[index].freeze(halted && freeze >> index & 1 != 0, now);
            self.after_timer(index);
        }
        self.watchdog.freeze(halted && freeze >> 12 & 1 != 0, now);
        self.set_due(Slot::Watchdog, self.watchdog.due());
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
        if !self.hears_the_ground() {
            return None;
        }
        let answer = self.nrf.radio(packet, memory.flash, self.now);
        self.wake_receiver();
        answer
    }

    /// The radio is on the ground's channel.
    fn hears_the_ground(&mut self) -> bool {
        let channel = self.nrf.radio_settings.0;
        self.ground_channel = channel.and(self.ground_channel.or(channel));
        self.ground_channel == channel
    }

    /// A packet arrives on the broadcast address.
    pub fn broadcast(&mut self, packet: &Packet) {
        if !self.hears_the_ground() {
            return;
        }
        self.nrf.broadcast(packet);
        self.wake_receiver();
    }
}

fn new_timers() -> [Timer; 6] {
    // TIM2 and TIM5 have 32 bits.
    [true, false, false, true, false, false].map(Timer::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Nothing;
    use crate::{Image, Machine};

    /// Every instruction takes time, so no image does this: it takes a clock that stands still.
    #[test]
    fn a_run_without_progress_in_time_is_ended_and_says_where() {
        let board = Board::new(Card::new(None), Eeprom::default(), Nrf::new(false), Box::new(Nothing));
        // A stack, and one address for all exceptions: bx lr. The reset goes to the code behind it: svc 0, again.
        let code = map::FIRMWARE + 4 * 16;
        let mut words = [code | 1; 17];
        (words[0], words[1]) = (map::SRAM + 0x1000, (code + 2) | 1);
        words[16] = 0xDF00_4770;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(0xE7FD_u16.to_le_bytes());
        let image = Image::parse(bytes).unwrap();
        let mut machine = Machine::new(board, &image).unwrap();
        assert_eq!(machine.run_until(5 * TICKS_PER_MS), None, "while the clock goes");

        machine.board().scale = 0;
        let stop = machine.run_until(10 * TICKS_PER_MS);
        assert_eq!(stop, Some(Stop::NoProgress));
        let text = machine.explain(&Stop::NoProgress, &image);
        assert!(text.starts_with("no time passes any more, at 0x0800404"), "{text}");
        assert!(text.contains("report it"), "{text}");
    }
}
