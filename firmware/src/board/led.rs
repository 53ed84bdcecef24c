//! The five LEDs the processor drives itself. (The sixth, blue right, hangs on the radio processor.)

use stm32f4xx_hal::gpio::{Output, PC0, PC1, PC2, PC3, PD2, PinState};

/// The LEDs. Blue lights with a high level, the others with a low one.
pub(crate) struct Leds {
    blue_left: PD2<Output>,
    green_left: PC1<Output>,
    red_left: PC0<Output>,
    green_right: PC2<Output>,
    red_right: PC3<Output>,
}

impl Leds {
    /// All off.
    pub(crate) fn new(
        blue_left: PD2,
        green_left: PC1,
        red_left: PC0,
        green_right: PC2,
        red_right: PC3,
    ) -> Self {
        Self {
            blue_left: blue_left.into_push_pull_output(),
            green_left: green_left.into_push_pull_output_in_state(PinState::High),
            red_left: red_left.into_push_pull_output_in_state(PinState::High),
            green_right: green_right.into_push_pull_output_in_state(PinState::High),
            red_right: red_right.into_push_pull_output_in_state(PinState::High),
        }
    }

    /// Shows something.
    pub(crate) fn show(&mut self, lit: &steady_firmware::leds::Leds) {
        self.blue_left.set_state(lit.blue_left.into());
        self.green_left.set_state((!lit.green_left).into());
        self.red_left.set_state((!lit.red_left).into());
        self.green_right.set_state((!lit.green_right).into());
        self.red_right.set_state((!lit.red_right).into());
    }
}
