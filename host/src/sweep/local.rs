//! Cells on this machine, a few at a time.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rayon::prelude::*;

use super::cell::{self, Stamp};

/// Runs prepared cells with `jobs` at a time, and calls `ended` for each. An error ends the sweep after the
/// cells that run: what cannot be written for one cannot be written for the others.
pub(crate) fn run(
    folders: &[PathBuf],
    program: &Path,
    jobs: usize,
    ended: impl Fn(&Path, &Stamp) + Sync,
) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build()?;
    pool.install(|| {
        folders.par_iter().with_max_len(1).try_for_each(|folder| {
            ended(folder, &cell::run(folder, program)?);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        let count = AtomicUsize::new(0);
        run(&folders, Path::new("/bin/sh"), 2, |_, stamp| {
            assert!(stamp.succeeded());
            count.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(count.into_inner(), 6);
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
