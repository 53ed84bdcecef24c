//! The `steady` command: parses and dispatches, nothing else.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use steady::{cmd, doctor, out};

/// Sim-to-real learning for small drones: learn a controller in simulation, fly it, read the flight
/// back, discover what the simulator got wrong, and put better gains on the drone.
///
/// Exit status: 0 success, 1 failure, 2 wrong usage, 3 drone or Crazyradio not found, 4 verification
/// failed.
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
    #[cfg(feature = "train")]
    Adapt(steady::adapt::run::AdaptCmd),
    Sweep(cmd::sweep::Cmd),
    #[cfg(feature = "train")]
    Loop(cmd::cycle::Cmd),
    #[cfg(feature = "train")]
    Evaluate(steady::evaluate::run::EvaluateCmd),
    Report(cmd::report::Cmd),
    Demo(cmd::demo::Cmd),
    Fly(cmd::fly::Cmd),
    Gains(cmd::gains::Cmd),
    Scan(cmd::scan::Cmd),
    Info(cmd::info::Cmd),
    Param(cmd::param::Cmd),
    Console(cmd::console::Cmd),
    Arm(cmd::supervise::Arm),
    Disarm(cmd::supervise::Disarm),
    Stop(cmd::supervise::Stop),
    Recover(cmd::supervise::Recover),
    Flash(cmd::flash::Cmd),
    Log(cmd::log::Cmd),
    World(cmd::world::Cmd),
    Doctor(doctor::Cmd),
}

fn main() -> ExitCode {
    out::guarded(run)
}

fn run() -> ExitCode {
    // A training saves and ends after its round, and a drone is not left in its bootloader.
    if let Err(error) = ctrlc::set_handler(interrupted) {
        out::complain(format_args!("Ctrl-C will not save: {error}\n"));
    }
    let outcome = match Cli::parse().verb {
        #[cfg(feature = "train")]
        Verb::Train(cmd) => cmd.run(),
        #[cfg(feature = "train")]
        Verb::Oracle(cmd) => cmd.run(),
        #[cfg(feature = "train")]
        Verb::Adapt(cmd) => cmd.run(),
        Verb::Sweep(cmd) => cmd.run(&Cli::command()),
        #[cfg(feature = "train")]
        Verb::Loop(cmd) => cmd.run(),
        #[cfg(feature = "train")]
        Verb::Evaluate(cmd) => cmd.run(),
        Verb::Report(cmd) => cmd.run(),
        Verb::Demo(cmd) => cmd.run(),
        Verb::Fly(cmd) => cmd.run(),
        Verb::Gains(cmd) => cmd.run(),
        Verb::Scan(cmd) => cmd.run(),
        Verb::Info(cmd) => cmd.run(),
        Verb::Param(cmd) => cmd.run(),
        Verb::Console(cmd) => cmd.run(),
        Verb::Arm(cmd) => cmd.run(),
        Verb::Disarm(cmd) => cmd.run(),
        Verb::Stop(cmd) => cmd.run(),
        Verb::Recover(cmd) => cmd.run(),
        Verb::Flash(cmd) => cmd.run(),
        Verb::Log(cmd) => cmd.run(),
        Verb::World(cmd) => cmd.run(),
        Verb::Doctor(cmd) => cmd.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::complain(format_args!("error: {error:#}\n"));
            let code = error.downcast_ref::<steady_radio::Error>().map_or(1, steady_radio::Error::exit_code);
            ExitCode::from(code)
        }
    }
}

/// The first Ctrl-C lets a training save or a drone get its table; where nothing of the kind is going
/// on, or at the second, it ends.
fn interrupted() {
    if cmd::drone::must_wait() {
        out::complain(format_args!(
            "the drone is in its bootloader: wait a moment; Ctrl-C again leaves it there\n"
        ));
        return;
    }
    #[cfg(feature = "train")]
    {
        use steady::train::run::interrupt;
        if !interrupt::asked() && interrupt::can_wait() {
            interrupt::ask();
            out::complain(format_args!("saving; Ctrl-C again ends at once\n"));
            return;
        }
    }
    std::process::exit(130);
}
