//! Checkpoints that survive being killed, a full disk, and damage.
//!
//! A checkpoint is a data file (`step-….safetensors`) and a note (`step-….json`) with the data's
//! length and CRC-32. The data is written beside its place, flushed and renamed; the note comes
//! last, so a checkpoint without a note was never finished. The two newest are kept: if the newest
//! turns out damaged, the one before it is used, and that is said.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::error::describe;
use crate::files;

const KEPT: usize = 2;

const CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISO_HDLC);

#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// What is written beside the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    step: u64,
    bytes: u64,
    crc32: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) step: u64,
    pub(crate) data: PathBuf,
}

/// The newest intact checkpoint of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) newest: Option<Checkpoint>,
    /// Newer ones that are damaged, and how.
    pub(crate) damaged: Vec<String>,
}

impl Store {
    /// The checkpoints in a folder, which is created if necessary.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        files::make_folder(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Saves a checkpoint; `write` puts its data into the file it is given.
    pub(crate) fn save(&self, step: u64, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (data, note) = self.paths(step);
        let partial = data.with_extension("part");
        let written = write(&partial).and_then(|()| {
            let (bytes, crc32) = measure(&partial)?;
            File::open(&partial)?.sync_all()?;
            // A note of older data of the same step must not vouch for the new data.
            if note.exists() {
                fs::remove_file(&note)?;
            }
            fs::rename(&partial, &data)?;
            files::write(&note, &serde_json::to_vec(&Note { step, bytes, crc32 })?)
        });
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written.with_context(|| format!("checkpoint {}: cannot be saved", data.display()))?;
        for old in self.steps()?.into_iter().rev().skip(KEPT) {
            let (data, note) = self.paths(old);
            // An old checkpoint that stays costs disk space, nothing else.
            let _ = fs::remove_file(note).and_then(|()| fs::remove_file(data));
        }
        Ok(())
    }

    /// The newest checkpoint that is intact.
    pub(crate) fn find(&self) -> Result<Found> {
        let mut found = Found::default();
        for step in self.steps()?.into_iter().rev() {
            let (data, note) = self.paths(step);
            match verify(&data, &note) {
                Ok(()) => {
                    found.newest = Some(Checkpoint { step, data });
                    break;
                }
                Err(error) => found.damaged.push(format!("{}: {}", data.display(), describe(&error))),
            }
        }
        Ok(found)
    }

    /// Steps with a note, in order.
    fn steps(&self) -> Result<Vec<u64>> {
        let entries = fs::read_dir(&self.folder).with_context(|| format!("{}", self.folder.display()))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut steps: Vec<u64> =
            names.filter_map(|n| n.strip_prefix("step-")?.strip_suffix(".json")?.parse().ok()).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    fn paths(&self, step: u64) -> (PathBuf, PathBuf) {
        let stem = self.folder.join(format!("step-{step:012}"));
        (stem.with_extension("safetensors"), stem.with_extension("json"))
    }
}

fn verify(data: &Path, note: &Path) -> Result<()> {
    let note: Note = serde_json::from_slice(&fs::read(note)?).context("its note is damaged")?;
    let (bytes, crc32) = measure(data).context("cannot be read")?;
    anyhow::ensure!(bytes == note.bytes, "{bytes} bytes instead of {}", note.bytes);
    anyhow::ensure!(crc32 == note.crc32, "its checksum does not match");
    Ok(())
}

/// Length and checksum of a file.
fn measure(path: &Path) -> Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let (mut digest, mut length, mut buffer) = (CRC.digest(), 0, vec![0; 1 << 16]);
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((length, digest.finalize()));
        }
        digest.update(&buffer[..n]);
        length += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(store: &Store, step: u64) {
        store.save(step, |path| Ok(fs::write(path, format!("data of {step}"))?)).unwrap();
    }

    fn newest(store: &Store) -> Option<u64> {
        store.find().unwrap().newest.map(|c| c.step)
    }

    #[test]
    fn the_two_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(newest(&store), None);
        for step in [1, 2, 30] {
            save(&store, step);
            assert_eq!(newest(&store), Some(step));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
        save(&store, 30);
        assert_eq!(newest(&store), Some(30));
    }

    #[test]
    fn a_damaged_one_is_named_and_the_one_before_it_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for harm in ["flip", "cut", "note", "gone"] {
            save(&store, 1);
            save(&store, 2);
            let (data, note) = store.paths(2);
            match harm {
                "flip" => fs::write(&data, "data of 3").unwrap(),
                "cut" => fs::write(&data, "data").unwrap(),
                "note" => fs::write(&note, "{").unwrap(),
                _ => fs::remove_file(&data).unwrap(),
            }
            let found = store.find().unwrap();
            assert_eq!(found.newest.map(|c| c.step), Some(1), "{harm}");
            assert_eq!(found.damaged.len(), 1, "{harm}");
            assert!(found.damaged[0].contains("step-000000000002"), "{:?}", found.damaged);
        }
    }

    #[test]
    fn a_kill_or_a_full_disk_in_the_middle_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        save(&store, 1);
        // The disk is full half way through.
        let error = store.save(2, |path| {
            fs::write(path, "half")?;
            anyhow::bail!("no space left on device")
        });
        assert!(format!("{:#}", error.unwrap_err()).contains("no space left"));
        assert_eq!(newest(&store), Some(1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // Killed before the rename, and before the note.
        let (data, _) = store.paths(3);
        fs::write(data.with_extension("part"), "half").unwrap();
        assert_eq!(newest(&store), Some(1));
        fs::rename(data.with_extension("part"), &data).unwrap();
        assert_eq!(newest(&store), Some(1));
    }
}
