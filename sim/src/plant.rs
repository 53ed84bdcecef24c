//! A drone as its firmware meets it: motor powers in, sensor readings out, a thousand times a second.
//!
//! The virtual Crazyflie and the native drone fly the same plant, with the same noise.

use std::sync::Arc;

use steady_common::{Action, State, Vec3, math};

use crate::airspace;
use crate::drone::Drone;
use crate::initial::Initial;
use crate::mocap::MocapSample;
use crate::motors::MAX_MOTOR_THRUST_N;
use crate::params::Params;
use crate::residual::{self, Residual, Unexplained, input};
use crate::rng::Rng;
use crate::world::{World, WorldError};

/// Physics steps in a second: one for every sample of the inertial sensors.
pub const RATE_HZ: f32 = 1000.0;
/// Noise of the gyroscope at rest, rad/s: 0.014 °/s/√Hz over 116 Hz.
const GYRO_REST_STD: f32 = 0.0026;
/// Noise of the accelerometer at rest, m/s²: 175 µg/√Hz over 145 Hz.
const ACCELEROMETER_REST_STD: f32 = 0.021;
/// Cut-off of the accelerometer's own filter, Hz.
const ACCELEROMETER_HZ: f32 = 145.0;
/// A residual is computed every so many steps.
const RESIDUAL_STEPS: u32 = RATE_HZ as u32 / residual::RATE_HZ;
/// Random stream of the sensors' noise, apart from the drone's own.
const NOISE_STREAM: u64 = 1000;
/// A landed drone is at most this far above its resting height, m.
const LANDED_M: f32 = 0.02;
/// Cosine of the largest tilt of a landed drone.
const LANDED_COS: f32 = 0.9;

/// What the sensors measure in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorReading {
    /// Angular velocity, rad/s.
    pub gyro: Vec3,
    /// Specific force, m/s².
    pub force: Vec3,
    /// Air pressure, Pa.
    pub pressure_pa: f64,
    /// Battery voltage, V.
    pub battery_v: f32,
    /// A motion capture frame that arrived.
    pub mocap: Option<MocapSample>,
}

/// A world compiled for flights at 1 kHz with sensors.
#[derive(Clone, Debug, PartialEq)]
pub struct PlantParams {
    params: Params,
    gyro_noise: f32,
    force_noise: f32,
    thrust_n_per_rpm2: f32,
    residual: Option<Arc<Residual>>,
}

impl PlantParams {
    /// Compiles a world.
    ///
    /// # Errors
    /// If the world is not valid.
    pub fn new(world: &World) -> Result<Self, WorldError> {
        let mut world = world.clone();
        world.physics.rate_hz = RATE_HZ;
        // White noise is mostly vibration, so it grows with the rotors' speed: the plant adds it.
        let gyro_noise = std::mem::take(&mut world.imu.gyro_noise_std_rad_s);
        let force_noise = std::mem::take(&mut world.imu.accelerometer_noise_std_m_s2);
        let thrust_n_per_rpm2 = world.motors.thrust_n_per_rpm2;
        Ok(Self {
            params: world.compile_with_sensors()?,
            gyro_noise,
            force_noise,
            thrust_n_per_rpm2,
            residual: None,
        })
    }

    /// With what the world's equations lack.
    #[must_use]
    pub fn with_residual(self, residual: Residual) -> Self {
        Self { residual: Some(Arc::new(residual)), ..self }
    }

    /// The constants of a physics step.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }
}

/// The drone's body and sensors.
#[derive(Clone, Debug)]
pub struct Plant {
    world: PlantParams,
    drone: Drone,
    rng: Rng,
    hover_rpm: f32,
    /// Part of their power that the motors still give (faults).
    pub motor_health: [f32; 4],
    /// Voltage taken from the battery by something else (faults), V.
    pub voltage_drop_v: f32,
    /// Another force on the body, N in the world frame (faults).
    pub push_n: Vec3,
    /// What other drones do to the body, N in the world frame.
    downwash_n: Vec3,
    /// How far the propellers' mass is off their axles, g mm (faults).
    pub imbalance_g_mm: [f32; 4],
    /// Where the heavy sides of the propellers point, rad.
    heavy_side_rad: [f32; 4],
    /// What the residual said when it was last computed.
    unexplained: Unexplained,
    /// Steps since the motors began to turn.
    turning: u32,
}

impl Plant {
    /// A drone on the floor at the origin.
    #[must_use]
    pub fn new(world: &PlantParams, seed: u64) -> Self {
        Self {
            drone: Drone::new(&world.params, seed, 0),
            hover_rpm: world.params.hover_rpm(),
            world: world.clone(),
            rng: Rng::new(seed, NOISE_STREAM),
            motor_health: [1.0; 4],
            voltage_drop_v: 0.0,
            push_n: Vec3::ZERO,
            downwash_n: Vec3::ZERO,
            imbalance_g_mm: [0.0; 4],
            heavy_side_rad: [0.0; 4],
            unexplained: Unexplained::default(),
            turning: 0,
        }
    }

    /// Puts the drone into another state, with a charged battery and new sensor biases.
    pub fn reset(&mut self, initial: &Initial) {
        self.drone.reset(&self.world.params, initial);
    }

    /// Puts the drone on the floor at a place, m.
    pub fn stand_at(&mut self, place_m: Vec3) {
        let initial = Initial::on_floor(&self.world.params, place_m);
        self.reset(&initial);
    }

    /// Other drones are at these places from now on, m.
    pub fn set_neighbours(&mut self, others_m: impl Iterator<Item = Vec3>) {
        self.downwash_n = airspace::downwash(&self.world.params, self.drone.truth(), others_m);
    }

    /// A millisecond with the motors at these powers, of 65536.
    pub fn step(&mut self, pwm: [u16; 4]) -> SensorReading {
        let mut given = [0; 4];
        for ((given, pwm), health) in given.iter_mut().zip(pwm).zip(self.motor_health) {
            *given = (f32::from(pwm) * health) as u16;
        }
        if self.world.residual.is_some() {
            self.follow_residual(pwm != [0; 4]);
        }
        let params = &self.world.params;
        let push_n = self.push_n + self.downwash_n + self.unexplained.push_n(params);
        self.drone.step_pwm(params, given, push_n);
        self.drone.add_rates(self.unexplained.turn_rad_s(params));
        let sample = self.drone.imu().unwrap_or_default();
        let shaken = self.shaken();
        let mean_rpm = self.drone.rpm().iter().sum::<f32>() / 4.0;
        let shaking = (mean_rpm / self.hover_rpm).min(1.5);
        let truth = self.drone.truth();
        let altitude_m = f64::from(truth.position.z);
        SensorReading {
            gyro: sample.gyro_rad_s
                + self.rng.normal_vec() * GYRO_REST_STD
                + self.rng.normal_vec() * (self.world.gyro_noise * shaking),
            force: sample.accelerometer_m_s2
                + shaken
                + self.rng.normal_vec() * ACCELEROMETER_REST_STD
                + self.rng.normal_vec() * (self.world.force_noise * shaking),
            // 12 Pa a metre near the ground, and the noise of the sensor.
            pressure_pa: 101_325.0 - 12.01 * altitude_m + 1.2 * f64::from(self.rng.normal()),
            battery_v: self.battery_v(),
            mocap: self.drone.mocap(),
        }
    }

    /// Computes what the world's equations lack, in the air.
    fn follow_residual(&mut self, is_turning: bool) {
        let Some(residual) = self.world.residual.clone() else { return };
        self.turning = if is_turning { self.turning + 1 } else { 0 };
        if !is_turning || self.is_on_floor() {
            self.unexplained = Unexplained::default();
        } else if self.turning.is_multiple_of(RESIDUAL_STEPS) {
            let time_s = self.turning as f32 / RATE_HZ;
            self.unexplained = residual.at(&input(self.truth(), self.thrust(), time_s));
        }
    }

    /// What propellers out of balance add to the specific force: each pulls towards its heavy side, which
    /// goes round with it, as the accelerometer's filter lets it through.
    fn shaken(&mut self) -> Vec3 {
        let mut force = Vec3::ZERO;
        let rotors = self.drone.rpm().into_iter().zip(self.imbalance_g_mm).zip(&mut self.heavy_side_rad);
        for ((rpm, imbalance_g_mm), heavy_side_rad) in rotors.filter(|((_, imbalance), _)| *imbalance > 0.0) {
            let turn_hz = rpm / 60.0;
            let omega = 2.0 * math::PI * turn_hz;
            *heavy_side_rad = (*heavy_side_rad + omega / RATE_HZ) % (2.0 * math::PI);
            let (sin, cos) = math::sin_cos(*heavy_side_rad);
            let passes = 1.0 / math::sqrt(1.0 + (turn_hz / ACCELEROMETER_HZ).powi(2));
            let pull_m_s2 = 1e-6 * imbalance_g_mm * omega * omega / self.world.params.mass_kg;
            force += Vec3::new(cos, sin, 0.0) * (pull_m_s2 * passes);
        }
        force
    }

    /// Thrust of the rotors, of the full thrust.
    #[must_use]
    pub fn thrust(&self) -> [f32; 4] {
        self.drone.rpm().map(|rpm| rpm * rpm * self.world.thrust_n_per_rpm2 / MAX_MOTOR_THRUST_N)
    }

    /// The true state.
    #[must_use]
    pub fn truth(&self) -> &State {
        self.drone.truth()
    }

    /// What the rotors really give, as an action.
    #[must_use]
    pub fn action(&self) -> Action {
        Action::from_motors(self.thrust())
    }

    /// True when the drone stands upright on the floor.
    #[must_use]
    pub fn is_on_floor(&self) -> bool {
        let truth = self.truth();
        truth.position.z < self.world.params.rest_height_m() + LANDED_M
            && truth.attitude.to_matrix().z.z > LANDED_COS
    }

    /// The battery's voltage, V.
    #[must_use]
    pub fn battery_v(&self) -> f32 {
        self.drone.battery().voltage_v - self.voltage_drop_v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(world: &str) -> Plant {
        Plant::new(&PlantParams::new(&World::named(world).unwrap()).unwrap(), 1)
    }

    #[test]
    fn a_drone_is_pushed_down_by_one_above_it() {
        let mut alone = plant("nominal");
        alone.stand_at(Vec3::new(1.0, 2.0, 5.0));
        assert_eq!(alone.truth().position.x, 1.0);
        assert!(alone.is_on_floor());
        let initial = Initial::hovering(&alone.world.params, Vec3::new(0.0, 0.0, 1.0));
        let fall_m = |others: &[Vec3]| {
            let mut plant = plant("nominal");
            plant.reset(&initial);
            for _ in 0..200 {
                plant.set_neighbours(others.iter().copied());
                plant.step([0; 4]);
            }
            1.0 - plant.truth().position.z
        };
        let free = fall_m(&[]);
        assert!(fall_m(&[Vec3::new(0.0, 0.0, 1.5)]) > free + 1e-3);
        assert_eq!(fall_m(&[Vec3::new(0.0, 0.0, 0.2)]), free, "one below does nothing");
    }

    #[test]
    fn rests_on_the_floor_quietly_and_shakes_in_the_air() {
        let mut plant = plant("paper");
        let spread = |plant: &mut Plant, pwm| {
            let readings: Vec<SensorReading> = (0..500).map(|_| plant.step([pwm; 4])).collect();
            let mean = readings.iter().map(|r| r.gyro.x).sum::<f32>() / 500.0;
            steady_common::math::sqrt(readings.iter().map(|r| (r.gyro.x - mean).powi(2)).sum::<f32>() / 500.0)
        };
        let quiet = spread(&mut plant, 0);
        assert!((0.002..0.004).contains(&quiet), "{quiet}");
        assert!((plant.step([0; 4]).force.z - 9.8).abs() < 0.5);
        plant.step([40_000; 4]);
        assert!(spread(&mut plant, 40_000) > 0.01);
        assert!(plant.step([0; 4]).battery_v > 3.5);
    }

    #[test]
    fn a_propeller_out_of_balance_shakes_with_the_square_of_its_speed() {
        let mut plant = plant("nominal");
        plant.imbalance_g_mm[2] = 0.05;
        let mut variance = |pwm| {
            (0..300).for_each(|_| _ = plant.step([0, 0, pwm, 0]));
            let readings: Vec<f32> = (0..500).map(|_| plant.step([0, 0, pwm, 0]).force.x).collect();
            let mean = readings.iter().sum::<f32>() / 500.0;
            readings.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / 500.0
        };
        let (still, slow, fast) = (variance(0), variance(10_000), variance(20_000));
        assert!(still < 0.002 && slow > 10.0 * still && fast > 1.5 * slow, "{still} {slow} {fast}");
    }

    #[test]
    fn a_dead_motor_turns_the_drone_over() {
        let mut plant = plant("nominal");
        plant.motor_health[0] = 0.0;
        for _ in 0..600 {
            plant.step([60_000; 4]);
        }
        assert!(plant.truth().attitude.to_matrix().z.z < 0.8);
    }
}
