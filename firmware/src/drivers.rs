//! Drivers of the chips on the board, over the traits of `embedded-hal-async`: on the drone the bus is
//! an I2C peripheral with DMA, in tests a fake that can fail on purpose.

pub mod bmi088;
pub mod bmp388;
pub mod eeprom24;
mod failure;
pub mod nrf51;
pub mod sensors;

#[cfg(test)]
mod fake;

pub use failure::{Chip, Doubts, Failure};
