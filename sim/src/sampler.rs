//! Random gaps: worlds that a real drone might turn out to be.

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
