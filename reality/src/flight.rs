//! What a drone did in a recorded flight: its states on one clock, 100 of them a second.
//!
//! Position and velocity are motion capture's, moved by the recorded clock offset. The attitude is the
//! gyroscope's, drawn to motion capture's below 2 Hz, forwards and backwards in time. Motion capture's object
//! is not aligned with the drone: a constant rotation is removed, so that thrust is along body z.

use steady_common::transition::{Flags, Transition};
use steady_common::{Controller, Quat, State, Vec3, math};

use crate::recording::{FLYING_HEIGHT_M, Recording, RecordingError, Row};

/// Samples in a second.
pub const RATE_HZ: f64 = 100.0;
/// Time between two samples, s.
pub const DT_S: f32 = 0.01;
/// The same, µs.
const SAMPLE_US: u64 = 10_000;
/// Commands in a sample where they were logged at the control rate.
pub const COMMANDS: usize = 5;
/// Time between two of them, µs.
const STEP_US: u64 = SAMPLE_US / COMMANDS as u64;
/// From a logged control step to the middle of the time in which the motors have its command, µs.
const COMMAND_US: u64 = 2_000;
/// By how much the firmware's filter delays the rates that its log has, s: a second-order Butterworth filter of 80 Hz.
/// To a fit it looks like a delay of the commands.
pub const RATES_DELAY_S: f32 = 0.0028;
/// Below this the attitude is motion capture's, above it the gyroscope's, Hz.
const ATTITUDE_CROSSOVER_HZ: f32 = 2.0;
/// Accelerations are differences of velocities this many samples before and after.
const DIFFERENCE: usize = 3;
/// Shorter flights are of no use, s.
pub const MIN_FLIGHT_S: f64 = 4.0;
/// Standard gravity, m/s².
pub const GRAVITY_M_S2: f32 = 9.81;

/// One sample of a flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The drone's state.
    pub state: State,
    /// Accelerometer, m/s², body.
    pub acc_m_s2: Vec3,
    /// What the motors M1..M4 got, of 65535.
    pub pwm: [f32; 4],
    /// Battery under load, V.
    pub battery_v: f32,
    /// Lost packets were filled in here.
    pub has_gap: bool,
    /// The set-point, if it was recorded: position, m, and yaw, rad.
    pub set_point: Option<(Vec3, f32)>,
}

/// A flight without gaps in time.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Where it is from.
    pub name: String,
    /// Samples at [`RATE_HZ`], from before take-off until after landing.
    pub samples: Vec<Sample>,
    /// What the motors got at the control rate, [`COMMANDS`] a sample, where it was logged.
    pub commands: Vec<[f32; 4]>,
    /// First sample in the air.
    pub take_off: usize,
    /// Last sample in the air.
    pub landing: usize,
    /// The rotation from motion capture's object to the drone that was removed, rad, body x, y, z.
    pub mount_rad: Vec3,
    /// Whether position, velocity and attitude are known.
    pub has_pose: bool,
    /// Whether the battery's voltage was recorded.
    pub has_battery: bool,
    /// Whether the accelerometer was recorded.
    pub has_accelerometer: bool,
    /// Which of the official controllers flew it, if the recording has the PID's outputs.
    pub controller: Option<Controller>,
}

impl Flight {
    /// The flights of a recording; a piece too short to use is left out.
    ///
    /// # Errors
    /// If no piece is long enough.
    pub fn all(recording: &Recording) -> Result<Vec<Self>, RecordingError> {
        let flights: Vec<Self> =
            recording.pieces.iter().filter_map(|rows| Self::new(&recording.name, rows)).collect();
        if flights.is_empty() {
            let rows: usize = recording.pieces.iter().map(Vec::len).sum();
            let refused = recording.first_refused.as_ref().map_or_else(String::new, |first| {
                format!(", {} rows refused, the first: {first}", recording.refused)
            });
            return Err(RecordingError::NoFlight {
                file: recording.name.clone(),
                min_s: MIN_FLIGHT_S,
                why: format!("{rows} rows in {} pieces{refused}", recording.pieces.len()),
            });
        }
        Ok(flights)
    }

    /// A flight from rows without a gap in time; `None` when it is in the air for less than [`MIN_FLIGHT_S`].
    fn new(name: &str, rows: &[Row]) -> Option<Self> {
        let flying = |row: &&Row| row.is_flying;
        let (begin_s, end_s) = (rows.iter().find(flying)?.time_s, rows.iter().rfind(flying)?.time_s);
        if end_s - begin_s < MIN_FLIGHT_S {
            return None;
        }
        let (first_s, last_s) = (rows.first()?.time_s, rows.last()?.time_s);
        let count = ((last_s - first_s) * RATE_HZ) as usize;
        let mut seen = Cursor::new(rows);
        let mut captured = Cursor::new(rows);
        let mut samples = Vec::with_capacity(count);
        let mut estimates = Vec::with_capacity(count);
        for i in 0..count {
            let time_s = first_s + i as f64 / RATE_HZ;
            let onboard = seen.at(time_s);
            let mocap = captured.at(time_s - onboard.offset_s);
            estimates.push(onboard.estimate.map(|e| e.attitude));
            samples.push(Sample {
                state: State {
                    position: mocap.position_m,
                    velocity: mocap.velocity_m_s,
                    attitude: mocap.attitude,
                    rates: onboard.gyro_rad_s,
                },
                acc_m_s2: onboard.acc_m_s2,
                pwm: onboard.pwm,
                battery_v: onboard.battery_v,
                has_gap: onboard.imu_gap || onboard.motor_gap,
                set_point: onboard.set_point,
            });
        }
        let index = |time_s: f64| (((time_s - first_s) * RATE_HZ) as usize).min(count.saturating_sub(1));
        let mut flight = Self {
            name: name.to_owned(),
            samples,
            commands: Vec::new(),
            take_off: index(begin_s),
            landing: index(end_s),
            mount_rad: Vec3::ZERO,
            has_pose: true,
            has_battery: true,
            has_accelerometer: true,
            controller: official_controller(rows),
        };
        flight.remove_mount(&estimates);
        flight.follow_gyro();
        Some(flight)
    }

    /// A flight of this firmware, from the log's control steps without a gap: the states are the drone's own
    /// estimates. `None` when it is in the air for less than [`MIN_FLIGHT_S`].
    pub fn from_log(name: &str, steps: &[Transition]) -> Option<Self> {
        let first_us = steps.first()?.time_us;
        let mut samples: Vec<Sample> = Vec::new();
        let (mut take_off, mut landing) = (None, 0);
        let mut begin = 0;
        let mut at = 0;
        loop {
            let time_us = first_us + samples.len() as u64 * SAMPLE_US;
            while steps.get(at).is_some_and(|step| step.time_us < time_us) {
                at += 1;
            }
            let Some(step) = steps.get(at) else { break };
            // The mean of the commands that the motors had around the sample: several come in that time, and
            // each acts from its step until the next.
            let acts_us = |step: &Transition| step.time_us + COMMAND_US;
            while acts_us(&steps[begin]) + SAMPLE_US / 2 < time_us {
                begin += 1;
            }
            let around: Vec<&Transition> =
                steps[begin..].iter().take_while(|step| acts_us(step) < time_us + SAMPLE_US / 2).collect();
            let mut pwm = [0.0; 4];
            for (motor, pwm) in pwm.iter_mut().enumerate() {
                let sum: f32 = around.iter().map(|step| f32::from(step.pwm[motor])).sum();
                *pwm = sum / around.len().max(1) as f32;
            }
            if step.flags.has(Flags::FLYING) && step.state.position.z > FLYING_HEIGHT_M {
                take_off.get_or_insert(samples.len());
                landing = samples.len();
            }
            samples.push(Sample {
                state: step.state,
                pwm,
                battery_v: step.battery_v,
                set_point: Some((step.reference.position, step.reference.yaw)),
                ..Sample::default()
            });
        }
        let take_off = take_off?;
        let mut acting = 0;
        let commands = (0..(samples.len() * COMMANDS) as u64)
            .map(|i| {
                // The middle of a step; a command acts from half a step before until half a step after its own.
                let middle_us = first_us + i * STEP_US + STEP_US / 2;
                while steps
                    .get(acting + 1)
                    .is_some_and(|next| next.time_us + COMMAND_US - STEP_US / 2 <= middle_us)
                {
                    acting += 1;
                }
                steps[acting].pwm.map(f32::from)
            })
            .collect();
        ((landing - take_off) as f64 >= MIN_FLIGHT_S * RATE_HZ).then(|| Self {
            name: name.to_owned(),
            samples,
            commands,
            take_off,
            landing,
            mount_rad: Vec3::ZERO,
            has_pose: true,
            has_battery: true,
            has_accelerometer: false,
            controller: None,
        })
    }

    /// Samples in the air.
    pub fn in_air(&self) -> &[Sample] {
        self.samples.get(self.take_off..self.landing).unwrap_or_default()
    }

    /// Seconds in the air.
    pub fn duration_s(&self) -> f32 {
        (self.landing - self.take_off) as f32 * DT_S
    }

    /// Removes the constant rotation between motion capture's object and the drone: first by the drone's own
    /// estimate, which is about right in yaw, then so that thrust is along body z.
    fn remove_mount(&mut self, estimates: &[Option<Quat>]) {
        let range = self.take_off..self.landing;
        let mut turns: [Vec<f32>; 3] = Default::default();
        for (sample, estimate) in self.samples[range.clone()].iter().zip(&estimates[range]) {
            let Some(estimate) = estimate else { continue };
            let turn = rotation_vector(sample.state.attitude.conjugate() * *estimate);
            turns.iter_mut().zip(turn.to_array()).for_each(|(all, turn)| all.push(turn));
        }
        let mount = Vec3::from(turns.map(median));
        self.turn(mount);
        let [ax, ay] = self.thrust_axis();
        self.turn(Vec3::new(-ay, ax, 0.0));
        self.mount_rad = mount + Vec3::new(-ay, ax, 0.0);
    }

    /// Turns the attitudes by a constant rotation in the body frame, rad.
    fn turn(&mut self, by: Vec3) {
        for sample in &mut self.samples {
            sample.state.attitude = sample.state.attitude.integrate_body_rate(by, 1.0);
        }
    }

    /// Where thrust points, body x and y over z: the part of the specific force that goes with thrust and not with
    /// the velocity.
    fn thrust_axis(&self) -> [f32; 2] {
        let mut sums = [[0.0_f64; 5]; 2];
        for i in (self.take_off + DIFFERENCE)..(self.landing.saturating_sub(DIFFERENCE)) {
            if self.samples[i].has_gap {
                continue;
            }
            let (force, velocity) = self.specific_force(i);
            for ((sums, f), v) in sums.iter_mut().zip([force.x, force.y]).zip([velocity.x, velocity.y]) {
                let [f, v, t] = [f, v, force.z].map(f64::from);
                for (sum, product) in sums.iter_mut().zip([v * v, v * t, t * t, v * f, t * f]) {
                    *sum += product;
                }
            }
        }
        sums.map(|[vv, vt, tt, vf, tf]| {
            let determinant = vv * tt - vt * vt;
            if determinant > 1e-6 * vv * tt { ((vv * tf - vt * vf) / determinant) as f32 } else { 0.0 }
        })
    }

    /// Specific force by motion capture, m/s², and velocity, m/s, both in the body frame.
    pub fn specific_force(&self, i: usize) -> (Vec3, Vec3) {
        let (before, after) = (i.saturating_sub(DIFFERENCE), (i + DIFFERENCE).min(self.samples.len() - 1));
        let velocity = |i: usize| self.samples[i].state.velocity;
        let acceleration =
            (velocity(after) - velocity(before)) * (1.0 / ((after - before).max(1) as f32 * DT_S));
        let body = self.samples[i].state.attitude.to_matrix();
        let force = body.apply_transposed(acceleration + Vec3::new(0.0, 0.0, GRAVITY_M_S2));
        (force, body.apply_transposed(velocity(i)))
    }

    /// The attitude from the gyroscope, drawn to motion capture's: the mean of a pass forwards and one backwards.
    fn follow_gyro(&mut self) {
        let part = 1.0 - libm_exp(-math::TAU * ATTITUDE_CROSSOVER_HZ * DT_S);
        let forwards = self.drawn(self.samples.iter(), part, DT_S);
        let mut backwards = self.drawn(self.samples.iter().rev(), part, -DT_S);
        backwards.reverse();
        for ((sample, ahead), back) in self.samples.iter_mut().zip(forwards).zip(backwards) {
            let apart = rotation_vector(ahead.conjugate() * back);
            sample.state.attitude = ahead.integrate_body_rate(apart, 0.5);
        }
    }

    fn drawn<'a>(&self, samples: impl Iterator<Item = &'a Sample>, part: f32, dt_s: f32) -> Vec<Quat> {
        let mut before: Option<(Quat, Vec3)> = None;
        samples
            .map(|sample| {
                let State { attitude: target, rates, .. } = sample.state;
                let attitude = match before {
                    None => target,
                    Some((attitude, last_rates)) => {
                        let turned = attitude.integrate_body_rate((rates + last_rates) * 0.5, dt_s);
                        turned.integrate_body_rate(rotation_vector(turned.conjugate() * target), part)
                    }
                };
                before = Some((attitude, rates));
                attitude
            })
            .collect()
    }
}

/// Who flew: the official firmware logs zeros for the PID while Mellinger's controller flies.
fn official_controller(rows: &[Row]) -> Option<Controller> {
    let in_air = || rows.iter().filter(|row| row.is_flying);
    in_air().next()?.pid_thrust?;
    let by_pid = in_air().filter(|row| row.pid_thrust.is_some_and(|thrust| thrust > 0.0)).count();
    Some(if 2 * by_pid > in_air().count() { Controller::Pid } else { Controller::StockMellinger })
}

/// e to the x: only here, never on the drone.
#[allow(clippy::disallowed_methods, reason = "statistics, not simulation")]
fn libm_exp(x: f32) -> f32 {
    x.exp()
}

/// The rotation as axis times angle, rad; the shorter way round.
pub fn rotation_vector(q: Quat) -> Vec3 {
    let q = if q.w < 0.0 { Quat::new(-q.w, -q.x, -q.y, -q.z) } else { q };
    let v = Vec3::new(q.x, q.y, q.z);
    let sine = v.norm();
    if sine < 1e-6 { v * 2.0 } else { v * (2.0 * math::atan2(sine, q.w) / sine) }
}

/// The middle one; 0 of none.
fn median(mut values: Vec<f32>) -> f32 {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Rows by their time, asked in about rising order.
pub(crate) struct Cursor<'a> {
    rows: &'a [Row],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(rows: &'a [Row]) -> Self {
        Self { rows, at: 0 }
    }

    /// The row at a time, between the two nearest; the first and the last go on for ever.
    pub(crate) fn at(&mut self, time_s: f64) -> Row {
        while self.at > 0 && self.rows[self.at].time_s > time_s {
            self.at -= 1;
        }
        while self.at + 2 < self.rows.len() && self.rows[self.at + 1].time_s <= time_s {
            self.at += 1;
        }
        let (Some(a), Some(b)) = (self.rows.get(self.at), self.rows.get(self.at + 1)) else {
            return self.rows.last().copied().unwrap_or_default();
        };
        let part = ((time_s - a.time_s) / (b.time_s - a.time_s)).clamp(0.0, 1.0) as f32;
        let number = |a: f32, b: f32| a + (b - a) * part;
        let vector = |a: Vec3, b: Vec3| a + (b - a) * part;
        let turn = |a: Quat, b: Quat| a.integrate_body_rate(rotation_vector(a.conjugate() * b), part);
        let mut pwm = a.pwm;
        pwm.iter_mut().zip(b.pwm).for_each(|(a, b)| *a = number(*a, b));
        let near = if part < 0.5 { a } else { b };
        Row {
            time_s,
            position_m: vector(a.position_m, b.position_m),
            attitude: turn(a.attitude, b.attitude),
            velocity_m_s: vector(a.velocity_m_s, b.velocity_m_s),
            gyro_rad_s: vector(a.gyro_rad_s, b.gyro_rad_s),
            acc_m_s2: vector(a.acc_m_s2, b.acc_m_s2),
            pwm,
            battery_v: number(a.battery_v, b.battery_v),
            offset_s: a.offset_s + (b.offset_s - a.offset_s) * f64::from(part),
            imu_gap: a.imu_gap || b.imu_gap,
            motor_gap: a.motor_gap || b.motor_gap,
            ..*near
        }
    }
}
