//! Images for the drone's processor, and what they were built from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Skip, root};

/// The compiler of this build.
pub const RUSTC: &str = env!("STEADY_RUSTC");

/// An image that a command of `cargo xtask` builds for the drone's processor.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// What it is.
    pub name: &'static str,
    /// The ELF, in the workspace.
    pub elf: &'static str,
    /// What that was built from, beside it.
    pub fingerprint: &'static str,
    /// Files and folders that it is made of.
    sources: &'static [&'static str],
    /// The command that builds it.
    fix: &'static str,
}

/// The firmware.
pub const FIRMWARE: Built = Built {
    name: "firmware image",
    elf: "target/firmware/steady.elf",
    fingerprint: "target/firmware/steady.fingerprint",
    sources: &[
        ".cargo/config.toml",
        "Cargo.lock",
        "Cargo.toml",
        "common/Cargo.toml",
        "common/src",
        "firmware/Cargo.toml",
        "firmware/build.rs",
        "firmware/src",
        "memory.x",
    ],
    fix: "build it with `cargo xtask firmware`",
};

/// The programs that check the virtual Crazyflie against the manuals.
pub const ARCHITECTURE: Built = Built {
    name: "architecture image",
    elf: "target/images/architecture.elf",
    fingerprint: "target/images/architecture.fingerprint",
    sources: &[
        ".cargo/config.toml",
        "Cargo.lock",
        "Cargo.toml",
        "emulator/images/Cargo.toml",
        "emulator/images/build.rs",
        "emulator/images/src",
        "memory.x",
    ],
    fix: "build it with `cargo xtask images`",
};

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
    static STALE: OnceLock<Option<String>> = OnceLock::new();
    FIRMWARE.find(&STALE)
}

/// The ELF of the programs in `emulator/images`.
///
/// # Panics
/// If it is stale; if there is none, unless skips are allowed.
#[must_use]
#[track_caller]
pub fn architecture_image() -> Option<PathBuf> {
    static STALE: OnceLock<Option<String>> = OnceLock::new();
    ARCHITECTURE.find(&STALE)
}

impl Built {
    /// The ELF; whether it is stale is found out once.
    #[track_caller]
    fn find(&self, is_stale: &OnceLock<Option<String>>) -> Option<PathBuf> {
        let elf = root().join(self.elf);
        if !elf.is_file() {
            Skip::new(&format!("{} {}", self.name, self.elf), Some(self.fix)).record();
            return None;
        }
        if let Some(why) = is_stale.get_or_init(|| self.stale(root())) {
            panic!("the {} {} is stale ({why}); {}", self.name, self.elf, self.fix);
        }
        Some(elf)
    }

    /// Why the image is not of these sources and this compiler.
    fn stale(&self, root: &Path) -> Option<String> {
        let now = match self.fingerprint(root) {
            Ok(now) => now,
            Err(error) => return Some(format!("its sources cannot be read: {error}")),
        };
        let Ok(then) = fs::read_to_string(root.join(self.fingerprint)) else {
            return Some(format!("{} is missing", self.fingerprint));
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
    pub fn fingerprint(&self, root: &Path) -> io::Result<String> {
        let mut files = Vec::new();
        for source in self.sources {
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
        for source in FIRMWARE.sources {
            write(
                &if source.ends_with("src") { format!("{source}/a/b.rs") } else { (*source).to_owned() },
                "1",
            );
        }
        assert!(FIRMWARE.stale(root).unwrap().contains("fingerprint is missing"));
        write(FIRMWARE.fingerprint, &FIRMWARE.fingerprint(root).unwrap());
        assert_eq!(FIRMWARE.stale(root), None);
        write("host/src/lib.rs", "not part of the image");
        write("common/src/a/b.rs", "1");
        assert_eq!(FIRMWARE.stale(root), None, "times do not count");

        write("common/src/a/b.rs", "2");
        assert_eq!(FIRMWARE.stale(root).unwrap(), "common/src/a/b.rs has changed");
        write("common/src/a/b.rs", "1");
        write("firmware/src/new.rs", "");
        assert_eq!(FIRMWARE.stale(root).unwrap(), "firmware/src/new.rs has changed");
        fs::remove_file(root.join("firmware/src/new.rs")).unwrap();
        fs::remove_file(root.join("firmware/src/a/b.rs")).unwrap();
        write("memory.x", "2");
        assert_eq!(FIRMWARE.stale(root).unwrap(), "firmware/src/a/b.rs and 1 more have changed");
        write("firmware/src/a/b.rs", "1");
        write("memory.x", "1");
        let other = FIRMWARE.fingerprint(root).unwrap().replacen(RUSTC, "rustc 1.0.0", 1);
        write(FIRMWARE.fingerprint, &other);
        assert_eq!(FIRMWARE.stale(root).unwrap(), format!("built by rustc 1.0.0, this is {RUSTC}"));
        fs::remove_file(root.join("memory.x")).unwrap();
        assert!(FIRMWARE.stale(root).unwrap().contains("memory.x: "));
    }
}
