//! Prediction errors of a world on a flight, window by window.

use steady_common::State;
use steady_sim::World;

use crate::flight::{Flight, rotation_vector};
use crate::predict::{Predictor, Trim, starts};

/// Samples ahead at which predictions are compared: 50 ms, 0.1 s, 0.25 s, 0.5 s.
pub(super) const HORIZONS: [usize; 4] = [5, 10, 25, 50];
/// Position, velocity, attitude, rates.
const KINDS: usize = 4;
/// Errors of a window: three of each kind at each horizon, and the vertical force at its start.
pub(super) const ERRORS: usize = HORIZONS.len() * KINDS * 3 + 1;
/// Errors that share a scale: those of one kind at one horizon.
pub(super) const GROUPS: usize = HORIZONS.len() * KINDS + 1;
/// A window starts every so many samples.
const EVERY: usize = 20;

/// Errors of a window; what the flight does not know is 0.
pub(super) type Errors = [f32; ERRORS];

/// The group of an error.
pub(super) fn group(error: usize) -> usize {
    error / 3
}

/// The windows of a flight.
pub(super) struct Windows<'a> {
    flight: &'a Flight,
    starts: Vec<usize>,
}

impl<'a> Windows<'a> {
    /// All of a flight.
    pub(super) fn new(flight: &'a Flight) -> Self {
        Self { flight, starts: starts(flight, EVERY) }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Errors of all windows, each predicted as the world is and with its trim.
    pub(super) fn errors(&self, world: &World) -> Vec<[Errors; 2]> {
        // Parameters keep to their ranges, so the world is valid.
        let Ok(predictor) = Predictor::new(world, self.flight) else { return Vec::new() };
        let trims = predictor.trims();
        self.starts
            .iter()
            .map(|&start| [Trim::default(), trims[start]].map(|trim| self.window(&predictor, start, trim)))
            .collect()
    }

    /// How much the state changes in all windows: the errors of a drone that stays as it is.
    pub(super) fn changes(&self) -> Vec<Errors> {
        let samples = &self.flight.samples;
        let change = |start: &usize| {
            let mut changes = [0.0; ERRORS];
            for (h, to) in HORIZONS.iter().zip(changes.chunks_mut(KINDS * 3)) {
                put(to, &samples[*start].state, &samples[start + h].state);
            }
            changes[ERRORS - 1] =
                if self.flight.has_accelerometer { samples[*start].acc_m_s2.z } else { 0.0 };
            changes
        };
        self.starts.iter().map(change).collect()
    }

    fn window(&self, predictor: &Predictor<'_>, start: usize, trim: Trim) -> Errors {
        let mut errors = [0.0; ERRORS];
        let samples = &self.flight.samples;
        predictor.fly(start, HORIZONS[HORIZONS.len() - 1], trim, |i, state| {
            let Some(horizon) = HORIZONS.iter().position(|h| start + h == i) else { return };
            put(&mut errors[horizon * KINDS * 3..], state, &samples[i].state);
        });
        if self.flight.has_accelerometer {
            let force = predictor.accelerations(start).1 * (1.0 + trim.thrust);
            errors[ERRORS - 1] = samples[start].acc_m_s2.z - force;
        }
        errors
    }
}

/// Puts how far one state is from another.
fn put(to: &mut [f32], from: &State, flown: &State) {
    let turn = rotation_vector(from.attitude.conjugate() * flown.attitude);
    let apart =
        [flown.position - from.position, flown.velocity - from.velocity, turn, flown.rates - from.rates];
    for (to, v) in to.chunks_mut(3).zip(apart) {
        to.copy_from_slice(&v.to_array());
    }
}
