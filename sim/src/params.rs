//! The constants of a step: a checked world, prepared once so that stepping only multiplies.

use steady_common::{Vec3, math};

use crate::aero::AeroParams;
use crate::battery::BatteryParams;
use crate::contact::ContactParams;
use crate::mocap::MocapParams;
use crate::motors::MotorParams;
use crate::sensors::ImuParams;
use crate::wind::WindParams;
use crate::world::{BatteryModel, Integrator, World};

/// Rate at which the controllers run on the drone, Hz.
pub const CONTROL_HZ: f32 = 500.0;
/// Physics steps per control step in worlds compiled by [`World::compile_for_control`].
pub const STEPS_PER_CONTROL: usize = 2;

/// The constants of a step. Made by [`World::compile`], so it exists only for valid worlds.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Length of a physics step, s.
    pub dt_s: f32,
    /// Gravity, m/s².
    pub gravity_m_s2: f32,
    /// Mass, kg.
    pub mass_kg: f32,
    /// 1 / mass.
    pub(crate) inverse_mass: f32,
    /// Moments of inertia about body x, y, z, kg·m².
    pub(crate) inertia: Vec3,
    /// 1 / moments of inertia.
    pub(crate) inverse_inertia: Vec3,
    /// Distance of every rotor from the centre along x and along y, m.
    pub(crate) rotor_offset_m: f32,
    /// Centre of mass relative to the rotors' centre, body x and y, m.
    pub(crate) centre_of_mass_m: [f32; 2],
    /// Moments beyond the rotors'; `None` in worlds without any.
    pub(crate) moments: Option<Moments>,
    pub(crate) linear_damping_per_s: f32,
    pub(crate) angular_damping_per_s: f32,
    pub(crate) integrator: Integrator,
    pub(crate) motors: MotorParams,
    pub(crate) aero: AeroParams,
    /// `None` in still air.
    pub(crate) wind: Option<WindParams>,
    pub(crate) contact: ContactParams,
    /// `None` for an ideal battery.
    pub(crate) battery: Option<BatteryParams>,
    /// Voltage of a full battery without load, V.
    pub(crate) full_voltage_v: f32,
    /// `None` when no sensors are simulated.
    pub(crate) sensing: Option<SensingParams>,
}

/// Moments beyond the rotors'.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moments {
    trim_nm: Vec3,
    speed_n_s: [f32; 2],
    rate_nm_s: Vec3,
}

impl Moments {
    fn of(world: &World) -> Option<Self> {
        let moments = Self {
            trim_nm: Vec3::from(world.body.torque_trim_nm),
            speed_n_s: world.aero.speed_moment_n_s,
            rate_nm_s: Vec3::from(world.aero.rate_damping_nm_s),
        };
        let none = Self { trim_nm: Vec3::ZERO, speed_n_s: [0.0; 2], rate_nm_s: Vec3::ZERO };
        (moments != none).then_some(moments)
    }

    /// The moment on a drone with this velocity through the air and these rates, body frame, N·m.
    #[inline]
    pub(crate) fn at(&self, velocity_m_s: Vec3, rates: Vec3) -> Vec3 {
        let [about_x, about_y] = self.speed_n_s;
        let tipping = Vec3::new(about_x * velocity_m_s.y, -about_y * velocity_m_s.x, 0.0);
        self.trim_nm + tipping - rates.scale(self.rate_nm_s)
    }
}

/// Constants of the sensors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SensingParams {
    pub(crate) imu: ImuParams,
    pub(crate) mocap: MocapParams,
}

/// Part of a first-order lag's distance to its target that is left after `dt`; 0 without lag.
pub(crate) fn remaining(dt_s: f32, tau_s: f32) -> f32 {
    if tau_s > 0.0 { libm::expf(-dt_s / tau_s) } else { 0.0 }
}

impl Params {
    /// The constants of a world that passed its check.
    pub(crate) fn of_checked(world: &World) -> Self {
        let dt_s = 1.0 / world.physics.rate_hz;
        let body = &world.body;
        let inertia = Vec3::from(body.inertia_kg_m2);
        Self {
            dt_s,
            gravity_m_s2: world.physics.gravity_m_s2,
            mass_kg: body.mass_kg,
            inverse_mass: 1.0 / body.mass_kg,
            inertia,
            inverse_inertia: inertia.map(|i| 1.0 / i),
            rotor_offset_m: body.rotor_offset_m,
            centre_of_mass_m: body.centre_of_mass_offset_m,
            moments: Moments::of(world),
            linear_damping_per_s: world.physics.linear_damping_per_s,
            angular_damping_per_s: world.physics.angular_damping_per_s,
            integrator: world.physics.integrator,
            motors: MotorParams::new(&world.motors, dt_s),
            aero: AeroParams::new(&world.aero),
            wind: WindParams::of(&world.wind, dt_s),
            contact: ContactParams::new(body, world.physics.friction_coefficient),
            battery: (world.battery.model == BatteryModel::Lipo)
                .then(|| BatteryParams::new(&world.battery, &world.motors, dt_s)),
            full_voltage_v: world.battery.open_circuit_v[10],
            sensing: None,
        }
    }

    pub(crate) fn with_sensors(self, world: &World) -> Self {
        let sensing = SensingParams {
            imu: ImuParams::new(&world.imu, self.dt_s),
            mocap: MocapParams::new(&world.mocap, &world.radio, self.dt_s),
        };
        Self { sensing: Some(sensing), ..self }
    }

    /// Rotor speed at which four perfect rotors carry the weight, rpm.
    #[must_use]
    pub fn hover_rpm(&self) -> f32 {
        math::sqrt(0.25 * self.mass_kg * self.gravity_m_s2 * self.motors.inverse_thrust_coefficient)
    }

    /// Height of the body's centre when it stands on the floor, m.
    #[must_use]
    pub fn rest_height_m(&self) -> f32 {
        self.contact.rest_height_m
    }
}
