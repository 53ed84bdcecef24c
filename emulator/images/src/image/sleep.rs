//! What wakes the core from WFI and WFE, and what does not.

use core::arch::asm;

use super::cpu::{self, wfe, wfi};
use super::reg::{ICSR, NVIC_ICPR, NVIC_IPR, NVIC_ISER, NVIC_ISPR, Reg, SCR, SYST_CSR, SYST_CVR, SYST_RVR};
use super::trace::push;
use super::vectors::{handler, on, on_interrupt};

const SEVONPEND: u32 = 1 << 4;
const SLEEPONEXIT: u32 = 1 << 1;
const PENDSTSET: u32 = 1 << 26;
/// ISR_PENDING and VECTPENDING.
const PENDING: u32 = 1 << 22 | 0x1F_F000;

extern "C" fn plain_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
}
handler!(plain, plain_body);

/// One tick is enough.
extern "C" fn tick_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    SYST_CSR.write(0);
}
handler!(tick, tick_body);

/// The last handler before the thread goes on.
extern "C" fn waker_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    SYST_CSR.write(0);
    SCR.clear(SLEEPONEXIT);
}
handler!(waker, waker_body);

/// The system timer comes once after so many cycles.
fn alarm(cycles: u32) {
    SYST_RVR.write(cycles - 1);
    SYST_CVR.write(0);
    SYST_CSR.write(7);
}

/// Consumes an event that is there.
fn forget_event() {
    // SAFETY: sends an event and waits for it, which clears the register.
    unsafe { asm!("sev", "wfe") };
}

pub(super) fn run() {
    on(15, tick);
    on_interrupt(0, plain);
    on_interrupt(1, plain);

    // An interrupt wakes, and is taken before the thread goes on.
    push(0x5E01);
    alarm(5000);
    wfi();
    push(0x5E02);

    // Under PRIMASK it wakes and waits.
    cpu::set_primask(1);
    alarm(5000);
    wfi();
    push(ICSR.read() & (PENDSTSET | PENDING));
    push(0x5E03);
    cpu::set_primask(0);
    cpu::barrier();
    push(0x5E04);

    // Something pending that BASEPRI holds back does not wake; the timer, more urgent, does.
    cpu::enable(0, 0x80);
    cpu::set_basepri(0x80);
    NVIC_ISPR.write(1);
    alarm(5000);
    wfi();
    push(0x5E05);
    push(ICSR.read() & PENDING);
    cpu::set_basepri(0);
    cpu::barrier();
    push(0x5E06);

    // SEV is an event, remembered once; so are two. Nobody pends anything: if it slept here, it would sleep for ever.
    // SAFETY: an event.
    unsafe { asm!("sev", "sev") };
    wfe();
    push(0x5E07);

    // Entry into a handler and return from it are events.
    forget_event();
    cpu::pend(0);
    wfe();
    push(0x5E08);

    // A disabled interrupt that becomes pending is no event; the timer wakes from WFE.
    forget_event();
    alarm(5000);
    NVIC_ISPR.write(2);
    wfe();
    push(0x5E09);
    NVIC_ICPR.write(2);

    // With SEVONPEND it is one, and is not taken.
    forget_event();
    SCR.write(SEVONPEND);
    NVIC_ISPR.write(2);
    wfe();
    push(0x5E0A);
    push(NVIC_ISPR.read() & 3);
    // It was pending already: no new event, the timer wakes.
    forget_event();
    alarm(5000);
    NVIC_ISPR.write(2);
    wfe();
    push(0x5E0B);
    NVIC_ICPR.write(2);
    // Under PRIMASK too.
    forget_event();
    cpu::set_primask(1);
    alarm(5000);
    wfe();
    push(0x5E0C);
    push(ICSR.read() & PENDSTSET);
    cpu::set_primask(0);
    cpu::barrier();
    SCR.write(0);

    // The wide encodings do the same.
    push(0x5E0D);
    alarm(5000);
    // SAFETY: sleeps.
    unsafe { asm!("wfi.w") };
    push(0x5E0E);
    forget_event();
    alarm(5000);
    // SAFETY: sleeps.
    unsafe { asm!("wfe.w") };
    push(0x5E0F);
    forget_event();
    // SAFETY: an event, and no sleep.
    unsafe { asm!("sev.w", "wfe") };
    push(0x5E10);

    // Sleep on exit: the thread goes on only after the handler that switches it off.
    on(15, waker);
    Reg(NVIC_IPR.0 + 1).write_byte(0x40);
    NVIC_ISER.write(2);
    SCR.write(SLEEPONEXIT);
    alarm(5000);
    cpu::pend(1);
    push(0x5E11);
}
