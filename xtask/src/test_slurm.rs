//! `cargo xtask test-slurm`: `steady sweep --executor slurm` against a real Slurm on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::setup::say;
use crate::slurm::{self, Cluster};
use crate::{setup, sh, system};

/// Install Slurm, start it on this machine without systemd, and try sweeps on it.
///
/// Everything is in a temporary folder and ends with the command: munged, slurmctld and slurmd are
/// started by it and know nothing of a Slurm that this machine may belong to.
#[derive(Args)]
pub(crate) struct Cmd {
    /// The `steady` to try; an optimised one is built if not given.
    #[arg(long, value_name = "PROGRAM")]
    steady: Option<PathBuf>,
}

/// Four short trainings.
const SHORT: &str = "\
command = [\"train\", \"--preset\", \"smoke\", \"--threads\", \"1\"]
metrics = [\"learned_return\", \"transitions\"]
[grid]
seed = [1, 2]
world = [\"nominal\", \"paper\"]
[slurm]
options = [\"--time=10\"]
";
/// Two that are long enough to be caught at work.
const LONG: &str = "\
command = [\"train\", \"--preset\", \"smoke\", \"--set\", \"rounds=60\", \"--threads\", \"1\"]
metrics = [\"learned_return\"]
[grid]
seed = [1, 2]
";
const PATIENCE: Duration = Duration::from_secs(300);

impl Cmd {
    /// Runs the whole of it.
    pub(crate) fn run(self) -> Result<()> {
        println!("set-up");
        system::provide(system::SLURM)
            .map_err(|problem| anyhow::anyhow!("{}; fix: {}", problem.what, problem.fix))?;
        let steady = match self.steady {
            Some(program) => fs::canonicalize(&program).with_context(|| program.display().to_string())?,
            None => build()?,
        };
        let folder = slurm::temporary_folder();
        let cluster = Cluster::start(folder.clone())?;
        say("Slurm", cluster.ask("sinfo", &["--version"])?);
        say("node", cluster.ask("sinfo", &["--noheader", "--format=%n, %c CPUs, %T"])?);
        let mut trial = Trial { cluster, steady, work: folder.join("work") };
        fs::create_dir(&trial.work)?;
        let outcome = trial.all();
        if outcome.is_err() {
            eprint!("{}", trial.cluster.logs());
        }
        drop(trial);
        outcome?;
        ensure!(slurm::is_gone(&folder), "{} is still there", folder.display());
        println!("Slurm: all sweeps came out as they should");
        Ok(())
    }
}

fn build() -> Result<PathBuf> {
    if !setup::run()?.libtorch {
        bail!("the sweeps train, and nothing trains without libtorch (above)");
    }
    sh::run(sh::cargo().args(["build", "--release", "--locked", "--package", "steady"]))?;
    Ok(sh::target().join("release/steady"))
}

struct Trial {
    cluster: Cluster,
    steady: PathBuf,
    work: PathBuf,
}

impl Trial {
    fn all(&mut self) -> Result<()> {
        let started = Instant::now();
        self.gives_the_same_table_as_this_machine().context("a sweep's results")?;
        self.does_nothing_twice().context("a finished sweep")?;
        self.lists_a_killed_job_and_runs_it_again().context("a killed job")?;
        self.finds_its_jobs_after_a_kill().context("a killed sweep")?;
        self.says_what_slurm_refuses().context("a refused job")?;
        say("took", sh::took(started.elapsed()));
        Ok(())
    }

    fn gives_the_same_table_as_this_machine(&self) -> Result<()> {
        self.sweep(SHORT, "short", true)?;
        self.sweep(SHORT, "local", false)?;
        let table = |name: &str| fs::read_to_string(self.work.join(name).join("table.csv"));
        let (cluster, local) = (table("short")?, table("local")?);
        ensure!(cluster.lines().count() == 3, "not two rows: {cluster}");
        ensure!(cluster == local, "Slurm's table differs from this machine's:\n{cluster}\n{local}");
        say("results", "four cells in an array job, the same table as without Slurm");
        Ok(())
    }

    fn does_nothing_twice(&self) -> Result<()> {
        let before = self.last_job()?;
        let said = self.sweep(SHORT, "short", true)?;
        ensure!(said.contains("4 cells, 4 of them done already"), "{said}");
        ensure!(said.contains("nothing to submit") && self.last_job()? == before, "{said}");
        say("again", "nothing submitted");
        Ok(())
    }

    fn lists_a_killed_job_and_runs_it_again(&mut self) -> Result<()> {
        let mut sweep = self.start(LONG, "killed", &[])?;
        let task = self.running_task()?;
        self.cluster.ask("scancel", &[&task])?;
        let (success, said) = ended(&mut sweep, &self.work.join("killed.log"))?;
        ensure!(!success, "a sweep with a cancelled job succeeded: {said}");
        ensure!(said.contains("1 of 2 cells failed") && said.contains("without a stamp"), "{said}");
        let said = self.sweep(LONG, "killed", true)?;
        ensure!(
            said.contains("2 cells, 1 of them done already") && said.contains("1 cells submitted"),
            "{said}"
        );
        say("killed job", format_args!("{task}: named, and run again alone"));
        Ok(())
    }

    fn finds_its_jobs_after_a_kill(&mut self) -> Result<()> {
        let mut sweep = self.start(LONG, "orphaned", &[])?;
        self.running_task()?;
        sweep.kill()?;
        sweep.wait()?;
        let before = self.last_job()?;
        let said = self.sweep(LONG, "orphaned", true)?;
        ensure!(said.contains("nothing to submit") && said.contains("are in the queue already"), "{said}");
        ensure!(self.last_job()? == before, "a job was submitted twice");
        say("killed sweep", "its jobs were found in the queue and waited for");
        Ok(())
    }

    fn says_what_slurm_refuses(&self) -> Result<()> {
        let text = format!("{LONG}[slurm]\noptions = [\"--partition=nowhere\"]\n");
        let mut sweep = self.start(&text, "refused", &[])?;
        let (success, said) = ended(&mut sweep, &self.work.join("refused.log"))?;
        ensure!(!success && said.contains("invalid partition") && said.contains("[slurm] options"), "{said}");
        say("refused job", "Slurm's reason is handed on");
        Ok(())
    }

    /// Runs a sweep to its end, which must be a good one; what it says.
    fn sweep(&self, text: &str, name: &str, slurm: bool) -> Result<String> {
        let args: &[&str] = if slurm { &[] } else { &["--executor", "local"] };
        let mut child = self.start(text, name, args)?;
        let (success, said) = ended(&mut child, &self.work.join(format!("{name}.log")))?;
        ensure!(success, "the sweep {name} failed: {said}");
        Ok(said)
    }

    fn start(&self, text: &str, name: &str, args: &[&str]) -> Result<Child> {
        let file = self.work.join(format!("{name}.toml"));
        fs::write(&file, text)?;
        let log = fs::File::create(self.work.join(format!("{name}.log")))?;
        let mut command = self.cluster.command(&self.steady);
        command.current_dir(&self.work).arg("sweep").arg(file).args(["--out", name]);
        command.args(if args.is_empty() { &["--executor", "slurm"] } else { args });
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {}", self.steady.display()))
    }

    /// A task that runs, as `scancel` wants it: job and index.
    fn running_task(&mut self) -> Result<String> {
        let states = ["--noheader", "--array", "--states=RUNNING", "--format=%F_%K"];
        let running = |cluster: &Cluster| cluster.ask("squeue", &states).unwrap_or_default();
        let started = Instant::now();
        loop {
            if let Some(task) = running(&self.cluster).lines().next() {
                return Ok(task.trim().to_owned());
            }
            ensure!(started.elapsed() < PATIENCE, "no job runs");
            sleep(Duration::from_millis(100));
        }
    }

    /// The highest number of a job that the controller knows.
    fn last_job(&self) -> Result<u64> {
        let jobs = self.cluster.ask("scontrol", &["--oneliner", "show", "jobs"])?;
        let numbers =
            jobs.lines().filter_map(|line| line.strip_prefix("JobId=")?.split(' ').next()?.parse().ok());
        numbers.max().context("Slurm knows of no job")
    }
}

/// Waits for a sweep; whether it succeeded, and what it said.
fn ended(child: &mut Child, log: &Path) -> Result<(bool, String)> {
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("a sweep did not end; {}", fs::read_to_string(log)?);
        }
        sleep(Duration::from_millis(100));
    };
    Ok((status.success(), fs::read_to_string(log)?))
}
