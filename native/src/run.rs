//! Flights from power-on to their end.

use steady_common::commander::{Command, HighLevel, Pace, Setpoint, TRAJECTORY_CHUNK};
use steady_common::gains_record::GainsRecord;
use steady_common::inputs_record::Inputs;
use steady_common::supervisor::{LandingCause, State as Supervised};
use steady_common::transition::Transition;
use steady_common::{Reference, Vec3};
use steady_firmware::flight::{Boot, CONTROL_DT, Event};
use steady_firmware::settings::Settings;
use steady_firmware::storage::InputRecorder;
use steady_sim::metrics::{Accumulator, Crash};
use steady_sim::script::{Leg, PlannerCopy};
use steady_sim::{Initial, PlantParams, Script};

use crate::{ClosedLoop, Flown, Plan, Sample, Until};

/// The pre-flight checks pass within this time, µs: calibration takes 1.3 s on a still drone.
const READY_US: u64 = 5_000_000;
/// Time between arming and the first request, µs.
const ARMED_US: u64 = 100_000;
/// How long a drone that stopped flying is watched, µs: it may still fall.
const FALL_US: u64 = 1_000_000;
/// References that begin below this height are streamed from the floor, m.
const FLOOR_M: f32 = 0.1;
/// Mean speed of a take-off to the first reference, m/s, and its shortest duration, s.
const CLIMB_M_S: f32 = 0.5;
const MIN_CLIMB_S: f32 = 2.0;
/// Rest after such a take-off and after a landing, and the duration of a landing, s.
const REST_S: f32 = 1.0;
const LAND_S: f32 = 3.0;

/// Flies a script.
pub(crate) fn script(world: &PlantParams, plan: &Plan, script: Script, sample: impl FnMut(&Sample)) -> Flown {
    let mut run = Run::new(world, plan, sample);
    let result = run.fly_script(&script, plan.until);
    run.finish(result, plan.until, script.counted_s())
}

/// Flies references.
pub(crate) fn references(
    world: &PlantParams,
    plan: &Plan,
    references: &[Reference],
    sample: impl FnMut(&Sample),
) -> Flown {
    let mut run = Run::new(world, plan, sample);
    let result = run.fly_references(world, references, plan.until);
    run.finish(result, plan.until, references.len() as f32 * CONTROL_DT)
}

struct Run<F> {
    drone: ClosedLoop,
    planner: PlannerCopy,
    totals: Accumulator,
    is_logging: bool,
    guard_tripped: bool,
    table_proven: bool,
    records: Vec<Transition>,
    gains: Vec<GainsRecord>,
    /// Makes records of the estimator's inputs, if they are wanted.
    recorder: Option<InputRecorder>,
    inputs: Vec<Inputs>,
    sample: F,
}

impl<F: FnMut(&Sample)> Run<F> {
    fn new(world: &PlantParams, plan: &Plan, sample: F) -> Self {
        let mut settings =
            Settings { controller: plan.controller, exploration: plan.exploration, ..Settings::new() };
        settings.localization.drag_per_s = plan.drag_per_s;
        settings.localization.delay_ms = plan.delay_ms;
        Self {
            drone: ClosedLoop::new(world, plan.seed, Boot::new(Some(plan.table), plan.proven), settings),
            planner: PlannerCopy::default(),
            totals: Accumulator::new(f64::from(CONTROL_DT)),
            is_logging: false,
            guard_tripped: false,
            table_proven: false,
            records: Vec::new(),
            gains: Vec::new(),
            recorder: plan.log_inputs.then(InputRecorder::default),
            inputs: Vec::new(),
            sample,
        }
    }

    /// One millisecond; `wanted` gives the reference of a control step and whether it counts.
    fn step(&mut self, wanted: impl FnOnce(&mut PlannerCopy) -> Option<(Reference, bool)>) {
        let output = self.drone.step();
        match output.event {
            Some(Event::GuardTripped { .. }) => self.guard_tripped = true,
            Some(Event::TableProven { .. }) => self.table_proven = true,
            None => {}
        }
        if let Some(recorder) = self.recorder.as_mut().filter(|_| self.is_logging) {
            recorder.add(self.drone.flight().estimation(), |inputs| self.inputs.push(inputs));
        }
        let Some(record) = output.transition.filter(|_| self.is_logging) else { return };
        let gains = self.drone.flight().gains();
        if self.gains.last().is_none_or(|last| last.table != gains.table || last.try_out != gains.try_out) {
            self.gains.push(gains);
        }
        self.records.push(record);
        let (truth, action) = (*self.drone.plant.truth(), self.drone.plant.action());
        let (reference, counts) = wanted(&mut self.planner).unwrap_or((record.reference, false));
        if counts {
            self.totals.add(&truth, &reference, &action);
        }
        (self.sample)(&Sample {
            time_s: self.drone.time_s(),
            truth,
            estimate: record.state,
            reference,
            action,
            pwm: output.pwm,
            battery_v: record.battery_v,
            counts,
        });
    }

    /// Lets time pass on the floor.
    fn wait(&mut self, duration_us: u64) {
        let end = self.drone.now_us() + duration_us;
        while self.drone.now_us() < end {
            self.step(|_| None);
        }
    }

    fn state(&self) -> Supervised {
        self.drone.telemetry().supervisor
    }

    fn command(&mut self, what: &str, command: &Command) -> Result<(), String> {
        self.drone.command(command).map_err(|refusal| {
            format!("the drone refused {what} at {:.2} s: {refusal:?}", self.drone.time_s())
        })
    }

    /// Waits for the pre-flight checks and arms.
    fn arm(&mut self) -> Result<(), String> {
        while self.state() != Supervised::PreFlightPassed {
            if self.drone.now_us() > READY_US {
                return Err(format!("the drone does not get ready: {:?}", self.drone.telemetry().blockers));
            }
            self.step(|_| None);
        }
        self.is_logging = true;
        self.command("to arm", &Command::Arm(true))?;
        self.wait(ARMED_US);
        Ok(())
    }

    /// A drone that stopped by itself is watched until it lies still.
    fn stopped(&mut self, what: &str) -> Result<(), String> {
        let t = self.drone.telemetry();
        let (state, cause, time_s) = (t.supervisor, t.landing_cause, self.drone.time_s());
        let landed_itself = state == Supervised::Landed && cause != LandingCause::None;
        if state.may_fly() && !landed_itself {
            return Ok(());
        }
        self.wait(FALL_US);
        let why = match cause {
            LandingCause::None => state.name().to_owned(),
            cause => format!("{}, {}", state.name(), cause.name()),
        };
        Err(format!("the drone ended {what} by itself at {time_s:.2} s: {why}"))
    }

    fn fly_script(&mut self, script: &Script, until: Until) -> Result<(), String> {
        let mut upload = Vec::new();
        for (chunk, bytes) in script.upload().chunks(TRAJECTORY_CHUNK).enumerate() {
            let mut buffer = [0; TRAJECTORY_CHUNK];
            buffer[..bytes.len()].copy_from_slice(bytes);
            let offset = (chunk * TRAJECTORY_CHUNK) as u16;
            upload.push(Command::WriteTrajectory { offset, length: bytes.len() as u8, bytes: buffer });
        }
        for command in &upload {
            self.command("the trajectory", command)?;
        }
        self.planner.upload(script);
        if let Some(define) = script.define() {
            self.request("the trajectory", define)?;
        }
        self.arm()?;
        let mut next = Some(Leg::TakeOff);
        while let Some(leg) = next {
            let name = match leg {
                Leg::TakeOff => "the take-off",
                Leg::Approach => "the approach",
                Leg::Task => "the task",
                Leg::Land => "the landing",
            };
            if let Some(request) = script.request(leg) {
                self.request(name, request)?;
            }
            let started_us = self.drone.now_us();
            let mut counted = false;
            while self.drone.now_us() - started_us < script.duration_us(leg) {
                let elapsed_us = self.drone.now_us() + 1000 - started_us;
                let (mut counts, is_control) = (false, self.drone.is_control_next());
                self.step(|planner| {
                    let reference = planner.advance(CONTROL_DT)?;
                    counts = script.counts(leg, elapsed_us);
                    Some((reference, counts))
                });
                if is_control {
                    if until == Until::TaskEnd && counted && !counts {
                        return Ok(());
                    }
                    counted = counts;
                }
                if leg != Leg::Land {
                    self.stopped(name)?;
                }
            }
            next = script.after(leg);
            let ends_here = next.is_some_and(|next| counted && !script.counts(next, 0));
            if until == Until::TaskEnd && ends_here {
                return Ok(());
            }
        }
        self.disarm()
    }

    /// Asks the drone's planner, and its copy.
    fn request(&mut self, what: &str, request: HighLevel) -> Result<(), String> {
        self.command(what, &Command::HighLevel(request))?;
        self.planner.request(&request, self.drone.plant.truth());
        Ok(())
    }

    fn disarm(&mut self) -> Result<(), String> {
        self.command("to disarm", &Command::Arm(false))?;
        self.wait(ARMED_US);
        self.is_logging = false;
        Ok(())
    }

    fn fly_references(
        &mut self,
        world: &PlantParams,
        references: &[Reference],
        until: Until,
    ) -> Result<(), String> {
        let first = references.first().ok_or("there are no references to fly")?;
        let floor = Vec3::new(first.position.x, first.position.y, 0.0);
        if !floor.is_finite() {
            return Err("the first reference is not finite".to_owned());
        }
        self.drone.plant.reset(&Initial::on_floor(world.params(), floor));
        self.drone.settings.localization.initial_position = floor;
        self.arm()?;
        let height = first.position.z;
        if height > FLOOR_M {
            let climb_s = (height / CLIMB_M_S).max(MIN_CLIMB_S);
            let (pace, yaw) = (Pace::Duration(climb_s), Some(first.yaw));
            self.request("the take-off", HighLevel::TakeOff { height, relative: false, yaw, pace })?;
            self.pass(climb_s + REST_S, "the take-off")?;
        }
        for reference in references {
            while !self.drone.is_control_next() {
                self.step(|_| None);
            }
            let rates = Vec3::new(0.0, 0.0, reference.yaw_rate);
            let setpoint = Setpoint::FullState { reference: *reference, rates };
            self.command("a set-point", &Command::Setpoint(setpoint))?;
            self.step(|_| Some((*reference, true)));
            self.stopped("the references")?;
        }
        if until == Until::TaskEnd {
            return Ok(());
        }
        self.command("the end of the set-points", &Command::NotifySetpointsStop { remain_valid_ms: 0 })?;
        // The planner takes over with the next control step.
        self.pass(2.0 * CONTROL_DT, "the references")?;
        let pace = Pace::Duration(LAND_S);
        self.request("the landing", HighLevel::Land { height: 0.0, relative: false, yaw: None, pace })?;
        self.wait(((LAND_S + REST_S) * 1e6) as u64);
        self.disarm()
    }

    /// Flies what the planner was asked for.
    fn pass(&mut self, duration_s: f32, what: &str) -> Result<(), String> {
        let end_us = self.drone.now_us() + (duration_s * 1e6) as u64;
        while self.drone.now_us() < end_us {
            self.step(|planner| Some((planner.advance(CONTROL_DT)?, false)));
            self.stopped(what)?;
        }
        Ok(())
    }

    fn finish(self, result: Result<(), String>, until: Until, counted_s: f32) -> Flown {
        let metrics = self.totals.finish((f64::from(counted_s) / f64::from(CONTROL_DT)).round() as usize);
        let motors_off = self.records.last().is_none_or(|record| record.pwm == [0; 4]);
        let is_landed = motors_off && self.drone.plant.is_on_floor();
        let crash = metrics.and_then(|m| m.crash).map(|crash| match crash {
            Crash::Flipped => "crashed: flipped".to_owned(),
            Crash::Lost => "crashed: lost".to_owned(),
        });
        let not_landed = || (until == Until::Landed && !is_landed).then(|| "did not land".to_owned());
        Flown {
            metrics,
            failure: result.err().or(crash).or_else(not_landed),
            guard_tripped: self.guard_tripped,
            table_proven: self.table_proven,
            is_landed,
            records: self.records,
            gains: self.gains,
            inputs: self.inputs,
        }
    }
}
