//! Finds logs: files that are named, or in folders that are.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use steady_common::usdlog::MAGIC;

use super::LogError;

/// Logs in the order they were named; those of a folder sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFiles {
    /// The logs.
    pub logs: Vec<PathBuf>,
    /// Empty files with a log's name, found in folders: the power was cut when they were created.
    pub empty: Vec<PathBuf>,
}

/// Takes files as they are, and from folders (a card's root, or a copy of it) every file with a log's
/// first byte. Where a folder has none, the folders in it are searched.
///
/// # Errors
/// If a name does not exist, or a folder holds no log.
pub fn find(names: &[PathBuf]) -> Result<LogFiles, LogError> {
    let mut found = LogFiles::default();
    for name in names {
        let wrong = |error| LogError::Read { file: name.display().to_string(), error };
        if !fs::metadata(name).map_err(wrong)?.is_dir() {
            found.logs.push(name.clone());
            continue;
        }
        let before = found.logs.len();
        let folders = search(name, &mut found)?;
        if found.logs.len() == before {
            for folder in folders {
                search(&folder, &mut found)?;
            }
        }
        if found.logs.len() == before {
            return Err(LogError::NoLogs { folder: name.display().to_string() });
        }
    }
    Ok(found)
}

/// Adds a folder's logs; returns the folders in it.
fn search(folder: &Path, found: &mut LogFiles) -> Result<Vec<PathBuf>, LogError> {
    let wrong = |error| LogError::Read { file: folder.display().to_string(), error };
    let entries = fs::read_dir(folder).map_err(wrong)?.map(|entry| entry.map(|e| e.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<Result<_, _>>().map_err(wrong)?;
    entries.sort();
    let (folders, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    // Files that cannot be read are ignored.
    for path in files.into_iter().filter(|path| path.is_file()) {
        match first_byte(&path) {
            Some(Some(MAGIC)) => found.logs.push(path),
            Some(None) if has_log_name(&path) => found.empty.push(path),
            _ => {}
        }
    }
    Ok(folders)
}

/// The first byte; `Some(None)` for an empty file, `None` when it cannot be read.
fn first_byte(path: &Path) -> Option<Option<u8>> {
    let mut byte = [0];
    match File::open(path).and_then(|mut file| file.read(&mut byte)).ok()? {
        0 => Some(None),
        _ => Some(Some(byte[0])),
    }
}

/// As the firmware names logs: up to eight characters that end in two digits, no extension.
fn has_log_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() <= 8 && name.len() > 2 && name.iter().rev().take(2).all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cards_logs_are_found_by_their_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let (b, a) = (write("log01", &[MAGIC, 2]), write("log00", &[MAGIC, 2]));
        let empty = write("log02", &[]);
        write("config.txt", b"1\n");
        write("card.img", &[0; 512]);
        let found = find(&[folder.path().into()]).unwrap();
        assert_eq!(found, LogFiles { logs: vec![a, b.clone()], empty: vec![empty] });
        // A named file is taken whatever it holds: opening it says what is wrong.
        let named = find(&[folder.path().join("config.txt"), b]).unwrap();
        assert_eq!(named.logs.len(), 2);
    }

    #[test]
    fn a_folder_of_flights_gives_their_logs() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ["flight-01", "flight-02"].map(|name| {
            fs::create_dir(folder.path().join(name)).unwrap();
            let path = folder.path().join(name).join("log00");
            fs::write(&path, [MAGIC, 2]).unwrap();
            path
        });
        assert_eq!(find(&[folder.path().into()]).unwrap().logs, logs);
        // Logs of its own come first, and then alone.
        let own = folder.path().join("log00");
        fs::write(&own, [MAGIC, 2]).unwrap();
        assert_eq!(find(&[folder.path().into()]).unwrap().logs, [own]);
    }

    #[test]
    fn missing_logs_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(&[folder.path().into()]).unwrap_err().to_string();
        assert!(error.contains("holds no log") && error.contains("log00"), "{error}");
        let error = find(&[folder.path().join("log07")]).unwrap_err().to_string();
        assert!(error.contains("log07") && error.contains("cannot be read"), "{error}");
    }
}
