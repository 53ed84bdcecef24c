//! Checks of the machine: `build` what compiles, `flight` what flies, `machine` the rest.

mod build;
mod flight;
mod machine;
mod usb;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::programs;

/// The one command that mends most findings.
const SETUP: &str = "cargo xtask setup";

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    /// Whether all of `steady` needs it, and not only some builds or commands.
    pub(crate) required: bool,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, required: false, detail: detail.into(), fix: None }
    }

    fn bad(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, ok: false, required: false, detail: detail.into(), fix: Some(fix.into()) }
    }

    /// A program or file, or what is missing without it.
    fn path(name: &'static str, found: Option<PathBuf>, missing: &str, fix: &str) -> Self {
        match found {
            Some(path) => Self::ok(name, path.display().to_string()),
            None => Self::bad(name, missing, fix),
        }
    }
}

/// All findings on this machine.
pub(crate) fn examine() -> Vec<Finding> {
    let usb = usb::devices(Path::new("/"));
    vec![
        build::libtorch(),
        build::rust_target(),
        program("cmake", "cmake", "the emulator's build"),
        program("make", "make", "the emulator's build"),
        build::libclang(),
        build::libusb(),
        program("mtools", "mcopy", "SD-card images"),
        program("dosfstools", "mkfs.vfat", "SD-card images"),
        flight::virtual_crazyflie(),
        flight::firmware(),
        flight::crazyradio(&usb),
        flight::probe_rs(),
        flight::debug_probe(&usb),
        machine::slurm(),
        machine::chromium(),
        machine::disk_space(Path::new(".")),
    ]
}

/// The findings as text, one line each, with the fix below.
pub(crate) fn report(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let verdict = match (finding.ok, finding.required) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "missing",
        };
        text.push_str(&format!("{:<width$} {verdict:<8} {}\n", finding.name, finding.detail));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("{:<width$} fix:     {fix}\n", ""));
        }
    }
    text
}

/// A program of the Debian package `package`, which set-up installs.
fn program(package: &'static str, program: &str, needed_for: &str) -> Finding {
    Finding::path(package, programs::find(program), &format!("no `{program}` ({needed_for})"), SETUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_its_fix() {
        let findings = [
            Finding::ok("one", "here"),
            Finding { required: true, ..Finding::bad("two", "gone", "get it") },
            Finding::bad("three", "gone", "or not"),
        ];
        assert_eq!(
            report(&findings),
            "one   ok       here\n\
             two   MISSING  gone\n      fix:     get it\n\
             three missing  gone\n      fix:     or not\n"
        );
    }

    #[test]
    fn every_finding_that_is_not_ok_says_what_to_do() {
        for finding in examine() {
            assert_eq!(finding.ok, finding.fix.is_none(), "{finding:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_missed() {
        assert!(!program("x", "no-such-program-anywhere", "nothing").ok);
        assert!(program("x", "sh", "nothing").ok);
    }

    #[test]
    fn json_has_one_object_per_finding() {
        let json = serde_json::to_value([Finding::ok("one", "here")]).unwrap();
        assert_eq!(
            json,
            serde_json::json!([{"name": "one", "ok": true, "required": false, "detail": "here"}])
        );
    }
}
