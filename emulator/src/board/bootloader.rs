//! The STM32's radio bootloader: what it answers, how long it takes, what it does to the flash.
//!
//! It runs instead of the firmware, so it is a model of behaviour, not of instructions. Erasing and
//! programming go on while time passes; when the power fails, the flash is left as far as it got.

use steady_common::cload::{
    CHUNK, Chunk, Info, PAGE_SIZE, Reply, Request, SECTOR_FIRST_PAGES, STM32_BUFFER_PAGES, STM32_FLASH_PAGES,
    STM32_MAPPING, STM32_START_PAGE, Target,
};
use steady_common::crtp::Packet;

use super::TICKS_PER_US;
use crate::chip::flash;

const BUFFER: usize = STM32_BUFFER_PAGES as usize * PAGE_SIZE;
/// From a packet to its answer: over the serial line and back.
const ANSWER_TICKS: u64 = 800 * TICKS_PER_US;

/// The bootloader's state.
#[derive(Debug)]
pub struct Bootloader {
    buffer: Box<[u8]>,
    /// The answer that the next poll takes away, not before a time.
    answer: Option<(u64, Packet)>,
    /// What is being done to the flash: interrupts are off until then, packets are lost.
    job: Option<Job>,
    /// Pages that were written so far.
    pub pages_written: u64,
    /// A programming error that the next write reports (a fault).
    pub fails_next_write: bool,
    /// The power fails after so many more words (a fault).
    pub cut_after_words: Option<u64>,
    /// The power fails in the next erase, when this part of it is done (a fault).
    pub cut_in_erase: Option<f64>,
}

/// Erasing and programming under way.
#[derive(Debug)]
struct Job {
    /// Sectors still to be erased, and when each is done.
    erases: Vec<(usize, u64)>,
    /// Where programming is, what is left, and when it began.
    offset: usize,
    words: Vec<[u8; 4]>,
    programmed: usize,
    programming_since: u64,
    ends: u64,
}

impl Default for Bootloader {
    fn default() -> Self {
        Self {
            buffer: vec![0; BUFFER].into_boxed_slice(),
            answer: None,
            job: None,
            pages_written: 0,
            fails_next_write: false,
            cut_after_words: None,
            cut_in_erase: None,
        }
    }
}

impl Bootloader {
    /// A packet arrives; an earlier answer goes back.
    pub fn packet(&mut self, packet: &Packet, flash: &mut [u8], now: u64) -> Option<Packet> {
        self.advance(flash, now);
        let answer = self.answer.take_if(|(at, _)| *at <= now).map(|(_, packet)| packet);
        if self.job.is_none()
            && let Some((Target::Stm32, request)) = Request::decode(packet)
            && let Some(reply) = self.handle(request, flash, now)
        {
            let done = self.job.as_ref().map_or(now, |job| job.ends);
            self.answer = Some((done + ANSWER_TICKS, reply.encode(Target::Stm32)));
        }
        answer
    }

    /// Time passes for the flash. True when the power fails now, as was asked for.
    pub fn advance(&mut self, flash: &mut [u8], now: u64) -> bool {
        let Some(job) = &mut self.job else { return false };
        if let (Some(part), Some((sector, ends))) = (self.cut_in_erase, job.erases.first()) {
            let length = erase_ticks(*sector);
            let cut = ends - length + (part.clamp(0.0, 1.0) * length as f64) as u64;
            if now >= cut {
                half_erase(flash, *sector, part, cut);
                self.job = None;
                return true;
            }
        }
        while job.erases.first().is_some_and(|(_, ends)| *ends <= now) {
            let (sector, _) = job.erases.remove(0);
            flash::erase(flash, sector);
        }
        if !job.erases.is_empty() {
            return false;
        }
        let due = now.saturating_sub(job.programming_since) / flash::PROGRAM_TICKS;
        let due = usize::try_from(due).unwrap_or(usize::MAX).min(job.words.len());
        while job.programmed < due {
            let (offset, word) = (job.offset + 4 * job.programmed, job.words[job.programmed]);
            if let Some(left) = &mut self.cut_after_words {
                if *left == 0 {
                    weak_program(flash, offset, word, now);
                    self.job = None;
                    return true;
                }
                *left -= 1;
            }
            flash::program(flash, offset, &word);
            job.programmed += 1;
        }
        if now >= job.ends {
            self.job = None;
        }
        false
    }

    /// When [`Self::advance`] has something to do.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<u64> {
        let job = self.job.as_ref()?;
        let is_cut = self.cut_after_words.is_some() || self.cut_in_erase.is_some();
        Some(if is_cut { now + flash::PROGRAM_TICKS } else { job.ends })
    }

    /// Nothing is being done to the flash.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.job.is_none()
    }

    /// The STM32 is reset or loses its power: what was under way stays half done.
    pub fn cut(&mut self, flash: &mut [u8], now: u64) {
        if self.advance(flash, now) {
            return;
        }
        let Some(job) = self.job.take() else { return };
        if let Some((sector, ends)) = job.erases.first() {
            let part = 1.0 - ends.saturating_sub(now) as f64 / erase_ticks(*sector) as f64;
            half_erase(flash, *sector, part, now);
        } else if let Some(word) = job.words.get(job.programmed) {
            weak_program(flash, job.offset + 4 * job.programmed, *word, now);
        }
    }

    fn handle(&mut self, request: Request, flash: &[u8], now: u64) -> Option<Reply> {
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
                let error = self.write(buffer_page, flash_page, count, now);
                Reply::Written { done: error == 0, error }
            }
            _ => return None,
        })
    }

    fn write(&mut self, buffer_page: u16, flash_page: u16, count: u16, now: u64) -> u8 {
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
        self.pages_written += u64::from(count);
        let mut time = now;
        let mut erases = Vec::new();
        for page in flash_page..flash_page + count {
            if SECTOR_FIRST_PAGES.contains(&page)
                && let Some(number) = flash::sector_at(usize::from(page) * PAGE_SIZE)
            {
                time += erase_ticks(number);
                erases.push((number, time));
            }
        }
        // Pages beyond the buffer would be read from whatever follows it in memory: zeros here.
        let from = usize::from(buffer_page) * PAGE_SIZE;
        let byte = |i: usize| self.buffer.get(i).copied().unwrap_or(0);
        let words: Vec<[u8; 4]> = (from..from + usize::from(count) * PAGE_SIZE)
            .step_by(4)
            .map(|i| [byte(i), byte(i + 1), byte(i + 2), byte(i + 3)])
            .collect();
        self.job = Some(Job {
            erases,
            offset: usize::from(flash_page) * PAGE_SIZE,
            programmed: 0,
            programming_since: time,
            ends: time + flash::PROGRAM_TICKS * words.len() as u64,
            words,
        });
        0
    }
}

/// Up to 25 bytes of a page of a memory; fewer at its end.
fn chunk(memory: &[u8], page: u16, offset: u16) -> Option<Chunk> {
    let start = usize::from(page) * PAGE_SIZE + usize::from(offset);
    let end = (start + CHUNK).min(memory.len());
    Chunk::new(memory.get(start..end)?)
}

fn erase_ticks(sector: usize) -> u64 {
    flash::sector(sector).map_or(0, |(_, len)| flash::erase_ticks(len))
}

/// Erases a sector for a part of the time it takes: that part of its bits is set.
fn half_erase(flash: &mut [u8], sector: usize, part: f64, seed: u64) {
    let Some((start, len)) = flash::sector(sector) else { return };
    for (i, byte) in (0..).zip(flash.iter_mut().skip(start).take(len)) {
        *byte |= some_bits(seed ^ i << 20, part);
    }
}

/// Programs a word whose time was too short: some of its bits are not cleared.
fn weak_program(flash: &mut [u8], offset: usize, word: [u8; 4], seed: u64) {
    let [a, b, c, d] = word;
    let kept = |i: u64, byte: u8| byte | some_bits(seed ^ i << 32, 0.5);
    flash::program(flash, offset, &[kept(0, a), kept(1, b), kept(2, c), kept(3, d)]);
}

/// A byte with each bit set with a probability; the same seed gives the same byte.
fn some_bits(seed: u64, probability: f64) -> u8 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D123_4567;
    (0..8).fold(0, |byte, bit| {
        state ^= state >> 27;
        state = state.wrapping_mul(0x3C79_AC49_2BA7_B653);
        state ^= state >> 33;
        byte | u8::from(((state >> 11) as f64) < probability * (1u64 << 53) as f64) << bit
    })
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
            self.now += TICKS_PER_MS;
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
        assert_eq!(link.ask(Request::GetMapping).0, Reply::Mapping(STM32_MAPPING));
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
        let (reply, _) = link.ask(Request::ReadFlash { page: 16, offset: 1000 });
        let Reply::Flash { data, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(data.bytes()[..24], [0x77; 24]);
    }

    #[test]
    fn power_cuts_leave_the_flash_as_far_as_it_got() {
        for words in [0, 1, 100, 255] {
            let mut link = Link::new();
            link.load(0, 0x00);
            link.loader.cut_after_words = Some(words);
            link.send(Request::WriteFlash { buffer_page: 0, flash_page: 897, count: 1 });
            assert!(link.loader.advance(&mut link.flash, link.now + 10 * TICKS_PER_MS), "{words}");
            let page = &link.flash[897 * 1024..898 * 1024];
            let (done, rest) = page.split_at(4 * words as usize);
            assert!(done.iter().all(|b| *b == 0), "{words}");
            assert!(rest[4..].iter().all(|b| *b == 0xFF), "{words}");
        }
        let mut link = Link::new();
        link.flash[896 * 1024..].fill(0x00);
        link.loader.cut_in_erase = Some(0.5);
        link.send(Request::WriteFlash { buffer_page: 0, flash_page: 896, count: 1 });
        assert!(!link.loader.advance(&mut link.flash, link.now + 400 * TICKS_PER_MS));
        assert!(link.loader.advance(&mut link.flash, link.now + 600 * TICKS_PER_MS));
        let ones: u32 = link.flash[896 * 1024..].iter().map(|b| b.count_ones()).sum();
        let part = f64::from(ones) / (8.0 * 128.0 * 1024.0);
        assert!((0.45..0.55).contains(&part), "half erased: {part}");
    }
}
