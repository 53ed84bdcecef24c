//! The machine-learning library: which one it is, how many threads it uses, and whether it works.

use tch::{Kind, Tensor};
use thiserror::Error;

/// Why libtorch cannot be trusted on this machine.
#[derive(Debug, Error)]
pub enum TorchError {
    /// An operation failed outright.
    #[error("libtorch failed: {0}")]
    Failed(#[from] tch::TchError),
    /// A gradient came out wrong.
    #[error("libtorch computed a wrong gradient: {got:?} instead of {expected:?}")]
    Wrong {
        /// What libtorch said.
        got: Vec<f64>,
        /// What it is.
        expected: Vec<f64>,
    },
}

/// The version of libtorch this program was built with, such as `2.13.0`.
pub fn libtorch_version() -> &'static str {
    env!("STEADY_LIBTORCH_VERSION")
}

/// Sets how many threads one operation may use.
///
/// Networks of our size are fastest on one thread: handing out the work costs more than doing it.
pub fn set_threads(threads: usize) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// How many threads one operation may use.
pub fn threads() -> usize {
    usize::try_from(tch::get_num_threads()).unwrap_or(1)
}

/// Computes a gradient and compares it with the truth: d(Σx²)/dx = 2x.
///
/// The numbers are small integers, so that the comparison can be exact.
pub fn self_check() -> Result<(), TorchError> {
    let x = [-3.0, -1.0, 0.0, 2.0, 5.0];
    let expected = x.map(|x| 2.0 * x).to_vec();
    let tensor = Tensor::f_from_slice(&x)?.f_set_requires_grad(true)?;
    tensor.f_mul(&tensor)?.f_sum(Kind::Double)?.f_backward()?;
    let got: Vec<f64> = Vec::try_from(tensor.f_grad()?)?;
    if got == expected { Ok(()) } else { Err(TorchError::Wrong { got, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_right() {
        self_check().unwrap();
    }

    #[test]
    fn the_version_is_the_one_the_bindings_need() {
        assert_eq!(libtorch_version(), "2.13.0");
    }

    #[test]
    fn the_number_of_threads_can_be_set() {
        set_threads(1);
        assert_eq!(threads(), 1);
    }
}
