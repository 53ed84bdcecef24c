//! Sweeps: one `steady` command over a grid of seeds, worlds and settings; and the job runner.
//!
//! `plan` makes the cells out of a file, `cell` runs one of them in its own folder, `slurm` runs many on a
//! cluster, and `gather` makes the table. The state of a sweep is in the cells' folders alone: whatever ends
//! it, the same command continues it. [`jobs`] runs jobs on threads, [`programs`] other programs.
#![forbid(unsafe_code)]

mod cell;
mod gather;
pub mod jobs;
mod plan;
pub mod programs;
mod slurm;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use steady_data::error::describe;

use cell::{Spec, Stamp};
use gather::Numbers;
pub use gather::SweepTable;
use plan::{Cell, Plan};
use slurm::Cluster;

/// A cluster's file system may show a file a moment after the job that wrote it has left the queue.
const SHARED_FOLDER_DELAY: Duration = Duration::from_secs(3);

/// The program whose command is swept; its version and commit are kept with every result.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Its file.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
}

/// Where the lines go that tell what happens.
pub trait Listener: Sync {
    /// Progress.
    fn say(&self, line: &str);
    /// What the user should know in any case.
    fn warn(&self, line: &str);
}

/// A sweep in its folder.
pub struct Sweep<'a> {
    plan: Plan,
    folder: PathBuf,
    program: Executable,
    listener: &'a dyn Listener,
}

/// The results of a sweep.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Means and intervals of what is done.
    pub table: SweepTable,
    /// A line for each cell that is not.
    pub failures: Vec<String>,
}

impl<'a> Sweep<'a> {
    /// Reads a sweep's file. `command` is the command line that the cells' commands must fit; `folder` is for
    /// cells and tables, by default one in `sweeps` named after the file.
    pub fn load(
        file: &Path,
        command: &clap::Command,
        folder: Option<&Path>,
        program: Executable,
        listener: &'a dyn Listener,
    ) -> Result<Self> {
        let plan = Plan::load(file, command)?;
        let named = || Path::new("sweeps").join(file.file_stem().unwrap_or_default());
        let folder = folder.map_or_else(named, Path::to_owned);
        // Jobs of a cluster start in another folder.
        let folder = std::path::absolute(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { plan, folder, program, listener })
    }

    /// Folder of the cells and tables.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.plan.cells.len()
    }

    fn folder_of(&self, cell: &Cell) -> PathBuf {
        self.folder.join("cells").join(&cell.name)
    }

    /// The cells' commands, each with its state.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        self.plan.cells.iter().map(|cell| {
            let folder = self.folder_of(cell);
            let state = match cell::stamp(&folder, cell) {
                Some(stamp) if stamp.succeeded() => "done  ",
                Some(_) => "failed",
                None => "to do ",
            };
            let args = cell.args.join(" ").replace("{cell}", &folder.to_string_lossy());
            format!("{state} steady {args}")
        })
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
        let (all, left) = (self.cells(), todo.len());
        let done = all - left;
        self.listener.say(&format!("{all} cells, {done} of them done already; {}", self.folder.display()));
        Ok(todo)
    }

    fn tell(&self, number: usize, folder: &Path, stamp: &Stamp) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let count = self.cells();
        self.listener.say(&if stamp.succeeded() {
            format!("{number}/{count} {name}: done in {:.1} s", stamp.seconds)
        } else {
            format!("{number}/{count} {name}: FAILED, {}", stamp.ending())
        });
    }

    /// Runs what is not done on this machine, `at_once` cells at a time.
    pub fn run_here(&self, at_once: usize) -> Result<()> {
        let todo = self.prepare()?;
        let ended = AtomicUsize::new(self.cells() - todo.len());
        // An error ends the sweep: what cannot be written for one cell cannot be for the others.
        jobs::map(at_once, &todo, |folder| {
            let stamp = cell::run(folder, &self.program, self.listener)?;
            self.tell(ended.fetch_add(1, Ordering::Relaxed) + 1, folder, &stamp);
            Ok(())
        })
        .map(drop)
    }

    /// Submits what is neither done nor in Slurm's queue, and waits for it or returns.
    pub fn run_on_slurm(&self, at_once: Option<usize>, wait: bool) -> Result<()> {
        let todo = self.prepare()?;
        let cluster = Cluster::of(&self.folder.join("slurm"))?;
        let queued = cluster.queued()?;
        let new: Vec<PathBuf> = todo.iter().filter(|folder| !queued.contains(*folder)).cloned().collect();
        let jobs = cluster.submit(&new, &self.program.path, at_once, &self.plan.slurm.options)?;
        self.listener.say(&match new.len() {
            0 => "nothing to submit".to_owned(),
            count => format!("{count} cells submitted as job {}", jobs.join(", ")),
        });
        if new.len() < todo.len() {
            self.listener.say(&format!("{} cells are in the queue already", todo.len() - new.len()));
        }
        if wait { self.wait_for(&cluster, &todo) } else { Ok(()) }
    }

    fn wait_for(&self, cluster: &Cluster, todo: &[PathBuf]) -> Result<()> {
        let is_open = |cell: &&Cell| todo.contains(&self.folder_of(cell));
        // A cell that failed before still has its old stamp until it runs again.
        let with_old = |cell| (cell, cell::stamp(&self.folder_of(cell), cell));
        let mut open: Vec<(&Cell, Option<Stamp>)> =
            self.plan.cells.iter().filter(is_open).map(with_old).collect();
        let mut ended = self.cells() - open.len();
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
        Ok(())
    }

    /// Writes the tables of what is done.
    pub fn gather(&self) -> Result<Gathered> {
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
        let table = SweepTable::new(&self.plan, &found)?;
        table.save(&self.folder)?;
        gather::save_cells(&self.folder, &self.plan, &found)?;
        if table.commits.len() > 1 {
            let commits: Vec<&str> = table.commits.iter().map(String::as_str).collect();
            let commits = commits.join(", ");
            self.listener
                .warn(&format!("warning: the results are of different commits of the program: {commits}"));
        }
        Ok(Gathered { table, failures })
    }
}

/// Runs the one cell that was prepared in a folder, as the cluster's jobs do.
pub fn run_cell(folder: &Path, program: &Executable, listener: &dyn Listener) -> Result<()> {
    let stamp = cell::run(folder, program, listener)?;
    if !stamp.succeeded() {
        bail!("{}: {}", folder.display(), failure(folder, Some(&stamp)));
    }
    Ok(())
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
