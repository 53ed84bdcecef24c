//! `virtual-crazyflie`: flies the firmware image without a drone.

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// A Crazyflie 2.1 that executes the real firmware image on the PC.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Fly(cli::fly::Cmd),
    Serve(cli::serve::Cmd),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Fly(cmd) => cmd.run(),
        Command::Serve(cmd) => cmd.run().map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
