//! The independent watchdog. Only the flight loop feeds it, and only when it met its deadline.
//!
//! Its reset may meet a byte from the radio processor, and then ends in the ROM's bootloader. So the clock's
//! second compare register is a watchdog before it, whose interrupt makes the radio processor quiet and resets.
//! The independent one is for what stops interrupts too.

use stm32f4xx_hal::pac::{DBGMCU, IWDG};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::watchdog::IndependentWatchdog;

use super::time;

/// How long the flight loop may stand still, µs. Until the reset it takes 30 ms more, and the independent watchdog
/// may bite after 125 ms.
const PATIENCE_US: u32 = 80_000;

/// The watchdog.
pub(crate) struct Watchdog {
    dog: IndependentWatchdog,
    debug: DBGMCU,
}

impl Watchdog {
    /// It sleeps.
    pub(crate) fn new(iwdg: IWDG, debug: DBGMCU) -> Self {
        // The clock stands still with a debugger's halt: time that the processor does not have does not count.
        debug.apb1_fz().modify(|_, w| w.dbg_tim5_stop().set_bit());
        Self { dog: IndependentWatchdog::new(iwdg), debug }
    }

    /// Starts it: 184 ms, which is 125 to 346 ms over the spread of its RC oscillator. It cannot be stopped
    /// again, except by a debugger's halt; see [`Self::bite_in_halt`].
    pub(crate) fn start(&mut self) {
        self.dog.start(180.millis());
        time::watch(PATIENCE_US);
    }

    /// Gives the flight loop another period.
    pub(crate) fn feed(&mut self) {
        self.dog.feed();
        time::postpone(PATIENCE_US);
    }

    /// Whether it runs on while a debugger holds the processor. It must while motors turn: their timers go on
    /// by themselves, and freezing those as well could leave a pin high, full power, as general-purpose
    /// timers have no safe state. The reset makes the pins inputs, and the motors stand still. With the
    /// motors off it waits, so that one can debug.
    pub(crate) fn bite_in_halt(&mut self, bites: bool) {
        self.dog.stop_on_debug(&self.debug, !bites);
    }
}
