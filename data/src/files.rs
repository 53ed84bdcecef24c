//! Writing files so that nothing is lost: never half a file under its final name, never over
//! somebody's work unasked.

use std::fs::Permissions;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// Writes a whole file: beside its place first, then under its name in one step. If that fails, an old file
/// is as before.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_new(path, bytes, true)
}

/// Like [`write()`], but refuses to replace a file unless `force` is set.
pub fn write_new(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let mut staged = Staged::new(path, force)?;
    staged.write_all(bytes).with_context(|| format!("{}: cannot be written", path.display()))?;
    staged.commit().map(drop)
}

/// Writes a value as JSON, in one step as [`write()`].
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    write(path, &serde_json::to_vec_pretty(value)?)
}

/// A text file, or an error that names it.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))
}

/// Makes a folder and those above it.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("{}: cannot make the folder", path.display()))
}

/// A file that is being written beside its place, for contents that do not fit into memory. Without
/// [`Staged::commit`] nothing is left of it.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    force: bool,
    file: BufWriter<NamedTempFile>,
}

impl Staged {
    /// Begins a file; refuses to replace one unless `force` is set.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        if !force && path.exists() {
            bail!("{} exists; give --force to replace it", path.display());
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .suffix(".part")
            // As of any other new file; the user's mask applies.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), force, file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Gives the file its name.
    pub fn commit(self) -> Result<PathBuf> {
        let Self { path, force, file } = self;
        let finish = || -> io::Result<()> {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            if force {
                file.persist(&path)?
            } else {
                file.persist_noclobber(&path)?
            };
            Ok(())
        };
        finish().with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(path)
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

#[cfg(test)]
mod tests {
    use std::fs;

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
        // Others may read it, as any file that a program makes.
        fs::write(folder.path().join("b"), "").unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("a.txt"), mode("b"));
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
        // Somebody else writes it in the meantime.
        let mut staged = Staged::new(&folder.path().join("b"), false).unwrap();
        staged.write_all(b"mine").unwrap();
        fs::write(folder.path().join("b"), "theirs").unwrap();
        assert!(staged.commit().is_err());
        assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"theirs");
    }

    #[test]
    fn an_error_names_the_file() {
        let error = write(Path::new("/proc/no/such/file"), b"x").unwrap_err();
        assert!(error.to_string().contains("/proc/no/such/file"));
    }
}
