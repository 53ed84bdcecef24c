//! Card images: a partition table and a FAT32 file system, as cards are sold, in a sparse file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions};

/// Size of a new image: the file is sparse, so that only what is written takes room.
pub const IMAGE_BYTES: u64 = 2560 * 1024 * 1024;
/// Where the partition begins: `mdir -i card.img@@1M` lists it.
pub const PARTITION: u64 = 1024 * 1024;
/// Bytes in a cluster, as on cards of that size.
const CLUSTER: u32 = 32 * 1024;

/// A part of a file as a disk of its own.
struct Partition {
    file: File,
    at: u64,
}

impl Read for Partition {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(PARTITION + self.at))?;
        let n = self.file.read(buffer)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Write for Partition {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(PARTITION + self.at))?;
        let n = self.file.write(buffer)?;
        self.at += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Partition {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let end = self.file.metadata()?.len().saturating_sub(PARTITION);
        let to = match position {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::Current(n) => self.at.checked_add_signed(n),
            SeekFrom::End(n) => end.checked_add_signed(n),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

fn open(path: &Path, write: bool) -> Result<Partition> {
    let file = OpenOptions::new()
        .read(true)
        .write(write)
        .open(path)
        .with_context(|| format!("cannot open the card image {}", path.display()))?;
    Ok(Partition { file, at: 0 })
}

/// Makes a blank card with these files in its root folder; an existing image is replaced.
///
/// # Errors
/// If the file cannot be written.
pub fn create(path: &Path, files: &[(&str, &[u8])]) -> Result<()> {
    let make = || -> Result<()> {
        let mut file = File::create(path)?;
        file.set_len(IMAGE_BYTES)?;
        let sectors = u32::try_from((IMAGE_BYTES - PARTITION) / 512)?;
        let mut table = [0; 512];
        // One partition: FAT32 with block addresses (type 0x0C).
        table[446 + 4] = 0x0C;
        table[446 + 8..446 + 12].copy_from_slice(&((PARTITION / 512) as u32).to_le_bytes());
        table[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
        table[510..].copy_from_slice(&[0x55, 0xAA]);
        file.write_all(&table)?;
        drop(file);
        let options = FormatVolumeOptions::new()
            .fat_type(FatType::Fat32)
            .bytes_per_cluster(CLUSTER)
            .total_sectors(sectors)
            .volume_id(0x5EAD_CF21)
            .volume_label(*b"CRAZYFLIE  ");
        fatfs::format_volume(open(path, true)?, options)?;
        let volume = FileSystem::new(open(path, true)?, FsOptions::new())?;
        for (name, content) in files {
            volume.root_dir().create_file(name)?.write_all(content)?;
        }
        volume.unmount()?;
        Ok(())
    };
    make().with_context(|| format!("cannot make the card image {}", path.display()))
}

/// Leaves so much room on a card: every other free cluster is marked bad, in all copies of the table.
///
/// # Errors
/// If the image has no readable file system.
pub fn leave_room(path: &Path, mib: u32) -> Result<()> {
    const BAD: u32 = 0x0FFF_FFF7;
    let mark = || -> Result<()> {
        let mut card = open(path, true)?;
        let mut boot = [0; 512];
        card.read_exact(&mut boot)?;
        let short = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let (reserved, copies) = (short(14), u64::from(boot[16]));
        let length = u64::from(u32::from_le_bytes([boot[36], boot[37], boot[38], boot[39]])) * 512;
        let mut room = mib * ((1 << 20) / CLUSTER);
        let mut table = vec![0; usize::try_from(length)?];
        card.seek(SeekFrom::Start(reserved * 512))?;
        card.read_exact(&mut table)?;
        for entry in table.chunks_exact_mut(4).filter(|entry| **entry == [0; 4]) {
            match room.checked_sub(1) {
                Some(left) => room = left,
                None => entry.copy_from_slice(&BAD.to_le_bytes()),
            }
        }
        for copy in 0..copies {
            card.seek(SeekFrom::Start(reserved * 512 + copy * length))?;
            card.write_all(&table)?;
        }
        Ok(())
    };
    mark().with_context(|| format!("cannot fill the card image {}", path.display()))
}

/// Name and length of the files in the root folder.
///
/// # Errors
/// If the image has no readable file system.
pub fn list(path: &Path) -> Result<Vec<(String, u64)>> {
    let volume = FileSystem::new(open(path, false)?, FsOptions::new().update_accessed_date(false))
        .with_context(|| format!("{} has no readable file system", path.display()))?;
    let mut files = Vec::new();
    for entry in volume.root_dir().iter() {
        let entry = entry?;
        if entry.is_file() {
            files.push((entry.file_name(), entry.len()));
        }
    }
    // Dropping would write the file system's status; the image was opened for reading only.
    std::mem::forget(volume);
    Ok(files)
}

/// The content of a file in the root folder.
///
/// # Errors
/// If there is no such file or it cannot be read.
pub fn read(path: &Path, name: &str) -> Result<Vec<u8>> {
    let volume = FileSystem::new(open(path, false)?, FsOptions::new().update_accessed_date(false))?;
    let content = (|| -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        volume.root_dir().open_file(name)?.read_to_end(&mut content)?;
        Ok(content)
    })();
    std::mem::forget(volume);
    match content {
        Ok(content) => Ok(content),
        Err(error) => bail!("cannot read {name} on {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_survive_the_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.img");
        create(&path, &[("config.txt", b"1\n")]).unwrap();
        assert_eq!(list(&path).unwrap(), [("config.txt".to_owned(), 2)]);
        assert_eq!(read(&path, "config.txt").unwrap(), b"1\n");
        assert!(read(&path, "log00").is_err());
        // Sparse: a blank card takes little room.
        use std::os::unix::fs::MetadataExt;
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < 8 << 20);
        std::fs::write(&path, b"nonsense").unwrap();
        assert!(list(&path).is_err());
    }

    #[test]
    fn a_card_has_the_room_it_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.img");
        create(&path, &[("config.txt", b"1\n")]).unwrap();
        leave_room(&path, 2).unwrap();
        assert_eq!(read(&path, "config.txt").unwrap(), b"1\n");
        let volume = FileSystem::new(open(&path, true).unwrap(), FsOptions::new()).unwrap();
        let mut file = volume.root_dir().create_file("big").unwrap();
        let written = (0..100).take_while(|_| file.write_all(&[1; CLUSTER as usize]).is_ok()).count();
        assert_eq!(written as u32 * CLUSTER, 2 << 20);
    }
}
