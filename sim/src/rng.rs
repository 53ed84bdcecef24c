//! Random numbers: one small generator per drone, the same bits on every machine.
//!
//! xoshiro128++ (Blackman and Vigna) over four 32-bit words, seeded by SplitMix64 from a seed and a
//! stream index. A drone's numbers depend only on its own stream, never on the order in which
//! drones are stepped; the four words can be saved and put back to resume exactly.

use steady_common::{Vec3, math};

/// A random number generator with 128 bits of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rng {
    words: [u32; 4],
}

/// One step of SplitMix64: advances `state` and returns a well-mixed word.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Stream number `stream` of `seed`. Different pairs give unrelated sequences.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut state = seed;
        let mut mixed = split_mix(&mut state) ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        let (a, b) = (split_mix(&mut mixed), split_mix(&mut mixed));
        Self::from_state([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
    }

    /// A generator put back to a saved state. All zeros is not a valid state and is replaced.
    #[must_use]
    pub fn from_state(words: [u32; 4]) -> Self {
        Self { words: if words == [0; 4] { [1, 2, 3, 4] } else { words } }
    }

    /// The whole state, for saving.
    #[must_use]
    pub const fn state(&self) -> [u32; 4] {
        self.words
    }

    /// The next 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let [a, b, c, d] = &mut self.words;
        let result = a.wrapping_add(*d).rotate_left(7).wrapping_add(*a);
        let shifted = *b << 9;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(11);
        result
    }

    /// Uniform in [0, 1), a multiple of 2⁻²⁴.
    #[inline]
    pub fn uniform(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Uniform between `low` and `high`.
    #[inline]
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// True with a probability.
    #[inline]
    pub fn chance(&mut self, probability: f32) -> bool {
        self.uniform() < probability
    }

    /// Two independent standard normal numbers (Box–Muller; at most 5.77 in magnitude).
    #[inline]
    pub fn normal_pair(&mut self) -> (f32, f32) {
        // Never zero, so that the logarithm is finite.
        let u = 1.0 - self.uniform();
        let radius = math::sqrt(-2.0 * libm::logf(u));
        let (sin, cos) = math::sin_cos(math::TAU * self.uniform());
        (radius * cos, radius * sin)
    }

    /// A standard normal number. [`Self::normal_pair`] gives two for the same price.
    #[inline]
    pub fn normal(&mut self) -> f32 {
        self.normal_pair().0
    }

    /// Three independent standard normal numbers.
    #[inline]
    pub fn normal_vec(&mut self) -> Vec3 {
        let (x, y) = self.normal_pair();
        Vec3::new(x, y, self.normal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_the_right_moments() {
        let mut rng = Rng::new(1, 2);
        let n = 200_000_u32;
        let (mut sum, mut squares, mut fourth, mut mixed) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        for _ in 0..n {
            let (a, b) = rng.normal_pair();
            let (a, b) = (f64::from(a), f64::from(b));
            sum += a;
            squares += a * a;
            fourth += a * a * a * a;
            mixed += a * b;
        }
        let n = f64::from(n);
        assert!((sum / n).abs() < 0.01 && (mixed / n).abs() < 0.01);
        assert!((squares / n - 1.0).abs() < 0.02 && (fourth / n - 3.0).abs() < 0.15);
    }

    #[test]
    fn the_generator_is_xoshiro128_plus_plus() {
        // First outputs from state (1, 2, 3, 4), by hand from the published recurrence.
        let mut rng = Rng::from_state([1, 2, 3, 4]);
        assert_eq!(rng.next_u32(), (5_u32 << 7) + 1);
        assert_eq!(rng.state(), [1 ^ 4 ^ 2, 2 ^ 3 ^ 1, (3 ^ 1) ^ (2 << 9), (4_u32 ^ 2).rotate_left(11)]);
    }

    #[test]
    fn a_saved_state_continues_the_sequence_and_streams_differ() {
        let mut rng = Rng::new(3, 0);
        rng.next_u32();
        let mut resumed = Rng::from_state(rng.state());
        assert_eq!(rng.next_u32(), resumed.next_u32());
        assert_ne!(Rng::new(3, 0).next_u32(), Rng::new(3, 1).next_u32());
        assert_ne!(Rng::new(3, 0).next_u32(), Rng::new(4, 0).next_u32());
    }
}
