//! The board: registers, interrupts and the drivers over them. Everything that decides something is in
//! the library, where it is tested on the PC.

pub(crate) mod card;
pub(crate) mod clock;
pub(crate) mod dma;
pub(crate) mod exti;
pub(crate) mod fault;
pub(crate) mod gpio;
pub(crate) mod i2c;
pub(crate) mod irq;
pub(crate) mod led;
pub(crate) mod memory;
pub(crate) mod motors;
pub(crate) mod reg;
pub(crate) mod reset;
pub(crate) mod ring;
pub(crate) mod spi;
pub(crate) mod stack;
pub(crate) mod time;
pub(crate) mod uart;
pub(crate) mod watchdog;
