//! How well flights are predicted that nothing was fitted to: each by what the others of the same drone say.

use steady_reality::Flight;
use steady_reality::identify::{Prior, identify_from};
use steady_reality::predict::Predictor;
use steady_reality::score::{Tally, prediction};
use steady_sim::residual::OUTPUTS;
use steady_sim::{World, WorldError};

use crate::discovery::{self, Transition, discover, transitions};

/// What there is to know before any flight.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Of the parameters.
    pub prior: &'a Prior,
    /// The world that has what flights do not tell.
    pub base: &'a World,
    /// The drone's mass, kg.
    pub mass_kg: f32,
}

/// Predictions of the same flight: as they are, and with the trims of the seconds before.
pub type Pair = [Tally; 2];

/// A flight, predicted by the others.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Where it is from.
    pub flight: String,
    /// With the simulator's parameters identified: skill transfer.
    pub identified: Pair,
    /// With discovered skills as well.
    pub with_skills: Pair,
    /// What the simulator leaves unexplained of it, and what is left with skills.
    pub residual: Squares,
}

/// Sums of squared residuals over transitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Squares {
    /// Without skills.
    pub before: [f64; OUTPUTS],
    /// With them.
    pub after: [f64; OUTPUTS],
}

impl Squares {
    /// These and others.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for k in 0..OUTPUTS {
            self.before[k] += other.before[k];
            self.after[k] += other.after[k];
        }
        self
    }

    /// The part of the squares that skills explain; negative where they do harm.
    #[must_use]
    pub fn explained(&self) -> [f64; OUTPUTS] {
        std::array::from_fn(|k| 1.0 - self.after[k] / self.before[k].max(1e-12))
    }
}

/// Predicts one of a drone's flights by its others; `None` when those are too short for skills.
///
/// # Errors
/// If the world is not valid.
pub fn predict(
    before: &Before<'_>,
    flights: &[Flight],
    left_out: usize,
    settings: &discovery::Settings,
    seed: u64,
) -> Result<Option<LeftOut>, WorldError> {
    let Some(flight) = flights.get(left_out) else { return Ok(None) };
    let mut others = flights.to_vec();
    others.remove(left_out);
    let world = identify_from(before.prior, before.base, before.mass_kg, &others, |_, _| {}).world;
    let Some(found) = discover(&world, &others, settings, seed)? else { return Ok(None) };
    let plain = Predictor::new(&world, flight)?;
    let identified = [false, true].map(|is_trimmed| prediction(&plain, is_trimmed));
    let skilled = plain.with_residual(&found.residual);
    let with_skills = [false, true].map(|is_trimmed| prediction(&skilled, is_trimmed));
    let mut residual = Squares::default();
    for Transition { input, beyond, .. } in transitions(&world, std::slice::from_ref(flight))? {
        let said = found.residual.at(&input).to_array();
        for k in 0..OUTPUTS {
            residual.before[k] += beyond[k].powi(2);
            residual.after[k] += (beyond[k] - f64::from(said[k])).powi(2);
        }
    }
    Ok(Some(LeftOut { flight: flight.name.clone(), identified, with_skills, residual }))
}
