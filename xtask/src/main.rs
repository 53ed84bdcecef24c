//! `cargo xtask`: the commands a developer, a user and CI type.
//!
//! This file only parses and dispatches; every verb has a file of its own.

mod bench;
#[cfg(test)]
mod boundary;
mod calls;
mod cflib;
mod compiler;
mod demo;
mod examples;
mod firmware;
mod fuzz;
mod images;
mod libtorch;
mod nextest;
mod official;
mod probe;
mod setup;
mod sh;
mod size;
mod slurm;
mod stack;
mod system;
mod test;
mod test_slurm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Set-up, tests, demo, benchmarks and the firmware image of this workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Setup(setup::Cmd),
    Test(test::Cmd),
    Demo(demo::Cmd),
    Bench(bench::Cmd),
    Firmware(firmware::Cmd),
    Images(images::Cmd),
    Size(size::Cmd),
    Probe(probe::Cmd),
    Cflib(cflib::Cmd),
    Examples(examples::Cmd),
    Official(official::Cmd),
    Fuzz(fuzz::Cmd),
    TestSlurm(test_slurm::Cmd),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Setup(cmd) => cmd.run(),
        Verb::Test(cmd) => cmd.run(),
        Verb::Demo(cmd) => cmd.run(),
        Verb::Bench(cmd) => cmd.run(),
        Verb::Firmware(cmd) => cmd.run(),
        Verb::Images(cmd) => cmd.run(),
        Verb::Size(cmd) => cmd.run(),
        Verb::Probe(cmd) => cmd.run(),
        Verb::Cflib(cmd) => cmd.run(),
        Verb::Examples(cmd) => cmd.run(),
        Verb::Official(cmd) => cmd.run(),
        Verb::Fuzz(cmd) => cmd.run(),
        Verb::TestSlurm(cmd) => cmd.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
