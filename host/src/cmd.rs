//! The command line: parses and dispatches. Every verb has a file of its own.

#[cfg(feature = "train")]
mod adapt;
mod check_motors;
#[cfg(feature = "train")]
mod closed_loop;
mod compare_controllers;
mod console;
mod doctor;
mod drone;
#[cfg(feature = "train")]
mod evaluate;
mod flash;
mod fly;
mod gains;
mod identify;
mod info;
mod log;
#[cfg(feature = "train")]
mod oracle;
mod param;
mod parse;
mod radio;
mod report;
mod scan;
mod sweep;
mod tables;
#[cfg(feature = "train")]
mod train;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};

use self::drone::Address;
use crate::{error, files, interrupt, out};

/// Sim-to-real learning for small drones: learn a controller in simulation, fly it, read the flight
/// back, discover what the simulator got wrong, and put better gains on the drone.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage, 3 drone or Crazyradio not found, 4 verification
/// failed.
#[derive(Debug, Parser)]
#[command(name = "steady", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[cfg(feature = "train")]
    Train(train::Cmd),
    #[cfg(feature = "train")]
    Oracle(oracle::Cmd),
    #[cfg(feature = "train")]
    Adapt(adapt::Cmd),
    Sweep(sweep::Cmd),
    #[cfg(feature = "train")]
    Loop(closed_loop::Cmd),
    #[cfg(feature = "train")]
    Evaluate(evaluate::Cmd),
    Report(report::Cmd),
    CompareControllers(compare_controllers::Cmd),
    Fly(fly::Cmd),
    Gains(gains::Cmd),
    Scan(scan::Cmd),
    Info(info::Cmd),
    Param(param::Cmd),
    Console(console::Cmd),
    Radio(radio::Cmd),
    CheckMotors(check_motors::Cmd),
    /// Arm the drone: its motors may turn from then on. Otherwise it says what prevents it.
    Arm(Address),
    /// Disarm the drone.
    Disarm(Address),
    /// Stop the motors at once, until the drone is switched off and on. It falls if it flies.
    Stop(Address),
    /// Leave the state after a crash, once the drone stands upright again.
    Recover(Address),
    Flash(flash::Cmd),
    Log(log::Cmd),
    World(world::Cmd),
    Identify(identify::Cmd),
    Doctor(doctor::Cmd),
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    out::guarded(|| {
        if let Err(error) = ctrlc::set_handler(interrupt::on_ctrl_c) {
            eprintln!("Ctrl-C will not save: {error}");
        }
        match Cli::parse().verb.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}", error::describe(&error));
                ExitCode::from(error::exit_status(&error))
            }
        }
    })
}

impl Verb {
    fn run(self) -> Result<()> {
        match self {
            #[cfg(feature = "train")]
            Self::Train(cmd) => cmd.run(),
            #[cfg(feature = "train")]
            Self::Oracle(cmd) => cmd.run(),
            #[cfg(feature = "train")]
            Self::Adapt(cmd) => cmd.run(),
            Self::Sweep(cmd) => cmd.run(&Cli::command()),
            #[cfg(feature = "train")]
            Self::Loop(cmd) => cmd.run(),
            #[cfg(feature = "train")]
            Self::Evaluate(cmd) => cmd.run(),
            Self::Report(cmd) => cmd.run(),
            Self::CompareControllers(cmd) => cmd.run(),
            Self::Fly(cmd) => cmd.run(),
            Self::Gains(cmd) => cmd.run(),
            Self::Scan(cmd) => cmd.run(),
            Self::Info(cmd) => cmd.run(),
            Self::Param(cmd) => cmd.run(),
            Self::Console(cmd) => cmd.run(),
            Self::Radio(cmd) => cmd.run(),
            Self::CheckMotors(cmd) => cmd.run(),
            Self::Arm(address) => ordered("armed", address.connect()?.arm(true)),
            Self::Disarm(address) => ordered("disarmed", address.connect()?.arm(false)),
            Self::Stop(address) => {
                ordered("stopped and locked until it is switched off and on", address.connect()?.stop())
            }
            Self::Recover(address) => ordered("recovered", address.connect()?.recover()),
            Self::Flash(cmd) => cmd.run(),
            Self::Log(cmd) => cmd.run(),
            Self::World(cmd) => cmd.run(),
            Self::Identify(cmd) => cmd.run(),
            Self::Doctor(cmd) => cmd.run(),
        }
    }
}

fn ordered(text: &str, outcome: Result<(), steady_radio::Error>) -> Result<()> {
    outcome?;
    println!("{text}");
    Ok(())
}

/// Where a text goes.
#[derive(Debug, Args)]
struct Output {
    /// File to write; default: standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

impl Output {
    fn write(&self, text: &str) -> Result<()> {
        match &self.output {
            Some(path) => files::write_new(path, text.as_bytes(), self.force)?,
            None => print!("{text}"),
        }
        Ok(())
    }
}

/// Checks every one of `names`, prints what is wrong with each, and fails if anything is.
fn check_each(kind: &str, names: &[String], check: impl Fn(&str) -> Result<String>) -> Result<()> {
    let mut refused = 0;
    for name in names {
        match check(name) {
            Ok(found) => println!("{name}: ok, {found}"),
            Err(error) => {
                refused += 1;
                eprintln!("{}", error::describe(&error));
            }
        }
    }
    if refused > 0 {
        bail!("{refused} of {} {kind} refused", names.len());
    }
    Ok(())
}
