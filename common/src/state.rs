//! Inputs of every controller: the state of the drone and the reference.

use crate::{Quat, Vec3};

/// State of the rigid body, true or estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Position in the world frame, m.
    pub position: Vec3,
    /// Velocity in the world frame, m/s.
    pub velocity: Vec3,
    /// Attitude, body to world.
    pub attitude: Quat,
    /// Angular velocity in the body frame, rad/s.
    pub rates: Vec3,
}

impl State {
    /// At rest, level, at a position.
    #[must_use]
    pub fn at(position: Vec3) -> Self {
        Self { position, ..Self::default() }
    }

    /// True when no number in it is infinite or NaN.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.position.is_finite()
            && self.velocity.is_finite()
            && self.attitude.is_finite()
            && self.rates.is_finite()
    }
}

/// Desired state at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reference {
    /// Position in the world frame, m.
    pub position: Vec3,
    /// Velocity in the world frame, m/s.
    pub velocity: Vec3,
    /// Acceleration in the world frame without gravity, m/s².
    pub acceleration: Vec3,
    /// Heading, rad, counter-clockwise.
    pub yaw: f32,
    /// Heading rate, rad/s.
    pub yaw_rate: f32,
}

impl Reference {
    /// Standing still at a position, heading along x.
    #[must_use]
    pub fn hover(position: Vec3) -> Self {
        Self { position, ..Self::default() }
    }
}
