//! Client of the bootloader, which reads and writes the flash.
//!
//! Loading a buffer has no reply, so buffers are read back before they are written to flash. The caller
//! reads back the flash.

use std::time::Duration;

use steady_common::cload::{
    CHUNK, Chunk, Info, PAGE_SIZE, Reply, Request, SECTOR_FIRST_PAGES, STM32_FLASH_PAGES, Target,
    warm_boot_address,
};
use steady_common::crtp::{Packet, platform};

use crate::ask::{self, Retry};
use crate::error::{Error, Result};
use crate::link::{Link, Peer};

/// For single requests.
const ASK: Retry = Retry::new(60, 4000, 1);
/// For many requests: the bootloader buffers only a few.
const ASK_MANY: Retry = Retry::new(40, 4000, 4);
/// Writing a page takes 4 ms.
const WRITE: Retry = Retry::new(250, 6000, 1);
/// Erasing a large sector takes 1 to 2 s for each of the pages that begin one.
const ERASE: Retry = Retry::new(2500, 13_000, 1);
/// From the reset until the bootloader should have answered.
const ENTERING: Retry = Retry::new(30, 1500, 1);
/// From the reset until the firmware should have answered; the official one takes three seconds.
const LEAVING: Retry = Retry::new(50, 6000, 1);
/// Attempts to reset.
const RESETS: usize = 4;
/// Reset packets per attempt.
const REPEATS: usize = 4;
/// Attempts to load a buffer.
const LOADS: usize = 60;
/// Radio address of a bootloader that was entered with the button.
const COLD_ADDRESS: [u8; 5] = [0xE7; 5];

/// A page.
pub type Page = [u8; PAGE_SIZE];

/// A connection to a drone's bootloader.
pub struct Bootloader<'l> {
    link: &'l mut dyn Link,
    address: [u8; 5],
}

impl std::fmt::Debug for Bootloader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bootloader").field("address", &self.address).finish_non_exhaustive()
    }
}

fn question<T>(
    link: &mut dyn Link,
    what: &str,
    target: Target,
    request: Request,
    retry: Retry,
    mut accept: impl FnMut(Reply) -> Option<T>,
) -> Result<T> {
    let accept = |p: &Packet| match Reply::decode(p) {
        Some((from, reply)) if from == target => accept(reply),
        _ => None,
    };
    ask::one(link, what, &request.encode(target), retry, accept, &mut |_| {})
}

/// Announces a reset; the radio processor answers with its address, whatever the STM32 does.
fn announce(link: &mut dyn Link, retry: Retry) -> Result<[u8; 6]> {
    question(link, "the reset", Target::Nrf51, Request::ResetInit, retry, |reply| match reply {
        Reply::DeviceAddress(address) => Some(address),
        _ => None,
    })
}

/// Carries out the announced reset. It has no reply, so it is sent several times; only the first one
/// after an announcement counts.
fn reset(link: &mut dyn Link, request: Request) -> Result<()> {
    (0..REPEATS).try_for_each(|_| link.send(&request.encode(Target::Nrf51)))
}

fn ask_info(link: &mut dyn Link, retry: Retry) -> Result<Info> {
    question(
        link,
        "the bootloader's description",
        Target::Stm32,
        Request::GetInfo,
        retry,
        |reply| match reply {
            Reply::Info(info) => Some(info),
            _ => None,
        },
    )
}

fn check(info: Info) -> Result<()> {
    let known = Info { cpu_id: info.cpu_id, protocol: info.protocol, ..Info::STM32 };
    if info == known {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "this bootloader is not a Crazyflie 2.x's: {} pages of {} bytes from page {}, {} buffers",
        info.flash_pages, info.page_size, info.start_page, info.buffer_pages
    )))
}

impl<'l> Bootloader<'l> {
    /// Restarts the drone into its bootloader. The radio processor does it, so it works without the
    /// firmware too.
    ///
    /// # Errors
    /// If the drone does not answer, or it is another kind of bootloader.
    pub fn enter(link: &'l mut dyn Link) -> Result<Self> {
        if !link.has_radio_processor() {
            return Err(Error::no_bootloader());
        }
        let mut address = COLD_ADDRESS;
        for attempt in 1..=RESETS {
            match announce(link, ASK) {
                Ok(device) => address = warm_boot_address(device),
                // The first time the firmware must answer; later the drone may be in the bootloader already.
                Err(error) if attempt == 1 => return Err(error),
                Err(_) => {}
            }
            reset(link, Request::ResetToBootloader)?;
            link.switch_to(Peer::Bootloader { address })?;
            match ask_info(link, ENTERING) {
                Ok(info) => {
                    check(info)?;
                    return Ok(Self { link, address });
                }
                Err(Error::NoAnswer { .. }) => link.switch_to(Peer::Firmware)?,
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoAnswer {
            what: "the restart into the bootloader".to_owned(),
            seconds: RESETS as f64 * ENTERING.timeout.as_secs_f64(),
            advice: ": switch the drone off and on; if it stays so, hold its button for 3 s at power-on until the \
                     blue LED blinks slowly, and add --cold"
                .to_owned(),
        })
    }

    /// Connects to a drone that is in its bootloader already, entered with the button.
    ///
    /// # Errors
    /// If the drone does not answer, or it is another kind of bootloader.
    pub fn cold(link: &'l mut dyn Link) -> Result<Self> {
        link.switch_to(Peer::Bootloader { address: COLD_ADDRESS })?;
        let info = ask_info(link, ASK).map_err(|error| match error {
            Error::NoAnswer { what, seconds, .. } => Error::NoAnswer {
                what,
                seconds,
                advice:
                    ": switch the drone off, then hold its button for 3 s until the blue LED blinks slowly"
                        .to_owned(),
            },
            error => error,
        })?;
        check(info)?;
        Ok(Self { link, address: COLD_ADDRESS })
    }

    /// Loads pages into the buffer and verifies them.
    ///
    /// # Errors
    /// If the drone does not answer, or the buffer does not take the bytes.
    pub fn load(&mut self, pages: &[Page]) -> Result<()> {
        (0..).zip(pages).try_for_each(|(number, page)| self.load_page(number, page))
    }

    fn load_page(&mut self, page: u16, bytes: &Page) -> Result<()> {
        let chunks: Vec<(u16, Chunk)> = (0..)
            .step_by(CHUNK)
            .zip(bytes.chunks(CHUNK))
            .filter_map(|(at, b)| Some((at, Chunk::new(b)?)))
            .collect();
        let mut missing = chunks;
        for _ in 0..LOADS {
            for &(offset, data) in &missing {
                self.link.send(&Request::LoadBuffer { page, offset, data }.encode(Target::Stm32))?;
            }
            let request = |n: usize| {
                let offset = missing.get(n).map_or(0, |(offset, _)| *offset);
                Request::ReadBuffer { page, offset }.encode(Target::Stm32)
            };
            let accept = |p: &Packet| match Reply::decode(p) {
                Some((Target::Stm32, Reply::Buffer { page: from, offset, data })) if from == page => {
                    Some((missing.iter().position(|(at, _)| *at == offset)?, data))
                }
                _ => None,
            };
            let (what, count) = ("the bootloader's buffer", missing.len());
            let read =
                ask::many(self.link, what, count, ASK_MANY, request, accept, &mut |_| {}, &mut |_| {})?;
            let is_there = |wanted: &Chunk, found: &Chunk| {
                found.bytes().get(..wanted.bytes().len()) == Some(wanted.bytes())
            };
            missing = missing
                .iter()
                .zip(&read)
                .filter(|((_, wanted), found)| !is_there(wanted, found))
                .map(|(chunk, _)| *chunk)
                .collect();
            if missing.is_empty() {
                return Ok(());
            }
        }
        let count = missing.len();
        Err(Error::Verification(format!(
            "the bootloader's buffer does not take {count} chunks of page {page}"
        )))
    }

    /// Writes the buffer's first pages into flash. A page that begins a sector erases it first.
    ///
    /// # Errors
    /// If the drone does not answer, or the bootloader reports an error.
    pub fn write(&mut self, flash_page: u16, count: u16) -> Result<()> {
        let pages = flash_page..flash_page.saturating_add(count);
        let erases = SECTOR_FIRST_PAGES.iter().any(|first| pages.contains(first));
        let retry = if erases { ERASE } else { WRITE };
        // Replies to earlier writes must not be mistaken for the reply to this one.
        while self.link.receive(Duration::ZERO)?.is_some() {}
        let request = Request::WriteFlash { buffer_page: 0, flash_page, count };
        let (done, error) =
            question(self.link, "writing the flash", Target::Stm32, request, retry, |reply| match reply {
                Reply::Written { done, error } => Some((done, error)),
                _ => None,
            })?;
        if done && error == 0 {
            return Ok(());
        }
        let why = match error {
            1 => "the page is not allowed",
            2 => "erasing failed",
            3 => "programming failed",
            _ => "unknown",
        };
        Err(Error::Verification(format!(
            "the bootloader cannot write page {flash_page}: error {error}, {why}"
        )))
    }

    /// Reads parts of the flash: offset from its beginning and length each.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn read(
        &mut self,
        parts: &[(usize, usize)],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Vec<u8>>> {
        let mut chunks: Vec<(usize, usize)> = Vec::new();
        for &(start, length) in parts {
            chunks.extend((0..length).step_by(CHUNK).map(|at| (start + at, (length - at).min(CHUNK))));
        }
        let index: std::collections::HashMap<usize, usize> =
            chunks.iter().enumerate().map(|(n, (start, _))| (*start, n)).collect();
        let request = |n: usize| {
            let start = chunks.get(n).map_or(0, |(start, _)| *start);
            let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
            Request::ReadFlash { page: number(start / PAGE_SIZE), offset: number(start % PAGE_SIZE) }
                .encode(Target::Stm32)
        };
        let accept = |p: &Packet| match Reply::decode(p) {
            Some((Target::Stm32, Reply::Flash { page, offset, data })) => {
                let n = *index.get(&(usize::from(page) * PAGE_SIZE + usize::from(offset)))?;
                (data.bytes().len() >= chunks.get(n)?.1).then_some((n, data))
            }
            _ => None,
        };
        let total = chunks.len();
        let answers =
            ask::many(self.link, "the flash", total, ASK_MANY, request, accept, &mut |_| {}, &mut |done| {
                progress(done, total)
            })?;
        let mut read = answers.iter().zip(&chunks);
        Ok(parts
            .iter()
            .map(|(_, length)| {
                let chunks = read.by_ref().take(length.div_ceil(CHUNK));
                chunks.flat_map(|(data, (_, size))| data.bytes().iter().take(*size).copied()).collect()
            })
            .collect())
    }

    /// One page of the flash.
    ///
    /// # Errors
    /// If the drone does not answer.
    pub fn read_page(&mut self, page: u16) -> Result<Page> {
        debug_assert!(page < STM32_FLASH_PAGES);
        let parts = self.read(&[(usize::from(page) * PAGE_SIZE, PAGE_SIZE)], &mut |_, _| {})?;
        let bytes = parts.into_iter().next().unwrap_or_default();
        bytes.try_into().map_err(|_| Error::invalid_reply("a page", "another length"))
    }

    /// Restarts the drone into its firmware, and waits until the firmware answers.
    ///
    /// # Errors
    /// If the firmware does not answer.
    pub fn leave(self) -> Result<()> {
        let Self { link, address } = self;
        let protocol = platform::Request::ProtocolVersion.encode();
        let mut is_heard = false;
        for _ in 0..RESETS {
            if announce(link, ASK.with_timeout(Duration::from_millis(1500))).is_ok() {
                is_heard = true;
                reset(link, Request::ResetToFirmware)?;
            }
            link.switch_to(Peer::Firmware)?;
            let accept = |p: &Packet| match platform::Reply::decode(p) {
                Ok(platform::Reply::ProtocolVersion(_)) => Some(()),
                _ => None,
            };
            match ask::one(link, "the firmware", &protocol, LEAVING, accept, &mut |_| {}) {
                Ok(()) => return Ok(()),
                Err(Error::NoAnswer { .. }) => link.switch_to(Peer::Bootloader { address })?,
                Err(error) => return Err(error),
            }
        }
        link.switch_to(Peer::Firmware)?;
        Err(Error::NoAnswer {
            what: if is_heard { "the restart into the firmware" } else { "anything at all" }.to_owned(),
            seconds: RESETS as f64 * LEAVING.timeout.as_secs_f64(),
            advice: String::new(),
        })
    }
}
