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
    #[cfg(feature = "train")]
    Train(steady::train::run::TrainCmd),
    #[cfg(feature = "train")]
    Oracle(steady::train::run::OracleCmd),
    Demo(cmd::demo::Cmd),
    Fly(cmd::fly::Cmd),
    Gains(cmd::gains::Cmd),
    Log(cmd::log::Cmd),
    World(cmd::world::Cmd),
    Doctor(doctor::Cmd),
}

fn main() -> ExitCode {
    // A training saves and ends after its round; without a handler Ctrl-C just ends the program.
    #[cfg(feature = "train")]
    if let Err(error) = ctrlc::set_handler(interrupted) {
        eprintln!("Ctrl-C will not save: {error}");
    }
    let outcome = match Cli::parse().verb {
        #[cfg(feature = "train")]
        Verb::Train(cmd) => cmd.run(),
        #[cfg(feature = "train")]
        Verb::Oracle(cmd) => cmd.run(),
        Verb::Demo(cmd) => cmd.run(),
        Verb::Fly(cmd) => cmd.run(),
        Verb::Gains(cmd) => cmd.run(),
        Verb::Log(cmd) => cmd.run(),
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

/// The first Ctrl-C lets a training save; where nothing is being trained, or at the second, it ends.
#[cfg(feature = "train")]
fn interrupted() {
    use steady::train::run::interrupt;
    if interrupt::asked() || !interrupt::can_wait() {
        std::process::exit(130);
    }
    interrupt::ask();
    eprintln!("saving; Ctrl-C again ends at once");
}
