//! How much of the stack has never been used: it is painted at the start, and the paint is looked for.
//!
//! The worst case is computed from the image by `cargo xtask size`; this sees what really happened.

use core::ptr::{addr_of, read_volatile, write_volatile};

const PAINT: u32 = 0x5AFE_57AC;
/// Left alone below the stack pointer while painting, bytes.
const MARGIN: usize = 256;

unsafe extern "C" {
    /// Lowest word of the stack, from the linker script.
    static _stack_end: u32;
    /// First word above the stack.
    static _stack_start: u32;
}

/// Paints what is free. To be called once, early.
pub(crate) fn paint() {
    let free = (cortex_m::register::msp::read() as usize).saturating_sub(MARGIN);
    let mut word = addr_of!(_stack_end).cast_mut();
    while (word as usize) < free {
        // SAFETY: between the stack's end and its pointer, with room for this function's own frame,
        // nothing is in use; interrupts are not enabled yet.
        unsafe {
            write_volatile(word, PAINT);
            word = word.add(1);
        }
    }
}

/// Bytes that have never been used.
pub(crate) fn never_used() -> usize {
    let (start, mut word) = (addr_of!(_stack_end), addr_of!(_stack_end));
    // SAFETY: reading the stack's memory has no effect, whoever uses it meanwhile.
    while word < addr_of!(_stack_start) && unsafe { read_volatile(word) } == PAINT {
        word = word.wrapping_add(1);
    }
    word as usize - start as usize
}
