//! Times reading a uSD log. Run by `cargo xtask bench`.

use std::hint::black_box;
use std::time::Instant;

use steady_common::transition::{Decoder, Transition};
use steady_common::usdlog::{FILE_CRC, Header, Layout, Record, Scanner, write};

/// Size of the file that is read, bytes.
const SIZE: usize = 64 << 20;
/// Read at once, as from a disk.
const CHUNK: usize = 1 << 20;

fn file() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE + 1024);
    let mut sink = |b: &[u8]| bytes.extend_from_slice(b);
    write::begin(&mut sink, 1);
    write::transition_event(&mut sink);
    for sequence in 0.. {
        let time_us = 2000 * u64::from(sequence);
        let record = Transition { time_us, sequence, battery_v: 3.8, ..Transition::default() };
        bytes.extend_from_slice(&record.encode());
        if bytes.len() > SIZE {
            break;
        }
    }
    let crc = FILE_CRC.checksum(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Megabytes per second: the best of several rounds.
fn speed(bytes: &[u8], take: &mut dyn FnMut(Record<'_>)) -> f64 {
    let header = Header::parse(bytes).ok().map(|h| (h.length(), Layout::new(&h)));
    let Some((start, Ok(layout))) = header else { return 0.0 };
    let round = |take: &mut dyn FnMut(Record<'_>)| {
        let begin = Instant::now();
        let mut scanner = Scanner::new(layout, bytes);
        let (mut at, mut filled) = (start, start);
        while filled < bytes.len() {
            filled = (filled + CHUNK).min(bytes.len());
            at += scanner.push(&bytes[at..filled], &mut *take);
        }
        black_box(scanner.finish(&bytes[at..], &mut *take));
        bytes.len() as f64 / 1e6 / begin.elapsed().as_secs_f64()
    };
    (0..5).map(|_| round(take)).fold(0.0, f64::max)
}

fn main() {
    let bytes = file();
    let checked = speed(&bytes, &mut |record| {
        black_box(record.time_us);
    });
    let decoder = Header::parse(&bytes).ok().and_then(|header| Decoder::new(&header).ok().flatten());
    let decoded = speed(&bytes, &mut |record| {
        black_box(decoder.as_ref().and_then(|decoder| decoder.decode(&record)));
    });
    println!(
        "BENCH\tuSD log, every checksum tested\t{checked:.0}\tMB/s\tand every field decoded\t{decoded:.0}\t>=200"
    );
}
