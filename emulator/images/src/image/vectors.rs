//! The vector table, in RAM so that every program has its own handlers (ARMv7-M, B1.5.3 and B3.2.5).

use core::ptr::addr_of_mut;

use architecture_image::UNEXPECTED;

use super::reg::{ICSR, VTOR};
use super::trace;

/// Exceptions of the F405: 16 of the core and 82 interrupts.
const LEN: usize = 16 + 82;

/// The table's address is a multiple of its size, rounded up to a power of two.
#[repr(C, align(512))]
struct Table([usize; LEN]);

static mut TABLE: Table = Table([0; LEN]);

/// A handler that begins with the registers as the exception left them.
pub(super) type Handler = unsafe extern "C" fn();

/// A handler that calls a function with EXC_RETURN and the stack pointer as they were at its first instruction.
macro_rules! handler {
    ($name:ident, $body:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov r0, lr",
                "mov r1, sp",
                "push {{r4, lr}}",
                "bl {body}",
                "pop {{r4, pc}}",
                body = sym $body
            )
        }
    };
}
pub(super) use handler;

extern "C" fn unexpected_body(_exc_return: u32, _sp: u32) {
    trace::push(UNEXPECTED | ICSR.read() & 0xFF);
    trace::end()
}
handler!(unexpected, unexpected_body);

/// Every exception goes to a handler that ends the program.
pub(super) fn install() {
    for number in 1..LEN {
        on(number, unexpected);
    }
    VTOR.write(addr_of_mut!(TABLE) as u32);
    super::cpu::barrier();
}

/// The handler of an exception.
pub(super) fn on(exception: usize, handler: Handler) {
    // SAFETY: a word within the table, written as the core reads it.
    unsafe { addr_of_mut!(TABLE).cast::<usize>().add(exception).write_volatile(handler as usize) };
}

/// The handler of an interrupt.
pub(super) fn on_interrupt(number: usize, handler: Handler) {
    on(16 + number, handler);
}
