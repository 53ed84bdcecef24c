//! `steady identify`.

mod discover;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use steady_learn::left_out::Before;
use steady_reality::Flight;
use steady_reality::identify::{Combined, Estimate, Identified, Prior, combine, identify_from};
use steady_reality::score::{self, Score, Tally};
use steady_sim::World;

use crate::error::usage;
use crate::out::Table;
use crate::{files, pictures, recorded};
use discover::{Skills, Untold};

/// Standard deviations from typical values that the table points out.
const UNTYPICAL: f64 = 2.0;

/// Find the world in which recorded flights happened.
///
/// Thrust of each motor, lags, delay, inertia, trims, drag and moments, by how well a world predicts the flights from
/// their motors' commands. Flights are CSV files with motion capture (docs/reality.md), logs of this firmware, or card
/// logs of the official one with motors, gyroscope and accelerometer, which tell lags and how easily the drone turns.
/// What they cannot tell stays as typical of a Crazyflie 2.1, and the table says so. They tell thrust, inertia and
/// moments over mass only: weigh the drone.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cmd {
    /// Recorded flights; DRONE=FILE for flights of several drones, which get a world each and one for them all.
    #[arg(required = true, value_name = "FLIGHT")]
    flights: Vec<String>,
    /// Where the world goes; with several drones, theirs go beside it.
    #[arg(short, long, default_value = "identified.toml", value_name = "FILE")]
    output: PathBuf,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
    /// The drone's weight with battery and decks, g.
    #[arg(long, default_value_t = 27.0, value_name = "G")]
    mass_g: f32,
    /// World that has what flights do not tell: sensors, battery, radio.
    #[arg(long, default_value = "real", value_name = "WORLD")]
    base: String,
    /// Draw, for each drone, the error over the time ahead and a flight with its predictions: STEM-*.svg and .png.
    #[arg(long, value_name = "STEM")]
    plot: Option<PathBuf>,
    /// Discover skills, too, for what the simulator does not explain, as `steady adapt` does, and say what they found
    /// and how well each flight is predicted by the drone's others with them. Needs two flights of every drone.
    #[arg(long)]
    discover: bool,
    /// Leave an effect out of the simulator, to see whether skills find it.
    #[arg(long, value_delimiter = ',', requires = "discover", value_name = "EFFECT")]
    untold: Vec<Untold>,
    /// Same seed, same skills.
    #[arg(long, default_value_t = 1, requires = "discover")]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Drone {
    drone: String,
    flights: Vec<String>,
    #[serde(flatten)]
    identified: Identified,
    /// How well the world predicts the flights it is from that have positions; with the trims of the three seconds
    /// before, too.
    scores: Option<[Score; 2]>,
    /// What skills found.
    skills: Option<Skills>,
}

#[derive(Serialize)]
struct Report {
    mass_g: f32,
    drones: Vec<Drone>,
    /// Mean and spread of several drones.
    spread: Option<Combined>,
    /// Every flight predicted by the others of its drone, with and without skills, all drones together.
    left_out: Option<discover::LeftOut>,
    worlds: Vec<PathBuf>,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        if !(5.0..=5000.0).contains(&self.mass_g) {
            return Err(usage(format!("--mass-g {}: a drone weighs from 5 to 5000 g", self.mass_g)));
        }
        let base = World::load(&self.base)?;
        let mut named: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for flight in &self.flights {
            let (drone, file) = split(flight);
            named.entry(drone.to_owned()).or_default().push(file);
        }
        let mut outputs: Vec<PathBuf> = vec![self.output.clone()];
        if named.len() > 1 {
            outputs.extend(named.keys().map(|drone| beside(&self.output, drone)));
        }
        if let Some(there) = outputs.iter().find(|output| output.exists() && !self.force) {
            bail!("{} exists; --force replaces it, -o FILE writes another", there.display());
        }
        let mut drones = Vec::new();
        for (drone, paths) in named {
            let flights = recorded::flights(&paths)?;
            if flights.iter().any(|f| f.has_pose) && flights.iter().any(|f| !f.has_pose) {
                eprintln!(
                    "note: {drone}: card logs and flights with positions in one fit, which is right for one drone \
                     only; DRONE=FILE keeps drones apart"
                );
            }
            if self.discover {
                discover::check(&drone, &flights)?;
            }
            let identified = self.identify(drone, &base, &flights)?;
            let captured: Vec<Flight> = flights.into_iter().filter(|flight| flight.has_pose).collect();
            if let Some(stem) = self.plot.as_ref().filter(|_| !captured.is_empty()) {
                let stem = beside(stem, &identified.drone).with_extension("");
                pictures::draw(&identified.identified.world, &captured, &stem)?;
                if let Some(skills) = &identified.skills {
                    skills.draw(&identified.drone, &stem)?;
                }
            }
            drones.push(identified);
        }
        // Card logs do not tell thrust, so their drones are no part of a mean.
        let has_positions = drones.iter().any(|d| d.scores.is_some());
        let counted = drones.iter().filter(|d| d.scores.is_some() == has_positions);
        let counted: Vec<&Identified> = counted.map(|d| &d.identified).collect();
        let spread = (counted.len() > 1).then(|| combine(&counted));
        let first =
            counted.first().map(|identified| identified.world.clone()).context("there is no flight")?;
        let worlds = std::iter::once(spread.as_ref().map_or(first, |spread| spread.world.clone()))
            .chain(drones.iter().filter(|_| drones.len() > 1).map(|d| d.identified.world.clone()));
        for (mut world, output) in worlds.zip(&outputs) {
            world.name = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            world.check()?;
            files::write_new(output, world.to_toml().as_bytes(), self.force)?;
        }
        let left_out = discover::LeftOut::of_all(drones.iter().filter_map(|d| d.skills.as_ref()));
        let report = Report { mass_g: self.mass_g, drones, spread, left_out, worlds: outputs };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print_report(&report);
        }
        Ok(())
    }

    fn identify(&self, drone: String, base: &World, flights: &[Flight]) -> Result<Drone> {
        let bar = if self.json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        bar.set_message(format!("{} flights", flights.len()));
        let mass_kg = 1e-3 * self.mass_g;
        let prior =
            Prior::crazyflie().without(&self.untold.iter().map(|untold| untold.effect()).collect::<Vec<_>>());
        let mut identified = identify_from(&prior, base, mass_kg, flights, |step, steps| {
            bar.set_length(steps as u64);
            bar.set_position(step as u64);
        });
        let skills = if self.discover {
            bar.set_message(format!("{} flights, each left out once", flights.len()));
            let before = Before { prior: &prior, base, mass_kg };
            Some(Skills::new(&drone, &before, &identified.world, flights, self.seed, &bar)?)
        } else {
            None
        };
        bar.finish_and_clear();
        let names: Vec<String> = flights.iter().map(|flight| flight.name.clone()).collect();
        let world = &mut identified.world;
        world.summary = format!("identified from {}", names.join(", "));
        world.provenance = format!("measured: {} flights, a mass of {} g given", flights.len(), self.mass_g);
        if !self.untold.is_empty() {
            let untold: Vec<String> = self.untold.iter().map(|untold| untold.to_string()).collect();
            world.provenance += &format!(", a simulator without {}", untold.join(", "));
        }
        let captured: Vec<&Flight> = flights.iter().filter(|flight| flight.has_pose).collect();
        let score = |is_trimmed: bool| -> Result<Score> {
            let mut tally = Tally::default();
            for flight in &captured {
                tally = tally.and(&score::world(world, flight, is_trimmed)?);
            }
            Ok(tally.score(if is_trimmed { "with the trim of the 3 s before" } else { "as it is" }))
        };
        let scores = if captured.is_empty() { None } else { Some([score(false)?, score(true)?]) };
        Ok(Drone { drone, flights: names, identified, scores, skills })
    }
}

/// A drone's name and a file; without a name all are one drone.
fn split(flight: &str) -> (&str, PathBuf) {
    match flight.split_once('=') {
        Some((drone, file)) if !drone.contains(['/', '.']) && !Path::new(flight).exists() => {
            (drone, file.into())
        }
        _ => ("drone", flight.into()),
    }
}

/// `world.toml` of drone A is `world-A.toml`.
fn beside(output: &Path, drone: &str) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!("{stem}-{drone}.toml"))
}

fn print_report(report: &Report) {
    for Drone { drone, flights, identified, scores, skills } in &report.drones {
        println!(
            "{drone}: {} flights, {} predictions, {} steps of the fit",
            flights.len(),
            identified.windows,
            identified.iterations
        );
        print!("{}", parameter_table(&identified.parameters));
        for (one, other) in &identified.confounded {
            println!("cannot be told apart: {one} and {other}");
        }
        match scores {
            Some(scores) => print!("{}", super::world::score_table(scores)),
            None => println!("no positions: thrust, trims and drag need flights with motion capture"),
        }
        if let Some(skills) = skills {
            skills.print();
        }
        println!();
    }
    if let Some(left_out) = &report.left_out {
        left_out.print();
    }
    if let Some(spread) = &report.spread {
        let mut table = Table::new(["parameter", "mean", "spread between drones"]);
        for parameter in &spread.parameters {
            let (mean, spread) = (parameter.mean, parameter.deviation);
            table.row([parameter.name.to_owned(), format!("{mean:.3e}"), format!("{spread:.1e}")]);
        }
        print!("{table}");
    }
    println!("mass {} g as given: flights tell thrust, inertia and moments over mass only", report.mass_g);
    report.worlds.iter().for_each(|world| println!("wrote {}", world.display()));
}

fn parameter_table(parameters: &[Estimate]) -> Table {
    let mut table = Table::new(["parameter", "value", "95 % interval", "from"]);
    for p in parameters {
        table.row([
            p.name.to_owned(),
            format!("{:.3e}", p.value),
            format!("{:.2e} to {:.2e}", p.low, p.high),
            match p {
                _ if p.is_left_out => "left out",
                _ if p.is_told => "flights",
                // The prior held it back: what the flights would rather have may not be this parameter's doing.
                _ if p.from_typical > UNTYPICAL => "flights against typical values",
                _ => "mostly typical values",
            }
            .to_owned(),
        ]);
    }
    table
}
