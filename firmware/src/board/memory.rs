//! What the processor's memory says: gain tables, platform, serial number.
//!
//! Own, because the HAL does not know the one-time programmable area, and its flash driver has one owner where
//! two tasks read.

use core::convert::Infallible;
use core::fmt::Write;

use heapless::String;
use steady_common::board::{OTP_BLOCK_SIZE, OTP_BLOCKS};
use steady_common::gain_table::{FLASH_ADDRESS, PAGE_COUNT, PAGE_SIZE, Page, PageSource};

/// Address of the serial number.
const UNIQUE_ID: usize = 0x1FFF_7A10;
/// Address of the one-time programmable area.
const OTP: usize = 0x1FFF_7800;

/// The gain tables, as they lie in flash. Only the bootloader writes them.
pub(crate) struct Tables;

impl PageSource for Tables {
    type Error = Infallible;

    fn read(&mut self, index: usize, page: &mut Page) -> Result<(), Infallible> {
        let address = FLASH_ADDRESS as usize + (index % PAGE_COUNT) * PAGE_SIZE;
        page.copy_from_slice(read_only(address, PAGE_SIZE));
        Ok(())
    }
}

/// Copies bytes of the table area; false when they lie outside.
pub(crate) fn read_tables(offset: usize, into: &mut [u8]) -> bool {
    let area = read_only(FLASH_ADDRESS as usize, PAGE_COUNT * PAGE_SIZE);
    let bytes = offset.checked_add(into.len()).and_then(|end| area.get(offset..end));
    bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
}

/// The processor's 96-bit serial number, as hexadecimal digits.
pub(crate) type Serial = String<24>;

/// The processor's serial number.
pub(crate) fn serial() -> Serial {
    let mut serial = Serial::new();
    for byte in read_only(UNIQUE_ID, 12) {
        // Two digits for each of twelve bytes.
        let _ = write!(serial, "{byte:02X}");
    }
    serial
}

/// The one-time programmable area, which says what board this is.
pub(crate) fn otp() -> &'static [u8] {
    read_only(OTP, OTP_BLOCKS * OTP_BLOCK_SIZE)
}

/// Bytes of a memory that does not change while the firmware runs.
fn read_only(address: usize, length: usize) -> &'static [u8] {
    // SAFETY: the callers' addresses are flash, one-time programmable or factory memory: always
    // readable, and written by nobody while the firmware runs.
    unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), length) }
}
