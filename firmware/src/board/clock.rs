//! The clock tree: 8 MHz crystal, PLL to 168 MHz, APB1 42 MHz, APB2 84 MHz.

use super::reg;

/// Clock of the timers on APB1 (TIM2, TIM4, TIM5), Hz.
pub(crate) const APB1_TIMER_HZ: u32 = 84_000_000;

/// Polls of a ready flag before the hardware is taken for broken; some 100 ms on the 16 MHz oscillator.
const PATIENCE: u32 = 200_000;

/// PLL: M = 8, N = 336, P = 2, Q = 7 from the crystal. Bits 29 and 22 (reserved, P) keep their reset
/// values.
const PLL: u32 = (7 << 24) | (1 << 22) | (336 << 6) | 8;
/// The bits of that register that mean something.
const PLL_MASK: u32 = 0x0F43_7FFF;

/// Brings the processor to 168 MHz, whatever ran before: the radio bootloader leaves the PLL on, a
/// debugger's reset leaves the 16 MHz oscillator.
pub(crate) fn init() {
    let rcc = reg::rcc();
    reg::flash().acr().write(|w| w.latency().ws5().prften().set_bit().icen().set_bit().dcen().set_bit());

    let running = rcc.cfgr().read().sws().is_pll() && rcc.pllcfgr().read().bits() & PLL_MASK == PLL;
    if !running {
        // The PLL's factors can be changed only while it is off, and it can be off only while
        // nothing runs from it.
        rcc.cr().modify(|_, w| w.hsion().set_bit());
        wait(|| rcc.cr().read().hsirdy().bit_is_set());
        rcc.cfgr().modify(|_, w| w.sw().hsi());
        wait(|| rcc.cfgr().read().sws().is_hsi());
        rcc.cr().modify(|_, w| w.pllon().clear_bit());
        wait(|| rcc.cr().read().pllrdy().bit_is_clear());
        rcc.cr().modify(|_, w| w.hseon().set_bit());
        wait(|| rcc.cr().read().hserdy().bit_is_set());
        // SAFETY: the value is the documented set of factors; other bits keep what they hold.
        rcc.pllcfgr().modify(|r, w| unsafe { w.bits((r.bits() & !PLL_MASK) | PLL) });
        rcc.cr().modify(|_, w| w.pllon().set_bit());
        wait(|| rcc.cr().read().pllrdy().bit_is_set());
    }
    rcc.cfgr().modify(|_, w| w.hpre().div1().ppre1().div4().ppre2().div2());
    if !running {
        rcc.cfgr().modify(|_, w| w.sw().pll());
        wait(|| rcc.cfgr().read().sws().is_pll());
    }
}

/// Waits for a flag of the hardware. A crystal or PLL that does not come up is a broken board: the
/// panic handler records it and tries again by a reset.
fn wait(ready: impl Fn() -> bool) {
    for _ in 0..PATIENCE {
        if ready() {
            return;
        }
    }
    panic!("clock does not start");
}
