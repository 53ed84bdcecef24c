//! Exception frames, nested exceptions, and one handler right after another.

use core::arch::asm;
use core::ptr::addr_of_mut;

use super::cpu::{self, pend};
use super::reg::{ICSR, NVIC_ISPR, Reg};
use super::trace::push;
use super::vectors::{handler, on_interrupt};

static mut SP_BEFORE: u32 = 0;
static mut SP_OUTER: u32 = 0;

/// What every handler says: who it is, EXC_RETURN, how far the stack pointer is below the thread's, RETTOBASE.
fn tell(exc_return: u32, sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(exc_return);
    // SAFETY: written before the exception.
    push(unsafe { SP_BEFORE } - sp);
    push(ICSR.read() >> 11 & 1);
}

extern "C" fn outer_body(exc_return: u32, sp: u32) {
    tell(exc_return, sp);
    // The stacked xPSR: thumb state, and whether the frame was moved down to a multiple of eight bytes.
    push(Reg(sp + 0x1C).read() & 0x0100_03FF);
    // The stacked R0 to R3 and R12.
    for i in 0..5 {
        push(Reg(sp + 4 * i).read());
    }
    // SAFETY: read by the nested handler only.
    unsafe { SP_OUTER = sp };
    // Less urgent, least urgent first.
    NVIC_ISPR.write(1 << 2);
    NVIC_ISPR.write(1 << 1);
    cpu::barrier();
    // More urgent.
    pend(3);
    push(0x2000 | cpu::ipsr());
}
handler!(outer, outer_body);

extern "C" fn chained_body(exc_return: u32, sp: u32) {
    tell(exc_return, sp);
    push(Reg(sp).read());
}
handler!(chained, chained_body);

extern "C" fn nested_body(exc_return: u32, sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(exc_return);
    // On the outer handler's stack, and of what it stacked the exception number is the outer one's.
    // SAFETY: written by the handler that this one interrupts.
    push(u32::from(sp <= unsafe { SP_OUTER } - 0x20));
    push(ICSR.read() >> 11 & 1);
    push(Reg(sp + 0x1C).read() & 0x1FF);
}
handler!(nested, nested_body);

/// Raises interrupt 0 with the stack pointer at a multiple of eight bytes minus `offset`, and marked registers.
#[inline(never)]
fn raise(offset: u32) -> u32 {
    let r0;
    // SAFETY: the stack pointer only moves down, and comes back.
    unsafe {
        asm!(
            "mov r8, sp",
            "bic r5, r8, #7",
            "sub r5, r5, {offset}",
            "mov sp, r5",
            "str sp, [{place}]",
            "movs r0, #0x10",
            "movs r1, #0x11",
            "movs r2, #0x12",
            "movs r3, #0x13",
            "mov r12, #0x1C",
            "str {bit}, [{ispr}]",
            "dsb",
            "isb",
            "mov sp, r8",
            offset = in(reg) offset, place = in(reg) addr_of_mut!(SP_BEFORE), bit = in(reg) 1u32,
            ispr = in(reg) NVIC_ISPR.0,
            out("r5") _, out("r8") _, out("r0") r0, out("r1") _, out("r2") _, out("r3") _, out("r12") _,
        );
    }
    r0
}

pub(super) fn run() {
    // No floating-point registers in the frames.
    cpu::set_control(0);
    on_interrupt(0, outer);
    on_interrupt(1, chained);
    on_interrupt(2, chained);
    on_interrupt(3, nested);
    for (number, priority) in [(0, 0x40), (1, 0x60), (2, 0x80), (3, 0x20)] {
        cpu::enable(number, priority);
    }
    push(raise(0));
    push(0xCA00);
    push(raise(4));
}
