//! Firmware images, ours or anybody's: ELF files with their symbols, plain binaries, or packages.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSymbol, SymbolKind};
use steady_radio::firmware::is_steady;

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
    /// Reads an ELF file, a package (.zip) as the official client flashes it, or a binary for the firmware's
    /// place in flash.
    ///
    /// # Errors
    /// If the file cannot be read or does not fit into flash.
    pub fn load(path: &Path) -> Result<Self> {
        let mut file =
            std::fs::read(path).with_context(|| format!("cannot read the firmware {}", path.display()))?;
        if file.starts_with(b"PK") {
            file = steady_radio::firmware::Image::load(path)?.bytes().to_vec();
        }
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
            ensure!(
                *address >= map::FLASH && end <= u64::from(map::FLASH) + map::FLASH_LEN as u64,
                "its {} bytes for {address:#010x} do not fit into the 1 MiB of flash at {:#010x}: was it built for \
                 another chip?",
                bytes.len(),
                map::FLASH
            );
        }
        let from = image.segments.iter().map(|(address, _)| *address).min().unwrap_or(0);
        let Some((stack, entry)) = image.vectors() else {
            bail!(
                "it has no vector table at {:#010x}, where the Crazyflie's bootloader looks for it (it begins at \
                 {from:#010x}): link it for that address",
                map::FIRMWARE
            );
        };
        let is_stack = [(map::SRAM, map::SRAM_LEN), (map::CCM, map::CCM_LEN)]
            .into_iter()
            .any(|(base, len)| stack > base && stack - base <= len as u32);
        let is_code = entry & 1 != 0 && image.byte(entry & !1).is_some();
        ensure!(
            is_stack && is_code,
            "its vector table at {:#010x} begins with {stack:#010x} and {entry:#010x}, not with the end of a stack in \
             RAM and the address of code (which is odd): give an ELF file, a package, or a binary for that address",
            map::FIRMWARE
        );
        Ok(image)
    }

    fn parse_elf(&mut self) -> Result<()> {
        // Class, byte order and machine, before the file is read as what it may not be.
        match (self.file.get(4), self.file.get(5), self.file.get(18..20)) {
            (Some(1), Some(1), Some([40, 0])) => {}
            _ => bail!(
                "it is an ELF file for another processor, not for 32-bit ARM: give the one built for the drone"
            ),
        }
        let elf = object::read::elf::ElfFile32::<object::Endianness>::parse(&*self.file)
            .context("the ELF file is damaged")?;
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
        self.segments.iter().any(|(_, bytes)| is_steady(bytes))
    }

    /// Initial stack pointer and entry point.
    #[must_use]
    pub fn vectors(&self) -> Option<(u32, u32)> {
        let word = |address: u32| {
            let bytes = [0, 1, 2, 3].map(|i| self.byte(address + i));
            bytes.iter().rev().try_fold(0, |word, byte| Some(word << 8 | u32::from((*byte)?)))
        };
        Some((word(map::FIRMWARE)?, word(map::FIRMWARE + 4)?))
    }

    /// The byte that it puts at an address.
    fn byte(&self, address: u32) -> Option<u8> {
        self.segments.iter().find_map(|(start, bytes)| {
            address.checked_sub(*start).and_then(|offset| bytes.get(offset as usize)).copied()
        })
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

    /// A vector table and an endless loop.
    fn binary(stack: u32, entry: u32) -> Vec<u8> {
        [stack, entry, 0xE7FE].iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
    }

    fn refused(file: Vec<u8>) -> String {
        format!("{:#}", Image::parse(file).unwrap_err())
    }

    #[test]
    fn a_binary_goes_to_the_firmwares_place() {
        let image = Image::parse(binary(0x2002_0000, map::FIRMWARE + 9)).unwrap();
        assert_eq!(image.vectors(), Some((0x2002_0000, map::FIRMWARE + 9)));
        // As the official firmware has it.
        assert!(Image::parse(binary(0x2001_FFFF, map::FIRMWARE + 9)).is_ok());
        assert!(!image.is_ours() && !image.is_elf);
    }

    #[test]
    fn what_is_no_image_is_refused_by_name() {
        assert!(refused(vec![0; 4]).contains("no vector table"));
        assert!(refused(vec![0; 1 << 20]).contains("do not fit into the 1 MiB of flash"));
        assert!(refused(b"hello, this is a text".to_vec()).contains("not with the end of a stack"));
        assert!(refused(binary(0x2002_0000, map::FIRMWARE + 8)).contains("which is odd"));
        assert!(refused(binary(0x2002_0000, 0x0800_0201)).contains("address of code"));
    }

    /// An ELF file with one segment.
    fn elf(machine: u8, class: u8, address: u32, content: &[u8]) -> Vec<u8> {
        let mut file = vec![0x7F, b'E', b'L', b'F', class, 1, 1];
        file.resize(16, 0);
        file.extend([2, 0, machine, 0, 1, 0, 0, 0]);
        // Entry, program headers, section headers, flags; sizes and counts.
        file.extend([0_u32, 52, 0, 0].iter().flat_map(|w| w.to_le_bytes()));
        file.extend([52_u16, 32, 1, 40, 0, 0].iter().flat_map(|h| h.to_le_bytes()));
        let len = content.len() as u32;
        let header = [1, 84, address, address, len, len, 5, 4];
        file.extend(header.iter().flat_map(|w: &u32| w.to_le_bytes()));
        file.extend(content);
        file
    }

    #[test]
    fn an_elf_file_for_something_else_is_refused_by_name() {
        let good = binary(0x2002_0000, map::FIRMWARE + 9);
        assert_eq!(Image::parse(elf(40, 1, map::FIRMWARE, &good)).unwrap().segments.len(), 1);
        assert!(refused(elf(62, 1, map::FIRMWARE, &good)).contains("another processor"));
        assert!(refused(elf(40, 2, map::FIRMWARE, &good)).contains("another processor"));
        assert!(refused(elf(40, 1, map::FLASH, &good)).contains("link it for that address"));
        assert!(refused(elf(40, 1, 0x0001_B000, &good)).contains("another chip"));
        assert!(refused(b"\x7FELF".to_vec()).contains("another processor"));
        let mut torn = elf(40, 1, map::FIRMWARE, &good);
        torn.truncate(60);
        assert!(Image::parse(torn).is_err());
    }

    #[test]
    fn what_an_elf_file_has_for_ram_is_left_out() {
        let mut file = elf(40, 1, map::FIRMWARE, &binary(0x2002_0000, map::FIRMWARE + 9));
        let ram = elf(40, 1, map::SRAM, &[1; 12]);
        // A second header after the first, and both contents moved by its length.
        file.splice(84..84, ram[52..84].iter().copied());
        file[44] = 2;
        file[56] += 32;
        file[84 + 4] += 32;
        assert_eq!(Image::parse(file).unwrap().segments.len(), 1);
    }
}
