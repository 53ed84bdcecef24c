//! Hovering in place and descending when there is no valid set-point or no valid position.
//!
//! With a position, both are references for the chosen controller: brake, then stand, or sink.
//! Without one the cascaded PID brakes by the estimated velocity as long as that means something,
//! then keeps the drone level and lets it sink.

use steady_common::{Reference, State, Vec3, math};

use super::CONTROL_DT;
use super::pilots::{Target, Vertical, attitude_setpoint, velocity_setpoint};

/// How to come down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Not at all: stand still.
    Stay,
    /// As one lands.
    Gently,
    /// There is a second of power left.
    Hurry,
}

/// Speed of the descent, m/s.
const SINK: f32 = 0.3;
/// Speed of a hurried descent, m/s …
const HURRY_SINK: f32 = 1.2;
/// … and how fast it gathers it, m/s²: the drone must not fall below the thrust it can be steered with.
const HURRY_ACCELERATION: f32 = 3.0;
/// Speed of a descent without a position, m/s: drift grows with every second in the air.
const BLIND_SINK: f32 = 0.6;
/// How fast the descent gathers speed, m/s².
const SINK_ACCELERATION: f32 = 0.6;
/// Time constant of braking, s.
const BRAKE_S: f32 = 0.5;
/// The same in a hurry.
const HURRY_BRAKE_S: f32 = 0.15;
/// Fastest flight that is braked smoothly, m/s per axis.
const MAX_SPEED: f32 = 2.0;
/// How far the reference may sink below the drone, m.
const LEAD_M: f32 = 0.3;
/// How long the estimated velocity can be used without motion capture, s.
const BLIND_BRAKE_S: f32 = 1.5;

/// The reference this far below a drone that does not sink means the floor, m.
const FLOOR_LEAD_M: f32 = 0.15;
/// A vertical speed below this is standing, m/s.
const STANDING: f32 = 0.08;
/// A thrust below this part of hovering is standing on something.
const LIGHT: f32 = 0.6;
/// How long either must last, s.
const FLOOR_S: f32 = 0.3;
/// Time constant of the mean thrust, s.
const THRUST_S: f32 = 1.0;
/// Mean thrust of a drone that has not flown yet.
const NOMINAL_HOVER: f32 = 0.55;

/// Holds still or sinks from where the drone is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent {
    reference: Option<Reference>,
    sink: f32,
    blind_s: f32,
    standing_s: f32,
    light_s: f32,
    hover_thrust: f32,
}

impl Default for Descent {
    fn default() -> Self {
        Self {
            reference: None,
            sink: 0.0,
            blind_s: 0.0,
            standing_s: 0.0,
            light_s: 0.0,
            hover_thrust: NOMINAL_HOVER,
        }
    }
}

impl Descent {
    /// A normal flight step: remembers the thrust that hovers and is ready to begin.
    pub fn watch(&mut self, thrust: f32, state: &State) {
        let quiet = math::abs(state.velocity.z) < 0.3 && thrust > 0.2 && thrust < 1.0;
        let mean = self.hover_thrust;
        let hover_thrust = if quiet { mean + (thrust - mean) * (CONTROL_DT / THRUST_S) } else { mean };
        *self = Self { hover_thrust, ..Self::default() };
    }

    /// The thrust that hovers, a part of full thrust.
    #[must_use]
    pub fn hover_thrust(&self) -> f32 {
        self.hover_thrust
    }

    /// What to fly: standing still or sinking. `trusted` says that the position is.
    pub fn target(&mut self, sink: Sink, trusted: bool, state: &State) -> Target {
        let (wanted, acceleration, brake_s) = match (sink, trusted) {
            (Sink::Stay, _) => (0.0, SINK_ACCELERATION, BRAKE_S),
            (Sink::Gently, true) => (SINK, SINK_ACCELERATION, BRAKE_S),
            (Sink::Gently, false) => (BLIND_SINK, SINK_ACCELERATION, BRAKE_S),
            (Sink::Hurry, _) => (HURRY_SINK, HURRY_ACCELERATION, HURRY_BRAKE_S),
        };
        self.sink += math::bound(wanted - self.sink, acceleration * CONTROL_DT);
        if trusted { self.path(brake_s, state) } else { self.blind(state) }
    }

    /// A step of the descent was flown with this thrust: true when the drone stands on the floor.
    pub fn has_landed(&mut self, thrust: f32, state: &State) -> bool {
        let sinks = self.sink > 0.5 * SINK;
        let lead = self.reference.map_or(0.0, |r| state.position.z - r.position.z);
        let stands = sinks && lead > FLOOR_LEAD_M && math::abs(state.velocity.z) < STANDING;
        let light = sinks && thrust < LIGHT * self.hover_thrust;
        let lasting = |time: f32, holds: bool| if holds { time + CONTROL_DT } else { 0.0 };
        self.standing_s = lasting(self.standing_s, stands);
        self.light_s = lasting(self.light_s, light);
        self.standing_s > FLOOR_S || self.light_s > FLOOR_S
    }

    fn path(&mut self, brake_s: f32, state: &State) -> Target {
        self.blind_s = 0.0;
        let last = self.reference.unwrap_or_else(|| Reference {
            velocity: state.velocity.map(|v| math::bound(v, MAX_SPEED)),
            yaw: state.attitude.to_euler().z,
            ..Reference::hover(state.position)
        });
        let rest = Vec3::new(0.0, 0.0, -self.sink);
        let acceleration = (rest - last.velocity) * (1.0 / brake_s);
        let velocity = last.velocity + acceleration * CONTROL_DT;
        let mut position = last.position + velocity * CONTROL_DT;
        let lowest = state.position.z - LEAD_M;
        position.z = if position.z > lowest { position.z } else { lowest };
        let reference = Reference { position, velocity, acceleration, yaw: last.yaw, yaw_rate: 0.0 };
        self.reference = Some(reference);
        Target::along(reference)
    }

    fn blind(&mut self, state: &State) -> Target {
        self.reference = None;
        self.blind_s += CONTROL_DT;
        let usable = self.blind_s < BLIND_BRAKE_S && state.velocity.norm() < 2.0 * MAX_SPEED;
        Target::Modes(if usable {
            velocity_setpoint(Vec3::new(0.0, 0.0, -self.sink), false, None, 0.0)
        } else {
            attitude_setpoint(0.0, 0.0, 0.0, false, Vertical::Climb(-self.sink))
        })
    }
}
