//! What is compared, and by which protocol.

use anyhow::ensure;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use steady_sim::Task;

use crate::adapt::config::Config;
use crate::closed_loop::ControllerKind;
use crate::closed_loop::settings::{HOLD, NOISE, Settings};

/// First sampler seed of the worlds in which STEADY must do no harm; the adaptation's own check uses lower ones.
const HARM_FIRST_WORLD: u64 = 2000;
const HARM_WORLDS: u64 = 20;
/// First world of the suite `outside`, and how many there are: nothing was chosen by these.
const OUTSIDE_FIRST_WORLD: u64 = 1001;
const OUTSIDE_WORLDS: u64 = 10;
/// Prefix of a world that the sampler makes.
const SAMPLE: &str = "sample-";
/// Prefix of the one variation that is not a setting of the adaptation.
const FLIGHTS: &str = "flights=";
/// What the ablation varies.
const VARIATIONS: [&str; 8] = [
    "units=0",
    "units=4",
    "units=32",
    "search_steps=2",
    "model=skills",
    "flights=1",
    "flights=5",
    "flights=20",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Suite {
    /// The paper's table and figures, with five seeds.
    Paper,
    /// A short look with one seed.
    Quick,
    /// Whether STEADY ever makes a drone fly worse: twenty random worlds.
    Harm,
    /// Ten random worlds that no parameters of the simulator express, each with a seed of its own and one flight an
    /// iteration.
    Outside,
    /// The effect of learned features, of the search's length, of the number of flights, and of the simulator itself.
    Ablation,
}

/// The task on whose flights a controller learns that is judged by `task`.
pub(crate) fn learned_on(task: Task) -> Task {
    match task {
        Task::Hover | Task::TakeoffLand => Task::TakeoffLand,
        Task::FigureEight | Task::Square | Task::Helix => Task::FigureEight,
    }
}

/// What every number depends on: it must not change between the beginning of an evaluation and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Protocol {
    /// Which drone flies: `native` or `virtual`.
    pub(crate) drone: String,
    pub(crate) preset: String,
    /// Random worlds of the training with domain randomisation.
    pub(crate) random_worlds: usize,
    /// Exploring flights to learn from, in each task.
    pub(crate) flights: u32,
    /// Iterations of the closed loop that they are flown in.
    pub(crate) iterations: u32,
    /// Flights that judge the table of an iteration.
    pub(crate) judging: u32,
    /// Standard deviations of the noise in the exploring flights.
    pub(crate) noise: [f32; 4],
    /// Control steps for which a draw of it is held.
    pub(crate) hold: u16,
    /// Changed settings of the adaptation, each `key=value`.
    pub(crate) adapt: Vec<String>,
    /// Flights that a controller is judged by in the end.
    pub(crate) judged: u32,
    /// Gauss–Newton steps of each of the oracle's searches.
    pub(crate) oracle_steps: usize,
    /// CRC-32 of another firmware's image, whose controllers fly too; 0 for none.
    #[serde(default)]
    pub(crate) official_crc32: u32,
}

impl Protocol {
    /// Settings of the closed loop by which a controller learns.
    pub(crate) fn closed_loop(
        &self,
        controller: ControllerKind,
        variation: &str,
        world: &str,
        task: Task,
        seed: u64,
    ) -> anyhow::Result<Settings> {
        let mut changes = self.adapt.clone();
        let mut flights = self.flights;
        match variation.strip_prefix(FLIGHTS) {
            Some(number) => flights = number.parse()?,
            None => changes.extend((!variation.is_empty()).then(|| variation.to_owned())),
        }
        if controller == ControllerKind::Regression {
            changes.push("model=skills".to_owned());
        }
        Config::with(&changes)?;
        // Fewer flights than iterations are one an iteration.
        let iterations = self.iterations.min(flights);
        ensure!(
            flights.is_multiple_of(iterations),
            "{flights} flights do not divide into {iterations} iterations of the same number"
        );
        let settings = Settings {
            drone: self.drone.clone(),
            task: task.name().to_owned(),
            world: world.to_owned(),
            iterations,
            flights: flights / iterations,
            judging: self.judging,
            // Every method gets all of its flights.
            patience: iterations,
            seed,
            noise: self.noise,
            hold: self.hold,
            transfer_only: controller == ControllerKind::Transfer,
            changes,
            faults: Vec::new(),
            card_free_mib: None,
        };
        settings.check()?;
        Ok(settings)
    }
}

/// The axes of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuiteSettings {
    pub(crate) suite: Suite,
    /// Worlds: shipped ones, files, or `sample-N`, `measured-N` or `outside-N`.
    pub(crate) worlds: Vec<String>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) controllers: Vec<ControllerKind>,
    /// Variations of what learns from flights; the empty one is the protocol itself.
    pub(crate) variations: Vec<String>,
    /// Seeds of trainings and flights.
    pub(crate) seeds: Vec<u64>,
    /// The first world goes with the first seed, and so on: independent samples of both.
    #[serde(default)]
    pub(crate) paired: bool,
    pub(crate) protocol: Protocol,
}

impl SuiteSettings {
    pub(crate) fn of(suite: Suite) -> Self {
        use ControllerKind::{
            DirectSearch, DomainRandomisation, Gradient, Nominal, Oracle, Pid, Regression, Simulator, Steady,
            StockMellinger, Transfer,
        };
        let paper = Self {
            suite,
            worlds: vec!["paper".to_owned()],
            tasks: vec![Task::TakeoffLand, Task::FigureEight, Task::Square, Task::Helix],
            controllers: vec![
                Pid,
                StockMellinger,
                Nominal,
                Simulator,
                Transfer,
                Steady,
                Oracle,
                DomainRandomisation,
            ],
            variations: vec![String::new()],
            seeds: (1..=5).collect(),
            paired: false,
            protocol: Protocol {
                drone: "native".to_owned(),
                preset: "quick".to_owned(),
                random_worlds: 64,
                flights: 20,
                iterations: 10,
                judging: 3,
                noise: NOISE,
                hold: HOLD,
                adapt: Vec::new(),
                judged: 20,
                oracle_steps: 12,
                official_crc32: 0,
            },
        };
        let tasks = vec![Task::TakeoffLand, Task::FigureEight];
        match suite {
            Suite::Paper => paper,
            Suite::Quick => Self {
                tasks,
                controllers: vec![Pid, Simulator, Transfer, Steady, Oracle],
                seeds: vec![1],
                protocol: Protocol {
                    flights: 8,
                    iterations: 4,
                    judged: 8,
                    oracle_steps: 4,
                    ..paper.protocol
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
                protocol: Protocol { flights: 10, iterations: 5, ..paper.protocol },
                ..paper
            },
            Suite::Outside => Self {
                worlds: (OUTSIDE_FIRST_WORLD..OUTSIDE_FIRST_WORLD + OUTSIDE_WORLDS)
                    .map(|n| format!("outside-{n}"))
                    .collect(),
                tasks,
                controllers: vec![
                    Pid,
                    StockMellinger,
                    Nominal,
                    Simulator,
                    DirectSearch,
                    Gradient,
                    Regression,
                    Transfer,
                    Steady,
                    Oracle,
                ],
                seeds: (1..=OUTSIDE_WORLDS).collect(),
                paired: true,
                protocol: Protocol { flights: 5, iterations: 5, ..paper.protocol },
                ..paper
            },
            Suite::Ablation => Self {
                tasks,
                controllers: vec![Simulator, Transfer, Steady],
                variations: std::iter::once("").chain(VARIATIONS).map(str::to_owned).collect(),
                seeds: vec![1, 2],
                ..paper
            },
        }
    }

    /// Checks every loop's settings, and leaves out variations that are the protocol itself.
    pub(crate) fn checked(mut self) -> anyhow::Result<Self> {
        let of = |variation: &str| {
            let settings =
                self.protocol.closed_loop(ControllerKind::Steady, variation, "", Task::default(), 1)?;
            let config = Config::with(&settings.changes)?;
            anyhow::Ok((config, settings.flights, settings.iterations))
        };
        let plain = of("")?;
        let mut kept = Vec::new();
        for variation in &self.variations {
            if variation.is_empty() || of(variation)? != plain {
                kept.push(variation.clone());
            }
        }
        self.variations = kept;
        Ok(self)
    }

    /// The seeds that fly in a world.
    pub(crate) fn seeds_in(&self, world: &str) -> Vec<u64> {
        if !self.paired {
            return self.seeds.clone();
        }
        let pairs = self.worlds.iter().zip(&self.seeds);
        pairs.filter(|(other, _)| *other == world).map(|(_, seed)| *seed).collect()
    }

    /// The one whose flights stand for a world where only one can.
    pub(crate) fn first_seed(&self, world: &str) -> u64 {
        self.seeds_in(world).first().copied().unwrap_or(1)
    }

    pub(crate) fn variations_of(&self, controller: ControllerKind) -> impl Iterator<Item = &str> {
        self.variations.iter().map(String::as_str).filter(move |variation| match controller {
            ControllerKind::Steady => true,
            // Without discovery only the number of flights matters.
            ControllerKind::Transfer => variation.is_empty() || variation.starts_with(FLIGHTS),
            _ => variation.is_empty(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variations_change_what_they_say_and_nothing_twice() {
        let settings = SuiteSettings::of(Suite::Ablation).checked().unwrap();
        let of = |controller, variation: &str| {
            settings.protocol.closed_loop(controller, variation, "paper", Task::FigureEight, 3).unwrap()
        };
        let plain = of(ControllerKind::Steady, "");
        assert_eq!((plain.flights, plain.iterations, plain.seed), (2, 10, 3));
        for variation in settings.variations.iter().filter(|v| !v.is_empty()) {
            assert_ne!(of(ControllerKind::Steady, variation), plain, "{variation}");
        }
        let one = of(ControllerKind::Steady, "flights=1");
        let five = of(ControllerKind::Transfer, "flights=5");
        assert_eq!((one.flights, one.iterations, one.transfer_only), (1, 1, false));
        assert_eq!((five.flights, five.iterations, five.transfer_only), (1, 5, true));
        let transfer: Vec<_> = settings.variations_of(ControllerKind::Transfer).collect();
        assert_eq!(transfer, ["", "flights=1", "flights=5"]);
        assert_eq!(settings.variations_of(ControllerKind::Simulator).count(), 1);
    }

    #[test]
    fn worlds_and_seeds_are_paired_outside_and_nowhere_else() {
        let outside = SuiteSettings::of(Suite::Outside);
        assert_eq!((outside.seeds_in("outside-1002"), outside.first_seed("outside-1002")), (vec![2], 2));
        let paper = SuiteSettings::of(Suite::Paper);
        assert_eq!((paper.seeds_in("paper"), paper.first_seed("paper")), (vec![1, 2, 3, 4, 5], 1));
    }

    #[test]
    fn worlds_of_the_harm_suite_are_not_those_of_the_adaptations_check() {
        let worlds = SuiteSettings::of(Suite::Harm).worlds;
        assert_eq!(worlds.len(), 20);
        let number = |w: &String| w.strip_prefix(SAMPLE).and_then(|n| n.parse::<u64>().ok());
        assert!(worlds.iter().all(|w| number(w) >= Some(crate::adapt::worlds::DRAWN)));
    }
}
