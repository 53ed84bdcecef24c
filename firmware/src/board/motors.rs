//! The four motors: PWM at 328 kHz with 8 bits, as the official firmware drives them.
//!
//! | motor | pin | timer channel |
//! |---|---|---|
//! | M1 front right | PA1 | TIM2 channel 2 |
//! | M2 back right | PB11 | TIM2 channel 4 |
//! | M3 back left | PA15 | TIM2 channel 1 |
//! | M4 front left | PB9 | TIM4 channel 4 |
//!
//! The HAL drives them. Only the emergency stop goes past it: it needs no ownership, as a panic or a fault
//! may come from anywhere.

use stm32f4xx_hal::gpio::{Debugger, Output, PA1, PA15, PB9, PB11, Pull, Speed};
use stm32f4xx_hal::pac::{TIM2, TIM4};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;
use stm32f4xx_hal::timer::pwm::{C1, C2, C4, PwmChannel};

use super::reg;

/// 84 MHz / 256.
const FREQUENCY_HZ: u32 = 328_125;

/// The motors' pins.
pub(crate) struct Pins {
    m1: PA1<Output>,
    m2: PB11<Output>,
    m3: PA15<Output>,
    m4: PB9<Output>,
}

impl Pins {
    /// Drives them low. PA15 belongs to the debug port after a reset and is pulled up.
    pub(crate) fn low(m1: PA1, m2: PB11, m3: PA15<Debugger>, m4: PB9) -> Self {
        // A pulse is 12 ns times the duty long: slower edges would eat the shortest ones.
        const EDGES: Speed = Speed::VeryHigh;
        Self {
            m1: m1.into_push_pull_output().speed(EDGES),
            m2: m2.into_push_pull_output().speed(EDGES),
            m3: m3.into_push_pull_output().speed(EDGES).internal_resistor(Pull::None),
            m4: m4.into_push_pull_output().speed(EDGES),
        }
    }
}

/// The motors.
pub(crate) struct Motors {
    m1: PwmChannel<TIM2, C2>,
    m2: PwmChannel<TIM2, C4>,
    m3: PwmChannel<TIM2, C1>,
    m4: PwmChannel<TIM4, C4>,
}

impl Motors {
    /// Starts the timers with all motors off.
    pub(crate) fn start(tim2: TIM2, tim4: TIM4, pins: Pins, rcc: &mut Rcc) -> Self {
        let (_, (ch1, ch2, _, ch4)) = tim2.pwm_hz(FREQUENCY_HZ.Hz(), rcc);
        let (_, (.., m4)) = tim4.pwm_hz(FREQUENCY_HZ.Hz(), rcc);
        let mut motors = Self {
            m1: ch2.with(pins.m1),
            m2: ch4.with(pins.m2),
            m3: ch1.with(pins.m3),
            m4: m4.with(pins.m4),
        };
        motors.set([0; 4]);
        motors.m1.enable();
        motors.m2.enable();
        motors.m3.enable();
        motors.m4.enable();
        motors
    }

    /// Sets the power of the motors, 0 to 65535, in the order M1 to M4.
    pub(crate) fn set(&mut self, power: [u16; 4]) {
        let [m1, m2, m3, m4] = power.map(|power| power >> 8);
        self.m1.set_duty(m1);
        self.m2.set_duty(m2);
        self.m3.set_duty(m3);
        self.m4.set_duty(m4);
    }
}

/// Stops the motors from any state of the machine, without waiting for the timers: the pins are driven low
/// as outputs. The first thing a panic or a fault does.
pub(crate) fn stop_now() {
    let (a, b) = (reg::gpioa(), reg::gpiob());
    a.bsrr().write(|w| w.br1().reset().br15().reset());
    b.bsrr().write(|w| w.br9().reset().br11().reset());
    a.moder().modify(|_, w| w.moder1().output().moder15().output());
    b.moder().modify(|_, w| w.moder9().output().moder11().output());
}
