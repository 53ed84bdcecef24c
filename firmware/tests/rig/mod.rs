//! The firmware's flight step in closed loop with the simulator.
#![allow(dead_code, reason = "every test uses its part of it")]

use std::ops::{Deref, DerefMut};

use steady_common::commander::{Command, HighLevel, Pace, Refusal, Setpoint};
use steady_common::supervisor::State as Supervised;
use steady_common::transition::Transition;
use steady_common::{Quat, Reference, State, Vec3};
use steady_firmware::flight::{Boot, Event};
use steady_firmware::settings::Settings;
use steady_native::ClosedLoop;
use steady_sim::{Initial, PlantParams, World};

/// One control step as it really was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) time_s: f32,
    pub(crate) truth: State,
    pub(crate) estimate: State,
    pub(crate) reference: Reference,
    pub(crate) pwm: [u16; 4],
    pub(crate) supervisor: Supervised,
}

/// A drone with its firmware, who commands it, and a record of what happened.
pub(crate) struct Rig {
    closed_loop: ClosedLoop,
    world: PlantParams,
    pub(crate) samples: Vec<Sample>,
    pub(crate) records: Vec<Transition>,
    pub(crate) events: Vec<Event>,
    /// Streamed at 100 Hz when set.
    pub(crate) stream: Option<Box<dyn Fn(f32) -> Setpoint>>,
    stream_start_s: f32,
}

impl Deref for Rig {
    type Target = ClosedLoop;

    fn deref(&self) -> &ClosedLoop {
        &self.closed_loop
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut ClosedLoop {
        &mut self.closed_loop
    }
}

impl Rig {
    /// A drone on the floor in a world of this name.
    pub(crate) fn new(world: &str, seed: u64, boot: Boot) -> Self {
        Self::in_world(&World::named(world).unwrap(), seed, boot)
    }

    pub(crate) fn in_world(world: &World, seed: u64, boot: Boot) -> Self {
        let world = PlantParams::new(world).unwrap();
        Self {
            closed_loop: ClosedLoop::new(&world, seed, boot, Settings::new()),
            world,
            samples: Vec::new(),
            records: Vec::new(),
            events: Vec::new(),
            stream: None,
            stream_start_s: 0.0,
        }
    }

    pub(crate) fn state(&self) -> Supervised {
        self.telemetry().supervisor
    }

    pub(crate) fn command(&mut self, command: Command) -> Result<(), Refusal> {
        self.closed_loop.command(&command)
    }

    pub(crate) fn high_level(&mut self, request: HighLevel) -> Result<(), Refusal> {
        self.command(Command::HighLevel(request))
    }

    pub(crate) fn stream(&mut self, setpoint: impl Fn(f32) -> Setpoint + 'static) {
        self.stream = Some(Box::new(setpoint));
        self.stream_start_s = self.time_s();
    }

    /// Back onto its feet.
    pub(crate) fn place_on_floor(&mut self) {
        let initial = Initial::on_floor(self.world.params(), Vec3::ZERO);
        self.plant.reset(&initial);
    }

    /// Onto its back, where it is.
    pub(crate) fn turn_over(&mut self) {
        let attitude = Quat::from_euler(Vec3::new(3.0, 0.0, 0.0));
        let state = State { attitude, ..*self.plant.truth() };
        self.plant.reset(&Initial { state, ..Initial::default() });
    }

    pub(crate) fn go_to(&mut self, position: Vec3, duration: f32) -> Result<(), Refusal> {
        self.high_level(HighLevel::GoTo { relative: false, linear: false, position, yaw: 0.0, duration })
    }

    /// One millisecond.
    pub(crate) fn step(&mut self) {
        let streams = (self.now_us() + 1000).is_multiple_of(10_000);
        if let Some(setpoint) = self.stream.as_ref().filter(|_| streams) {
            let setpoint = setpoint(self.time_s() + 0.001 - self.stream_start_s);
            self.command(Command::Setpoint(setpoint)).unwrap();
        }
        let output = self.closed_loop.step();
        self.events.extend(output.event);
        let Some(record) = output.transition else { return };
        let t = self.telemetry();
        let sample = Sample {
            time_s: self.time_s(),
            truth: *self.plant.truth(),
            estimate: t.state,
            reference: t.reference,
            pwm: output.pwm,
            supervisor: t.supervisor,
        };
        if !sample.supervisor.may_fly() {
            assert_eq!(output.pwm, [0; 4], "motors run in state {}", sample.supervisor.name());
        }
        self.samples.push(sample);
        self.records.push(record);
    }

    pub(crate) fn run(&mut self, seconds: f32) {
        for _ in 0..(seconds * 1000.0) as u32 {
            self.step();
        }
    }

    /// Waits for the pre-flight checks and arms.
    pub(crate) fn arm(&mut self) {
        self.run(2.0);
        assert_eq!(self.state(), Supervised::PreFlightPassed, "{:?}", self.telemetry().blockers);
        self.command(Command::Arm(true)).unwrap();
        self.run(0.1);
        assert_eq!(self.state(), Supervised::ReadyToFly);
    }

    /// To a height in two seconds.
    pub(crate) fn take_off(&mut self, height: f32) {
        let pace = Pace::Duration(2.0);
        self.high_level(HighLevel::TakeOff { height, relative: false, yaw: None, pace }).unwrap();
    }

    /// To the floor in three seconds.
    pub(crate) fn land(&mut self) {
        let pace = Pace::Duration(3.0);
        self.high_level(HighLevel::Land { height: 0.0, relative: false, yaw: None, pace }).unwrap();
    }

    /// Armed, and hovering at 1 m for two seconds.
    pub(crate) fn hovering(&mut self) {
        self.arm();
        self.take_off(1.0);
        self.run(4.0);
        assert_eq!(self.state(), Supervised::Flying);
        let height = self.plant.truth().position.z;
        assert!((height - 1.0).abs() < 0.2, "{height}");
    }

    pub(crate) fn motors_off(&self) -> bool {
        self.samples.last().unwrap().pwm == [0; 4]
    }

    /// Mean distance between where the drone was and where it should have been, m.
    pub(crate) fn tracking_error_m(&self, from_s: f32, to_s: f32) -> f32 {
        let errors: Vec<f32> = self
            .samples
            .iter()
            .filter(|s| (from_s..to_s).contains(&s.time_s))
            .map(|s| (s.truth.position - s.reference.position).norm())
            .collect();
        errors.iter().sum::<f32>() / errors.len() as f32
    }

    /// Largest speed towards the floor, m/s, in a span of time.
    pub(crate) fn fastest_fall(&self, from_s: f32) -> f32 {
        let speeds = self.samples.iter().filter(|s| s.time_s >= from_s).map(|s| -s.truth.velocity.z);
        speeds.fold(0.0, f32::max)
    }

    /// Steepest tilt, rad, in a span of time.
    pub(crate) fn steepest_tilt(&self, from_s: f32) -> f32 {
        let tilts = self.samples.iter().filter(|s| s.time_s >= from_s);
        tilts.map(|s| s.truth.attitude.to_matrix().z.z.clamp(-1.0, 1.0).acos()).fold(0.0, f32::max)
    }
}
