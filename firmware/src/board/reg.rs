//! Register blocks for what the HAL's owned drivers cannot do: interrupt handlers, the emergency stop, DMA
//! requests. Each is reachable from its driver and that driver's interrupt handler.
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
    /// Motors 1 and 3, flow control.
    gpioa: gpioa / GPIOA;
    /// Motors 2 and 4.
    gpiob: gpiob / GPIOB;
    /// The radio processor's line.
    gpioc: gpioi / GPIOC;
    /// The LED ring.
    tim3: tim3 / TIM3;
    /// The clock of the firmware.
    tim5: tim5 / TIM5;
    /// The line to the radio processor.
    usart6: usart1 / USART6;
    /// Streams of I2C and the LED ring.
    dma1: dma2 / DMA1;
    /// Streams of the radio processor's line and the card.
    dma2: dma2 / DMA2;
    /// The card.
    spi1: spi1 / SPI1;
    /// Interrupting lines.
    exti: exti / EXTI;
    /// The sensors.
    i2c3: i2c1 / I2C3;
    /// The EEPROM.
    i2c1: i2c1 / I2C1;
}
