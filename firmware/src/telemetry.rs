//! Everything a log variable or a status request can read, as plain data: one snapshot per flight step.

use steady_common::supervisor::{Blockers, LandingCause};
use steady_common::{Action, Quat, Reference, State, Vec3, guard, law, planner, supervisor};

use crate::drivers::bmp388::AirReading;
use crate::settings::Controller;

/// Who computed the action of the last control step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Pilot {
    /// None: motors off.
    #[default]
    None = 0,
    /// The cascaded PID along a reference.
    Pid = 1,
    /// The stock Mellinger.
    StockMellinger = 2,
    /// The cascaded PID in an attitude mode, whichever controller is chosen.
    Attitude = 3,
    /// The differentiable Mellinger.
    Differentiable = 6,
}

/// Which gains fly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveTable {
    /// Sequence number of the table; 0 for the built-in gains.
    pub sequence: u32,
    /// It has completed a flight.
    pub proven: bool,
    /// Try-out gains stand in for the table's.
    pub try_out: bool,
}

/// The loop's own health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Flight steps since boot.
    pub steps: u32,
    /// Longest time between two steps, µs, since the last second began.
    pub longest_gap_us: u32,
    /// Steps that came more than half a period late.
    pub late: u32,
}

/// One snapshot of the flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Time of the step, µs since boot.
    pub time_us: u64,
    /// Estimated state.
    pub state: State,
    /// Standard deviation of the estimated position, m.
    pub position_std: Vec3,
    /// Filtered specific force, body frame, m/s².
    pub accelerometer: Vec3,
    /// Filtered angular velocity without bias, body frame, rad/s.
    pub gyro: Vec3,
    /// Variance of the unfiltered accelerometer over the last quarter of a second, (m/s²)².
    pub vibration: Vec3,
    /// Found gyroscope bias, rad/s.
    pub gyro_bias: Vec3,
    /// The gyroscope's bias is known.
    pub calibrated: bool,
    /// Times the estimator had to start again.
    pub estimator_resets: u32,
    /// Time since motion capture last saw the drone, ms; `u32::MAX` if never.
    pub mocap_age_ms: u32,
    /// Motion capture frames taken.
    pub mocap_frames: u32,
    /// Those of them that had an attitude.
    pub mocap_poses: u32,
    /// Where motion capture last saw the drone, m.
    pub mocap_position: Vec3,
    /// The attitude it last saw.
    pub mocap_attitude: Quat,
    /// Air pressure and temperature.
    pub barometer: AirReading,
    /// Readings of the barometer.
    pub barometer_readings: u32,
    /// Motion capture frames rejected because they were too far from the estimate.
    pub mocap_rejected: u32,
    /// Where the drone should be.
    pub reference: Reference,
    /// Who is chosen to compute the action.
    pub controller: Controller,
    /// Who computed it.
    pub pilot: Pilot,
    /// Errors, integrals and derivatives of the differentiable Mellinger.
    pub memory: law::Memory,
    /// The action before noise.
    pub action: Action,
    /// Noise that was added.
    pub noise: Action,
    /// The action could not be given in full.
    pub saturated: bool,
    /// What the motors are asked for after battery compensation, before the cap (`motor.m1req` …).
    pub motor_request: [i32; 4],
    /// What the motors get (`motor.m1` …).
    pub pwm: [u16; 4],
    /// Battery, V, as measured.
    pub battery_v: f32,
    /// Battery, V, filtered.
    pub supply_v: f32,
    /// Supervisor's state.
    pub supervisor: supervisor::State,
    /// Official `supervisor.info`.
    pub supervisor_info: u16,
    /// What stands against arming.
    pub blockers: Blockers,
    /// Why the drone comes, or last came, down by itself.
    pub landing_cause: LandingCause,
    /// The gain guard.
    pub guard: guard::Status,
    /// Which gains fly.
    pub table: ActiveTable,
    /// The high-level planner.
    pub planner: planner::Status,
    /// Commands that were refused.
    pub refused_commands: u32,
    /// Control steps since boot: the sequence number of the newest transition.
    pub sequence: u32,
    /// The loop's own health.
    pub timing: Timing,
}
