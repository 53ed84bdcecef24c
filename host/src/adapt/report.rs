//! What an adaptation found: `adapt.json`.

use serde::Serialize;
use steady_common::GainTable;
use steady_common::gains::{GAIN_COUNT, GAINS};

use crate::stats::Estimate;

use super::adapter::{Adapter, Learned};
use super::discovery::Found;
use super::worlds::{Accepted, WorldCheck};

pub const NAME: &str = "adapt.json";

/// What an adaptation found.
#[derive(Clone, Debug, Serialize)]
pub struct AdaptReport {
    pub flights: usize,
    pub steps: usize,
    /// Control steps that replayed to the logged bits.
    pub replayed: u64,
    /// The new skills.
    pub discovery: Option<Found>,
    /// Error of the predicted next state.
    pub prediction: Prediction,
    /// Predicted change of a flight's reward.
    pub improvement: Improvement,
    /// Part of the proposed step that was taken; 0 when the worlds refused every part.
    pub step: f32,
    /// KL divergence from the present policy, per transition.
    pub divergence: f64,
    /// What worlds that resemble the data say of the table.
    pub worlds: WorldCheck,
    /// Gains, most changed first.
    pub gains: Vec<GainChange>,
    /// L_disc and λ at every update of the discovery.
    #[serde(skip)]
    pub trace: Vec<[f64; 2]>,
}

/// Squared error of the predicted next state on pieces of flights that were not fitted, relative to how far the
/// state moves.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Prediction {
    /// By the simulator itself, P°.
    pub simulator: f64,
    /// With the simulator's skills alone.
    pub transfer: f64,
    /// With the new skills too, where there are any.
    pub discovery: Option<f64>,
    /// How much smaller the error is with discovery, over pieces.
    pub reduction: Option<Estimate>,
}

/// Predicted change of a flight's cumulative reward.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Improvement {
    /// Predicted reward of a flight with the present gains, without its constant.
    pub present: f64,
    /// Predicted change by the whole step.
    pub predicted: f64,
    /// Standard deviation of that over bootstrap samples.
    pub std: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct GainChange {
    pub name: &'static str,
    /// Its value in the present table.
    pub from: f32,
    /// Its value in the new one.
    pub to: f32,
    /// ∂R/∂ ln k, with R a flight's reward.
    pub gradient: f64,
    /// Its standard deviation over bootstrap samples.
    pub std: f64,
}

impl Prediction {
    fn new(simulator: f64, learned: &Learned) -> Self {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
        let all = &learned.dynamics.held_out;
        match &learned.transfer {
            None => Self { simulator, transfer: mean(all), discovery: None, reduction: None },
            Some(transfer) => {
                let less: Vec<f64> = transfer.held_out.iter().zip(all).map(|(a, b)| a - b).collect();
                let reduction = Some(Estimate::of(&less));
                Self { simulator, transfer: mean(&transfer.held_out), discovery: Some(mean(all)), reduction }
            }
        }
    }
}

impl AdaptReport {
    pub(super) fn new(
        adapter: &Adapter<'_>,
        learned: &Learned,
        accepted: Accepted,
        present: &GainTable,
        table: &GainTable,
        gap: f64,
        replayed: u64,
    ) -> Self {
        let (from, to) = (present.gains.to_array(), table.gains.to_array());
        let mut gains: Vec<GainChange> = (0..GAIN_COUNT)
            .map(|i| GainChange {
                name: GAINS[i].name,
                from: from[i],
                to: to[i],
                gradient: learned.step.gradient[i],
                std: learned.step.gradient_std[i],
            })
            .collect();
        gains.sort_by(|a, b| (b.to / b.from).ln().abs().total_cmp(&(a.to / a.from).ln().abs()));
        Self {
            flights: adapter.flights.len(),
            steps: adapter.flights.iter().map(|f| f.steps.len()).sum(),
            replayed,
            discovery: learned.found,
            prediction: Prediction::new(gap, learned),
            improvement: Improvement {
                present: learned.step.present,
                predicted: learned.step.change,
                std: learned.step.change_std,
            },
            step: accepted.part,
            divergence: learned.step.divergence * f64::from(accepted.part * accepted.part),
            worlds: accepted.check,
            gains,
            trace: adapter.new.as_ref().map(|new| new.trace.clone()).unwrap_or_default(),
        }
    }
}
