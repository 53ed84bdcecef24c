//! Flights as learning sees them: log records, cut into transitions of the training's length.

use steady_common::law::{self, Memory, Vehicle};
use steady_common::observation::{OBSERVATION_LEN, RewardWeights, observe, reward};
use steady_common::transition::Transition as Record;
use steady_common::{Action, Gains, Quat, Reference, State, Vec3};

use crate::train::env::{Collection, Jacobian, TrainingTask, Transition};

/// No value of a flight is larger, whatever its unit.
const MOST_PLAUSIBLE: f32 = 1e4;
/// Faster turns of the reference are jumps, rad/s.
const MOST_REFERENCE_RATE: f32 = 20.0;

/// One control step: what the law was given, and what the motors were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The estimate.
    pub state: State,
    /// The reference.
    pub reference: Reference,
    /// The law's memory before the step.
    pub memory: Memory,
    /// The action of the step before.
    pub last: Action,
    /// The action with its noise.
    pub applied: Action,
    /// The step's length, s.
    pub dt_s: f32,
    /// How fast a drone turns that follows the reference exactly, rad/s.
    pub reference_rates: Vec3,
}

/// Steps without a gap between them.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    /// In order.
    pub steps: Vec<Step>,
    /// True when it ended in a crash.
    pub crashed: bool,
    /// Number of the round that flew it.
    pub round: usize,
}

impl Flight {
    /// Sum of the rewards of all steps.
    #[must_use]
    pub fn reward(&self, weights: &RewardWeights) -> f64 {
        self.steps.iter().map(|s| f64::from(reward(weights, &s.state, &s.reference, &s.applied))).sum()
    }

    /// Consecutive flying records of the differentiable law; where something else flew, or a record is
    /// missing, another flight begins. Pieces shorter than `least` steps are left out.
    #[must_use]
    pub fn from_records(records: &[Record], least: usize) -> Vec<Self> {
        let mut flights = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        for pair in records.windows(2) {
            let [previous, record] = pair else { continue };
            let step = record.is_law_flight().then(|| Step::from_record(record, previous)).flatten();
            match step {
                Some(step) => steps.push(step),
                None => flights.push(std::mem::take(&mut steps)),
            }
        }
        flights.push(steps);
        flights
            .into_iter()
            .filter(|steps| steps.len() >= least.max(1))
            .map(|steps| Self { steps, ..Self::default() })
            .collect()
    }
}

impl Step {
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
            dt_s: record.dt_s,
            reference_rates: reference_rates(&previous.reference, &record.reference, record.dt_s),
        };
        step.is_plausible().then_some(step)
    }

    /// False for what no flight has: numbers that are none, or far beyond a room and a drone. Least squares would
    /// make nonsense of one such step, or fail.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let seen = self.observation().into_iter().chain(self.path());
        // Written so that what is no number is not plausible.
        self.dt_s > 0.0
            && self.dt_s < 1.0
            && seen.chain(self.applied.into_array()).all(|v| v.abs() < MOST_PLAUSIBLE)
    }

    fn path(&self) -> [f32; PATH_LEN] {
        let (v, a) = (self.reference.velocity, self.reference.acceleration);
        [v.x, v.y, v.z, a.x, a.y, a.z, self.reference.position.z]
    }

    /// The step relative to a drone that follows the reference exactly: skills learned in hovering then see
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

/// Transitions of flights, and how the reference moves at them.
#[derive(Clone, Debug, Default)]
pub struct Cuttings {
    /// The transitions.
    pub collection: Collection,
    /// The path at s of each, and at its s′.
    pub path: Vec<[[f32; PATH_LEN]; 2]>,
    /// The first control step of each.
    pub starts: Vec<Step>,
}

/// Values that tell how the reference moves: velocity, acceleration and height.
pub const PATH_LEN: usize = 7;

/// How flights are cut: in the training's units, so that values mean the same.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Length of a transition, s.
    pub window_s: f32,
    /// Discount γ of one step of the training.
    pub gamma: f32,
    /// Length of such a step, s.
    pub step_s: f32,
    /// Mass and integral limits that the law flew with.
    pub vehicle: Vehicle,
    /// Weights of the reward.
    pub weights: RewardWeights,
}

impl Cut {
    /// As a training's task has it.
    #[must_use]
    pub fn of(task: &TrainingTask) -> Self {
        Self {
            window_s: task.hold as f32 * task.dt_s(),
            gamma: task.gamma,
            step_s: task.dt_s(),
            vehicle: task.vehicle,
            weights: RewardWeights::PAPER,
        }
    }

    /// Control steps of a transition.
    #[must_use]
    pub fn steps_per_transition(&self, flights: &[Flight]) -> usize {
        let first = flights.iter().find_map(|f| f.steps.first());
        first.map_or(1, |first| ((self.window_s / first.dt_s).round() as usize).max(1))
    }

    /// Transitions of flights, with actions relative to the law with `gains`: what was done beside what
    /// this policy would have done in the same states, whoever flew.
    #[must_use]
    pub fn cut(&self, flights: &[Flight], gains: &Gains) -> Cuttings {
        let mut cuttings = Cuttings::default();
        let Cuttings { collection, path, starts } = &mut cuttings;
        for (index, flight) in (0..).zip(flights) {
            let Some(first) = flight.steps.first() else { continue };
            let length = ((self.window_s / first.dt_s).round() as usize).max(1);
            let begin = noise_change(&flight.steps, length);
            let windows: Vec<&[Step]> = flight.steps[begin..].chunks_exact(length).collect();
            for (i, window) in windows.iter().enumerate() {
                let next = windows.get(i + 1).and_then(|w| w.first());
                // The last window has no successor, but a crash needs none.
                if next.is_none() && !flight.crashed {
                    break;
                }
                let (transition, jacobian) = self.transition(window, next, gains);
                collection.transitions.push(transition);
                collection.jacobians.push(jacobian);
                collection.episodes.push(index);
                path.push([window[0].path(), next.unwrap_or(&window[0]).path()]);
                starts.push(window[0]);
            }
        }
        cuttings
    }

    fn transition(&self, window: &[Step], next: Option<&Step>, gains: &Gains) -> (Transition, Jacobian) {
        let mut jacobian = Jacobian::default();
        let mut offset = [0.0; 4];
        let (mut sum, mut discount, mut r) = (0.0, 1.0, 0.0);
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
            // As many units of reward and discount as the training's steps in this time.
            let units = step.dt_s / self.step_s;
            r = reward(&self.weights, &step.state, &step.reference, &step.applied);
            sum += discount * units * r;
            discount *= self.gamma.powf(units);
        }
        let from = window[0].observation();
        let to = next.map_or(from, Step::observation);
        if next.is_none() {
            // A crash: the rest of time counts as its moment.
            sum += discount * r / (1.0 - self.gamma);
            discount = 0.0;
        }
        (Transition { from, offset, reward: sum, to, discount }, jacobian)
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
    if rates.norm() < MOST_REFERENCE_RATE { rates } else { Vec3::ZERO }
}

/// Where the first held noise begins: the transitions must not straddle two draws.
fn noise_change(steps: &[Step], length: usize) -> usize {
    // What the law did not ask for; the law's action itself is smooth from step to step.
    let jump = |i: usize| {
        let (a, b) = (steps[i].applied.into_array(), steps[i - 1].applied.into_array());
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>()
    };
    // Of all phases, the one at which the action jumps most.
    (0..length.min(steps.len()))
        .map(|phase| {
            let total: f32 = (phase..steps.len()).step_by(length).filter(|i| *i > 0).map(jump).sum();
            (total, phase)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(0, |(_, phase)| phase)
}
