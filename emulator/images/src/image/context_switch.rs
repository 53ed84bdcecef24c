//! Two tasks with stacks of their own: SVC starts the first and serves the unprivileged one, PendSV switches.

use core::arch::{asm, naked_asm};
use core::ptr::{addr_of, addr_of_mut};

use super::cpu;
use super::reg::{ICSR, Reg, SHPR3};
use super::trace::{end, push};
use super::vectors::on;

const STACK_WORDS: usize = 256;

#[repr(C, align(8))]
struct Stack([u32; STACK_WORDS]);

static mut STACKS: [Stack; 2] = [const { Stack([0; STACK_WORDS]) }; 2];
/// Where the stacks of the tasks that wait have come to.
static mut WAITING: [u32; 2] = [0; 2];
static mut CURRENT: usize = 0;
/// Stack pointer of whoever makes the next exception.
static mut SP_BEFORE: u32 = 0;
/// MSP in the first SVC's handler.
static mut MSP_AT_START: u32 = 0;

/// ICSR.PENDSVSET.
const PENDSVSET: u32 = 1 << 28;
const NO_FLOATS_TO_PROCESS: u32 = 0xFFFF_FFFD;

/// The end of a task's stack.
fn top(task: usize) -> u32 {
    // SAFETY: an address only.
    unsafe { addr_of!(STACKS[task]).add(1) as u32 }
}

pub(super) fn run() {
    on(11, sv_call);
    on(14, pend_sv);
    // PendSV is the least urgent of all; the four lowest bits of a priority are not there.
    SHPR3.write(0x00FF_0000);
    push(SHPR3.read());
    for (task, entry) in [task_a as *const (), task_b as *const ()].into_iter().enumerate() {
        // What the hardware pops: R0 to R3, R12, LR, PC, xPSR.
        let frame = top(task) - 0x20;
        Reg(frame + 0x18).write(entry as u32 & !1);
        Reg(frame + 0x1C).write(1 << 24);
        // What PendSV pops before that: R4 to R11 and EXC_RETURN. SVC starts the first task without it.
        let saved = frame - 0x24;
        Reg(saved + 0x20).write(NO_FLOATS_TO_PROCESS);
        // SAFETY: nothing else runs yet.
        unsafe { WAITING[task] = if task == 0 { frame } else { saved } };
    }
    push(cpu::control());
    push(cpu::ipsr());
    // SAFETY: the handler does not come back here.
    unsafe { asm!("str sp, [{}]", "svc #0", in(reg) addr_of_mut!(SP_BEFORE)) };
    push(0);
}

/// Size of the frame that the hardware has pushed: from the pointer before, rounded down to eight bytes.
fn frame_size(frame: u32) -> u32 {
    // SAFETY: a word that the interrupted code has written.
    (unsafe { addr_of!(SP_BEFORE).read_volatile() } & !7) - frame
}

#[unsafe(naked)]
unsafe extern "C" fn sv_call() {
    naked_asm!(
        "mov r0, lr",
        "mrs r1, psp",
        "mov r2, sp",
        "push {{r4, lr}}",
        "bl {body}",
        "pop {{r4, lr}}",
        "bx r0",
        body = sym sv_call_body
    )
}

/// Returns the EXC_RETURN to leave with.
extern "C" fn sv_call_body(exc_return: u32, psp: u32, msp: u32) -> u32 {
    let frame = if exc_return & 4 != 0 { psp } else { msp };
    // The return address is that of the instruction after SVC, whose low byte is its number.
    let number = u32::from(Reg(Reg(frame + 0x18).read() - 2).read_half() & 0xFF);
    push(0x5C00 | number);
    push(exc_return);
    push(cpu::control());
    push(cpu::ipsr());
    push(frame_size(frame));
    match number {
        0 => {
            // SAFETY: exceptions of other kinds are not in use, and the first task has its frame.
            unsafe {
                MSP_AT_START = msp;
                cpu::set_psp(WAITING[0]);
            }
            return NO_FLOATS_TO_PROCESS;
        }
        1 => ICSR.write(PENDSVSET),
        _ => cpu::set_control(cpu::control() & !1),
    }
    exc_return
}

#[unsafe(naked)]
unsafe extern "C" fn pend_sv() {
    naked_asm!(
        "mrs r0, psp",
        "mov r1, r0",
        "mrs r2, control",
        "tst lr, #0x10",
        "it eq",
        "vstmdbeq r0!, {{s16-s31}}",
        "stmdb r0!, {{r4-r11, lr}}",
        "mov r3, lr",
        "bl {body}",
        "ldmia r0!, {{r4-r11, lr}}",
        "tst lr, #0x10",
        "it eq",
        "vldmiaeq r0!, {{s16-s31}}",
        "msr psp, r0",
        "bx lr",
        body = sym pend_sv_body
    )
}

/// Takes the stack of one task and returns that of the other.
extern "C" fn pend_sv_body(saved: u32, frame: u32, control: u32, exc_return: u32) -> u32 {
    push(0x9E00);
    push(exc_return);
    push(control);
    push(frame_size(frame));
    // SAFETY: only this handler uses them, once the tasks run.
    unsafe {
        WAITING[CURRENT] = saved;
        CURRENT ^= 1;
        WAITING[CURRENT]
    }
}

/// Goes to the other task by PendSV.
#[inline(never)]
fn switch() {
    // SAFETY: the handler keeps every register.
    unsafe {
        asm!("str sp, [{sp}]", "str {bit}, [{icsr}]", "dsb", "isb",
            sp = in(reg) addr_of_mut!(SP_BEFORE), bit = in(reg) PENDSVSET, icsr = in(reg) ICSR.0);
    }
}

/// Goes to the other task and back with all floating-point registers in use. How many were kept, and FPSCR.
#[inline(never)]
fn switch_with_floats(seed: u32, fpscr: u32) -> (u32, u32) {
    let mut before = [0u32; 32];
    for (i, word) in (0..).zip(&mut before) {
        *word = seed + i;
    }
    let mut after = [0u32; 32];
    let kept;
    // SAFETY: loads and stores 32 words each; every floating-point register is named as changed.
    unsafe {
        asm!("vldmia {before}, {{s0-s31}}", "vmsr fpscr, {fpscr}",
            "str sp, [{sp}]", "str {bit}, [{icsr}]", "dsb", "isb",
            "vmrs {fpscr}, fpscr", "vstmia {after}, {{s0-s31}}", "vmsr fpscr, {zero}",
            before = in(reg) &before, after = in(reg) &mut after, fpscr = inout(reg) fpscr => kept,
            sp = in(reg) addr_of_mut!(SP_BEFORE), bit = in(reg) PENDSVSET, icsr = in(reg) ICSR.0, zero = in(reg) 0,
            out("d0") _, out("d1") _, out("d2") _, out("d3") _, out("d4") _, out("d5") _, out("d6") _, out("d7") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _, out("d12") _, out("d13") _, out("d14") _,
            out("d15") _);
    }
    (before.iter().zip(&after).filter(|(a, b)| a == b).count() as u32, kept)
}

#[inline(never)]
fn supervisor_call_1() {
    // SAFETY: the handler keeps every register.
    unsafe { asm!("str sp, [{}]", "svc #1", "isb", in(reg) addr_of_mut!(SP_BEFORE)) };
}

#[inline(never)]
fn supervisor_call_2() {
    // SAFETY: the handler keeps every register.
    unsafe { asm!("str sp, [{}]", "svc #2", "isb", in(reg) addr_of_mut!(SP_BEFORE)) };
}

#[unsafe(naked)]
unsafe extern "C" fn task_a() {
    naked_asm!("mov r0, sp", "b {body}", body = sym task_a_body)
}

extern "C" fn task_a_body(sp: u32) -> ! {
    push(0xA001);
    push(top(0) - sp);
    push(cpu::control());
    push(cpu::ipsr());
    // SAFETY: written by the handler, which has run.
    push(cpu::msp().wrapping_sub(unsafe { MSP_AT_START }));
    switch();
    // Unprivileged, because the other task has made it so and CONTROL is nobody's own.
    push(0xA002);
    push(cpu::control());
    // Then this changes nothing.
    cpu::set_control(2);
    push(cpu::control());
    supervisor_call_2();
    push(cpu::control());
    let (kept, fpscr) = switch_with_floats(0x4100_0000, 0x8040_0000);
    push(0xA003);
    push(cpu::control());
    push(kept);
    push(fpscr);
    switch();
    end()
}

#[unsafe(naked)]
unsafe extern "C" fn task_b() {
    naked_asm!("mov r0, sp", "b {body}", body = sym task_b_body)
}

extern "C" fn task_b_body(sp: u32) -> ! {
    push(0xB001);
    push(top(1) - sp);
    push(cpu::control());
    cpu::set_control(3);
    push(cpu::control());
    supervisor_call_1();
    push(0xB002);
    push(cpu::control());
    let (kept, fpscr) = switch_with_floats(0x4200_0000, 0x4080_0000);
    push(0xB003);
    push(kept);
    push(fpscr);
    end()
}
