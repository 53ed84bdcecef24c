//! Where episodes begin.

use steady_common::{Quat, State, Vec3, math};

use crate::params::Params;
use crate::rng::Rng;

/// State of body and rotors at the start of an episode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Initial {
    /// State of the body.
    pub state: State,
    /// Rotor speeds of M1..M4, rpm.
    pub rpm: [f32; 4],
    /// Attitude one step earlier, for the Bullet-like integrator; the same as now if `None`.
    pub last_attitude: Option<Quat>,
}

impl Initial {
    /// Level and at rest in the air, rotors at the speed that carries the weight.
    #[must_use]
    pub fn hovering(params: &Params, position_m: Vec3) -> Self {
        Self { state: State::at(position_m), rpm: [params.hover_rpm(); 4], ..Self::default() }
    }

    /// Standing on the floor with the rotors off; the height of `place_m` does not matter.
    #[must_use]
    pub fn on_floor(params: &Params, place_m: Vec3) -> Self {
        let position = Vec3::new(place_m.x, place_m.y, params.rest_height_m());
        Self { state: State::at(position), ..Self::default() }
    }
}

/// A distribution of initial states about a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialDistribution {
    /// On the floor below the goal.
    Floor,
    /// The paper's appendix B: position about the goal, roll, pitch and yaw about zero, at rest.
    /// The appendix writes N(goal, diag(0.02, 0.02, 0.02)) and N(0°, 5°); both second arguments are
    /// taken as standard deviations, 0.02 m and 5°, as the authors' program does.
    Paper,
    /// Wider in everything, for learning to recover.
    Wide(Spread),
}

/// Half-widths of uniform distributions about a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Position, each axis, m (never below the floor).
    pub position_m: f32,
    /// Roll and pitch, rad.
    pub tilt_rad: f32,
    /// Yaw, rad.
    pub yaw_rad: f32,
    /// Velocity, each axis, m/s.
    pub velocity_m_s: f32,
    /// Angular velocity, each axis, rad/s.
    pub rates_rad_s: f32,
    /// Rotor speeds, as a part of hover speed.
    pub rotor: f32,
}

impl Default for Spread {
    fn default() -> Self {
        Self { position_m: 0.3, tilt_rad: 0.5, yaw_rad: 1.0, velocity_m_s: 1.0, rates_rad_s: 2.0, rotor: 0.2 }
    }
}

impl InitialDistribution {
    /// Draws an initial state about `goal_m`.
    #[must_use]
    pub fn sample(&self, params: &Params, goal_m: Vec3, rng: &mut Rng) -> Initial {
        match self {
            Self::Floor => Initial::on_floor(params, goal_m),
            Self::Paper => {
                let position = goal_m + rng.normal_vec() * 0.02;
                let attitude = Quat::from_euler(rng.normal_vec() * (5.0 * math::DEG_TO_RAD));
                Initial {
                    state: State { attitude, ..State::at(position) },
                    ..Initial::hovering(params, position)
                }
            }
            Self::Wide(spread) => spread.sample(params, goal_m, rng),
        }
    }
}

impl Spread {
    fn sample(&self, params: &Params, goal_m: Vec3, rng: &mut Rng) -> Initial {
        let mut within = |half: f32| rng.between(-half, half);
        let mut vector = |half: f32| Vec3::new(within(half), within(half), within(half));
        let mut position = goal_m + vector(self.position_m);
        // High enough that no attitude puts a foot into the floor.
        let lowest = 2.0 * params.rest_height_m() + 0.06;
        position.z = if position.z > lowest { position.z } else { lowest };
        let (velocity, rates) = (vector(self.velocity_m_s), vector(self.rates_rad_s));
        let rpy = Vec3::new(within(self.tilt_rad), within(self.tilt_rad), within(self.yaw_rad));
        let hover = params.hover_rpm();
        let rpm = [(); 4].map(|()| hover * (1.0 + within(self.rotor)));
        Initial {
            state: State { position, velocity, attitude: Quat::from_euler(rpy), rates },
            rpm,
            last_attitude: None,
        }
    }
}
