//! Interrupts and events of pins: edges that the chip's own output makes, and software's.

use super::cpu::{self, wfe};
use super::reg::{
    EXTI_EMR, EXTI_FTSR, EXTI_IMR, EXTI_PR, EXTI_RTSR, EXTI_SWIER, GPIOC_BSRR, GPIOC_IDR, GPIOC_MODER,
    NVIC_IPR, NVIC_ISER1, RCC_AHB1ENR, RCC_APB2ENR, Reg, SYSCFG_EXTICR1,
};
use super::trace::push;
use super::vectors::{handler, on_interrupt};

/// PC1, which drives a LED.
const LINE: u32 = 1 << 1;
/// EXTI1 in the vector table.
const EXTI1: u32 = 7;
/// Lines 10 to 15 share one.
const EXTI15_10: u32 = 40;

extern "C" fn exti_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(EXTI_PR.read());
    push(EXTI_SWIER.read());
    // One pending bit is cleared by writing 1; so is the software interrupt's.
    EXTI_PR.write(EXTI_PR.read());
    push(EXTI_PR.read() | EXTI_SWIER.read());
    cpu::barrier();
}
handler!(exti, exti_body);

fn high() {
    GPIOC_BSRR.write(LINE);
    cpu::barrier();
}

fn low() {
    GPIOC_BSRR.write(LINE << 16);
    cpu::barrier();
}

pub(super) fn run() {
    on_interrupt(EXTI1 as usize, exti);
    on_interrupt(EXTI15_10 as usize, exti);
    RCC_AHB1ENR.set(1 << 2);
    RCC_APB2ENR.set(1 << 14);
    cpu::enable(EXTI1, 0x40);
    Reg(NVIC_IPR.0 + EXTI15_10).write_byte(0x40);
    NVIC_ISER1.write(1 << (EXTI15_10 - 32));

    // By software, where the line is not masked.
    push(0xE701);
    EXTI_SWIER.write(LINE);
    push(EXTI_PR.read());
    EXTI_SWIER.write(0);
    EXTI_IMR.write(LINE | 1 << 10 | 1 << 12);
    EXTI_SWIER.write(LINE);
    cpu::barrier();
    push(0xE702);
    EXTI_SWIER.write(1 << 10 | 1 << 12);
    cpu::barrier();

    // By an edge at a pin, also when the chip itself drives it: port C for line 1, rising only.
    push(0xE703);
    SYSCFG_EXTICR1.write(2 << 4);
    push(SYSCFG_EXTICR1.read());
    EXTI_RTSR.write(LINE);
    low();
    GPIOC_MODER.set(1 << 2);
    high();
    push(GPIOC_IDR.read() & LINE);
    low();
    push(0xE704);
    EXTI_RTSR.write(0);
    EXTI_FTSR.write(LINE);
    high();
    low();
    // Another port's edges are not this line's.
    push(0xE705);
    SYSCFG_EXTICR1.write(1 << 4);
    high();
    low();
    SYSCFG_EXTICR1.write(2 << 4);

    // As an event it wakes from WFE, and nothing becomes pending. Nothing else would wake it.
    push(0xE706);
    EXTI_IMR.write(0);
    EXTI_EMR.write(LINE);
    // SAFETY: consumes an event that is there.
    unsafe { core::arch::asm!("sev", "wfe") };
    high();
    low();
    wfe();
    push(EXTI_PR.read());
}
