//! Why the processor started.

use steady_firmware::fault::ResetReason;

use stm32f4xx_hal::pac::RCC;

/// Reads the reason of this start and clears it for the next.
pub(crate) fn reason(rcc: &RCC) -> ResetReason {
    let flags = rcc.csr().read();
    rcc.csr().modify(|_, w| w.rmvf().set_bit());
    // A power-on sets the pin's flag as well, and the pin's flag accompanies every other: most
    // specific first.
    if flags.wdgrstf().bit_is_set() {
        ResetReason::Watchdog
    } else if flags.sftrstf().bit_is_set() {
        ResetReason::Software
    } else if flags.porrstf().bit_is_set() {
        ResetReason::PowerOn
    } else if flags.borrstf().bit_is_set() {
        ResetReason::BrownOut
    } else if flags.padrstf().bit_is_set() {
        ResetReason::Pin
    } else {
        ResetReason::Unknown
    }
}
