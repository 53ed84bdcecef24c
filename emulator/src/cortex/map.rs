//! Where things are in the address space of the STM32F405.

/// Flash.
pub const FLASH: u32 = 0x0800_0000;
/// Length of the flash: 1 MiB.
pub const FLASH_LEN: usize = 1024 * 1024;
/// The flash once more: what the chip boots from is at address 0 too.
pub const FLASH_ALIAS: u32 = 0;
/// SRAM.
pub const SRAM: u32 = 0x2000_0000;
/// Length of the SRAM: 128 KiB.
pub const SRAM_LEN: usize = 128 * 1024;
/// Core-coupled memory.
pub const CCM: u32 = 0x1000_0000;
/// Length of the core-coupled memory: 64 KiB.
pub const CCM_LEN: usize = 64 * 1024;
/// System memory: ROM, one-time programmable area, unique id.
pub const SYSTEM: u32 = 0x1FFF_0000;
/// Length of the system memory.
pub const SYSTEM_LEN: usize = 64 * 1024;

/// Bits of the SRAM as words.
pub const SRAM_BITS: u32 = 0x2200_0000;
/// Registers of the chip, and their bits as words from 0x4200_0000.
pub const PERIPHERALS: u32 = 0x4000_0000;
/// Registers of the core.
pub const CORE: u32 = 0xE000_0000;
/// The ranges of registers.
pub const REGISTERS: [(u32, u64); 3] =
    [(PERIPHERALS, 0x2000_0000), (SRAM_BITS, 0x0200_0000), (CORE, 0x0010_0000)];

/// Where there is neither data memory nor a register; flash is among it, because it cannot be stored to.
pub const NOT_MEMORY: [(u64, u64); 6] = [
    (0, CCM as u64 - 1),
    (CCM as u64 + CCM_LEN as u64, SRAM as u64 - 1),
    (SRAM as u64 + SRAM_LEN as u64, SRAM_BITS as u64 - 1),
    (0x2400_0000, PERIPHERALS as u64 - 1),
    (0x6000_0000, CORE as u64 - 1),
    (0xE010_0000, 0xFFFF_FFFF),
];

/// Where the firmware begins: after the bootloader's sector.
pub const FIRMWARE: u32 = 0x0800_4000;
/// One-time programmable area: 16 blocks of 32 bytes.
pub const OTP: u32 = 0x1FFF_7800;
/// 96-bit unique id.
pub const UNIQUE_ID: u32 = 0x1FFF_7A10;
/// Flash size in KiB.
pub const FLASH_SIZE: u32 = 0x1FFF_7A22;
