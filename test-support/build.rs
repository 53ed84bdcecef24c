//! The compiler's version, which is part of what the firmware image is built from.

use std::process::Command;

fn main() {
    // Cargo runs this again when the compiler changes.
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().ok().filter(|output| output.status.success());
    let version = said.map_or_else(
        || "unknown compiler".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    println!("cargo:rustc-env=STEADY_RUSTC={version}");
}
