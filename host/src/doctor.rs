//! `steady doctor`: is everything here that the other verbs and the builds need?

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

/// The one command that mends most findings.
const SETUP: &str = "cargo xtask setup";
/// The drone's processor.
const FIRMWARE_TARGET: &str = "thumbv7em-none-eabihf";
/// A clean build with tests and a training run stay below this.
const WANTED_GIB: f64 = 5.0;

/// Check this machine: libtorch, Rust target, tools, disk space.
///
/// Exits with status 1 when something required is missing; every finding comes with its fix.
#[derive(Debug, Args)]
pub struct Cmd {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether `steady` itself cannot work without it; the rest only some builds need.
    pub required: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it, when it is not ok.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, required: bool, detail: impl Into<String>) -> Self {
        Self { name, ok: true, required, detail: detail.into(), fix: None }
    }

    fn bad(name: &'static str, required: bool, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, ok: false, required, detail: detail.into(), fix: Some(fix.into()) }
    }
}

impl Cmd {
    /// Looks at everything and prints it.
    ///
    /// # Errors
    /// When something required is missing.
    pub fn run(self) -> Result<()> {
        let findings = examine();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&findings)?);
        } else {
            print!("{}", report(&findings));
        }
        let missing: Vec<&str> = findings.iter().filter(|f| f.required && !f.ok).map(|f| f.name).collect();
        if !missing.is_empty() {
            bail!("required, but not in order: {}", missing.join(", "));
        }
        Ok(())
    }
}

/// All findings on this machine.
pub fn examine() -> Vec<Finding> {
    vec![
        libtorch(),
        rust_target(),
        program("cmake", "cmake", "the emulator's build"),
        libclang(),
        program("mtools", "mcopy", "SD-card images"),
        program("dosfstools", "mkfs.vfat", "SD-card images"),
        disk_space(Path::new(".")),
    ]
}

/// The findings for people, one line each, with the fix below.
pub fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let verdict = match (finding.ok, finding.required) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "missing",
        };
        text.push_str(&format!("{:<12} {verdict:<8} {}\n", finding.name, finding.detail));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("{:<12} fix:     {fix}\n", ""));
        }
    }
    text
}

#[cfg(feature = "train")]
fn libtorch() -> Finding {
    use crate::torch;
    match torch::self_check() {
        Ok(()) => {
            let detail = format!("{}, gradient check passed", torch::libtorch_version());
            Finding::ok("libtorch", true, detail)
        }
        Err(error) => Finding::bad("libtorch", true, error.to_string(), SETUP),
    }
}

#[cfg(not(feature = "train"))]
fn libtorch() -> Finding {
    Finding::ok("libtorch", false, "not used: built without training")
}

fn rust_target() -> Finding {
    let name = "rust target";
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    match output {
        Ok(output) if output.status.success() => {
            let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            if sysroot.join("lib/rustlib").join(FIRMWARE_TARGET).is_dir() {
                Finding::ok(name, false, FIRMWARE_TARGET)
            } else {
                let fix = format!("rustup target add {FIRMWARE_TARGET}");
                Finding::bad(name, false, format!("{FIRMWARE_TARGET} (the firmware's build)"), fix)
            }
        }
        _ => Finding::bad(name, false, "no rustc here (all builds)", "install Rust with rustup"),
    }
}

/// A program of the Debian package `package`.
fn program(package: &'static str, program: &str, needed_for: &str) -> Finding {
    match find(program) {
        Some(path) => Finding::ok(package, false, path.display().to_string()),
        None => Finding::bad(package, false, format!("no `{program}` ({needed_for})"), SETUP),
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Not every user's PATH has the administrator's folders.
    let admin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(admin).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

fn libclang() -> Finding {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return Finding::ok("libclang", false, format!("{} (LIBCLANG_PATH)", PathBuf::from(path).display()));
    }
    // Debian keeps each version of LLVM in a folder of its own.
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
        .map(|entry| entry.path().join("lib/libclang.so"))
        .filter(|library| library.exists());
    match found.next() {
        Some(library) => Finding::ok("libclang", false, library.display().to_string()),
        None => Finding::bad("libclang", false, "no libclang.so (the emulator's build)", SETUP),
    }
}

fn disk_space(folder: &Path) -> Finding {
    let output = Command::new("df").args(["--output=avail", "-BK"]).arg(folder).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    match available_gib(&said) {
        Some(free) if free >= WANTED_GIB => Finding::ok("disk space", false, format!("{free:.1} GiB free")),
        Some(free) => Finding::bad(
            "disk space",
            false,
            format!("{free:.1} GiB free, {WANTED_GIB} GiB wanted for builds and runs"),
            "free some space; `cargo clean` gives back what builds took",
        ),
        None => Finding::ok("disk space", false, "unknown: `df` gave no figure"),
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
    fn what_is_missing_comes_with_its_fix() {
        let findings = [
            Finding::ok("one", true, "here"),
            Finding::bad("two", true, "gone", "get it"),
            Finding::bad("three", false, "gone", "or not"),
        ];
        assert_eq!(
            report(&findings),
            "one          ok       here\n\
             two          MISSING  gone\n             fix:     get it\n\
             three        missing  gone\n             fix:     or not\n"
        );
    }

    #[test]
    fn every_finding_that_is_not_ok_says_what_to_do() {
        for finding in examine() {
            assert_eq!(finding.ok, finding.fix.is_none(), "{finding:?}");
        }
    }

    #[test]
    fn free_space_is_read_from_df() {
        assert_eq!(available_gib("  Avail\n5242880K\n"), Some(5.0));
        assert_eq!(available_gib("nonsense"), None);
        assert!(!program("x", "no-such-program-anywhere", "nothing").ok);
    }

    #[test]
    fn json_has_one_object_per_finding() {
        let json = serde_json::to_value([Finding::ok("one", true, "here")]).unwrap();
        assert_eq!(
            json,
            serde_json::json!([{"name": "one", "ok": true, "required": true, "detail": "here"}])
        );
    }
}
