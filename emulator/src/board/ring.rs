//! The LED-ring deck: a chain of twelve LEDs that take their colours from the lengths of pulses.

/// LEDs in the chain.
const LEDS: usize = 12;
/// Bits of one LED: green, red, blue.
const BITS: usize = 24;
/// When the line was low for so long, the first LED takes the next bits (WS2812B: more than 50 µs).
const RESET_NS: u64 = 50_000;

/// The ring.
#[derive(Clone, Debug, Default)]
pub struct LedRing {
    colours: [[u8; 3]; LEDS],
    word: u32,
    bits: usize,
    /// When the last pulse began, ns.
    last_ns: u64,
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

    /// A period of the line in which it is high for so many nanoseconds, or not at all, at a time.
    pub fn pulse(&mut self, high_ns: u64, now_ns: u64) {
        if high_ns == 0 {
            return;
        }
        if now_ns.saturating_sub(self.last_ns) > RESET_NS {
            self.bits = 0;
        }
        self.last_ns = now_ns;
        match high_ns {
            // The WS2812B's limits: 0.22 to 0.5 µs, 0.58 to 1 µs.
            220..=500 => self.word <<= 1,
            580..=1000 => self.word = self.word << 1 | 1,
            _ => self.bad_pulses += 1,
        }
        self.bits += 1;
        self.pictures += u64::from(self.bits == LEDS * BITS);
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
        let mut now_ns = 1_000_000;
        let mut show = |ring: &mut LedRing, leds: u32, more: u32| {
            for led in 0..leds {
                let word = (10 + led + more) << 16 | 200 << 8 | led;
                for bit in (0..24).rev() {
                    ring.pulse(if word >> bit & 1 == 1 { 890 } else { 345 }, now_ns);
                    now_ns += 1250;
                }
            }
            // A low period alone is no end.
            ring.pulse(0, now_ns);
            now_ns += 1250;
            now_ns
        };
        show(&mut ring, 5, 0);
        assert_eq!(ring.pictures, 0, "half a picture is none");
        let end_ns = show(&mut ring, 7, 0);
        assert_eq!((ring.colours()[3], ring.colours()[5]), ([200, 13, 3], [200, 10, 0]));
        assert_eq!((ring.pictures, ring.bad_pulses), (1, 0));
        // More LEDs than there are.
        show(&mut ring, 1, 100);
        assert_eq!((ring.colours()[0], ring.pictures), ([200, 10, 0], 1));
        ring.pulse(540, end_ns + 100_000);
        for _ in 1..24 {
            ring.pulse(345, end_ns + 100_000);
        }
        assert_eq!((ring.bad_pulses, ring.colours()[0]), (1, [0, 0, 0]), "the first LED again");
    }
}
