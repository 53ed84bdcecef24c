//! Peripherals of the STM32F405 that the firmware uses. Offsets and bits are the reference manual's
//! (RM0090); time is in ticks of 168 MHz.

pub mod dma;
pub mod flash;
pub mod gpio;
pub mod i2c;
pub mod rcc;
pub mod spi;
pub mod timer;
pub mod usart;
pub mod watchdog;
