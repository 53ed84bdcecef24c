//! Data to compare with: excerpts in the repository, full sets and recordings in the data folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Skip, Table, root};

/// Stems that begin with another stem and an underscore.
const LONGER_STEMS: &[&str] = &["pid_long", "kalman_imu", "kalman_mocap", "gpd_pyb_drag", "gpd_pyb_gnd"];
/// How many folders deep files are looked for in the data folder.
const SEARCH_DEPTH: usize = 3;

/// The data folder: `STEADY_DATA`, else `../shared/data` beside the workspace if it is there.
///
/// # Panics
/// If `STEADY_DATA` names no folder: a typing error must not skip tests.
#[must_use]
pub fn data_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STEADY_DATA").filter(|value| !value.is_empty()) {
        let folder = PathBuf::from(folder);
        assert!(folder.is_dir(), "STEADY_DATA names {}, which is not a folder", folder.display());
        return Some(folder);
    }
    let shared = root().join("../shared/data");
    shared.is_dir().then_some(shared)
}

/// All tables of a stem, at least one: the repository's excerpts, then the full sets of the data folder.
/// The stem `mellinger` stands for `mellinger_*.csv` and `mellinger_*.csv.gz`.
///
/// # Panics
/// If either place should have one and has not, or a table cannot be read.
#[must_use]
pub fn tables(stem: &str) -> Vec<Table> {
    let mut files = Vec::new();
    for package in entries(root()) {
        let excerpts = package.join("tests/data");
        if excerpts.is_dir() {
            find(&excerpts, stem, 1, &mut files);
        }
    }
    assert!(!files.is_empty(), "no excerpt {stem}_*.csv[.gz] in a tests/data of {}", root().display());
    files.sort();
    if let Some(folder) = data_folder() {
        let mut full = Vec::new();
        find(&folder, stem, SEARCH_DEPTH, &mut full);
        assert!(!full.is_empty(), "no file {stem}_*.csv[.gz] below {}", folder.display());
        full.sort();
        files.append(&mut full);
    }
    files.iter().map(|file| Table::read(file)).collect()
}

/// A recording that others made; `None` without a data folder, which is recorded as a skip.
///
/// # Panics
/// If there is a data folder without it.
#[must_use]
#[track_caller]
pub fn recording(name: &str) -> Option<PathBuf> {
    let Some(folder) = data_folder() else {
        Skip::new(&format!("recording {name}, which is not in the repository"), None).record();
        return None;
    };
    let places = [folder.join(name), folder.join("crazyflie-firmware").join(name)];
    let found = places.into_iter().find(|path| path.exists());
    assert!(found.is_some(), "no {name} in {} or its crazyflie-firmware", folder.display());
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let fail = |e: std::io::Error| -> ! { panic!("{}: {e}", folder.display()) };
    let found: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|e| fail(e))
        .map(|entry| entry.unwrap_or_else(|e| fail(e)).path())
        .collect();
    found.into_iter()
}

fn find(folder: &Path, stem: &str, depth: usize, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if depth > 1 {
                find(&path, stem, depth - 1, files);
            }
        } else if is_of_stem(&name, stem) {
            files.push(path);
        }
    }
}

fn is_of_stem(name: &str, stem: &str) -> bool {
    let starts_with = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('_'));
    let longer = |other: &&&str| other.len() > stem.len() && starts_with(other);
    (name.ends_with(".csv") || name.ends_with(".csv.gz"))
        && starts_with(stem)
        && LONGER_STEMS.iter().find(longer).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_do_not_take_each_others_files() {
        assert!(is_of_stem("pid_dev.csv", "pid") && is_of_stem("pid_excerpt.csv.gz", "pid"));
        assert!(!is_of_stem("pid_long_dev.csv", "pid") && is_of_stem("pid_long_dev.csv", "pid_long"));
        assert!(!is_of_stem("pid.csv", "pid") && !is_of_stem("pid_dev.txt", "pid"));
        assert!(
            is_of_stem("gpd_pyb_dev.csv.gz", "gpd_pyb") && !is_of_stem("gpd_pyb_gnd_dev.csv.gz", "gpd_pyb")
        );
    }

    #[test]
    fn every_stem_has_an_excerpt_with_rows() {
        let stems = "mellinger pid pid_long power_distribution battery_compensation \
                     kalman kalman_imu kalman_mocap gpd_pyb gpd_pyb_gnd gpd_pyb_drag";
        for stem in stems.split_whitespace() {
            let tables = tables(stem);
            assert!(tables[0].name.ends_with("_excerpt.csv.gz") && tables[0].rows.len() > 100, "{stem}");
        }
    }
}
