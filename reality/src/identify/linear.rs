//! Square matrices of all parameters.

use super::parameters::{COUNT, Point};

/// A square matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix(Box<[Point; COUNT]>);

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.0[row][column]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.0[row][column]
    }
}

impl Matrix {
    /// Zeros.
    pub(super) fn zero() -> Self {
        Self(Box::new([[0.0; COUNT]; COUNT]))
    }

    /// Adds `weight` times the outer product of a vector with itself.
    pub(super) fn add_square(&mut self, vector: &Point, weight: f64) {
        for (row, a) in self.0.iter_mut().zip(vector) {
            let a = a * weight;
            row.iter_mut().zip(vector).for_each(|(entry, b)| *entry += a * b);
        }
    }

    /// The sum with another.
    #[must_use]
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (row, other) in sum.0.iter_mut().zip(other.0.iter()) {
            row.iter_mut().zip(other).for_each(|(entry, other)| *entry += other);
        }
        sum
    }

    /// With its diagonal times `factor`.
    #[must_use]
    pub(super) fn with_diagonal_times(&self, factor: f64) -> Self {
        let mut out = self.clone();
        (0..COUNT).for_each(|i| out[(i, i)] *= factor);
        out
    }

    /// Matrix times vector.
    pub(super) fn apply(&self, vector: &Point) -> Point {
        std::array::from_fn(|i| self.0[i].iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// Matrix times matrix.
    #[must_use]
    pub(super) fn times(&self, other: &Self) -> Self {
        let mut out = Self::zero();
        for (row, a) in out.0.iter_mut().zip(self.0.iter()) {
            for (a, other) in a.iter().zip(other.0.iter()) {
                row.iter_mut().zip(other).for_each(|(out, b)| *out += a * b);
            }
        }
        out
    }

    /// L with L Lᵀ = this, for a symmetric, positive definite matrix; `None` for any other.
    pub(super) fn cholesky(&self) -> Option<Self> {
        let mut lower = Self::zero();
        for i in 0..COUNT {
            for j in 0..=i {
                let sum: f64 = (0..j).map(|k| lower[(i, k)] * lower[(j, k)]).sum();
                let rest = self[(i, j)] - sum;
                lower[(i, j)] = if i == j { rest.sqrt() } else { rest / lower[(j, j)] };
            }
            if lower[(i, i)].is_nan() || lower[(i, i)] <= 0.0 {
                return None;
            }
        }
        Some(lower)
    }

    /// The inverse of a symmetric, positive definite matrix; `None` for any other.
    pub(super) fn inverse(&self) -> Option<Self> {
        let lower = self.cholesky()?;
        let mut inverse = Self::zero();
        for column in 0..COUNT {
            let mut x = [0.0; COUNT];
            x[column] = 1.0;
            for i in 0..COUNT {
                let sum: f64 = (0..i).map(|k| lower[(i, k)] * x[k]).sum();
                x[i] = (x[i] - sum) / lower[(i, i)];
            }
            for i in (0..COUNT).rev() {
                let sum: f64 = (i + 1..COUNT).map(|k| lower[(k, i)] * x[k]).sum();
                x[i] = (x[i] - sum) / lower[(i, i)];
            }
            (0..COUNT).for_each(|i| inverse[(i, column)] = x[i]);
        }
        Some(inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let mut matrix = Matrix::zero().with_diagonal_times(1.0);
        for i in 0..COUNT {
            matrix[(i, i)] = 1.0 + i as f64;
            let vector: Point = std::array::from_fn(|k| ((i * 7 + k * 3) % 5) as f64 - 2.0);
            matrix.add_square(&vector, 0.3);
        }
        let one = matrix.times(&matrix.inverse().unwrap());
        for i in 0..COUNT {
            for k in 0..COUNT {
                assert!((one[(i, k)] - f64::from(u8::from(i == k))).abs() < 1e-9, "{i} {k}");
            }
        }
        matrix[(3, 3)] = -1.0;
        assert!(matrix.inverse().is_none());
    }
}
