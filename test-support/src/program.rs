//! Other programs: installed by set-up, or built by the workspace.

use std::path::{Path, PathBuf};

use crate::Skip;

/// Where `PATH` (and the administrator's folders, which not every user's `PATH` has) holds a program.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(admin).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

/// The first of these programs that is installed.
///
/// # Panics
/// If none is, unless skips are allowed: set-up installs one.
#[must_use]
#[track_caller]
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let found = names.iter().find_map(|name| find(name));
    if found.is_none() {
        Skip::new(&names.join(" or "), Some("`cargo xtask setup` installs it")).record();
    }
    found
}

/// A program of the workspace, in the folder of another one: `env!("CARGO_BIN_EXE_…")`.
///
/// # Panics
/// If it is not built, unless skips are allowed.
#[must_use]
#[track_caller]
pub fn built(beside: impl AsRef<Path>, name: &str) -> Option<PathBuf> {
    let path = beside.as_ref().with_file_name(name);
    if path.is_file() {
        return Some(path);
    }
    let fix = format!("build it with `cargo build --package {name}`, or test the whole workspace");
    Skip::new(&path.display().to_string(), Some(&fix)).record();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some() && program(&["no-such-program", "sh"]).is_some());
        assert_eq!(find("no-such-program"), None);
    }
}
