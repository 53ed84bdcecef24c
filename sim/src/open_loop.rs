//! Predictions from a log: the rotors follow logged commands, the body follows the rotors.

use steady_common::{Mat3, State, Vec3, math};

use crate::body::{self, Air};
use crate::motors::{Heat, MAX_MOTOR_THRUST_N};
use crate::params::Params;
use crate::residual::Unexplained;

impl Params {
    /// Rotor speeds after each physics step, rpm, for PWM ratios of 65535 and battery voltages, one of each a step.
    /// They start as if the first command had always been given, with cold motors. Commands come at once: a log
    /// knows its delay.
    #[must_use]
    pub fn rotor_speeds(&self, commands: impl IntoIterator<Item = ([f32; 4], f32)>) -> Vec<[f32; 4]> {
        let (mut rpm, mut heat) = (None, Heat::COLD);
        let follow = |(pwm, battery_v)| {
            let mut target = self.motors.speeds_for_pwm(pwm, battery_v);
            if let Some(p) = &self.motors.heat {
                heat.weaken(p, &mut target);
                heat.step(p, &target);
            }
            let rpm = rpm.get_or_insert(target);
            self.motors.advance(rpm, target);
            *rpm
        };
        commands.into_iter().map(follow).collect()
    }

    /// What PWM ratios of 65535 at a battery voltage ask of the motors, as parts of [`MAX_MOTOR_THRUST_N`]: by the
    /// thrust curve, before anything is lost.
    #[must_use]
    pub fn thrust_asked(&self, pwm: [f32; 4], battery_v: f32) -> [f32; 4] {
        pwm.map(|pwm| self.motors.thrust_at_voltage(pwm * (1.0 / 65535.0) * battery_v) / MAX_MOTOR_THRUST_N)
    }

    /// Current out of the battery with rotors at these speeds, A, at a voltage under load; 0 with an ideal one.
    #[must_use]
    pub fn current_a(&self, rpm: &[f32; 4], battery_v: f32) -> f32 {
        self.battery.as_ref().map_or(0.0, |battery| battery.current_a(rpm, battery_v))
    }

    /// Voltage without load at a part of the battery's capacity, V.
    #[must_use]
    pub fn open_circuit_v(&self, charge: f32) -> f32 {
        let charge = math::clamp(charge, 0.0, 1.0);
        self.battery.as_ref().map_or(self.full_voltage_v, |battery| battery.open_circuit(charge))
    }

    /// One physics step of a body whose rotors turn at these speeds, with accelerations that nothing here explains.
    #[inline]
    pub fn step_body(&self, state: &mut State, rpm: &[f32; 4], unexplained: &Unexplained) {
        let [m1, m2, m3, m4] = rpm;
        state.rates += unexplained.turn_rad_s(self);
        let air = Air {
            rpm,
            drag_rpm_sum: (m1 + m2) + (m3 + m4),
            push_n: unexplained.push_n(self),
            gust_m_s: Vec3::ZERO,
            last_attitude: state.attitude,
        };
        body::step(self, state, &air);
    }

    /// Angular acceleration, rad/s² in the body frame, and specific force along body z, m/s², at a state.
    #[must_use]
    pub fn accelerations(&self, state: &State, rpm: &[f32; 4]) -> (Vec3, f32) {
        let mut next = *state;
        self.step_body(&mut next, rpm, &Unexplained::default());
        let per_s = 1.0 / self.dt_s;
        let Mat3 { z: up, .. } = state.attitude.to_matrix();
        let gravity = Vec3::new(0.0, 0.0, self.gravity_m_s2);
        let force = (next.velocity - state.velocity) * per_s + gravity;
        ((next.rates - state.rates) * per_s, up.dot(force))
    }
}
