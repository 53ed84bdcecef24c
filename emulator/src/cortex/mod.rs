//! The Cortex-M4F: instructions, exceptions and the registers of the core.

pub mod cost;
pub mod map;
pub mod nvic;
pub mod system;
#[allow(unsafe_code)]
pub mod unicorn;
