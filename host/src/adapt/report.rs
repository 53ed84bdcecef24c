//! What an adaptation found: `adapt.json`.

use serde::Serialize;
use steady_common::GainTable;
use steady_common::gains::{GAIN_COUNT, GAINS};
use steady_reality::identify::Estimate as Parameter;

use crate::stats::Estimate;

use super::adapter::{Adapter, Learned};
use super::config::Model;
use super::discovery::Found;
use super::rollout::Delta;
use super::worlds::{Accepted, WorldCheck};

pub const NAME: &str = "adapt.json";

/// What an adaptation found.
#[derive(Clone, Debug, Serialize)]
pub struct AdaptReport {
    /// What gains were improved in.
    pub model: Model,
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
    /// KL divergence from the present policy, per transition; a search does not price it.
    pub divergence: Option<f64>,
    /// Parameters of the simulator, where they were identified.
    pub parameters: Vec<Parameter>,
    /// How late motion capture is, s, where it was fitted.
    pub latency_s: Option<f64>,
    /// What the simulator lacks even so.
    pub lacking: Option<Lacking>,
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
    /// With the simulator's skills alone, or by the simulator with its parameters identified (not held out then).
    pub transfer: f64,
    /// With the new skills too, where there are any.
    pub discovery: Option<f64>,
    /// How much smaller the error is with discovery, over pieces.
    pub reduction: Option<Estimate>,
}

/// What the simulator lacks with its parameters identified: accelerations along the world's x, y and z, m/s², and
/// angular ones about the body's, rad/s².
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lacking {
    /// Transitions of a tenth of a second.
    pub transitions: usize,
    /// Root mean square.
    pub unexplained: [f64; 6],
    /// Part of the squares that the new skills leave on pieces of flights that were not fitted.
    pub left: [f64; 6],
}

/// Predicted change of a flight's cumulative reward.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Improvement {
    /// Predicted reward of a flight with the present gains, without its constant.
    pub present: f64,
    /// Predicted change by the whole step.
    pub predicted: f64,
    /// Standard deviation of that over bootstrap samples or probable worlds.
    pub std: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct GainChange {
    pub name: &'static str,
    /// Its value in the present table.
    pub from: f32,
    /// Its value in the new one.
    pub to: f32,
    /// ∂R/∂ ln k, with R a flight's reward, and its standard deviation over bootstrap samples; a search has none.
    pub gradient: Option<[f64; 2]>,
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

/// What a proposal rests on.
pub(super) struct Evidence {
    pub(super) flights: usize,
    pub(super) steps: usize,
    pub(super) replayed: u64,
    pub(super) discovery: Option<Found>,
    pub(super) prediction: Prediction,
    pub(super) improvement: Improvement,
    /// Of the whole step.
    pub(super) divergence: Option<f64>,
    pub(super) gradient: Option<[Delta; 2]>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) latency_s: Option<f32>,
    pub(super) lacking: Option<Lacking>,
    pub(super) trace: Vec<[f64; 2]>,
}

impl Evidence {
    /// Of skills.
    pub(super) fn of_skills(adapter: &Adapter<'_>, learned: &Learned, gap: f64, replayed: u64) -> Self {
        let step = &learned.step;
        Self {
            flights: adapter.flights.len(),
            steps: adapter.flights.iter().map(|f| f.steps.len()).sum(),
            replayed,
            discovery: learned.found,
            prediction: Prediction::new(gap, learned),
            improvement: Improvement { present: step.present, predicted: step.change, std: step.change_std },
            divergence: Some(step.divergence),
            gradient: Some([step.gradient, step.gradient_std]),
            parameters: Vec::new(),
            latency_s: None,
            lacking: None,
            trace: adapter.new.as_ref().map(|new| new.trace.clone()).unwrap_or_default(),
        }
    }
}

impl AdaptReport {
    pub(super) fn new(
        model: Model,
        evidence: Evidence,
        accepted: Accepted,
        present: &GainTable,
        table: &GainTable,
    ) -> Self {
        let (from, to) = (present.gains.to_array(), table.gains.to_array());
        let mut gains: Vec<GainChange> = (0..GAIN_COUNT)
            .map(|i| GainChange {
                name: GAINS[i].name,
                from: from[i],
                to: to[i],
                gradient: evidence.gradient.map(|[gradient, std]| [gradient[i], std[i]]),
            })
            .collect();
        gains.sort_by(|a, b| (b.to / b.from).ln().abs().total_cmp(&(a.to / a.from).ln().abs()));
        let part = f64::from(accepted.part);
        Self {
            model,
            flights: evidence.flights,
            steps: evidence.steps,
            replayed: evidence.replayed,
            discovery: evidence.discovery,
            prediction: evidence.prediction,
            improvement: evidence.improvement,
            step: accepted.part,
            divergence: evidence.divergence.map(|divergence| divergence * part * part),
            parameters: evidence.parameters,
            latency_s: evidence.latency_s.map(f64::from),
            lacking: evidence.lacking,
            worlds: accepted.check,
            gains,
            trace: evidence.trace,
        }
    }
}
