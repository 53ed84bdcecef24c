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
const POSE_ERRORS: usize = HORIZONS.len() * KINDS * 3 + 1;
/// Errors that share a scale: those of one kind at one horizon.
const POSE_GROUPS: usize = HORIZONS.len() * KINDS + 1;
/// Samples ahead at which rates are compared where nothing else is known: how motors and body answer is over by then,
/// and the unknown speed has not changed much.
const CARD_HORIZONS: [usize; 2] = [5, 10];
/// Errors of such a window: rates, and the vertical force.
const CARD_ERRORS: usize = CARD_HORIZONS.len() * 3 + 1;
/// All errors: flights with a pose have the first, those without the rest, and the others are 0.
pub(super) const ERRORS: usize = POSE_ERRORS + CARD_ERRORS;
/// Card logs have scales of their own: they are flown to excite.
pub(super) const GROUPS: usize = POSE_GROUPS + CARD_HORIZONS.len() + 1;
/// A window starts every so many samples.
const EVERY: usize = 20;

/// Errors of a window; what the flight does not know is 0.
pub(super) type Errors = [f32; ERRORS];

/// The group of an error.
pub(super) fn group(error: usize) -> usize {
    match error.checked_sub(POSE_ERRORS) {
        None => error / 3,
        Some(error) => POSE_GROUPS + error / 3,
    }
}

/// How many errors the windows of such a flight have, without and with trims.
pub(super) fn errors_of_window(group: usize) -> usize {
    if group < POSE_GROUPS { 2 * POSE_ERRORS } else { CARD_ERRORS }
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

    /// Errors of all windows, each predicted as the world is and with its trim; `None` if the world is not valid.
    pub(super) fn errors(&self, world: &World) -> Option<Vec<[Errors; 2]>> {
        let predictor = Predictor::new(world, self.flight).ok()?;
        let trims = predictor.trims();
        let errors = self
            .starts
            .iter()
            .map(|&start| {
                let trimmed = self.window(&predictor, start, trims[start]);
                // Without battery and speed only what differs from the seconds before is known.
                let plain = self.flight.has_pose.then(|| self.window(&predictor, start, Trim::default()));
                [plain.unwrap_or([0.0; ERRORS]), trimmed]
            })
            .collect();
        Some(errors)
    }

    /// How much the state changes in all windows: the errors of a drone that stays as it is.
    pub(super) fn changes(&self) -> Vec<Errors> {
        let samples = &self.flight.samples;
        let change = |start: &usize| {
            let mut changes = [0.0; ERRORS];
            let from = &samples[*start].state;
            self.horizons().iter().enumerate().for_each(|(h, ahead)| {
                self.put(&mut changes, h, from, &samples[start + ahead].state);
            });
            if self.flight.has_accelerometer {
                changes[self.force()] = samples[*start].acc_m_s2.z;
            }
            changes
        };
        self.starts.iter().map(change).collect()
    }

    fn window(&self, predictor: &Predictor<'_>, start: usize, trim: Trim) -> Errors {
        let mut errors = [0.0; ERRORS];
        let samples = &self.flight.samples;
        let horizons = self.horizons();
        predictor.fly(start, horizons[horizons.len() - 1], trim, |i, state| {
            let Some(horizon) = horizons.iter().position(|h| start + h == i) else { return };
            self.put(&mut errors, horizon, state, &samples[i].state);
        });
        if self.flight.has_accelerometer {
            let force = predictor.accelerations(start).1 * (1.0 + trim.thrust);
            errors[self.force()] = samples[start].acc_m_s2.z - force;
        }
        errors
    }

    fn horizons(&self) -> &'static [usize] {
        if self.flight.has_pose { &HORIZONS } else { &CARD_HORIZONS }
    }

    /// Where the error of the vertical force stands.
    fn force(&self) -> usize {
        if self.flight.has_pose { POSE_ERRORS - 1 } else { ERRORS - 1 }
    }

    /// Puts how far one state is from another at a horizon.
    fn put(&self, errors: &mut Errors, horizon: usize, from: &State, flown: &State) {
        let rates = flown.rates - from.rates;
        if !self.flight.has_pose {
            errors[POSE_ERRORS + horizon * 3..][..3].copy_from_slice(&rates.to_array());
            return;
        }
        let turn = rotation_vector(from.attitude.conjugate() * flown.attitude);
        let apart = [flown.position - from.position, flown.velocity - from.velocity, turn, rates];
        for (to, v) in errors[horizon * KINDS * 3..].chunks_mut(3).zip(apart) {
            to.copy_from_slice(&v.to_array());
        }
    }
}
