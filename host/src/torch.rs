//! The machine-learning library: its version, its threads, and whether it works.

use anyhow::{Result, ensure};
use tch::{Kind, Tensor};

/// The version of libtorch this program was built with, such as `2.13.0`.
pub fn libtorch_version() -> &'static str {
    env!("STEADY_LIBTORCH_VERSION")
}

/// Sets how many threads one operation may use.
///
/// Networks of our size are fastest on one thread: distributing the work costs more than doing it.
pub fn set_threads(threads: usize) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Computes a gradient and compares it with the truth: d(Σx²)/dx = 2x.
///
/// The numbers are small integers, so that the comparison can be exact.
pub fn self_check() -> Result<()> {
    let x = [-3.0, -1.0, 0.0, 2.0, 5.0];
    let tensor = Tensor::f_from_slice(&x)?.f_set_requires_grad(true)?;
    tensor.f_mul(&tensor)?.f_sum(Kind::Double)?.f_backward()?;
    let (got, expected) = (Vec::<f64>::try_from(tensor.f_grad()?)?, x.map(|x| 2.0 * x));
    ensure!(got == expected, "libtorch computed a wrong gradient: {got:?} instead of {expected:?}");
    Ok(())
}
