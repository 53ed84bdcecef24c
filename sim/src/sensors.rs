//! The drone's sensors: the inertial measurement unit (noise, bias and its walk) and motion capture.

use steady_common::{State, Vec3, math};

use crate::mocap::{Mocap, MocapSample};
use crate::params::{Params, SensingParams};
use crate::rng::Rng;
use crate::world::Imu as ImuConfig;

/// One reading of the inertial measurement unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImuSample {
    /// Specific force in the body frame, m/s²: about (0, 0, g) at rest.
    pub accelerometer_m_s2: Vec3,
    /// Angular velocity in the body frame, rad/s.
    pub gyro_rad_s: Vec3,
}

/// Noise of one of the two sensors.
#[derive(Clone, Debug, PartialEq)]
struct Noise {
    white_std: f32,
    bias_std: f32,
    /// Spread of the bias' change in one step.
    walk_std: f32,
}

impl Noise {
    fn initial_bias(&self, rng: &mut Rng) -> Vec3 {
        if self.bias_std > 0.0 { rng.normal_vec() * self.bias_std } else { Vec3::ZERO }
    }

    fn apply(&self, truth: Vec3, bias: &mut Vec3, rng: &mut Rng) -> Vec3 {
        if self.walk_std > 0.0 {
            *bias += rng.normal_vec() * self.walk_std;
        }
        let biased = truth + *bias;
        if self.white_std > 0.0 { biased + rng.normal_vec() * self.white_std } else { biased }
    }
}

/// Constants of the inertial measurement unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImuParams {
    accelerometer: Noise,
    gyro: Noise,
}

impl ImuParams {
    pub(crate) fn new(c: &ImuConfig, dt_s: f32) -> Self {
        let root = math::sqrt(dt_s);
        Self {
            accelerometer: Noise {
                white_std: c.accelerometer_noise_std_m_s2,
                bias_std: c.accelerometer_bias_std_m_s2,
                walk_std: c.accelerometer_walk_std_m_s2 * root,
            },
            gyro: Noise {
                white_std: c.gyro_noise_std_rad_s,
                bias_std: c.gyro_bias_std_rad_s,
                walk_std: c.gyro_walk_std_rad_s * root,
            },
        }
    }
}

/// The biases of one drone's inertial measurement unit in this episode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Imu {
    accelerometer_bias: Vec3,
    gyro_bias: Vec3,
}

impl Imu {
    pub(crate) fn new(p: &ImuParams, rng: &mut Rng) -> Self {
        Self { accelerometer_bias: p.accelerometer.initial_bias(rng), gyro_bias: p.gyro.initial_bias(rng) }
    }

    /// A reading for the true specific force and angular velocity, both in the body frame.
    pub(crate) fn read(&mut self, p: &ImuParams, force: Vec3, rates: Vec3, rng: &mut Rng) -> ImuSample {
        ImuSample {
            accelerometer_m_s2: p.accelerometer.apply(force, &mut self.accelerometer_bias, rng),
            gyro_rad_s: p.gyro.apply(rates, &mut self.gyro_bias, rng),
        }
    }
}

/// All sensors of one drone, with their latest readings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sensing {
    imu: Imu,
    mocap: Mocap,
    pub(crate) imu_sample: ImuSample,
    /// The frame that arrived in the latest step.
    pub(crate) mocap_sample: Option<MocapSample>,
}

impl Sensing {
    /// Sensors for a new episode that begins at `truth`.
    pub(crate) fn new(p: &SensingParams, gravity_m_s2: f32, truth: &State, rng: &mut Rng) -> Self {
        let at_rest = truth.attitude.to_matrix().apply_transposed(Vec3::Z) * gravity_m_s2;
        Self {
            imu: Imu::new(&p.imu, rng),
            mocap: Mocap::new(rng),
            imu_sample: ImuSample { accelerometer_m_s2: at_rest, gyro_rad_s: truth.rates },
            mocap_sample: None,
        }
    }

    /// One physics step after the body moved from `velocity_before` to `truth`.
    pub(crate) fn step(
        &mut self,
        params: &Params,
        sensing: &SensingParams,
        truth: &State,
        velocity_before: Vec3,
        rng: &mut Rng,
    ) {
        // What the floor pushes is in the velocity's change, so it is felt like any other force.
        let acceleration = (truth.velocity - velocity_before) * (1.0 / params.dt_s);
        let force = acceleration + Vec3::new(0.0, 0.0, params.gravity_m_s2);
        let felt = truth.attitude.to_matrix().apply_transposed(force);
        self.imu_sample = self.imu.read(&sensing.imu, felt, truth.rates, rng);
        self.mocap_sample = self.mocap.step(&sensing.mocap, truth, rng);
    }
}
