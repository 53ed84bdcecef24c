//! What is flown: the paper's tasks, hovering, and two paths that nothing is trained on.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use steady_common::{Trajectory, Vec3};

use crate::paths;
use crate::suggest::unknown;

/// A task, with its trajectory and duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// 10 s at 1 m, from the air.
    Hover,
    /// From the floor to 1 m, 7 s there, and back.
    #[default]
    TakeoffLand,
    /// Two figure eights at 1 m, from the air.
    #[serde(rename = "figure8")]
    FigureEight,
    /// Twice around a square at 1 m, fast, with a stop at every corner.
    Square,
    /// Two rounds up a helix.
    Helix,
}

/// Time at 1 m, s.
const HOVER_S: f32 = 10.0;

impl Task {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hover, Self::TakeoffLand, Self::FigureEight, Self::Square, Self::Helix];

    /// Name in commands, files and tables.
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
            Self::Hover => HOVER_S,
            _ => self.trajectory().duration(),
        }
    }

    /// True when the task begins and ends on the floor; the others begin where the trajectory does.
    #[must_use]
    pub fn starts_on_floor(self) -> bool {
        self == Self::TakeoffLand
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|task| task.name() == name)
            .ok_or_else(|| unknown("task", name, &Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_one_name_everywhere() {
        for task in Task::ALL {
            assert_eq!(task.name().parse(), Ok(task));
            assert_eq!(toml::Value::try_from(task).unwrap(), toml::Value::String(task.name().to_owned()));
        }
        let error = "figure9".parse::<Task>().unwrap_err();
        assert!(error.contains("did you mean `figure8`"), "{error}");
    }
}
