//! The `steady` command.

use clap::Parser;

/// Sim-to-real learning for small drones.
#[derive(Parser)]
enum Cli {
    Doctor(steady::doctor::Cmd),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::Doctor(cmd) => cmd.run(),
    }
}
