//! Interrupt priorities: the whole schedule of the firmware in one table.
//!
//! A lower number is more urgent. The executors run their tasks in the handlers of interrupts whose
//! peripherals (UART4, UART5) are not used.

use cortex_m::peripheral::NVIC;
use stm32f4xx_hal::pac::Interrupt;

/// The interrupt in which the flight executor runs.
pub(crate) const FLIGHT: Interrupt = Interrupt::UART4;
/// The interrupt in which the radio executor runs.
pub(crate) const RADIO: Interrupt = Interrupt::UART5;

const PRIORITIES: [(Interrupt, u8); 15] = [
    // The radio processor is full: a few instructions, and not one byte more may leave.
    (Interrupt::EXTI4, 0),
    // An idle line has to be acknowledged before the next byte is there.
    (Interrupt::USART6, 1),
    // The sensors' transfers go on while a step computes; the clock wakes timers of all executors.
    (Interrupt::EXTI15_10, 2),
    (Interrupt::I2C3_EV, 2),
    (Interrupt::I2C3_ER, 2),
    (Interrupt::DMA1_STREAM2, 2),
    (Interrupt::TIM5, 2),
    (FLIGHT, 4),
    (Interrupt::DMA2_STREAM1, 6),
    (Interrupt::DMA2_STREAM7, 6),
    (RADIO, 8),
    (Interrupt::I2C1_EV, 10),
    (Interrupt::I2C1_ER, 10),
    (Interrupt::DMA1_STREAM5, 10),
    (Interrupt::DMA2_STREAM0, 10),
];

/// Sets all priorities and enables the interrupts of peripherals; the executors enable their own when
/// they start.
pub(crate) fn init(nvic: &mut NVIC) {
    for (interrupt, priority) in PRIORITIES {
        // SAFETY: no critical section is built on priorities (they mask all interrupts), and no
        // handler relies on another order than this table's. The processor has 4 priority bits.
        unsafe { nvic.set_priority(interrupt, priority << 4) };
        if interrupt != FLIGHT && interrupt != RADIO {
            // SAFETY: as above; the peripherals are set up before this is called.
            unsafe { NVIC::unmask(interrupt) };
        }
    }
}
