//! What a controller orders in one step, whichever it is.

use crate::Action;
use crate::stock::Command;

/// Counts of a full-scale command of the official controllers.
const FULL_COUNTS: f32 = 65535.0;

/// What a controller asks for in one control step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Order {
    /// Desired forces, normalised.
    pub action: Action,
    /// Motor commands, fractions of full thrust.
    pub motors: [f32; 4],
    /// True when the action could not be given in full.
    pub saturated: bool,
}

impl Order {
    /// Of the differentiable law.
    #[inline]
    #[must_use]
    pub fn from_action(action: Action) -> Self {
        let motors = action.motors();
        Self { action, motors: motors.thrust, saturated: motors.saturated }
    }

    /// The official controllers' counts as normalised forces: the power distribution is the same.
    #[must_use]
    pub fn from_command(command: Command) -> Self {
        let part = |counts: i16| f32::from(counts) / FULL_COUNTS;
        let request = command.distribute();
        Self {
            action: Action {
                thrust: command.thrust / FULL_COUNTS,
                roll: part(command.roll),
                pitch: part(command.pitch),
                yaw: part(command.yaw),
            },
            motors: request.cap().fractions(),
            saturated: request.is_over(),
        }
    }
}
