//! What a controller sees when sensing is not perfect: a small observer with fixed gains.
//!
//! Position and velocity are predicted with the accelerometer and corrected by every mocap frame
//! that arrives; without frames it keeps predicting. The attitude is the truth with a slowly
//! wandering error, as an on-board filter gives it; the rates are the gyroscope's.

use steady_common::{State, Vec3, math};

use crate::mocap::{Mocap, MocapSample};
use crate::params::{Params, SensingParams, remaining};
use crate::rng::Rng;
use crate::sensors::{Imu, ImuSample};
use crate::world::Perception;

/// Constants of the observer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObserverParams {
    dt_s: f32,
    gravity_m_s2: f32,
    position_gain: f32,
    velocity_gain_per_s: f32,
    attitude_error_std_rad: f32,
    /// Part of the attitude error that a step keeps, and the spread of what it adds.
    attitude_keep: f32,
    attitude_add_rad: f32,
}

impl ObserverParams {
    pub(crate) fn new(c: &Perception, gravity_m_s2: f32, dt_s: f32) -> Self {
        let keep = remaining(dt_s, c.attitude_error_tau_s);
        Self {
            dt_s,
            gravity_m_s2,
            position_gain: c.position_gain,
            velocity_gain_per_s: c.velocity_gain_per_s,
            attitude_error_std_rad: c.attitude_error_std_rad,
            attitude_keep: keep,
            attitude_add_rad: c.attitude_error_std_rad * math::sqrt(1.0 - keep * keep),
        }
    }
}

/// The observer's estimate.
#[derive(Clone, Debug, PartialEq)]
struct Observer {
    estimate: State,
    /// Rotation from the true to the perceived attitude, body frame, rad.
    attitude_error: Vec3,
}

impl Observer {
    fn new(p: &ObserverParams, truth: &State, rng: &mut Rng) -> Self {
        let mut attitude_error = Vec3::ZERO;
        if p.attitude_error_std_rad > 0.0 {
            attitude_error = rng.normal_vec() * p.attitude_error_std_rad;
        }
        Self { estimate: *truth, attitude_error }
    }

    fn step(
        &mut self,
        p: &ObserverParams,
        truth: &State,
        imu: &ImuSample,
        mocap: Option<&MocapSample>,
        rng: &mut Rng,
    ) {
        if p.attitude_error_std_rad > 0.0 {
            self.attitude_error =
                self.attitude_error * p.attitude_keep + rng.normal_vec() * p.attitude_add_rad;
        }
        let e = &mut self.estimate;
        e.attitude = truth.attitude.integrate_body_rate(self.attitude_error, 1.0);
        e.rates = imu.gyro_rad_s;
        let force = e.attitude.to_matrix().apply(imu.accelerometer_m_s2);
        let acceleration = force - Vec3::new(0.0, 0.0, p.gravity_m_s2);
        e.velocity += acceleration * p.dt_s;
        e.position += e.velocity * p.dt_s;
        if let Some(frame) = mocap {
            let innovation = frame.position_m - e.position;
            e.position += innovation * p.position_gain;
            e.velocity += innovation * p.velocity_gain_per_s;
        }
    }
}

/// Sensors of one drone and what is made of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sensing {
    imu: Imu,
    mocap: Mocap,
    observer: Option<Observer>,
    /// The latest reading.
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
            observer: p.observer.as_ref().map(|o| Observer::new(o, truth, rng)),
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
        if let (Some(observer), Some(o)) = (&mut self.observer, &sensing.observer) {
            observer.step(o, truth, &self.imu_sample, self.mocap_sample.as_ref(), rng);
        }
    }

    /// The observer's estimate, if there is an observer.
    pub(crate) fn estimate(&self) -> Option<&State> {
        self.observer.as_ref().map(|o| &o.estimate)
    }
}
