//! The five LEDs the processor drives itself. (The sixth, blue right, hangs on the radio processor.)

use super::gpio::{Drive, Pin, Port};

/// One of the LEDs.
#[derive(Clone, Copy)]
pub(crate) enum Led {
    BlueLeft,
    GreenLeft,
    RedLeft,
    GreenRight,
    RedRight,
}

/// All of them.
pub(crate) const ALL: [Led; 5] =
    [Led::BlueLeft, Led::GreenLeft, Led::RedLeft, Led::GreenRight, Led::RedRight];

/// Makes the pins outputs, all LEDs off.
pub(crate) fn init() {
    for led in ALL {
        set(led, false);
        led.pin().0.output(Drive::PushPull);
    }
}

/// Switches an LED.
pub(crate) fn set(led: Led, on: bool) {
    let (pin, lit_by_high) = led.pin();
    pin.set(on == lit_by_high);
}

impl Led {
    /// The pin, and whether a high level lights the LED.
    const fn pin(self) -> (Pin, bool) {
        match self {
            Self::BlueLeft => (Pin(Port::D, 2), true),
            Self::GreenLeft => (Pin(Port::C, 1), false),
            Self::RedLeft => (Pin(Port::C, 0), false),
            Self::GreenRight => (Pin(Port::C, 2), false),
            Self::RedRight => (Pin(Port::C, 3), false),
        }
    }
}
