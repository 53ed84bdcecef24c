//! Cells on a Slurm cluster: array jobs, one task for each cell.
//!
//! Jobs are identified by their names, which contain the sweep and the list of cells, so that an interrupted
//! sweep finds its jobs in the queue again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use steady_data::files;

use crate::programs::{self, said};

/// Slurm's own default for the largest index of an array, and one more.
const DEFAULT_MAX_ARRAY_SIZE: usize = 1001;
/// Time between polls of the queue: short at first, for short jobs.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
const SHORT_POLLS: usize = 30;
/// Polls without an answer that are accepted: a controller may restart.
const MAX_SILENT_POLLS: usize = 12;
const PROGRAMS: [&str; 3] = ["sbatch", "squeue", "scontrol"];

/// A sweep's jobs on the cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    prefix: String,
    max_array_size: usize,
}

impl Cluster {
    /// The cluster this machine belongs to. Lists and logs go to `folder`, an absolute path.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let missing: Vec<&str> =
            PROGRAMS.into_iter().filter(|program| programs::find(program).is_none()).collect();
        if !missing.is_empty() {
            bail!(
                "there is no {} here: run this on a machine of the Slurm cluster (Debian's package is \
                 slurm-client), or leave out --executor slurm to run on this machine",
                missing.join(", ")
            );
        }
        files::make_folder(folder)?;
        let config = said(Command::new("scontrol").args(["show", "config"]))
            .context("Slurm does not answer; `sinfo` shows what is the matter")?;
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
        let prefix = format!("steady-{:08x}-", crc.checksum(folder.to_string_lossy().as_bytes()));
        let max_array_size = max_array_size(&config).unwrap_or(DEFAULT_MAX_ARRAY_SIZE);
        Ok(Self { folder: folder.to_owned(), prefix, max_array_size })
    }

    /// Folders of the cells that wait or run.
    pub(crate) fn queued(&self) -> Result<BTreeSet<PathBuf>> {
        let jobs = said(Command::new("squeue").args(["--noheader", "--array", "--me", "--format=%j %K"]))?;
        let mut queued = BTreeSet::new();
        for (serial, index) in tasks(&jobs, &self.prefix) {
            let path = self.list(serial);
            let list = fs::read_to_string(&path).with_context(|| {
                format!("{}: cannot be read, but its job is in the queue", path.display())
            })?;
            queued.extend(list.lines().nth(index - 1).map(PathBuf::from));
        }
        Ok(queued)
    }

    /// Submits cells, `at_once` at a time if given; returns the numbers of the jobs.
    pub(crate) fn submit(
        &self,
        cells: &[PathBuf],
        program: &Path,
        at_once: Option<usize>,
        options: &[String],
    ) -> Result<Vec<String>> {
        let mut jobs = Vec::new();
        for chunk in cells.chunks(self.max_array_size.saturating_sub(1).max(1)) {
            let serial = (1..).find(|serial| !self.list(*serial).exists()).unwrap_or(1);
            let list = chunk.iter().fold(String::new(), |mut list, cell| {
                let _ = writeln!(list, "{}", cell.display());
                list
            });
            // The list is written before its job is submitted.
            files::write(&self.list(serial), list.as_bytes())?;
            let script = self.folder.join(format!("{serial}.sh"));
            files::write(&script, script_text(program, &self.list(serial)).as_bytes())?;
            let limit = at_once.map_or_else(String::new, |limit| format!("%{limit}"));
            // `%` is special in the name of a log.
            let folder = self.folder.to_string_lossy().replace('%', "%%");
            let job = said(
                Command::new("sbatch")
                    .arg("--parsable")
                    .arg(format!("--array=1-{}{limit}", chunk.len()))
                    .arg(format!("--job-name={}{serial}", self.prefix))
                    .arg(format!("--output={folder}/{serial}-%a.log"))
                    .args(options)
                    .arg(&script),
            )
            .context("Slurm refused the job; its options are [slurm] options in the sweep's file")?;
            // `12` or `12;cluster`
            jobs.push(job.trim().split(';').next().unwrap_or_default().to_owned());
        }
        Ok(jobs)
    }

    /// Waits until none of `cells` is in the queue, and calls `polled` after every poll.
    pub(crate) fn wait(&self, cells: &BTreeSet<PathBuf>, mut polled: impl FnMut()) -> Result<()> {
        let mut silent = 0;
        for polls in 0.. {
            match self.queued() {
                Ok(queued) => {
                    silent = 0;
                    polled();
                    if queued.is_disjoint(cells) {
                        return Ok(());
                    }
                }
                Err(error) if silent >= MAX_SILENT_POLLS => {
                    return Err(
                        error.context("Slurm is silent; the jobs go on, and the same command finds them")
                    );
                }
                Err(_) => silent += 1,
            }
            let [short, long] = POLL_INTERVALS;
            sleep(if polls < SHORT_POLLS { short } else { long });
        }
        Ok(())
    }

    fn list(&self, serial: usize) -> PathBuf {
        self.folder.join(format!("{serial}.txt"))
    }
}

/// What an array's tasks run.
fn script_text(program: &Path, list: &Path) -> String {
    let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    format!(
        "#!/bin/sh\n# Written by `steady sweep`: every task of the array runs one cell of the list.\n\
         exec {} sweep --cell \"$(sed -n \"${{SLURM_ARRAY_TASK_ID}}p\" {})\"\n",
        quoted(program),
        quoted(list)
    )
}

/// List and line of our tasks in the answer of `squeue --format="%j %K"`.
fn tasks(jobs: &str, prefix: &str) -> Vec<(usize, usize)> {
    let task = |line: &str| {
        let (serial, index) = line.trim().strip_prefix(prefix)?.split_once(' ')?;
        let index: usize = index.trim().parse().ok()?;
        Some((serial.parse().ok()?, index)).filter(|_| index > 0)
    };
    jobs.lines().filter_map(task).collect()
}

fn max_array_size(config: &str) -> Option<usize> {
    let line = config.lines().find(|line| line.starts_with("MaxArraySize"))?;
    line.split_once('=')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_tasks_are_told_from_others() {
        let jobs = "steady-0a-1 3\nsteady-0a-12 1\nsteady-0b-1 2\nother 5\nsteady-0a-1 N/A\nsteady-0a-1 0\n";
        assert_eq!(tasks(jobs, "steady-0a-"), [(1, 3), (12, 1)]);
    }

    #[test]
    fn the_largest_array_is_read() {
        let config = "MailProg = /bin/true\nMaxArraySize            = 1001\n";
        assert_eq!(max_array_size(config), Some(1001));
        assert_eq!(max_array_size(""), None);
    }

    #[test]
    fn scripts_withstand_odd_paths() {
        let text = script_text(Path::new("/it's/steady"), Path::new("/a b/1.txt"));
        assert!(text.contains(r"exec '/it'\''s/steady' sweep --cell"), "{text}");
        assert!(text.contains("'/a b/1.txt'"), "{text}");
    }
}
