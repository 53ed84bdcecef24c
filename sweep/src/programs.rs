//! Other programs: where they are, and their output.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Finds a program in PATH or in the administrator's folders, which not every user's PATH has.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(admin).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

/// The standard output of a program; an error has its standard error.
pub fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("`{name}` cannot be started"))?;
    if !output.status.success() {
        bail!("`{name}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_heard() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-anywhere"), None);
        assert_eq!(said(Command::new("sh").args(["-c", "echo yes"])).unwrap(), "yes\n");
        let error = said(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("`sh` failed") && error.contains("why"), "{error}");
        assert!(said(&mut Command::new("no-such-program-anywhere")).is_err());
    }
}
