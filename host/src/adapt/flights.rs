//! Logged flights, windowed into transitions of the training's length.

use steady_common::law::{self, Memory, Vehicle};
use steady_common::observation::{OBSERVATION_LEN, observe};
use steady_common::transition::Transition as Record;
use steady_common::{Action, Gains, Quat, Reference, State, Vec3};

use crate::train::env::{Jacobian, TrainingTask};

/// Values beyond this are implausible, whatever their unit.
const MAX_PLAUSIBLE: f32 = 1e4;
/// Faster turns of the reference are jumps, rad/s.
const MAX_REFERENCE_RATE: f32 = 20.0;

/// One control step: what the law was given, and what the motors were asked for.
#[derive(Clone, Copy, Debug)]
pub struct ControlStep {
    /// The estimate.
    pub state: State,
    pub reference: Reference,
    /// The law's memory before the step.
    pub memory: Memory,
    /// The action of the step before.
    pub last: Action,
    /// The action with its noise.
    pub applied: Action,
    /// The noise alone: what was applied beside the action of the law that flew.
    pub noise: Action,
    /// The step's length, s.
    pub dt_s: f32,
    /// How fast a drone turns that follows the reference exactly, rad/s.
    pub reference_rates: Vec3,
}

/// Control steps without a gap between them.
#[derive(Clone, Debug, Default)]
pub struct FlightData {
    /// In order.
    pub steps: Vec<ControlStep>,
    /// Number of the iteration that flew it: later ones have newer gains.
    pub iteration: usize,
}

impl FlightData {
    /// Consecutive flying records of the differentiable law; where another controller flew, or a record is
    /// missing, another flight begins. Those shorter than `min_steps` are left out.
    pub fn from_records(records: &[Record], min_steps: usize) -> Vec<Self> {
        let mut flights = Vec::new();
        let mut steps: Vec<ControlStep> = Vec::new();
        for pair in records.windows(2) {
            let [previous, record] = pair else { continue };
            let step = record.is_law_flight().then(|| ControlStep::from_record(record, previous)).flatten();
            match step {
                Some(step) => steps.push(step),
                None => flights.push(std::mem::take(&mut steps)),
            }
        }
        flights.push(steps);
        flights
            .into_iter()
            .filter(|steps| steps.len() >= min_steps.max(1))
            .map(|steps| Self { steps, ..Self::default() })
            .collect()
    }
}

impl ControlStep {
    fn from_record(record: &Record, previous: &Record) -> Option<Self> {
        if !record.follows(previous) {
            return None;
        }
        let memory = record.law_memory(Some(previous))?;
        let step = Self {
            state: record.state,
            reference: record.reference,
            memory,
            last: previous.applied,
            applied: record.applied,
            noise: Action::from_array(std::array::from_fn(|i| {
                record.applied.into_array()[i] - record.action.into_array()[i]
            })),
            dt_s: record.dt_s,
            reference_rates: reference_rates(&previous.reference, &record.reference, record.dt_s),
        };
        step.is_plausible().then_some(step)
    }

    /// False when a value is non-finite or far beyond a room and a drone: least squares would fail, or follow
    /// it alone.
    pub fn is_plausible(&self) -> bool {
        let seen = self.observation().into_iter().chain(self.path());
        // A NaN compares false.
        self.dt_s > 0.0
            && self.dt_s < 1.0
            && seen.chain(self.applied.into_array()).all(|v| v.abs() < MAX_PLAUSIBLE)
    }

    fn path(&self) -> [f32; PATH_LEN] {
        let (v, a) = (self.reference.velocity, self.reference.acceleration);
        [v.x, v.y, v.z, a.x, a.y, a.z, self.reference.position.z]
    }

    /// The observation relative to a drone that follows the reference exactly: skills learned in hover then see
    /// a path as hovering along it, and not every curve as a disturbance.
    fn observation(&self) -> [f32; OBSERVATION_LEN] {
        let state = State {
            attitude: reference_attitude(&self.reference).conjugate() * self.state.attitude,
            rates: self.state.rates - self.reference_rates,
            ..self.state
        };
        observe(&state, &self.reference, &self.last, &self.memory, &self.last.motors().thrust)
    }
}

/// Values that tell how the reference moves: velocity, acceleration and height.
pub const PATH_LEN: usize = 7;

#[derive(Clone, Copy, Debug)]
pub struct FlightTransition {
    /// s.
    pub from: [f32; OBSERVATION_LEN],
    /// s′.
    pub to: [f32; OBSERVATION_LEN],
    /// a: the mean action relative to the law's.
    pub offset: [f32; 4],
    /// Mean derivative of the law by the gains.
    pub jacobian: Jacobian,
    /// How the reference moves at s and at s′.
    pub path: [[f32; PATH_LEN]; 2],
    pub start: ControlStep,
    pub flight: usize,
}

/// Transitions of flights, in the order of time and then of flights.
pub type TransitionBatch = Vec<FlightTransition>;

/// How flights are windowed into transitions: in the training's units, so that values mean the same.
#[derive(Clone, Copy, Debug)]
pub struct Windowing {
    /// Length of a transition, s.
    pub window_s: f32,
    /// Mass and integral limits that the law flew with.
    pub vehicle: Vehicle,
}

impl Windowing {
    pub fn of(task: &TrainingTask) -> Self {
        Self { window_s: task.hold as f32 * task.dt_s(), vehicle: task.vehicle }
    }

    pub fn steps_per_transition(&self, flights: &[FlightData]) -> usize {
        let first = flights.iter().find_map(|f| f.steps.first());
        first.map_or(1, |first| self.length(first))
    }

    fn length(&self, first: &ControlStep) -> usize {
        ((self.window_s / first.dt_s).round() as usize).max(1)
    }

    /// Transitions of flights, with actions relative to the law with `gains`: what was done beside what
    /// this policy would have done in the same states, whatever gains flew.
    pub fn transitions(&self, flights: &[FlightData], gains: &Gains) -> TransitionBatch {
        let mut batch = TransitionBatch::new();
        for (number, flight) in flights.iter().enumerate() {
            let Some(first) = flight.steps.first() else { continue };
            let length = self.length(first);
            let begin = noise_change(&flight.steps, length);
            let windows: Vec<&[ControlStep]> = flight.steps[begin..].chunks_exact(length).collect();
            for pair in windows.windows(2) {
                batch.push(self.transition(pair[0], &pair[1][0], gains, number));
            }
        }
        batch
    }

    fn transition(
        &self,
        window: &[ControlStep],
        next: &ControlStep,
        gains: &Gains,
        flight: usize,
    ) -> FlightTransition {
        let (mut jacobian, mut offset) = (Jacobian::default(), [0.0; 4]);
        let part = 1.0 / window.len() as f32;
        for step in window {
            let (action, slope) =
                law::jacobian(gains, &self.vehicle, &step.state, &step.reference, &step.memory, step.dt_s);
            for (m, j) in jacobian.iter_mut().flatten().zip(slope.iter().flatten()) {
                *m += part * j;
            }
            for ((o, a), b) in offset.iter_mut().zip(step.applied.into_array()).zip(action.into_array()) {
                *o += part * (a - b);
            }
        }
        FlightTransition {
            from: window[0].observation(),
            to: next.observation(),
            offset,
            jacobian,
            path: [window[0].path(), next.path()],
            start: window[0],
            flight,
        }
    }
}

/// Attitude of a drone that follows the reference exactly: its thrust gives the reference's acceleration.
pub fn reference_attitude(reference: &Reference) -> Quat {
    let yaw = Quat::from_euler(Vec3::new(0.0, 0.0, reference.yaw));
    let up = reference.acceleration + Vec3::Z * steady_common::GRAVITY_M_S2;
    let up = yaw.to_matrix().apply_transposed(up * (1.0 / up.norm().max(1e-3)));
    // The shortest turn from upright.
    yaw * Quat::new(1.0 + up.z, -up.y, up.x, 0.0).normalized()
}

fn reference_rates(before: &Reference, now: &Reference, dt_s: f32) -> Vec3 {
    let turn = reference_attitude(before).conjugate() * reference_attitude(now);
    let rates = Vec3::new(turn.x, turn.y, turn.z) * (2.0 / dt_s);
    // A reference that jumps does not turn the drone.
    if rates.norm() < MAX_REFERENCE_RATE { rates } else { Vec3::ZERO }
}

/// Where the first held noise begins: transitions must not straddle two draws.
fn noise_change(steps: &[ControlStep], length: usize) -> usize {
    // Of the noise, not of the action: sensor noise and motion capture frames make the law's own action jump.
    let jump = |i: usize| {
        let (a, b) = (steps[i].noise.into_array(), steps[i - 1].noise.into_array());
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>()
    };
    // Of all phases, the one at which it jumps most.
    (0..length.min(steps.len()))
        .map(|phase| {
            let total: f32 = (phase..steps.len()).step_by(length).filter(|i| *i > 0).map(jump).sum();
            (total, phase)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(0, |(_, phase)| phase)
}
