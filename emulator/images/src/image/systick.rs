//! The system timer: its period in cycles, COUNTFLAG, and what writes to it do.

use core::ptr::addr_of_mut;

use super::cpu;
use super::reg::{DEMCR, DWT_CTRL, DWT_CYCCNT, ICSR, SYST_CSR, SYST_CVR, SYST_RVR};
use super::trace::push;
use super::vectors::{handler, on};

const ENABLE: u32 = 1;
const TICKINT: u32 = 1 << 1;
const CLKSOURCE: u32 = 1 << 2;
const COUNTFLAG: u32 = 1 << 16;
const PERIOD: u32 = 8000;

/// When the ticks came, in cycles.
static mut TIMES: [u32; 9] = [0; 9];
static mut TICKS: usize = 0;

extern "C" fn tick_body(_exc_return: u32, _sp: u32) {
    // SAFETY: the thread only looks.
    unsafe {
        let ticks = TICKS;
        if let Some(time) = (*addr_of_mut!(TIMES)).get_mut(ticks) {
            *time = DWT_CYCCNT.read();
            TICKS = ticks + 1;
        }
    }
}
handler!(tick, tick_body);

/// Cycles rounded to 64: an interrupt waits for the end of an instruction.
fn rounded(cycles: u32) -> u32 {
    (cycles + 32) / 64 * 64
}

pub(super) fn run() {
    on(15, tick);
    // A counter that is off keeps its value; writing clears it, whatever is written.
    SYST_RVR.write(0xFFFF_FFFF);
    push(SYST_RVR.read());
    SYST_RVR.write(PERIOD - 1);
    SYST_CVR.write(1234);
    push(SYST_CVR.read());
    push(SYST_CSR.read() & (ENABLE | TICKINT | COUNTFLAG));

    // The cycle counter counts when it is told to.
    DEMCR.set(1 << 24);
    DWT_CTRL.clear(1);
    let still = DWT_CYCCNT.read();
    cpu::barrier();
    push(DWT_CYCCNT.read().wrapping_sub(still));
    DWT_CYCCNT.write(0);
    DWT_CTRL.set(1);

    // Without the interrupt: COUNTFLAG tells, and reading it clears it.
    let start = DWT_CYCCNT.read();
    SYST_CSR.write(CLKSOURCE | ENABLE);
    SYST_CSR.until(COUNTFLAG);
    push(rounded(DWT_CYCCNT.read().wrapping_sub(start)));
    push(SYST_CSR.read() & COUNTFLAG);
    push(ICSR.read() & 1 << 26);
    // Writing the counter clears COUNTFLAG as well.
    while DWT_CYCCNT.read().wrapping_sub(start) < 5 * PERIOD / 2 {}
    SYST_CVR.write(0);
    push(SYST_CSR.read() & COUNTFLAG);

    // Off in the middle of a period: the counter stands, and goes on where it was.
    let start = DWT_CYCCNT.read();
    while DWT_CYCCNT.read().wrapping_sub(start) < PERIOD / 2 {}
    SYST_CSR.write(CLKSOURCE);
    let left = SYST_CVR.read();
    push(rounded(left) / 128);
    while DWT_CYCCNT.read().wrapping_sub(start) < 2 * PERIOD {}
    push(u32::from(SYST_CVR.read() == left));
    let start = DWT_CYCCNT.read();
    SYST_CSR.write(CLKSOURCE | ENABLE);
    // A new reload value counts from the next wrap on.
    SYST_RVR.write(2 * PERIOD - 1);
    SYST_CSR.until(COUNTFLAG);
    push(rounded(DWT_CYCCNT.read().wrapping_sub(start)) - rounded(left));
    let start = DWT_CYCCNT.read();
    SYST_CSR.until(COUNTFLAG);
    push(rounded(DWT_CYCCNT.read().wrapping_sub(start)));

    // With the interrupt, every period.
    SYST_RVR.write(PERIOD - 1);
    SYST_CVR.write(0);
    SYST_CSR.write(CLKSOURCE | TICKINT | ENABLE);
    // SAFETY: written by the handler.
    while unsafe { addr_of_mut!(TICKS).read_volatile() } < 9 {}
    // SAFETY: the handler has left it alone since.
    let times = unsafe { addr_of_mut!(TIMES).read_volatile() };
    for pair in times.windows(2) {
        push(rounded(pair[1].wrapping_sub(pair[0])));
    }
    push(times[8].wrapping_sub(times[0]).wrapping_add(16) / 32 * 32);

    // From the clock over eight.
    SYST_CSR.write(0);
    SYST_RVR.write(PERIOD / 8 - 1);
    SYST_CVR.write(0);
    let start = DWT_CYCCNT.read();
    SYST_CSR.write(ENABLE);
    SYST_CSR.until(COUNTFLAG);
    push(rounded(DWT_CYCCNT.read().wrapping_sub(start)));
    SYST_CSR.write(0);
}
