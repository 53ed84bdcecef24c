//! Checks that could not run: recorded as small files, for `cargo xtask test` to list and to count.

use std::fs;
use std::io::{self, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};

use crate::{image, root};

/// Names the folder of the records; `target/skipped` without it.
pub const FOLDER_VARIABLE: &str = "STEADY_SKIPPED";

/// A check that did not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// Source file and test.
    pub test: String,
    /// What is missing.
    pub missing: String,
    /// How to get it; `None` if no command can.
    pub fix: Option<String>,
}

impl Skip {
    /// Of the test that calls this.
    #[track_caller]
    pub(crate) fn new(missing: &str, fix: Option<&str>) -> Self {
        let (place, thread) = (Location::caller(), std::thread::current());
        // The test harness names a thread after its test, unless it runs them one by one.
        let test = match thread.name() {
            Some("main") | None => format!("{}: line {}", place.file(), place.line()),
            Some(name) => format!("{}: {name}", place.file()),
        };
        Self { test, missing: missing.to_owned(), fix: fix.map(str::to_owned) }
    }

    /// Prints and records it.
    ///
    /// # Panics
    /// If the check could have run, unless `STEADY_ALLOW_SKIP` is set.
    #[track_caller]
    pub(crate) fn record(self) {
        let is_allowed = std::env::var_os("STEADY_ALLOW_SKIP").is_some_and(|value| !value.is_empty());
        if self.could_run() && !is_allowed {
            panic!("{self} (STEADY_ALLOW_SKIP=1 skips this check)");
        }
        // Past the harness, which shows what a test prints only when it fails.
        let _ = writeln!(io::stderr(), "SKIPPED {self}");
        let folder = Self::folder();
        if let Err(error) = self.write(&folder) {
            panic!("the skip cannot be recorded in {}: {error}", folder.display());
        }
    }

    /// True if a command could have made the check run.
    #[must_use]
    pub fn could_run(&self) -> bool {
        self.fix.is_some()
    }

    /// Where skips are recorded.
    #[must_use]
    pub fn folder() -> PathBuf {
        std::env::var_os(FOLDER_VARIABLE).map_or_else(|| root().join("target/skipped"), PathBuf::from)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let text = [&self.test, &self.missing, self.fix.as_deref().unwrap_or_default()].join("\n");
        // One file for each check, however often it runs.
        fs::write(folder.join(format!("{:016x}", image::checksum(text.as_bytes()))), text)
    }

    /// All that are recorded in a folder, sorted; none if there is no folder.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn read_all(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut skips = Vec::new();
        for entry in entries {
            let text = fs::read_to_string(entry?.path())?;
            let mut lines = text.lines().map(str::to_owned);
            let mut line = || lines.next().unwrap_or_default();
            let (test, missing, fix) = (line(), line(), line());
            skips.push(Self { test, missing, fix: Some(fix).filter(|fix| !fix.is_empty()) });
        }
        skips.sort();
        Ok(skips)
    }
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: missing: {}", self.test, self.missing)?;
        self.fix.as_ref().map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Skip::new("recording log27", None);
        let program = Skip::new("chromium", Some("`cargo xtask setup` installs it"));
        for skip in [&recording, &program, &recording] {
            skip.write(folder.path()).unwrap();
        }
        let read = Skip::read_all(folder.path()).unwrap();
        assert_eq!(read, [program, recording]);
        assert!(read[0].could_run() && !read[1].could_run());
        assert!(read[0].test.starts_with("test-support/src/skip.rs: "), "{}", read[0].test);
        assert_eq!(Skip::read_all(&folder.path().join("none")).unwrap(), []);
    }
}
