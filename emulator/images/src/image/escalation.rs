//! Faults and supervisor calls that cannot interrupt what is running become hard faults.

use core::arch::asm;

use super::cpu::{self, pend};
use super::reg::{BFAR, CFSR, HFSR, Reg, SHCSR};
use super::trace::push;
use super::vectors::{handler, on, on_interrupt};

/// Where nothing is.
const NOWHERE: Reg = Reg(0x6000_0000);

/// Says what happened, clears it, and goes on after the instruction that faulted.
extern "C" fn fault_body(exc_return: u32, sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(exc_return);
    push(CFSR.read());
    push(HFSR.read());
    if CFSR.read() & 1 << 15 != 0 {
        push(BFAR.read());
    }
    CFSR.write(u32::MAX);
    HFSR.write(u32::MAX);
    push(CFSR.read() | HFSR.read());
    // The load is two bytes long, UDF too; the return address of a supervisor call is behind it already.
    let place = Reg(sp + 0x18);
    let is_call = Reg(place.read() - 2).read_half() >> 8 == 0xDF;
    if !is_call {
        place.write(place.read() + 2);
    }
}
handler!(fault, fault_body);

extern "C" fn call_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
}
handler!(call, call_body);

#[inline(never)]
fn bad_load() {
    // SAFETY: the handler goes on after the load.
    unsafe { asm!("mov r0, {}", "ldr r1, [r0]", "nop", "nop", in(reg) NOWHERE.0, out("r0") _, out("r1") _) };
}

#[inline(never)]
fn supervisor_call() {
    // SAFETY: the handlers keep every register.
    unsafe { asm!("svc #0", "isb") };
}

/// A handler whose priority is that of SVCall and of the bus fault.
extern "C" fn urgent_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    supervisor_call();
    bad_load();
}
handler!(urgent, urgent_body);

pub(super) fn run() {
    cpu::set_control(0);
    for number in [3, 5, 6] {
        on(number, fault);
    }
    on(11, call);
    on_interrupt(0, urgent);

    // Not enabled: a hard fault.
    push(0xE501);
    bad_load();
    // SAFETY: the handler goes on after the instruction.
    unsafe { asm!("udf #0", "nop", "nop") };
    push(0xE502);
    SHCSR.write(7 << 16);
    bad_load();
    // SAFETY: as above.
    unsafe { asm!("udf #0", "nop", "nop") };
    supervisor_call();
    push(0xE503);
    cpu::set_primask(1);
    bad_load();
    supervisor_call();
    cpu::set_primask(0);
    push(0xE504);
    cpu::enable(0, 0);
    pend(0);
}
