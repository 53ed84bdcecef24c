//! How well a flight was flown: the one definition that the simulator, the virtual Crazyflie, logs,
//! evaluations and reports share.
//!
//! A flight is judged over the part of it that counts (the task, without the way there), step by
//! control step, by [`Accumulator`]; [`METRICS`] lists the results, and every table, report and
//! JSON output iterates that list.

use serde::{Deserialize, Serialize};
use steady_common::observation::{REWARD_CONSTANT, RewardWeights, reward};
use steady_common::{Action, Reference, State};

/// Distance from the reference that counts as lost, m.
pub const LOST_M: f32 = 1.5;
/// Cosine of the tilt that counts as flipped (75°).
pub const FLIPPED_COS: f32 = 0.26;
/// A reference above this height, m, …
const HOVER_HEIGHT_M: f32 = 0.5;
/// … and slower than this, m/s, is a hover.
const HOVER_SPEED_M_S: f32 = 1e-3;

/// How a flight crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crash {
    /// More than 75° of tilt.
    Flipped,
    /// More than 1.5 m from the reference, or a non-finite state.
    Lost,
}

impl Crash {
    /// Whether a state is a crash.
    #[must_use]
    pub fn of(state: &State, reference: &Reference) -> Option<Self> {
        // A NaN compares false and counts as lost.
        let is_near = (state.position - reference.position).norm() < LOST_M;
        if !is_near {
            Some(Self::Lost)
        } else if state.attitude.to_matrix().z.z < FLIPPED_COS {
            Some(Self::Flipped)
        } else {
            None
        }
    }
}

/// How well a flight was flown. After a crash the remaining steps count like the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlightMetrics {
    /// Length of the part that counts, s.
    pub duration_s: f64,
    /// Mean distance from the reference, m.
    pub tracking_error_m: f64,
    /// Largest distance from the reference, m.
    pub max_error_m: f64,
    /// Sum over control steps of the reward without its constant (the paper's table).
    pub cumulative_reward: f64,
    /// Mean height error while the reference hovers, m.
    pub hover_height_error_m: f64,
    /// Root mean square of (roll, pitch), rad.
    pub tilt_rms_rad: f64,
    /// The crash, if it was one.
    pub crash: Option<Crash>,
}

/// One column of every table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of the field in JSON and CSV, with its unit.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Unit for people; empty if it has none.
    pub unit: &'static str,
    /// From the field's unit to the one for people.
    pub scale: f64,
    /// Decimals for people.
    pub digits: usize,
    /// True when larger is better.
    pub larger_is_better: bool,
    /// The value in the field's unit.
    pub get: fn(&FlightMetrics) -> f64,
}

impl Metric {
    /// Heading of its column.
    #[must_use]
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.name.to_owned() } else { format!("{} ({})", self.name, self.unit) }
    }

    /// A value in the unit for people.
    #[must_use]
    pub fn scaled(&self, metrics: &FlightMetrics) -> f64 {
        self.scale * (self.get)(metrics)
    }
}

/// Every metric, in the order of the tables' columns.
pub const METRICS: [Metric; 4] = [TRACKING_ERROR, REWARD, HOVER_HEIGHT_ERROR, TILT];

/// Mean distance from the reference.
pub const TRACKING_ERROR: Metric = Metric {
    id: "tracking_error_m",
    name: "tracking error",
    unit: "cm",
    scale: 100.0,
    digits: 2,
    larger_is_better: false,
    get: |m| m.tracking_error_m,
};

/// Sum of the rewards without their constant.
pub const REWARD: Metric = Metric {
    id: "cumulative_reward",
    name: "cumulative reward",
    unit: "",
    scale: 1.0,
    digits: 0,
    larger_is_better: true,
    get: |m| m.cumulative_reward,
};

/// Mean height error while the reference hovers.
pub const HOVER_HEIGHT_ERROR: Metric = Metric {
    id: "hover_height_error_m",
    name: "hover height error",
    unit: "cm",
    scale: 100.0,
    digits: 2,
    larger_is_better: false,
    get: |m| m.hover_height_error_m,
};

/// Root mean square of roll and pitch.
pub const TILT: Metric = Metric {
    id: "tilt_rms_rad",
    name: "roll/pitch RMS",
    unit: "deg",
    scale: 180.0 / std::f64::consts::PI,
    digits: 2,
    larger_is_better: false,
    get: |m| m.tilt_rms_rad,
};

impl FlightMetrics {
    /// True when every value is finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.duration_s.is_finite()
            && self.max_error_m.is_finite()
            && METRICS.iter().all(|m| (m.get)(self).is_finite())
    }

    /// Rounded to nine decimals: the same bits after they were written as JSON and read again.
    #[must_use]
    pub fn rounded(self) -> Self {
        let round = |value: f64| (value * 1e9).round() / 1e9;
        Self {
            duration_s: round(self.duration_s),
            tracking_error_m: round(self.tracking_error_m),
            max_error_m: round(self.max_error_m),
            cumulative_reward: round(self.cumulative_reward),
            hover_height_error_m: round(self.hover_height_error_m),
            tilt_rms_rad: round(self.tilt_rms_rad),
            crash: self.crash,
        }
    }

    /// One line for people: every metric, and the crash.
    #[must_use]
    pub fn line(&self) -> String {
        let mut text = METRICS
            .iter()
            .map(|m| format!("{} {:.*} {}", m.name, m.digits, m.scaled(self), m.unit).trim_end().to_owned())
            .collect::<Vec<_>>()
            .join(", ");
        match self.crash {
            None => {}
            Some(Crash::Flipped) => text.push_str(", crashed: flipped"),
            Some(Crash::Lost) => text.push_str(", crashed: lost"),
        }
        text
    }
}

/// Adds up a flight's control steps, in double precision: a flight has thousands.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    dt_s: f64,
    steps: usize,
    error: f64,
    max_error: f64,
    reward: f64,
    tilt_squared: f64,
    hover_steps: usize,
    height_error: f64,
    last_error: f64,
    last_reward: f64,
    crash: Option<Crash>,
}

impl Accumulator {
    /// For control steps of this length.
    #[must_use]
    pub fn new(dt_s: f64) -> Self {
        Self {
            dt_s,
            steps: 0,
            error: 0.0,
            max_error: 0.0,
            reward: 0.0,
            tilt_squared: 0.0,
            hover_steps: 0,
            height_error: 0.0,
            last_error: 0.0,
            last_reward: 0.0,
            crash: None,
        }
    }

    /// Adds a control step: where the drone was, where it should have been, and what the motors were asked
    /// for. After a crash nothing is added any more.
    pub fn add(&mut self, state: &State, reference: &Reference, action: &Action) {
        if self.crash.is_some() {
            return;
        }
        let rpy = state.attitude.to_euler();
        self.steps += 1;
        self.last_error = f64::from((state.position - reference.position).norm());
        self.error += self.last_error;
        self.max_error = self.max_error.max(self.last_error);
        self.last_reward =
            f64::from(reward(&RewardWeights::PAPER, state, reference, action) - REWARD_CONSTANT);
        self.reward += self.last_reward;
        self.tilt_squared += f64::from(rpy.x * rpy.x + rpy.y * rpy.y);
        if reference.position.z > HOVER_HEIGHT_M && reference.velocity.norm() < HOVER_SPEED_M_S {
            self.hover_steps += 1;
            self.height_error += f64::from((state.position.z - reference.position.z).abs());
        }
        self.crash = Crash::of(state, reference);
    }

    /// The crash, as soon as there was one.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        self.crash
    }

    /// The metrics of a flight that was planned with so many steps; `None` without any step.
    #[must_use]
    pub fn finish(&self, planned_steps: usize) -> Option<FlightMetrics> {
        if self.steps == 0 {
            return None;
        }
        let all = self.steps.max(planned_steps) as f64;
        let missed = all - self.steps as f64;
        Some(FlightMetrics {
            duration_s: all * self.dt_s,
            tracking_error_m: (self.error + missed * self.last_error) / all,
            max_error_m: self.max_error,
            cumulative_reward: self.reward + missed * self.last_reward,
            hover_height_error_m: self.height_error / self.hover_steps.max(1) as f64,
            tilt_rms_rad: (self.tilt_squared / self.steps as f64).sqrt(),
            crash: self.crash,
        })
    }
}

#[cfg(test)]
mod tests {
    use steady_common::{Quat, Vec3};

    use super::*;

    fn at(x: f32, z: f32) -> State {
        State { position: Vec3::new(x, 0.0, z), ..State::default() }
    }

    #[test]
    fn metrics_are_means_and_sums_over_the_steps() {
        let reference = Reference::hover(Vec3::Z);
        let action = Action { thrust: 0.5, ..Action::default() };
        let mut sum = Accumulator::new(0.002);
        sum.add(&at(0.0, 0.9), &reference, &action);
        sum.add(&at(0.3, 1.0), &reference, &action);
        let m = sum.finish(2).unwrap();
        assert!((m.tracking_error_m - 0.2).abs() < 1e-6 && (m.max_error_m - 0.3).abs() < 1e-6, "{m:?}");
        assert!((m.hover_height_error_m - 0.05).abs() < 1e-6, "{m:?}");
        assert!((m.cumulative_reward + 2.5 * 0.4 + 2.0 * 0.1 * 0.5).abs() < 1e-5, "{m:?}");
        assert_eq!((m.duration_s, m.crash), (0.004, None));
        assert_eq!(Accumulator::new(0.002).finish(5), None);
    }

    #[test]
    fn a_crash_counts_to_the_end_of_the_plan() {
        let reference = Reference::hover(Vec3::Z);
        let mut sum = Accumulator::new(0.002);
        sum.add(&at(0.0, 1.0), &reference, &Action::default());
        sum.add(&at(2.0, 1.0), &reference, &Action::default());
        sum.add(&at(0.0, 1.0), &reference, &Action::default());
        let m = sum.finish(10).unwrap();
        assert_eq!(m.crash, Some(Crash::Lost));
        assert!((m.tracking_error_m - 1.8).abs() < 1e-6, "{m:?}");
        let upside_down = State { attitude: Quat::from_euler(Vec3::new(3.0, 0.0, 0.0)), ..at(0.0, 1.0) };
        assert_eq!(Crash::of(&upside_down, &reference), Some(Crash::Flipped));
        assert_eq!(Crash::of(&at(f32::NAN, 1.0), &reference), Some(Crash::Lost));
    }

    #[test]
    fn every_metric_is_a_field_of_the_same_name() {
        let m = FlightMetrics { tracking_error_m: 0.1, cumulative_reward: -5.0, ..FlightMetrics::default() };
        let fields = toml::Table::try_from(m).unwrap();
        for metric in METRICS {
            assert_eq!(fields[metric.id].as_float(), Some((metric.get)(&m)), "{}", metric.id);
        }
        assert_eq!(TRACKING_ERROR.heading(), "tracking error (cm)");
        assert!(m.line().starts_with("tracking error 10.00 cm, cumulative reward -5,"), "{}", m.line());
    }
}
