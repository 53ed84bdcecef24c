//! System packages: which are missing, and how to get them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use crate::setup::{Problem, say};
use crate::sh;

/// How to see that a package's content is there, on any distribution.
enum Probe {
    /// One of these programs can be started.
    Program(&'static [&'static str]),
    /// This header exists.
    File(&'static str),
    /// Some version of libclang, or one named by `LIBCLANG_PATH`.
    Libclang,
}

/// A Debian package, why we want it, and how to see that it is there.
pub(crate) struct Package {
    name: &'static str,
    needed_for: &'static str,
    probe: Probe,
}

const PACKAGES: &[Package] = &[
    Package { name: "g++", needed_for: "libtorch bindings", probe: Probe::Program(&["g++", "c++"]) },
    Package { name: "cmake", needed_for: "processor emulator", probe: Probe::Program(&["cmake"]) },
    Package { name: "make", needed_for: "processor emulator", probe: Probe::Program(&["make"]) },
    Package { name: "clang", needed_for: "processor emulator", probe: Probe::Program(&["clang"]) },
    Package { name: "libclang-dev", needed_for: "processor emulator", probe: Probe::Libclang },
    Package { name: "pkg-config", needed_for: "radio link", probe: Probe::Program(&["pkg-config"]) },
    Package {
        name: "libusb-1.0-0-dev",
        needed_for: "radio link",
        probe: Probe::File("/usr/include/libusb-1.0/libusb.h"),
    },
    Package { name: "libudev-dev", needed_for: "radio link", probe: Probe::File("/usr/include/libudev.h") },
    Package { name: "mtools", needed_for: "SD-card images", probe: Probe::Program(&["mcopy"]) },
    Package { name: "dosfstools", needed_for: "SD-card images", probe: Probe::Program(&["mkfs.vfat"]) },
    Package {
        name: "chromium",
        needed_for: "the report's test in a browser",
        probe: Probe::Program(&["chromium", "chromium-browser", "google-chrome"]),
    },
];

/// A whole Slurm cluster, for `cargo xtask test-slurm` alone.
pub(crate) const SLURM: &[Package] = &[
    Package { name: "munge", needed_for: "Slurm's authentication", probe: Probe::Program(&["munged"]) },
    Package { name: "slurmctld", needed_for: "Slurm's controller", probe: Probe::Program(&["slurmctld"]) },
    Package { name: "slurmd", needed_for: "Slurm's node", probe: Probe::Program(&["slurmd"]) },
    Package { name: "slurm-client", needed_for: "submitting jobs", probe: Probe::Program(&["sbatch"]) },
];

impl Probe {
    fn holds(&self) -> bool {
        match self {
            Probe::Program(names) => names.iter().any(|name| sh::find(name).is_some()),
            Probe::File(path) => Path::new(path).is_file(),
            Probe::Libclang => std::env::var_os("LIBCLANG_PATH").is_some() || llvm_has_libclang(),
        }
    }
}

/// Debian keeps each LLVM version in `/usr/lib/llvm-N`; the unversioned link comes with the headers.
fn llvm_has_libclang() -> bool {
    let Ok(entries) = std::fs::read_dir("/usr/lib") else { return false };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
        .any(|entry| entry.path().join("lib/libclang.so").exists())
}

/// Installs what builds and tests need.
pub(crate) fn packages() -> Result<(), Problem> {
    provide(PACKAGES)
}

/// Installs the packages that are missing when that needs no password; says how otherwise.
pub(crate) fn provide(packages: &[Package]) -> Result<(), Problem> {
    let missing: Vec<&Package> = packages.iter().filter(|package| !package.probe.holds()).collect();
    if missing.is_empty() {
        say("packages", format_args!("all {} are there", packages.len()));
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let reasons: Vec<String> = missing.iter().map(|p| format!("{} ({})", p.name, p.needed_for)).collect();
    let problem = |why: String| Problem {
        what: format!("system packages are missing: {}; {why}", reasons.join(", ")),
        fix: format!("sudo apt-get update && sudo apt-get install -y {}", names.join(" ")),
    };
    if sh::find("apt-get").is_none() {
        let mut problem = problem("there is no apt-get here".to_owned());
        problem.fix = "install the packages that correspond to these with your package manager".to_owned();
        return Err(problem);
    }
    let Some(prefix) = root_prefix() else {
        return Err(problem("installing them needs a password".to_owned()));
    };

    say("packages", format_args!("installing {}", names.join(", ")));
    apt_get(prefix, &["update", "-qq"])
        .and_then(|()| {
            let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
            args.extend(&names);
            apt_get(prefix, &args)
        })
        .map_err(|error| problem(format!("{error:#}")))?;

    match missing.iter().find(|package| !package.probe.holds()) {
        Some(package) => Err(problem(format!("{} was installed, but is not to be found", package.name))),
        None => Ok(()),
    }
}

/// What to put before a command to run it as root; `None` when that would ask for a password.
fn root_prefix() -> Option<&'static [&'static str]> {
    if std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        return Some(&[]);
    }
    let sudo = sh::find("sudo").is_some() && sh::capture(sh::command("sudo").args(["-n", "true"])).is_ok();
    sudo.then_some(&["sudo", "-n"])
}

/// `apt-get`, never asking, waiting for another one that holds the lock.
fn apt_get(prefix: &[&str], args: &[&str]) -> Result<()> {
    let fixed = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"];
    let words: Vec<&str> = [prefix, &fixed, args].concat();
    sh::run(sh::command(words[0]).args(&words[1..]))
}
