//! The `steady` command: parses and dispatches, nothing else.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use steady::{cmd, doctor};

/// Sim-to-real learning for small drones: learn a controller in simulation, fly it, read the flight
/// back, discover what the simulator got wrong, and put better gains on the drone.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(cmd::demo::Cmd),
    Gains(cmd::gains::Cmd),
    World(cmd::world::Cmd),
    Doctor(doctor::Cmd),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Demo(cmd) => cmd.run(),
        Verb::Gains(cmd) => cmd.run(),
        Verb::World(cmd) => cmd.run(),
        Verb::Doctor(cmd) => cmd.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
