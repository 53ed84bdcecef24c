//! The firmware's logic, apart from registers: compiled and tested on the PC, flown on the drone.
#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

pub mod drivers;
pub mod eeprom;
pub mod fault;
pub mod flight;
pub mod leds;
pub mod ring;
pub mod route;
pub mod services;
pub mod settings;
pub mod shutdown;
pub mod storage;
pub mod telemetry;
pub mod toc;
pub mod usb;
