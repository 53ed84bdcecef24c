//! Firmware images: ELF files with their symbols, or plain binaries.

use std::path::Path;

use anyhow::{Context, Result, bail};
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSymbol, SymbolKind};

use crate::cortex::map;

/// A firmware image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file's bytes: defmt's texts are in there.
    pub file: Vec<u8>,
    /// What goes into flash: address and bytes.
    pub segments: Vec<(u32, Vec<u8>)>,
    /// Functions by address: start, length, name.
    functions: Vec<(u32, u32, String)>,
    /// Control block of the trace output, if there is one.
    pub rtt: Option<u32>,
    /// True for ELF files.
    pub is_elf: bool,
}

impl Image {
    /// Reads an ELF file, or takes any other file as a binary for the firmware's place in flash.
    ///
    /// # Errors
    /// If the file cannot be read or does not fit into flash.
    pub fn load(path: &Path) -> Result<Self> {
        let file =
            std::fs::read(path).with_context(|| format!("cannot read the firmware {}", path.display()))?;
        Self::parse(file).with_context(|| format!("{} is no firmware for the Crazyflie", path.display()))
    }

    /// As [`Self::load`], from bytes.
    ///
    /// # Errors
    /// If the bytes do not fit into flash.
    pub fn parse(file: Vec<u8>) -> Result<Self> {
        let mut image = Self { segments: Vec::new(), functions: Vec::new(), rtt: None, is_elf: false, file };
        if image.file.starts_with(b"\x7FELF") {
            image.is_elf = true;
            image.parse_elf()?;
        } else {
            image.segments.push((map::FIRMWARE, image.file.clone()));
        }
        for (address, bytes) in &image.segments {
            let end = u64::from(*address) + bytes.len() as u64;
            if *address < map::FLASH || end > u64::from(map::FLASH) + map::FLASH_LEN as u64 {
                bail!("a part for {address:#010x} with {} bytes does not fit into flash", bytes.len());
            }
        }
        if image.vectors().is_none() {
            bail!("there is no vector table at {:#010x}", map::FIRMWARE);
        }
        Ok(image)
    }

    fn parse_elf(&mut self) -> Result<()> {
        let elf = object::read::elf::ElfFile32::<object::Endianness>::parse(&*self.file)?;
        for header in elf.elf_program_headers() {
            let endian = object::Endianness::Little;
            let data = header.data(endian, &*self.file).ok().unwrap_or_default();
            let address = header.p_paddr.get(endian);
            // Nothing brings what is meant for RAM there: no flasher writes it, the image does not copy it.
            let is_ram = [(map::SRAM, map::SRAM_LEN), (map::CCM, map::CCM_LEN)]
                .into_iter()
                .any(|(base, len)| address.wrapping_sub(base) < len as u32);
            if header.p_type.get(endian) == object::elf::PT_LOAD && !data.is_empty() && !is_ram {
                self.segments.push((address, data.to_vec()));
            }
        }
        for symbol in elf.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if name == "_SEGGER_RTT" {
                self.rtt = Some(symbol.address() as u32);
            }
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                let name = format!("{:#}", rustc_demangle::demangle(name));
                self.functions.push((symbol.address() as u32 & !1, symbol.size() as u32, name));
            }
        }
        self.functions.sort();
        Ok(())
    }

    /// True for an image of the Steady firmware.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let name = steady_common::gain_table::PROVEN_KEY.as_bytes();
        self.segments.iter().any(|(_, bytes)| bytes.windows(name.len()).any(|window| window == name))
    }

    /// Initial stack pointer and entry point.
    #[must_use]
    pub fn vectors(&self) -> Option<(u32, u32)> {
        let word = |address: u32| {
            self.segments.iter().find_map(|(start, bytes)| {
                let offset = address.checked_sub(*start)? as usize;
                bytes.get(offset..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
            })
        };
        Some((word(map::FIRMWARE)?, word(map::FIRMWARE + 4)?))
    }

    /// Puts the image into flash.
    pub fn write(&self, flash: &mut [u8]) {
        for (address, bytes) in &self.segments {
            let offset = (address - map::FLASH) as usize;
            flash[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The function at an address, with the offset into it.
    #[must_use]
    pub fn function(&self, address: u32) -> Option<(&str, u32)> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, len, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < *len).then_some((name, address - start))
    }

    /// Where the function of this name begins.
    #[must_use]
    pub fn address_of(&self, function: &str) -> Option<u32> {
        self.functions.iter().find(|(_, _, name)| name == function).map(|(start, ..)| *start)
    }

    /// An address as a person wants to read it.
    #[must_use]
    pub fn place(&self, address: u32) -> String {
        match self.function(address) {
            Some((name, offset)) => format!("{address:#010x} ({name}+{offset:#x})"),
            None => format!("{address:#010x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_goes_to_the_firmwares_place_and_must_fit() {
        let image = Image::parse(vec![1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        assert_eq!(image.vectors(), Some((1, 2)));
        assert!(Image::parse(vec![0; 4]).is_err());
        assert!(Image::parse(vec![0; 1 << 20]).is_err());
    }
}
