//! The flight step: from an inertial sample to four motors, a log record and a telemetry snapshot.
//!
//! [`Flight::step`] runs once per inertial sample, 1000 times a second; every second time it
//! controls. It waits for nothing and allocates nothing. Commands come in between steps through
//! [`Flight::command`].

pub mod descent;
pub mod imu;
pub mod pilots;
pub mod tables;

use steady_common::commander::{Command, Commander, Follower, HighLevel, Refusal, Setpoint, Source};
use steady_common::estimator::{Estimator, Imu, Mocap};
use steady_common::exploration::Explorer;
use steady_common::gains_record::GainsRecord;
use steady_common::guard::{self, Measured};
use steady_common::inputs_record::Tick;
use steady_common::planner::{Phase, Planner};
use steady_common::stock::SupplyFilter;
use steady_common::supervisor::{Blockers, Directive, Facts, Supervisor};
use steady_common::transition::{Flags, Transition};
use steady_common::{Action, Reference, State, Vec3, math, supervisor};

use crate::drivers::bmp388::AirReading;
use crate::settings::{Controller, MotorTest, Settings};
use crate::telemetry::{Pilot, Telemetry};
use descent::{Descent, Sink};
use imu::{Conditioner, Vibration};
use pilots::{ControlOutput, Pilots, Target, Vertical, attitude_setpoint, velocity_setpoint};
use tables::Tables;
pub use tables::{Boot, Event};

/// Time between two flight steps, µs.
pub const STEP_US: u32 = 1000;
/// Time between two control steps, s.
pub const CONTROL_DT: f32 = 0.002;
/// Flight steps per control step.
const STEPS_PER_CONTROL: u32 = 2;

/// A motion capture frame further than this from a fresh estimate is rejected, m.
const MAX_JUMP_M: f32 = 0.5;
/// Initial velocity uncertainty of an estimator restarted in the air, m/s.
const LOST_SPEED: f32 = 1.0;
/// Speed below which a drone that holds its place hovers, m/s.
const HOVER_SPEED: f32 = 0.2;
/// Distance from the reference below which it does, m.
const HOVER_ERROR_M: f32 = 0.15;

/// Distance from the reference from which on a drone that does not move is stuck, m.
const STUCK_ERROR_M: f32 = 0.5;
/// It does not move while it stays this near to one place, m.
const STUCK_RADIUS_M: f32 = 0.05;
/// A motor test ends this long after the last request, ms.
pub const MOTOR_TEST_MS: u32 = 3000;
/// Highest power of a motor in a test, of 65536: on the floor one motor alone does not turn the drone over.
pub const MAX_TEST_POWER: u16 = 32_768;

/// Up to this height above where it took off it stands on the floor, m.
const FLOOR_M: f32 = 0.15;

/// What the board measures for one flight step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensors {
    /// Raw inertial sample.
    pub imu: Imu,
    /// Battery, V.
    pub battery_v: f32,
    /// All sensors have passed their tests and answer.
    pub healthy: bool,
    /// The card is there and has room.
    pub card_ready: bool,
    /// Pressure and temperature, when it was their turn.
    pub barometer: Option<AirReading>,
}

/// What a flight step gives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Output {
    /// Motor duties M1 to M4, full scale 65535.
    pub pwm: [u16; 4],
    /// The log record, in control steps.
    pub transition: Option<Transition>,
    /// Something to keep or to tell.
    pub event: Option<Event>,
}

/// Everything that flies.
#[derive(Clone, Debug)]
pub struct Flight {
    conditioner: Conditioner,
    vibration: Vibration,
    board_ok: bool,
    estimator: Estimator,
    /// How often the estimator was started.
    estimator_starts: u32,
    /// What the estimator was given in the newest step.
    tick: Option<Tick>,
    /// Newest frame that the estimator has not seen yet.
    mocap: Option<Mocap>,
    last_mocap_ms: Option<u32>,
    last_mocap: Option<Vec3>,
    supervisor: Supervisor,
    commander: Commander,
    last_source: Source,
    planner: Planner,
    follower: Follower,
    descent: Descent,
    touchdown: bool,
    /// Where the drone last was when it moved, m.
    last_place: Vec3,
    /// Height at which the motors started, m.
    floor_m: f32,
    /// The power goes off in a moment.
    switch_off: bool,
    tables: Tables,
    pilots: Pilots,
    explorer: Explorer,
    supply: SupplyFilter,
    pwm: [u16; 4],
    /// When somebody last asked for a motor test, ms.
    test_asked_ms: Option<u32>,
    /// What a motor test gives the motors.
    test_pwm: Option<[u16; 4]>,
    now_us: u64,
    telemetry: Telemetry,
}

impl Flight {
    /// As after boot: disarmed, waiting for stillness.
    #[must_use]
    pub fn new(boot: Boot, settings: &Settings) -> Self {
        Self {
            conditioner: Conditioner::with_trims(boot.trims),
            vibration: Vibration::default(),
            board_ok: boot.board.is_supported(),
            estimator: start_estimator(settings, 0),
            estimator_starts: 0,
            tick: None,
            mocap: None,
            last_mocap_ms: None,
            last_mocap: None,
            supervisor: Supervisor::new(),
            commander: Commander::default(),
            last_source: Source::None,
            planner: Planner::default(),
            follower: Follower::default(),
            descent: Descent::default(),
            touchdown: false,
            last_place: Vec3::ZERO,
            floor_m: 0.0,
            switch_off: false,
            tables: Tables::new(boot),
            pilots: Pilots::default(),
            explorer: Explorer::new(settings.exploration.seed),
            supply: SupplyFilter::default(),
            pwm: [0; 4],
            test_asked_ms: None,
            test_pwm: None,
            now_us: 0,
            telemetry: Telemetry { mocap_age_ms: u32::MAX, ..Telemetry::default() },
        }
    }

    /// The newest snapshot.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// The gains that fly, for the log.
    #[must_use]
    pub fn gains(&self) -> GainsRecord {
        let (table, try_out) = (*self.tables.flying(), self.telemetry.table.try_out);
        GainsRecord { time_us: self.now_us, table, try_out }
    }

    /// What the estimator was given in the newest step, and the estimator after it; `None` before it runs.
    #[must_use]
    pub fn estimation(&self) -> Option<(&Tick, &Estimator)> {
        self.tick.as_ref().map(|tick| (tick, &self.estimator))
    }

    /// The high-level planner, for its trajectory memory.
    #[must_use]
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// Takes a command.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn command(&mut self, now_us: u64, command: &Command, settings: &Settings) -> Result<(), Refusal> {
        let result = self.take(milliseconds(now_us), command, settings);
        if result.is_err() {
            self.telemetry.refused_commands = self.telemetry.refused_commands.wrapping_add(1);
        }
        result
    }

    fn take(&mut self, now_ms: u32, command: &Command, settings: &Settings) -> Result<(), Refusal> {
        match *command {
            Command::Setpoint(setpoint) => self.commander.stream(setpoint, now_ms),
            Command::NotifySetpointsStop { remain_valid_ms } => {
                self.commander.stream_stops(remain_valid_ms, now_ms);
                Ok(())
            }
            Command::HighLevel(request) => self.take_high_level(now_ms, &request, settings),
            Command::WriteTrajectory { offset, length, bytes } => {
                let bytes = bytes.get(..usize::from(length)).ok_or(Refusal::Value)?;
                self.planner.write_memory(usize::from(offset), bytes)
            }
            Command::Arm(arm) => self.supervisor.arm(arm).map_err(|_| Refusal::Blocked),
            Command::EmergencyStop => {
                self.supervisor.emergency_stop();
                Ok(())
            }
            Command::EmergencyWatchdog => {
                self.supervisor.feed_watchdog(now_ms);
                Ok(())
            }
            Command::Recover => {
                if self.supervisor.recover() {
                    Ok(())
                } else {
                    Err(Refusal::Supervisor)
                }
            }
            Command::Mocap(mocap) => self.take_mocap(now_ms, mocap, settings),
            // In the air it would take the attitude away from under the controller.
            Command::ResetEstimator if self.supervisor.state().is_airborne() => Err(Refusal::Supervisor),
            Command::ResetEstimator => {
                self.start_estimator(settings, now_ms);
                self.telemetry.estimator_resets = self.telemetry.estimator_resets.wrapping_add(1);
                Ok(())
            }
            Command::SwitchOff => {
                self.switch_off = true;
                Ok(())
            }
            Command::TestMotors => {
                self.test_asked_ms = Some(now_ms);
                Ok(())
            }
        }
    }

    fn take_high_level(
        &mut self,
        now_ms: u32,
        request: &HighLevel,
        settings: &Settings,
    ) -> Result<(), Refusal> {
        if matches!(request, HighLevel::DefineTrajectory { .. }) {
            return self.planner.request(request, &Reference::default());
        }
        if !self.supervisor.state().may_fly() {
            return Err(Refusal::Supervisor);
        }
        if matches!(request, HighLevel::TakeOff { .. }) && !self.has_position(now_ms, settings) {
            return Err(Refusal::NoPosition);
        }
        let state = self.estimator.state();
        let present = Reference { yaw: state.attitude.to_euler().z, ..Reference::hover(state.position) };
        self.commander.source(now_ms);
        let mut commander = self.commander;
        commander.plan(now_ms, settings.supervisor.setpoint_warning_ms)?;
        if self.last_source == Source::Stream {
            self.hand_over(&state);
        }
        self.planner.request(request, &present)?;
        self.commander = commander;
        Ok(())
    }

    fn take_mocap(&mut self, now_ms: u32, mocap: Mocap, settings: &Settings) -> Result<(), Refusal> {
        let attitude_ok = mocap.attitude.is_none_or(|(q, std)| q.is_finite() && std > 0.0);
        let position_ok = mocap.position.is_finite() && mocap.position_std > 0.0;
        if !attitude_ok || !position_ok {
            return Err(Refusal::Value);
        }
        // A marker that jumps must not throw the drone. Without a fresh estimate it may be anywhere.
        let jump = (mocap.position - self.estimator.state().position).norm();
        let airborne = self.supervisor.state().is_airborne();
        if airborne && self.has_position(now_ms, settings) && jump > MAX_JUMP_M {
            self.telemetry.mocap_rejected = self.telemetry.mocap_rejected.wrapping_add(1);
            return Err(Refusal::Value);
        }
        self.mocap = Some(mocap);
        (self.last_mocap_ms, self.last_mocap) = (Some(now_ms), Some(mocap.position));
        let t = &mut self.telemetry;
        t.mocap_frames = t.mocap_frames.wrapping_add(1);
        t.mocap_position = mocap.position;
        if let Some((attitude, _)) = mocap.attitude {
            t.mocap_poses = t.mocap_poses.wrapping_add(1);
            t.mocap_attitude = attitude;
        }
        Ok(())
    }

    /// One flight step.
    pub fn step(&mut self, now_us: u64, sensors: &Sensors, settings: &Settings) -> Output {
        let now_ms = milliseconds(now_us);
        self.keep_time(now_us);
        self.sense(now_ms, sensors, settings);
        if !self.telemetry.timing.steps.is_multiple_of(STEPS_PER_CONTROL) {
            return Output { pwm: self.test_pwm.unwrap_or(self.pwm), ..Output::default() };
        }
        let output = self.control(now_ms, sensors, settings);
        self.test_pwm = self.motor_test(now_ms, settings);
        match self.test_pwm {
            Some(pwm) => {
                self.telemetry.pwm = pwm;
                Output { pwm, ..output }
            }
            None => output,
        }
    }

    /// Powers of the motors that somebody turns by hand: only disarmed and upright, only while it is
    /// asked for again and again.
    fn motor_test(&mut self, now_ms: u32, settings: &Settings) -> Option<[u16; 4]> {
        use supervisor::State::{PreFlightFailed, PreFlightPassed};
        let wanted = match settings.motor_test {
            MotorTest::Off => return None,
            MotorTest::Single => settings.motor_power,
            MotorTest::All => [settings.motor_power[0]; 4],
        };
        let is_asked = self.test_asked_ms.is_some_and(|at| now_ms.wrapping_sub(at) < MOTOR_TEST_MS);
        if !is_asked {
            self.test_asked_ms = None;
        }
        let forbidding = [Blockers::BOARD, Blockers::TUMBLED, Blockers::TILT, Blockers::SWITCH_OFF];
        let blockers = self.supervisor.blockers();
        let is_allowed = is_asked
            && !self.supervisor.is_armed()
            && matches!(self.supervisor.state(), PreFlightPassed | PreFlightFailed)
            && !forbidding.into_iter().any(|blocker| blockers.contains(blocker));
        is_allowed.then(|| wanted.map(|power| power.min(MAX_TEST_POWER)))
    }

    fn keep_time(&mut self, now_us: u64) {
        let timing = &mut self.telemetry.timing;
        if timing.steps > 0 {
            let gap = u32::try_from(now_us.saturating_sub(self.now_us)).unwrap_or(u32::MAX);
            if timing.steps.is_multiple_of(1_000_000 / STEP_US) {
                timing.longest_gap_us = 0;
            }
            timing.longest_gap_us = timing.longest_gap_us.max(gap);
            timing.late = timing.late.wrapping_add(u32::from(gap > STEP_US + STEP_US / 2));
        }
        timing.steps = timing.steps.wrapping_add(1);
        (self.now_us, self.telemetry.time_us) = (now_us, now_us);
    }

    /// Filters, calibrates and estimates.
    fn sense(&mut self, now_ms: u32, sensors: &Sensors, settings: &Settings) {
        if let Some(reading) = sensors.barometer {
            self.telemetry.barometer = reading;
            self.telemetry.barometer_readings = self.telemetry.barometer_readings.wrapping_add(1);
        }
        if let Some(variance) = self.vibration.update(sensors.imu.accelerometer) {
            self.telemetry.vibration = variance;
        }
        let was_calibrated = self.conditioner.is_calibrated();
        let rests = self.pwm == [0; 4] && self.test_pwm.is_none();
        if let Some(imu) = self.conditioner.update(&sensors.imu, rests) {
            self.telemetry.accelerometer = imu.accelerometer;
            self.telemetry.gyro = imu.gyro;
        }
        if !self.conditioner.is_calibrated() {
            self.tick = None;
            return;
        }
        if !was_calibrated {
            self.start_estimator(settings, now_ms);
        }
        let imu = Imu { accelerometer: self.telemetry.accelerometer, gyro: self.telemetry.gyro };
        let mocap = self.mocap.take();
        let airborne = self.supervisor.state().is_airborne();
        if self.estimator.drag_per_s().to_bits() != settings.localization.drag_per_s.to_bits() {
            self.estimator.set_drag(settings.localization.drag_per_s);
            // For a log of the inputs this is a start: what it computes does not follow from them.
            self.estimator_starts = self.estimator_starts.wrapping_add(1);
        }
        if self.estimator.tick(now_ms, &imu, mocap.as_ref(), airborne).is_err() {
            self.restart_estimator(now_ms, settings);
        }
        let (time_us, starts) = (self.now_us, self.estimator_starts);
        self.tick = Some(Tick { time_us, imu, mocap, flying: airborne, starts });
    }

    fn start_estimator(&mut self, settings: &Settings, now_ms: u32) {
        self.estimator = start_estimator(settings, now_ms);
        self.estimator_starts = self.estimator_starts.wrapping_add(1);
    }

    /// The estimator has diverged: it starts again where motion capture sees the drone, if it does,
    /// with the heading it had.
    fn restart_estimator(&mut self, now_ms: u32, settings: &Settings) {
        let mut localization = settings.localization;
        let yaw = self.estimator.state().attitude.to_euler().z;
        if yaw.is_finite() {
            localization.initial_yaw = yaw;
        }
        if let Some(position) = self.last_mocap.filter(|_| self.has_position(now_ms, settings)) {
            localization.initial_position = position;
        }
        if self.supervisor.state().is_airborne() {
            localization.noise.initial_velocity = LOST_SPEED;
        }
        self.start_estimator(&Settings { localization, ..*settings }, now_ms);
        self.telemetry.estimator_resets = self.telemetry.estimator_resets.wrapping_add(1);
    }

    fn mocap_age_ms(&self, now_ms: u32) -> u32 {
        self.last_mocap_ms.map_or(u32::MAX, |last| now_ms.wrapping_sub(last))
    }

    fn has_position(&self, now_ms: u32, settings: &Settings) -> bool {
        self.mocap_age_ms(now_ms) <= settings.supervisor.position_warning_ms
    }

    fn control(&mut self, now_ms: u32, sensors: &Sensors, settings: &Settings) -> Output {
        let supply_v = (0..STEPS_PER_CONTROL).fold(0.0, |_, _| self.supply.update(sensors.battery_v));
        let state = self.estimator.state();
        let source = self.source(now_ms, &state);
        let directive = self.supervise(now_ms, sensors, settings, supply_v, source, &state);
        let trusted = self.has_position(now_ms, settings);
        let target = match directive {
            Directive::Off => Target::Off,
            Directive::Fly => self.wanted(source, settings.controller, &state),
            Directive::LevelOut => self.descent.target(Sink::Stay, trusted, &state),
            Directive::Descend if self.switch_off => self.descent.target(Sink::Hurry, trusted, &state),
            Directive::Descend => self.descent.target(Sink::Gently, trusted, &state),
        };
        let mut event = self.follow_flight(directive, settings);

        let pilot = Pilots::who(settings.controller, &target);
        self.pilots.prepare(pilot, settings);
        if matches!(directive, Directive::LevelOut | Directive::Descend) {
            self.pilots.set_hover_thrust(self.descent.hover_thrust());
        }
        if let (Pilot::Differentiable, Target::Path { reference, .. }) = (pilot, &target)
            && self.supervisor.state().is_airborne()
        {
            // Before the law computes: gains that leave the envelope do not fly this step any more.
            let steps = source == Source::Stream
                && directive == Directive::Fly
                && matches!(self.commander.setpoint(), Setpoint::Position { .. });
            event = self.tables.watch(&settings.guard, &measure(&state, reference, steps)).or(event);
        }
        let noise = self.noise(directive, pilot, settings);
        let mut record = Transition {
            time_us: self.now_us,
            sequence: self.telemetry.sequence.wrapping_add(1),
            state,
            dt_s: CONTROL_DT,
            battery_v: sensors.battery_v,
            ..Transition::default()
        };
        record.set_law_memory(self.pilots.memory());
        let propeller = settings.propeller.curve();
        let mut flown = self.pilots.fly(&target, self.tables.flying(), &state, noise, propeller);
        let request = flown.request.compensated(propeller, supply_v);
        self.pwm = if target == Target::Off { [0; 4] } else { request.cap().0 };
        flown.saturated |= request.is_over();

        self.touchdown =
            directive == Directive::Descend && self.descent.has_landed(flown.applied.thrust, &state);
        if directive == Directive::Fly && self.supervisor.state().is_airborne() {
            self.descent.watch(flown.applied.thrust, &state);
        }
        self.report(now_ms, sensors, settings, &target, &flown, noise);
        self.telemetry.motor_request = request.0;
        self.complete(&mut record, &flown, directive, trusted);
        Output { pwm: self.pwm, transition: Some(record), event }
    }

    /// Who is listened to; when a stream ends in the air, the planner holds the place.
    fn source(&mut self, now_ms: u32, state: &State) -> Source {
        let source = self.commander.source(now_ms);
        if source == Source::Planner && self.last_source == Source::Stream {
            self.hand_over(state);
        }
        self.last_source = source;
        source
    }

    /// From streamed set-points to the planner.
    fn hand_over(&mut self, state: &State) {
        let flies = self.supervisor.state().is_airborne() && *self.commander.setpoint() != Setpoint::Stop;
        if flies {
            let near = (self.telemetry.reference.position - state.position).norm() < HOVER_ERROR_M;
            let here = Reference { yaw: state.attitude.to_euler().z, ..Reference::hover(state.position) };
            let reference = if near { self.telemetry.reference } else { here };
            self.planner.follow(&reference);
        } else {
            self.planner.stop();
        }
        self.last_source = Source::Planner;
    }

    fn supervise(
        &mut self,
        now_ms: u32,
        sensors: &Sensors,
        settings: &Settings,
        supply_v: f32,
        source: Source,
        state: &State,
    ) -> Directive {
        let needs_position = match source {
            Source::None => false,
            Source::Planner => self.planner.status().phase != Phase::Idle,
            Source::Stream => self.commander.setpoint().needs_position(),
        };
        let stuck = self.is_stuck(now_ms, settings, state);
        let facts = Facts {
            now_ms,
            board_ok: self.board_ok,
            sensors_ok: sensors.healthy
                && sensors.imu.gyro.is_finite()
                && sensors.imu.accelerometer.is_finite(),
            calibrated: self.conditioner.is_calibrated(),
            table_ok: self.tables.is_good(&settings.try_out),
            card_ok: sensors.card_ready || !settings.logging_required,
            accelerometer: self.telemetry.accelerometer,
            up: state.attitude.to_matrix().z.z,
            battery_v: supply_v,
            motors_run: self.pwm.iter().any(|pwm| *pwm > 0),
            setpoint_age_ms: self.commander.age_ms(now_ms),
            needs_position,
            position_age_ms: self.mocap_age_ms(now_ms),
            position: state.position,
            touchdown: core::mem::take(&mut self.touchdown),
            guard_tripped: matches!(self.tables.guard(), guard::Status::Tripped(_)),
            stop: settings.stop,
            stuck,
            switch_off: self.switch_off,
        };
        self.supervisor.update(&settings.supervisor, &facts)
    }

    /// Told to be somewhere else, and stands on the floor: a motor is dead, or something holds it. (In
    /// the air a drone may hang back for a while too: it is heavy, and its gains are weak.)
    fn is_stuck(&mut self, now_ms: u32, settings: &Settings, state: &State) -> bool {
        let t = &self.telemetry;
        // The velocity is of no use here: forces the estimator does not know of bend it.
        if (state.position - self.last_place).norm() > STUCK_RADIUS_M {
            self.last_place = state.position;
            return false;
        }
        let follows = matches!(t.pilot, Pilot::Differentiable | Pilot::StockMellinger | Pilot::Pid);
        follows
            && self.has_position(now_ms, settings)
            && (t.reference.position - state.position).norm() > STUCK_ERROR_M
            && state.position.z < self.floor_m + FLOOR_M
    }

    /// What was commanded, as a target.
    fn wanted(&mut self, source: Source, controller: Controller, state: &State) -> Target {
        let yaw = state.attitude.to_euler().z;
        let setpoint = *self.commander.setpoint();
        if source != Source::Stream || !matches!(setpoint, Setpoint::Velocity { .. } | Setpoint::Hover { .. })
        {
            self.follower.restart();
        }
        match source {
            Source::None => Target::Off,
            Source::Planner => self.planner.advance(CONTROL_DT).map_or(Target::Off, Target::along),
            Source::Stream => match setpoint {
                Setpoint::Stop => Target::Off,
                Setpoint::Position { position, yaw } => {
                    Target::along(Reference { yaw, ..Reference::hover(position) })
                }
                Setpoint::FullState { reference, rates } => Target::Path { reference, rates },
                Setpoint::Velocity { velocity, yaw_rate } => {
                    self.velocity(controller, state, velocity, None, yaw_rate)
                }
                Setpoint::Hover { forward, left, yaw_rate, height } => {
                    let (s, c) = math::sin_cos(yaw);
                    let velocity = Vec3::new(c * forward - s * left, s * forward + c * left, 0.0);
                    self.velocity(controller, state, velocity, Some(height), yaw_rate)
                }
                Setpoint::HeightAttitude { roll, pitch, yaw_rate, height } => {
                    let vertical = Vertical::Height(height);
                    Target::Modes(attitude_setpoint(roll, pitch, yaw_rate, false, vertical))
                }
                Setpoint::ClimbAttitude { roll, pitch, yaw_rate, climb } => {
                    let vertical = Vertical::Climb(climb);
                    Target::Modes(attitude_setpoint(roll, pitch, yaw_rate, false, vertical))
                }
                Setpoint::Manual { roll, pitch, yaw_rate, thrust, rates } => {
                    let vertical = Vertical::Thrust(thrust);
                    Target::Modes(attitude_setpoint(roll, pitch, yaw_rate, rates, vertical))
                }
            },
        }
    }

    /// A velocity, by the PID's own velocity mode or as a reference that moves along.
    fn velocity(
        &mut self,
        controller: Controller,
        state: &State,
        velocity: Vec3,
        height: Option<f32>,
        yaw_rate: f32,
    ) -> Target {
        if controller == Controller::Pid {
            return Target::Modes(velocity_setpoint(velocity, false, height, yaw_rate));
        }
        let yaw = state.attitude.to_euler().z;
        let reference = self.follower.advance(state.position, yaw, velocity, height, yaw_rate, CONTROL_DT);
        Target::along(reference)
    }

    /// Beginning and end of flights: guard, noise, planner.
    fn follow_flight(&mut self, directive: Directive, settings: &Settings) -> Option<Event> {
        use supervisor::State::{Flying, Landed, Reset};
        let (before, now) = (self.telemetry.supervisor, self.supervisor.state());
        let airborne = now.is_airborne();
        if !airborne || self.is_hovering(directive) {
            self.tables.choose(&settings.try_out, &settings.guard, airborne);
        }
        let mut event = None;
        if airborne && !before.is_airborne() {
            self.floor_m = self.telemetry.state.position.z;
            self.tables.start(&settings.guard);
            self.explorer = Explorer::new(settings.exploration.seed);
        } else if before == Flying && (now == Landed || now == Reset && self.has_come_down()) {
            // Landed and left alone, or landed and disarmed.
            event = self.tables.complete();
        } else if before.is_airborne() && !airborne {
            self.tables.abandon();
        }
        if !now.may_fly() {
            self.planner.stop();
            self.commander.silence();
        }
        event
    }

    /// The motors stand still, and the drone is where they started.
    fn has_come_down(&self) -> bool {
        self.pwm == [0; 4] && self.telemetry.state.position.z < self.floor_m + FLOOR_M
    }

    fn is_hovering(&self, directive: Directive) -> bool {
        let t = &self.telemetry;
        let status = self.planner.status();
        directive == Directive::Fly
            && self.last_source == Source::Planner
            && status.phase == Phase::Flying
            && status.finished
            && t.state.velocity.norm() < HOVER_SPEED
            && (t.state.position - t.reference.position).norm() < HOVER_ERROR_M
    }

    /// Exploration noise: only in the free flight of proven or watched gains, not in landings.
    fn noise(&mut self, directive: Directive, pilot: Pilot, settings: &Settings) -> Action {
        let explores = settings.exploration.enabled
            && directive == Directive::Fly
            && pilot == Pilot::Differentiable
            && self.supervisor.state() == supervisor::State::Flying
            && self.planner.status().phase != Phase::Landing
            && !matches!(self.tables.guard(), guard::Status::Tripped(_));
        if explores { self.explorer.draw(&settings.exploration) } else { Action::default() }
    }

    /// Fills the snapshot.
    fn report(
        &mut self,
        now_ms: u32,
        sensors: &Sensors,
        settings: &Settings,
        target: &Target,
        flown: &ControlOutput,
        noise: Action,
    ) {
        let planner = self.planner.status();
        let reference = match target {
            Target::Path { reference, .. } => *reference,
            Target::Modes(s) => Reference { velocity: s.velocity, ..Reference::hover(s.position) },
            Target::Off => Reference::default(),
        };
        self.telemetry = Telemetry {
            state: self.estimator.state(),
            position_std: self.estimator.position_std(),
            gyro_bias: self.conditioner.bias(),
            calibrated: self.conditioner.is_calibrated(),
            mocap_age_ms: self.mocap_age_ms(now_ms),
            reference,
            controller: settings.controller,
            pilot: flown.pilot,
            memory: *self.pilots.memory(),
            action: flown.action,
            noise,
            saturated: flown.saturated,
            pwm: self.pwm,
            battery_v: sensors.battery_v,
            supply_v: self.supply.volts(),
            supervisor: self.supervisor.state(),
            supervisor_info: self.supervisor.info(planner.info_bits()),
            blockers: self.supervisor.blockers(),
            landing_cause: self.supervisor.landing_cause(),
            guard: self.tables.guard(),
            table: self.tables.status(),
            planner,
            sequence: self.telemetry.sequence.wrapping_add(1),
            ..self.telemetry
        };
    }

    /// Fills the rest of the log record from the snapshot.
    fn complete(&self, record: &mut Transition, flown: &ControlOutput, directive: Directive, trusted: bool) {
        let t = &self.telemetry;
        record.reference = t.reference;
        record.action = flown.action;
        record.applied = flown.applied;
        record.pwm = t.pwm;
        record.table = t.table.sequence;
        record.controller = match flown.pilot {
            Pilot::Attitude => Controller::Pid as u8,
            pilot => pilot as u8,
        };
        record.supervisor = t.supervisor as u8;
        record.guard = t.guard.code();
        record.flags = record
            .flags
            .with(Flags::SATURATED, flown.saturated)
            .with(Flags::NOISE, t.noise != Action::default())
            .with(Flags::TRY_OUT, t.table.try_out)
            .with(Flags::MOTORS_ON, directive != Directive::Off)
            .with(Flags::FLYING, t.supervisor.is_airborne())
            .with(Flags::MOCAP, trusted)
            .with(Flags::LAW, flown.pilot == Pilot::Differentiable);
    }
}

fn milliseconds(us: u64) -> u32 {
    // Wraps after 49 days, which everything that takes differences can stand.
    (us / 1000) as u32
}

fn start_estimator(settings: &Settings, now_ms: u32) -> Estimator {
    let l = &settings.localization;
    let position = if l.initial_position.is_finite() { l.initial_position } else { Vec3::ZERO };
    let yaw = if l.initial_yaw.is_finite() { l.initial_yaw } else { 0.0 };
    Estimator::new(l.noise, position, yaw, now_ms).with_drag(l.drag_per_s)
}

/// What the gain guard looks at. A place that was set at once (`steps`) says nothing about tracking.
fn measure(state: &State, reference: &Reference, steps: bool) -> Measured {
    let up = math::clamp(state.attitude.to_matrix().z.z, -1.0, 1.0);
    Measured {
        tracking_m: if steps { 0.0 } else { (state.position - reference.position).norm() },
        tilt_rad: math::FRAC_PI_2 - math::asin(up),
        rate_rad_s: state.rates.norm(),
    }
}
