//! The independent watchdog. Only the flight loop feeds it, and only when it met its deadline.

use super::reg;

/// Unlocks the settings.
const UNLOCK: u16 = 0x5555;
/// Starts the counter over.
const RELOAD: u16 = 0xAAAA;
/// Starts the watchdog.
const START: u16 = 0xCCCC;

/// Starts it: prescaler 32, reload 188, so 100 to 353 ms over the spread of its RC oscillator. It
/// cannot be stopped again, except by a debugger's halt.
pub(crate) fn start() {
    reg::dbgmcu().apb1_fz().modify(|_, w| w.dbg_iwdg_stop().set_bit());
    let iwdg = reg::iwdg();
    key(UNLOCK);
    iwdg.pr().write(|w| w.pr().divide_by32());
    iwdg.rlr().write(|w| w.rl().set(188));
    feed();
    key(START);
}

/// Gives the flight loop another period.
pub(crate) fn feed() {
    key(RELOAD);
}

fn key(value: u16) {
    // SAFETY: the register takes any 16-bit value; the three above mean something.
    reg::iwdg().kr().write(|w| unsafe { w.bits(value) });
}
