//! Floating-point registers across exceptions: extended frames, lazy stacking, CONTROL.FPCA.

use core::arch::{asm, naked_asm};
use core::ptr::addr_of_mut;

use super::cpu;
use super::reg::{FPCAR, FPCCR, NVIC_ISPR, Reg};
use super::trace::push;
use super::vectors::{Handler, handler, on_interrupt};

static mut SP_BEFORE: u32 = 0;

/// EXC_RETURN, size of the frame, CONTROL, FPCCR.LSPACT.
extern "C" fn tell(exc_return: u32, sp: u32, control: u32) {
    push(0x1000 | cpu::ipsr());
    push(exc_return);
    // SAFETY: written before the exception.
    push((unsafe { SP_BEFORE } & !7) - sp);
    push(control);
    push(FPCCR.read() & 1);
}

/// Leaves the floating-point unit alone.
#[unsafe(naked)]
unsafe extern "C" fn without() {
    naked_asm!(
        "mov r0, lr", "mov r1, sp", "mrs r2, control", "push {{r4, lr}}",
        "bl {tell}",
        "pop {{r4, pc}}",
        tell = sym tell
    )
}

/// Overwrites S0 to S15 and FPSCR, and is interrupted by a handler that does so too.
#[unsafe(naked)]
unsafe extern "C" fn with() {
    naked_asm!(
        "mov r0, lr", "mov r1, sp", "mrs r2, control", "push {{r4, lr}}", "mov r4, sp",
        "bl {tell}",
        "add r0, r4, #8",
        "bl {space}",
        // The first floating-point instruction saves what was there and begins a context of its own.
        "vmrs r1, fpscr",
        "mrs r0, control",
        "bl {used}",
        "add r0, r4, #8",
        "bl {saved}",
        "ldr r0, ={place}",
        "str sp, [r0]",
        "bl {clobber}",
        "ldr r0, ={ispr}",
        "movs r1, #2",
        "str r1, [r0]",
        "dsb", "isb",
        "vmov r0, s5",
        "bl {push}",
        "pop {{r4, pc}}",
        tell = sym tell, space = sym space, used = sym used, saved = sym saved, clobber = sym clobber,
        push = sym push_word, place = sym SP_BEFORE, ispr = const NVIC_ISPR.0
    )
}

/// FPCAR points at the place for S0.
extern "C" fn space(frame: u32) {
    push(FPCAR.read() - frame);
}

/// CONTROL and FPSCR's modes after the first floating-point instruction, and FPCCR.LSPACT.
extern "C" fn used(control: u32, fpscr: u32) {
    push(control);
    push(fpscr & 0x07C0_0000);
    push(FPCCR.read() & 1);
}

/// S0, S15 and FPSCR in the frame.
extern "C" fn saved(frame: u32) {
    for offset in [0x20, 0x5C, 0x60] {
        push(Reg(frame + offset).read());
    }
}

extern "C" fn push_word(word: u32) {
    push(word);
}

/// S0 to S15 are 0x5555_5555, rounding is toward zero.
#[unsafe(naked)]
unsafe extern "C" fn clobber() {
    naked_asm!(
        "mov r0, #0x55555555",
        "vmov s0, r0",
        "vmov s1, r0",
        "vmov s2, r0",
        "vmov s3, r0",
        "vmov s4, r0",
        "vmov s5, r0",
        "vmov s6, r0",
        "vmov s7, r0",
        "vmov s8, r0",
        "vmov s9, r0",
        "vmov s10, r0",
        "vmov s11, r0",
        "vmov s12, r0",
        "vmov s13, r0",
        "vmov s14, r0",
        "vmov s15, r0",
        "mov r0, #0x00C00000",
        "vmsr fpscr, r0",
        "bx lr"
    )
}

/// Interrupts the handler above.
extern "C" fn nested_body(exc_return: u32, sp: u32) {
    tell(exc_return, sp, cpu::control());
    // SAFETY: changes S5 only.
    unsafe { asm!("vmov s5, {}", in(reg) 0, out("s5") _) };
    push(cpu::control());
}
handler!(nested, nested_body);

/// Raises interrupt 0 with all registers in use. How many were kept, FPSCR, CONTROL before and after.
#[inline(never)]
fn raise(handler: Handler) {
    on_interrupt(0, handler);
    let mut before = [0u32; 32];
    for (i, word) in (0..).zip(&mut before) {
        *word = 0x4100_0000 + i;
    }
    let mut after = [0u32; 32];
    let (control, fpscr);
    // SAFETY: loads and stores 32 words each; every floating-point register is named as changed.
    unsafe {
        asm!("vldmia {before}, {{s0-s31}}", "vmsr fpscr, {fpscr}",
            "str sp, [{sp}]", "str {bit}, [{ispr}]", "dsb", "isb",
            "mrs {bit}, control",
            "vmrs {fpscr}, fpscr", "vstmia {after}, {{s0-s31}}", "vmsr fpscr, {zero}",
            before = in(reg) &before, after = in(reg) &mut after, fpscr = inout(reg) 0xB280_0000_u32 => fpscr,
            sp = in(reg) addr_of_mut!(SP_BEFORE), bit = inout(reg) 1u32 => control, ispr = in(reg) NVIC_ISPR.0,
            zero = in(reg) 0,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _, out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _, out("d12") _, out("d13") _, out("d14") _,
            out("d15") _);
    }
    push(control);
    push(fpscr);
    push(before.iter().zip(&after).filter(|(a, b)| a == b).count() as u32);
    push(FPCCR.read() & 1);
}

pub(super) fn run() {
    cpu::enable(0, 0x80);
    cpu::enable(1, 0x40);
    on_interrupt(1, nested);
    // ASPEN and LSPEN are set after a reset.
    push(FPCCR.read() >> 30);

    // No context: a frame of eight words.
    push(0xF001);
    cpu::set_control(0);
    on_interrupt(0, without);
    // SAFETY: the handler keeps every register.
    unsafe {
        asm!("str sp, [{sp}]", "str {bit}, [{ispr}]", "dsb", "isb",
            sp = in(reg) addr_of_mut!(SP_BEFORE), bit = in(reg) 1, ispr = in(reg) NVIC_ISPR.0);
    }
    push(cpu::control());

    push(0xF002);
    raise(without);
    push(0xF003);
    raise(with);
}
