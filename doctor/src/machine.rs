//! The machine, and what only some users want.

use std::path::Path;
use std::process::Command;

use steady_data::error::describe;
use steady_sweep::programs;

use super::{Finding, SETUP};

/// A clean build with tests and a training run stay below this.
const WANTED_GIB: f64 = 5.0;
/// Names that distributions give the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Slurm's client, and whether its controller answers; `timeout` because a lost controller takes long to miss.
pub(super) fn slurm() -> Finding {
    let name = "Slurm";
    if programs::find("sbatch").is_none() {
        return Finding::bad(
            name,
            "no `sbatch` (steady sweep --executor slurm)",
            "sudo apt-get install -y slurm-client, on a machine of the cluster; sweeps run on this one without it",
        );
    }
    match programs::said(Command::new("timeout").args(["5", "sinfo", "--noheader", "--format=%P %D %T"])) {
        Ok(partitions) => {
            let partitions: Vec<&str> = partitions.lines().map(str::trim).collect();
            Finding::ok(name, format!("sinfo: {}", partitions.join("; ")))
        }
        Err(error) => {
            let said = describe(&error);
            let last = said.lines().last().unwrap_or_default().to_owned();
            let fix = "ask whoever runs the cluster; SLURM_CONF names its configuration if it is not /etc/slurm/slurm.conf";
            Finding::bad(name, format!("`sbatch` is there, but no cluster: {last}"), fix)
        }
    }
}

/// The browser that tests of reports use.
pub(super) fn chromium() -> Finding {
    let found = BROWSERS.iter().find_map(|browser| programs::find(browser));
    Finding::path("chromium", found, "no browser (tests of reports; any browser shows them)", SETUP)
}

pub(super) fn disk_space(folder: &Path) -> Finding {
    let output = Command::new("df").args(["--output=avail", "-BK"]).arg(folder).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    match available_gib(&said) {
        Some(free) if free >= WANTED_GIB => Finding::ok("disk space", format!("{free:.1} GiB free")),
        Some(free) => Finding::bad(
            "disk space",
            format!("{free:.1} GiB free, {WANTED_GIB} GiB wanted for builds and runs"),
            "free some space; `cargo clean` gives back what builds took",
        ),
        None => Finding::ok("disk space", "unknown: `df` gave no figure"),
    }
}

/// Reads the last line of `df --output=avail -BK`.
fn available_gib(said: &str) -> Option<f64> {
    let kib: u64 = said.lines().last()?.trim().strip_suffix('K')?.parse().ok()?;
    Some(kib as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_df() {
        assert_eq!(available_gib("  Avail\n5242880K\n"), Some(5.0));
        assert_eq!(available_gib("nonsense"), None);
    }
}
