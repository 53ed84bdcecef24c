//! The oracle: gains searched in the very world and task that they are judged in.

use steady_common::Gains;
use steady_common::law::Vehicle;
use steady_sim::Params;
use steady_sim::flight::{self, Task};
use steady_sim::pilot::Pilot;

use crate::train::oracle::{Search, climb, gains_of, theta_of};

use super::judge::Use;
use super::suite::Plan;

/// Searches gains for the highest mean cumulative reward, from `start` on.
#[must_use]
pub fn search(world: &Params, task: Task, start: &Gains, vehicle: Vehicle, plan: &Plan) -> Gains {
    let settings = Search {
        population: plan.oracle_population,
        generations: plan.oracle_generations,
        sigma: 0.2,
        ..Search::default()
    };
    let judge = |theta: &[f32; 24]| {
        let pilot = Pilot::mellinger(gains_of(theta), vehicle);
        let reward = |i| {
            let summary = flight::fly(world, pilot, task, Use::Search.seed(0, i), |_| {});
            summary.cumulative_reward
        };
        let mean = (0..plan.oracle_flights).map(reward).sum::<f64>() / plan.oracle_flights.max(1) as f64;
        if mean.is_finite() { mean } else { f64::NEG_INFINITY }
    };
    let (theta, _) = climb(theta_of(start), &settings, judge, |_, _| {});
    gains_of(&theta)
}
