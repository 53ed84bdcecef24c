//! The firmware's flight step and the plant, a millisecond at a time.

use steady_common::Vec3;
use steady_common::commander::{Command, Refusal};
use steady_common::estimator::{Imu, Mocap};
use steady_firmware::flight::{Boot, Flight, Output, STEP_US, Sensors};
use steady_firmware::settings::Settings;
use steady_firmware::telemetry::Telemetry;
use steady_sim::{Plant, PlantParams};

/// A drone with its firmware. The public fields may be changed between steps, to make things go wrong.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    /// Body, motors and sensors.
    pub plant: Plant,
    /// The parameters' values.
    pub settings: Settings,
    /// Motion capture does not see the drone.
    pub is_mocap_lost: bool,
    /// What the drone measures of its battery instead of the truth, V.
    pub battery_v: Option<f32>,
    /// The sensors have passed their tests and answer.
    pub is_healthy: bool,
    /// The card is there and has room.
    pub is_card_ready: bool,
    /// Error of the accelerometer, m/s².
    pub accelerometer_error: Vec3,
    flight: Flight,
    pwm: [u16; 4],
    now_us: u64,
}

impl ClosedLoop {
    /// A drone on the floor at the origin, just switched on.
    #[must_use]
    pub fn new(world: &PlantParams, seed: u64, boot: Boot, settings: Settings) -> Self {
        Self {
            plant: Plant::new(world, seed),
            flight: Flight::new(boot, &settings),
            settings,
            is_mocap_lost: false,
            battery_v: None,
            is_healthy: true,
            is_card_ready: true,
            accelerometer_error: Vec3::ZERO,
            pwm: [0; 4],
            now_us: 0,
        }
    }

    /// Time since power-on, µs.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Time since power-on, s.
    #[must_use]
    pub fn time_s(&self) -> f32 {
        self.now_us as f32 * 1e-6
    }

    /// The firmware's flight step.
    #[must_use]
    pub fn flight(&self) -> &Flight {
        &self.flight
    }

    /// What the firmware knows.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        self.flight.telemetry()
    }

    /// True when the next step is a control step.
    #[must_use]
    pub fn is_control_next(&self) -> bool {
        !self.telemetry().timing.steps.is_multiple_of(2)
    }

    /// Gives the drone a command.
    ///
    /// # Errors
    /// Why the drone refused it.
    pub fn command(&mut self, command: &Command) -> Result<(), Refusal> {
        self.flight.command(self.now_us, command, &self.settings)
    }

    /// One millisecond: the body moves, its sensors measure, the firmware sets the motors.
    pub fn step(&mut self) -> Output {
        let reading = self.plant.step(self.pwm);
        self.now_us += u64::from(STEP_US);
        if let Some(frame) = reading.mocap.filter(|_| !self.is_mocap_lost) {
            let l = &self.settings.localization;
            let mocap = Mocap {
                position: frame.position_m,
                position_std: l.position_std,
                attitude: frame.attitude.map(|q| (q, l.attitude_std)),
                age_s: l.delay_s(),
            };
            // The firmware counts what it refuses.
            let _ = self.flight.command(self.now_us, &Command::Mocap(mocap), &self.settings);
        }
        let sensors = Sensors {
            imu: Imu { accelerometer: reading.force + self.accelerometer_error, gyro: reading.gyro },
            battery_v: self.battery_v.unwrap_or(reading.battery_v),
            healthy: self.is_healthy,
            card_ready: self.is_card_ready,
            barometer: None,
        };
        let output = self.flight.step(self.now_us, &sensors, &self.settings);
        self.pwm = output.pwm;
        output
    }
}
