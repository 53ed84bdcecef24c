//! A whole flight: a pilot follows a trajectory in a world, and what came of it.

use steady_common::{Action, Reference, State};

use crate::drone::Drone;
use crate::initial::Initial;
use crate::metrics::{Accumulator, FlightMetrics};
use crate::params::Params;
use crate::pilot::{CONTROL_HZ, Order, Pilot};
pub use crate::task::Task;
use crate::world::{World, WorldError};

/// Physics steps per control step.
pub const STEPS_PER_CONTROL: usize = 2;
/// One control step of a flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time since the start, s.
    pub time_s: f32,
    /// Where the drone was.
    pub truth: State,
    /// Where it believed to be.
    pub seen: State,
    /// Where it should have been.
    pub reference: Reference,
    /// What the pilot asked for.
    pub action: Action,
    /// What the motors were told.
    pub motors: [f32; 4],
    /// Battery voltage, V.
    pub battery_v: f32,
}

/// The world as flights are simulated in it: two physics steps per control step.
///
/// # Errors
/// If the world is not valid.
pub fn params(world: &World) -> Result<Params, WorldError> {
    let mut world = world.clone();
    world.physics.rate_hz = CONTROL_HZ * STEPS_PER_CONTROL as f32;
    world.compile()
}

/// Flies a task in a world compiled by [`params`]; `sample` is told of every control step.
pub fn fly(
    params: &Params,
    mut pilot: Pilot,
    task: Task,
    seed: u64,
    sample: impl FnMut(&Sample),
) -> FlightMetrics {
    fly_by(params, |seen, reference, dt| pilot.order(seen, reference, dt), task, seed, sample)
}

/// The same with any controller: it is given the perceived state, the reference and the step's length.
pub fn fly_by(
    params: &Params,
    mut pilot: impl FnMut(&State, &Reference, f32) -> Order,
    task: Task,
    seed: u64,
    mut sample: impl FnMut(&Sample),
) -> FlightMetrics {
    let dt = STEPS_PER_CONTROL as f32 * params.dt_s;
    let trajectory = task.trajectory();
    let mut drone = Drone::new(params, seed, 0);
    if !task.starts_on_floor() {
        drone.reset(params, &Initial::hovering(params, trajectory.at(0.0).position));
    }
    let steps = (task.duration_s() / dt) as usize;
    let mut totals = Accumulator::new(f64::from(dt));
    for step in 0..steps {
        let time_s = step as f32 * dt;
        let reference = trajectory.at(time_s);
        let (truth, seen) = (*drone.truth(), *drone.perceived());
        let order = pilot(&seen, &reference, dt);
        totals.add(&truth, &reference, &order.action);
        sample(&Sample {
            time_s,
            truth,
            seen,
            reference,
            action: order.action,
            motors: order.motors,
            battery_v: drone.battery().voltage_v,
        });
        if totals.crash().is_some() {
            break;
        }
        for _ in 0..STEPS_PER_CONTROL {
            drone.step(params, order.motors);
        }
    }
    totals.finish(steps).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use steady_common::Gains;
    use steady_common::law::Vehicle;

    use super::*;

    fn pilots() -> [(&'static str, Pilot); 3] {
        [
            ("pid", Pilot::pid()),
            ("stock", Pilot::stock_mellinger()),
            ("mellinger", Pilot::mellinger(Gains::nominal(), Vehicle::NOMINAL)),
        ]
    }

    #[test]
    fn every_controller_flies_every_task_in_the_nominal_world() {
        let params = params(&World::named("nominal").unwrap()).unwrap();
        for (name, pilot) in pilots() {
            for task in Task::ALL {
                let s = fly(&params, pilot, task, 1, |_| {});
                assert_eq!(s.crash, None, "{name} {}", task.name());
                // The built-in PID ignores the reference's velocity: on paths it lags far behind.
                let lags = name == "pid" && !matches!(task, Task::Hover | Task::TakeoffLand);
                let most = if lags { 1.2 } else { 0.1 };
                assert!(s.tracking_error_m < most, "{name} {}: {s:?}", task.name());
            }
        }
    }

    #[test]
    fn flights_repeat_bit_for_bit_and_differ_by_seed() {
        let params = params(&World::named("paper").unwrap()).unwrap();
        let (_, pilot) = pilots()[2];
        let run = |seed| fly(&params, pilot, Task::FigureEight, seed, |_| {});
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn motors_off_is_a_crash() {
        let params = params(&World::named("nominal").unwrap()).unwrap();
        let mut gains = Gains::nominal();
        gains.attitude.p.xy = -1.0;
        let s = fly(&params, Pilot::mellinger(gains, Vehicle::NOMINAL), Task::FigureEight, 1, |_| {});
        assert!(s.crash.is_some(), "{s:?}");
    }
}
