//! A register of a part that the virtual Crazyflie does not have.

use super::reg::{RCC_APB2ENR, SDIO_POWER};
use super::trace::push;

/// Its name is in the message.
#[inline(never)]
fn ask_the_card_interface() -> u32 {
    SDIO_POWER.read()
}

pub(super) fn run() {
    RCC_APB2ENR.set(1 << 11);
    push(ask_the_card_interface());
}
