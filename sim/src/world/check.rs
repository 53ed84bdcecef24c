//! The range of every value. A test makes sure that no number of a world escapes this file.

use super::error::Problem;
use super::sections::{Aero, Battery, Body, Imu, Mocap, Motors, Physics, Radio, RotorDrag, Wind};
use super::{World, WorldError};

/// Jets of air in a world.
const MAX_JETS: usize = 2;

/// Collects what is wrong, section by section.
#[derive(Default)]
struct Check {
    section: &'static str,
    problems: Vec<Problem>,
}

impl Check {
    fn section(&mut self, section: &'static str) -> &mut Self {
        self.section = section;
        self
    }

    fn report(&mut self, field: &str, value: impl ToString, allowed: String) {
        let field = format!("{}.{field}", self.section);
        self.problems.push(Problem { field, value: value.to_string(), allowed });
    }

    /// `value` is a number in [low, high].
    fn within(&mut self, field: &str, value: f32, low: f32, high: f32) {
        if !(low..=high).contains(&value) {
            self.report(field, value, format!("from {low} to {high}"));
        }
    }

    /// Every element is a number in [low, high].
    fn all_within(&mut self, field: &str, values: &[f32], low: f32, high: f32) {
        for (i, &value) in values.iter().enumerate() {
            self.within(&format!("{field}[{i}]"), value, low, high);
        }
    }

    fn probability(&mut self, field: &str, value: f32) {
        self.within(field, value, 0.0, 1.0);
    }
}

/// Everything that is wrong with a world's values, or nothing.
pub(super) fn check(world: &World, origin: &str) -> Result<(), WorldError> {
    let mut c = Check::default();
    body(&world.body, c.section("body"));
    motors(&world.motors, c.section("motors"));
    aero(&world.aero, c.section("aero"));
    wind(&world.wind, &world.aero, c.section("wind"));
    battery(&world.battery, c.section("battery"));
    physics(&world.physics, c.section("physics"));
    imu(&world.imu, c.section("imu"));
    mocap(&world.mocap, world.physics.rate_hz, c.section("mocap"));
    radio(&world.radio, c.section("radio"));
    if c.problems.is_empty() {
        return Ok(());
    }
    Err(WorldError::Values { origin: origin.to_owned(), problems: c.problems })
}

fn body(b: &Body, c: &mut Check) {
    c.within("mass_kg", b.mass_kg, 0.005, 5.0);
    c.all_within("inertia_kg_m2", &b.inertia_kg_m2, 1e-7, 1.0);
    let [x, y, z] = b.inertia_kg_m2;
    // No body has a moment of inertia above the sum of the other two.
    if x > y + z || y > x + z || z > x + y {
        c.report(
            "inertia_kg_m2",
            format!("[{x}, {y}, {z}]"),
            "each at most the sum of the other two".to_owned(),
        );
    }
    c.within("rotor_offset_m", b.rotor_offset_m, 0.005, 1.0);
    c.all_within("centre_of_mass_offset_m", &b.centre_of_mass_offset_m, -0.1, 0.1);
    c.all_within("torque_trim_nm", &b.torque_trim_nm, -0.05, 0.05);
    c.within("rest_height_m", b.rest_height_m, 0.001, 0.5);
    c.within("contact_radius_m", b.contact_radius_m, 0.005, 1.0);
}

fn motors(m: &Motors, c: &mut Check) {
    c.within("thrust_n_per_rpm2", m.thrust_n_per_rpm2, 1e-12, 1e-6);
    c.within("torque_nm_per_rpm2", m.torque_nm_per_rpm2, 0.0, 1e-7);
    c.within("thrust_limit_n", m.thrust_limit_n, 0.01, 20.0);
    c.all_within("effectiveness", &m.effectiveness, 0.0, 1.5);
    c.within("tau_rise_s", m.tau_rise_s, 0.0, 2.0);
    c.within("tau_fall_s", m.tau_fall_s, 0.0, 2.0);
    c.all_within("lag_factor", &m.lag_factor, 0.1, 10.0);
    c.within("command_delay_s", m.command_delay_s, 0.0, 0.2);
    c.within("thrust_exponent", m.thrust_exponent, 0.5, 3.0);
    c.all_within("heat_loss", &m.heat_loss, 0.0, 0.9);
    c.within("heat_tau_s", m.heat_tau_s, 0.1, 1000.0);
    c.all_within("thrust_curve_n", &m.thrust_curve_n, -10.0, 10.0);
    c.within("thrust_slope_per_v", m.thrust_slope_per_v, -1.0, 1.0);
    c.within("thrust_reference_v", m.thrust_reference_v, 2.0, 5.0);
    c.within("full_thrust_power_w", m.full_thrust_power_w, 0.0, 100.0);
}

fn aero(a: &Aero, c: &mut Check) {
    c.within("drag_xy_n_s2_per_m", a.drag_xy_n_s2_per_m, 0.0, 1e-4);
    c.within("drag_z_n_s2_per_m", a.drag_z_n_s2_per_m, 0.0, 1e-4);
    c.all_within("speed_moment_n_s", &a.speed_moment_n_s, -0.05, 0.05);
    c.all_within("rate_damping_nm_s", &a.rate_damping_nm_s, 0.0, 0.05);
    c.within("ground_effect_coefficient", a.ground_effect_coefficient, 0.0, 100.0);
    c.within("propeller_radius_m", a.propeller_radius_m, 0.005, 0.5);
    c.within("downwash_n", a.downwash_n, 0.0, 1e5);
    c.within("downwash_spread", a.downwash_spread, 0.01, 10.0);
    c.within("downwash_width_m", a.downwash_width_m, -1.0, 1.0);
}

fn wind(w: &Wind, a: &Aero, c: &mut Check) {
    c.all_within("velocity_m_s", &w.velocity_m_s, -20.0, 20.0);
    c.within("gust_std_m_s", w.gust_std_m_s, 0.0, 10.0);
    c.within("gust_tau_s", w.gust_tau_s, 0.01, 100.0);
    if a.rotor_drag == RotorDrag::Off && a.speed_moment_n_s == [0.0; 2] {
        // Such a drone does not feel the air's velocity.
        let allowed = || "0 without aero.rotor_drag and aero.speed_moment_n_s".to_owned();
        if w.velocity_m_s != [0.0; 3] {
            c.report("velocity_m_s", format!("{:?}", w.velocity_m_s), allowed());
        }
        if w.gust_std_m_s > 0.0 {
            c.report("gust_std_m_s", w.gust_std_m_s, allowed());
        }
    }
    if w.jets.len() > MAX_JETS {
        c.report("jets", format!("{} of them", w.jets.len()), format!("at most {MAX_JETS}"));
    }
    for (i, jet) in w.jets.iter().enumerate() {
        c.all_within(&format!("jets[{i}].centre_m"), &jet.centre_m, -100.0, 100.0);
        c.within(&format!("jets[{i}].radius_m"), jet.radius_m, 0.01, 10.0);
        c.all_within(&format!("jets[{i}].force_n"), &jet.force_n, -5.0, 5.0);
    }
}

fn battery(b: &Battery, c: &mut Check) {
    c.within("capacity_ah", b.capacity_ah, 0.001, 100.0);
    c.probability("initial_charge", b.initial_charge);
    c.within("resistance_ohm", b.resistance_ohm, 0.0, 2.0);
    c.all_within("open_circuit_v", &b.open_circuit_v, 2.0, 5.0);
    if b.open_circuit_v.windows(2).any(|w| matches!(w, [low, high] if low > high)) {
        c.report("open_circuit_v", format!("{:?}", b.open_circuit_v), "rising with the charge".to_owned());
    }
    c.within("idle_current_a", b.idle_current_a, 0.0, 10.0);
}

fn physics(p: &Physics, c: &mut Check) {
    c.within("gravity_m_s2", p.gravity_m_s2, 0.0, 30.0);
    c.within("rate_hz", p.rate_hz, 50.0, 20_000.0);
    c.within("linear_damping_per_s", p.linear_damping_per_s, 0.0, 1.0);
    c.within("angular_damping_per_s", p.angular_damping_per_s, 0.0, 1.0);
    c.within("friction_coefficient", p.friction_coefficient, 0.0, 5.0);
}

fn imu(i: &Imu, c: &mut Check) {
    c.within("accelerometer_noise_std_m_s2", i.accelerometer_noise_std_m_s2, 0.0, 50.0);
    c.within("accelerometer_bias_std_m_s2", i.accelerometer_bias_std_m_s2, 0.0, 10.0);
    c.within("accelerometer_walk_std_m_s2", i.accelerometer_walk_std_m_s2, 0.0, 10.0);
    c.within("gyro_noise_std_rad_s", i.gyro_noise_std_rad_s, 0.0, 10.0);
    c.within("gyro_bias_std_rad_s", i.gyro_bias_std_rad_s, 0.0, 2.0);
    c.within("gyro_walk_std_rad_s", i.gyro_walk_std_rad_s, 0.0, 2.0);
}

fn mocap(m: &Mocap, physics_rate_hz: f32, c: &mut Check) {
    c.within("rate_hz", m.rate_hz, 0.1, 20_000.0);
    if m.rate_hz > physics_rate_hz {
        c.report("rate_hz", m.rate_hz, format!("at most physics.rate_hz = {physics_rate_hz}"));
    }
    c.within("noise_std_m", m.noise_std_m, 0.0, 1.0);
    c.within("attitude_noise_std_rad", m.attitude_noise_std_rad, 0.0, 1.0);
    c.within("latency_s", m.latency_s, 0.0, 0.5);
    c.within("dropouts_per_s", m.dropouts_per_s, 0.0, 1000.0);
    c.within("dropout_mean_s", m.dropout_mean_s, 0.0, 60.0);
}

fn radio(r: &Radio, c: &mut Check) {
    c.within("latency_s", r.latency_s, 0.0, 0.5);
    c.within("jitter_mean_s", r.jitter_mean_s, 0.0, 0.5);
    c.probability("loss_probability", r.loss_probability);
}
