//! Instructions and special registers of the core.

use core::arch::asm;

use super::reg::{NVIC_IPR, NVIC_ISER, NVIC_ISPR, Reg};

/// A special register, read by MRS.
macro_rules! special {
    ($read:ident, $write:ident, $name:literal) => {
        #[allow(dead_code)]
        #[inline(always)]
        pub(super) fn $read() -> u32 {
            let value;
            // SAFETY: reads a special register.
            unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nomem, nostack)) };
            value
        }

        #[allow(dead_code)]
        #[inline(always)]
        pub(super) fn $write(value: u32) {
            // SAFETY: the programs write values that leave their own stack alone.
            unsafe { asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack)) };
        }
    };
}

special!(control, set_control, "control");
special!(basepri, set_basepri, "basepri");
special!(basepri_max, set_basepri_max, "basepri_max");
special!(primask, set_primask, "primask");
special!(faultmask, set_faultmask, "faultmask");
special!(msp, set_msp, "msp");
special!(psp, set_psp, "psp");

/// The number of the exception that is running.
pub(super) fn ipsr() -> u32 {
    let value;
    // SAFETY: reads a special register.
    unsafe { asm!("mrs {}, ipsr", out(reg) value, options(nomem, nostack)) };
    value
}

/// What was written to registers is in effect after this.
#[inline(always)]
pub(super) fn barrier() {
    // SAFETY: barriers.
    unsafe { asm!("dsb", "isb", options(nostack)) };
}

/// Waits for an interrupt.
pub(super) fn wfi() {
    // SAFETY: sleeps.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Waits for an event.
pub(super) fn wfe() {
    // SAFETY: sleeps.
    unsafe { asm!("wfe", options(nostack)) };
}

/// Enables an interrupt (of the first 32) with a priority.
pub(super) fn enable(interrupt: u32, priority: u8) {
    Reg(NVIC_IPR.0 + interrupt).write_byte(priority);
    NVIC_ISER.write(1 << interrupt);
}

/// Makes an interrupt (of the first 32) pending. One that can be taken has been when this returns.
pub(super) fn pend(interrupt: u32) {
    NVIC_ISPR.write(1 << interrupt);
    barrier();
}
