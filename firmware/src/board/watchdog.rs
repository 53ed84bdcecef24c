//! The independent watchdog. Only the flight loop feeds it, and only when it met its deadline.

use super::reg;

/// Unlocks the settings.
const UNLOCK: u16 = 0x5555;
/// Starts the counter over.
const RELOAD: u16 = 0xAAAA;
/// Starts the watchdog.
const START: u16 = 0xCCCC;

/// Starts it: prescaler 32, reload 188, so 100 to 353 ms over the spread of its RC oscillator. It
/// cannot be stopped again, except by a debugger's halt; see [`bite_in_halt`].
pub(crate) fn start() {
    let iwdg = reg::iwdg();
    key(UNLOCK);
    iwdg.pr().write(|w| w.pr().divide_by32());
    iwdg.rlr().write(|w| w.rl().set(188));
    feed();
    key(START);
}

/// Whether it runs on while a debugger holds the processor. It must while motors turn: their timers go on
/// by themselves, and freezing those as well could leave a pin high, full power, as general-purpose timers
/// have no safe state. The reset makes the pins inputs, and the motors stand still. With the motors off it
/// waits, so that one can debug.
pub(crate) fn bite_in_halt(bites: bool) {
    reg::dbgmcu().apb1_fz().modify(|_, w| w.dbg_iwdg_stop().bit(!bites));
}

/// Gives the flight loop another period.
pub(crate) fn feed() {
    key(RELOAD);
}

fn key(value: u16) {
    // SAFETY: the register takes any 16-bit value; the three above mean something.
    reg::iwdg().kr().write(|w| unsafe { w.bits(value) });
}
