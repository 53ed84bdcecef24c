//! Link settings of the image: the firmware's memory map.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return; // On the PC there is only the library, and a program that says so.
    }
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = package.join("../..");
    println!("cargo:rerun-if-changed={}", root.join("memory.x").display());
    println!("cargo:rustc-link-search={}", root.display());
    for argument in ["--nmagic", "-Tlink.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
