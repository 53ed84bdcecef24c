//! The register blocks, each reachable from its driver and that driver's interrupt handler.
//!
//! Which module uses which block is listed in `docs/firmware.md`; no two drivers share a register
//! except through the atomic or critical-section helpers they say so about.

use stm32f4xx_hal::pac;

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident: $module:ident / $peripheral:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name() -> &'static pac::$module::RegisterBlock {
            // SAFETY: the address is the peripheral's; its registers are volatile cells, which may
            // be shared. The table above says who writes what.
            unsafe { &*pac::$peripheral::ptr() }
        }
    )*};
}

blocks! {
    /// Clocks and resets.
    rcc: rcc / RCC;
    /// Flash wait states.
    flash: flash / FLASH;
    /// Motors 1 to 3.
    tim2: tim2 / TIM2;
    /// The LED ring.
    tim3: tim3 / TIM3;
    /// Motor 4.
    tim4: tim4 / TIM4;
    /// The clock of the firmware.
    tim5: tim5 / TIM5;
    /// The line to the radio processor.
    usart6: usart1 / USART6;
    /// The card.
    spi1: spi1 / SPI1;
    /// Which port an interrupting line belongs to.
    syscfg: syscfg / SYSCFG;
    /// Interrupting lines.
    exti: exti / EXTI;
    /// The watchdog.
    iwdg: iwdg / IWDG;
    /// What stops while a debugger holds the processor.
    dbgmcu: dbgmcu / DBGMCU;
}
