//! Ridge regression from sums of products.

use steady_sim::residual::OUTPUTS;

/// Sums over transitions of products of features, and of features with outputs.
#[derive(Clone, Debug)]
pub(crate) struct Gram {
    width: usize,
    count: f64,
    xx: Vec<f64>,
    xy: [Vec<f64>; OUTPUTS],
}

impl Gram {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            count: 0.0,
            xx: vec![0.0; width * width],
            xy: std::array::from_fn(|_| vec![0.0; width]),
        }
    }

    pub(crate) fn add(&mut self, x: &[f64], y: &[f64; OUTPUTS]) {
        self.count += 1.0;
        for (row, a) in self.xx.chunks_mut(self.width).zip(x) {
            row.iter_mut().zip(x).for_each(|(sum, b)| *sum += a * b);
        }
        for (sums, y) in self.xy.iter_mut().zip(y) {
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * y);
        }
    }

    /// Weights of an output with a ridge per transition.
    pub(crate) fn solve(&self, output: usize, ridge: f64) -> Vec<f64> {
        let n = self.width;
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let mut rest = self.xx[i * n + j];
                if i == j {
                    rest += ridge * self.count + 1e-9;
                }
                rest -= (0..j).map(|k| lower[i * n + k] * lower[j * n + k]).sum::<f64>();
                lower[i * n + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / lower[j * n + j] };
            }
        }
        let mut w = self.xy[output].clone();
        for i in 0..n {
            let sum: f64 = (0..i).map(|k| lower[i * n + k] * w[k]).sum();
            w[i] = (w[i] - sum) / lower[i * n + i];
        }
        for i in (0..n).rev() {
            let sum: f64 = (i + 1..n).map(|k| lower[k * n + i] * w[k]).sum();
            w[i] = (w[i] - sum) / lower[i * n + i];
        }
        w
    }
}
