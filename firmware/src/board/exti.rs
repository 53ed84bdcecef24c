//! Lines that interrupt: the gyroscope's data-ready (PC14) and the radio's flow control (PA4).
//!
//! The HAL sets them up. The handlers go to the registers: they own no pin, and the flow control must act
//! within microseconds.

use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use stm32f4xx_hal::gpio::{Edge, ExtiPin, PA4, PC14};
use stm32f4xx_hal::pac::{EXTI, interrupt};
use stm32f4xx_hal::syscfg::SysCfg;

use super::{reg, time, uart};

/// Raised at every data-ready, with the microsecond (low 32 bits) of the edge.
static READY: Signal<CriticalSectionRawMutex, u32> = Signal::new();

/// Connects the lines. The interrupts are enabled with the others, in [`super::irq`].
pub(crate) fn init(data_ready: PC14, flow_control: PA4, mut syscfg: SysCfg, mut exti: EXTI) {
    let mut data_ready = data_ready.into_floating_input();
    data_ready.make_interrupt_source(&mut syscfg);
    data_ready.trigger_on_edge(&mut exti, Edge::Rising);
    data_ready.enable_interrupt(&mut exti);
    // Without a radio processor the line floats: then nothing is sent.
    let mut flow_control = flow_control.into_pull_up_input();
    flow_control.make_interrupt_source(&mut syscfg);
    flow_control.trigger_on_edge(&mut exti, Edge::RisingFalling);
    flow_control.enable_interrupt(&mut exti);
}

/// Waits for the gyroscope's next sample; the time of its edge, µs (low 32 bits).
pub(crate) async fn data_ready() -> u32 {
    READY.wait().await
}

/// True while the radio processor has no room for more bytes.
pub(crate) fn radio_is_full() -> bool {
    reg::gpioa().idr().read().idr4().is_high()
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
