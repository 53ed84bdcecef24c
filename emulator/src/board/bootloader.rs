//! The STM32's radio bootloader: what it answers, how long it takes, what it does to the flash.
//!
//! It runs instead of the firmware, so it is a model of behaviour, not of instructions.

use steady_common::cload::{
    CHUNK, Chunk, Info, PAGE_SIZE, Reply, Request, SECTOR_FIRST_PAGES, STM32_BUFFER_PAGES, STM32_FLASH_PAGES,
    STM32_MAPPING, STM32_START_PAGE, Target,
};
use steady_common::crtp::Packet;

use crate::chip::flash;

const BUFFER: usize = STM32_BUFFER_PAGES as usize * PAGE_SIZE;

/// The bootloader's state.
#[derive(Debug)]
pub struct Bootloader {
    buffer: Box<[u8]>,
    /// The answer that the next poll takes away, not before a time.
    answer: Option<(u64, Packet)>,
    /// Interrupts are off until then: packets are lost.
    busy_until: u64,
    /// The flash was written.
    pub has_written: bool,
    /// A programming error that the next write reports (a fault).
    pub fails_next_write: bool,
}

impl Default for Bootloader {
    fn default() -> Self {
        Self {
            buffer: vec![0; BUFFER].into_boxed_slice(),
            answer: None,
            busy_until: 0,
            has_written: false,
            fails_next_write: false,
        }
    }
}

impl Bootloader {
    /// A packet arrives; an earlier answer goes back.
    pub fn packet(&mut self, packet: &Packet, flash: &mut [u8], now: u64) -> Option<Packet> {
        let answer = self.answer.take_if(|(at, _)| *at <= now).map(|(_, packet)| packet);
        if now >= self.busy_until
            && let Some((Target::Stm32, request)) = Request::decode(packet)
            && let Some(reply) = self.handle(request, flash, now)
        {
            self.answer = Some((self.busy_until.max(now + 1), reply.encode(Target::Stm32)));
        }
        answer
    }

    fn handle(&mut self, request: Request, flash: &mut [u8], now: u64) -> Option<Reply> {
        Some(match request {
            Request::GetInfo => Reply::Info(Info::STM32),
            Request::GetMapping => Reply::Mapping(STM32_MAPPING),
            Request::LoadBuffer { page, offset, data } => {
                let start = usize::from(page) * PAGE_SIZE + usize::from(offset);
                for (place, byte) in self.buffer.iter_mut().skip(start).zip(data.bytes()) {
                    *place = *byte;
                }
                return None;
            }
            Request::ReadBuffer { page, offset } => {
                let data = chunk(&self.buffer, page, offset)?;
                Reply::Buffer { page, offset, data }
            }
            Request::ReadFlash { page, offset } => {
                let data = chunk(flash, page, offset)?;
                Reply::Flash { page, offset, data }
            }
            Request::WriteFlash { buffer_page, flash_page, count } => {
                let error = self.write(buffer_page, flash_page, count, flash, now);
                Reply::Written { done: error == 0, error }
            }
            _ => return None,
        })
    }

    fn write(&mut self, buffer_page: u16, flash_page: u16, count: u16, flash: &mut [u8], now: u64) -> u8 {
        let end = u32::from(flash_page) + u32::from(count);
        if !(STM32_START_PAGE..STM32_FLASH_PAGES).contains(&flash_page)
            || end > u32::from(STM32_FLASH_PAGES)
            || buffer_page >= STM32_BUFFER_PAGES
        {
            return 1;
        }
        if std::mem::take(&mut self.fails_next_write) {
            return 3;
        }
        self.has_written = true;
        self.busy_until = now;
        for page in flash_page..flash_page + count {
            if SECTOR_FIRST_PAGES.contains(&page)
                && let Some(number) = flash::sector_at(usize::from(page) * PAGE_SIZE)
            {
                flash::erase(flash, number);
                self.busy_until += flash::erase_ticks(flash::SECTORS[number] as usize);
            }
        }
        // Pages beyond the buffer would be read from whatever follows it in memory: zeros here.
        let from = usize::from(buffer_page) * PAGE_SIZE;
        let len = usize::from(count) * PAGE_SIZE;
        let data: Vec<u8> = (from..from + len).map(|i| self.buffer.get(i).copied().unwrap_or(0)).collect();
        flash::program(flash, usize::from(flash_page) * PAGE_SIZE, &data);
        self.busy_until += flash::PROGRAM_TICKS * (len as u64 / 4);
        0
    }
}

/// Up to 25 bytes of a page of a memory; fewer at its end.
fn chunk(memory: &[u8], page: u16, offset: u16) -> Option<Chunk> {
    let start = usize::from(page) * PAGE_SIZE + usize::from(offset);
    let end = (start + CHUNK).min(memory.len());
    Chunk::new(memory.get(start..end)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::TICKS_PER_MS;

    struct Link {
        loader: Bootloader,
        flash: Vec<u8>,
        now: u64,
    }

    impl Link {
        fn new() -> Self {
            Self { loader: Bootloader::default(), flash: vec![0xFF; 1 << 20], now: 0 }
        }
        fn send(&mut self, request: Request) {
            self.now += 2;
            self.loader.packet(&request.encode(Target::Stm32), &mut self.flash, self.now);
        }
        fn ask(&mut self, request: Request) -> (Reply, u64) {
            self.send(request);
            let start = self.now;
            loop {
                self.now += TICKS_PER_MS;
                if let Some(p) = self.loader.packet(&Packet::NULL, &mut self.flash, self.now) {
                    return (Reply::decode(&p).unwrap().1, (self.now - start) / TICKS_PER_MS);
                }
            }
        }
        fn load(&mut self, page: u16, fill: u8) {
            for offset in (0..PAGE_SIZE as u16).step_by(CHUNK) {
                let len = CHUNK.min(PAGE_SIZE - usize::from(offset));
                let data = Chunk::new(&vec![fill; len]).unwrap();
                self.send(Request::LoadBuffer { page, offset, data });
            }
        }
    }

    #[test]
    fn the_first_page_of_a_sector_erases_it_and_others_do_not() {
        let mut link = Link::new();
        link.flash[900 * 1024] = 0x55;
        link.load(0, 0x0F);
        let write = |flash_page| Request::WriteFlash { buffer_page: 0, flash_page, count: 1 };
        let (reply, ms) = link.ask(write(897));
        assert_eq!(reply, Reply::Written { done: true, error: 0 });
        assert!(ms < 10, "{ms}");
        assert_eq!((link.flash[897 * 1024], link.flash[900 * 1024]), (0x0F, 0x55));
        link.load(0, 0xF0);
        link.ask(write(897));
        assert_eq!(link.flash[897 * 1024], 0x00, "only clears bits");
        let (_, ms) = link.ask(write(896));
        assert!((1000..1100).contains(&ms), "{ms}");
        assert_eq!((link.flash[896 * 1024], link.flash[900 * 1024]), (0xF0, 0xFF));
    }

    #[test]
    fn refuses_its_own_pages_and_what_is_beyond() {
        let mut link = Link::new();
        for (buffer_page, flash_page, count) in [(0, 15, 1), (0, 1024, 1), (0, 1020, 10), (10, 100, 1)] {
            let (reply, _) = link.ask(Request::WriteFlash { buffer_page, flash_page, count });
            assert_eq!(reply, Reply::Written { done: false, error: 1 });
        }
    }

    #[test]
    fn reads_back_buffer_and_flash_and_is_deaf_while_it_erases() {
        let mut link = Link::new();
        assert!(matches!(link.ask(Request::GetInfo).0, Reply::Info(Info::STM32)));
        link.load(9, 0x77);
        let (reply, _) = link.ask(Request::ReadBuffer { page: 9, offset: 1010 });
        let Reply::Buffer { data, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(data.bytes(), [0x77; 14]);
        link.send(Request::WriteFlash { buffer_page: 9, flash_page: 16, count: 1 });
        link.load(0, 0x11);
        let (reply, ms) = link.ask(Request::GetInfo);
        assert!(matches!(reply, Reply::Written { .. }) && ms > 200, "the question was not heard");
        let (reply, _) = link.ask(Request::ReadBuffer { page: 0, offset: 0 });
        let Reply::Buffer { data, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(data.bytes(), [0; 25], "loaded while it was deaf");
    }
}
