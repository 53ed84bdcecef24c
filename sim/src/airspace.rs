//! A few drones in the same air: each is pushed down by those above it.

use steady_common::{State, Vec3};

use crate::drone::Drone;
use crate::params::Params;

/// Drones that feel each other's downwash. Fields are public: drones may be reset one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Airspace {
    /// The drones.
    pub drones: Vec<Drone>,
    /// Positions before the step, so that the order of the drones does not matter.
    positions_m: Vec<Vec3>,
}

impl Airspace {
    /// An airspace of `count` drones, all on the floor at the origin until they are reset.
    #[must_use]
    pub fn new(params: &Params, count: usize, seed: u64) -> Self {
        let drones = (0..count as u64).map(|index| Drone::new(params, seed, index)).collect();
        Self { drones, positions_m: vec![Vec3::ZERO; count] }
    }

    /// One physics step of all drones; `thrust_fractions` as in [`Drone::step`], missing ones are 0.
    pub fn step(&mut self, params: &Params, thrust_fractions: &[[f32; 4]]) {
        self.positions_m.clear();
        self.positions_m.extend(self.drones.iter().map(|d| d.truth().position));
        for (i, drone) in self.drones.iter_mut().enumerate() {
            let others = self.positions_m.iter().enumerate().filter(|(j, _)| *j != i);
            let push_n = downwash(params, drone.truth(), others.map(|(_, position_m)| *position_m));
            drone.step_pushed(params, thrust_fractions.get(i).copied().unwrap_or_default(), push_n);
        }
    }
}

/// Force in the world frame that drones at these places exert on one, N.
pub(crate) fn downwash(params: &Params, truth: &State, others_m: impl Iterator<Item = Vec3>) -> Vec3 {
    if !params.aero.downwash {
        return Vec3::ZERO;
    }
    let sum: f32 = others_m.map(|above| params.aero.downwash_n(above, truth.position)).sum();
    truth.attitude.to_matrix().z * -sum
}
