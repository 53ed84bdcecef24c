//! The LED-ring deck: a chain of twelve LEDs that take their colours from the lengths of pulses.

/// LEDs in the chain.
const LEDS: usize = 12;
/// Bits of one LED: green, red, blue.
const BITS: usize = 24;

/// The ring.
#[derive(Clone, Debug, Default)]
pub struct LedRing {
    colours: [[u8; 3]; LEDS],
    word: u32,
    bits: usize,
    /// Times all LEDs were set.
    pub pictures: u64,
    /// Pulses that are neither a 0 nor a 1.
    pub bad_pulses: u64,
}

impl LedRing {
    /// Red, green and blue of every LED.
    #[must_use]
    pub fn colours(&self) -> &[[u8; 3]; LEDS] {
        &self.colours
    }

    /// A period of the line in which it is high for so many nanoseconds. None at all ends a picture.
    pub fn pulse(&mut self, high_ns: u64) {
        match high_ns {
            0 => {
                self.pictures += u64::from(self.bits == LEDS * BITS);
                self.bits = 0;
                return;
            }
            // The WS2812B's limits: 0.22 to 0.5 µs, 0.58 to 1 µs.
            220..=500 => self.word <<= 1,
            580..=1000 => self.word = self.word << 1 | 1,
            _ => self.bad_pulses += 1,
        }
        self.bits += 1;
        if self.bits.is_multiple_of(BITS) {
            let [_, green, red, blue] = self.word.to_be_bytes();
            if let Some(colour) = self.colours.get_mut(self.bits / BITS - 1) {
                *colour = [red, green, blue];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_become_colours() {
        let mut ring = LedRing::default();
        for led in 0..12u32 {
            let word = (10 + led) << 16 | 200 << 8 | led;
            for bit in (0..24).rev() {
                ring.pulse(if word >> bit & 1 == 1 { 890 } else { 345 });
            }
        }
        ring.pulse(0);
        assert_eq!((ring.colours()[3], ring.colours()[11]), ([200, 13, 3], [200, 21, 11]));
        assert_eq!((ring.pictures, ring.bad_pulses), (1, 0));
        ring.pulse(540);
        ring.pulse(0);
        assert_eq!((ring.pictures, ring.bad_pulses), (1, 1), "half a picture is none");
    }
}
