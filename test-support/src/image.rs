//! The firmware image, and what it was built from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Skip, root};

/// The image that `cargo xtask firmware` writes, in the workspace.
pub const IMAGE: &str = "target/firmware/steady.elf";
/// What that image was built from, beside it.
pub const FINGERPRINT: &str = "target/firmware/steady.fingerprint";
/// The compiler of this build.
pub const RUSTC: &str = env!("STEADY_RUSTC");

const FIX: &str = "build it with `cargo xtask firmware`";
/// Files and folders that the image is made of.
const SOURCES: &[&str] = &[
    ".cargo/config.toml",
    "Cargo.lock",
    "Cargo.toml",
    "common/Cargo.toml",
    "common/src",
    "firmware/Cargo.toml",
    "firmware/build.rs",
    "firmware/src",
    "memory.x",
];

/// The ELF of the firmware image: the one `STEADY_ELF` names, as it is, else the workspace's own.
///
/// # Panics
/// If `STEADY_ELF` names no file; if the workspace's image is stale; if there is none, unless skips are
/// allowed.
#[must_use]
#[track_caller]
pub fn image() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("STEADY_ELF").filter(|value| !value.is_empty()) {
        let elf = PathBuf::from(named);
        assert!(elf.is_file(), "STEADY_ELF names {}, which is not a file", elf.display());
        return Some(elf);
    }
    let elf = root().join(IMAGE);
    if !elf.is_file() {
        Skip::new(&format!("firmware image {IMAGE}"), Some(FIX)).record();
        return None;
    }
    static STALE: OnceLock<Option<String>> = OnceLock::new();
    if let Some(why) = STALE.get_or_init(|| stale(root())) {
        panic!("the firmware image {IMAGE} is stale ({why}); {FIX}");
    }
    Some(elf)
}

/// Why the image is not of these sources and this compiler.
fn stale(root: &Path) -> Option<String> {
    let now = match fingerprint(root) {
        Ok(now) => now,
        Err(error) => return Some(format!("its sources cannot be read: {error}")),
    };
    let Ok(then) = fs::read_to_string(root.join(FINGERPRINT)) else {
        return Some(format!("{FINGERPRINT} is missing"));
    };
    let (compiler, files_then) = then.split_once('\n').unwrap_or_default();
    let (_, files_now) = now.split_once('\n').unwrap_or_default();
    if compiler != RUSTC {
        return Some(format!("built by {compiler}, this is {RUSTC}"));
    }
    let (then, now): (Vec<&str>, Vec<&str>) = (files_then.lines().collect(), files_now.lines().collect());
    let only_then = then.iter().filter(|line| !now.contains(line));
    let only_now = now.iter().filter(|line| !then.contains(line));
    let name = |line: &&str| line.split_once("  ").map_or(*line, |(_, file)| file).to_owned();
    let mut files: Vec<String> = only_then.chain(only_now).map(name).collect();
    files.sort();
    files.dedup();
    match files.as_slice() {
        [] => None,
        [file] => Some(format!("{file} has changed")),
        [file, more @ ..] => Some(format!("{file} and {} more have changed", more.len())),
    }
}

/// What an image that is built now is built from: the compiler, and each source file with its checksum.
///
/// # Errors
/// If a source cannot be read.
pub fn fingerprint(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(root, source, &mut files)?;
    }
    files.sort();
    let mut text = format!("{RUSTC}\n");
    for file in files {
        let path = root.join(&file);
        let bytes = fs::read(&path).map_err(|error| named(&path, error))?;
        text += &format!("{:016x}  {file}\n", checksum(&bytes));
    }
    Ok(text)
}

fn collect(root: &Path, source: &str, files: &mut Vec<String>) -> io::Result<()> {
    let path = root.join(source);
    if !path.is_dir() {
        files.push(source.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(|error| named(&path, error))? {
        collect(root, &format!("{source}/{}", entry?.file_name().to_string_lossy()), files)?;
    }
    Ok(())
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const CRC: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_XZ);
    CRC.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_the_sources_makes_the_image_stale() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for source in SOURCES {
            write(
                &if source.ends_with("src") { format!("{source}/a/b.rs") } else { (*source).to_owned() },
                "1",
            );
        }
        assert!(stale(root).unwrap().contains("fingerprint is missing"));
        write(FINGERPRINT, &fingerprint(root).unwrap());
        assert_eq!(stale(root), None);
        write("host/src/lib.rs", "not part of the image");
        write("common/src/a/b.rs", "1");
        assert_eq!(stale(root), None, "times do not count");

        write("common/src/a/b.rs", "2");
        assert_eq!(stale(root).unwrap(), "common/src/a/b.rs has changed");
        write("common/src/a/b.rs", "1");
        write("firmware/src/new.rs", "");
        assert_eq!(stale(root).unwrap(), "firmware/src/new.rs has changed");
        fs::remove_file(root.join("firmware/src/new.rs")).unwrap();
        fs::remove_file(root.join("firmware/src/a/b.rs")).unwrap();
        write("memory.x", "2");
        assert_eq!(stale(root).unwrap(), "firmware/src/a/b.rs and 1 more have changed");
        write("firmware/src/a/b.rs", "1");
        write("memory.x", "1");
        let other = fingerprint(root).unwrap().replacen(RUSTC, "rustc 1.0.0", 1);
        write(FINGERPRINT, &other);
        assert_eq!(stale(root).unwrap(), format!("built by rustc 1.0.0, this is {RUSTC}"));
        fs::remove_file(root.join("memory.x")).unwrap();
        assert!(stale(root).unwrap().contains("memory.x: "));
    }
}
