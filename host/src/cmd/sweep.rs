//! `steady sweep`: one command over a grid of seeds, worlds and settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::error::describe;
use crate::jobs;
use crate::sweep::cell::{self, Spec, Stamp};
use crate::sweep::gather::{self, Numbers, Table};
use crate::sweep::plan::{Cell, Plan};
use crate::sweep::slurm::Cluster;

/// A cluster's file system may show a file a moment after the job that wrote it has left the queue.
const SHARED_FOLDER_DELAY: Duration = Duration::from_secs(3);

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

/// A sweep in its folder.
struct Sweep {
    plan: Plan,
    folder: PathBuf,
    program: PathBuf,
    quiet: bool,
}

impl Cmd {
    pub(crate) fn run(self, program: &clap::Command) -> Result<()> {
        let me = std::env::current_exe().context("the program's own path is unknown")?;
        if let Some(folder) = &self.cell {
            let stamp = cell::run(folder, &me)?;
            if !stamp.succeeded() {
                bail!("{}: {}", folder.display(), failure(folder, Some(&stamp)));
            }
            return Ok(());
        }
        let path = self.sweep.clone().context("give a sweep's file")?;
        let plan = Plan::load(&path, program)?;
        let name = path.file_stem().unwrap_or_default();
        let folder = self.out.clone().unwrap_or_else(|| Path::new("sweeps").join(name));
        // Jobs of a cluster start in another folder.
        let folder = std::path::absolute(&folder).with_context(|| folder.display().to_string())?;
        let sweep = Sweep { plan, folder, program: me, quiet: self.json };
        if self.dry_run {
            sweep.show();
            return Ok(());
        }
        let todo = sweep.prepare()?;
        match self.executor {
            Executor::Local => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let ended = AtomicUsize::new(sweep.plan.cells.len() - todo.len());
                // An error ends the sweep: what cannot be written for one cell cannot be for the others.
                jobs::map(self.jobs.map_or(cores, usize::from), &todo, |folder| {
                    let stamp = cell::run(folder, &sweep.program)?;
                    sweep.tell(ended.fetch_add(1, Ordering::Relaxed) + 1, folder, &stamp);
                    Ok(())
                })?;
            }
            Executor::Slurm => {
                let ended = sweep.on_cluster(&todo, self.jobs.map(usize::from), !self.no_wait)?;
                if !ended {
                    return Ok(());
                }
            }
        }
        sweep.gather()
    }
}

impl Sweep {
    fn folder_of(&self, cell: &Cell) -> PathBuf {
        self.folder.join("cells").join(&cell.name)
    }

    fn show(&self) {
        for cell in &self.plan.cells {
            let folder = self.folder_of(cell);
            let state = match cell::stamp(&folder, cell) {
                Some(stamp) if stamp.succeeded() => "done  ",
                Some(_) => "failed",
                None => "to do ",
            };
            let args = cell.args.join(" ").replace("{cell}", &folder.to_string_lossy());
            println!("{state} steady {args}");
        }
    }

    /// Prepares the cells that are not done, and returns their folders.
    fn prepare(&self) -> Result<Vec<PathBuf>> {
        let start_in = std::env::current_dir().context("the current folder is unknown")?;
        let mut todo = Vec::new();
        for cell in &self.plan.cells {
            let folder = self.folder_of(cell);
            if !cell::is_done(&folder, cell) {
                cell::prepare(&folder, &Spec { cell: cell.clone(), start_in: start_in.clone() })?;
                todo.push(folder);
            }
        }
        if !self.quiet {
            let (all, left) = (self.plan.cells.len(), todo.len());
            println!("{all} cells, {} of them done already; {}", all - left, self.folder.display());
        }
        Ok(todo)
    }

    fn tell(&self, number: usize, folder: &Path, stamp: &Stamp) {
        if self.quiet {
            return;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let count = self.plan.cells.len();
        if stamp.succeeded() {
            println!("{number}/{count} {name}: done in {:.1} s", stamp.seconds);
        } else {
            println!("{number}/{count} {name}: FAILED, {}", stamp.ending());
        }
    }

    /// Submits what is not in the queue yet; false without waiting for it.
    fn on_cluster(&self, todo: &[PathBuf], at_once: Option<usize>, wait: bool) -> Result<bool> {
        let cluster = Cluster::of(&self.folder.join("slurm"))?;
        let queued = cluster.queued()?;
        let new: Vec<PathBuf> = todo.iter().filter(|folder| !queued.contains(*folder)).cloned().collect();
        let jobs = cluster.submit(&new, &self.program, at_once, &self.plan.slurm.options)?;
        if !self.quiet {
            match new.len() {
                0 => println!("nothing to submit"),
                count => println!("{count} cells submitted as job {}", jobs.join(", ")),
            }
            if new.len() < todo.len() {
                println!("{} cells are in the queue already", todo.len() - new.len());
            }
        }
        if !wait {
            eprintln!("the same command without --no-wait waits for them and gathers the results");
            return Ok(false);
        }
        let mut open: Vec<&Cell> = self.plan.cells.iter().collect();
        open.retain(|cell| todo.contains(&self.folder_of(cell)));
        let mut ended = self.plan.cells.len() - open.len();
        // A cell that failed before still has its old stamp until it runs again.
        let since: Vec<Option<Stamp>> =
            open.iter().map(|cell| cell::stamp(&self.folder_of(cell), cell)).collect();
        let mut open: Vec<(&Cell, Option<Stamp>)> = open.into_iter().zip(since).collect();
        let waited_for: BTreeSet<PathBuf> = todo.iter().cloned().collect();
        cluster.wait(&waited_for, || {
            open.retain(|(cell, before)| {
                let folder = self.folder_of(cell);
                let stamp = cell::stamp(&folder, cell).filter(|stamp| Some(stamp) != before.as_ref());
                if let Some(stamp) = &stamp {
                    ended += 1;
                    self.tell(ended, &folder, stamp);
                }
                stamp.is_none()
            });
        })?;
        if !open.is_empty() {
            std::thread::sleep(SHARED_FOLDER_DELAY);
        }
        Ok(true)
    }

    /// Writes the tables of what is done, and lists what failed.
    fn gather(&self) -> Result<()> {
        let mut found: Vec<(&Cell, Stamp, Numbers)> = Vec::new();
        let mut failures = Vec::new();
        for cell in &self.plan.cells {
            let folder = self.folder_of(cell);
            let stamp = cell::stamp(&folder, cell);
            match stamp.as_ref().filter(|stamp| stamp.succeeded()) {
                None => failures.push(format!("{}: {}", cell.name, failure(&folder, stamp.as_ref()))),
                Some(stamp) => match gather::read(&folder, cell, &self.plan) {
                    Ok(numbers) => found.push((cell, stamp.clone(), numbers)),
                    Err(error) => failures.push(format!("{}: {}", cell.name, describe(&error))),
                },
            }
        }
        let table = Table::new(&self.plan, &found)?;
        table.save(&self.folder)?;
        gather::save_cells(&self.folder, &self.plan, &found)?;
        if self.quiet {
            println!("{}", serde_json::to_string_pretty(&table)?);
        } else {
            print!("{}", table.markdown());
            println!("table.md, table.csv, table.json and cells.csv are in {}", self.folder.display());
        }
        if table.commits.len() > 1 {
            let commits: Vec<&str> = table.commits.iter().map(String::as_str).collect();
            eprintln!("warning: the results are of different commits of the program: {}", commits.join(", "));
        }
        for failure in &failures {
            eprintln!("failed: {failure}");
        }
        if !failures.is_empty() {
            bail!(
                "{} of {} cells failed; their logs are stdout and stderr in {}; the same command tries them again",
                failures.len(),
                self.plan.cells.len(),
                self.folder.join("cells").display()
            );
        }
        Ok(())
    }
}

/// Why a cell is not done, with its log's last line.
fn failure(folder: &Path, stamp: Option<&Stamp>) -> String {
    let ending = match stamp {
        Some(stamp) => stamp.ending(),
        None => "ended without a stamp: killed, cancelled, or out of memory or time".to_owned(),
    };
    match cell::last_line(folder) {
        Some(line) => format!("{ending}; {line}"),
        None => ending,
    }
}
