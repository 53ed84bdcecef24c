//! Bounded, seeded exploration noise on the action.

use crate::{Action, math};

/// Exploration noise on the action of the differentiable Mellinger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exploration {
    /// Noise is added.
    pub enabled: bool,
    /// Standard deviation of F_z, F_r, F_p, F_y.
    pub std: [f32; 4],
    /// Steps for which a draw is held.
    pub hold: u16,
    /// The same seed gives the same noise.
    pub seed: u32,
}

impl Exploration {
    /// Largest noise on any component, whatever the standard deviation.
    pub const LIMIT: f32 = 0.1;

    /// Off, with values that shake a hover without endangering it.
    pub const DEFAULT: Self = Self { enabled: false, std: [0.02, 0.01, 0.01, 0.005], hold: 25, seed: 1 };
}

/// Draws noise and holds it for a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explorer {
    state: u32,
    left: u16,
    held: [u32; 4],
}

impl Explorer {
    /// The same seed gives the same noise.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        // The generator must not start at zero; the multiplication spreads small seeds.
        Self { state: seed.wrapping_mul(0x9E37_79B9) | 1, left: 0, held: [0; 4] }
    }

    /// The noise of the next step.
    pub fn draw(&mut self, config: &Exploration) -> Action {
        if self.left == 0 {
            self.left = config.hold.max(1);
            self.held = [(); 4].map(|()| self.normal().to_bits());
        }
        self.left -= 1;
        let scaled = |bits: u32, std: f32| {
            let std = if std > 0.0 { std } else { 0.0 };
            math::bound(f32::from_bits(bits) * std, Exploration::LIMIT)
        };
        let ([a, b, c, d], [thrust, roll, pitch, yaw]) = (self.held, config.std);
        Action {
            thrust: scaled(a, thrust),
            roll: scaled(b, roll),
            pitch: scaled(c, pitch),
            yaw: scaled(d, yaw),
        }
    }

    /// Xorshift: small, fast, and its period of 2³² − 1 outlasts any flight.
    fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.state
    }

    /// Nearly normal, mean 0 and variance 1: the sum of twelve uniform numbers, within ±6.
    fn normal(&mut self) -> f32 {
        let sum = (0..12).fold(0.0, |sum, _| sum + (self.next() >> 8) as f32);
        sum * (1.0 / 16_777_216.0) - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn noise(seed: u32, config: &Exploration, steps: usize) -> Vec<Action> {
        let mut explorer = Explorer::new(seed);
        (0..steps).map(|_| explorer.draw(config)).collect()
    }

    #[test]
    fn seeded_held_and_bounded() {
        let config = Exploration { enabled: true, std: [0.02, 0.01, 1.0, f32::NAN], hold: 5, seed: 1 };
        let a = noise(3, &config, 20_000);
        assert_eq!(a, noise(3, &config, 20_000));
        assert_ne!(a, noise(4, &config, 20_000));
        for held in a.chunks(5) {
            assert!(held.iter().all(|n| n == &held[0]));
        }
        assert!(a.iter().all(|n| n.into_array().iter().all(|x| x.abs() <= Exploration::LIMIT)));
        assert!(a.iter().all(|n| n.yaw == 0.0), "a senseless spread is none");
        let mean = a.iter().map(|n| n.thrust).sum::<f32>() / a.len() as f32;
        let std = (a.iter().map(|n| n.thrust * n.thrust).sum::<f32>() / a.len() as f32).sqrt();
        assert!(mean.abs() < 1e-3 && (std - 0.02).abs() < 1e-3, "{mean} {std}");
    }
}
