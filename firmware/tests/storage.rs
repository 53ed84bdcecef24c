//! The log writer on a real FAT32 in memory: what is on the card after power cuts at every block and
//! within blocks, with slow, full, broken and missing cards. Files are read by the project's reader
//! and by an independent one that knows nothing of the project's code.
#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

mod ram_card;

use heapless::spsc::Queue;
use ram_card::{Fault, RamCard};
use steady_common::gains_record::{self, GainsRecord};
use steady_common::transition::{Decoder, EVENT_ID, RECORD_SIZE, Transition};
use steady_common::usdlog::{Ending, Header, Layout, Record, Scanner, Summary};
use steady_common::{GainTable, Vec3};
use steady_firmware::drivers::bmp388::AirReading;
use steady_firmware::services::Device;
use steady_firmware::settings::Settings;
use steady_firmware::storage::card::{Block, Card, CardError};
use steady_firmware::storage::config::ConfigError;
use steady_firmware::storage::{Counters, Drain, FatCard, Feed, Item, Logger, Sampler, State};
use steady_firmware::telemetry::{Telemetry, Timing};
use steady_firmware::toc::View;

/// Records in the queue between flight and storage.
const QUEUE: usize = 128;

/// A flight at 500 Hz with a logger polled every `poll_ms`; a stalled card delays the next poll.
struct Bench {
    logger: Logger<FatCard<RamCard>>,
    now_us: u64,
    produced: u32,
    /// Sequence numbers of records, by the time they were produced in ms.
    times_ms: Vec<u32>,
    sampler: Sampler,
}

impl Bench {
    fn new(card: RamCard) -> Self {
        let logger = Logger::new(FatCard::new(card));
        Self { logger, now_us: 0, produced: 0, times_ms: Vec::new(), sampler: Sampler::default() }
    }

    fn card(&self) -> &RamCard {
        self.logger.card().device()
    }

    /// Runs for so long; `wanted` says whether a log is wanted.
    fn run(&mut self, ms: u32, wanted: bool, feed: &mut Feed<'_>, drain: &mut Drain<'_>) {
        let (settings, device) = (Settings::new(), Device::default());
        let end = self.now_us + u64::from(ms) * 1000;
        let mut next_poll = self.now_us;
        while self.now_us < end {
            self.now_us += 1000;
            let now_ms = u32::try_from(self.now_us / 1000).unwrap();
            if wanted {
                let telemetry = telemetry(now_ms);
                let view = View { settings: &settings, telemetry: &telemetry, device: &device };
                if now_ms % 2 == 0 {
                    let sequence = self.produced;
                    feed.push(Item::Transition(Transition {
                        time_us: self.now_us,
                        sequence,
                        battery_v: 3.8,
                        ..Transition::default()
                    }));
                    self.times_ms.push(now_ms);
                    self.produced += 1;
                }
                self.sampler.sample(&view, None, |item| _ = feed.push(item));
            }
            if self.now_us >= next_poll {
                let before = self.card().busy_ms();
                self.logger.poll(now_ms, wanted, drain);
                let stalled = self.card().busy_ms() - before;
                next_poll = self.now_us + 1000 * u64::from(5 + stalled);
                let status = self.logger.status();
                let pending = status.pending();
                assert!(pending < 2 * QUEUE as u32, "accounting is off: {status:?}");
            }
        }
    }
}

/// A flight with motion capture at 100 Hz, every fourth frame a pose, and a barometer at 50 Hz.
fn telemetry(now_ms: u32) -> Telemetry {
    Telemetry {
        time_us: 1000 * u64::from(now_ms),
        battery_v: 3.8,
        mocap_frames: now_ms / 10,
        mocap_poses: now_ms / 40,
        mocap_position: Vec3::new(1.5, 0.0, 0.0),
        barometer: AirReading { pressure: 101_300.0, temperature: 20.0 },
        barometer_readings: now_ms / 20,
        timing: Timing { steps: now_ms, ..Timing::default() },
        ..Telemetry::default()
    }
}

fn with_queue<R>(work: impl FnOnce(&mut Feed<'_>, &mut Drain<'_>) -> R) -> R {
    let mut queue: Queue<Item, { QUEUE + 1 }> = Queue::new();
    let counters = Counters::new();
    let (producer, consumer) = queue.split();
    work(&mut Feed::new(producer, &counters), &mut Drain::new(consumer, &counters))
}

/// The project's reader: sequence numbers, number of other records, summary.
fn read(bytes: &[u8]) -> Option<(Vec<u32>, usize, Summary)> {
    let header = Header::parse(bytes).ok()?;
    let scanner = Scanner::new(Layout::new(&header).unwrap(), bytes);
    let decoder = Decoder::new(&header).unwrap().unwrap();
    let (mut sequences, mut others) = (Vec::new(), 0);
    let summary =
        scanner.finish(&bytes[header.length()..], |record: Record<'_>| match decoder.decode(&record) {
            Some(step) => sequences.push(step.sequence),
            None => others += 1,
        });
    Some((sequences, others, summary))
}

/// Another reader of the format, written from its description alone: `(event, timestamp, values)` of
/// every record as numbers, and whether the checksum is right. Fails on anything out of order.
fn independent_read(bytes: &[u8]) -> (Vec<(u16, u64, Vec<f64>)>, bool) {
    let mut at = 0;
    let mut take = |n: usize| {
        at += n;
        &bytes[at - n..at]
    };
    assert_eq!(take(1), [0xBC]);
    assert_eq!(take(2), [2, 0]);
    let events = u16::from_le_bytes(take(2).try_into().unwrap());
    let mut layouts = Vec::new();
    for _ in 0..events {
        let id = u16::from_le_bytes(take(2).try_into().unwrap());
        while take(1) != [0] {}
        let variables = u16::from_le_bytes(take(2).try_into().unwrap());
        let mut types = String::new();
        for _ in 0..variables {
            let mut name = Vec::new();
            loop {
                match take(1) {
                    [0] => break,
                    byte => name.push(byte[0]),
                }
            }
            assert_eq!((name[name.len() - 3], name[name.len() - 1]), (b'(', b')'));
            types.push(char::from(name[name.len() - 2]));
        }
        layouts.push((id, types));
    }
    let mut records = Vec::new();
    let mut start = at;
    let end = bytes.len() - 4;
    while start < end {
        let mut take = |n: usize| {
            start += n;
            &bytes[start - n..start]
        };
        let id = u16::from_le_bytes(take(2).try_into().unwrap());
        let time = u64::from_le_bytes(take(8).try_into().unwrap());
        let (_, types) = layouts.iter().find(|(i, _)| *i == id).unwrap();
        let values = types.chars().map(|t| match t {
            'B' => f64::from(take(1)[0]),
            'H' => f64::from(u16::from_le_bytes(take(2).try_into().unwrap())),
            'I' => f64::from(u32::from_le_bytes(take(4).try_into().unwrap())),
            'f' => f64::from(f32::from_le_bytes(take(4).try_into().unwrap())),
            other => panic!("type {other}"),
        });
        records.push((id, time, values.collect()));
    }
    assert_eq!(start, end, "records end at the checksum");
    // Bit by bit, as the definition has it.
    let crc = bytes[..end].iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 })
    });
    (records, (crc ^ u32::MAX).to_le_bytes() == bytes[end..])
}

#[test]
fn a_log_reads_the_same_with_both_readers() {
    let card = RamCard::formatted(8);
    card.add_file(
        "CONFIG  TXT",
        b"1\n512\nfly\n0\non:fixedFrequency\n100\n1\npm.vbat\nsteady.seq\nmotor.m1\n",
    );
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        assert_eq!(bench.logger.status().state, State::Ready);
        bench.sampler = Sampler::new(bench.logger.config().plan);
        bench.run(3000, true, feed, drain);
        assert_eq!(bench.logger.status().state, State::Logging);
        bench.run(200, false, feed, drain);
    });
    let status = bench.logger.status();
    assert_eq!((status.state, status.lost(), status.pending()), (State::Ready, 0, 0), "{status:?}");
    assert_eq!((status.produced, status.written), (1800, 1800));
    let bytes = bench.card().file("FLY00").unwrap();
    assert_eq!(bytes.len() as u32, status.file_bytes);
    let (sequences, others, summary) = read(&bytes).unwrap();
    assert_eq!(sequences, (0..1500).collect::<Vec<_>>());
    assert_eq!((others, summary.skipped_bytes, summary.ending), (300, 0, Ending::Complete));
    let (records, crc_is_right) = independent_read(&bytes);
    assert!(crc_is_right);
    let transitions: Vec<_> = records.iter().filter(|r| r.0 == EVENT_ID).collect();
    assert_eq!(transitions.len(), 1500);
    for (n, (_, time, values)) in transitions.iter().enumerate() {
        assert_eq!((values[0] as usize, *time), (n, u64::from(bench.times_ms[n]) * 1000));
    }
    let extras: Vec<_> = records.iter().filter(|r| r.0 == 0xFFFF).collect();
    assert!(extras.iter().all(|(_, _, v)| v[0] == f64::from(3.8_f32)));
    assert_eq!(extras.len(), 300);
    assert_eq!(bench.card().check(), Vec::<String>::new(), "the file system is as it should be");
}

#[test]
fn every_event_that_is_asked_for_has_its_records() {
    let card = RamCard::formatted(8);
    card.add_file(
        "CONFIG  TXT",
        b"1\n512\nlog\n0\non:estPosition\nlocSrv.x\non:estPose\nsteady.mocapFrames\n\
          on:estGyroscope\ngyro.x\nmotor.m1\non:estBarometer\nbaro.pressure\non:fixedFrequency\n50\n1\npm.vbat\n",
    );
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        bench.sampler = Sampler::new(bench.logger.config().plan);
        bench.run(1000, true, feed, drain);
        bench.run(200, false, feed, drain);
    });
    let status = bench.logger.status();
    assert_eq!((status.lost(), status.pending()), (0, 0), "{status:?}");
    let bytes = bench.card().file("LOG00").unwrap();
    let header = Header::parse(&bytes).unwrap();
    let named: Vec<(&str, u16)> = header.events().map(|event| (event.name, event.id)).collect();
    assert_eq!(named.len(), 7, "{named:?}");
    let (records, crc_is_right) = independent_read(&bytes);
    assert!(crc_is_right);
    let of = |name: &str| -> Vec<&Vec<f64>> {
        let id = named.iter().find(|(n, _)| *n == name).unwrap().1;
        records.iter().filter(|(event, ..)| *event == id).map(|(_, _, values)| values).collect()
    };
    assert_eq!(of("transition").len(), 500);
    // A frame with an attitude is a pose and no position.
    let positions = of("estPosition");
    assert_eq!((positions.len(), of("estPose").len()), (75, 25));
    assert!(positions.iter().all(|v| **v == [0.0, 1.5]), "source and x: {:?}", positions[0]);
    assert_eq!(of("estGyroscope").len(), 999, "every step but the first");
    assert!(of("estBarometer").iter().all(|v| **v == [1013.0]));
    assert_eq!((of("estBarometer").len(), of("fixedFrequency").len()), (50, 50));
    let (sequences, others, summary) = read(&bytes).unwrap();
    assert_eq!((sequences.len(), others, summary.skipped_bytes), (500, 1199, 0));
}

#[test]
fn a_config_that_is_not_used_says_why() {
    for (text, error, skipped) in [
        (&b"2\n512\nlog\n0\n"[..], Some(ConfigError::Version), 0),
        (b"1\n512\n", Some(ConfigError::Short), 0),
        (b"1\n512\nlog\n0\non:estFlow\nmotion.deltaX\n", None, 2),
        (b"1\n512\nlog\n0\n", None, 0),
    ] {
        let card = RamCard::formatted(8);
        card.add_file("CONFIG  TXT", text);
        let mut bench = Bench::new(card);
        with_queue(|feed, drain| bench.run(20, false, feed, drain));
        assert_eq!((bench.logger.config_error(), bench.logger.config().skipped), (error, skipped));
        assert_eq!(bench.logger.status().state, State::Ready, "it logs all the same");
    }
}

#[test]
fn a_log_has_its_header_after_few_accesses_however_many_files_there_are() {
    let card = RamCard::formatted(8);
    for number in 0..90 {
        card.add_file(&format!("LOG{number:02}      "), b"old");
    }
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        let (reads, writes) = (bench.card().reads(), bench.card().writes());
        // One poll.
        bench.run(1, true, feed, drain);
        let (reads, writes) = (bench.card().reads() - reads, bench.card().writes() - writes);
        println!("{reads} blocks read and {writes} written for a file with its header");
        assert!(reads <= 60 && writes <= 20, "{reads} reads, {writes} writes");
        let bytes = bench.card().file("LOG90").unwrap();
        assert_eq!(read(&bytes).unwrap().2.ending, Ending::Complete);
        // The room for a long flight follows in the next moments, and then nothing more.
        bench.run(1500, true, feed, drain);
        let writes = bench.card().writes();
        bench.run(1000, true, feed, drain);
        let data = 1000 / 60 * (60 * 500 * RECORD_SIZE as u32 / 1000 / 512 + 4);
        assert!(bench.card().writes() - writes < data, "{} writes a second", bench.card().writes() - writes);
    });
}

#[test]
fn after_a_power_cut_only_the_last_moments_are_gone() {
    // How many block writes a log of a second has.
    let writes = {
        let mut bench = Bench::new(RamCard::formatted(8));
        with_queue(|feed, drain| {
            bench.run(20, false, feed, drain);
            bench.run(1000, true, feed, drain);
        });
        bench.card().writes()
    };
    let mut cuts = 0;
    for cut in 0..writes {
        for torn_bytes in [0, 1, 100, 300, 511] {
            let mut bench = Bench::new(RamCard::formatted(8));
            bench.card().set_fault(Fault::PowerCut { write: cut, bytes: torn_bytes });
            let cut_ms = with_queue(|feed, drain| {
                bench.run(20, false, feed, drain);
                for ms in 0..1000 {
                    bench.run(1, true, feed, drain);
                    if bench.card().is_dead() {
                        return 20 + ms + 1;
                    }
                }
                1020
            });
            let Some(bytes) = bench.card().file("LOG00").filter(|b| !b.is_empty()) else {
                assert!(cut_ms <= 30 + 60, "nothing on the card after {cut_ms} ms, cut {cut}");
                continue;
            };
            let (sequences, ..) = read(&bytes).unwrap_or_else(|| panic!("no header after cut {cut}"));
            // In order, without gaps, and up to 100 ms before the cut.
            assert_eq!(sequences, (0..sequences.len() as u32).collect::<Vec<_>>(), "cut {cut}");
            let promised = bench.times_ms.iter().filter(|t| **t + 100 <= cut_ms).count();
            assert!(
                sequences.len() >= promised,
                "cut {cut} at {cut_ms} ms, {torn_bytes} bytes of a block: {} of {promised} records",
                sequences.len()
            );
            cuts += 1;
        }
    }
    println!("{writes} block writes in the first second, {cuts} cuts with a file");
    assert!(cuts > writes);
}

#[test]
fn between_two_commits_the_file_is_complete() {
    let mut bench = Bench::new(RamCard::formatted(8));
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        bench.run(10, true, feed, drain);
        for ms in 31..1000 {
            bench.run(1, true, feed, drain);
            let bytes = bench.card().file("LOG00").unwrap();
            let (sequences, _, summary) = read(&bytes).unwrap();
            assert_eq!((summary.ending, summary.skipped_bytes), (Ending::Complete, 0), "after {ms} ms");
            let promised = bench.times_ms.iter().filter(|t| **t + 100 <= ms).count();
            assert!(sequences.len() >= promised);
        }
        assert!(independent_read(&bench.card().file("LOG00").unwrap()).1);
    });
}

#[test]
fn a_card_that_stalls_loses_nothing_up_to_the_queue() {
    for (stall_ms, may_lose) in [(100, false), (200, false), (250, false), (600, true)] {
        let mut bench = Bench::new(RamCard::formatted(64));
        with_queue(|feed, drain| {
            bench.run(20, false, feed, drain);
            bench.run(100, true, feed, drain);
            bench.card().set_fault(Fault::Stall { every: 40, ms: stall_ms });
            bench.run(3000, true, feed, drain);
            bench.card().set_fault(Fault::None);
            bench.run(1000, true, feed, drain);
            bench.run(1000, false, feed, drain);
        });
        let status = bench.logger.status();
        assert_eq!(status.pending(), 0);
        assert_eq!(status.written + status.lost(), status.produced, "{status:?}");
        assert_eq!(status.lost_on_card, 0);
        assert_eq!(status.lost_in_queue > 0, may_lose, "{stall_ms} ms: {status:?}");
        let (sequences, _, summary) = read(&bench.card().file("LOG00").unwrap()).unwrap();
        assert_eq!((sequences.len() as u32, summary.ending), (status.written, Ending::Complete));
    }
}

#[test]
fn errors_are_counted_and_the_next_log_begins_in_a_new_file() {
    let mut bench = Bench::new(RamCard::formatted(8));
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        bench.run(500, true, feed, drain);
        let before = bench.logger.status().written;
        assert!(before > 150);
        bench.card().set_fault(Fault::Dead);
        bench.run(1500, true, feed, drain);
        let status = bench.logger.status();
        assert_eq!((status.state, status.can_log), (State::Failed, false));
        assert!(matches!(status.error, Some(CardError::Missing | CardError::Device)), "{status:?}");
        assert!(status.lost_on_card > 600 && status.written == before, "{status:?}");
        // Put back while the flight goes on.
        bench.card().set_fault(Fault::None);
        bench.run(2000, true, feed, drain);
        assert_eq!(bench.logger.status().state, State::Logging);
        bench.run(100, false, feed, drain);
    });
    let status = bench.logger.status();
    assert_eq!((status.written + status.lost(), status.pending()), (status.produced, 0), "{status:?}");
    let (first, ..) = read(&bench.card().file("LOG00").unwrap()).unwrap();
    let (second, _, summary) = read(&bench.card().file("LOG01").unwrap()).unwrap();
    assert_eq!(first[0], 0);
    assert_eq!(second.last().copied(), Some(bench.produced - 1));
    assert_eq!((first.len() + second.len()) as u32, status.written);
    assert_eq!(summary.ending, Ending::Complete);
}

#[test]
fn a_file_that_begins_in_flight_begins_with_the_gains() {
    let gains =
        GainsRecord { time_us: 7, table: GainTable { sequence: 5, ..GainTable::built_in() }, try_out: false };
    let mut bench = Bench::new(RamCard::formatted(8));
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        assert!(feed.push(Item::Gains(gains)));
        bench.run(300, true, feed, drain);
        bench.card().set_fault(Fault::Dead);
        bench.run(1500, true, feed, drain);
        bench.card().set_fault(Fault::None);
        bench.run(2000, true, feed, drain);
        bench.run(100, false, feed, drain);
    });
    for file in ["LOG00", "LOG01"] {
        let bytes = bench.card().file(file).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let scanner = Scanner::new(Layout::new(&header).unwrap(), &bytes);
        let decoder = gains_record::Decoder::new(&header).unwrap().unwrap();
        let mut records = Vec::new();
        scanner.finish(&bytes[header.length()..], |r| records.push(decoder.decode(&r).and_then(Result::ok)));
        assert_eq!(records[0], Some(gains), "{file}");
        assert!(records.len() > 100 && records[1..].iter().all(Option::is_none), "{file}");
    }
    let status = bench.logger.status();
    assert_eq!((status.written + status.lost(), status.pending()), (status.produced, 0), "{status:?}");
}

#[test]
fn no_card_full_cards_and_strange_cards_are_no_trouble() {
    // None at all: everything is counted as lost.
    let mut bench = Bench::new(RamCard::formatted(8));
    bench.card().set_fault(Fault::Dead);
    with_queue(|feed, drain| {
        bench.run(1000, true, feed, drain);
        let status = bench.logger.status();
        assert_eq!((status.state, status.can_log, status.written), (State::NoCard, false, 0));
        assert_eq!(status.error, Some(CardError::Missing));
        // Inserted later.
        bench.card().set_fault(Fault::None);
        bench.run(1500, false, feed, drain);
        assert_eq!(bench.logger.status().state, State::Ready);
        let status = bench.logger.status();
        assert_eq!((status.lost(), status.pending()), (status.produced, 0));
    });

    // Room for a few seconds only.
    let card = RamCard::formatted(8);
    card.fill_all_but(100);
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        assert_eq!(bench.logger.status().state, State::Ready);
        bench.run(6000, true, feed, drain);
        let status = bench.logger.status();
        assert_eq!((status.state, status.error), (State::Full, Some(CardError::Full)));
        bench.run(100, false, feed, drain);
    });
    let status = bench.logger.status();
    assert_eq!((status.written + status.lost(), status.pending()), (status.produced, 0), "{status:?}");
    let bytes = bench.card().file("LOG00").unwrap();
    assert!(bytes.len() > 350_000, "{} bytes of 400 KiB", bytes.len());
    let (sequences, _, summary) = read(&bytes).unwrap();
    assert_eq!(sequences.len() as u32, status.written);
    // The last commit's checksum may have been written over by blocks that then found no room.
    assert!(matches!(summary.ending, Ending::Complete | Ending::WrongCrc { .. }));
    assert_eq!(bench.card().check(), Vec::<String>::new());

    // No room at all from the start.
    let card = RamCard::formatted(8);
    card.fill_all_but(0);
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| bench.run(100, true, feed, drain));
    assert_eq!(bench.logger.status().state, State::Full);

    // A card with nothing, or nonsense, on it.
    for seed in 0..200_u32 {
        let card = RamCard::nonsense(seed);
        let mut bench = Bench::new(card);
        with_queue(|feed, drain| bench.run(50, true, feed, drain));
        assert!(!bench.logger.status().can_log);
        assert_eq!(bench.card().writes(), 0, "nothing is written to a card that is not understood");
    }
}

#[test]
fn names_count_up_and_old_files_stay() {
    let card = RamCard::formatted(8);
    card.add_file("LOG00      ", b"old");
    card.add_file("LOG01      ", b"older");
    let mut bench = Bench::new(card);
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        for number in 2..5 {
            bench.run(100, true, feed, drain);
            assert_eq!(bench.logger.status().file_number, number);
            bench.run(100, false, feed, drain);
        }
        assert_eq!(bench.card().file("LOG00").unwrap(), b"old");
        for name in ["LOG02", "LOG03", "LOG04"] {
            assert_eq!(read(&bench.card().file(name).unwrap()).unwrap().2.ending, Ending::Complete, "{name}");
        }
        assert_eq!(bench.card().check(), Vec::<String>::new());
        // When all are taken it says so.
        for number in 5..100 {
            bench.card().add_file(&format!("LOG{number:02}      "), b"x");
        }
        bench.run(100, true, feed, drain);
        assert_eq!(bench.logger.status().error, Some(CardError::Names));
    });
}

#[test]
fn a_second_of_logging_is_few_writes() {
    let mut bench = Bench::new(RamCard::formatted(64));
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        bench.run(500, true, feed, drain);
        let (blocks, commands) = (bench.card().writes(), bench.card().write_commands());
        let reads = bench.card().reads();
        bench.run(10_000, true, feed, drain);
        let blocks = f64::from(bench.card().writes() - blocks) / 10.0;
        let commands = f64::from(bench.card().write_commands() - commands) / 10.0;
        println!("500 Hz of {RECORD_SIZE} bytes: {blocks} blocks and {commands} write commands a second");
        assert!(blocks < 330.0 && commands < 45.0, "{blocks} blocks, {commands} commands");
        assert_eq!(bench.card().reads(), reads, "nothing is read in flight");
    });
}

#[test]
fn a_file_longer_than_its_reserve_goes_on() {
    let card = RamCard::formatted(8);
    let mut fat = FatCard::new(card);
    fat.mount().unwrap();
    assert_eq!(fat.create("big"), Ok(0));
    let blocks: Vec<Block> = (0..64).map(|_| Block::new()).collect();
    // 64 MiB are reserved; write a marker before, at and behind that.
    for first in [0, 131_008, 131_040, 131_072, 131_200_u32] {
        let mut marked = blocks.clone();
        marked[0].contents[..4].copy_from_slice(&first.to_le_bytes());
        fat.write(first, &marked).unwrap();
    }
    let size = (131_200 + 64) * 512;
    fat.close(size).unwrap();
    let file = fat.device().file("BIG00").unwrap();
    assert_eq!(file.len(), size as usize);
    for first in [0, 131_008, 131_040, 131_072, 131_200_u32] {
        assert_eq!(file[first as usize * 512..][..4], first.to_le_bytes(), "block {first}");
    }
    assert_eq!(fat.device().check(), Vec::<String>::new());
}

#[test]
fn linux_finds_the_file_system_sound() {
    let mut bench = Bench::new(RamCard::formatted(8));
    with_queue(|feed, drain| {
        bench.run(20, false, feed, drain);
        bench.run(700, true, feed, drain);
        bench.run(100, false, feed, drain);
    });
    let image = std::env::temp_dir().join(format!("steady-storage-{}.img", std::process::id()));
    bench.card().save_partition(&image).unwrap();
    if let Some(fsck) = steady_test_support::program(&["fsck.fat"]) {
        let output = std::process::Command::new(fsck).args(["-n", "-v"]).arg(&image).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    if let Some(mtype) = steady_test_support::program(&["mtype"]) {
        let output = std::process::Command::new(mtype).arg("-i").arg(&image).arg("::log00").output().unwrap();
        let same = output.stdout == bench.card().file("LOG00").unwrap();
        assert!(same, "{}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::remove_file(&image).unwrap();
}
