//! Policy improvement in the simulator itself, corrected by flights.
//!
//! The simulator is the prior: its parameters are identified from the flights ([`steady_reality::identify`]), and gains
//! are searched in the worlds that the flights leave probable, flown whole by the native drone, so that sensor noise,
//! filters and delays have their price. What the simulator cannot express stays unknown to it.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use steady_common::{GainTable, Reference};
use steady_reality::Flight;
use steady_reality::identify::{Identified, Prior, identify_from};
use steady_sim::plant::PlantParams;
use steady_sim::{Rng, World};

use crate::closed_loop::TrustRegion;
use crate::recorded;
use crate::train::oracle::{Search, Theta, clamp, climb, gains_of, theta_of};

use super::worlds::ConsistentWorlds;

/// World that has what a training world idealises and flights do not tell: sensors, battery, floor, network.
const SENSING: &str = "real";
/// Flights that are identified from, at most: the newest.
const MAX_FLIGHTS: usize = 10;
/// Sensors and networks of the worlds that are drawn, which flights do not tell: those of the sampler from here on.
const FIRST_SENSING: u64 = 1000;
/// Worlds of a search: the most probable one, and others that the flights could be of.
const SEARCHED: u64 = 3;
/// Others that check what was found, not seen by the search.
const CHECKED: u64 = 6;
/// Penalty on the squared change of the gains' logarithms: a change that brings nothing is not made.
const L2_PENALTY: f64 = 2.0;
/// A flight that fails is worse than any other.
const FAILED: f64 = -1e5;

/// The simulator after flights.
#[derive(Debug)]
pub struct CorrectedSimulator {
    pub identified: Identified,
    searched: Vec<(u64, PlantParams)>,
    checked: Vec<(u64, PlantParams)>,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    pub theta: Theta,
    /// Reward of a flight with the present gains, over the search's worlds.
    pub present: f64,
    /// Change of it.
    pub change: f64,
    /// Its standard deviation over worlds.
    pub change_std: f64,
}

impl CorrectedSimulator {
    /// Identifies the parameters of the training's world from logs.
    pub fn of(training: &World, logs: &[PathBuf], seed: u64) -> Result<Self> {
        let mut flights: Vec<Flight> = Vec::new();
        for log in logs.iter().rev() {
            // Logs that cannot be read were refused before; what is left is flights that are too short, or
            // without positions: those do not tell thrust.
            flights.extend(recorded::flights_with_pose(std::slice::from_ref(log)).unwrap_or_default());
            if flights.len() >= MAX_FLIGHTS {
                break;
            }
        }
        ensure!(
            !flights.is_empty(),
            "there is nothing to identify from: no flight is four seconds in the air"
        );
        let base =
            World { body: training.body.clone(), motors: training.motors.clone(), ..World::named(SENSING)? };
        let mass_kg = training.body.mass_kg;
        let identified = identify_from(&Prior::around(training), &base, mass_kg, &flights, |_, _| {});
        let mut rng = Rng::new(seed, 0x6964_656e);
        let mut worlds = vec![(0, PlantParams::new(&identified.world)?)];
        for number in 1..SEARCHED + CHECKED {
            let World { imu, mocap, radio, .. } = World::sample(FIRST_SENSING + number);
            let world = World { imu, mocap, radio, ..identified.sample(&mut rng) };
            worlds.push((number, PlantParams::new(&world)?));
        }
        let checked = worlds.split_off(SEARCHED as usize);
        Ok(Self { identified, searched: worlds, checked })
    }

    /// Searches gains for references, within the trust region about the present ones.
    pub fn search(
        &self,
        present: &GainTable,
        references: &[Reference],
        region: &TrustRegion,
        seed: u64,
        threads: usize,
    ) -> Result<Found> {
        let worlds = ConsistentWorlds::new(self.searched.clone(), references, present, threads);
        let start = theta_of(&present.gains);
        let bounds = region.bounds();
        let inside = |theta: &Theta| -> Theta {
            let mut inside: Theta = std::array::from_fn(|i| {
                let bound = bounds[i] as f32;
                start[i] + (theta[i] - start[i]).clamp(-bound, bound)
            });
            clamp(&mut inside);
            inside
        };
        let rewards = |theta: &Theta| -> Vec<f64> {
            // Flying in a valid world does not fail.
            let flights = worlds.fly_gains(&gains_of(theta)).unwrap_or_default();
            flights
                .iter()
                .map(|f| if f.failed || !f.reward.is_finite() { FAILED } else { f.reward })
                .collect()
        };
        let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
        let settings = Search { population: 12, generations: 40, sigma: 0.25, seed, threads, episodes: 1 };
        let judge = |theta: &Theta| {
            let theta = inside(theta);
            let squared: f32 = theta.iter().zip(start).map(|(t, s)| (t - s).powi(2)).sum();
            mean(&rewards(&theta)) - L2_PENALTY * f64::from(squared)
        };
        let (best, _) = climb(start, &settings, judge, |_, _| {});
        let theta = inside(&best);
        let (before, after) = (rewards(&start), rewards(&theta));
        let changes: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let change = mean(&changes);
        let variance = mean(&changes.iter().map(|c| (c - change).powi(2)).collect::<Vec<_>>());
        Ok(Found { theta, present: mean(&before), change, change_std: variance.sqrt() })
    }

    /// Worlds that the search did not see.
    pub fn check(&self, present: &GainTable, references: &[Reference], threads: usize) -> ConsistentWorlds {
        ConsistentWorlds::new(self.checked.clone(), references, present, threads)
    }
}
