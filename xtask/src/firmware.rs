//! `cargo xtask firmware`: the image for the drone, as ELF, as plain binary, and as the package the
//! official client flashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use object::{Object, ObjectSegment};
use serde_json::json;
use steady_test_support::{Built, FIRMWARE};

use crate::setup::FIRMWARE_TARGET;
use crate::sh;

/// Build the firmware into target/firmware: steady.elf, steady.bin and steady.zip.
///
/// The ELF is for a debugger and for the virtual Crazyflie, the binary starts at 0x0800_4000, the zip
/// is the package `steady flash` and the official client put on a drone.
#[derive(Args)]
pub(crate) struct Cmd {}

/// Address of the image's first byte: behind the radio bootloader.
const IMAGE_START: u64 = 0x0800_4000;
/// First byte behind the image's room: the gain tables begin there.
const IMAGE_END: u64 = 0x080C_0000;

impl Cmd {
    /// Builds and says where the files are.
    pub(crate) fn run(self) -> Result<()> {
        let image = build()?;
        let shown = |path: &PathBuf| path.strip_prefix(sh::root()).unwrap_or(path).display().to_string();
        println!("{:<28} {:>7} bytes", shown(&image.elf), fs::metadata(&image.elf)?.len());
        println!("{:<28} {:>7} bytes from {IMAGE_START:#010x}", shown(&image.bin), image.bytes);
        println!("{:<28} {:>7} bytes", shown(&image.zip), fs::metadata(&image.zip)?.len());
        Ok(())
    }
}

/// Where the image's files are.
pub(crate) struct Image {
    /// With symbols and debug information.
    pub(crate) elf: PathBuf,
    bin: PathBuf,
    zip: PathBuf,
    bytes: usize,
}

/// Builds the firmware and writes the files.
pub(crate) fn build() -> Result<Image> {
    publish(FIRMWARE, PACKAGE, |elf| {
        let bytes = fs::read(elf).with_context(|| format!("cannot read {}", elf.display()))?;
        let flash = flash_image(&bytes)?;
        let elf = sh::root().join(FIRMWARE.elf);
        Ok(Image {
            bin: write(elf.with_extension("bin"), &flash)?,
            zip: write(elf.with_extension("zip"), &package(&flash))?,
            elf: write(elf, &bytes)?,
            bytes: flash.len(),
        })
    })
}

/// Builds an image from a package of the workspace, and has its files written beside what they are made of.
pub(crate) fn publish<T>(
    image: Built,
    package: &str,
    write_files: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    // Of the sources before the build: what is edited meanwhile makes the image stale.
    let sources = || format!("cannot read the sources of the {}", image.name);
    let fingerprint = image.fingerprint(&sh::root()).with_context(sources)?;
    let built = compile(package, PROFILE)?;
    let mark = sh::root().join(image.fingerprint);
    let folder = mark.parent().context("the image has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if let Err(error) = fs::remove_file(&mark)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("cannot remove {}", mark.display()));
    }
    let files = write_files(&built)?;
    // Last: a fingerprint is never beside an image of other sources.
    write(mark, fingerprint.as_bytes())?;
    Ok(files)
}

/// Writes a file beside its place first: a program that reads the image never sees half of it, and two builds at
/// once do not take each other's.
pub(crate) fn write(path: PathBuf, bytes: &[u8]) -> Result<PathBuf> {
    let draft = path.with_added_extension(format!("{}.part", std::process::id()));
    fs::write(&draft, bytes).with_context(|| format!("cannot write {}", draft.display()))?;
    fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

const BIN_NAME: &str = "steady.bin";

/// The firmware's package.
pub(crate) const PACKAGE: &str = "steady-firmware";
/// The profile that goes on drones.
pub(crate) const PROFILE: &str = "firmware";

/// Runs the build of a package with a profile and returns the ELF's path, as cargo tells it.
pub(crate) fn compile(package: &str, profile: &str) -> Result<PathBuf> {
    let mut command: Command = sh::cargo();
    command.args(["build", "--package", package, "--target", FIRMWARE_TARGET, "--profile", profile]);
    command.args(["--locked", "--message-format=json-render-diagnostics"]);
    // Incremental compilation splits functions otherwise, and the stack's budget does not hold.
    command.env("CARGO_INCREMENTAL", "0");
    eprintln!("$ {}", sh::shown(&command));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{package} does not build ({})", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
        .context("cargo named no executable")
}

/// What goes to flash: every loaded segment at its place, gaps as erased flash.
fn flash_image(elf: &[u8]) -> Result<Vec<u8>> {
    let file = object::File::parse(elf).context("the firmware's ELF cannot be read")?;
    let object::File::Elf32(elf) = &file else { bail!("the firmware is not a 32-bit ELF") };
    let mut image = Vec::new();
    for header in elf.elf_program_headers() {
        use object::read::elf::ProgramHeader;
        let endian = elf.endian();
        let data = header.data(endian, elf.data()).ok().context("the ELF is cut off")?;
        if header.p_type(endian) != object::elf::PT_LOAD || data.is_empty() {
            continue;
        }
        // The load address: for initialised variables it is in flash, unlike the address they run at.
        let start = u64::from(header.p_paddr(endian));
        let end = start + data.len() as u64;
        if start < IMAGE_START || end > IMAGE_END {
            bail!("{start:#010x}..{end:#010x} is outside the image's room");
        }
        let (from, to) = ((start - IMAGE_START) as usize, (end - IMAGE_START) as usize);
        if image.len() < to {
            image.resize(to, 0xFF);
        }
        image[from..to].copy_from_slice(data);
    }
    if image.len() < 8 || file.segments().all(|s| s.address() != IMAGE_START) {
        bail!("the vector table is not at {IMAGE_START:#010x}");
    }
    Ok(image)
}

/// The package of the official client.
fn package(flash: &[u8]) -> Vec<u8> {
    stored_zip(&[("manifest.json", manifest().as_bytes()), (BIN_NAME, flash)])
}

/// The manifest of the official package format.
fn manifest() -> String {
    let release = sh::capture(sh::command("git").args(["describe", "--always", "--dirty"]))
        .unwrap_or_else(|_| "unknown".to_owned());
    json!({
        "version": 2,
        "files": {
            BIN_NAME: {
                "platform": "cf2",
                "target": "stm32",
                "type": "fw",
                "release": format!("steady {} {release}", env!("CARGO_PKG_VERSION")),
            }
        }
    })
    .to_string()
}

/// A zip archive of files as they are. The same bytes give the same archive: no times, no packing.
fn stored_zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    /// 1 January 1980, the format's first day.
    const DATE: u16 = 0x21;
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in files {
        let offset = archive.len() as u32;
        // Common to the local header and the directory: version 2.0, no flags, stored, time and date,
        // checksum, both sizes, length of the name, no extra field.
        let mut common = Vec::new();
        for half in [20, 0, 0, 0, DATE] {
            common.extend(half.to_le_bytes());
        }
        for word in [CRC.checksum(bytes), bytes.len() as u32, bytes.len() as u32] {
            common.extend(word.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend(0_u16.to_le_bytes());

        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(*bytes);

        directory.extend(b"PK\x01\x02");
        directory.extend(20_u16.to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 10]); // No comment, first disk, no attributes.
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (archive.len() as u32, files.len() as u16);
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0; 4]); // This disk is the only one.
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend((directory.len() as u32).to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0; 2]);
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_reads_the_archive() {
        let archive = stored_zip(&[("manifest.json", br#"{"version":2}"#), ("a.bin", &[1, 2, 3, 0xFF])]);
        let path = std::env::temp_dir().join(format!("steady-zip-{}.zip", std::process::id()));
        fs::write(&path, archive).unwrap();
        let script = "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
                      print(z.namelist(), z.read('manifest.json').decode(), list(z.read('a.bin')))";
        let said = sh::capture(sh::command("python3").args(["-c", script]).arg(&path));
        fs::remove_file(&path).unwrap();
        assert_eq!(said.unwrap(), "['manifest.json', 'a.bin'] {\"version\":2} [1, 2, 3, 255]");
    }

    /// As the official client reads it: every file the manifest names, by what it says of it.
    #[test]
    fn the_package_holds_what_its_manifest_says() {
        let flash: Vec<u8> = (0..70_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let folder = std::env::temp_dir().join(format!("steady-package-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (zip, bin) = (folder.join("steady.zip"), folder.join("steady.bin"));
        fs::write(&zip, package(&flash)).unwrap();
        fs::write(&bin, &flash).unwrap();
        let script = "import sys, json, zipfile\n\
            z = zipfile.ZipFile(sys.argv[1])\n\
            assert z.testzip() is None\n\
            m = json.loads(z.read('manifest.json').decode('utf-8'))\n\
            assert m['version'] <= 2, m\n\
            assert set(m['files']) | {'manifest.json'} == set(z.namelist()), z.namelist()\n\
            for name, about in m['files'].items():\n\
            \x20   assert z.read(name) == open(sys.argv[2], 'rb').read(), name\n\
            \x20   assert isinstance(about['release'], str) and about['release'], about\n\
            \x20   print(about['platform'], about['target'], about['type'])\n";
        let said = sh::capture(sh::command("python3").args(["-c", script]).args([&zip, &bin]));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(said.unwrap(), "cf2 stm32 fw");
    }

    #[test]
    fn what_is_no_firmware_is_refused() {
        assert!(flash_image(b"no ELF").is_err());
    }
}
