//! Skill discovery: φ, μ on the residual P − P°, with P° the simulator itself.
//!
//! P° is a normal distribution about what the simulator predicts, so that to first order the residual
//! P(s′|s,a) − P°(s′|s,a) is a shift of its mean: ⟨φ(s,a), μ(s′)⟩ P° with μ(s′) = Σ^-½ (s′ − ŝ′), the score of P°.
//! With this μ, whose second moment under P° is one, `L_disc = E|φ|² − 2 E[φᵀμ]` is minimised by `φ = E[μ | s, a]`:
//! features are learned by its gradient, their read-out follows in closed form with a ridge towards zero that predicts
//! pieces of flights best which nothing was fitted to. Without data the drone is the simulator.
//!
//! s′ is what the plant does in a tenth of a second, restarted from the flown state at every sample: forces and moments,
//! open loop. The law is known and not learned.

use rayon::prelude::*;
use steady_common::Vec3;
use steady_reality::Flight;
use steady_reality::flight::DT_S;
use steady_reality::predict::{Predictor, Trim};
use steady_sim::residual::{INPUTS, Input, OUTPUTS, Range, Residual, Unit};
use steady_sim::{World, WorldError};

use crate::features;
use crate::ridge::Gram;

/// Samples of a transition.
const WINDOW: usize = 10;
/// A transition begins every so many samples.
const EVERY: usize = 2;
/// Samples after take-off and before landing that are left out: the floor is near.
const MARGIN: usize = 30;
/// Transitions in a row that are fitted or left out together: two seconds.
const PIECE: usize = 100;
/// Parts of the cross-validation.
const FOLDS: usize = 4;
/// Residuals beyond this many times their median size are left out.
const OUTLIER: f64 = 8.0;
/// Smallest spread of an input that counts, so that what hardly varies is not blown up.
const MIN_SPREAD: Input =
    [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.2, 0.2, 0.2, 0.03, 0.03, 0.03, 0.03, 3.0];
/// Ridges to choose from, per transition; the last leaves nothing.
const RIDGES: [f64; 8] = [1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 1e9];

/// Learned features, at most.
pub const MAX_UNITS: usize = 64;

/// Settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Learned features, at most [`MAX_UNITS`].
    pub units: usize,
    /// Gradient steps.
    pub steps: usize,
    /// Transitions of a step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f64,
    /// Decay of the weights in a step, over the rate.
    pub decay: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { units: 16, steps: 500, batch: 256, rate: 5e-3, decay: 1e-3 }
    }
}

/// Where the plant was, and what it did beyond the simulator.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// What a residual depends on.
    pub input: Input,
    /// Velocity in the body frame, m/s.
    pub body_velocity: Vec3,
    /// Acceleration beyond the simulator's, m/s² in the world frame, and angular acceleration, rad/s² in the body frame.
    pub beyond: [f64; OUTPUTS],
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The skills with their read-out.
    pub residual: Residual,
    /// The same from parts of the flights: how sure it is.
    pub members: Vec<Residual>,
    /// Squared residual that is left on pieces that were not fitted, relative to the simulator's, for every output.
    pub left: [f64; OUTPUTS],
    /// Root mean square of what the simulator leaves: m/s² in the world frame, rad/s² in the body frame.
    pub unexplained: [f64; OUTPUTS],
    /// How many were used.
    pub transitions: usize,
}

/// Learns what a world lacks of flights; `None` when they are too short.
///
/// # Errors
/// If the world is not valid.
pub fn discover(
    world: &World,
    flights: &[Flight],
    settings: &Settings,
    seed: u64,
) -> Result<Option<Discovered>, WorldError> {
    Ok(discover_in(&transitions(world, flights)?, settings, seed))
}

/// Learns from transitions; `None` when there are too few.
pub fn discover_in(rows: &[Transition], settings: &Settings, seed: u64) -> Option<Discovered> {
    if rows.len() < FOLDS * PIECE {
        return None;
    }
    let fold = |i: usize| (i / PIECE) % FOLDS;
    let parts: Vec<(Fitted, Vec<usize>)> = (0..=FOLDS)
        .into_par_iter()
        .map(|part| {
            let (used, left_out): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(|i| fold(*i) != part);
            (Fitted::new(rows, &used, settings, seed + part as u64), left_out)
        })
        .collect();
    let mut errors = [[0.0; RIDGES.len()]; OUTPUTS];
    for (fitted, left_out) in &parts[..FOLDS] {
        for (ridge, choice) in RIDGES.iter().enumerate() {
            let residual = fitted.residual([*choice; OUTPUTS]);
            for i in left_out {
                let said = residual.at(&rows[*i].input).to_array();
                for k in 0..OUTPUTS {
                    errors[k][ridge] += (rows[*i].beyond[k] - f64::from(said[k])).powi(2);
                }
            }
        }
    }
    let best: [usize; OUTPUTS] = std::array::from_fn(|k| {
        (0..RIDGES.len()).min_by(|a, b| errors[k][*a].total_cmp(&errors[k][*b])).unwrap_or(RIDGES.len() - 1)
    });
    let ridges = best.map(|choice| RIDGES[choice]);
    let square = |k: usize| rows.iter().map(|r| r.beyond[k].powi(2)).sum::<f64>();
    Some(Discovered {
        residual: parts[FOLDS].0.residual(ridges),
        members: parts[..FOLDS].iter().map(|(fitted, _)| fitted.residual(ridges)).collect(),
        left: std::array::from_fn(|k| errors[k][best[k]] / square(k).max(1e-12)),
        unexplained: std::array::from_fn(|k| (square(k) / rows.len() as f64).sqrt()),
        transitions: rows.len(),
    })
}

/// Without transitions in which something happened that has no place in a model: a bump, or motors at their limits.
fn plausible(rows: Vec<Transition>) -> Vec<Transition> {
    let limits: [f64; OUTPUTS] = std::array::from_fn(|k| {
        let mut sizes: Vec<f64> = rows.iter().map(|row| row.beyond[k].abs()).collect();
        sizes.sort_by(f64::total_cmp);
        OUTLIER * sizes.get(sizes.len() / 2).copied().unwrap_or_default()
    });
    let is_plausible = |row: &Transition| row.beyond.iter().zip(limits).all(|(v, limit)| v.abs() <= limit);
    rows.into_iter().filter(is_plausible).collect()
}

/// The transitions of the flights that have positions.
///
/// # Errors
/// If the world is not valid.
pub fn transitions(world: &World, flights: &[Flight]) -> Result<Vec<Transition>, WorldError> {
    let mut rows = Vec::new();
    for flight in flights.iter().filter(|flight| flight.has_pose) {
        rows.extend(of_flight(world, flight)?);
    }
    Ok(plausible(rows))
}

fn of_flight(world: &World, flight: &Flight) -> Result<Vec<Transition>, WorldError> {
    let predictor = Predictor::new(world, flight)?;
    let samples = &flight.samples;
    // What one sample brings beyond the simulator, summed from the first on.
    let mut sums = vec![[0.0_f64; OUTPUTS]; samples.len()];
    for i in 0..samples.len().saturating_sub(1) {
        let mut beyond = [0.0; OUTPUTS];
        predictor.fly(i, 1, Trim::default(), |next, state| {
            let flown = &samples[next].state;
            let (velocity, rates) = (flown.velocity - state.velocity, flown.rates - state.rates);
            beyond = [velocity.x, velocity.y, velocity.z, rates.x, rates.y, rates.z].map(f64::from);
        });
        let before = sums[i];
        sums[i + 1] = std::array::from_fn(|k| before[k] + beyond[k]);
    }
    let (first, last) = (flight.take_off + MARGIN, flight.landing.saturating_sub(MARGIN + WINDOW));
    let per_s = 1.0 / (WINDOW as f64 * f64::from(DT_S));
    Ok((first..last)
        .step_by(EVERY)
        .filter(|i| samples[*i..=i + WINDOW].iter().all(|s| !s.has_gap))
        .map(|i| {
            let middle = i + WINDOW / 2;
            let state = &samples[middle].state;
            Transition {
                input: predictor.input(middle),
                body_velocity: state.attitude.to_matrix().apply_transposed(state.velocity),
                beyond: std::array::from_fn(|k| (sums[i + WINDOW][k] - sums[i][k]) * per_s),
            }
        })
        .collect())
}

/// Features learned from some of the transitions, ready to be read out.
struct Fitted {
    ranges: [Range; INPUTS],
    units: Vec<Unit>,
    gram: Gram,
}

impl Fitted {
    fn new(rows: &[Transition], used: &[usize], settings: &Settings, seed: u64) -> Self {
        let ranges = ranges(rows, used);
        let count = used.len().max(1) as f64;
        let scale: [f64; OUTPUTS] = std::array::from_fn(|k| {
            (used.iter().map(|i| rows[*i].beyond[k].powi(2)).sum::<f64>() / count).sqrt().max(1e-6)
        });
        let x: Vec<Input> = used.iter().map(|i| Residual::normalised(&ranges, &rows[*i].input)).collect();
        let mu: Vec<[f64; OUTPUTS]> =
            used.iter().map(|i| std::array::from_fn(|k| rows[*i].beyond[k] / scale[k])).collect();
        let units = features::learn(&x, &mu, settings, seed);
        let mut gram = Gram::new(1 + INPUTS + units.len());
        for (x, i) in x.iter().zip(used) {
            gram.add(&columns(&units, x), &rows[*i].beyond);
        }
        Self { ranges, units, gram }
    }

    fn residual(&self, ridges: [f64; OUTPUTS]) -> Residual {
        let weights =
            std::array::from_fn(|k| self.gram.solve(k, ridges[k]).into_iter().map(|w| w as f32).collect());
        Residual { ranges: self.ranges, units: self.units.clone(), weights }
    }
}

/// 1, the inputs and the units.
fn columns(units: &[Unit], x: &Input) -> Vec<f64> {
    let units = units.iter().map(|unit| unit.at(x));
    std::iter::once(1.0).chain(x.iter().copied()).chain(units).map(f64::from).collect()
}

fn ranges(rows: &[Transition], used: &[usize]) -> [Range; INPUTS] {
    let count = used.len().max(1) as f32;
    std::array::from_fn(|k| {
        let values = || used.iter().map(|i| rows[*i].input[k]);
        let mean = values().sum::<f32>() / count;
        let variance = values().map(|v| (v - mean).powi(2)).sum::<f32>() / count;
        Range {
            low: values().fold(f32::INFINITY, f32::min),
            high: values().fold(f32::NEG_INFINITY, f32::max),
            centre: mean,
            per_unit: 1.0 / variance.sqrt().max(MIN_SPREAD[k]),
        }
    })
}
