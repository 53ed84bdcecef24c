//! Link settings of the image, and the commit it is made from.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return; // On the PC there is only the library, and a program that says so.
    }
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = package.parent().map_or_else(|| PathBuf::from(".."), PathBuf::from);
    println!("cargo:rerun-if-changed={}", root.join("memory.x").display());
    println!("cargo:rustc-link-search={}", root.display());
    // Here and not as `rustflags`, which an exported RUSTFLAGS would silently replace.
    for argument in ["--nmagic", "-Tlink.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }

    // Log level of the image; an exported DEFMT_LOG wins.
    println!("cargo:rerun-if-env-changed=DEFMT_LOG");
    if std::env::var_os("DEFMT_LOG").is_none() {
        println!("cargo:rustc-env=DEFMT_LOG=info");
    }

    println!("cargo:rerun-if-changed={}", root.join(".git/logs/HEAD").display());
    println!("cargo:rustc-env=STEADY_COMMIT={}", commit(&root).as_deref().unwrap_or("unknown"));
}

/// The commit's short hash, with a `+` when files differ from it.
fn commit(root: &PathBuf) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = git(&["rev-parse", "--short=9", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { hash } else { hash + "+" })
}
