//! A whole flight: a pilot follows a trajectory in a world, and what came of it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use steady_common::observation::{REWARD_CONSTANT, RewardWeights, reward};
use steady_common::{Action, Reference, State, Trajectory, Vec3};

use crate::drone::Drone;
use crate::initial::Initial;
use crate::params::Params;
use crate::paths;
use crate::pilot::{CONTROL_HZ, Order, Pilot};
use crate::world::{World, WorldError};

/// Physics steps per control step.
pub const STEPS_PER_CONTROL: usize = 2;
/// Distance from the reference that counts as lost, m.
const LOST_M: f32 = 1.5;
/// Cosine of the tilt that counts as turned over (75°).
const TURNED_OVER_COS: f32 = 0.26;

/// The paper's tasks, hovering, and two that nothing is trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// 10 s at 1 m, from the air.
    Hover,
    /// From the floor to 1 m, 7 s there, and back.
    TakeoffLand,
    /// Two figure eights at 1 m, from the air.
    #[serde(rename = "figure8")]
    FigureEight,
    /// Twice around a square at 1 m, fast, with a stop at every corner.
    Square,
    /// Two rounds up a helix.
    Helix,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hover, Self::TakeoffLand, Self::FigureEight, Self::Square, Self::Helix];

    /// Name in commands and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hover => "hover",
            Self::TakeoffLand => "takeoff-land",
            Self::FigureEight => "figure8",
            Self::Square => "square",
            Self::Helix => "helix",
        }
    }

    /// The reference over time.
    #[must_use]
    pub fn trajectory(self) -> Trajectory<'static> {
        match self {
            Self::Hover => Trajectory::Hover { position: Vec3::Z },
            Self::TakeoffLand => Trajectory::TAKEOFF_LAND,
            Self::FigureEight => Trajectory::FIGURE_EIGHT,
            Self::Square => Trajectory::Poly4d { pieces: &paths::SQUARE, offset: Vec3::ZERO },
            Self::Helix => Trajectory::Poly4d { pieces: &paths::HELIX, offset: Vec3::ZERO },
        }
    }

    /// How long it is flown, s.
    #[must_use]
    pub fn duration_s(self) -> f32 {
        match self {
            Self::Hover => 10.0,
            _ => self.trajectory().duration(),
        }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|task| task.name() == name).ok_or_else(|| {
            format!("there is no task `{name}`; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

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

/// How a flight went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// More than 75° of tilt.
    TurnedOver,
    /// More than 1.5 m from the reference.
    Lost,
}

/// What came of a flight. After a crash the remaining time counts as at the moment of the crash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean distance from the reference, m.
    pub tracking_error_m: f32,
    /// Sum of the rewards of all control steps without their constant (the paper's table).
    pub cumulative_reward: f32,
    /// Mean height error while the reference stands still in the air, m.
    pub hover_height_error_m: f32,
    /// Root mean square of (roll, pitch), rad.
    pub tilt_rms_rad: f32,
    /// Crash, and its time in s.
    pub crash: Option<(Crash, f32)>,
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
pub fn fly(params: &Params, mut pilot: Pilot, task: Task, seed: u64, sample: impl FnMut(&Sample)) -> Summary {
    fly_by(params, |seen, reference, dt| pilot.order(seen, reference, dt), task, seed, sample)
}

/// The same with any controller: it is given the perceived state, the reference and the step's length.
pub fn fly_by(
    params: &Params,
    mut pilot: impl FnMut(&State, &Reference, f32) -> Order,
    task: Task,
    seed: u64,
    mut sample: impl FnMut(&Sample),
) -> Summary {
    let dt = STEPS_PER_CONTROL as f32 * params.dt_s;
    let trajectory = task.trajectory();
    let mut drone = Drone::new(params, seed, 0);
    if task != Task::TakeoffLand {
        drone.reset(params, &Initial::hovering(params, trajectory.at(0.0).position));
    }
    let steps = (task.duration_s() / dt) as usize;
    let mut totals = Totals::default();
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
        if let Some(crash) = crashed(&truth, &reference) {
            return totals.summary(steps, Some((crash, time_s)));
        }
        for _ in 0..STEPS_PER_CONTROL {
            drone.step(params, order.motors);
        }
    }
    totals.summary(steps, None)
}

/// How a state is a crash, if it is.
#[must_use]
pub fn crashed(truth: &State, reference: &Reference) -> Option<Crash> {
    // Written so that a state which is no number counts as lost.
    let near = (truth.position - reference.position).norm() < LOST_M;
    if !near {
        Some(Crash::Lost)
    } else if truth.attitude.to_matrix().z.z < TURNED_OVER_COS {
        Some(Crash::TurnedOver)
    } else {
        None
    }
}

/// Sums over the flight, in double precision: a flight has thousands of steps.
#[derive(Default)]
struct Totals {
    steps: usize,
    error: f64,
    reward: f64,
    tilt_squared: f64,
    hover_steps: usize,
    height_error: f64,
    last_error: f64,
    last_reward: f64,
}

impl Totals {
    fn add(&mut self, truth: &State, reference: &Reference, action: &Action) {
        let rpy = truth.attitude.to_euler();
        self.steps += 1;
        self.last_error = f64::from((truth.position - reference.position).norm());
        self.error += self.last_error;
        self.last_reward =
            f64::from(reward(&RewardWeights::PAPER, truth, reference, action) - REWARD_CONSTANT);
        self.reward += self.last_reward;
        self.tilt_squared += f64::from(rpy.x * rpy.x + rpy.y * rpy.y);
        if reference.position.z > 0.5 && reference.velocity.norm() < 1e-3 {
            self.hover_steps += 1;
            self.height_error += f64::from((truth.position.z - reference.position.z).abs());
        }
    }

    fn summary(&self, planned: usize, crash: Option<(Crash, f32)>) -> Summary {
        let missed = planned.saturating_sub(self.steps) as f64;
        Summary {
            tracking_error_m: ((self.error + missed * self.last_error) / planned.max(1) as f64) as f32,
            cumulative_reward: (self.reward + missed * self.last_reward) as f32,
            hover_height_error_m: (self.height_error / self.hover_steps.max(1) as f64) as f32,
            tilt_rms_rad: ((self.tilt_squared / self.steps.max(1) as f64).sqrt()) as f32,
            crash,
        }
    }
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
    fn tasks_have_one_name_everywhere() {
        for task in Task::ALL {
            assert_eq!(task.name().parse(), Ok(task));
            assert_eq!(toml::Value::try_from(task).unwrap(), toml::Value::String(task.name().to_owned()));
        }
        assert!("figure9".parse::<Task>().unwrap_err().contains("figure8"));
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
