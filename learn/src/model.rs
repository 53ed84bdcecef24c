//! The simulator after flights: its parameters identified, what it lacks discovered, and worlds that resemble them.

use rayon::prelude::*;
use steady_native::{Plan, Until};
use steady_reality::Flight;
use steady_reality::flight::RATES_DELAY_S;
use steady_reality::identify::{Identified, Prior, identify_from};
use steady_sim::{Rng, Task, World, WorldError};

use crate::discovery::{self, Discovered, discover};
use crate::latency::{self, latency_s};
use crate::logged::{LIKENESS, LoggedFlight, likeness};
use crate::search::{Path, SearchWorld};

/// World that has what a training world idealises and flights do not tell: sensors, battery, floor, network.
const SENSING: &str = "real";
/// Sensors and networks of drawn worlds: those of the sampler from here on.
const FIRST_SENSING: u64 = 1000;
/// Standard deviation of what is drawn about the delay of motion capture, s.
const LATENCY_STD_S: f32 = 0.003;
/// Flights that are identified from, at most: the newest.
const MAX_FLIGHTS: usize = 10;

/// What is done with flights.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How skills are discovered for what the simulator does not explain; not at all if `None`.
    pub discovery: Option<discovery::Settings>,
    /// Worlds that are drawn, of which the most similar to the flights are used.
    pub drawn: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { discovery: Some(discovery::Settings::default()), drawn: 32 }
    }
}

/// The simulator after flights.
#[derive(Debug)]
pub struct Model {
    /// Its parameters.
    pub identified: Identified,
    /// What it lacks, if it was looked for and flights are long enough.
    pub discovered: Option<Discovered>,
    /// How late motion capture is, s, if it could be told.
    pub latency_s: Option<f32>,
    /// Worlds that resemble the newest flight, most similar first.
    pub worlds: Vec<Drawn>,
}

/// A world that the flights could be of.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Ready to fly in, with what the simulator lacks.
    pub world: SearchWorld,
    /// How far it is from the flights.
    pub distance: f64,
}

impl Model {
    /// Fits the simulator `training`, in which the policy was learned, to flights of one drone, the newest last:
    /// logs of this firmware, which also say what worlds must look like, or recordings of others, with which all draws
    /// count the same.
    ///
    /// # Errors
    /// If the world is not valid.
    pub fn fit(
        training: &World,
        recorded: &[Flight],
        logged: &[LoggedFlight],
        path: &Path,
        settings: &Settings,
        seed: u64,
    ) -> Result<Self, WorldError> {
        let logged = &logged[logged.len().saturating_sub(MAX_FLIGHTS)..];
        let latency_s = latency_s(logged);
        let mut flights: Vec<Flight> = recorded.to_vec();
        flights.extend(logged.iter().filter_map(|flight| flight.flight(latency_s)));
        let flights = &flights[flights.len().saturating_sub(MAX_FLIGHTS)..];
        let base =
            World { body: training.body.clone(), motors: training.motors.clone(), ..World::named(SENSING)? };
        let mass_kg = training.body.mass_kg;
        let identified = identify_from(&Prior::around(training), &base, mass_kg, flights, |_, _| {});
        let discovered = match &settings.discovery {
            Some(how) => discover(&identified.world, flights, how, seed)?,
            None => None,
        };
        let model = Self { identified, discovered, latency_s, worlds: Vec::new() };
        let worlds = model.draw(logged.last(), path, settings.drawn, seed)?;
        Ok(Self { worlds, ..model })
    }

    /// Some of the worlds, for a search or for a check of what it found.
    #[must_use]
    pub fn worlds(&self, range: std::ops::Range<usize>) -> Vec<SearchWorld> {
        self.worlds.iter().take(range.end).skip(range.start).map(|drawn| drawn.world.clone()).collect()
    }

    /// Worlds that the flights could be of, those whose flights look most like `flight` first.
    fn draw(
        &self,
        flight: Option<&LoggedFlight>,
        path: &Path,
        count: u64,
        seed: u64,
    ) -> Result<Vec<Drawn>, WorldError> {
        let mut rng = Rng::new(seed, 0x6964_656e);
        let likely = in_loop(self.identified.world.clone());
        let mut drawn = Vec::new();
        for number in 0..count.max(1) {
            let World { imu, mocap, radio, .. } = World::sample(FIRST_SENSING + number);
            let sampled = in_loop(self.identified.sample(&mut rng));
            // Every fourth has the most probable parameters: sensors differ alone.
            let body = if number.is_multiple_of(4) { likely.clone() } else { sampled };
            let mut world = World { imu, mocap, radio, ..body };
            if let Some(latency_s) = self.latency_s {
                latency::put(&mut world, (latency_s + LATENCY_STD_S * rng.normal()).max(0.0));
            }
            let residual = self.discovered.as_ref().and_then(|found| match number % 4 {
                0 => Some(&found.residual),
                member => found.members.get(member as usize),
            });
            drawn.push(Drawn { world: SearchWorld::new(number, &world, residual)?, distance: 0.0 });
        }
        if let Some(flight) = flight {
            sort_by_likeness(&mut drawn, flight, path);
        }
        Ok(drawn)
    }
}

/// A world as the native drone flies in it, which has the filter that delayed the logged rates itself.
fn in_loop(mut world: World) -> World {
    let delay_s = &mut world.motors.command_delay_s;
    *delay_s = (*delay_s - RATES_DELAY_S).max(0.0);
    world
}

/// Flies as a flight was flown, noise included, and sorts worlds by how much theirs looks like it.
fn sort_by_likeness(drawn: &mut [Drawn], flight: &LoggedFlight, path: &Path) {
    let logged = likeness(&flight.records);
    let seen: Vec<Option<[f64; LIKENESS]>> = drawn
        .par_iter()
        .map(|Drawn { world, .. }| {
            let exploration = flight.exploration(world.number as u32 + 1);
            let plan = Plan {
                table: flight.table,
                exploration,
                seed: world.number,
                until: Until::Landed,
                ..Plan::new(Task::Hover)
            };
            let flown = path.fly(&world.plant, &plan, |_| {});
            (flown.failure.is_none() && !flown.guard_tripped).then(|| likeness(&flown.records))
        })
        .collect();
    let good: Vec<&[f64; LIKENESS]> = seen.iter().flatten().collect();
    let n = good.len().max(1) as f64;
    let spread: [f64; LIKENESS] = std::array::from_fn(|i| {
        let mean = good.iter().map(|s| s[i]).sum::<f64>() / n;
        (good.iter().map(|s| (s[i] - mean).powi(2)).sum::<f64>() / n).sqrt().max(1e-6)
    });
    for (drawn, seen) in drawn.iter_mut().zip(seen) {
        // The drone did not fail with what flew.
        drawn.distance = seen.map_or(f64::INFINITY, |s| {
            (0..LIKENESS).map(|i| ((s[i] - logged[i]) / spread[i]).powi(2)).sum::<f64>()
        });
    }
    drawn.sort_by(|a, b| a.distance.total_cmp(&b.distance));
}
