//! Where the real firmware and the virtual Crazyflie are, for tests that fly them.

use std::path::{Path, PathBuf};

/// The firmware's image; nothing, and a word about it, where it or the virtual Crazyflie is not built.
pub(crate) fn elf() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/firmware/steady.elf");
    let elf = std::env::var_os("STEADY_ELF").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let program = Path::new(env!("CARGO_BIN_EXE_steady")).with_file_name("virtual-crazyflie");
    if elf.is_file() && program.is_file() {
        return Some(elf);
    }
    println!("SKIPPED: no firmware at {} or no {}", elf.display(), program.display());
    None
}
