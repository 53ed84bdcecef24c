//! What is compared, and how hard.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use steady_sim::World;
use steady_sim::flight::Task;

use crate::adapt::config::Config;

/// First sampler seed of the worlds in which STEADY must do no harm; the adaptation's own check uses lower ones.
const HARM_FIRST_WORLD: u64 = 2000;
const HARM_WORLDS: u64 = 20;
/// Prefix of a world that the sampler makes.
const SAMPLE: &str = "sample-";
/// Prefix of the one variation that is no setting of the adaptation.
const FLIGHTS: &str = "flights=";
/// What the ablation varies.
const VARIATIONS: [&str; 10] = [
    "lambda=0.0",
    "lambda=0.01",
    "lambda=0.1",
    "lambda=1.0",
    "features=65",
    "features=130",
    "features=260",
    "flights=1",
    "flights=5",
    "flights=20",
];

/// What a comparison is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// The paper's table and figures, with five seeds.
    Paper,
    /// A short look with one seed.
    Quick,
    /// Whether STEADY ever makes a drone fly worse: twenty random worlds.
    Harm,
    /// What the penalty λ, the number of flights and of new features bring.
    Ablation,
}

/// Who flies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// The Crazyflie's built-in cascaded PID.
    Pid,
    /// The gains that were learned in the simulator.
    Simulator,
    /// Learned from flights with the simulator's skills alone.
    Transfer,
    /// Learned from flights with new skills discovered.
    Steady,
    /// Gains searched in the world itself: the ceiling.
    Oracle,
    /// Gains that were learned in many random simulated worlds.
    DomainRandomisation,
}

impl Controller {
    /// Name in commands and files.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Simulator => "simulator",
            Self::Transfer => "transfer",
            Self::Steady => "steady",
            Self::Oracle => "oracle",
            Self::DomainRandomisation => "domain-randomisation",
        }
    }

    /// Name in tables and pictures.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Pid => "Built-in PID",
            Self::Simulator => "Simulator",
            Self::Transfer => "Skill transfer",
            Self::Steady => "STEADY",
            Self::Oracle => "Oracle",
            Self::DomainRandomisation => "Domain randomisation",
        }
    }

    /// True when it learns from flights in the world it is judged in.
    #[must_use]
    pub fn learns_from_flights(self) -> bool {
        matches!(self, Self::Transfer | Self::Steady)
    }
}

/// The task on whose flights a controller learns that is judged by `task`.
#[must_use]
pub fn learned_on(task: Task) -> Task {
    match task {
        Task::Hover | Task::TakeoffLand => Task::TakeoffLand,
        Task::FigureEight | Task::Square | Task::Helix => Task::FigureEight,
    }
}

/// What every number depends on: it must not change between the beginning of an evaluation and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Preset of the trainings.
    pub preset: String,
    /// Random worlds of the training with domain randomisation.
    pub random_worlds: usize,
    /// Flights to learn from, in each task.
    pub flights: usize,
    /// Rounds in which they are flown.
    pub rounds: usize,
    /// Standard deviations of the noise in these flights.
    pub noise: [f32; 4],
    /// Control steps for which a draw of it is held.
    pub hold: u16,
    /// Changed settings of the adaptation, each `key=value`.
    pub adapt: Vec<String>,
    /// Flights without noise that a round's gains are shown by in the learning curve.
    pub probes: usize,
    /// Flights that a controller is judged by.
    pub judged: usize,
    /// Generations of the oracle's search.
    pub oracle_generations: usize,
    /// Candidates in each.
    pub oracle_population: usize,
    /// Flights that a candidate is judged by.
    pub oracle_flights: usize,
}

impl Plan {
    /// The adaptation's settings in a variation.
    ///
    /// # Errors
    /// If a change names no setting or has no fitting value.
    pub fn adaptation(&self, variation: &str, discovery: bool) -> anyhow::Result<Config> {
        let mut changes = self.adapt.clone();
        if !variation.is_empty() && !variation.starts_with(FLIGHTS) {
            changes.push(variation.to_owned());
        }
        let config = Config::with(&changes)?;
        Ok(Config { discovery: discovery && config.discovery, ..config })
    }

    /// Flights and rounds in a variation; a round has one flight at least.
    ///
    /// # Errors
    /// If the variation's number is none.
    pub fn flights_and_rounds(&self, variation: &str) -> anyhow::Result<(usize, usize)> {
        let flights = match variation.strip_prefix(FLIGHTS) {
            Some(number) => number.parse()?,
            None => self.flights,
        };
        Ok((flights, self.rounds.min(flights)))
    }
}

/// The axes of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What it is for.
    pub suite: Suite,
    /// Worlds: shipped ones, files, or `sample-N`.
    pub worlds: Vec<String>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// Controllers.
    pub controllers: Vec<Controller>,
    /// Variations of what learns from flights; the empty one is the plan as it is.
    pub variations: Vec<String>,
    /// Seeds of trainings and flights.
    pub seeds: Vec<u64>,
    /// How hard.
    pub plan: Plan,
}

impl Settings {
    /// A suite as it comes.
    #[must_use]
    pub fn of(suite: Suite) -> Self {
        use Controller::{DomainRandomisation, Oracle, Pid, Simulator, Steady, Transfer};
        let paper = Self {
            suite,
            worlds: vec!["paper".to_owned()],
            tasks: vec![Task::TakeoffLand, Task::FigureEight, Task::Square, Task::Helix],
            controllers: vec![Pid, Simulator, Transfer, Steady, Oracle, DomainRandomisation],
            variations: vec![String::new()],
            seeds: (1..=5).collect(),
            plan: Plan {
                preset: "quick".to_owned(),
                random_worlds: 64,
                flights: 20,
                rounds: 10,
                noise: [0.05, 0.05, 0.05, 0.025],
                hold: 25,
                adapt: Vec::new(),
                probes: 4,
                judged: 20,
                oracle_generations: 120,
                oracle_population: 24,
                oracle_flights: 4,
            },
        };
        let tasks = vec![Task::TakeoffLand, Task::FigureEight];
        match suite {
            Suite::Paper => paper,
            Suite::Quick => Self {
                tasks,
                controllers: vec![Pid, Simulator, Transfer, Steady, Oracle],
                seeds: vec![1],
                plan: Plan {
                    flights: 8,
                    rounds: 4,
                    judged: 8,
                    oracle_generations: 20,
                    oracle_population: 16,
                    oracle_flights: 2,
                    ..paper.plan
                },
                ..paper
            },
            Suite::Harm => Self {
                worlds: (HARM_FIRST_WORLD..HARM_FIRST_WORLD + HARM_WORLDS)
                    .map(|n| format!("{SAMPLE}{n}"))
                    .collect(),
                tasks,
                controllers: vec![Simulator, Steady],
                seeds: vec![1],
                plan: Plan { flights: 10, rounds: 5, probes: 0, ..paper.plan },
                ..paper
            },
            Suite::Ablation => Self {
                tasks,
                controllers: vec![Simulator, Transfer, Steady],
                variations: std::iter::once("").chain(VARIATIONS).map(str::to_owned).collect(),
                seeds: vec![1, 2],
                plan: Plan { probes: 0, ..paper.plan },
                ..paper
            },
        }
    }

    /// Leaves out variations that are the plan itself.
    ///
    /// # Errors
    /// If one names no setting of the adaptation.
    pub fn without_repetitions(mut self) -> anyhow::Result<Self> {
        let plain = (self.plan.adaptation("", true)?, self.plan.flights_and_rounds("")?);
        let mut kept = Vec::new();
        for variation in self.variations {
            let other = (self.plan.adaptation(&variation, true)?, self.plan.flights_and_rounds(&variation)?);
            if variation.is_empty() || other != plain {
                kept.push(variation);
            }
        }
        self.variations = kept;
        Ok(self)
    }

    /// The variations that there are of a controller.
    pub fn variations_of(&self, controller: Controller) -> impl Iterator<Item = &str> {
        self.variations.iter().map(String::as_str).filter(move |variation| match controller {
            Controller::Steady => true,
            // Without discovery only the number of flights means something.
            Controller::Transfer => variation.is_empty() || variation.starts_with(FLIGHTS),
            _ => variation.is_empty(),
        })
    }
}

/// A world by its name, by its file, or `sample-N` for number N of the sampler; and its name in tables.
///
/// # Errors
/// If there is no such world, or it is not valid.
pub fn world(name: &str) -> anyhow::Result<(String, World)> {
    if let Some(number) = name.strip_prefix(SAMPLE).and_then(|n| n.parse().ok()) {
        return Ok((name.to_owned(), World::sample(number)));
    }
    let world = World::load(name)?;
    let label = std::path::Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((label, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variations_change_what_they_say_and_nothing_twice() {
        let settings = Settings::of(Suite::Ablation).without_repetitions().unwrap();
        let plain = settings.plan.adaptation("", true).unwrap();
        for variation in settings.variations.iter().filter(|v| !v.is_empty()) {
            let config = settings.plan.adaptation(variation, true).unwrap();
            let flights = settings.plan.flights_and_rounds(variation).unwrap();
            assert!(config != plain || flights != (20, 10), "{variation}");
        }
        assert_eq!(settings.plan.flights_and_rounds("flights=1").unwrap(), (1, 1));
        assert_eq!(settings.plan.flights_and_rounds("flights=5").unwrap(), (5, 5));
        assert!(!settings.plan.adaptation("flights=5", false).unwrap().discovery);
        let transfer: Vec<_> = settings.variations_of(Controller::Transfer).collect();
        assert_eq!(transfer, ["", "flights=1", "flights=5"]);
        assert_eq!(settings.variations_of(Controller::Simulator).count(), 1);
    }

    #[test]
    fn worlds_come_by_name_number_and_not_otherwise() {
        assert_eq!(world("paper").unwrap().0, "paper");
        assert_eq!(world("sample-1003").unwrap().1, World::sample(1003));
        assert!(world("sample-x").is_err() && world("papper").is_err());
    }

    #[test]
    fn worlds_of_the_harm_suite_are_not_those_of_the_adaptations_check() {
        let worlds = Settings::of(Suite::Harm).worlds;
        assert_eq!(worlds.len(), 20);
        let number = |w: &String| w.strip_prefix(SAMPLE).and_then(|n| n.parse::<u64>().ok());
        assert!(worlds.iter().all(|w| number(w) >= Some(96)));
    }
}
