//! Settings of a closed loop, and the seeds of its flights.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use steady_common::exploration::Exploration;
use steady_sim::World;
use steady_sim::script::Course;

use super::drone::Drone;
use super::native_drone::NativeDrone;
use super::virtual_drone::VirtualDrone;
use crate::fly::Program;

/// Noise of the exploring flights: standard deviations of thrust, roll, pitch and yaw.
pub const NOISE: [f32; 4] = [0.05, 0.05, 0.05, 0.025];
/// Control steps for which a draw of it is held: one transition of the training.
pub const HOLD: u16 = 25;

/// Seeds of flights: each seed of a loop has a block of its own, in which judging flights count from 1,
/// exploring ones of iteration n from `EXPLORING · (n + 1)`, and those of a comparison from `COMPARING`.
const PER_SEED: u64 = 100_000;
const EXPLORING: u64 = 1000;
const COMPARING: u64 = 90_000;
/// So that seeds of iterations stay below those of comparisons.
const MAX_ITERATIONS: u32 = 80;
/// The largest number of flights at a station.
pub const MAX_FLIGHTS: u32 = 200;

/// Settings of a loop. A loop continues only with the ones it began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Which drone: `native`, `virtual` or `real`.
    pub drone: String,
    /// The task: its name, or a CSV file of polynomial pieces.
    pub task: String,
    /// The world: a name or file, or `sample-N`, `measured-N` or `outside-N`.
    pub world: String,
    /// Adaptations.
    pub iterations: u32,
    /// Exploring flights before each adaptation.
    pub flights: u32,
    /// Flights without noise that judge a table.
    pub judging: u32,
    /// So many iterations in a row without a clear improvement end the loop.
    pub patience: u32,
    /// Seed of everything random but the training.
    pub seed: u64,
    /// Standard deviations of the noise on thrust, roll, pitch and yaw.
    pub noise: [f32; 4],
    /// Control steps for which a draw of the noise is held.
    pub hold: u16,
    /// Use the simulator's skills alone, without discovery.
    pub transfer_only: bool,
    /// Changed settings of the adaptation, as `KEY=VALUE`.
    pub changes: Vec<String>,
    /// What goes wrong in the exploring flights, as `SECONDS:WHAT[=VALUE]`.
    pub faults: Vec<String>,
    /// Free room on the card at the start of such a flight, MiB; all of it if not given.
    pub card_free_mib: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            drone: "virtual".to_owned(),
            task: "takeoff-land".to_owned(),
            world: "paper".to_owned(),
            iterations: 4,
            flights: 3,
            judging: 3,
            patience: 2,
            seed: 1,
            noise: NOISE,
            hold: HOLD,
            transfer_only: false,
            changes: Vec::new(),
            faults: Vec::new(),
            card_free_mib: None,
        }
    }
}

impl Settings {
    /// Refuses settings that cannot be.
    pub fn check(&self) -> Result<()> {
        ensure!(self.iterations <= MAX_ITERATIONS, "`iterations` may be at most {MAX_ITERATIONS}");
        ensure!((1..=MAX_FLIGHTS).contains(&self.flights), "`flights` must lie in 1 to {MAX_FLIGHTS}");
        // A single flight has no interval.
        ensure!((2..=MAX_FLIGHTS).contains(&self.judging), "`judging` must lie in 2 to {MAX_FLIGHTS}");
        ensure!(self.patience >= 1, "`patience` must be at least 1");
        ensure!(self.seed < u64::MAX / PER_SEED, "`seed` is too large");
        ensure!(self.hold >= 1, "`hold` must be at least 1");
        ensure!(
            self.noise.iter().all(|n| (0.0..=Exploration::LIMIT).contains(n)),
            "`noise` must lie in 0 to {}",
            Exploration::LIMIT
        );
        Ok(())
    }

    /// The native or virtual drone of these settings; `elf` is the virtual one's image.
    pub fn simulated_drone(&self, elf: Option<&Path>) -> Result<Box<dyn Drone>> {
        match self.drone.as_str() {
            "native" => {
                let course: Course = self.task.parse().map_err(anyhow::Error::msg)?;
                Ok(Box::new(NativeDrone::new(&World::load(&self.world)?, course)?))
            }
            "virtual" => Ok(Box::new(VirtualDrone {
                program: Program::find(elf)?,
                task: self.task.clone(),
                world: self.world.clone(),
            })),
            other => bail!("`{other}` is not a simulated drone"),
        }
    }

    /// Names of the settings in which the other differs.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let fields = |s: &Self| serde_json::to_value(s).unwrap_or_default();
        let (mine, others) = (fields(self), fields(other));
        let names = mine.as_object().into_iter().flat_map(|o| o.keys());
        names.filter(|name| mine[name.as_str()] != others[name.as_str()]).cloned().collect()
    }

    /// The noise of an exploring flight.
    pub fn exploration(&self, seed: u64) -> Exploration {
        Exploration { enabled: true, std: self.noise, hold: self.hold, seed: seed as u32 }
    }

    /// Seeds of the flights that judge a table: the same for every table, so that their differences are the
    /// tables'.
    pub fn judging_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        numbers(self.seed * PER_SEED, self.judging)
    }

    /// Seeds of the exploring flights of an iteration.
    pub fn exploring_seeds(&self, iteration: u32) -> impl Iterator<Item = u64> + use<> {
        numbers(self.seed * PER_SEED + EXPLORING * (u64::from(iteration) + 1), self.flights)
    }

    /// Seeds of the flights that compare controllers: no table was chosen by them.
    pub fn comparing_seeds(&self, flights: u32) -> impl Iterator<Item = u64> + use<> {
        numbers(self.seed * PER_SEED + COMPARING, flights)
    }
}

fn numbers(after: u64, count: u32) -> impl Iterator<Item = u64> {
    (1..=u64::from(count)).map(move |n| after + n)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_flights_share_a_seed() {
        let mut seen = HashSet::new();
        for seed in 1..4 {
            let s = Settings {
                seed,
                iterations: MAX_ITERATIONS,
                flights: MAX_FLIGHTS,
                judging: MAX_FLIGHTS,
                ..Settings::default()
            };
            s.check().unwrap();
            let exploring = (0..=s.iterations).flat_map(|n| s.exploring_seeds(n));
            for n in s.judging_seeds().chain(exploring).chain(s.comparing_seeds(MAX_FLIGHTS)) {
                assert!(seen.insert(n), "{n}");
            }
        }
    }

    #[test]
    fn bad_settings_are_refused_and_differences_named() {
        let good = Settings::default();
        good.check().unwrap();
        for bad in [
            Settings { flights: 0, ..good.clone() },
            Settings { judging: 1, ..good.clone() },
            Settings { iterations: 81, ..good.clone() },
            Settings { noise: [0.0, 0.0, f32::NAN, 0.0], ..good.clone() },
            Settings { noise: [0.0, 0.0, 0.2, 0.0], ..good.clone() },
            Settings { seed: u64::MAX, ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
            assert_eq!(good.differences(&bad).len(), 1);
        }
    }
}
