//! Pins. Modes are set at start-up (and by the emergency stop of the motors); levels change by single
//! atomic writes, so that tasks and interrupt handlers may share a port.

use stm32f4xx_hal::pac::{GPIOA, GPIOB, GPIOC, GPIOD, gpioi};

use super::reg;

/// A port with pins in use.
#[derive(Clone, Copy)]
pub(crate) enum Port {
    A,
    B,
    C,
    D,
}

/// A pin: its port and number 0 to 15.
#[derive(Clone, Copy)]
pub(crate) struct Pin(pub(crate) Port, pub(crate) u8);

/// The resistor at a pin.
#[derive(Clone, Copy)]
pub(crate) enum Pull {
    None = 0b00,
    Up = 0b01,
}

/// How steep the edges are.
#[derive(Clone, Copy)]
pub(crate) enum Speed {
    /// 25 MHz: enough for every line without a fast clock.
    Medium = 0b01,
    /// 50 MHz.
    Fast = 0b10,
    /// 100 MHz.
    Fastest = 0b11,
}

/// What drives a high level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drive {
    PushPull,
    /// Nothing but the bus's resistor.
    OpenDrain,
}

/// Gives the ports their clocks.
pub(crate) fn init() {
    reg::rcc()
        .ahb1enr()
        .modify(|_, w| w.gpioaen().set_bit().gpioben().set_bit().gpiocen().set_bit().gpioden().set_bit());
}

impl Port {
    fn block(self) -> &'static gpioi::RegisterBlock {
        let address = match self {
            Self::A => GPIOA::ptr().cast(),
            Self::B => GPIOB::ptr().cast(),
            Self::C => GPIOC::ptr(),
            Self::D => GPIOD::ptr(),
        };
        // SAFETY: all ports have the same layout (the register crate tells them apart only by their
        // reset values), and their registers are volatile cells, which may be shared.
        unsafe { &*address }
    }
}

impl Pin {
    /// Sets the level of an output.
    pub(crate) fn set(self, high: bool) {
        let bit = if high { u32::from(self.1) } else { u32::from(self.1) + 16 };
        // SAFETY: the register has one bit to set and one to reset each of the 16 pins.
        self.0.block().bsrr().write(|w| unsafe { w.bits(1 << bit) });
    }

    /// The level at the pin.
    pub(crate) fn is_high(self) -> bool {
        self.0.block().idr().read().bits() & (1 << self.1) != 0
    }

    /// Makes it an input.
    pub(crate) fn input(self, pull: Pull) {
        self.configure(0b00, Drive::PushPull, pull);
    }

    /// Makes it an output with the level set before.
    pub(crate) fn output(self, drive: Drive) {
        self.configure(0b01, drive, Pull::None);
    }

    /// Hands it to a peripheral.
    pub(crate) fn alternate(self, function: u8, drive: Drive, pull: Pull) {
        let block = self.0.block();
        let shift = u32::from(self.1 % 8) * 4;
        let change = |bits: u32| (bits & !(0xF << shift)) | (u32::from(function & 0xF) << shift);
        if self.1 < 8 {
            // SAFETY: only this pin's four bits change.
            block.afrl().modify(|r, w| unsafe { w.bits(change(r.bits())) });
        } else {
            // SAFETY: only this pin's four bits change.
            block.afrh().modify(|r, w| unsafe { w.bits(change(r.bits())) });
        }
        self.configure(0b10, drive, pull);
    }

    /// Sets how steep the edges are, after the mode.
    pub(crate) fn speed(self, speed: Speed) {
        let shift = u32::from(self.1) * 2;
        // SAFETY: only this pin's two bits change.
        self.0.block().ospeedr().modify(|r, w| unsafe { w.bits((r.bits() & !(0b11 << shift)) | ((speed as u32) << shift)) });
    }

    fn configure(self, mode: u32, drive: Drive, pull: Pull) {
        let block = self.0.block();
        let shift = u32::from(self.1) * 2;
        let change = |bits: u32, value: u32| (bits & !(0b11 << shift)) | (value << shift);
        // SAFETY: in each register only this pin's bits change.
        unsafe {
            block.otyper().modify(|r, w| {
                let bit = 1 << self.1;
                w.bits(if drive == Drive::OpenDrain { r.bits() | bit } else { r.bits() & !bit })
            });
            block.pupdr().modify(|r, w| w.bits(change(r.bits(), pull as u32)));
            block.moder().modify(|r, w| w.bits(change(r.bits(), mode)));
        }
        self.speed(Speed::Medium);
    }
}
