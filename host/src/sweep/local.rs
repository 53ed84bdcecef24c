//! Cells on this machine, a few at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::Result;

use super::cell::{self, Stamp};

/// Runs prepared cells with `jobs` at a time, and tells of each when it has ended.
pub(crate) fn run(
    folders: &[PathBuf],
    program: &Path,
    jobs: usize,
    mut ended: impl FnMut(&Path, &Stamp),
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        // Owned in here: whatever ends the listening below, also a panic, ends the work after its cell.
        let receiver = receiver;
        for _ in 0..jobs.clamp(1, folders.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((folder, cell::run(folder, program))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (folder, outcome) in &receiver {
            // What cannot be written for one cell cannot be written for the others.
            ended(folder, &outcome?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::cell::Spec;
    use crate::sweep::plan::Cell;

    #[test]
    fn all_cells_run_and_no_more_than_so_many_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let running = folder.path().join("running");
        std::fs::create_dir(&running).unwrap();
        let script = format!("touch {0}/$$; sleep 0.2; ls {0} | wc -l; rm {0}/$$", running.display());
        let folders: Vec<PathBuf> = (0..6)
            .map(|i| {
                let cell = Cell {
                    name: i.to_string(),
                    settings: Default::default(),
                    args: vec!["-c".to_owned(), script.clone()],
                };
                let path = folder.path().join(i.to_string());
                cell::prepare(&path, &Spec { cell, start_in: folder.path().to_owned() }).unwrap();
                path
            })
            .collect();
        let mut count = 0;
        run(&folders, Path::new("/bin/sh"), 2, |_, stamp| {
            assert!(stamp.succeeded());
            count += 1;
        })
        .unwrap();
        assert_eq!(count, 6);
        for folder in &folders {
            let seen = std::fs::read_to_string(folder.join(cell::STDOUT)).unwrap();
            assert!((1..=2).contains(&seen.trim().parse::<u32>().unwrap()), "{seen}");
        }
        let error = run(&folders[..1], Path::new("/no/such/program"), 1, |_, _| {});
        assert!(error.is_ok(), "what is done is not started again");
        std::fs::remove_file(folders[0].join("stamp.json")).unwrap();
        let error = run(&folders[..1], Path::new("/no/such/program"), 1, |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}
