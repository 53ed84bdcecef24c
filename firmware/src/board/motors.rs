//! The four motors: PWM at 328 kHz with 8 bits, as the official firmware drives them.
//!
//! | motor | pin | timer channel |
//! |---|---|---|
//! | M1 front right | PA1 | TIM2 channel 2 |
//! | M2 back right | PB11 | TIM2 channel 4 |
//! | M3 back left | PA15 | TIM2 channel 1 |
//! | M4 front left | PB9 | TIM4 channel 4 |

use super::gpio::{Drive, Pin, Port, Pull, Speed};
use super::{reg, watchdog};

/// The timers' period, counts: 84 MHz / 256.
const PERIOD: u32 = 255;

const M1: Pin = Pin(Port::A, 1);
const M2: Pin = Pin(Port::B, 11);
const M3: Pin = Pin(Port::A, 15);
const M4: Pin = Pin(Port::B, 9);

/// Starts the timers with all motors off.
pub(crate) fn init() {
    reg::rcc().apb1enr().modify(|_, w| w.tim2en().set_bit().tim4en().set_bit());
    let (tim2, tim4) = (reg::tim2(), reg::tim4());

    tim2.psc().write(|w| w.psc().set(0));
    tim2.arr().write(|w| w.arr().set(PERIOD));
    // PWM mode 1, new values from the next period on; active high.
    tim2.ccmr1_output()
        .write(|w| w.oc1m().pwm_mode1().oc1pe().enabled().oc2m().pwm_mode1().oc2pe().enabled());
    tim2.ccmr2_output().write(|w| w.oc4m().pwm_mode1().oc4pe().enabled());

    tim4.psc().write(|w| w.psc().set(0));
    tim4.arr().write(|w| w.arr().set(PERIOD as u16));
    tim4.ccmr2_output().write(|w| w.oc4m().pwm_mode1().oc4pe().enabled());

    set([0; 4]);
    tim2.egr().write(|w| w.ug().set_bit());
    tim4.egr().write(|w| w.ug().set_bit());
    tim2.ccer().write(|w| w.cc1e().set_bit().cc2e().set_bit().cc4e().set_bit());
    tim4.ccer().write(|w| w.cc4e().set_bit());
    tim2.cr1().write(|w| w.cen().set_bit());
    tim4.cr1().write(|w| w.cen().set_bit());

    for pin in [M1, M2, M3] {
        pin.alternate(1, Drive::PushPull, Pull::None);
    }
    M4.alternate(2, Drive::PushPull, Pull::None);
    // A pulse is 12 ns times the duty long: slower edges would eat the shortest ones.
    for pin in [M1, M2, M3, M4] {
        pin.speed(Speed::Fastest);
    }
}

/// Sets the power of the motors, 0 to 65535, in the order M1 to M4.
pub(crate) fn set(power: [u16; 4]) {
    watchdog::bite_in_halt(power != [0; 4]);
    let [m1, m2, m3, m4] = power.map(|power| power >> 8);
    let tim2 = reg::tim2();
    tim2.ccr2().write(|w| w.ccr().set(u32::from(m1)));
    tim2.ccr4().write(|w| w.ccr().set(u32::from(m2)));
    tim2.ccr1().write(|w| w.ccr().set(u32::from(m3)));
    reg::tim4().ccr4().write(|w| w.ccr().set(m4));
}

/// Holds the motors' pins low, whatever the timers do.
pub(crate) fn hold_off() {
    for pin in [M1, M2, M3, M4] {
        pin.set(false);
        pin.output(Drive::PushPull);
    }
}

/// Stops the motors from any state of the machine, without waiting for the timers: the first thing a
/// panic or a fault does.
pub(crate) fn stop_now() {
    hold_off();
    set([0; 4]);
}
