//! Lets every program of this package find libtorch without `LD_LIBRARY_PATH`, and know its commit.
//!
//! With the feature `train`, the folder of libtorch's libraries is written into programs, tests and
//! examples as a run path. libtorch's own libraries find each other by theirs (`$ORIGIN`).

use std::path::{Path, PathBuf};
use std::process::exit;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../.git/logs/HEAD");
    println!("cargo:rustc-env=STEADY_COMMIT={}", commit());
    if std::env::var_os("CARGO_FEATURE_TRAIN").is_none() {
        return;
    }
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let Some(libtorch) = std::env::var_os("LIBTORCH").map(PathBuf::from) else {
        missing("LIBTORCH is not set (it normally comes from .cargo/config.toml)");
    };
    let lib = libtorch.join("lib");
    // Also notices when set-up has replaced the folder behind the link.
    println!("cargo:rerun-if-changed={}", lib.join("libtorch_cpu.so").display());
    let Ok(real) = lib.canonicalize() else {
        missing(&format!("there is no libtorch at {}", libtorch.display()));
    };
    // The real folder, which stays when the clone moves; then the link, which stays when set-up
    // points it elsewhere.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", real.display());
    if real != lib {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
    }
    println!("cargo:rustc-env=STEADY_LIBTORCH_VERSION={}", version(&libtorch));
}

/// The commit this is built from; `unknown` where git cannot tell.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    commit.map_or_else(|| "unknown".to_owned(), |c| if changed { c + "+" } else { c })
}

/// The version as libtorch's headers state it.
fn version(libtorch: &Path) -> String {
    let header = libtorch.join("include/torch/headeronly/version.h");
    let text = std::fs::read_to_string(header).unwrap_or_default();
    let quoted = text.split_once("#define TORCH_VERSION \\").and_then(|(_, rest)| rest.split('"').nth(1));
    quoted.unwrap_or("unknown").to_owned()
}

/// Says what to do. The bindings' own build script would only report a missing C++ header.
fn missing(why: &str) -> ! {
    println!("cargo::error={why}: run `cargo xtask setup`, or build with `--no-default-features`");
    exit(1);
}
