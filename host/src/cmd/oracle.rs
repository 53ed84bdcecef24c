//! `steady oracle`.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use steady_common::Gains;
use steady_common::gains::GAINS;

use crate::train::config::Config;
use crate::train::oracle::{self, Search};
use crate::train::trainer::JUDGEMENT_SEED;
use steady_learn::cma;

/// Search gains directly in a world: the ceiling for everything that learns.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cmd {
    /// World to search in: a shipped one or a file.
    #[arg(long, default_value = "nominal")]
    world: String,
    /// Preset whose task is flown.
    #[arg(long, default_value = "quick")]
    preset: String,
    /// Random seed of the search and its initial states.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Generations of the search.
    #[arg(long, default_value_t = 120)]
    generations: usize,
    /// Candidates in a generation.
    #[arg(long, default_value_t = 24)]
    population: usize,
    /// Episodes each candidate is scored by.
    #[arg(long, default_value_t = 128)]
    episodes: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Found {
    world: String,
    nominal_return: f64,
    oracle_return: f64,
    standard_error: f64,
    crashed: f64,
    seconds: f64,
    gains: BTreeMap<&'static str, f32>,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let task = Config::preset(&self.preset, &[format!("world={}", self.world)])?.task()?;
        let cma = cma::Search {
            population: self.population,
            generations: self.generations,
            seed: self.seed,
            ..Search::default().cma
        };
        let search = Search { cma, episodes: self.episodes, threads: self.threads };
        let started = Instant::now();
        let gains = oracle::search(&task, &search, |generation, best| {
            if !self.json && generation % 10 == 9 {
                println!("generation {} best {best:.2}", generation + 1);
            }
        });
        let judge = |gains: &Gains| task.evaluate(gains, 1024, JUDGEMENT_SEED, self.threads);
        let (nominal, best) = (judge(&Gains::nominal()), judge(&gains));
        let found = Found {
            world: self.world,
            nominal_return: nominal.mean_return,
            oracle_return: best.mean_return,
            standard_error: best.standard_error,
            crashed: best.crashed,
            seconds: started.elapsed().as_secs_f64(),
            gains: GAINS.iter().map(|g| g.name).zip(gains.to_array()).collect(),
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&found)?);
        } else {
            println!(
                "return {:.2} ± {:.2} (nominal gains {:.2}) after {:.0} s",
                found.oracle_return, found.standard_error, found.nominal_return, found.seconds
            );
            found.gains.iter().for_each(|(name, value)| println!("{name:?} = {value:?}"));
        }
        Ok(())
    }
}
