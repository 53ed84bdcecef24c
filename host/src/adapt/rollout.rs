//! Rollouts: logged flights as they would have been with other gains.
//!
//! The learned dynamics say where other actions would have taken the states of logged flights. With gains
//! changed by δ (as logarithms), the law adds J δ to its action, where J is the law's derivative at the state: its
//! value in the flight, and how it changes with the state. So the closed loop itself, and its modes, change with
//! δ. The exploration noise is subtracted: a rollout is a flight without it.

use steady_common::Gains;
use steady_common::dual::Dual;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::{REWARD_CONSTANT, RewardInputs, RewardWeights, layout};
use tch::{Kind, Tensor, no_grad};

use super::dynamics::{Linear, PATH_COLUMNS, STATE_LEN, path_columns, place, state_index};
use super::flights::FlightTransition;

/// Values that the reward looks at: position error, roll and pitch, velocity, rates, action.
const REWARD_INPUTS: usize = 15;
/// Where each group of them begins in the observation.
const INPUT_GROUPS: [(usize, usize); 5] = [
    (layout::POSITION.start, 3),
    (layout::EULER.start, 2),
    (layout::VELOCITY.start, 3),
    (layout::RATES.start, 3),
    (layout::LAST_ACTION.start, 4),
];
/// Rounds a norm's corner at zero, so that it has a derivative.
const CORNER: f32 = 1e-6;
/// A rollout whose state deviates this far from the flight's has diverged.
const MAX_DEVIATION: f64 = 50.0;

/// A change of the gains' logarithms.
pub type Delta = [f64; GAIN_COUNT];
type State = [f64; STATE_LEN];
/// ∂a/∂θ.
type Jacobian = [Delta; 4];

/// One transition of a flight.
#[derive(Clone, Debug)]
struct Moment {
    /// Whether a flight begins with it.
    first: bool,
    inputs: [f64; REWARD_INPUTS],
    jacobian: Jacobian,
    noise: [f64; 4],
}

/// Logged flights, ready to be rolled out with other gains.
#[derive(Clone, Debug)]
pub struct Rollout {
    moments: Vec<Moment>,
    /// How ∂a/∂θ changes with each value of the state.
    d_jacobian_d_state: Box<[[State; GAIN_COUNT]; 4]>,
    /// Control steps of a moment, over the number of flights: sums are rewards of a flight.
    per_flight: f64,
}

impl Rollout {
    /// Of transitions that were flown with `gains`; each has `length` control steps.
    pub fn new(transitions: &[&FlightTransition], gains: &Gains, length: usize) -> Self {
        let gains = gains.to_array().map(f64::from);
        let mut flight = None;
        let moments: Vec<Moment> = transitions
            .iter()
            .map(|t| Moment {
                first: flight.replace(t.flight) != Some(t.flight),
                inputs: inputs(t),
                jacobian: t.jacobian.map(|row| std::array::from_fn(|i| f64::from(row[i]) * gains[i])),
                noise: t.offset.map(f64::from),
            })
            .collect();
        let flights = moments.iter().filter(|m| m.first).count().max(1);
        let d_jacobian_d_state = d_jacobian_d_state(transitions, &moments);
        Self { moments, d_jacobian_d_state, per_flight: length as f64 / flights as f64 }
    }

    /// Reward of a flight without its constant if the gains had been changed by δ, and its gradient; `None` if
    /// the rollout diverges.
    pub fn reward(&self, dynamics: &Linear, delta: &Delta) -> Option<(f64, Delta)> {
        let closed = self.closed_loop(dynamics, delta);
        let deviations = self.deviations(dynamics, &closed, delta)?;
        let (mut total, mut gradient) = (0.0, [0.0; GAIN_COUNT]);
        // ∂R/∂s of the next state, from the last moment backwards.
        let mut adjoint = [0.0; STATE_LEN];
        for (moment, deviation) in self.moments.iter().zip(&deviations).rev() {
            // The action changes with δ by the jacobian here, and the next state with the action.
            for (k, effect) in dynamics.b.iter().enumerate() {
                let value = dot(effect, &adjoint);
                for (i, g) in gradient.iter_mut().enumerate() {
                    *g += value * (moment.jacobian[k][i] + dot(&self.d_jacobian_d_state[k][i], deviation));
                }
            }
            let mut here = [0.0; STATE_LEN];
            for (value, row) in here.iter_mut().zip(closed.iter()) {
                *value = dot(row, &adjoint);
            }
            let reward = reward(&moment.inputs, deviation);
            total += reward.value - f64::from(REWARD_CONSTANT);
            for (index, slope) in reward_indices().zip(reward.partials) {
                here[index] += slope;
            }
            adjoint = if moment.first { [0.0; STATE_LEN] } else { here };
        }
        Some((total * self.per_flight, gradient.map(|g| g * self.per_flight)))
    }

    /// What each value of the state does to the next with gains changed by δ.
    fn closed_loop(&self, dynamics: &Linear, delta: &Delta) -> Box<[State; STATE_LEN]> {
        let mut closed = dynamics.a.clone();
        for (slopes, effect) in self.d_jacobian_d_state.iter().zip(&dynamics.b) {
            for (v, row) in closed.iter_mut().enumerate() {
                let feedback: f64 = slopes.iter().zip(delta).map(|(b, d)| b[v] * d).sum();
                row.iter_mut().zip(effect).for_each(|(to, e)| *to += feedback * e);
            }
        }
        closed
    }

    /// How far the rollout's states are from the flight's.
    fn deviations(
        &self,
        dynamics: &Linear,
        closed: &[State; STATE_LEN],
        delta: &Delta,
    ) -> Option<Vec<State>> {
        let mut deviation = [0.0; STATE_LEN];
        let mut all = Vec::with_capacity(self.moments.len());
        for moment in &self.moments {
            if moment.first {
                deviation = [0.0; STATE_LEN];
            }
            all.push(deviation);
            let mut next = [0.0; STATE_LEN];
            for (value, row) in deviation.iter().zip(closed) {
                next.iter_mut().zip(row).for_each(|(to, e)| *to += value * e);
            }
            for ((jacobian, noise), effect) in moment.jacobian.iter().zip(moment.noise).zip(&dynamics.b) {
                let action = dot(jacobian, delta) - noise;
                next.iter_mut().zip(effect).for_each(|(to, e)| *to += action * e);
            }
            // A NaN compares false and has diverged too.
            if !next.iter().all(|v| v.abs() < MAX_DEVIATION) {
                return None;
            }
            deviation = next;
        }
        Some(all)
    }
}

/// Least squares of ∂a/∂θ on the state and the path: the law is all but linear in its errors.
fn d_jacobian_d_state(
    transitions: &[&FlightTransition],
    moments: &[Moment],
) -> Box<[[State; GAIN_COUNT]; 4]> {
    let columns = STATE_LEN as i64 + PATH_COLUMNS;
    let x: Vec<f64> = transitions
        .iter()
        .flat_map(|t| {
            let state = (0..STATE_LEN).map(|v| t.from[place(v)]);
            state.chain(path_columns(&t.path)).map(f64::from)
        })
        .collect();
    let y: Vec<f64> = moments.iter().flat_map(|m| m.jacobian).flatten().collect();
    let found = no_grad(|| {
        let x = Tensor::from_slice(&x).view([-1, columns]);
        let y = Tensor::from_slice(&y).view([-1, (4 * GAIN_COUNT) as i64]);
        let scale = x.square().mean_dim(0, true, Kind::Double).sqrt().clamp_min(1e-9);
        let x = x / &scale;
        let n = transitions.len().max(1) as f64;
        let square = x.tr().matmul(&x) / n + Tensor::eye(columns, (Kind::Double, tch::Device::Cpu)) * 1e-4;
        let slopes = Tensor::linalg_solve(&square, &(x.tr().matmul(&y) / n), true) / scale.tr();
        Vec::<f64>::try_from(slopes.narrow(0, 0, STATE_LEN as i64).reshape([-1])).unwrap_or_default()
    });
    let mut all = Box::new([[[0.0; STATE_LEN]; GAIN_COUNT]; 4]);
    for (v, row) in found.chunks(4 * GAIN_COUNT).enumerate() {
        for (to, from) in all.iter_mut().flatten().zip(row) {
            to[v] = *from;
        }
    }
    all
}

/// What the reward looked at: not the observation's attitude and rates, which are relative to the path.
fn inputs(transition: &FlightTransition) -> [f64; REWARD_INPUTS] {
    let step = &transition.start;
    let RewardInputs { position, tilt, velocity, rates, action } =
        RewardInputs::new(&step.state, &step.reference, &step.last);
    let mut values =
        position.into_iter().chain(tilt).chain(velocity).chain(rates).chain(action).map(f64::from);
    std::array::from_fn(|_| values.next().unwrap_or(0.0))
}

/// Where the reward's inputs stand in the state.
fn reward_indices() -> impl Iterator<Item = usize> {
    INPUT_GROUPS.into_iter().flat_map(|(start, length)| (start..start + length).map(state_index))
}

/// The reward at a deviation from the flight, with its derivatives by the inputs.
fn reward(inputs: &[f64; REWARD_INPUTS], deviation: &State) -> Dual<f64, REWARD_INPUTS> {
    let mut at = inputs.iter().zip(reward_indices()).enumerate().map(|(k, (input, index))| {
        let mut partials = [0.0; REWARD_INPUTS];
        partials[k] = 1.0;
        Dual { value: input + deviation[index], partials }
    });
    let mut next = || at.next().unwrap_or(Dual::constant(0.0));
    let inputs = RewardInputs {
        position: std::array::from_fn(|_| next()),
        tilt: std::array::from_fn(|_| next()),
        velocity: std::array::from_fn(|_| next()),
        rates: std::array::from_fn(|_| next()),
        action: std::array::from_fn(|_| next()),
    };
    inputs.reward(&RewardWeights::PAPER, CORNER)
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
