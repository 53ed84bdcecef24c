//! The trace that the test compares.

use architecture_image::{COUNT, DONE, TRACE, TRACE_LEN};

use super::reg::Reg;

/// Appends a word; a full trace stays as it is.
pub(super) fn push(word: u32) {
    let count = Reg(COUNT).read();
    if count < TRACE_LEN {
        Reg(TRACE + 4 * count).write(word);
        Reg(COUNT).write(count + 1);
    }
}

/// The program has come to its end.
pub(super) fn end() -> ! {
    Reg(DONE).write(1);
    // No WFI: what it does is one of the things under test.
    loop {
        core::hint::spin_loop();
    }
}
