//! Features learned by the gradient of L_disc.

use steady_sim::Rng;
use steady_sim::residual::{INPUTS, Input, OUTPUTS, Unit};

use crate::discovery::{MAX_UNITS, Settings};

/// φ: units of the inputs, and a read-out of inputs and units.
struct Net {
    units: Vec<[f64; INPUTS + 1]>,
    linear: [[f64; INPUTS + 1]; OUTPUTS],
    read: Vec<[f64; OUTPUTS]>,
}

/// Learns units: Adam on `L_disc = E|φ|² − 2 E[φᵀμ]` over batches, φ linear in the units and the inputs.
pub(crate) fn learn(x: &[Input], mu: &[[f64; OUTPUTS]], settings: &Settings, seed: u64) -> Vec<Unit> {
    if settings.units == 0 || x.is_empty() {
        return Vec::new();
    }
    let mut rng = Rng::new(seed, 0x6469_7363);
    let size = 1.0 / (INPUTS as f64).sqrt();
    let mut net = Net {
        units: (0..settings.units.min(MAX_UNITS))
            .map(|_| std::array::from_fn(|_| f64::from(rng.normal()) * size))
            .collect(),
        linear: [[0.0; INPUTS + 1]; OUTPUTS],
        read: vec![[0.0; OUTPUTS]; settings.units.min(MAX_UNITS)],
    };
    let count = net.weights().count();
    let (mut first, mut second) = (vec![0.0; count], vec![0.0; count]);
    let mut gradient = vec![0.0; count];
    for step in 1..=settings.steps {
        gradient.iter_mut().for_each(|g| *g = 0.0);
        for _ in 0..settings.batch {
            let row = rng.next_u32() as usize % x.len();
            net.add_gradient(&x[row], &mu[row], &mut gradient);
        }
        let scale = 1.0 / settings.batch as f64;
        let rate = settings.rate * (1.0 - (step - 1) as f64 / settings.steps as f64);
        let (b1, b2) = (1.0 - 0.9_f64.powi(step as i32), 1.0 - 0.99_f64.powi(step as i32));
        for (((w, g), m), v) in net.weights().zip(&gradient).zip(&mut first).zip(&mut second) {
            let g = g * scale + settings.decay * *w;
            *m += 0.1 * (g - *m);
            *v += 0.01 * (g * g - *v);
            *w -= rate * (*m / b1) / ((*v / b2).sqrt() + 1e-8);
        }
    }
    net.units
        .iter()
        .map(|weights| Unit {
            weights: std::array::from_fn(|i| weights[i] as f32),
            bias: weights[INPUTS] as f32,
        })
        .collect()
}

impl Net {
    fn weights(&mut self) -> impl Iterator<Item = &mut f64> {
        let units = self.units.iter_mut().flatten();
        units.chain(self.linear.iter_mut().flatten()).chain(self.read.iter_mut().flatten())
    }

    fn add_gradient(&self, x: &Input, mu: &[f64; OUTPUTS], gradient: &mut [f64]) {
        let x: [f64; INPUTS + 1] = std::array::from_fn(|i| if i < INPUTS { f64::from(x[i]) } else { 1.0 });
        let dot = |w: &[f64; INPUTS + 1]| w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>();
        let mut active = [0.0; MAX_UNITS];
        let active = &mut active[..self.units.len()];
        active.iter_mut().zip(&self.units).for_each(|(a, w)| *a = dot(w).tanh());
        let mut error = [0.0; OUTPUTS];
        for (k, error) in error.iter_mut().enumerate() {
            let by_units: f64 = active.iter().zip(&self.read).map(|(a, r)| a * r[k]).sum();
            *error = 2.0 * (dot(&self.linear[k]) + by_units - mu[k]);
        }
        let (of_units, rest) = gradient.split_at_mut(self.units.len() * (INPUTS + 1));
        let (of_linear, of_read) = rest.split_at_mut(OUTPUTS * (INPUTS + 1));
        for ((to, a), read) in of_units.chunks_mut(INPUTS + 1).zip(&*active).zip(&self.read) {
            let back: f64 = error.iter().zip(read).map(|(e, r)| e * r).sum::<f64>() * (1.0 - a * a);
            to.iter_mut().zip(&x).for_each(|(to, x)| *to += back * x);
        }
        for (to, error) in of_linear.chunks_mut(INPUTS + 1).zip(error) {
            to.iter_mut().zip(&x).for_each(|(to, x)| *to += error * x);
        }
        for (to, a) in of_read.chunks_mut(OUTPUTS).zip(&*active) {
            to.iter_mut().zip(error).for_each(|(to, error)| *to += a * error);
        }
    }
}
