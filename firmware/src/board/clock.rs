//! The clock tree: 8 MHz crystal, PLL to 168 MHz and 48 MHz for USB, APB1 42 MHz, APB2 84 MHz.

use stm32f4xx_hal::pac::RCC;
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::{Config, Rcc};

/// Brings the processor to 168 MHz, whatever ran before: the radio bootloader leaves the PLL on, a
/// debugger's reset leaves the 16 MHz oscillator. A crystal that does not start ends here, with the motors
/// off.
pub(crate) fn start(rcc: Rcc) -> Rcc {
    leave_pll(&rcc);
    rcc.freeze(Config::hse(8.MHz()).sysclk(168.MHz()).pclk1(42.MHz()).pclk2(84.MHz()).require_pll48clk())
}

/// The HAL expects a chip out of reset. The PLL's factors can be changed only while it is off, and it can be
/// off only while nothing runs from it.
fn leave_pll(rcc: &RCC) {
    rcc.cr().modify(|_, w| w.hsion().set_bit());
    while rcc.cr().read().hsirdy().bit_is_clear() {}
    rcc.cfgr().modify(|_, w| w.sw().hsi());
    while !rcc.cfgr().read().sws().is_hsi() {}
    rcc.cr().modify(|_, w| w.pllon().clear_bit());
    while rcc.cr().read().pllrdy().bit_is_set() {}
}
