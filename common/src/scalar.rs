//! The scalar type of the control law.
//!
//! The law is generic over [`Scalar`]: `f32` on the drone and in the simulator,
//! [`Dual`](crate::Dual) where it is differentiated. Sensor values, references and the law's
//! memory are always `f32`; they enter as right-hand operands, which costs a dual number nothing.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use crate::math;

/// A number of the control law: `f32`, or a dual number that carries derivatives along.
pub trait Scalar:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Add<f32, Output = Self>
    + Sub<f32, Output = Self>
    + Mul<f32, Output = Self>
{
    /// The constant `x`.
    fn from_f32(x: f32) -> Self;

    /// The value, without derivatives, in single precision.
    fn to_f32(self) -> f32;

    /// Square root.
    fn sqrt(self) -> Self;

    /// Limited to [−limit, limit]; the derivative vanishes outside.
    fn bound(self, limit: f32) -> Self;

    /// The larger of `self` and a constant.
    fn at_least(self, floor: f32) -> Self;
}

impl Scalar for f32 {
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        math::sqrt(self)
    }

    #[inline(always)]
    fn bound(self, limit: f32) -> Self {
        math::bound(self, limit)
    }

    #[inline(always)]
    fn at_least(self, floor: f32) -> Self {
        if self > floor { self } else { floor }
    }
}

/// The floating-point type inside a [`Dual`](crate::Dual): `f32`, or `f64` to check derivatives.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// One half.
    const HALF: Self;

    /// From single precision, exactly.
    fn from_f32(x: f32) -> Self;
    /// To single precision.
    fn to_f32(self) -> f32;
    /// Square root.
    fn sqrt(self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;

    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        math::sqrt(self)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const HALF: Self = 0.5;

    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Self::from(x)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        math::sqrt_f64(self)
    }
}
