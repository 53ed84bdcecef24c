//! Random worlds outside what a simulator can be fitted to.

use steady_common::math;

use crate::battery::BatteryParams;
use crate::motors::{MAX_MOTOR_THRUST_N, MotorParams};
use crate::rng::Rng;
use crate::world::{Jet, RotorDrag, World};

/// Keeps this sampler's numbers apart from the others'.
const STREAM: u64 = 0x4f55_5453;
/// Hover takes at most this part of what the weakest motor can give: the rest is left to fly with.
const MAX_HOVER_SHARE: f32 = 0.88;
/// About what a Crazyflie draws in hover, A.
const HOVER_CURRENT_A: f32 = 2.5;
/// About what a flight takes from the battery, Ah.
const FLIGHT_AH: f32 = 0.016;

/// What a fitted world has no parameter for.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Wind,
    Jets,
    Delay,
    Heat,
    Battery,
    Payload,
    ThrustCurve,
}

const EFFECTS: [Effect; 7] = [
    Effect::Wind,
    Effect::Jets,
    Effect::Delay,
    Effect::Heat,
    Effect::Battery,
    Effect::Payload,
    Effect::ThrustCurve,
];

impl World {
    /// A random world to judge learners in that fit a simulator to flights, the same for the same seed. Always valid.
    ///
    /// World `paper` or a drone of [`World::sample_measured`], with one or two of wind, jets of air, delays, a motor
    /// that heats up, a nearly empty battery, a payload off centre, and another thrust curve.
    #[must_use]
    pub fn sample_outside(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, STREAM);
        let is_measured = rng.chance(0.5);
        loop {
            let world = draw(seed, is_measured, rng);
            if hover_share(&world) < MAX_HOVER_SHARE {
                return world;
            }
        }
    }
}

/// One draw of [`World::sample_outside`].
fn draw(seed: u64, is_measured: bool, rng: &mut Rng) -> World {
    let base = if is_measured {
        World::sample_measured(u64::from(rng.next_u32()))
    } else {
        // A shipped world is valid.
        World::named("paper").unwrap_or_default()
    };
    let first = below(EFFECTS.len(), rng);
    let mut effects = vec![EFFECTS[first]];
    if rng.chance(0.5) {
        let second = first + 1 + below(EFFECTS.len() - 1, rng);
        effects.push(EFFECTS[second % EFFECTS.len()]);
    }
    let names: Vec<&str> = effects.iter().map(|effect| effect.name()).collect();
    let mut world = World {
        name: format!("outside-{seed}"),
        summary: format!("{} with {}", base.name, names.join(" and ")),
        provenance: "assumed: effects of a random size".to_owned(),
        ..base
    };
    effects.iter().for_each(|effect| effect.apply(&mut world, rng));
    world
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Self::Wind => "wind",
            Self::Jets => "jets of air",
            Self::Delay => "delays",
            Self::Heat => "a motor that heats up",
            Self::Battery => "a nearly empty battery",
            Self::Payload => "a payload off centre",
            Self::ThrustCurve => "another thrust curve",
        }
    }

    /// Puts the effect into a world, of a random size: about that of the shipped world that has it.
    fn apply(self, world: &mut World, rng: &mut Rng) {
        match self {
            Self::Wind => wind(world, rng),
            Self::Jets => {
                let count = 1 + below(2, rng);
                world.wind.jets = (0..count).map(|_| jet(rng)).collect();
            }
            Self::Delay => {
                world.mocap.latency_s = rng.between(0.02, 0.05);
                // Without damping of its rates a drone swings up with less.
                let is_damped = world.aero.rate_damping_nm_s != [0.0; 3];
                world.motors.command_delay_s += rng.between(0.0, if is_damped { 0.003 } else { 0.001 });
            }
            Self::Heat => {
                world.motors.heat_loss[below(4, rng)] = rng.between(0.05, 0.2);
                world.motors.heat_tau_s = rng.between(3.0, 15.0);
            }
            Self::Battery => world.battery.initial_charge = rng.between(0.15, 0.3),
            Self::Payload => payload(world, rng),
            Self::ThrustCurve => world.motors.thrust_exponent = rng.between(1.1, 1.4),
        }
    }
}

/// Uniform among the numbers below `count`.
fn below(count: usize, rng: &mut Rng) -> usize {
    rng.next_u32() as usize % count
}

fn wind(world: &mut World, rng: &mut Rng) {
    let (sin, cos) = math::sin_cos(rng.between(0.0, math::TAU));
    let speed_m_s = rng.between(0.5, 1.5);
    let w = &mut world.wind;
    w.velocity_m_s = [speed_m_s * cos, speed_m_s * sin, 0.0];
    if rng.chance(0.5) {
        w.gust_std_m_s = speed_m_s * rng.between(0.1, 0.5);
        w.gust_tau_s = rng.between(0.3, 3.0);
    }
    world.aero.rotor_drag = RotorDrag::Body;
    world.aero.drag_xy_n_s2_per_m = rng.between(2.0e-6, 4.0e-6);
}

/// A jet somewhere at the figure eight.
fn jet(rng: &mut Rng) -> Jet {
    let direction = rng.normal_vec();
    // A normal vector of length zero does not happen, and would be no jet.
    let unit = direction * (1.0 / (direction.norm() + 1e-6));
    let force = unit * rng.between(0.03, 0.08);
    Jet {
        centre_m: [rng.between(-1.0, 1.0), rng.between(-0.5, 0.5), rng.between(0.8, 1.2)],
        radius_m: rng.between(0.15, 0.4),
        force_n: [force.x, force.y, force.z],
    }
}

fn payload(world: &mut World, rng: &mut Rng) {
    let b = &mut world.body;
    let added_kg = rng.between(0.001, 0.003);
    let (x_m, y_m) = (rng.between(-0.02, 0.02), rng.between(-0.02, 0.02));
    let part = added_kg / (b.mass_kg + added_kg);
    // About the common centre of mass, with the reduced mass.
    let reduced_kg = b.mass_kg * part;
    let [xx, yy, zz] = [y_m * y_m, x_m * x_m, x_m * x_m + y_m * y_m].map(|m2| reduced_kg * m2);
    let [x, y, z] = b.inertia_kg_m2;
    b.inertia_kg_m2 = [x + xx, y + yy, z + zz];
    b.centre_of_mass_offset_m = [x_m * part, y_m * part];
    b.mass_kg += added_kg;
}

/// Part of what the motor nearest to its limit can give that hover takes at the end of a flight.
fn hover_share(world: &World) -> f32 {
    let (b, m) = (&world.battery, &world.motors);
    let left = (b.initial_charge - FLIGHT_AH / b.capacity_ah).max(0.0);
    let motors = MotorParams::new(m, 1.0);
    let loaded_v = BatteryParams::new(b, m, 1.0).open_circuit(left) - b.resistance_ohm * HOVER_CURRENT_A;
    let limit_n =
        motors.thrust_at_voltage(loaded_v).min(MAX_MOTOR_THRUST_N) * motors.thrust_at_battery(loaded_v);
    let [x, y] = world.body.centre_of_mass_offset_m.map(|offset| offset / world.body.rotor_offset_m);
    let weight_n = world.body.mass_kg * world.physics.gravity_m_s2;
    // Front right, back right, back left, front left.
    [x - y, -x - y, y - x, x + y]
        .into_iter()
        .zip(m.effectiveness.into_iter().zip(m.heat_loss))
        .map(|(towards, (effectiveness, loss))| {
            0.25 * weight_n * (1.0 + towards) / (limit_n * effectiveness * (1.0 - loss))
        })
        .fold(0.0, f32::max)
}
