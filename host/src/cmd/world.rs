//! `steady world`: the worlds a drone may be simulated in.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use steady_reality::Flight;
use steady_reality::closed_loop::{self, Behaviour, Comparison};
use steady_reality::score::{self, Baseline, Score, Tally};
use steady_sim::World;

use super::{Output, check_each};
use crate::out::Table;
use crate::{pictures, recorded};

/// List, print, check and sample simulated worlds, and score them by real flights.
///
/// A WORLD is the name of a shipped one or the path of a TOML file, which states only what differs
/// from its `base`.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the shipped worlds.
    List,
    /// Print a world in full, as TOML.
    Show {
        /// The world.
        world: String,
    },
    /// Check world files; exit status 1 if one is not valid.
    Check {
        /// The worlds.
        #[arg(required = true)]
        worlds: Vec<String>,
    },
    /// Predict recorded flights from their motors' commands, open loop, and print the errors.
    Score {
        /// The world.
        world: String,
        /// Recorded flights: CSV files, plain or gzipped, or logs of this firmware.
        #[arg(required = true, value_name = "FLIGHT")]
        flights: Vec<PathBuf>,
        /// Add to each prediction the torque and thrust that the three seconds before it lacked.
        #[arg(long)]
        trim: bool,
        /// A row for every flight as well.
        #[arg(long)]
        each: bool,
        /// Draw the error over the time ahead and a flight with its predictions: STEM-*.svg and .png.
        #[arg(long, value_name = "STEM")]
        plot: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fly the set-points of recorded flights with the official controller that flew them, and compare.
    Replay {
        /// The world.
        world: String,
        /// Recorded flights with set-points and the PID's outputs: CSV files, plain or gzipped.
        #[arg(required = true, value_name = "FLIGHT")]
        flights: Vec<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw a random gap between simulator and reality.
    Sample {
        /// As recorded flights say that Crazyflies differ, instead of assumed ranges about world `paper`.
        #[arg(long)]
        measured: bool,
        /// Outside what `steady identify` can fit: wind, jets of air, delays and more, to judge learners in.
        #[arg(long, conflicts_with = "measured")]
        outside: bool,
        /// Same seed, same world.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::List => {
                for name in World::names() {
                    let world = World::named(name)?;
                    let origin = world.provenance.split(':').next().unwrap_or_default();
                    println!("{name:<16} {origin:<9} {}", world.summary);
                }
            }
            Verb::Show { world } => print!("{}", World::load(&world)?.to_toml()),
            Verb::Check { worlds } => {
                return check_each("worlds", &worlds, |name| Ok(World::load(name)?.name));
            }
            Verb::Score { world, flights, trim, each, plot, json } => {
                let (world, flights) = (World::load(&world)?, recorded::flights_with_pose(&flights)?);
                if let Some(stem) = plot {
                    pictures::draw(&world, &flights, &stem)?;
                }
                let scores = scores(&world, &flights, trim, each)?;
                if json {
                    println!("{}", serde_json::to_string_pretty(&scores)?);
                } else {
                    print!("{}", score_table(&scores));
                }
            }
            Verb::Replay { world, flights, json } => {
                let world = World::load(&world)?;
                let mut comparisons = Vec::new();
                for flight in recorded::flights_with_pose(&flights)? {
                    match closed_loop::replay(&world, &flight)? {
                        Some(comparison) => comparisons.push(comparison),
                        None => eprintln!("note: {}: no set-points, or not who flew: left out", flight.name),
                    }
                }
                if json {
                    println!("{}", serde_json::to_string_pretty(&comparisons)?);
                } else {
                    print!("{}", replay_table(&comparisons));
                }
            }
            Verb::Sample { measured, outside, seed, output } => {
                let world = match (measured, outside) {
                    (true, _) => World::sample_measured(seed),
                    (_, true) => World::sample_outside(seed),
                    _ => World::sample(seed),
                };
                output.write(&world.to_toml())?;
            }
        }
        Ok(())
    }
}

/// The baselines' scores and the world's over all flights, and the world's on each flight if asked for.
fn scores(world: &World, flights: &[Flight], is_trimmed: bool, each: bool) -> Result<Vec<Score>> {
    let total = |tallies: &[Tally]| tallies.iter().fold(Tally::default(), Tally::and);
    let mut scores: Vec<Score> = [Baseline::Persistence, Baseline::ConstantRate]
        .iter()
        .map(|b| total(&flights.iter().map(|f| b.errors(f)).collect::<Vec<_>>()).score(b.name()))
        .collect();
    let tallies: Vec<Tally> =
        flights.iter().map(|flight| score::world(world, flight, is_trimmed)).collect::<Result<_, _>>()?;
    let trimmed = if is_trimmed { ", trimmed" } else { "" };
    scores.push(total(&tallies).score(&format!("world {}{trimmed}", world.name)));
    if each {
        scores.extend(flights.iter().zip(&tallies).map(|(flight, tally)| tally.score(&flight.name)));
    }
    Ok(scores)
}

pub(super) fn score_table(scores: &[Score]) -> Table {
    let mut table = Table::new([
        "RMS at 0.01 / 0.1 / 0.5 s",
        "windows",
        "position (mm)",
        "velocity (m/s)",
        "tilt (deg)",
        "roll and pitch rate (rad/s)",
        "vertical force (m/s²)",
    ]);
    for score in scores {
        let three = |of: fn(&score::Errors) -> f64, digits: usize| {
            let all: Vec<String> = score.errors.iter().map(|e| format!("{:.digits$}", of(e))).collect();
            all.join(" / ")
        };
        table.row([
            score.model.clone(),
            score.windows.to_string(),
            three(|e| e.position_mm, 1),
            three(|e| e.velocity_m_s, 3),
            three(|e| e.tilt_deg, 2),
            three(|e| e.rates_rad_s, 2),
            score.vertical_force_m_s2.map_or_else(|| "–".to_owned(), |force| format!("{force:.2}")),
        ]);
    }
    table
}

fn replay_table(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new([
        "flown / predicted",
        "controller",
        "droop (cm)",
        "lag (s)",
        "tracking error (cm)",
        "roll and pitch rate (rad/s)",
    ]);
    for Comparison { flight, controller, flown, predicted } in comparisons {
        let both = |of: fn(&Behaviour) -> f64, digits: usize| {
            let predicted = predicted.map_or_else(|| "lost".to_owned(), |p| format!("{:.digits$}", of(&p)));
            format!("{:.digits$} / {predicted}", of(flown))
        };
        table.row([
            flight.clone(),
            controller.clone(),
            both(|b| b.droop_cm, 1),
            both(|b| b.lag_s, 2),
            both(|b| b.tracking_error_cm, 1),
            both(|b| b.rates_rad_s, 2),
        ]);
    }
    table
}
