//! From a command to rotor speeds: thrust fraction or PWM, effectiveness, voltage limit, heat, lag.

pub use steady_common::MAX_MOTOR_THRUST_N;
use steady_common::math;

use crate::params::remaining;
use crate::world::Motors;

/// Constants of the motors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MotorParams {
    /// Thrust over squared speed, N/rpm².
    pub(crate) thrust_coefficient: f32,
    pub(crate) inverse_thrust_coefficient: f32,
    /// Yaw torque over squared speed, N·m/rpm².
    pub(crate) torque_coefficient: f32,
    effectiveness: [f32; 4],
    thrust_limit_n: f32,
    thrust_curve_n: [f32; 4],
    thrust_slope_per_v: f32,
    thrust_reference_v: f32,
    /// Part of the distance to a higher target left after a step, M1..M4.
    rise_remaining: [f32; 4],
    /// Part of the distance to a lower target left after a step, M1..M4.
    fall_remaining: [f32; 4],
    /// Steps from a command until the motors see it.
    pub(crate) delay_steps: usize,
    /// Exponent of thrust over the commanded thrust; `None` if they are the same.
    thrust_exponent: Option<f32>,
    /// `None` for motors that heat does nothing to.
    pub(crate) heat: Option<HeatParams>,
}

/// Constants of motors that heat up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeatParams {
    /// Part of their thrust that M1..M4 lose in the end.
    loss: [f32; 4],
    /// Part of a motor's coolness left after a step.
    remaining: f32,
}

/// How warm the motors are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heat {
    /// What M1..M4 have left of their coolness: 1 until they turn, 0 in the end.
    coolness: [f32; 4],
}

impl Heat {
    /// Motors that have not turned yet.
    pub(crate) const COLD: Self = Self { coolness: [1.0; 4] };

    /// Takes from the speeds that the rotors tend to what heat takes.
    pub(crate) fn weaken(&self, p: &HeatParams, target_rpm: &mut [f32; 4]) {
        for ((rpm, loss), coolness) in target_rpm.iter_mut().zip(p.loss).zip(self.coolness) {
            *rpm *= math::sqrt(1.0 - loss * (1.0 - coolness));
        }
    }

    /// One step with the rotors at these speeds; those that stand still get no warmer.
    pub(crate) fn step(&mut self, p: &HeatParams, rpm: &[f32; 4]) {
        for (coolness, rpm) in self.coolness.iter_mut().zip(rpm) {
            *coolness *= if *rpm > 0.0 { p.remaining } else { 1.0 };
        }
    }
}

/// The command at which an exponent of thrust changes nothing, N.
const HALF_THRUST_N: f32 = 0.5 * MAX_MOTOR_THRUST_N;

impl MotorParams {
    pub(crate) fn new(m: &Motors, dt_s: f32) -> Self {
        Self {
            thrust_coefficient: m.thrust_n_per_rpm2,
            inverse_thrust_coefficient: 1.0 / m.thrust_n_per_rpm2,
            torque_coefficient: m.torque_nm_per_rpm2,
            effectiveness: m.effectiveness,
            thrust_limit_n: m.thrust_limit_n,
            thrust_curve_n: m.thrust_curve_n,
            thrust_slope_per_v: m.thrust_slope_per_v,
            thrust_reference_v: m.thrust_reference_v,
            rise_remaining: m.lag_factor.map(|factor| remaining(dt_s, factor * m.tau_rise_s)),
            fall_remaining: m.lag_factor.map(|factor| remaining(dt_s, factor * m.tau_fall_s)),
            // Rounded; a checked delay is not negative.
            delay_steps: (m.command_delay_s / dt_s + 0.5) as usize,
            thrust_exponent: (m.thrust_exponent != 1.0).then_some(m.thrust_exponent),
            heat: (m.heat_loss != [0.0; 4])
                .then(|| HeatParams { loss: m.heat_loss, remaining: remaining(dt_s, m.heat_tau_s) }),
        }
    }

    /// Thrust that a motor at a voltage gives in the end, N, from 0 to its limit.
    pub(crate) fn thrust_at_voltage(&self, v: f32) -> f32 {
        let [c0, c1, c2, c3] = self.thrust_curve_n;
        math::clamp(c0 + v * (c1 + v * (c2 + v * c3)), 0.0, self.thrust_limit_n)
    }

    /// Part of its thrust that a motor gives at a battery voltage, beyond the curve; 1 at the reference.
    #[inline]
    pub(crate) fn thrust_at_battery(&self, battery_v: f32) -> f32 {
        math::clamp(1.0 + self.thrust_slope_per_v * (battery_v - self.thrust_reference_v), 0.0, 2.0)
    }

    /// What a motor gives for a thrust asked of it, N, where thrust does not follow the command.
    fn thrust_given(&self, asked_n: f32, exponent: f32) -> f32 {
        let given_n = HALF_THRUST_N * libm::powf(asked_n / HALF_THRUST_N, exponent);
        math::clamp(given_n, 0.0, self.thrust_limit_n)
    }

    /// Speeds the rotors tend to for a thrust of each, N; a weak motor gives only its part.
    #[inline]
    fn speeds_for_thrust(&self, mut thrust_n: [f32; 4], battery_v: f32) -> [f32; 4] {
        if let Some(exponent) = self.thrust_exponent {
            thrust_n = thrust_n.map(|asked_n| self.thrust_given(asked_n, exponent));
        }
        let squares_per_n = self.inverse_thrust_coefficient * self.thrust_at_battery(battery_v);
        let mut rpm = [0.0; 4];
        for ((rpm, thrust), effectiveness) in rpm.iter_mut().zip(thrust_n).zip(self.effectiveness) {
            *rpm = math::sqrt(thrust * effectiveness * squares_per_n);
        }
        rpm
    }

    /// Target speeds for fractions of [`MAX_MOTOR_THRUST_N`], each limited to [0, 1] (NaN is 0) and
    /// to what the voltage can give. This is the path with ideal battery compensation.
    #[inline]
    pub(crate) fn speeds_for_fraction(
        &self,
        fraction: [f32; 4],
        available_n: f32,
        battery_v: f32,
    ) -> [f32; 4] {
        let thrust_n = fraction.map(|u| {
            let thrust = math::clamp(u, 0.0, 1.0) * MAX_MOTOR_THRUST_N;
            if thrust > available_n { available_n } else { thrust }
        });
        self.speeds_for_thrust(thrust_n, battery_v)
    }

    /// Target speeds for PWM ratios of 65535 at a battery voltage.
    pub(crate) fn speeds_for_pwm(&self, pwm: [f32; 4], battery_v: f32) -> [f32; 4] {
        let thrust_n = pwm.map(|p| self.thrust_at_voltage(p * (1.0 / 65535.0) * battery_v));
        self.speeds_for_thrust(thrust_n, battery_v)
    }

    /// One step of the rotors towards their targets.
    #[inline]
    pub(crate) fn advance(&self, rpm: &mut [f32; 4], target: [f32; 4]) {
        let remaining = self.rise_remaining.into_iter().zip(self.fall_remaining);
        for ((rpm, target), (rise, fall)) in rpm.iter_mut().zip(target).zip(remaining) {
            let left = if target > *rpm { rise } else { fall };
            // In this form a lag of zero gives the target exactly.
            *rpm = target - (target - *rpm) * left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    fn motors(change: impl Fn(&mut Motors)) -> MotorParams {
        let mut world = World::default();
        change(&mut world.motors);
        world.check().unwrap();
        MotorParams::new(&world.motors, 1.0 / 240.0)
    }

    /// Time until a rotor has covered 1 − 1/e of its way, s.
    fn time_constant(m: &MotorParams, from: f32, to: f32) -> f32 {
        let mut rpm = [from; 4];
        let mut time = 0.0;
        while (rpm[0] - to).abs() > (from - to).abs() / std::f32::consts::E {
            m.advance(&mut rpm, [to; 4]);
            time += 1.0 / 240.0;
        }
        time
    }

    #[test]
    fn rotors_rise_and_fall_with_their_own_time_constants() {
        let m = motors(|m| (m.tau_rise_s, m.tau_fall_s) = (0.05, 0.2));
        assert!((time_constant(&m, 0.0, 15_000.0) - 0.05).abs() < 0.005);
        assert!((time_constant(&m, 15_000.0, 2_000.0) - 0.2).abs() < 0.005);
    }

    #[test]
    fn without_lag_the_target_is_reached_exactly() {
        let m = motors(|m| (m.tau_rise_s, m.tau_fall_s) = (0.0, 0.0));
        let mut rpm = [1.0, 3e4, 0.0, 7.0];
        m.advance(&mut rpm, [14_468.43, 0.1, 5.0, 0.0]);
        assert_eq!(rpm, [14_468.43, 0.1, 5.0, 0.0]);
    }

    #[test]
    fn a_fraction_gives_its_thrust_and_a_weak_motor_gives_its_part() {
        let m = motors(|m| m.effectiveness[0] = 0.85);
        let rpm = m.speeds_for_fraction([0.5, 0.5, 2.0, f32::NAN], f32::INFINITY, 3.7);
        let thrust = rpm.map(|r| r * r * 3.16e-10);
        for (thrust, expected) in thrust.into_iter().zip([0.051, 0.06, 0.12, 0.0]) {
            assert!((thrust - expected).abs() < 1e-6, "{thrust} {expected}");
        }
        let low = m.speeds_for_fraction([1.0; 4], 0.03, 3.7)[1];
        assert!((low * low * 3.16e-10 - 0.03).abs() < 1e-6);
    }

    #[test]
    fn pwm_follows_the_thrust_curve() {
        let m = motors(|_| ());
        // 0.12 N need about 3.09 V.
        assert!((m.thrust_at_voltage(3.09) - 0.12).abs() < 2e-3);
        assert_eq!(m.thrust_at_voltage(0.0), 0.0);
        assert_eq!(m.thrust_at_voltage(4.2), 0.148_837_5);
        let [a, b, ..] = m.speeds_for_pwm([40_000.0, 0.0, 0.0, 0.0], 3.8);
        let expected = m.thrust_at_voltage(40_000.0 / 65_535.0 * 3.8);
        assert!((a * a * 3.16e-10 - expected).abs() < 1e-6);
        assert_eq!(b, 0.0);
    }
}
