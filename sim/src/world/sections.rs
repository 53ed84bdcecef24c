//! The sections of a world file. Units are in the names; every default is the nominal world's,
//! which is gym-pybullet-drones' CF2X with PyBullet physics and perfect sensing.

use serde::{Deserialize, Serialize};

/// The rigid body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Body {
    /// Mass of everything that flies.
    pub mass_kg: f32,
    /// Moments of inertia about body x, y, z.
    pub inertia_kg_m2: [f32; 3],
    /// Distance of every rotor from the centre along x and along y.
    pub rotor_offset_m: f32,
    /// Where the centre of mass sits relative to the rotors' centre, body x and y.
    pub centre_of_mass_offset_m: [f32; 2],
    /// A torque that always acts, body x, y, z: bent arms, propellers that differ.
    pub torque_trim_nm: [f32; 3],
    /// Height of the body's centre when it stands on the floor.
    pub rest_height_m: f32,
    /// Horizontal distance of the feet from the centre.
    pub contact_radius_m: f32,
}

impl Default for Body {
    fn default() -> Self {
        Self {
            mass_kg: 0.027,
            inertia_kg_m2: [1.4e-5, 1.4e-5, 2.17e-5],
            rotor_offset_m: 0.028,
            centre_of_mass_offset_m: [0.0; 2],
            torque_trim_nm: [0.0; 3],
            rest_height_m: 0.0125,
            contact_radius_m: 0.06,
        }
    }
}

/// Motors and propellers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Motors {
    /// Thrust of a rotor over its squared speed.
    pub thrust_n_per_rpm2: f32,
    /// Yaw torque of a rotor over its squared speed.
    pub torque_nm_per_rpm2: f32,
    /// What a rotor can push at most, whatever the voltage.
    pub thrust_limit_n: f32,
    /// Part of the commanded thrust that M1..M4 really give.
    pub effectiveness: [f32; 4],
    /// Time constant of a rotor that speeds up; 0 is instantaneous.
    pub tau_rise_s: f32,
    /// Time constant of a rotor that slows down; 0 is instantaneous.
    pub tau_fall_s: f32,
    /// Time constants of M1..M4 over these two.
    pub lag_factor: [f32; 4],
    /// Time from a command until the motors see it.
    pub command_delay_s: f32,
    /// Thrust goes with the commanded thrust to this power; half of the full command gives what it asks for.
    pub thrust_exponent: f32,
    /// Part of their thrust that M1..M4 lose in the end as they heat up.
    pub heat_loss: [f32; 4],
    /// Time constant of that loss, from when a motor begins to turn.
    pub heat_tau_s: f32,
    /// Thrust in N from the motor's voltage v: c0 + c1 v + c2 v² + c3 v³ (the Crazyflie 2.1+'s).
    pub thrust_curve_n: [f32; 4],
    /// Part of its thrust that a motor gains for every volt of the battery above `thrust_reference_v`, beyond the curve.
    pub thrust_slope_per_v: f32,
    /// Battery voltage at which the curve is right.
    pub thrust_reference_v: f32,
    /// Electrical power of one motor at the full command of 0.12 N; grows as thrust to the 1.5.
    pub full_thrust_power_w: f32,
}

impl Default for Motors {
    fn default() -> Self {
        Self {
            thrust_n_per_rpm2: 3.16e-10,
            torque_nm_per_rpm2: 7.94e-12,
            // A thrust-to-weight ratio of 2.25.
            thrust_limit_n: 0.148_837_5,
            effectiveness: [1.0; 4],
            tau_rise_s: 0.02,
            tau_fall_s: 0.02,
            lag_factor: [1.0; 4],
            command_delay_s: 0.0,
            thrust_exponent: 1.0,
            heat_loss: [0.0; 4],
            heat_tau_s: 10.0,
            thrust_curve_n: [-0.024_765_38, 0.065_237_93, -0.026_792_505, 0.006_776_789],
            thrust_slope_per_v: 0.0,
            thrust_reference_v: 3.7,
            full_thrust_power_w: 4.2,
        }
    }
}

/// How the turning rotors resist motion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RotorDrag {
    /// Not at all.
    #[default]
    Off,
    /// Against the velocity in the body frame, as air does.
    Body,
    /// Exactly as gym-pybullet-drones does: the world-frame force turned twice by the attitude.
    GymPybulletDrones,
}

/// What the air does beyond thrust.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Aero {
    /// Drag of the turning rotors.
    pub rotor_drag: RotorDrag,
    /// Rotor drag over speed and summed rotor speed, x and y.
    pub drag_xy_n_s2_per_m: f32,
    /// Rotor drag over speed and summed rotor speed, z.
    pub drag_z_n_s2_per_m: f32,
    /// Moment that tips the drone away from its velocity through the air, over the velocity: about body x from that
    /// along y, about y from that along x. Blades flap, and drag acts above the centre of mass.
    pub speed_moment_n_s: [f32; 2],
    /// Moment against the body's rates over the rates, body x, y, z.
    pub rate_damping_nm_s: [f32; 3],
    /// More thrust near the floor.
    pub ground_effect: bool,
    /// Strength of the ground effect.
    pub ground_effect_coefficient: f32,
    /// Propeller radius.
    pub propeller_radius_m: f32,
    /// Drones push those below them (only in an airspace of several).
    pub downwash: bool,
    /// Strength of the downwash.
    pub downwash_n: f32,
    /// Widening of the downwash with the distance below.
    pub downwash_spread: f32,
    /// Width of the downwash at no distance.
    pub downwash_width_m: f32,
}

impl Default for Aero {
    fn default() -> Self {
        Self {
            rotor_drag: RotorDrag::Off,
            drag_xy_n_s2_per_m: 9.1785e-7,
            drag_z_n_s2_per_m: 10.311e-7,
            speed_moment_n_s: [0.0; 2],
            rate_damping_nm_s: [0.0; 3],
            ground_effect: false,
            ground_effect_coefficient: 11.36859,
            propeller_radius_m: 0.023_134_8,
            downwash: true,
            downwash_n: 2267.18,
            downwash_spread: 0.16,
            downwash_width_m: -0.11,
        }
    }
}

/// How the air itself moves. Rotor drag and the moment from speed go with the velocity relative to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wind {
    /// Mean velocity of the air, world frame.
    pub velocity_m_s: [f32; 3],
    /// Spread of the gusts about the mean, each axis: a first-order Gauss–Markov process, every drone's its own.
    pub gust_std_m_s: f32,
    /// Correlation time of the gusts.
    pub gust_tau_s: f32,
    /// Jets of air, two at most.
    pub jets: Vec<Jet>,
}

impl Default for Wind {
    fn default() -> Self {
        Self { velocity_m_s: [0.0; 3], gust_std_m_s: 0.0, gust_tau_s: 1.0, jets: Vec::new() }
    }
}

/// A jet of air: it pushes at its centre, and falls off as a Gaussian on all sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jet {
    /// Its centre, world frame.
    pub centre_m: [f32; 3],
    /// Distance from the centre at which the push is down to exp(-1/2), 61 %.
    pub radius_m: f32,
    /// Push on a drone at the centre, world frame.
    pub force_n: [f32; 3],
}

impl Default for Jet {
    fn default() -> Self {
        Self { centre_m: [0.0, 0.0, 1.0], radius_m: 0.25, force_n: [0.0; 3] }
    }
}

/// How the battery behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatteryModel {
    /// A constant voltage that never limits the motors.
    #[default]
    Ideal,
    /// Charge, internal resistance, and motors limited by the voltage that is left.
    Lipo,
}

/// The battery: one lithium-polymer cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Battery {
    /// How the battery behaves.
    pub model: BatteryModel,
    /// Charge that it holds when full.
    pub capacity_ah: f32,
    /// Part of the capacity at the start.
    pub initial_charge: f32,
    /// Resistance of cell, wires and connector.
    pub resistance_ohm: f32,
    /// Voltage without load at 0, 10, … 100 % charge.
    pub open_circuit_v: [f32; 11],
    /// Current of everything but the motors.
    pub idle_current_a: f32,
}

impl Default for Battery {
    fn default() -> Self {
        Self {
            model: BatteryModel::Ideal,
            capacity_ah: 0.25,
            initial_charge: 1.0,
            resistance_ohm: 0.2,
            open_circuit_v: [3.3, 3.69, 3.73, 3.77, 3.8, 3.84, 3.87, 3.95, 4.02, 4.11, 4.2],
            idle_current_a: 0.15,
        }
    }
}

/// How the equations of motion are integrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Integrator {
    /// Velocities first, then positions with the new velocities.
    #[default]
    SemiImplicit,
    /// Exactly what PyBullet makes of gym-pybullet-drones: semi-implicit, and the rotors push in
    /// the frame of the step before (Bullet turns link-frame forces by the links' last attitude).
    Bullet,
    /// Classical Runge–Kutta of fourth order.
    Rk4,
}

/// Gravity, time step, integrator, damping and the floor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Physics {
    /// Gravity.
    pub gravity_m_s2: f32,
    /// Physics steps in a second.
    pub rate_hz: f32,
    /// How the equations of motion are integrated.
    pub integrator: Integrator,
    /// Bullet's damping: deceleration is this times v (1 + |v|).
    pub linear_damping_per_s: f32,
    /// Bullet's damping: angular deceleration is this times ω (1 + |ω|).
    pub angular_damping_per_s: f32,
    /// Coulomb friction between feet and floor.
    pub friction_coefficient: f32,
}

impl Default for Physics {
    fn default() -> Self {
        Self {
            gravity_m_s2: 9.8,
            rate_hz: 240.0,
            integrator: Integrator::SemiImplicit,
            linear_damping_per_s: 0.04,
            angular_damping_per_s: 0.04,
            friction_coefficient: 0.5,
        }
    }
}

/// Accelerometer and gyroscope. Noise is per sample; biases are drawn anew in every episode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Imu {
    /// White noise of the accelerometer.
    pub accelerometer_noise_std_m_s2: f32,
    /// Spread of the accelerometer's constant bias.
    pub accelerometer_bias_std_m_s2: f32,
    /// Random walk of the accelerometer's bias in one second.
    pub accelerometer_walk_std_m_s2: f32,
    /// White noise of the gyroscope.
    pub gyro_noise_std_rad_s: f32,
    /// Spread of the gyroscope's constant bias.
    pub gyro_bias_std_rad_s: f32,
    /// Random walk of the gyroscope's bias in one second.
    pub gyro_walk_std_rad_s: f32,
}

/// Motion capture: cameras and their computer, up to the radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mocap {
    /// Frames in a second; not more than physics steps.
    pub rate_hz: f32,
    /// White noise of the position, each axis.
    pub noise_std_m: f32,
    /// Whether frames carry the attitude too.
    pub pose: bool,
    /// White noise of the attitude, each axis.
    pub attitude_noise_std_rad: f32,
    /// Time from exposure until the position is known to the computer.
    pub latency_s: f32,
    /// How often the drone is lost for a while.
    pub dropouts_per_s: f32,
    /// How long it is lost on average.
    pub dropout_mean_s: f32,
}

impl Default for Mocap {
    fn default() -> Self {
        Self {
            rate_hz: 100.0,
            noise_std_m: 0.0,
            pose: false,
            attitude_noise_std_rad: 0.0,
            latency_s: 0.0,
            dropouts_per_s: 0.0,
            dropout_mean_s: 0.1,
        }
    }
}

/// The way of a mocap frame from the computer to the drone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Radio {
    /// Shortest time on the way.
    pub latency_s: f32,
    /// Mean of the additional, exponentially distributed time on the way.
    pub jitter_mean_s: f32,
    /// Probability that a frame never arrives.
    pub loss_probability: f32,
}
