//! Lines that interrupt: the gyroscope's data-ready (PC14) and the radio's flow control (PA4).

use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use stm32f4xx_hal::pac::interrupt;

use super::gpio::{Pin, Port, Pull};
use super::{reg, time, uart};

const DATA_READY: Pin = Pin(Port::C, 14);
const FLOW_CONTROL: Pin = Pin(Port::A, 4);

/// Raised at every data-ready, with the microsecond (low 32 bits) of the edge.
static READY: Signal<CriticalSectionRawMutex, u32> = Signal::new();

/// Connects the lines. The interrupts are enabled with the others, in [`super::irq`].
pub(crate) fn init() {
    reg::rcc().apb2enr().modify(|_, w| w.syscfgen().set_bit());
    DATA_READY.input(Pull::None);
    // Without a radio processor the line floats: then nothing is sent.
    FLOW_CONTROL.input(Pull::Up);
    let (syscfg, exti) = (reg::syscfg(), reg::exti());
    // SAFETY: line 4 from port A (0), line 14 from port C (2); the other lines are not used.
    unsafe {
        syscfg.exticr2().modify(|r, w| w.bits(r.bits() & !0xF));
        syscfg.exticr4().modify(|r, w| w.bits((r.bits() & !0xF00) | 0x200));
    }
    exti.rtsr().modify(|_, w| w.tr4().set_bit().tr14().set_bit());
    exti.ftsr().modify(|_, w| w.tr4().set_bit());
    exti.imr().modify(|_, w| w.mr4().set_bit().mr14().set_bit());
}

/// Waits for the gyroscope's next sample; the time of its edge, µs (low 32 bits).
pub(crate) async fn data_ready() -> u32 {
    READY.wait().await
}

/// True while the radio processor has no room for more bytes.
pub(crate) fn radio_is_full() -> bool {
    FLOW_CONTROL.is_high()
}

#[interrupt]
fn EXTI15_10() {
    // Writing a one clears the line's flag, zeros leave the others.
    reg::exti().pr().write(|w| w.pr14().clear_bit_by_one());
    READY.signal(time::now_us_low());
}

#[interrupt]
fn EXTI4() {
    reg::exti().pr().write(|w| w.pr4().clear_bit_by_one());
    uart::hold(radio_is_full());
}
