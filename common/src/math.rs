//! Elementary functions for single precision, the same bits on every target.
//!
//! [`sqrt`] is IEEE (correctly rounded, hardware where there is one). The others are polynomials
//! made of plain `f32` operations, which Rust never contracts to fused ones, so a PC and a
//! Cortex-M4F agree on every bit. The error bounds in the docs are checked by the tests.

mod sqrt;

pub use core::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};
pub use sqrt::{sqrt, sqrt_f64};

/// Degrees to radians.
pub const DEG_TO_RAD: f32 = PI / 180.0;
/// Radians to degrees.
pub const RAD_TO_DEG: f32 = 180.0 / PI;

/// Largest magnitude for which [`sin_cos`] reduces its argument in single precision.
const REDUCTION_LIMIT: f32 = 4096.0;

/// π/2 in three parts, the first two short enough that `n * part` is exact for |n| < 4096.
const HALF_PI_A: f32 = 1.570_312_5;
const HALF_PI_B: f32 = 4.837_513e-4;
const HALF_PI_C: f32 = 7.549_79e-8;

/// Sine and cosine of an angle in radians; absolute error below 1.2e-7 for |x| ≤ 4096.
///
/// Larger angles are first reduced by the double nearest to 2π, so the error grows with |x| / 1e16;
/// infinities and NaN give `(0, 1)`: the result always lies in [−1, 1].
#[must_use]
pub fn sin_cos(x: f32) -> (f32, f32) {
    let x = if abs(x) <= REDUCTION_LIMIT { x } else { wrap_far(x) };
    // Round to the nearest quarter turn; the cast truncates, hence the signed half.
    let quarters = (x * (1.0 / FRAC_PI_2) + if x < 0.0 { -0.5 } else { 0.5 }) as i32;
    let n = quarters as f32;
    let r = ((x - n * HALF_PI_A) - n * HALF_PI_B) - n * HALF_PI_C;
    let r2 = r * r;
    let sin = r + r * r2 * (-1.666_665_5e-1 + r2 * (8.332_161e-3 + r2 * -1.951_529_6e-4));
    let cos = 1.0 - 0.5 * r2 + r2 * r2 * (4.166_664_6e-2 + r2 * (-1.388_731_6e-3 + r2 * 2.443_315_7e-5));
    match quarters & 3 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Brings a far-away angle near zero in double precision (rare: control angles stay within turns).
#[cold]
fn wrap_far(x: f32) -> f32 {
    if x.is_finite() { (f64::from(x) % core::f64::consts::TAU) as f32 } else { 0.0 }
}

/// Sine of an angle in radians. See [`sin_cos`].
#[must_use]
pub fn sin(x: f32) -> f32 {
    sin_cos(x).0
}

/// Cosine of an angle in radians. See [`sin_cos`].
#[must_use]
pub fn cos(x: f32) -> f32 {
    sin_cos(x).1
}

/// Angle of the vector (x, y) in (−π, π]; absolute error below 4e-7. `atan2(0, 0)` is 0.
#[must_use]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (ax, ay) = (abs(x), abs(y));
    let (small, large) = if ay > ax { (ax, ay) } else { (ay, ax) };
    let first_octant = if large > 0.0 {
        // Two infinities make a diagonal; otherwise the quotient is in [0, 1].
        atan_unit(if small < large { small / large } else { 1.0 })
    } else {
        0.0
    };
    let quadrant = if ay > ax { FRAC_PI_2 - first_octant } else { first_octant };
    let half = if x.is_sign_negative() { PI - quadrant } else { quadrant };
    half.copysign(y)
}

/// atan on [0, 1]: reduced once more at tan(π/8), then an odd polynomial.
fn atan_unit(t: f32) -> f32 {
    const TAN_PI_8: f32 = 0.414_213_57;
    let (offset, t) = if t > TAN_PI_8 { (FRAC_PI_4, (t - 1.0) / (t + 1.0)) } else { (0.0, t) };
    let t2 = t * t;
    let tail = -3.333_295e-1 + t2 * (1.997_771e-1 + t2 * (-1.387_768_6e-1 + t2 * 8.053_744_6e-2));
    offset + (t + t * t2 * tail)
}

/// Arc sine in radians, argument limited to [−1, 1]; absolute error below 5e-7.
#[must_use]
pub fn asin(x: f32) -> f32 {
    let x = clamp(x, -1.0, 1.0);
    atan2(x, sqrt((1.0 - x) * (1.0 + x)))
}

/// Real cube root; relative error below 2e-7.
#[must_use]
pub fn cbrt(x: f32) -> f32 {
    let a = abs(x);
    if a < f32::MIN_POSITIVE || !a.is_finite() {
        // Below the normal numbers the root is smaller than anything a motor can tell from zero.
        return if a.is_finite() { 0.0 } else { x };
    }
    // Dividing the exponent by three gives a first guess within 6 %; two steps of Halley's
    // method (cubic convergence) bring it to the last place.
    let mut root = f32::from_bits(a.to_bits() / 3 + 0x2a51_37a0);
    for _ in 0..2 {
        let cube = root * root * root;
        root *= (cube + a + a) / (cube + cube + a);
    }
    // One Newton correction computed as a small difference removes Halley's own rounding.
    let correction = (root - a / (root * root)) * (1.0 / 3.0);
    (root - correction).copysign(x)
}

/// Magnitude.
#[must_use]
pub fn abs(x: f32) -> f32 {
    x.abs()
}

/// `x` limited to [low, high]; NaN becomes `low`, so nothing unordered gets past a limit.
#[inline(always)]
#[must_use]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    // Written as two selections so that it compiles to a maximum and a minimum, without branches.
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// `x` limited to [−limit, limit]; NaN becomes −limit.
#[inline(always)]
#[must_use]
pub fn bound(x: f32, limit: f32) -> f32 {
    clamp(x, -limit, limit)
}

/// Angle wrapped to [−π, π).
#[must_use]
pub fn wrap_angle(x: f32) -> f32 {
    if (-PI..PI).contains(&x) {
        return x;
    }
    let (s, c) = sin_cos(x);
    let wrapped = atan2(s, c);
    if wrapped >= PI { -PI } else { wrapped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    /// Every 97th float bit pattern in [low, high], both signs.
    fn floats(low: f32, high: f32) -> impl Iterator<Item = f32> {
        (low.to_bits()..=high.to_bits()).step_by(97).flat_map(|b| [f32::from_bits(b), -f32::from_bits(b)])
    }

    #[test]
    fn sin_cos_is_within_its_bound() {
        let mut worst = 0.0_f64;
        for x in floats(1e-8, 4096.0) {
            let (s, c) = sin_cos(x);
            let e = (f64::from(s) - f64::from(x).sin()).abs().max((f64::from(c) - f64::from(x).cos()).abs());
            worst = worst.max(e);
        }
        assert!(worst < 1.2e-7, "worst {worst:e}");
    }

    #[test]
    fn sin_is_relatively_accurate_near_zero() {
        for x in floats(1e-30, 0.5) {
            let e = (f64::from(sin(x)) / f64::from(x).sin() - 1.0).abs();
            assert!(e < 1.3e-7, "{x:e}: {e:e}");
        }
    }

    #[test]
    fn sin_cos_stays_in_range_for_anything() {
        for bits in (0..=u32::MAX).step_by(65_537) {
            let (s, c) = sin_cos(f32::from_bits(bits));
            assert!((-1.0..=1.0).contains(&s) && (-1.0..=1.0).contains(&c), "{bits:#x}: {s} {c}");
        }
    }

    #[test]
    fn atan2_is_within_its_bound() {
        let mut worst = 0.0_f64;
        for i in 0..2000 {
            for scale in [1e-20_f32, 1.0, 1e18] {
                let angle = (f64::from(i) / 1000.0 - 1.0) * core::f64::consts::PI;
                let (y, x) = ((angle.sin() as f32) * scale, (angle.cos() as f32) * scale);
                worst = worst.max((f64::from(atan2(y, x)) - f64::from(y).atan2(f64::from(x))).abs());
            }
        }
        assert!(worst < 4e-7, "worst {worst:e}");
        assert_eq!(atan2(0.0, 0.0), 0.0);
        assert_eq!(atan2(0.0, -1.0), PI);
        assert!(atan2(f32::INFINITY, f32::INFINITY).is_finite());
    }

    #[test]
    fn asin_is_within_its_bound() {
        for i in -10_000_i16..=10_000 {
            let x = f32::from(i) / 10_000.0;
            assert!((f64::from(asin(x)) - f64::from(x).asin()).abs() < 5e-7, "{x}");
        }
        assert_eq!(asin(2.0), asin(1.0));
    }

    #[test]
    fn cbrt_is_within_its_bound() {
        let mut worst = 0.0_f64;
        for x in floats(1e-37, 1e38) {
            worst = worst.max((f64::from(cbrt(x)) / f64::from(x).cbrt() - 1.0).abs());
        }
        assert!(worst < 2e-7, "worst {worst:e}");
        assert_eq!(cbrt(0.0), 0.0);
    }

    #[test]
    fn sqrt_is_correctly_rounded() {
        for bits in (0..f32::INFINITY.to_bits()).step_by(997) {
            let x = f32::from_bits(bits);
            assert_eq!(sqrt(x).to_bits(), x.sqrt().to_bits(), "{x:e}");
        }
        assert!(sqrt(-1.0).is_nan());
    }

    #[test]
    fn limits_stop_nan() {
        assert_eq!(clamp(f32::NAN, -1.0, 2.0), -1.0);
        assert_eq!(bound(f32::NAN, 2.0), -2.0);
        assert_eq!(bound(f32::NEG_INFINITY, 2.0), -2.0);
    }

    #[test]
    fn wrapped_angles_keep_their_direction() {
        for i in -50..50 {
            let x = i as f32 * 0.37;
            let w = wrap_angle(x);
            assert!((-PI..PI).contains(&w));
            assert!((sin(w) - sin(x)).abs() < 1e-5 && (cos(w) - cos(x)).abs() < 1e-5);
        }
    }
}
