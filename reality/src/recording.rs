//! Recorded flights as CSV, plain or gzipped: motion capture beside what the drone sent or logged.
//!
//! The columns and their units are in `docs/reality.md`. A file that cannot be what it says (a column missing,
//! text for a number, time going backwards) is an error that names row and column. A row with a value that no
//! Crazyflie has is refused, and the flight is cut there: telemetry that is extrapolated after the radio was
//! lost looks like that.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use steady_common::{Quat, Vec3};
use thiserror::Error;

/// A longer time between two rows cuts a flight, s.
pub const MAX_ROW_DISTANCE_S: f64 = 0.1;
/// No Crazyflie's sensors or motors have more: rates, rad/s, specific force, m/s², command.
pub(crate) const MAX_RATE_RAD_S: f64 = 40.0;
pub(crate) const MAX_FORCE_M_S2: f64 = 240.0;
pub(crate) const MAX_PWM: f64 = 65_535.0;
/// Nor a battery less or more, V.
pub(crate) const BATTERY_V: [f64; 2] = [2.0, 5.0];
/// A drone higher than this flies, for files that do not say it, m.
pub(crate) const FLYING_HEIGHT_M: f32 = 0.3;
/// The first two bytes of a gzipped file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A column: its name, and what its values can be.
struct Column {
    name: &'static str,
    low: f64,
    high: f64,
    is_required: bool,
}

const fn needed(name: &'static str, low: f64, high: f64) -> Column {
    Column { name, low, high, is_required: true }
}

const fn optional(name: &'static str, low: f64, high: f64) -> Column {
    Column { name, low, high, is_required: false }
}

/// All columns, in the order of [`Row::new`].
const COLUMNS: [Column; 48] = [
    needed("time_s", -1e6, 1e9),
    needed("vicon_x_m", -30.0, 30.0),
    needed("vicon_y_m", -30.0, 30.0),
    needed("vicon_z_m", -5.0, 30.0),
    needed("vicon_qw", -1.01, 1.01),
    needed("vicon_qx", -1.01, 1.01),
    needed("vicon_qy", -1.01, 1.01),
    needed("vicon_qz", -1.01, 1.01),
    needed("vicon_vx_m_s", -20.0, 20.0),
    needed("vicon_vy_m_s", -20.0, 20.0),
    needed("vicon_vz_m_s", -20.0, 20.0),
    needed("gyro_x_rad_s", -MAX_RATE_RAD_S, MAX_RATE_RAD_S),
    needed("gyro_y_rad_s", -MAX_RATE_RAD_S, MAX_RATE_RAD_S),
    needed("gyro_z_rad_s", -MAX_RATE_RAD_S, MAX_RATE_RAD_S),
    needed("acc_x_m_s2", -MAX_FORCE_M_S2, MAX_FORCE_M_S2),
    needed("acc_y_m_s2", -MAX_FORCE_M_S2, MAX_FORCE_M_S2),
    needed("acc_z_m_s2", -MAX_FORCE_M_S2, MAX_FORCE_M_S2),
    needed("m1_pwm", 0.0, MAX_PWM),
    needed("m2_pwm", 0.0, MAX_PWM),
    needed("m3_pwm", 0.0, MAX_PWM),
    needed("m4_pwm", 0.0, MAX_PWM),
    needed("vbat_v", BATTERY_V[0], BATTERY_V[1]),
    optional("offset_s", -5.0, 5.0),
    optional("flying", 0.0, 1.0),
    optional("imu_gap", 0.0, 1.0),
    optional("motor_gap", 0.0, 1.0),
    optional("ekf_gap", 0.0, 1.0),
    optional("ekf_x_m", -30.0, 30.0),
    optional("ekf_y_m", -30.0, 30.0),
    optional("ekf_z_m", -5.0, 30.0),
    optional("ekf_vx_m_s", -20.0, 20.0),
    optional("ekf_vy_m_s", -20.0, 20.0),
    optional("ekf_vz_m_s", -20.0, 20.0),
    optional("ekf_qw", -1.01, 1.01),
    optional("ekf_qx", -1.01, 1.01),
    optional("ekf_qy", -1.01, 1.01),
    optional("ekf_qz", -1.01, 1.01),
    optional("set_x_m", -30.0, 30.0),
    optional("set_y_m", -30.0, 30.0),
    optional("set_z_m", -5.0, 30.0),
    optional("set_yaw_rad", -10.0, 10.0),
    optional("pid_roll_rad", -10.0, 10.0),
    optional("pid_pitch_rad", -10.0, 10.0),
    optional("pid_yaw_rad", -10.0, 10.0),
    optional("pid_thrust", 0.0, 65_535.0),
    optional("ekf_ax_m_s2", -240.0, 240.0),
    optional("ekf_ay_m_s2", -240.0, 240.0),
    optional("ekf_az_m_s2", -240.0, 240.0),
];

/// Why a recording cannot be used.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {error}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The file is not a table.
    #[error("{file}: not a CSV table: {message}")]
    Table {
        /// The file.
        file: String,
        /// Where and what.
        message: String,
    },
    /// A column is not there.
    #[error(
        "{file}: there is no column `{column}`{hint}; docs/reality.md lists the columns of a recorded flight"
    )]
    Column {
        /// The file.
        file: String,
        /// The missing one.
        column: &'static str,
        /// A similar one that is there.
        hint: String,
    },
    /// A cell is not a number.
    #[error("{file}: row {row}, column {column}: `{text}` is not a number")]
    Number {
        /// The file.
        file: String,
        /// Counted from 1, the heading not included.
        row: usize,
        /// The column.
        column: &'static str,
        /// What is there.
        text: String,
    },
    /// Time does not go on.
    #[error("{file}: row {row}, column time_s: {time_s} s after {before_s} s: time goes backwards")]
    Backwards {
        /// The file.
        file: String,
        /// Counted from 1.
        row: usize,
        /// The row's time, s.
        time_s: f64,
        /// The row's before, s.
        before_s: f64,
    },
    /// Nothing is left.
    #[error("{file}: no flight of at least {min_s} s without a gap: {why}")]
    NoFlight {
        /// The file.
        file: String,
        /// The shortest that is of use, s.
        min_s: f64,
        /// What there is instead.
        why: String,
    },
}

/// One row. Frames: world z up; body x forward, y left, z up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// The row's time on the clock of motion capture, s.
    pub time_s: f64,
    /// Motion capture's position, m, world.
    pub position_m: Vec3,
    /// Motion capture's attitude, its object to world.
    pub attitude: Quat,
    /// Motion capture's velocity, m/s, world.
    pub velocity_m_s: Vec3,
    /// Gyroscope, rad/s, body.
    pub gyro_rad_s: Vec3,
    /// Accelerometer, m/s², body.
    pub acc_m_s2: Vec3,
    /// What the motors M1..M4 got, of 65535.
    pub pwm: [f32; 4],
    /// Battery under load, V.
    pub battery_v: f32,
    /// The drone's columns show what happened at `time_s - offset_s`, s.
    pub offset_s: f64,
    /// Whether the drone is in the air.
    pub is_flying: bool,
    /// Gyroscope and accelerometer are interpolated over lost packets.
    pub imu_gap: bool,
    /// The motors' commands are interpolated over lost packets.
    pub motor_gap: bool,
    /// The estimate is interpolated over lost packets.
    pub estimate_gap: bool,
    /// The drone's own estimate, if it was recorded.
    pub estimate: Option<Estimate>,
    /// The set-point, if it was recorded: position, m, and yaw, rad.
    pub set_point: Option<(Vec3, f32)>,
    /// The thrust that the official PID asked for, if it was recorded; 0 while another controller flies.
    pub pid_thrust: Option<f32>,
}

/// The drone's own estimate, world frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Position, m.
    pub position_m: Vec3,
    /// Velocity, m/s.
    pub velocity_m_s: Vec3,
    /// Attitude, body to world.
    pub attitude: Quat,
}

impl Row {
    /// A row from the values of [`COLUMNS`]; those that are not in the file are NaN.
    fn new(v: &[f64; COLUMNS.len()]) -> Self {
        let at = |i: usize| Vec3::new(v[i] as f32, v[i + 1] as f32, v[i + 2] as f32);
        let quat = |i: usize| Quat::new(v[i] as f32, v[i + 1] as f32, v[i + 2] as f32, v[i + 3] as f32);
        let flag = |i: usize| v[i] > 0.5;
        let estimate = Estimate { position_m: at(27), velocity_m_s: at(30), attitude: quat(33).normalized() };
        let has = |columns: std::ops::Range<usize>| v[columns].iter().all(|v| v.is_finite());
        Self {
            time_s: v[0],
            position_m: at(1),
            attitude: quat(4).normalized(),
            velocity_m_s: at(8),
            gyro_rad_s: at(11),
            acc_m_s2: at(14),
            pwm: [v[17] as f32, v[18] as f32, v[19] as f32, v[20] as f32],
            battery_v: v[21] as f32,
            offset_s: if v[22].is_nan() { 0.0 } else { v[22] },
            is_flying: if v[23].is_nan() { v[3] as f32 > FLYING_HEIGHT_M } else { flag(23) },
            imu_gap: flag(24),
            motor_gap: flag(25),
            estimate_gap: flag(26),
            estimate: has(27..37).then_some(estimate),
            set_point: has(37..41).then(|| (at(37), v[40] as f32)),
            pid_thrust: has(44..45).then_some(v[44] as f32),
        }
    }
}

/// A recorded flight, cut where it has gaps.
#[derive(Clone, Debug)]
pub struct Recording {
    /// File name without its endings.
    pub name: String,
    /// Rows in a row: within a piece no gap in time and no refused row.
    pub pieces: Vec<Vec<Row>>,
    /// Rows that were refused.
    pub refused: usize,
    /// The first of them, in words.
    pub first_refused: Option<String>,
}

impl Recording {
    /// Reads a file, plain or gzipped.
    ///
    /// # Errors
    /// If the file cannot be read or is not a recorded flight.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed = |error| RecordingError::Read { file: path.display().to_string(), error };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let is_gzipped = file.fill_buf().map_err(failed)?.starts_with(&GZIP);
        let stem = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = stem.trim_end_matches(".gz").trim_end_matches(".csv");
        if is_gzipped {
            Self::read(flate2::read::MultiGzDecoder::new(file), path, stem)
        } else {
            Self::read(file, path, stem)
        }
    }

    fn read(source: impl Read, path: &Path, name: &str) -> Result<Self, RecordingError> {
        let file = || path.display().to_string();
        let failed = |error: csv::Error| match error.into_kind() {
            csv::ErrorKind::Io(error) => RecordingError::Read { file: file(), error },
            kind => RecordingError::Table { file: file(), message: format!("{kind:?}") },
        };
        let mut table = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
        let heading = table.headers().map_err(failed)?.clone();
        let mut places = [None; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(&COLUMNS) {
            *place = heading.iter().position(|name| name == column.name);
            if place.is_none() && column.is_required {
                let others = heading.iter().filter(|name| COLUMNS.iter().all(|c| c.name != *name));
                let hint = steady_sim::suggest::did_you_mean(column.name, others);
                return Err(RecordingError::Column { file: file(), column: column.name, hint });
            }
        }
        let mut recording =
            Self { name: name.to_owned(), pieces: Vec::new(), refused: 0, first_refused: None };
        let mut piece: Vec<Row> = Vec::new();
        let mut before_s = f64::NEG_INFINITY;
        for (number, record) in table.records().enumerate() {
            let (record, row) = (record.map_err(failed)?, number + 1);
            let mut values = [f64::NAN; COLUMNS.len()];
            let mut refused = None;
            for ((value, place), column) in values.iter_mut().zip(places).zip(&COLUMNS) {
                let Some(place) = place else { continue };
                let text = record.get(place).unwrap_or_default();
                *value = text.parse().map_err(|_| RecordingError::Number {
                    file: file(),
                    row,
                    column: column.name,
                    text: text.to_owned(),
                })?;
                if !(column.low..=column.high).contains(value) && refused.is_none() {
                    let (low, high) = (column.low, column.high);
                    refused = Some(format!(
                        "row {row}, column {}: {value} is not from {low} to {high}",
                        column.name
                    ));
                }
            }
            let time_s = values[0];
            if time_s <= before_s {
                return Err(RecordingError::Backwards { file: file(), row, time_s, before_s });
            }
            let is_cut = refused.is_some() || time_s - before_s > MAX_ROW_DISTANCE_S;
            before_s = time_s;
            if is_cut && !piece.is_empty() {
                recording.pieces.push(std::mem::take(&mut piece));
            }
            if refused.is_some() {
                recording.refused += 1;
                recording.first_refused = recording.first_refused.or(refused);
            } else {
                piece.push(Row::new(&values));
            }
        }
        if !piece.is_empty() {
            recording.pieces.push(piece);
        }
        Ok(recording)
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.pieces.iter().flatten()
    }
}
