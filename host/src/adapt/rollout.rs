//! Flights flown again in thought, with other gains.
//!
//! The learned dynamics say where other actions would have taken the states of flights that were really flown. With
//! gains changed by δ (as logarithms), the law adds J δ to its action, where J is the law's derivative at the
//! state: its value in the flight, and how it changes with the state. So the loop itself changes with δ, and
//! with it the modes it has. The exploration's noise is taken out on the way: the flights count as they would
//! have been without it.

use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::RewardWeights;
use tch::{Kind, Tensor, no_grad};

use super::dynamics::{Linear, PATH_COLUMNS, STATE_LEN, path_columns, place};
use super::flights::{Cuttings, Step};

/// Values that the reward looks at: position error, roll and pitch, velocity, rates, action.
const SEEN: usize = 15;
/// Where each of them stands in the state.
const PLACES: [usize; SEEN] = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Where each of the reward's five norms begins and ends.
const NORMS: [std::ops::Range<usize>; 5] = [0..3, 3..5, 5..8, 8..11, 11..15];
/// Rounds a norm's corner at zero.
const CORNER: f64 = 1e-6;
/// A state that has moved this far is lost.
const LOST: f64 = 50.0;

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
    seen: [f64; SEEN],
    jacobian: Jacobian,
    noise: [f64; 4],
}

/// Flights as they were flown.
#[derive(Clone, Debug)]
pub struct Flown {
    moments: Vec<Moment>,
    /// How ∂a/∂θ changes with each value of the state.
    bend: Box<[[State; GAIN_COUNT]; 4]>,
    /// Control steps of a moment, over the number of flights: sums are rewards of a flight.
    per_flight: f64,
}

impl Flown {
    /// The transitions with these numbers, flown with `gains`; each has `length` control steps.
    #[must_use]
    pub fn new(cuttings: &Cuttings, numbers: &[usize], gains: &Gains, length: usize) -> Self {
        let c = &cuttings.collection;
        let gains = gains.to_array().map(f64::from);
        let mut flight = None;
        let moments: Vec<Moment> = numbers
            .iter()
            .map(|&i| {
                let mut jacobian = [[0.0; GAIN_COUNT]; 4];
                for (row, j) in jacobian.iter_mut().zip(&c.jacobians[i]) {
                    row.iter_mut().zip(j).zip(&gains).for_each(|((r, j), k)| *r = f64::from(*j) * k);
                }
                Moment {
                    first: flight.replace(c.episodes[i]) != Some(c.episodes[i]),
                    seen: seen(&cuttings.starts[i]),
                    jacobian,
                    noise: c.transitions[i].offset.map(f64::from),
                }
            })
            .collect();
        let flights = moments.iter().filter(|m| m.first).count().max(1);
        let bend = bend(cuttings, numbers, &moments);
        Self { moments, bend, per_flight: length as f64 / flights as f64 }
    }

    /// Reward of a flight without its constant if the gains had been changed by δ, and its gradient; none if
    /// the drone is lost then.
    #[must_use]
    pub fn reward(&self, dynamics: &Linear, delta: &Delta) -> Option<(f64, Delta)> {
        let loop_of = self.closed(dynamics, delta);
        let away = self.away(dynamics, &loop_of, delta)?;
        let RewardWeights { position, tilt, velocity, rate, action } = RewardWeights::PAPER;
        let weights = [position, tilt, velocity, rate, action].map(f64::from);
        let (mut total, mut gradient) = (0.0, [0.0; GAIN_COUNT]);
        // What a change of the next state is worth, from the last moment backwards.
        let mut worth = [0.0; STATE_LEN];
        for (moment, away) in self.moments.iter().zip(&away).rev() {
            // The action changes with δ by the jacobian here, and the next state with the action.
            for (k, effect) in dynamics.b.iter().enumerate() {
                let value = dot(effect, &worth);
                for (i, g) in gradient.iter_mut().enumerate() {
                    *g += value * (moment.jacobian[k][i] + dot(&self.bend[k][i], away));
                }
            }
            let mut here = [0.0; STATE_LEN];
            for (value, row) in here.iter_mut().zip(loop_of.iter()) {
                *value = dot(row, &worth);
            }
            let values: [f64; SEEN] = std::array::from_fn(|k| moment.seen[k] + away[PLACES[k]]);
            for (range, weight) in NORMS.into_iter().zip(weights) {
                let norm = (values[range.clone()].iter().map(|v| v * v).sum::<f64>() + CORNER).sqrt();
                total -= weight * norm;
                range.for_each(|k| here[PLACES[k]] -= weight * values[k] / norm);
            }
            worth = if moment.first { [0.0; STATE_LEN] } else { here };
        }
        Some((total * self.per_flight, gradient.map(|g| g * self.per_flight)))
    }

    /// What each value of the state does to the next with gains changed by δ.
    fn closed(&self, dynamics: &Linear, delta: &Delta) -> Box<[State; STATE_LEN]> {
        let mut closed = dynamics.a.clone();
        for (bend, effect) in self.bend.iter().zip(&dynamics.b) {
            for (v, row) in closed.iter_mut().enumerate() {
                let feedback: f64 = bend.iter().zip(delta).map(|(b, d)| b[v] * d).sum();
                row.iter_mut().zip(effect).for_each(|(to, e)| *to += feedback * e);
            }
        }
        closed
    }

    /// How far every state would have been from where it was.
    fn away(&self, dynamics: &Linear, closed: &[State; STATE_LEN], delta: &Delta) -> Option<Vec<State>> {
        let mut away = [0.0; STATE_LEN];
        let mut all = Vec::with_capacity(self.moments.len());
        for moment in &self.moments {
            if moment.first {
                away = [0.0; STATE_LEN];
            }
            all.push(away);
            let mut next = [0.0; STATE_LEN];
            for (value, row) in away.iter().zip(closed) {
                next.iter_mut().zip(row).for_each(|(to, e)| *to += value * e);
            }
            for ((jacobian, noise), effect) in moment.jacobian.iter().zip(moment.noise).zip(&dynamics.b) {
                let action = dot(jacobian, delta) - noise;
                next.iter_mut().zip(effect).for_each(|(to, e)| *to += action * e);
            }
            // Written so that what is no number counts as lost.
            if !next.iter().all(|v| v.abs() < LOST) {
                return None;
            }
            away = next;
        }
        Some(all)
    }
}

/// Least squares of ∂a/∂θ on the state and the path: the law is all but linear in its errors.
fn bend(cuttings: &Cuttings, numbers: &[usize], moments: &[Moment]) -> Box<[[State; GAIN_COUNT]; 4]> {
    let columns = STATE_LEN as i64 + PATH_COLUMNS;
    let x: Vec<f64> = numbers
        .iter()
        .flat_map(|&i| {
            let observation = cuttings.collection.transitions[i].from;
            let state = (0..STATE_LEN).map(move |v| observation[place(v)]);
            state.chain(path_columns(&cuttings.path[i])).map(f64::from)
        })
        .collect();
    let y: Vec<f64> = moments.iter().flat_map(|m| m.jacobian).flatten().collect();
    let found = no_grad(|| {
        let x = Tensor::from_slice(&x).view([-1, columns]);
        let y = Tensor::from_slice(&y).view([-1, (4 * GAIN_COUNT) as i64]);
        let scale = x.square().mean_dim(0, true, Kind::Double).sqrt().clamp_min(1e-9);
        let x = x / &scale;
        let n = numbers.len().max(1) as f64;
        let square = x.tr().matmul(&x) / n + Tensor::eye(columns, (Kind::Double, tch::Device::Cpu)) * 1e-4;
        let slopes = Tensor::linalg_solve(&square, &(x.tr().matmul(&y) / n), true) / scale.tr();
        Vec::<f64>::try_from(slopes.narrow(0, 0, STATE_LEN as i64).reshape([-1])).unwrap_or_default()
    });
    let mut bend = Box::new([[[0.0; STATE_LEN]; GAIN_COUNT]; 4]);
    for (v, row) in found.chunks(4 * GAIN_COUNT).enumerate() {
        for (to, from) in bend.iter_mut().flatten().zip(row) {
            to[v] = *from;
        }
    }
    bend
}

/// What the reward looks at.
fn seen(step: &Step) -> [f64; SEEN] {
    let error = step.state.position - step.reference.position;
    let rpy = step.state.attitude.to_euler();
    let (v, w, u) = (step.state.velocity, step.state.rates, step.last);
    [error.x, error.y, error.z, rpy.x, rpy.y, v.x, v.y, v.z, w.x, w.y, w.z, u.thrust, u.roll, u.pitch, u.yaw]
        .map(f64::from)
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
