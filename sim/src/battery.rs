//! One lithium-polymer cell: the voltage falls with the charge and sags with the current.

use crate::motors::MAX_MOTOR_THRUST_N;
use crate::world::{Battery as BatteryConfig, Motors};

/// No load pulls the terminals below this, V; a real drone has reset by then.
const LOWEST_V: f32 = 2.0;

/// Constants of the battery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatteryParams {
    initial_charge: f32,
    resistance_ohm: f32,
    open_circuit_v: [f32; 11],
    idle_current_a: f32,
    /// Electrical power of a rotor over its cubed speed, W/rpm³ (thrust to the 1.5).
    power_coefficient: f32,
    /// Part of the capacity that a current of 1 A takes in one step.
    charge_per_ampere: f32,
}

impl BatteryParams {
    pub(crate) fn new(b: &BatteryConfig, m: &Motors, dt_s: f32) -> Self {
        let relative = m.thrust_n_per_rpm2 / MAX_MOTOR_THRUST_N;
        Self {
            initial_charge: b.initial_charge,
            resistance_ohm: b.resistance_ohm,
            open_circuit_v: b.open_circuit_v,
            idle_current_a: b.idle_current_a,
            power_coefficient: m.full_thrust_power_w * relative * steady_common::math::sqrt(relative),
            charge_per_ampere: dt_s / (3600.0 * b.capacity_ah),
        }
    }

    /// Current with rotors at a speed, at the terminals' voltage.
    pub(crate) fn current_a(&self, rpm: &[f32; 4], voltage_v: f32) -> f32 {
        let cubes = rpm.iter().fold(0.0, |sum, r| sum + r * r * r);
        self.idle_current_a + self.power_coefficient * cubes / voltage_v
    }

    /// Voltage without load at a charge in [0, 1].
    pub(crate) fn open_circuit(&self, charge: f32) -> f32 {
        let position = charge * 10.0;
        let cell = (position as usize).min(9);
        let [low, high] = [self.open_circuit_v[cell], self.open_circuit_v[cell + 1]];
        low + (high - low) * (position - cell as f32)
    }
}

/// State of a battery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Battery {
    /// Part of the capacity that is left, 0 to 1.
    pub charge: f32,
    /// Voltage at the terminals, V.
    pub voltage_v: f32,
    /// Current, A.
    pub current_a: f32,
}

impl Battery {
    /// An unloaded battery; an ideal one when there are no constants.
    pub(crate) fn new(params: Option<&BatteryParams>, full_voltage_v: f32) -> Self {
        match params {
            Some(p) => Self {
                charge: p.initial_charge,
                voltage_v: p.open_circuit(p.initial_charge),
                current_a: p.idle_current_a,
            },
            None => Self { charge: 1.0, voltage_v: full_voltage_v, current_a: 0.0 },
        }
    }

    /// One step with rotors at a speed.
    pub(crate) fn step(&mut self, p: &BatteryParams, rpm: &[f32; 4]) {
        self.current_a = p.current_a(rpm, self.voltage_v);
        let charge = self.charge - self.current_a * p.charge_per_ampere;
        self.charge = if charge > 0.0 { charge } else { 0.0 };
        let voltage = p.open_circuit(self.charge) - p.resistance_ohm * self.current_a;
        self.voltage_v = if voltage > LOWEST_V { voltage } else { LOWEST_V };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    fn lipo() -> (BatteryParams, Battery) {
        let world = World::default();
        let p = BatteryParams::new(&world.battery, &world.motors, 1.0 / 240.0);
        let b = Battery::new(Some(&p), 4.2);
        (p, b)
    }

    #[test]
    fn load_makes_it_sag_and_rest_lets_it_recover() {
        let (p, mut b) = lipo();
        assert_eq!(b.voltage_v, 4.2);
        for _ in 0..24 {
            b.step(&p, &[14_468.0; 4]);
        }
        // Hover takes about 1.9 A, which is 0.37 V at 0.2 Ω.
        assert!((1.5..2.5).contains(&b.current_a), "{b:?}");
        assert!((3.7..3.95).contains(&b.voltage_v), "{b:?}");
        for _ in 0..24 {
            b.step(&p, &[0.0; 4]);
        }
        assert!(b.voltage_v > 4.15, "{b:?}");
    }

    #[test]
    fn a_hovering_drone_empties_it_in_minutes() {
        let (p, mut b) = lipo();
        let mut minutes = 0.0;
        while b.charge > 0.0 {
            b.step(&p, &[14_468.0; 4]);
            minutes += 1.0 / (240.0 * 60.0);
        }
        assert!((5.0..10.0).contains(&minutes), "{minutes}");
        for _ in 0..1000 {
            b.step(&p, &[22_000.0; 4]);
        }
        assert!(b.charge == 0.0 && b.voltage_v >= LOWEST_V, "{b:?}");
    }

    #[test]
    fn open_circuit_voltage_goes_through_its_points() {
        let (p, _) = lipo();
        for (i, v) in p.open_circuit_v.into_iter().enumerate() {
            assert!((p.open_circuit(i as f32 / 10.0) - v).abs() < 1e-5);
        }
    }
}
