//! Random gaps: worlds that a real drone might turn out to be.

mod outside;

use steady_common::math;

use crate::motors::MAX_MOTOR_THRUST_N;
use crate::rng::Rng;
use crate::world::{BatteryModel, RotorDrag, World};

/// Keeps the sampler's numbers apart from every drone's.
const STREAM: u64 = 0x5741_4d50;

impl World {
    /// A random world, the same for the same seed. Always valid.
    ///
    /// Everything that the paper's gap has is drawn from a range about it: up to 10 g more, one to
    /// four motors at 75–100 %, a displaced centre of mass, lags, drag, sensing, network, battery.
    #[must_use]
    pub fn sample(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, STREAM);
        let mut world = Self {
            name: format!("sample-{seed}"),
            summary: format!("random gap number {seed}"),
            ..Self::default()
        };
        body(&mut world, rng);
        motors(&mut world, rng);
        sensing(&mut world, rng);
        let a = &mut world.aero;
        a.rotor_drag = RotorDrag::Body;
        a.ground_effect = true;
        let drag = rng.between(0.3, 3.0);
        a.drag_xy_n_s2_per_m *= drag;
        a.drag_z_n_s2_per_m *= drag;
        a.ground_effect_coefficient *= rng.between(0.5, 1.5);
        let b = &mut world.battery;
        b.model = BatteryModel::Lipo;
        b.initial_charge = rng.between(0.5, 1.0);
        b.resistance_ohm = rng.between(0.1, 0.3);
        b.capacity_ah = rng.between(0.2, 0.25);
        world
    }
}

/// Largest command of a motor in hover, part of the full one, among measured drones.
const MAX_HOVER_COMMAND: f32 = 0.9;
/// Keeps the measured sampler's numbers apart from the other's.
const MEASURED_STREAM: u64 = 0x4d45_4153;

impl World {
    /// A random Crazyflie 2.1 as real ones differ, the same for the same seed. Always valid.
    ///
    /// World `real`, with the spread between the drones whose flights it is from, and what those flights cannot
    /// tell. Sensing, network and the battery's charge are drawn as in [`World::sample`].
    #[must_use]
    pub fn sample_measured(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, MEASURED_STREAM);
        // A shipped world is valid.
        let real = Self::named("real").unwrap_or_default();
        loop {
            let world = measured(&real, seed, rng);
            // Those that are too weak to fly are not among the drones that were measured, and no body's moment of inertia
            // is more than the other two together.
            if weakest_hover_command(&world) < MAX_HOVER_COMMAND && world.check().is_ok() {
                return world;
            }
        }
    }
}

/// One draw of [`World::sample_measured`].
fn measured(real: &World, seed: u64, rng: &mut Rng) -> World {
    let mut world = World {
        name: format!("measured-{seed}"),
        summary: format!("random Crazyflie 2.1 number {seed}, as recorded flights say that they differ"),
        ..real.clone()
    };
    let normal = |rng: &mut Rng, std: f32| std * math::clamp(rng.normal(), -2.5, 2.5);
    let factor = |rng: &mut Rng, std: f32| libm::expf(normal(rng, std));
    let m = &mut world.motors;
    let common = factor(rng, 0.03);
    m.effectiveness.iter_mut().for_each(|e| *e *= common * factor(rng, 0.1));
    m.thrust_slope_per_v += normal(rng, 0.1);
    m.torque_nm_per_rpm2 *= factor(rng, 0.1);
    let lag = factor(rng, 0.1);
    m.tau_rise_s *= lag;
    m.tau_fall_s *= lag * factor(rng, 0.05);
    m.command_delay_s = math::clamp(m.command_delay_s + normal(rng, 0.002), 0.0, 0.03);
    let b = &mut world.body;
    let [x, y, z] = b.inertia_kg_m2;
    let (frame_xy, frame_z) = (factor(rng, 0.08), factor(rng, 0.06));
    b.inertia_kg_m2 = [x * frame_xy, y * frame_xy, z * frame_z];
    b.torque_trim_nm = [normal(rng, 2e-4), normal(rng, 2e-4), normal(rng, 2e-5)];
    let a = &mut world.aero;
    a.drag_xy_n_s2_per_m *= factor(rng, 0.1);
    a.drag_z_n_s2_per_m *= factor(rng, 0.3);
    a.speed_moment_n_s.iter_mut().for_each(|moment| *moment *= factor(rng, 0.12));
    let damping = factor(rng, 0.3);
    a.rate_damping_nm_s.iter_mut().for_each(|moment| *moment *= damping * factor(rng, 0.1));
    a.ground_effect_coefficient *= rng.between(0.5, 1.5);
    let b = &mut world.battery;
    // From a charger, and with 0.45 to 0.98 V of sag in hover.
    b.initial_charge = rng.between(0.8, 1.0);
    b.resistance_ohm = rng.between(0.2, 0.42);
    b.capacity_ah = rng.between(0.2, 0.25);
    sensing(&mut world, rng);
    world
}

/// Part of its full command that the weakest motor needs in hover.
fn weakest_hover_command(world: &World) -> f32 {
    /// About what a Crazyflie draws in hover.
    const HOVER_CURRENT_A: f32 = 2.3;
    let (m, b) = (&world.motors, &world.battery);
    let cell = (b.initial_charge * 10.0) as usize;
    let loaded_v = b.open_circuit_v[cell.min(10)] - b.resistance_ohm * HOVER_CURRENT_A;
    let left = 1.0 + m.thrust_slope_per_v * (loaded_v - m.thrust_reference_v);
    let weakest = m.effectiveness.iter().fold(f32::INFINITY, |weakest, e| weakest.min(e * left));
    0.25 * world.body.mass_kg * world.physics.gravity_m_s2 / (MAX_MOTOR_THRUST_N * weakest)
}

fn body(world: &mut World, rng: &mut Rng) {
    let b = &mut world.body;
    let added_kg = rng.between(0.0, 0.010);
    b.mass_kg += added_kg;
    // The load is a plate of 28 mm somewhere up to 15 mm from the centre, and the frame's own
    // moments of inertia are known to 10 %.
    let height_m = rng.between(0.005, 0.015);
    let (frame_xy, frame_z) = (rng.between(0.9, 1.1), rng.between(0.9, 1.1));
    let plate_m2 = 0.028 * 0.028;
    let [x, y, z] = b.inertia_kg_m2;
    let tilt = added_kg * (plate_m2 / 12.0 + height_m * height_m);
    b.inertia_kg_m2 = [x * frame_xy + tilt, y * frame_xy + tilt, z * frame_z + added_kg * plate_m2 / 6.0];
    b.centre_of_mass_offset_m = [rng.between(-0.001, 0.001), rng.between(-0.001, 0.001)];
}

fn motors(world: &mut World, rng: &mut Rng) {
    let m = &mut world.motors;
    let always = (rng.next_u32() % 4) as usize;
    for (i, effectiveness) in m.effectiveness.iter_mut().enumerate() {
        let drawn = rng.between(0.75, 1.0);
        if i == always || rng.chance(0.25) {
            *effectiveness = drawn;
        }
    }
    m.tau_rise_s = rng.between(0.01, 0.06);
    m.tau_fall_s = m.tau_rise_s * rng.between(1.0, 2.0);
}

fn sensing(world: &mut World, rng: &mut Rng) {
    let i = &mut world.imu;
    i.accelerometer_noise_std_m_s2 = rng.between(0.05, 0.5);
    i.accelerometer_bias_std_m_s2 = rng.between(0.0, 0.1);
    i.gyro_noise_std_rad_s = rng.between(0.005, 0.03);
    i.gyro_bias_std_rad_s = rng.between(0.0, 0.01);
    i.gyro_walk_std_rad_s = rng.between(0.0, 0.001);
    let m = &mut world.mocap;
    m.noise_std_m = rng.between(0.0, 0.004);
    m.latency_s = rng.between(0.0, 0.015);
    m.dropouts_per_s = rng.between(0.0, 0.3);
    m.dropout_mean_s = rng.between(0.02, 0.2);
    let r = &mut world.radio;
    r.latency_s = rng.between(0.001, 0.008);
    r.jitter_mean_s = rng.between(0.0, 0.008);
    r.loss_probability = rng.between(0.0, 0.1);
}
