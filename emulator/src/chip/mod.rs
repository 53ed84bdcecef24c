//! Peripherals of the STM32F405 that the firmware uses. Offsets and bits are the reference manual's
//! (RM0090); time is in ticks of 168 MHz.

pub mod dma;
pub mod flash;
pub mod gpio;
pub mod i2c;
pub mod otg;
pub mod rcc;
pub mod spi;
pub mod timer;
pub mod usart;
pub mod watchdog;

/// The peripheral that an address belongs to.
#[must_use]
pub fn name_of(address: u32) -> Option<&'static str> {
    let parts: [(u32, u32, &str); 34] = [
        (0x4000_0000, 0x1800, "TIM2 to TIM7"),
        (0x4000_1800, 0x0C00, "TIM12 to TIM14"),
        (0x4000_2800, 0x400, "RTC"),
        (0x4000_2C00, 0x400, "WWDG"),
        (0x4000_3000, 0x400, "IWDG"),
        (0x4000_3400, 0xC00, "I2S2, SPI2, SPI3"),
        (0x4000_4400, 0x400, "USART2"),
        (0x4000_4800, 0x400, "USART3"),
        (0x4000_4C00, 0x800, "UART4, UART5"),
        (0x4000_5400, 0x400, "I2C1"),
        (0x4000_5800, 0x400, "I2C2"),
        (0x4000_5C00, 0x400, "I2C3"),
        (0x4000_6400, 0x800, "CAN"),
        (0x4000_7000, 0x400, "PWR"),
        (0x4000_7400, 0x400, "DAC"),
        (0x4001_0000, 0x800, "TIM1, TIM8"),
        (0x4001_1000, 0x400, "USART1"),
        (0x4001_1400, 0x400, "USART6"),
        (0x4001_2000, 0x400, "ADC"),
        (0x4001_2C00, 0x400, "SDIO"),
        (0x4001_3000, 0x400, "SPI1"),
        (0x4001_3800, 0x400, "SYSCFG"),
        (0x4001_3C00, 0x400, "EXTI"),
        (0x4001_4000, 0xC00, "TIM9 to TIM11"),
        (0x4002_0000, 0x2400, "GPIO"),
        (0x4002_3000, 0x400, "CRC"),
        (0x4002_3800, 0x400, "RCC"),
        (0x4002_3C00, 0x400, "FLASH"),
        (0x4002_4000, 0x1000, "BKPSRAM"),
        (0x4002_6000, 0x800, "DMA"),
        (0x4004_0000, 0x4_0000, "OTG_HS"),
        (0x5000_0000, 0x4_0000, "OTG_FS"),
        (0x5006_0800, 0x400, "RNG"),
        (0xE000_0000, 0x10_0000, "the core"),
    ];
    let find = |&&(base, len, _): &&(u32, u32, &str)| address.wrapping_sub(base) < len;
    parts.iter().find(find).map(|(_, _, name)| *name)
}
