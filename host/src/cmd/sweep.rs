//! `steady sweep`: one command over a grid of seeds, worlds and settings.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use steady_sweep::{Executable, Gathered, Listener, Sweep};

use crate::provenance;

/// What a sweep's file looks like.
const FILE: &str = "\
SWEEP.toml has a command and a grid:

    command = [\"train\", \"--preset\", \"smoke\"]
    metrics = [\"learned_return\"]         # columns of the table; all numbers if not given
    [grid]
    seed = [1, 2, 3]
    world = [\"nominal\", \"paper\"]
    set.step = [0.05, 0.1]               # --set step=0.05

Every axis is an option of the command, or replaces {axis} in it; {cell} is the cell's own folder.
Results are what the command prints with --json, or the JSON file `result` in the cell's folder.";

/// Run one command over a grid of seeds, worlds and settings, and gather the results in a table.
///
/// Whatever ends a sweep, the same command continues it: what is done is not done again, interrupted
/// trainings resume, and what failed is tried again.
#[derive(Debug, Args)]
#[command(after_long_help = FILE)]
pub(crate) struct Cmd {
    /// The sweep's file.
    #[arg(required_unless_present = "cell")]
    sweep: Option<PathBuf>,
    /// Folder for cells and tables; default: one in `sweeps` named after the file.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where cells run.
    #[arg(long, value_enum, default_value = "local")]
    executor: Executor,
    /// Cells that run at once; default: all cores of this machine, or as many as Slurm allows.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// With Slurm: submit and return; the same command later waits and gathers.
    #[arg(long)]
    no_wait: bool,
    /// Show the cells' commands and what is done, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
    /// Run the one cell that was prepared in a folder; for the cluster's jobs.
    #[arg(long, hide = true, value_name = "FOLDER", conflicts_with_all = ["sweep", "out", "dry_run"])]
    cell: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Executor {
    /// On this machine's cores.
    Local,
    /// On a Slurm cluster, as array jobs.
    Slurm,
}

/// Prints lines; with --json standard output is the table's alone.
struct Printed {
    quiet: bool,
}

impl Listener for Printed {
    fn say(&self, line: &str) {
        if !self.quiet {
            println!("{line}");
        }
    }

    fn warn(&self, line: &str) {
        eprintln!("{line}");
    }
}

impl Cmd {
    pub(crate) fn run(self, command: &clap::Command) -> Result<()> {
        let path = std::env::current_exe().context("the program's own path is unknown")?;
        let (version, commit) = (provenance::VERSION.to_owned(), provenance::COMMIT.to_owned());
        let program = Executable { path, version, commit };
        let listener = Printed { quiet: self.json };
        if let Some(folder) = &self.cell {
            return steady_sweep::run_cell(folder, &program, &listener);
        }
        let file = self.sweep.context("give a sweep's file")?;
        let sweep = Sweep::load(&file, command, self.out.as_deref(), program, &listener)?;
        if self.dry_run {
            sweep.commands().for_each(|line| println!("{line}"));
            return Ok(());
        }
        match self.executor {
            Executor::Local => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                sweep.run_here(self.jobs.map_or(cores, usize::from))?;
            }
            Executor::Slurm => {
                sweep.run_on_slurm(self.jobs.map(usize::from), !self.no_wait)?;
                if self.no_wait {
                    eprintln!("the same command without --no-wait waits for them and gathers the results");
                    return Ok(());
                }
            }
        }
        let Gathered { table, failures } = sweep.gather()?;
        let folder = sweep.folder();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&table)?);
        } else {
            print!("{}", table.markdown());
            println!("table.md, table.csv, table.json and cells.csv are in {}", folder.display());
        }
        failures.iter().for_each(|failure| eprintln!("failed: {failure}"));
        ensure!(
            failures.is_empty(),
            "{} of {} cells failed; their logs are stdout and stderr in {}; the same command tries them again",
            failures.len(),
            sweep.cells(),
            folder.join("cells").display()
        );
        Ok(())
    }
}
