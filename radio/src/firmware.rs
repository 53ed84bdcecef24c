//! Reads firmware images and flashes them.
//!
//! The image is written sector by sector and every sector is read back. The sector with the vector
//! table is erased first and written last: an interrupted drone does not boot an incomplete image but
//! stays in its bootloader, where the same command finds it.

use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use serde::Deserialize;
use steady_common::cload::{PAGE_SIZE, SECTOR_FIRST_PAGES, STM32_BUFFER_PAGES, STM32_START_PAGE};
use steady_common::gain_table::FIRST_FLASH_PAGE;

use crate::bootloader::{Bootloader, Page};
use crate::error::{Error, Result};
use crate::tables::Phase;

/// Address of the image's first byte.
const START: u32 = 0x0800_4000;
/// Maximum number of pages; the gain tables follow.
const MAX_PAGES: usize = FIRST_FLASH_PAGE as usize - STM32_START_PAGE as usize;
/// Largest image, bytes.
const MAX_BYTES: usize = MAX_PAGES * PAGE_SIZE;
/// Attempts to write a sector.
const ATTEMPTS: usize = 6;

/// A firmware image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    bytes: Vec<u8>,
    /// The package's description.
    pub release: Option<String>,
    /// Files of the package that are not flashed.
    pub left_out: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    version: u32,
    files: std::collections::BTreeMap<String, FileInfo>,
}

#[derive(Deserialize)]
struct FileInfo {
    #[serde(default)]
    platform: String,
    #[serde(default)]
    target: Targets,
    #[serde(default, rename = "type")]
    kind: String,
    release: Option<String>,
}

/// One name or several.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Targets {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Targets {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => one == name,
            Self::Many(many) => many.iter().any(|n| n == name),
        }
    }
}

impl Image {
    /// Reads a binary for 0x0800_4000, or a package as the official client has them.
    ///
    /// # Errors
    /// If the file cannot be read, or is not firmware for a Crazyflie 2.x.
    pub fn load(path: &Path) -> Result<Self> {
        let failed = |why: String| Error::File { file: path.to_owned(), why };
        let what = || format!("{}: cannot be read", path.display());
        let bytes = fs::read(path).map_err(|error| Error::Io { what: what(), error })?;
        let image =
            if bytes.starts_with(b"PK") { Self::unpack(&bytes) } else { Self::new(bytes, None, Vec::new()) };
        image.map_err(failed)
    }

    /// From the bytes of a binary.
    fn new(
        bytes: Vec<u8>,
        release: Option<String>,
        left_out: Vec<String>,
    ) -> std::result::Result<Self, String> {
        if bytes.starts_with(b"\x7FELF") {
            return Err("an ELF file; the drone takes the .bin or .zip beside it".to_owned());
        }
        if bytes.len() > MAX_BYTES {
            return Err(format!(
                "{} bytes are more than the {MAX_BYTES} before the gain tables",
                bytes.len()
            ));
        }
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b));
        let (Some(stack), Some(entry)) = (word(0), word(4)) else {
            return Err(format!("{} bytes are no firmware", bytes.len()));
        };
        let in_ram =
            (0x2000_0000..=0x2002_0000).contains(&stack) || (0x1000_0000..=0x1001_0000).contains(&stack);
        let end = START + u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if !in_ram || entry & 1 == 0 || !(START..end).contains(&entry) {
            return Err(format!(
                "no firmware for {START:#010x}: it begins with {stack:#010x}, {entry:#010x}, not with a stack and a \
                 start address"
            ));
        }
        Ok(Self { bytes, release, left_out })
    }

    fn unpack(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut archive =
            zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| format!("no zip archive: {e}"))?;
        let manifest = extract(&mut archive, "manifest.json")?;
        let manifest: Manifest =
            serde_json::from_slice(&manifest).map_err(|e| format!("manifest.json is invalid: {e}"))?;
        if manifest.version > 2 {
            return Err(format!(
                "manifest.json has version {}; this program reads 1 and 2",
                manifest.version
            ));
        }
        let is_ours = |f: &FileInfo| f.platform == "cf2" && f.target.has("stm32") && f.kind == "fw";
        let (ours, others): (Vec<_>, Vec<_>) = manifest.files.into_iter().partition(|(_, f)| is_ours(f));
        let [(name, info)] = &ours[..] else {
            return Err(format!(
                "{} files for the Crazyflie's STM32 in the package; one is needed",
                ours.len()
            ));
        };
        let left_out = others.into_iter().map(|(name, _)| crate::printable(&name)).collect();
        Self::new(extract(&mut archive, name)?, info.release.as_deref().map(crate::printable), left_out)
    }

    /// What goes into flash from 0x0800_4000 on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Always false for a valid image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its flash pages; the last one is padded with 0xFF.
    fn pages(&self) -> Vec<Page> {
        self.bytes
            .chunks(PAGE_SIZE)
            .map(|chunk| {
                let mut page = [0xFF; PAGE_SIZE];
                page.iter_mut().zip(chunk).for_each(|(place, byte)| *place = *byte);
                page
            })
            .collect()
    }
}

/// Reads a file of an archive, of at most the size of the flash.
fn extract(archive: &mut zip::ZipArchive<Cursor<&[u8]>>, name: &str) -> std::result::Result<Vec<u8>, String> {
    let shown = crate::printable(name);
    let file = archive.by_name(name).map_err(|e| format!("the package has no {shown}: {e}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("{shown} in the package is damaged: {e}"))?;
    Ok(bytes)
}

/// Sectors of an image: first page of each, and the page after its last.
fn sectors(pages: usize) -> Vec<(usize, usize)> {
    let end = usize::from(STM32_START_PAGE) + pages;
    let starts =
        SECTOR_FIRST_PAGES.iter().map(|p| usize::from(*p)).filter(|p| *p >= usize::from(STM32_START_PAGE));
    let ends = starts.clone().skip(1).chain([usize::MAX]);
    starts
        .zip(ends)
        .take_while(|(start, _)| *start < end)
        .map(|(start, next)| (start, next.min(end)))
        .collect()
}

/// Writes an image and verifies it.
///
/// # Errors
/// If the drone does not answer, or the flash does not hold what is written to it.
pub fn write(loader: &mut Bootloader<'_>, image: &Image, observe: &mut dyn FnMut(Phase)) -> Result<()> {
    let pages = image.pages();
    let mut sectors = sectors(pages.len());
    // The vector table last; until then its page is blank, and the drone does not start.
    let first = sectors.remove(0);
    let blank = [[0xFF; PAGE_SIZE]];
    loader.load(&blank)?;
    loader.write(STM32_START_PAGE, 1)?;
    let mut done = 0;
    for (start, end) in sectors.into_iter().chain([first]) {
        let from = start - usize::from(STM32_START_PAGE);
        let part = pages.get(from..end - usize::from(STM32_START_PAGE)).unwrap_or_default();
        write_sector(loader, start, part, done, pages.len(), observe)?;
        done += part.len();
    }
    Ok(())
}

fn write_sector(
    loader: &mut Bootloader<'_>,
    start: usize,
    pages: &[Page],
    done: usize,
    total: usize,
    observe: &mut dyn FnMut(Phase),
) -> Result<()> {
    let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let mut failure = None;
    for _ in 0..ATTEMPTS {
        let mut at = 0;
        for group in pages.chunks(usize::from(STM32_BUFFER_PAGES)) {
            observe(Phase::Writing(done + at, total));
            loader.load(group)?;
            // An error shows again when it is read back; the sector is then written again.
            failure = loader.write(number(start + at), number(group.len())).err();
            if matches!(failure, Some(Error::NoAnswer { .. } | Error::Io { .. } | Error::Dongle(_))) {
                break;
            }
            at += group.len();
        }
        if let Some(error) = failure.take_if(|e| !matches!(e, Error::Verification(_))) {
            return Err(error);
        }
        observe(Phase::Verifying(done, total));
        let parts = [(start * PAGE_SIZE, pages.len() * PAGE_SIZE)];
        let pages_of = |chunks: usize, of: usize| done + pages.len() * chunks / of.max(1);
        let read = loader.read(&parts, &mut |n, of| observe(Phase::Verifying(pages_of(n, of), total)))?;
        if read.iter().flatten().eq(pages.iter().flatten()) {
            return Ok(());
        }
    }
    Err(failure.unwrap_or_else(|| {
        Error::Verification(format!("flash pages {start} and up do not hold what is written to them"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn binary(len: usize) -> Vec<u8> {
        let mut bytes = vec![0x5A; len];
        bytes[..4].copy_from_slice(&0x2002_0000_u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&0x0800_4009_u32.to_le_bytes());
        bytes
    }

    fn package(manifest: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        for (name, bytes) in [("manifest.json", manifest.as_bytes())].iter().chain(files) {
            archive.start_file(*name, options).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn binaries_are_checked() {
        assert!(Image::new(binary(1000), None, Vec::new()).is_ok());
        for (bytes, word) in [
            (vec![], "0 bytes"),
            (vec![0; 64], "begins with 0x00000000"),
            (binary(MAX_BYTES + 1), "gain tables"),
            (b"\x7FELF....".to_vec(), "ELF"),
            (binary(8), "begins with"),
        ] {
            let error = Image::new(bytes, None, Vec::new()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_official_package_is_understood() {
        let manifest = r#"{"version": 2, "files": {
            "a.bin": {"platform": "cf2", "target": "stm32", "type": "fw", "release": "x"},
            "../n.bin": {"platform": "cf2", "target": ["nrf51"], "type": "fw"}}}"#;
        let zip = package(manifest, &[("a.bin", &binary(2000)), ("../n.bin", b"nrf")]);
        let image = Image::unpack(&zip).unwrap();
        assert_eq!((image.len(), image.release.as_deref()), (2000, Some("x")));
        assert_eq!(image.left_out, ["../n.bin"]);
        for (manifest, word) in [
            ("{", "is invalid"),
            (r#"{"version": 3, "files": {}}"#, "version 3"),
            (r#"{"version": 2, "files": {}}"#, "0 files"),
            (r#"{"version":2,"files":{"b":{"platform":"cf2","target":"stm32","type":"fw"}}}"#, "has no b"),
        ] {
            let error = Image::unpack(&package(manifest, &[])).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(Image::unpack(&zip[..zip.len() / 2]).unwrap_err().contains("zip"));
    }

    #[test]
    fn sectors_are_the_flashs() {
        assert_eq!(sectors(1), [(16, 17)]);
        assert_eq!(sectors(17), [(16, 32), (32, 33)]);
        assert_eq!(sectors(234), [(16, 32), (32, 48), (48, 64), (64, 128), (128, 250)]);
        assert_eq!(sectors(MAX_PAGES).last(), Some(&(640, 768)));
    }
}
