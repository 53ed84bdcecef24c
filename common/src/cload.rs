//! The radio bootloader's protocol ("cload"), for the flashing program and the emulated bootloader.
//!
//! Every packet is `FF target command …`; the first byte is a CRTP null header, so a packet is a
//! [`Packet`] like any other. The STM32's bootloader sits behind the nRF51's, which forwards what is
//! addressed to [`Target::Stm32`].

use crate::bytes::Reader;
use crate::crtp::{Builder, Packet};

const HEADER: u8 = 0xFF;
/// Bytes of a buffer or of flash in one packet.
pub const CHUNK: usize = 25;
/// Bytes in a page.
pub const PAGE_SIZE: usize = 1024;
/// Flash pages that begin an erase sector of the STM32F405: writing one erases its whole sector,
/// writing any other erases nothing.
pub const SECTOR_FIRST_PAGES: [u16; 12] = [0, 16, 32, 48, 64, 128, 256, 384, 512, 640, 768, 896];
/// Flash pages of the STM32.
pub const STM32_FLASH_PAGES: u16 = 1024;
/// First flash page of the STM32's firmware; the pages before hold the bootloader.
pub const STM32_START_PAGE: u16 = 16;
/// Buffer pages of the STM32's bootloader.
pub const STM32_BUFFER_PAGES: u16 = 10;

/// A processor of the drone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Target {
    /// The flight processor's bootloader.
    Stm32 = 0xFF,
    /// The radio processor: its bootloader, or its firmware for resets and power.
    Nrf51 = 0xFE,
}

impl Target {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Stm32, Self::Nrf51].into_iter().find(|t| *t as u8 == byte)
    }
}

/// Up to [`CHUNK`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    bytes: [u8; CHUNK],
    length: u8,
}

impl Chunk {
    /// From a slice; `None` when it is too long.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut chunk = Self { bytes: [0; CHUNK], length: u8::try_from(bytes.len()).ok()? };
        chunk.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(chunk)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// Request to a bootloader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Page size, buffers, flash size.
    GetInfo,
    /// Sizes of the erase sectors.
    GetMapping,
    /// Bytes into a buffer page. Not answered.
    LoadBuffer {
        /// Buffer page.
        page: u16,
        /// First byte in it.
        offset: u16,
        /// The bytes.
        data: Chunk,
    },
    /// Bytes of a buffer page.
    ReadBuffer {
        /// Buffer page.
        page: u16,
        /// First byte in it.
        offset: u16,
    },
    /// Buffer pages into flash.
    WriteFlash {
        /// First buffer page.
        buffer_page: u16,
        /// First flash page.
        flash_page: u16,
        /// Number of pages.
        count: u16,
    },
    /// Bytes of flash.
    ReadFlash {
        /// Flash page.
        page: u16,
        /// First byte in it.
        offset: u16,
    },
    /// Announces a reset and asks for the radio address of the bootloader (nRF51).
    ResetInit,
    /// Restarts into the bootloader (nRF51; needs [`Request::ResetInit`] before).
    ResetToBootloader,
    /// Restarts into the firmware (nRF51).
    ResetToFirmware,
    /// Everything off (nRF51 firmware).
    AllOff,
    /// The STM32 off (nRF51 firmware).
    Stm32Off,
    /// The STM32 on (nRF51 firmware).
    Stm32On,
    /// Battery voltage (nRF51 firmware).
    GetVoltage,
}

/// Reply of a bootloader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply {
    /// To [`Request::GetInfo`].
    Info(Info),
    /// To [`Request::GetMapping`]: sectors as pairs of count and pages per sector, zero filled.
    Mapping([(u8, u8); 8]),
    /// To [`Request::ReadBuffer`].
    Buffer {
        /// Buffer page.
        page: u16,
        /// First byte in it.
        offset: u16,
        /// The bytes.
        data: Chunk,
    },
    /// To [`Request::WriteFlash`].
    Written {
        /// It was done.
        done: bool,
        /// 0 none, 1 out of range, 2 erasing failed, 3 programming failed.
        error: u8,
    },
    /// To [`Request::ReadFlash`].
    Flash {
        /// Flash page.
        page: u16,
        /// First byte in it.
        offset: u16,
        /// The bytes.
        data: Chunk,
    },
    /// To [`Request::ResetInit`]: the nRF51's device address.
    DeviceAddress([u8; 6]),
    /// To [`Request::GetVoltage`], V.
    Voltage(f32),
}

/// Description of a bootloader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes in a page.
    pub page_size: u16,
    /// Pages of the buffer.
    pub buffer_pages: u16,
    /// Pages of the flash.
    pub flash_pages: u16,
    /// First page that may be written.
    pub start_page: u16,
    /// Processor id; garbage on the STM32.
    pub cpu_id: [u8; 12],
    /// Protocol version, 0x10.
    pub protocol: u8,
}

impl Info {
    /// Description of the STM32's bootloader.
    pub const STM32: Self = Self {
        page_size: 1024,
        buffer_pages: STM32_BUFFER_PAGES,
        flash_pages: STM32_FLASH_PAGES,
        start_page: STM32_START_PAGE,
        cpu_id: [0; 12],
        protocol: 0x10,
    };
    /// Description of the nRF51's bootloader.
    pub const NRF51: Self =
        Self { page_size: 1024, buffer_pages: 1, flash_pages: 232, start_page: 108, ..Self::STM32 };
}

/// The STM32's answer to [`Request::GetMapping`].
pub const STM32_MAPPING: [(u8, u8); 8] = [(4, 16), (1, 64), (7, 128), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)];

/// Radio address of the bootloader after a warm boot, from the answer to [`Request::ResetInit`].
#[must_use]
pub fn warm_boot_address([a, b, c, d, ..]: [u8; 6]) -> [u8; 5] {
    [0xB1, d, c, b, a]
}

impl Request {
    const fn command(&self) -> u8 {
        match self {
            Self::AllOff => 0x01,
            Self::Stm32Off => 0x02,
            Self::Stm32On => 0x03,
            Self::GetVoltage => 0x04,
            Self::GetInfo => 0x10,
            Self::GetMapping => 0x12,
            Self::LoadBuffer { .. } => 0x14,
            Self::ReadBuffer { .. } => 0x15,
            Self::WriteFlash { .. } => 0x18,
            Self::ReadFlash { .. } => 0x1C,
            Self::ResetToBootloader | Self::ResetToFirmware => 0xF0,
            Self::ResetInit => 0xFF,
        }
    }

    /// The packet of this request.
    #[must_use]
    pub fn encode(&self, target: Target) -> Packet {
        let mut b = start(target, self.command());
        match self {
            Self::LoadBuffer { page, offset, data } => {
                b.u16(*page).u16(*offset).put(data.bytes());
            }
            Self::ReadBuffer { page, offset } | Self::ReadFlash { page, offset } => {
                b.u16(*page).u16(*offset);
            }
            Self::WriteFlash { buffer_page, flash_page, count } => {
                b.u16(*buffer_page).u16(*flash_page).u16(*count);
            }
            Self::ResetToBootloader => {
                b.put(&[0]);
            }
            Self::ResetToFirmware => {
                b.put(&[1]);
            }
            _ => {}
        }
        b.packet()
    }

    /// Decodes a packet; `None` when it is not a request of the bootloader protocol.
    #[must_use]
    pub fn decode(packet: &Packet) -> Option<(Target, Self)> {
        let (target, command, mut r) = open(packet)?;
        let request = match command {
            0x01 => Self::AllOff,
            0x02 => Self::Stm32Off,
            0x03 => Self::Stm32On,
            0x04 => Self::GetVoltage,
            0x10 => Self::GetInfo,
            0x12 => Self::GetMapping,
            0x14 => Self::LoadBuffer { page: r.u16()?, offset: r.u16()?, data: Chunk::new(r.rest())? },
            0x15 => Self::ReadBuffer { page: r.u16()?, offset: r.u16()? },
            0x18 => Self::WriteFlash { buffer_page: r.u16()?, flash_page: r.u16()?, count: r.u16()? },
            0x1C => Self::ReadFlash { page: r.u16()?, offset: r.u16()? },
            0xF0 => match r.u8()? {
                0 => Self::ResetToBootloader,
                1 => Self::ResetToFirmware,
                _ => return None,
            },
            0xFF => Self::ResetInit,
            _ => return None,
        };
        Some((target, request))
    }
}

impl Reply {
    const fn command(&self) -> u8 {
        match self {
            Self::Voltage(_) => 0x04,
            Self::Info(_) => 0x10,
            Self::Mapping(_) => 0x12,
            Self::Buffer { .. } => 0x15,
            Self::Written { .. } => 0x18,
            Self::Flash { .. } => 0x1C,
            Self::DeviceAddress(_) => 0xFF,
        }
    }

    /// The packet of this answer.
    #[must_use]
    pub fn encode(&self, target: Target) -> Packet {
        let mut b = start(target, self.command());
        match self {
            Self::Info(info) => {
                b.u16(info.page_size)
                    .u16(info.buffer_pages)
                    .u16(info.flash_pages)
                    .u16(info.start_page)
                    .put(&info.cpu_id)
                    .put(&[info.protocol]);
            }
            Self::Mapping(sectors) => {
                for (count, pages) in sectors.iter().filter(|(count, _)| *count > 0) {
                    b.put(&[*count, *pages]);
                }
            }
            Self::Buffer { page, offset, data } | Self::Flash { page, offset, data } => {
                b.u16(*page).u16(*offset).put(data.bytes());
            }
            Self::Written { done, error } => {
                b.put(&[u8::from(*done), *error]);
            }
            Self::DeviceAddress(address) => {
                b.put(address);
            }
            Self::Voltage(volts) => {
                b.f32(*volts);
            }
        }
        b.packet()
    }

    /// Decodes a packet; `None` when it is not an answer of the bootloader protocol.
    #[must_use]
    pub fn decode(packet: &Packet) -> Option<(Target, Self)> {
        let (target, command, mut r) = open(packet)?;
        let reply = match command {
            0x04 => Self::Voltage(r.f32()?),
            0x10 => Self::Info(Info {
                page_size: r.u16()?,
                buffer_pages: r.u16()?,
                flash_pages: r.u16()?,
                start_page: r.u16()?,
                cpu_id: r.array()?,
                protocol: r.u8()?,
            }),
            0x12 => {
                let mut sectors = [(0, 0); 8];
                for sector in &mut sectors {
                    let Some([count, pages]) = r.array() else { break };
                    *sector = (count, pages);
                }
                Self::Mapping(sectors)
            }
            0x15 => Self::Buffer { page: r.u16()?, offset: r.u16()?, data: Chunk::new(r.rest())? },
            0x18 => Self::Written { done: r.u8()? != 0, error: r.u8()? },
            0x1C => Self::Flash { page: r.u16()?, offset: r.u16()?, data: Chunk::new(r.rest())? },
            0xFF => Self::DeviceAddress(r.array()?),
            _ => return None,
        };
        Some((target, reply))
    }
}

fn start(target: Target, command: u8) -> Builder {
    let mut b = Builder::with_header(HEADER, Packet::MAX_BYTES);
    b.put(&[target as u8, command]);
    b
}

fn open(packet: &Packet) -> Option<(Target, u8, Reader<'_>)> {
    let mut r = Reader::new(packet.data());
    let (target, command) = (Target::from_byte(r.u8()?)?, r.u8()?);
    packet.is_null().then_some((target, command, r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_packets() {
        let bytes = |r: Request, t| r.encode(t).bytes().to_vec();
        assert_eq!(bytes(Request::GetInfo, Target::Stm32), [0xFF, 0xFF, 0x10]);
        assert_eq!(bytes(Request::ResetInit, Target::Nrf51), [0xFF, 0xFE, 0xFF]);
        assert_eq!(bytes(Request::ResetToFirmware, Target::Nrf51), [0xFF, 0xFE, 0xF0, 1]);
        let data = Chunk::new(&[7; CHUNK]).unwrap();
        let load = Request::LoadBuffer { page: 3, offset: 1000, data };
        assert_eq!(load.encode(Target::Stm32).bytes().len(), 32);
        assert_eq!(
            Reply::Written { done: true, error: 0 }.encode(Target::Stm32).bytes(),
            [0xFF, 0xFF, 0x18, 1, 0]
        );
        assert_eq!(warm_boot_address([1, 2, 3, 4, 5, 6]), [0xB1, 4, 3, 2, 1]);
    }

    fn chunk() -> impl Strategy<Value = Chunk> {
        prop::collection::vec(any::<u8>(), 0..=CHUNK).prop_map(|v| Chunk::new(&v).unwrap())
    }

    fn request() -> impl Strategy<Value = Request> {
        let (a, b, c) = (any::<u16>(), any::<u16>(), any::<u16>());
        (0..13, a, b, c, chunk()).prop_map(|(kind, page, offset, count, data)| match kind {
            0 => Request::GetInfo,
            1 => Request::GetMapping,
            2 => Request::LoadBuffer { page, offset, data },
            3 => Request::ReadBuffer { page, offset },
            4 => Request::WriteFlash { buffer_page: page, flash_page: offset, count },
            5 => Request::ReadFlash { page, offset },
            6 => Request::ResetInit,
            7 => Request::ResetToBootloader,
            8 => Request::ResetToFirmware,
            9 => Request::AllOff,
            10 => Request::Stm32Off,
            11 => Request::Stm32On,
            _ => Request::GetVoltage,
        })
    }

    fn reply() -> impl Strategy<Value = Reply> {
        (0..7, any::<u16>(), any::<u16>(), any::<[u8; 6]>(), chunk(), 0.0_f32..6.0).prop_map(
            |(kind, page, offset, address, data, volts)| match kind {
                0 => Reply::Info(Info { start_page: page, ..Info::STM32 }),
                1 => Reply::Mapping(STM32_MAPPING),
                2 => Reply::Buffer { page, offset, data },
                3 => Reply::Written { done: page & 1 != 0, error: address[0] },
                4 => Reply::Flash { page, offset, data },
                5 => Reply::DeviceAddress(address),
                _ => Reply::Voltage(volts),
            },
        )
    }

    proptest! {
        #[test]
        fn requests_survive_the_round_trip(request in request(), stm in any::<bool>()) {
            let target = if stm { Target::Stm32 } else { Target::Nrf51 };
            prop_assert_eq!(Request::decode(&request.encode(target)), Some((target, request)));
        }

        #[test]
        fn replies_survive_the_round_trip(reply in reply()) {
            let packet = reply.encode(Target::Nrf51);
            prop_assert_eq!(Reply::decode(&packet), Some((Target::Nrf51, reply)));
        }

        #[test]
        fn anything_is_survived(bytes in prop::collection::vec(any::<u8>(), 1..=32)) {
            let packet = Packet::from_bytes(&bytes).unwrap();
            let _ = (Request::decode(&packet), Reply::decode(&packet));
        }
    }
}
