//! How well the drone's state estimator does on recorded flights: the very filter that flies is given the recorded
//! gyroscope and accelerometer, and motion capture as a drone would get it, and is compared with motion capture.
//!
//! It runs on motion capture's clock: the drone's rows are moved by the recorded offset. Motion capture's object is
//! not aligned with the drone, and nobody knows how: the mean rotation between the two is removed before attitudes
//! are compared, for each flight and each estimate.

use serde::Serialize;
use steady_common::estimator::{Estimator, Imu, Mocap, Noise};
use steady_common::{Quat, Vec3, math};

use crate::flight::{Cursor, MIN_FLIGHT_S, rotation_vector};
use crate::recording::{Recording, RecordingError, Row};
use crate::score::tilt_between;

/// The filter's steps in a second, as on the drone.
const STEPS_HZ: f64 = 1000.0;
/// Steps between two frames of motion capture, and between two comparisons.
const FRAME_STEPS: u32 = 10;
/// Comparisons begin this long after take-off and end this long before landing, s.
const SKIP_S: (f64, f64) = (1.0, 1.5);

/// What the filter is told, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Standard deviation of positions, m.
    pub position_std_m: f32,
    /// Standard deviation of attitudes, rad; `None` for a single marker, of which only the position is seen.
    pub attitude_std_rad: Option<f32>,
    /// How old motion capture is when the filter gets it, s.
    pub delay_s: f64,
    /// How old the filter thinks it is, s.
    pub told_delay_s: f32,
    /// Drag in the filter's prediction, 1/s.
    pub drag_per_s: f32,
}

impl Setup {
    /// Poses as Crazyswarm gives them: 1 mm, 0.05 rad; no drag, and nothing said of the delay.
    #[must_use]
    pub fn pose(delay_s: f64) -> Self {
        Self {
            position_std_m: 0.001,
            attitude_std_rad: Some(0.05),
            delay_s,
            told_delay_s: 0.0,
            drag_per_s: 0.0,
        }
    }

    /// Positions of a single marker with 10 mm; no drag, and nothing said of the delay.
    #[must_use]
    pub fn position(delay_s: f64) -> Self {
        Self { position_std_m: 0.01, attitude_std_rad: None, ..Self::pose(delay_s) }
    }
}

/// Root mean squares over a flight, or their means over flights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Velocity, m/s.
    pub velocity_m_s: f64,
    /// Tilt, degrees.
    pub tilt_deg: f64,
    /// Yaw, degrees.
    pub yaw_deg: f64,
}

impl Errors {
    /// The mean of several flights'; each counts the same.
    #[must_use]
    pub fn mean(all: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| all.iter().map(field).sum::<f64>() / all.len().max(1) as f64;
        Self {
            velocity_m_s: of(|e| e.velocity_m_s),
            tilt_deg: of(|e| e.tilt_deg),
            yaw_deg: of(|e| e.yaw_deg),
        }
    }
}

/// A flight that an estimator can be judged by.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Where it is from.
    pub name: String,
    /// Motion capture, by its own time.
    captured: Vec<Row>,
    /// What the drone measured, by motion capture's time.
    onboard: Vec<Row>,
    /// Comparisons begin and end, s.
    compared_s: (f64, f64),
}

impl Judge {
    /// The flights of a recording; pieces too short to use are left out.
    ///
    /// # Errors
    /// If no piece is long enough.
    pub fn all(recording: &Recording) -> Result<Vec<Self>, RecordingError> {
        let flights: Vec<Self> =
            recording.pieces.iter().filter_map(|rows| Self::new(&recording.name, rows)).collect();
        if flights.is_empty() {
            return Err(RecordingError::NoFlight {
                file: recording.name.clone(),
                min_s: MIN_FLIGHT_S,
                why: format!("{} pieces", recording.pieces.len()),
            });
        }
        Ok(flights)
    }

    fn new(name: &str, rows: &[Row]) -> Option<Self> {
        let flying = |row: &&Row| row.is_flying;
        let (take_off_s, landing_s) = (rows.iter().find(flying)?.time_s, rows.iter().rfind(flying)?.time_s);
        if landing_s - take_off_s < MIN_FLIGHT_S {
            return None;
        }
        let mut onboard: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            let time_s = row.time_s - row.offset_s;
            // The offset is an estimate that may jump: what would go back in time is left out.
            if onboard.last().is_none_or(|last| last.time_s < time_s) {
                onboard.push(Row { time_s, ..*row });
            }
        }
        let compared_s = (take_off_s + SKIP_S.0, landing_s - SKIP_S.1);
        Some(Self { name: name.to_owned(), captured: rows.to_vec(), onboard, compared_s })
    }

    /// Errors of our filter.
    ///
    /// # Errors
    /// When the filter diverges: the time, s.
    pub fn ours(&self, setup: &Setup) -> Result<Errors, Diverged> {
        let (Some(first), Some(last)) = (self.captured.first(), self.captured.last()) else {
            return Ok(Errors::default());
        };
        let mut onboard = Cursor::new(&self.onboard);
        let (mut truth, mut seen) = (Cursor::new(&self.captured), Cursor::new(&self.captured));
        let yaw = first.attitude.to_euler().z;
        let mut filter = Estimator::new(Noise::DEFAULT, first.position_m, yaw, 0).with_drag(setup.drag_per_s);
        let mut comparisons = Vec::new();
        for step in 0..((last.time_s - first.time_s) * STEPS_HZ) as u32 {
            let time_s = first.time_s + f64::from(step) / STEPS_HZ;
            let is_frame = step.is_multiple_of(FRAME_STEPS);
            let mocap = is_frame.then(|| {
                let frame = seen.at(time_s - setup.delay_s);
                Mocap {
                    position: frame.position_m,
                    position_std: setup.position_std_m,
                    attitude: setup.attitude_std_rad.map(|std| (frame.attitude, std)),
                    age_s: setup.told_delay_s,
                }
            });
            let felt = onboard.at(time_s);
            let imu = Imu { accelerometer: felt.acc_m_s2, gyro: felt.gyro_rad_s };
            // As the firmware has it: it flies while its motors run.
            let is_flying = felt.pwm.iter().any(|pwm| *pwm > 0.0);
            if filter.tick(step, &imu, mocap.as_ref(), is_flying).is_err() {
                return Err(Diverged { time_s });
            }
            if is_frame && self.is_compared(time_s) {
                let estimate = filter.state();
                comparisons.push(Comparison::new(estimate.velocity, estimate.attitude, &truth.at(time_s)));
            }
        }
        Ok(errors(&comparisons))
    }

    /// Errors of the estimate that the drone sent; `None` when it was not recorded.
    #[must_use]
    pub fn logged(&self) -> Option<Errors> {
        let mut truth = Cursor::new(&self.captured);
        let mut comparisons = Vec::new();
        for row in self.onboard.iter().filter(|row| self.is_compared(row.time_s)) {
            let estimate = row.estimate?;
            comparisons.push(Comparison::new(
                estimate.velocity_m_s,
                estimate.attitude,
                &truth.at(row.time_s),
            ));
        }
        (!comparisons.is_empty()).then(|| errors(&comparisons))
    }

    fn is_compared(&self, time_s: f64) -> bool {
        time_s >= self.compared_s.0 && time_s <= self.compared_s.1
    }
}

/// The filter has diverged.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the estimator diverges at {time_s:.2} s")]
pub struct Diverged {
    /// When, s.
    pub time_s: f64,
}

/// An estimate beside motion capture.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    velocity_error: Vec3,
    estimated: Quat,
    captured: Quat,
}

impl Comparison {
    fn new(velocity: Vec3, attitude: Quat, truth: &Row) -> Self {
        Self { velocity_error: velocity - truth.velocity_m_s, estimated: attitude, captured: truth.attitude }
    }
}

fn errors(comparisons: &[Comparison]) -> Errors {
    let count = comparisons.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Comparison) -> f64| comparisons.iter().map(of).sum::<f64>() / count;
    let turn = |c: &Comparison| rotation_vector(c.captured.conjugate() * c.estimated);
    let mount = Vec3::new(
        mean(&|c| f64::from(turn(c).x)) as f32,
        mean(&|c| f64::from(turn(c).y)) as f32,
        mean(&|c| f64::from(turn(c).z)) as f32,
    );
    let aligned = |c: &Comparison| c.captured.integrate_body_rate(mount, 1.0);
    let rms = |of: &dyn Fn(&Comparison) -> f32| {
        math::sqrt_f64(mean(&|c| {
            let error = f64::from(of(c));
            error * error
        }))
    };
    let yaw = |c: &Comparison| {
        let apart = c.estimated.to_euler().z - aligned(c).to_euler().z;
        let (sin, cos) = math::sin_cos(apart);
        math::atan2(sin, cos)
    };
    Errors {
        velocity_m_s: rms(&|c| c.velocity_error.norm()),
        tilt_deg: rms(&|c| tilt_between(c.estimated, aligned(c))).to_degrees(),
        yaw_deg: rms(&yaw).to_degrees(),
    }
}
