//! Thrust to PWM with battery compensation.
//!
//! A propeller's thrust F (N) at a motor voltage v (V) is the cubic F = c0 + c1 v + c2 v² + c3 v³,
//! measured for each propeller type. The PWM that gives F is the solution's share of the supply
//! voltage.

use super::bound;
use super::power::FULL_SCALE;
use crate::math;

/// Below this supply voltage, V, the motors are not run.
const MIN_SUPPLY: f32 = 2.0;
/// Supply voltage before the first measurement, V.
const INITIAL_SUPPLY: f32 = 4.2;
/// Share of a new measurement in the filtered supply voltage.
const SUPPLY_FILTER: f32 = 0.01;
/// Largest force a voltage is computed for, N; only there so that its square does not overflow.
const FORCE_LIMIT: f32 = 1e4;

/// A propeller on its motor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propeller {
    /// Thrust at 0 V by the fitted cubic, N.
    pub c0: f32,
    /// Linear coefficient, N/V.
    pub c1: f32,
    /// Quadratic coefficient, N/V².
    pub c2: f32,
    /// Cubic coefficient, N/V³; must not be 0.
    pub c3: f32,
    /// Smallest thrust the motor can hold, N; less means stopped.
    pub min_thrust: f32,
    /// Thrust of a full-scale request, N.
    pub max_thrust: f32,
    /// Torque about the vertical axis per thrust, m.
    pub thrust_to_torque: f32,
}

#[expect(clippy::excessive_precision, reason = "the digits as published")]
impl Propeller {
    /// Crazyflie 2.1+ propellers: the official build's default.
    pub const CF21_PLUS: Self = Self {
        c0: -0.024_765_379_2,
        c1: 0.065_237_935_3,
        c2: -0.026_792_505_0,
        c3: 0.006_776_789_3,
        min_thrust: 0.012_817_578_4,
        max_thrust: 0.12,
        thrust_to_torque: 0.006_992_894_9,
    };

    /// The original propellers of the Crazyflie 2.0 and 2.1.
    pub const CF2_LEGACY: Self = Self {
        c0: -0.014_830_744_9,
        c1: 0.047_244_652_4,
        c2: -0.018_473_643_6,
        c3: 0.005_960_923_9,
        min_thrust: 0.012_817_578_4,
        max_thrust: 0.12,
        thrust_to_torque: 0.007_350_862_9,
    };

    /// The thrust upgrade kit.
    pub const THRUST_UPGRADE: Self = Self {
        c0: 0.006_728_127_6,
        c1: 0.010_115_576_2,
        c2: 0.010_263_198_1,
        c3: 0.002_835_863_8,
        min_thrust: 0.019_226_367_6,
        max_thrust: 0.18,
        thrust_to_torque: 0.005_164_862_8,
    };

    /// Thrust at a motor voltage, N, by the fitted cubic (negative near 0 V for some propellers).
    #[must_use]
    pub fn thrust_at(&self, volts: f32) -> f32 {
        self.c0 + volts * (self.c1 + volts * (self.c2 + volts * self.c3))
    }

    /// Motor voltage for a thrust in N: the real root of the cubic, in closed form.
    #[must_use]
    pub fn volts_for(&self, newtons: f32) -> f32 {
        let Self { c0, c1, c2, c3, .. } = *self;
        let force = bound(newtons, FORCE_LIMIT);
        let p = -c2 / (3.0 * c3);
        let r = c1 / (3.0 * c3);
        let q = p * p * p + (c2 * c1 - 3.0 * c3 * (c0 - force)) / (6.0 * c3 * c3);
        let m = r - p * p;
        // Above the smallest thrust there is one real root, so the radicand is positive.
        let radicand = q * q + m * m * m;
        let s = math::sqrt(if radicand > 0.0 { radicand } else { 0.0 });
        math::cbrt(q + s) + math::cbrt(q - s) + p
    }

    /// PWM (full scale 65535, not limited above) that gives a thrust in N at a supply voltage.
    ///
    /// 0 for a thrust the motor cannot hold and for a supply below 2 V.
    #[must_use]
    pub fn pwm_for_force(&self, newtons: f32, supply: f32) -> f32 {
        if supply >= MIN_SUPPLY && newtons >= self.min_thrust {
            bound(f32::from(FULL_SCALE) * (self.volts_for(newtons) / supply), f32::MAX)
        } else {
            0.0
        }
    }

    /// The same for a motor request, where 65535 asks for `max_thrust`.
    #[must_use]
    pub fn compensate(&self, request: i32, supply: f32) -> f32 {
        self.pwm_for_force(request as f32 / f32::from(FULL_SCALE) * self.max_thrust, supply)
    }
}

/// Low-pass filter of the supply voltage, one step per millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SupplyFilter {
    volts: f32,
}

impl Default for SupplyFilter {
    fn default() -> Self {
        Self { volts: INITIAL_SUPPLY }
    }
}

impl SupplyFilter {
    /// Takes a measurement of the battery (V) and returns the filtered voltage. A measurement that
    /// is not a number changes nothing.
    pub fn update(&mut self, battery: f32) -> f32 {
        if battery.is_finite() {
            self.volts += SUPPLY_FILTER * (battery - self.volts);
        }
        self.volts
    }

    /// Filtered supply voltage, V.
    #[must_use]
    pub fn volts(&self) -> f32 {
        self.volts
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn volts_invert_the_thrust_curve() {
        for propeller in [Propeller::CF21_PLUS, Propeller::CF2_LEGACY, Propeller::THRUST_UPGRADE] {
            for i in 1..=20_u8 {
                let force = f32::from(i) * 0.05 * propeller.max_thrust;
                let back = propeller.thrust_at(propeller.volts_for(force));
                // The closed form subtracts nearly equal numbers; worst for the upgrade kit.
                assert!((back - force).abs() < 1e-4 * propeller.max_thrust, "{force} {back}");
            }
        }
    }

    #[test]
    fn a_low_battery_or_a_tiny_thrust_stops_the_motor() {
        let p = Propeller::CF21_PLUS;
        assert_eq!(p.compensate(40_000, 1.99), 0.0);
        assert_eq!(p.compensate(6_999, 4.0), 0.0);
        assert_eq!(p.compensate(-5, 4.0), 0.0);
        assert_eq!(p.compensate(40_000, f32::NAN), 0.0);
        assert!(p.compensate(7_001, 4.0) > 0.0);
        assert!(p.compensate(40_000, 3.2) > p.compensate(40_000, 4.2));
        assert!(p.compensate(i32::MAX, 2.0).is_finite());
    }

    #[test]
    fn the_supply_voltage_is_followed_slowly() {
        let mut filter = SupplyFilter::default();
        assert_eq!(filter.volts(), 4.2);
        assert!((filter.update(3.2) - 4.19).abs() < 1e-6);
        filter.update(f32::NAN);
        for _ in 0..1000 {
            filter.update(3.2);
        }
        assert!((filter.volts() - 3.2).abs() < 1e-3);
    }
}
