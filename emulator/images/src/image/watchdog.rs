//! The independent watchdog resets the chip, and RCC_CSR says that it did.

use super::cpu;
use super::reg::{DEMCR, DWT_CTRL, DWT_CYCCNT, IWDG_KR, IWDG_PR, IWDG_RLR, RCC_CSR};
use super::trace::push;

/// Reset flags, and the bit that clears them.
const FLAGS: u32 = 0xFE00_0000;
const RMVF: u32 = 1 << 24;
/// A millisecond at 168 MHz.
const MS: u32 = 168_000;

fn wait(cycles: u32) {
    let start = DWT_CYCCNT.read();
    while DWT_CYCCNT.read().wrapping_sub(start) < cycles {}
}

pub(super) fn run() {
    let flags = RCC_CSR.read() & FLAGS;
    push(flags);
    RCC_CSR.set(RMVF);
    push(RCC_CSR.read() & FLAGS);
    if flags & 1 << 29 != 0 {
        return;
    }
    DEMCR.set(1 << 24);
    DWT_CTRL.set(1);

    push(IWDG_PR.read());
    push(IWDG_RLR.read());
    // Locked.
    IWDG_RLR.write(5);
    push(IWDG_RLR.read());
    IWDG_KR.write(0x5555);
    // 100 counts of 16 periods of its own clock: 50 ms at 32 kHz, 34 to 94 ms over the clock's spread.
    IWDG_PR.write(2);
    IWDG_RLR.write(99);
    push(IWDG_PR.read());
    push(IWDG_RLR.read());
    // It counts from 0xFFF on, until it is told to start over from the reload value.
    IWDG_KR.write(0xCCCC);
    // Any other key locks again.
    IWDG_PR.write(6);
    push(IWDG_PR.read());
    wait(200 * MS);
    push(0x1D01);
    // Fed in time: nothing happens.
    for _ in 0..10 {
        IWDG_KR.write(0xAAAA);
        wait(20 * MS);
    }
    push(0x1D02);
    IWDG_KR.write(0xAAAA);
    wait(30 * MS);
    push(0x1D03);
    wait(80 * MS);
    push(0x1D04);
    loop {
        cpu::barrier();
    }
}
