//! Checks of the machine: `build` what compiles, `flight` what flies, `machine` the rest.
#![forbid(unsafe_code)]

mod build;
mod flight;
mod machine;
mod usb;

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use steady_sweep::programs;

/// The one command that mends most findings.
const SETUP: &str = "cargo xtask setup";

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked for.
    pub name: &'static str,
    /// It is there and works.
    pub ok: bool,
    /// Whether all of `steady` needs it, and not only some builds or commands.
    pub required: bool,
    /// Where it is, or what is wrong.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
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

/// What only the program that asks can know.
#[derive(Debug, Default)]
pub struct Caller {
    /// libtorch's version, or why it does not work; none for a program without training.
    pub libtorch: Option<Result<String>>,
    /// The virtual Crazyflie that it would start.
    pub virtual_crazyflie: Option<PathBuf>,
    /// The firmware image that it would fly.
    pub image: Option<PathBuf>,
}

/// All findings on this machine.
pub fn examine(caller: Caller) -> Vec<Finding> {
    let Caller { libtorch, virtual_crazyflie, image } = caller;
    let usb = usb::devices(Path::new("/"));
    vec![
        build::libtorch(libtorch),
        build::rust_target(),
        package("cmake", "cmake", "the emulator's build"),
        package("make", "make", "the emulator's build"),
        build::libclang(),
        build::libusb(),
        package("mtools", "mcopy", "SD-card images"),
        package("dosfstools", "mkfs.vfat", "SD-card images"),
        flight::virtual_crazyflie(virtual_crazyflie),
        flight::firmware(image),
        flight::crazyradio(&usb),
        flight::probe_rs(),
        flight::debug_probe(&usb),
        machine::slurm(),
        machine::chromium(),
        machine::disk_space(Path::new(".")),
    ]
}

/// The findings as text, one line each, with the fix below.
pub fn report(findings: &[Finding]) -> String {
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

/// A program of a Debian package that set-up installs.
fn package(name: &'static str, program: &str, needed_for: &str) -> Finding {
    Finding::path(name, programs::find(program), &format!("no `{program}` ({needed_for})"), SETUP)
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
        let broken = Caller { libtorch: Some(Err(anyhow::anyhow!("no gradient"))), ..Caller::default() };
        let works = Caller { libtorch: Some(Ok("2.0".to_owned())), ..Caller::default() };
        for caller in [Caller::default(), broken, works] {
            let (trains, works) = (caller.libtorch.is_some(), !matches!(caller.libtorch, Some(Err(_))));
            let findings = examine(caller);
            assert_eq!((findings[0].ok, findings[0].required), (works, trains), "{:?}", findings[0]);
            for finding in findings {
                assert_eq!(finding.ok, finding.fix.is_none(), "{finding:?}");
            }
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_missed() {
        assert!(!package("x", "no-such-program-anywhere", "nothing").ok);
        assert!(package("x", "sh", "nothing").ok);
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
