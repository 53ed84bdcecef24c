//! What the builds need.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use steady_data::error::describe;

use super::{Finding, SETUP};

/// The drone's processor.
const FIRMWARE_TARGET: &str = "thumbv7em-none-eabihf";
const LIBUSB_HEADER: &str = "/usr/include/libusb-1.0/libusb.h";

/// libtorch's version if a gradient came out right, else why not; none for a program without training.
pub(super) fn libtorch(checked: Option<Result<String>>) -> Finding {
    let name = "libtorch";
    match checked {
        None => Finding::ok(name, "not used: built without training"),
        Some(Ok(version)) => {
            Finding { required: true, ..Finding::ok(name, format!("{version}, gradient check passed")) }
        }
        Some(Err(error)) => Finding { required: true, ..Finding::bad(name, describe(&error), SETUP) },
    }
}

pub(super) fn rust_target() -> Finding {
    let name = "rust target";
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    match output {
        Ok(output) if output.status.success() => {
            let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            if sysroot.join("lib/rustlib").join(FIRMWARE_TARGET).is_dir() {
                Finding::ok(name, FIRMWARE_TARGET)
            } else {
                let fix = format!("rustup target add {FIRMWARE_TARGET}");
                Finding::bad(name, format!("{FIRMWARE_TARGET} (the firmware's build)"), fix)
            }
        }
        _ => Finding::bad(name, "no rustc here (all builds)", "install Rust with rustup"),
    }
}

pub(super) fn libclang() -> Finding {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return Finding::ok("libclang", format!("{} (LIBCLANG_PATH)", PathBuf::from(path).display()));
    }
    // Debian keeps each version of LLVM in a folder of its own.
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
        .map(|entry| entry.path().join("lib/libclang.so"))
        .filter(|library| library.exists());
    Finding::path("libclang", found.next(), "no libclang.so (the emulator's build)", SETUP)
}

pub(super) fn libusb() -> Finding {
    let header = Some(PathBuf::from(LIBUSB_HEADER)).filter(|path| path.is_file());
    Finding::path("libusb", header, &format!("no {LIBUSB_HEADER} (the Crazyradio's build)"), SETUP)
}
