//! `steady fly`: a flight of the real firmware, without a drone.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use steady_common::Controller;
use steady_common::exploration::Exploration;

use super::parse::{self, Noise};
use crate::fly::{FlightResult, Program, VirtualFlight};
use crate::gains_file;

/// What `--explore` means without values: [`Exploration::DEFAULT`]'s.
const DEFAULT_NOISE: &str = "0.02,0.01,0.01,0.005";

/// Fly a task with the real firmware on the virtual Crazyflie.
///
/// The drone's own image takes off, does the task and lands, in a simulated world, with its log on a
/// virtual card. The folder gets the logs, the card's image, the truth (truth.csv), summary.json and
/// pictures. Exit status 1 when a flight did not succeed.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    /// hover, takeoff-land, figure8, square, helix, or a CSV file of polynomial pieces as Crazyswarm writes them.
    #[arg(long, default_value = "takeoff-land", value_parser = parse::task_or_file)]
    task: String,
    /// World: name of a shipped one, a TOML file, or sample-N, measured-N or outside-N for number N of a sampler.
    #[arg(long, default_value = "nominal", value_parser = parse::world)]
    world: String,
    /// Gain table in the drone's flash: a TOML or .bin file, or `nominal`; without it the built-in gains.
    #[arg(long)]
    gains: Option<String>,
    /// law (the differentiable Mellinger with the gain table), pid or mellinger (the official firmware's).
    #[arg(long, default_value = "law", value_parser = parse::controller)]
    controller: Controller,
    /// Add exploration noise to the action: standard deviations of thrust, roll, pitch and yaw.
    #[arg(long, value_name = "T,R,P,Y", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_NOISE)]
    explore: Option<Noise>,
    /// Control steps for which a draw of the noise is held.
    #[arg(long, default_value_t = Exploration::DEFAULT.hold)]
    explore_hold: u16,
    /// Seed of the noise; of the flight's seed if not given.
    #[arg(long)]
    explore_seed: Option<u32>,
    /// Something that goes wrong, as SECONDS:WHAT[=VALUE]; `virtual-crazyflie fly --help` names them.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// A parameter to set before the flight, as GROUP.NAME=VALUE.
    #[arg(long, value_name = "PARAM")]
    param: Vec<String>,
    /// Flights, each from power-on, with seeds that count up.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    flights: u64,
    /// Seed of everything random; the same seed gives the same flight, bit for bit.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Firmware image, ours or another's; default: where `cargo xtask firmware` puts it. Another firmware flies its own
    /// default controller, or the one that --controller names.
    #[arg(long)]
    elf: Option<PathBuf>,
    /// Folder for the results; several flights get folders flight-01, flight-02, … in it.
    #[arg(short, long, default_value = "flight")]
    out: PathBuf,
    /// Draw no pictures.
    #[arg(long)]
    no_plots: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        let program = Program::find(self.elf.as_deref())?;
        let table = self.gains.as_deref().map(gains_file::load).transpose()?;
        let mut exploration = Exploration { hold: self.explore_hold, ..Exploration::DEFAULT };
        if let Some(Noise(std)) = self.explore {
            (exploration.enabled, exploration.std) = (true, std);
        }
        let mut flights = Vec::new();
        for index in 0..self.flights {
            let seed = self.seed + index;
            // Every flight shakes differently, also where the noise's seed is given.
            exploration.seed = match self.explore_seed {
                Some(first) => first.wrapping_add(index as u32),
                None => seed as u32,
            };
            let plan = VirtualFlight {
                task: self.task.clone(),
                world: self.world.clone(),
                table,
                controller: self.controller,
                exploration,
                faults: self.fault.clone(),
                params: self.param.clone(),
                seed,
                ..VirtualFlight::default()
            };
            let folder = match self.flights {
                1 => self.out.clone(),
                _ => self.out.join(format!("flight-{:02}", index + 1)),
            };
            let flown = plan.fly(&program, &folder)?;
            let pictures = if self.no_plots { Vec::new() } else { flown.draw()? };
            if !self.json {
                tell(&flown, pictures.len());
            }
            flights.push(flown);
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&flights)?);
        }
        match flights.iter().filter(|f| !f.success).count() {
            0 => Ok(()),
            n => bail!("{n} of {} flights did not succeed", flights.len()),
        }
    }
}

fn tell(flown: &FlightResult, pictures: usize) {
    print!("{}", flown.text);
    for log in &flown.logs {
        println!("{:<18} {}", "replay", log.replay);
        for problem in &log.verdict.problems {
            println!("{:<18} {problem}", "problem");
        }
    }
    println!("{:<18} {}, with {pictures} pictures", "folder", flown.folder.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_noise_is_the_firmwares() {
        assert_eq!(DEFAULT_NOISE.parse(), Ok(Noise(Exploration::DEFAULT.std)));
    }
}
