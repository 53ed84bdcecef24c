//! One cell of a sweep: a folder, a command that runs in it, and a stamp when it has ended.
//!
//! The folder holds `cell.json` (what to run), `stdout`, `stderr`, and `stamp.json`, which is written in one
//! step when the command has ended. While a cell runs, its file `lock` is locked, and the lock lives as long
//! as the command does, not only as long as what started it: no cell runs twice at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use steady_data::files;

use crate::plan::{CELL, Cell};
use crate::{Executable, Listener};

const SPEC: &str = "cell.json";
const STAMP: &str = "stamp.json";
/// Locked while it runs.
const LOCK: &str = "lock";
pub(crate) const STDOUT: &str = "stdout";
pub(crate) const STDERR: &str = "stderr";
/// How much of a log's end is searched for its last line.
const TAIL_BYTES: u64 = 8192;

/// What to run, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) cell: Cell,
    /// Working directory of the command.
    pub(crate) start_in: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) args: Vec<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) seconds: f64,
    pub(crate) ended_unix_s: u64,
    pub(crate) version: String,
    pub(crate) commit: String,
}

impl Stamp {
    pub(crate) fn succeeded(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// `exit status 1` or `signal 9`.
    pub(crate) fn ending(&self) -> String {
        match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit status".to_owned(),
        }
    }
}

/// The stamp of a cell that has ended with this command.
pub(crate) fn stamp(folder: &Path, cell: &Cell) -> Option<Stamp> {
    let stamp: Stamp = serde_json::from_slice(&fs::read(folder.join(STAMP)).ok()?).ok()?;
    (stamp.args == cell.args).then_some(stamp)
}

pub(crate) fn is_done(folder: &Path, cell: &Cell) -> bool {
    stamp(folder, cell).is_some_and(|stamp| stamp.succeeded())
}

/// Creates the cell's folder with its command.
pub(crate) fn prepare(folder: &Path, spec: &Spec) -> Result<()> {
    files::make_folder(folder)?;
    files::write_json(&folder.join(SPEC), spec)
}

/// Runs the cell that was prepared in a folder, with `program` as `steady`; one that is done is left alone.
pub(crate) fn run(folder: &Path, program: &Executable, listener: &dyn Listener) -> Result<Stamp> {
    let spec = folder.join(SPEC);
    let text = fs::read(&spec)
        .with_context(|| format!("{} is not a cell of a sweep: it has no {SPEC}", folder.display()))?;
    let Spec { cell, start_in } =
        serde_json::from_slice(&text).with_context(|| format!("{}: is damaged", spec.display()))?;
    let lock = lock(folder, listener)?;
    if let Some(done) = stamp(folder, &cell).filter(Stamp::succeeded) {
        return Ok(done);
    }
    let args = match resumed(folder, &cell.args) {
        Some(args) => args,
        None => {
            // A command that resumes by itself needs its files.
            if !cell.args.iter().any(|arg| arg == "--resume") {
                clear(folder)?;
            }
            placed(&cell.args, folder)
        }
    };
    remove(&folder.join(STAMP))?;
    let file = |name: &str| {
        let path = folder.join(name);
        File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))
    };
    let started = Instant::now();
    let status = Command::new(&program.path)
        .args(&args)
        .current_dir(&start_in)
        // The command does not read it; this keeps the lock as long as the command lives.
        .stdin(lock.try_clone()?)
        .stdout(file(STDOUT)?)
        .stderr(file(STDERR)?)
        .status()
        .with_context(|| format!("{} cannot be started in {}", program.path.display(), start_in.display()))?;
    let stamp = Stamp {
        args: cell.args,
        exit_code: status.code(),
        signal: status.signal(),
        seconds: started.elapsed().as_secs_f64(),
        ended_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        version: program.version.clone(),
        commit: program.commit.clone(),
    };
    files::write_json(&folder.join(STAMP), &stamp)?;
    Ok(stamp)
}

/// Locks the cell, after whoever runs it already.
fn lock(folder: &Path, listener: &dyn Listener) -> Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .with_context(|| format!("{}: cannot be opened", path.display()))?;
    let locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            listener
                .warn(&format!("{}: still runs since an earlier sweep; waiting for it", folder.display()));
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    locked.with_context(|| format!("{}: cannot be locked", path.display()))?;
    Ok(file)
}

/// Arguments with the folder in the place of `{cell}`.
fn placed(args: &[String], folder: &Path) -> Vec<String> {
    let (placeholder, folder) = (format!("{{{CELL}}}"), folder.to_string_lossy());
    args.iter().map(|arg| arg.replace(&placeholder, &folder)).collect()
}

/// The command that resumes an interrupted training, if there is one.
fn resumed(folder: &Path, args: &[String]) -> Option<Vec<String>> {
    let run = folder.join("run");
    let out = args.windows(2).any(|pair| pair[0] == "--out" && pair[1] == format!("{{{CELL}}}/run"));
    let begun = ["config.toml", "provenance.json"].iter().all(|name| run.join(name).is_file());
    if args.first().is_none_or(|verb| verb != "train") || !out || !begun {
        return None;
    }
    let mut resumed = vec!["train".to_owned(), "--resume".to_owned(), run.to_string_lossy().into_owned()];
    for (arg, next) in args.iter().zip(args.iter().skip(1).map(Some).chain([None])) {
        // Options that are not stored in the run folder.
        if arg == "--json" || arg.starts_with("--threads=") || arg.starts_with("--torch-threads=") {
            resumed.push(arg.clone());
        } else if arg == "--threads" || arg == "--torch-threads" {
            resumed.extend([arg].into_iter().chain(next).cloned());
        }
    }
    Some(resumed)
}

fn clear(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}: cannot be read", folder.display()))?;
    for entry in entries.flatten() {
        if entry.file_name() != SPEC && entry.file_name() != LOCK {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.with_context(|| format!("{}: cannot be removed", path.display()))
}

/// The last non-empty line of a cell's standard error, else of its standard output.
pub(crate) fn last_line(folder: &Path) -> Option<String> {
    [STDERR, STDOUT].iter().find_map(|name| {
        let mut file = File::open(folder.join(name)).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(folder: &Path, args: &[&str]) -> Cell {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let cell = Cell { name: "x".to_owned(), settings: Default::default(), args };
        prepare(folder, &Spec { cell: cell.clone(), start_in: folder.to_owned() }).unwrap();
        cell
    }

    /// A shell instead of `steady`: the cell's arguments are then a script.
    fn shell(folder: &Path) -> Stamp {
        run(folder, &program("/bin/sh"), &Nobody).unwrap()
    }

    fn program(path: &str) -> Executable {
        Executable { path: path.into(), version: "1".to_owned(), commit: "abc".to_owned() }
    }

    struct Nobody;

    impl Listener for Nobody {
        fn say(&self, _: &str) {}
        fn warn(&self, _: &str) {}
    }

    #[test]
    fn a_cell_runs_once_and_its_failure_again() {
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        let cell = prepared(f, &["-c", "echo out; echo why >&2; exit 3"]);
        assert_eq!(stamp(f, &cell), None);
        let ended = shell(f);
        assert_eq!((ended.exit_code, ended.succeeded()), (Some(3), false));
        assert_eq!(ended.ending(), "exit status 3");
        assert_eq!(last_line(f).unwrap(), "why");
        assert_eq!(stamp(f, &cell), Some(ended.clone()));
        // What failed runs again, on a clean folder.
        fs::write(f.join("left"), "x").unwrap();
        assert_ne!(shell(f).ended_unix_s, 0);
        assert!(!f.join("left").exists());

        let cell = prepared(f, &["-c", "echo {cell}"]);
        assert_eq!(stamp(f, &cell), None, "another command's stamp does not count");
        assert!(shell(f).succeeded() && is_done(f, &cell));
        assert_eq!(last_line(f).unwrap(), f.to_string_lossy());
        fs::write(f.join("left"), "x").unwrap();
        shell(f);
        assert!(f.join("left").exists(), "what is done is left alone");

        prepared(f, &["-c", "test -e {cell}/left", "--resume"]);
        assert!(shell(f).succeeded(), "a command that resumes finds its files");
    }

    #[test]
    fn a_signal_and_a_torn_stamp_are_no_success() {
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        let cell = prepared(f, &["-c", "kill -9 $$"]);
        assert_eq!(shell(f).ending(), "signal 9");
        fs::write(f.join(STAMP), "{\"args\": [").unwrap();
        assert_eq!(stamp(f, &cell), None);
        assert!(!is_done(f, &cell));
        let error = run(f, &program("/no/such/program"), &Nobody).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
        let error = run(&f.join("nowhere"), &program("/bin/sh"), &Nobody).unwrap_err();
        assert!(error.to_string().contains("not a cell"), "{error}");
    }

    #[test]
    fn no_cell_runs_twice_at_once_also_when_its_parent_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let f = &folder.path().join("cell");
        prepared(
            f,
            &[
                "-c",
                "test ! -e {cell}/../alone || exit 9; touch {cell}/../alone; sleep 1; rm {cell}/../alone",
            ],
        );
        // As a killed sweep leaves it: the command lives on and holds the lock.
        let held = lock(f, &Nobody).unwrap();
        let mut orphan = Command::new("sleep").arg("1").stdin(held.try_clone().unwrap()).spawn().unwrap();
        drop(held);
        let other = OpenOptions::new().read(true).open(f.join(LOCK)).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        let stamps = std::thread::scope(|scope| {
            let two = [scope.spawn(|| shell(f)), scope.spawn(|| shell(f))];
            two.map(|thread| thread.join().unwrap())
        });
        assert!(stamps.iter().all(Stamp::succeeded), "{stamps:?}");
        assert_eq!(stamps[0], stamps[1], "the second took the first one's result");
        assert!(orphan.try_wait().unwrap().is_some());
    }

    #[test]
    fn an_interrupted_training_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let f = folder.path();
        let args: Vec<String> =
            "train --seed 3 --threads 1 --set step=1 --out {cell}/run --torch-threads=2 --json"
                .split(' ')
                .map(str::to_owned)
                .collect();
        assert_eq!(resumed(f, &args), None);
        fs::create_dir(f.join("run")).unwrap();
        fs::write(f.join("run/config.toml"), "").unwrap();
        assert_eq!(resumed(f, &args), None, "half a beginning is none");
        fs::write(f.join("run/provenance.json"), "").unwrap();
        let run = f.join("run").to_string_lossy().into_owned();
        let expected = ["train", "--resume", &run, "--threads", "1", "--torch-threads=2", "--json"];
        assert_eq!(resumed(f, &args).unwrap(), expected);
        assert_eq!(resumed(f, &["fly".to_owned()]), None);
    }
}
