//! Writing files so that nothing is lost: never half a file under its final name, never over
//! somebody's work unasked.

use std::fs;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Writes a whole file: beside its place first, then under its name in one step.
///
/// # Errors
/// If the folder cannot be written; the old file, if there was one, is then as before.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary_name(path);
    let written = fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Nothing may be left behind; that it is not there is just as well.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

/// Like [`write()`], but refuses to replace a file unless `force` is set.
///
/// # Errors
/// If the file exists, or cannot be written.
pub fn write_new(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    if !force && path.exists() {
        bail!("{} exists; give --force to replace it", path.display());
    }
    write(path, bytes)
}

/// A file that is being written beside its place, for contents that do not fit into memory. Without
/// [`Staged::commit`] nothing is left of it.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<fs::File>,
}

impl Staged {
    /// Begins a file; refuses to replace one unless `force` is set.
    ///
    /// # Errors
    /// If the file exists, or cannot be made.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        if !force && path.exists() {
            bail!("{} exists; give --force to replace it", path.display());
        }
        let temporary = temporary_name(path);
        let file =
            fs::File::create(&temporary).with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), temporary, file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written to its end.
    pub fn commit(mut self) -> Result<PathBuf> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .with_context(|| format!("{}: cannot be written", self.path.display()))?;
        Ok(self.path.clone())
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Staged {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a commit it has its name and is not there any more.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_new(&path, b"one", false).unwrap();
        assert!(write_new(&path, b"two", false).unwrap_err().to_string().contains("--force"));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_new(&path, b"two", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_staged_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        let mut staged = Staged::new(&path, false).unwrap();
        staged.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(staged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut staged = Staged::new(&path, false).unwrap();
        staged.write_all(b"whole").unwrap();
        assert_eq!(staged.commit().unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert!(Staged::new(&path, false).unwrap_err().to_string().contains("--force"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn says_which_file_cannot_be_written() {
        let error = write(Path::new("/proc/no/such/file"), b"x").unwrap_err();
        assert!(error.to_string().contains("/proc/no/such/file"));
    }
}
