//! Who interrupts whom: BASEPRI, PRIMASK, FAULTMASK, PRIGROUP.

use super::cpu::{self, pend};
use super::reg::{AIRCR, ICSR, NVIC_IABR, NVIC_ICER, NVIC_ICPR, NVIC_IPR, NVIC_ISER, NVIC_ISPR, Reg};
use super::trace::push;
use super::vectors::{handler, on_interrupt};

/// Interrupts that nothing in the chip raises while its parts are off: WWDG, PVD, TAMP_STAMP, RTC_WKUP.
const QUIET: [u32; 4] = [0, 1, 2, 3];

extern "C" fn plain_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
}
handler!(plain, plain_body);

/// Makes the other three pending.
extern "C" fn first_body(_exc_return: u32, _sp: u32) {
    push(0x1000 | cpu::ipsr());
    push(NVIC_IABR.read());
    for other in [1, 2, 3] {
        pend(other);
    }
    push(0x2000 | cpu::ipsr());
}
handler!(first, first_body);

pub(super) fn run() {
    for number in QUIET {
        on_interrupt(number as usize, plain);
    }
    // Priorities have four bits.
    cpu::enable(0, 0x5F);
    push(NVIC_IPR.read());

    push(0xBA01);
    cpu::set_basepri(0x5F);
    push(cpu::basepri());
    pend(0);
    // Pending and enabled; ICSR has ISRPENDING and VECTPENDING.
    push(NVIC_ISPR.read());
    push(ICSR.read());
    push(0xBA02);
    cpu::set_basepri(0x60);
    cpu::barrier();
    push(0xBA03);
    cpu::set_basepri(0x0F);
    push(cpu::basepri());
    pend(0);

    push(0xBA04);
    cpu::set_basepri_max(0x4A);
    push(cpu::basepri());
    cpu::set_basepri_max(0x60);
    push(cpu::basepri());
    cpu::set_basepri_max(0);
    push(cpu::basepri());
    cpu::set_basepri(0);

    push(0xBA05);
    cpu::set_primask(1);
    pend(0);
    push(cpu::primask());
    cpu::set_primask(0);
    cpu::set_faultmask(1);
    pend(0);
    push(cpu::faultmask());
    NVIC_ICPR.write(1);
    cpu::set_faultmask(0);
    push(NVIC_ISPR.read());

    // Not enabled: pending and nothing more.
    push(0xBA06);
    NVIC_ICER.write(1);
    push(NVIC_ISER.read());
    pend(0);
    push(ICSR.read() & !(1 << 22));
    NVIC_ICPR.write(1);

    // Two bits of group priority, two of subpriority. Without its key a write does nothing.
    push(0xBA07);
    AIRCR.write(0x05FA_0500);
    AIRCR.write(0x0000_0300);
    push(AIRCR.read());
    on_interrupt(0, first);
    for (number, priority) in [(0, 0x60), (1, 0x50), (2, 0x30), (3, 0x40)] {
        cpu::enable(number, priority);
    }
    pend(0);
    // BASEPRI is compared by groups as well: 0x50 holds 0x40 back, but not 0x30.
    push(0xBA08);
    cpu::set_basepri(0x50);
    pend(3);
    pend(2);
    push(0xBA09);
    cpu::set_basepri(0);
    cpu::barrier();

    // No group at all: nothing interrupts anything.
    push(0xBA0A);
    AIRCR.write(0x05FA_0700);
    pend(0);

    // One priority: the lower number comes first.
    push(0xBA0B);
    AIRCR.write(0x05FA_0000);
    for number in QUIET {
        Reg(NVIC_IPR.0 + number).write_byte(0x70);
    }
    NVIC_ISPR.write(0b1110);
    cpu::barrier();
}
