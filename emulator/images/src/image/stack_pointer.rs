//! The two low bits of a stack pointer are always 0.

use core::arch::asm;

use super::cpu;
use super::trace::push;

pub(super) fn run() {
    for value in [0x2000_0003, 0x2000_0007, 0xFFFF_FFFF, 0] {
        cpu::set_psp(value);
        push(cpu::psp());
    }
    let (by_move, by_add, by_msr): (u32, u32, u32);
    // SAFETY: interrupts are off, and the stack pointer is what it was when the block ends.
    unsafe {
        asm!(
            "mov {saved}, sp",
            "add {work}, {saved}, #3",
            "mov sp, {work}",
            // On the chip nothing is needed here; the engine looks at the pointer between blocks of code.
            "isb",
            "mov {a}, sp",
            "mov sp, {saved}",
            "sub.w sp, sp, #5",
            "isb",
            "mov {b}, sp",
            "mov sp, {saved}",
            "msr msp, {work}",
            "isb",
            "mov {c}, sp",
            "mov sp, {saved}",
            "sub {a}, {a}, {saved}",
            "sub {b}, {saved}, {b}",
            "sub {c}, {c}, {saved}",
            saved = out(reg) _, work = out(reg) _, a = out(reg) by_move, b = out(reg) by_add, c = out(reg) by_msr,
        );
    }
    push(by_move);
    push(by_add);
    push(by_msr);
}
