//! Forward-mode dual numbers: a value and its partial derivatives.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use crate::scalar::{Real, Scalar};

/// A value with `N` partial derivatives. `Dual<f64, 0>` is a plain double as a [`Scalar`].
///
/// The value's own operations are the same, in the same order, as those of a plain `f32`, so a
/// law evaluated with duals gives the same bits as the law that flies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual<T, const N: usize> {
    /// The value.
    pub value: T,
    /// Partial derivatives.
    pub partials: [T; N],
}

impl<T: Real, const N: usize> Dual<T, N> {
    /// A constant: all derivatives zero.
    #[inline(always)]
    pub fn constant(value: T) -> Self {
        Self { value, partials: [T::ZERO; N] }
    }

    /// The `index`-th independent variable: its derivative with respect to itself is one.
    #[inline(always)]
    pub fn variable(value: T, index: usize) -> Self {
        let mut x = Self::constant(value);
        if let Some(partial) = x.partials.get_mut(index) {
            *partial = T::ONE;
        }
        x
    }

    /// The same number among more variables: the new ones come last and do not matter to it.
    #[inline(always)]
    pub fn widen<const M: usize>(self) -> Dual<T, M> {
        let mut wide = Dual::constant(self.value);
        for (to, from) in wide.partials.iter_mut().zip(self.partials) {
            *to = from;
        }
        wide
    }

    #[inline(always)]
    fn map(self, value: T, f: impl Fn(T) -> T) -> Self {
        Self { value, partials: self.partials.map(f) }
    }

    #[inline(always)]
    fn zip(self, other: Self, value: T, f: impl Fn(T, T) -> T) -> Self {
        let mut partials = self.partials;
        for (a, b) in partials.iter_mut().zip(other.partials) {
            *a = f(*a, b);
        }
        Self { value, partials }
    }
}

impl<T: Real, const N: usize> Add for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        self.zip(o, self.value + o.value, |a, b| a + b)
    }
}

impl<T: Real, const N: usize> Sub for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        self.zip(o, self.value - o.value, |a, b| a - b)
    }
}

#[allow(clippy::suspicious_arithmetic_impl, reason = "the product rule is a sum")]
impl<T: Real, const N: usize> Mul for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        self.zip(o, self.value * o.value, |a, b| a * o.value + self.value * b)
    }
}

impl<T: Real, const N: usize> Div for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        let quotient = self.value / o.value;
        let inverse = T::ONE / o.value;
        self.zip(o, quotient, |a, b| (a - quotient * b) * inverse)
    }
}

impl<T: Real, const N: usize> Neg for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(-self.value, |a| -a)
    }
}

impl<T: Real, const N: usize> AddAssign for Dual<T, N> {
    #[inline(always)]
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl<T: Real, const N: usize> Add<f32> for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn add(self, c: f32) -> Self {
        Self { value: self.value + T::from_f32(c), ..self }
    }
}

impl<T: Real, const N: usize> Sub<f32> for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, c: f32) -> Self {
        Self { value: self.value - T::from_f32(c), ..self }
    }
}

impl<T: Real, const N: usize> Mul<f32> for Dual<T, N> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, c: f32) -> Self {
        let c = T::from_f32(c);
        self.map(self.value * c, |a| a * c)
    }
}

impl<T: Real, const N: usize> Scalar for Dual<T, N> {
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Self::constant(T::from_f32(x))
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.value.to_f32()
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        let slope = T::HALF / root;
        self.map(root, |a| a * slope)
    }

    #[inline(always)]
    fn bound(self, limit: f32) -> Self {
        let limit = T::from_f32(limit);
        if self.value >= limit {
            Self::constant(limit)
        } else if self.value > -limit {
            self
        } else {
            Self::constant(-limit)
        }
    }

    #[inline(always)]
    fn at_least(self, floor: f32) -> Self {
        let floor = T::from_f32(floor);
        if self.value > floor { self } else { Self::constant(floor) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type D = Dual<f64, 2>;

    #[test]
    fn follows_the_rules_of_calculus() {
        let (x, y) = (D::variable(1.3, 0), D::variable(-0.7, 1));
        // f = x y / sqrt(x) + 3 x − y
        let f = x * y / x.sqrt() + x * 3.0 - y;
        let dx = -0.7 * 0.5 / 1.3_f64.sqrt() + 3.0;
        let dy = 1.3_f64.sqrt() - 1.0;
        assert!((f.partials[0] - dx).abs() < 1e-12, "{:?}", f.partials);
        assert!((f.partials[1] - dy).abs() < 1e-12, "{:?}", f.partials);
    }

    #[test]
    fn limits_cut_the_derivative() {
        let x = D::variable(2.0, 0);
        assert_eq!(x.bound(1.0), D::constant(1.0));
        assert_eq!((-x).bound(1.0), D::constant(-1.0));
        assert_eq!(x.bound(3.0), x);
        assert_eq!(x.at_least(5.0), D::constant(5.0));
        assert_eq!(D::constant(f64::NAN).bound(1.0), D::constant(-1.0));
    }
}
