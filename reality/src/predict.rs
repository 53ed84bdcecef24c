//! A world predicts a recorded flight from its motors' commands.

use core::f32::consts::SQRT_2;

use steady_common::{State, Vec3, math};
use steady_sim::residual::{self, Input, Residual, Unexplained, input};
use steady_sim::world::Integrator;
use steady_sim::{MAX_MOTOR_THRUST_N, Params, World, WorldError};

use crate::flight::{COMMANDS, DT_S, Flight, RATE_HZ, Sample};

/// Physics steps a sample: 500 Hz, at which a step's error is below what is measured.
const STEPS: usize = COMMANDS;
/// A residual is computed every so many of them.
const RESIDUAL_STEPS: usize = RATE_HZ as usize * STEPS / residual::RATE_HZ as usize;
/// A trim is taken from this many samples before a prediction: three seconds.
const TRIM_SAMPLES: usize = 300;

/// What a prediction adds to the world: what the seconds before showed to be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trim {
    /// Angular acceleration, rad/s², body.
    pub angular_rad_s2: Vec3,
    /// Part of thrust.
    pub thrust: f32,
}

/// A world, ready to predict one flight.
pub struct Predictor<'a> {
    flight: &'a Flight,
    params: Params,
    /// Rotor speeds, [`STEPS`] a sample.
    rpm: Vec<[f32; 4]>,
    thrust_n_per_rpm2: f32,
    /// The sample at which the motors began to turn.
    began: usize,
    residual: Option<&'a Residual>,
}

impl<'a> Predictor<'a> {
    /// The rotors of a world follow the flight's commands.
    ///
    /// # Errors
    /// If the world is not valid.
    pub fn new(world: &World, flight: &'a Flight) -> Result<Self, WorldError> {
        let mut world = world.clone();
        world.physics.rate_hz = STEPS as f32 / DT_S;
        world.physics.integrator = Integrator::SemiImplicit;
        world.mocap.rate_hz = world.mocap.rate_hz.min(world.physics.rate_hz);
        let delay = world.motors.command_delay_s / DT_S;
        let params = world.compile()?;
        let rpm = params.rotor_speeds((0..flight.samples.len() * STEPS).map(|step| {
            // The middle of the step, and between the samples' commands: a delay is not a number of steps.
            let place = (step as f32 + 0.5) / STEPS as f32 - delay;
            let (pwm, battery_v) = command(&flight.samples, place);
            (exactly(&flight.commands, place).unwrap_or(pwm), battery_v)
        }));
        let turns = |sample: &Sample| sample.pwm.iter().any(|pwm| *pwm > 0.0);
        Ok(Self {
            flight,
            params,
            rpm,
            thrust_n_per_rpm2: world.motors.thrust_n_per_rpm2,
            began: flight.samples.iter().position(turns).unwrap_or(0),
            residual: None,
        })
    }

    /// With what the world's equations lack.
    #[must_use]
    pub fn with_residual(self, residual: &'a Residual) -> Self {
        Self { residual: Some(residual), ..self }
    }

    /// The flight that it predicts.
    pub fn flight(&self) -> &'a Flight {
        self.flight
    }

    /// Flies from the sample `start` for `horizon` samples; `each` gets the samples' numbers and states.
    pub fn fly(&self, start: usize, horizon: usize, trim: Trim, mut each: impl FnMut(usize, &State)) {
        let mut state = self.flight.samples[start].state;
        let speed = math::sqrt((1.0 + trim.thrust).max(0.0));
        let mut unexplained = Unexplained::default();
        for k in 1..=horizon {
            let first = (start + k - 1) * STEPS;
            let Some(steps) = self.rpm.get(first..first + STEPS) else { return };
            for (step, rpm) in ((k - 1) * STEPS..).zip(steps) {
                let rpm = rpm.map(|rpm| rpm * speed);
                if step.is_multiple_of(RESIDUAL_STEPS) {
                    let time_s = self.time_s(start) + step as f32 * self.params.dt_s;
                    unexplained = self.unexplained(&state, &rpm, time_s);
                }
                let angular = unexplained.angular + trim.angular_rad_s2;
                self.params.step_body(&mut state, &rpm, &Unexplained { angular, ..unexplained });
            }
            each(start + k, &state);
        }
    }

    /// What a residual depends on at a flown sample.
    pub fn input(&self, sample: usize) -> Input {
        input(&self.flight.samples[sample].state, self.thrust(sample), self.time_s(sample))
    }

    /// Time since the motors began to turn.
    fn time_s(&self, sample: usize) -> f32 {
        sample.saturating_sub(self.began) as f32 * DT_S
    }

    fn unexplained(&self, state: &State, rpm: &[f32; 4], time_s: f32) -> Unexplained {
        let Some(residual) = self.residual else { return Unexplained::default() };
        residual.at(&input(state, self.as_thrust(rpm), time_s))
    }

    /// Rotor speeds of M1..M4 at a sample, rpm.
    pub fn rpm(&self, sample: usize) -> &[f32; 4] {
        &self.rpm[sample * STEPS]
    }

    /// Thrusts of M1..M4 at a sample, as parts of [`MAX_MOTOR_THRUST_N`].
    pub fn thrust(&self, sample: usize) -> [f32; 4] {
        self.as_thrust(self.rpm(sample))
    }

    fn as_thrust(&self, rpm: &[f32; 4]) -> [f32; 4] {
        rpm.map(|rpm| rpm * rpm * self.thrust_n_per_rpm2 / MAX_MOTOR_THRUST_N)
    }

    /// What the world says at a flown state: angular acceleration, rad/s², and specific force along body z, m/s².
    pub fn accelerations(&self, sample: usize) -> (Vec3, f32) {
        let (turn, lift) = self.params.accelerations(&self.flight.samples[sample].state, self.rpm(sample));
        let (turn_beyond, lift_beyond) = self.beyond(sample);
        (turn + turn_beyond, lift + lift_beyond)
    }

    /// What the residual adds to that.
    fn beyond(&self, sample: usize) -> (Vec3, f32) {
        let state = &self.flight.samples[sample].state;
        let unexplained = self.unexplained(state, self.rpm(sample), self.time_s(sample));
        (unexplained.angular, state.attitude.to_matrix().z.dot(unexplained.acceleration))
    }

    /// Trims for every sample, each from the three seconds before it: what turned the drone and carried it beyond
    /// what the world says of the flown states.
    pub fn trims(&self) -> Vec<Trim> {
        let samples = &self.flight.samples;
        // Without an accelerometer, what the velocity says.
        let felt_z = |i: usize| match self.flight.has_accelerometer {
            true => samples[i].acc_m_s2.z,
            false => self.flight.specific_force(i).0.z,
        };
        // Sums from the first sample in the air on.
        let mut sums = vec![Sums::default(); samples.len()];
        for i in self.flight.take_off + 1..samples.len() {
            let (before, state, rpm) = (&sums[i - 1], &samples[i - 1].state, self.rpm(i - 1));
            let (turn, lift) = self.params.accelerations(state, rpm);
            // What the residual lifts does not grow with the thrust's trim.
            let (turn_beyond, lift_beyond) = self.beyond(i - 1);
            let (turn_at_double, _) = self.params.accelerations(state, &rpm.map(|rpm| rpm * SQRT_2));
            sums[i] = Sums {
                turn: before.turn + (turn + turn_beyond) * DT_S,
                by_thrust: before.by_thrust + (turn_at_double - turn) * DT_S,
                lift: before.lift + lift * DT_S,
                felt: before.felt + (felt_z(i - 1) - lift_beyond) * DT_S,
            };
        }
        (0..samples.len())
            .map(|i| {
                let first = i.saturating_sub(TRIM_SAMPLES).max(self.flight.take_off);
                if i < first + 50 {
                    return Trim::default();
                }
                let over_s = (i - first) as f32 * DT_S;
                let (now, then) = (&sums[i], &sums[first]);
                let thrust = (now.felt - then.felt) / (now.lift - then.lift) - 1.0;
                let predicted = now.turn - then.turn + (now.by_thrust - then.by_thrust) * thrust;
                let really = samples[i].state.rates - samples[first].state.rates;
                Trim { angular_rad_s2: (really - predicted) * (1.0 / over_s), thrust }
            })
            .collect()
    }
}

/// PWM at a place between the samples where every command was logged.
fn exactly(commands: &[[f32; 4]], place: f32) -> Option<[f32; 4]> {
    let last = commands.len().checked_sub(1)?;
    // From the middle of one to that of the next.
    let place = (place * COMMANDS as f32 - 0.5).clamp(0.0, last as f32);
    let i = (place as usize).min(last.saturating_sub(1));
    let part = place - i as f32;
    let (a, b) = (commands.get(i)?, commands.get(i + 1)?);
    Some(std::array::from_fn(|motor| a[motor] + (b[motor] - a[motor]) * part))
}

/// Sums over time of what the world says of the flown states, and of what was felt.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Angular acceleration, rad/s.
    turn: Vec3,
    /// How much more of it there is with twice the thrust, rad/s.
    by_thrust: Vec3,
    /// Specific force along body z, m/s.
    lift: f32,
    /// What the accelerometer felt, m/s.
    felt: f32,
}

/// PWM and battery voltage at a place between the samples.
fn command(samples: &[Sample], place: f32) -> ([f32; 4], f32) {
    let place = place.clamp(0.0, (samples.len() - 1) as f32);
    let i = (place as usize).min(samples.len().saturating_sub(2));
    let part = place - i as f32;
    let (a, b) = (&samples[i], &samples[(i + 1).min(samples.len() - 1)]);
    let mut pwm = a.pwm;
    pwm.iter_mut().zip(b.pwm).for_each(|(a, b)| *a += (b - *a) * part);
    (pwm, a.battery_v + (b.battery_v - a.battery_v) * part)
}

/// Samples from which a prediction may start, every `every` samples: from a second after take-off to one and a
/// half before landing, without a gap in the next half a second.
pub fn starts(flight: &Flight, every: usize) -> Vec<usize> {
    const HALF_A_SECOND: usize = 50;
    let (first, last) = (flight.take_off + 100, flight.landing.saturating_sub(150));
    (first..last)
        .step_by(every)
        .filter(|&i| flight.samples[i..=i + HALF_A_SECOND].iter().all(|s| !s.has_gap))
        .collect()
}
