//! The native drone: the firmware's own flight step (filters, estimator, supervisor, planner, control
//! law) compiled for the PC, in closed loop with the simulator.
//!
//! It flies what the drone flies, more than a hundred times faster than real time. What it leaves out is
//! the board: registers, radio packets, the card. For those there is the virtual Crazyflie, which executes
//! the image; both fly the same [`Plant`](steady_sim::Plant) by the same [`Script`].
//!
//! ```
//! use steady_native::{Plan, fly};
//! use steady_sim::{PlantParams, Task, World};
//!
//! let world = PlantParams::new(&World::named("paper")?)?;
//! let flown = fly(&world, &Plan::new(Task::Hover), |_sample| {});
//! assert!(flown.failure.is_none() && flown.is_landed);
//! println!("{}", flown.metrics.unwrap_or_default().line());
//! # Ok::<(), steady_sim::WorldError>(())
//! ```
#![forbid(unsafe_code)]

pub mod closed_loop;
pub mod log;
mod run;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use steady_common::exploration::Exploration;
use steady_common::gains_record::GainsRecord;
use steady_common::inputs_record::Inputs;
use steady_common::transition::Transition;
use steady_common::{Action, Controller, GainTable, Reference, State};
use steady_firmware::settings::Settings;
use steady_sim::script::Course;
use steady_sim::{FlightMetrics, PlantParams, Script, Task};

pub use closed_loop::ClosedLoop;

/// When a flight ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// On the floor, disarmed.
    #[default]
    Landed,
    /// With the part that counts, in the air.
    TaskEnd,
}

/// What is flown, and with what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The task.
    pub task: Task,
    /// The gain table in the drone's flash.
    pub table: GainTable,
    /// The last table that completed a flight, which the gain guard falls back to; the built-in one if
    /// `None`.
    pub proven: Option<GainTable>,
    /// Who computes the action.
    pub controller: Controller,
    /// Exploration noise.
    pub exploration: Exploration,
    /// Drag that the drone's estimator assumes, 1/s.
    pub drag_per_s: f32,
    /// How old the drone thinks motion capture is when it arrives, ms.
    pub delay_ms: u16,
    /// What the estimator is given is logged too.
    pub log_inputs: bool,
    /// The same seed gives the same flight, bit for bit.
    pub seed: u64,
    /// When the flight ends.
    pub until: Until,
}

impl Plan {
    /// A task with the built-in gains and without noise, until it has landed.
    #[must_use]
    pub fn new(task: Task) -> Self {
        let localization = Settings::new().localization;
        Self {
            task,
            table: GainTable::built_in(),
            proven: None,
            controller: Controller::default(),
            exploration: Exploration::DEFAULT,
            drag_per_s: localization.drag_per_s,
            delay_ms: localization.delay_ms,
            log_inputs: false,
            seed: 1,
            until: Until::default(),
        }
    }
}

/// One control step as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time since power-on, s.
    pub time_s: f32,
    /// Where the drone was.
    pub truth: State,
    /// Where its estimator put it.
    pub estimate: State,
    /// Where it should have been.
    pub reference: Reference,
    /// What the rotors gave. What the controller asked for is in [`Flown::records`].
    pub action: Action,
    /// Motor powers, full scale 65535.
    pub pwm: [u16; 4],
    /// Battery voltage, V.
    pub battery_v: f32,
    /// The step counts in the metrics.
    pub counts: bool,
}

/// The result of a flight.
#[derive(Clone, Debug)]
pub struct Flown {
    /// How well the part that counts was flown, by the simulator's truth.
    pub metrics: Option<FlightMetrics>,
    /// Why the flight was not flown to its end, or did not land; `None` for a good one.
    pub failure: Option<String>,
    /// The gain guard took the table out of flight.
    pub guard_tripped: bool,
    /// The table completed its first flight.
    pub table_proven: bool,
    /// The drone stands upright on the floor with its motors off.
    pub is_landed: bool,
    /// The log records of all control steps from arming to disarming.
    pub records: Vec<Transition>,
    /// The gains that flew: at the first record, and wherever they changed.
    pub gains: Vec<GainsRecord>,
    /// What the estimator was given, if the plan says so.
    pub inputs: Vec<Inputs>,
}

impl Flown {
    /// Writes the flight's log, in the format of the drone's card.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_log(&self, path: &Path) -> io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut writer =
            if self.inputs.is_empty() { log::Writer::new(file)? } else { log::Writer::with_inputs(file)? };
        let mut gains = self.gains.iter().peekable();
        let mut inputs = self.inputs.iter().peekable();
        for record in &self.records {
            while let Some(inputs) = inputs.next_if(|inputs| inputs.time_us() <= record.time_us) {
                writer.inputs(inputs)?;
            }
            while let Some(gains) = gains.next_if(|gains| gains.time_us <= record.time_us) {
                writer.gains(gains)?;
            }
            writer.step(record)?;
        }
        for inputs in inputs {
            writer.inputs(inputs)?;
        }
        writer.finish().map(|_| ())
    }
}

/// Flies a task. `sample` is called for every control step from arming on.
pub fn fly(world: &PlantParams, plan: &Plan, sample: impl FnMut(&Sample)) -> Flown {
    fly_course(world, plan, Course::Task(plan.task), sample)
}

/// The same with a course instead of the plan's task.
pub fn fly_course(world: &PlantParams, plan: &Plan, course: Course, sample: impl FnMut(&Sample)) -> Flown {
    run::script(world, plan, Script::new(course), sample)
}

/// Flies references one control step after the other, as streamed full-state set-points; the plan's task
/// does not matter.
///
/// The drone starts on the floor below the first reference and takes off to it, or is streamed from the
/// floor when the references begin there. All of them count.
pub fn fly_references(
    world: &PlantParams,
    plan: &Plan,
    references: &[Reference],
    sample: impl FnMut(&Sample),
) -> Flown {
    run::references(world, plan, references, sample)
}
