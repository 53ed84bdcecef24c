//! Round trips, damage at every place, and cuts at every byte.

use super::write::{begin, event, record_prefix, transition_event, variable};
use super::*;
use crate::transition::{self, Decoder, RECORD_SIZE, Transition};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// A file with transitions and, between them, records of an event without checksums.
fn file(transitions: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = |b: &[u8]| bytes.extend_from_slice(b);
    begin(&mut sink, 2);
    transition_event(&mut sink);
    event(&mut sink, FIXED_FREQUENCY_ID, "fixedFrequency", 2);
    variable(&mut sink, &["pm", ".", "vbat"], Type::F32);
    variable(&mut sink, &["stateEstimateZ.rateRoll"], Type::I16);
    for n in 0..transitions {
        let time_us = 1_000_000 + u64::from(n) * 2000;
        let t = Transition { time_us, sequence: n, battery_v: 3.7, ..Transition::default() };
        bytes.extend_from_slice(&t.encode());
        if n % 5 == 0 {
            bytes.extend_from_slice(&record_prefix(FIXED_FREQUENCY_ID, time_us + 100));
            bytes.extend_from_slice(&3.9_f32.to_le_bytes());
            bytes.extend_from_slice(&(-7_i16).to_le_bytes());
        }
    }
    let crc = FILE_CRC.checksum(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads a file in chunks; gives sequence numbers of transitions, number of other records, summary.
fn read(bytes: &[u8], chunk: usize) -> Option<(Vec<u32>, usize, Summary)> {
    let header = Header::parse(bytes).ok()?;
    let mut scanner = Scanner::new(Layout::new(&header).ok()?, bytes);
    let decoder = Decoder::new(&header).ok()?;
    let (mut sequences, mut others) = (Vec::new(), 0);
    let mut take = |record: Record<'_>| {
        match decoder.as_ref().and_then(|d| d.decode(&record)) {
            Some(step) => sequences.push(step.sequence),
            None => others += 1,
        }
        assert_eq!(&bytes[usize::try_from(record.offset).unwrap()..][..record.bytes.len()], record.bytes);
    };
    let mut at = header.length();
    let mut filled = at;
    while filled < bytes.len() {
        filled = (filled + chunk).min(bytes.len());
        at += scanner.push(&bytes[at..filled], &mut take);
    }
    let summary = scanner.finish(&bytes[at..], &mut take);
    Some((sequences, others, summary))
}

#[test]
fn a_file_survives_the_round_trip_in_chunks_of_any_size() {
    let bytes = file(50);
    for chunk in [1, 7, 100, 277, 4096, 1 << 20] {
        let (sequences, others, summary) = read(&bytes, chunk).unwrap();
        assert_eq!(sequences, (0..50).collect::<Vec<_>>());
        assert_eq!((others, summary.records, summary.skipped_bytes), (10, 60, 0));
        assert_eq!(summary.ending, Ending::Complete, "chunk {chunk}");
    }
}

#[test]
fn the_header_tells_names_types_and_places() {
    let bytes = file(1);
    let header = Header::parse(&bytes).unwrap();
    let events: Vec<_> = header.events().collect();
    assert_eq!(events.iter().map(|e| e.name).collect::<Vec<_>>(), ["transition", "fixedFrequency"]);
    let variables: Vec<_> = events[1].variables().collect();
    assert_eq!((variables[0].name, variables[0].kind, variables[0].offset), ("pm.vbat", Type::F32, 0));
    assert_eq!((variables[1].name, variables[1].offset), ("stateEstimateZ.rateRoll", 4));
    assert_eq!(events[0].variables().count(), transition::FIELDS.len());
    assert_eq!(10 + events[0].values_size(), RECORD_SIZE);
}

#[test]
fn a_cut_at_any_byte_loses_only_what_is_behind_it() {
    let bytes = file(6);
    let length = Header::parse(&bytes).unwrap().length();
    for cut in 0..bytes.len() {
        let Some((sequences, _, summary)) = read(&bytes[..cut], 512) else {
            assert!(cut < length);
            continue;
        };
        let whole = (0..6).filter(|n| length + whole_size(*n) <= cut).count();
        assert_eq!(sequences.len(), whole, "cut at {cut}");
        assert_ne!(summary.ending, Ending::Complete, "cut at {cut}");
    }
}

/// Bytes from the header's end to the end of transition `n`.
fn whole_size(n: usize) -> usize {
    (n + 1) * RECORD_SIZE + n.div_ceil(5) * 16
}

#[test]
fn damage_costs_the_damaged_record_only() {
    let bytes = file(20);
    let length = Header::parse(&bytes).unwrap().length();
    for at in (length..bytes.len() - 4).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x5A;
        let (sequences, others, summary) = read(&damaged, 1000).unwrap();
        assert!(sequences.len() >= 19 && others >= 2, "byte {at}: {sequences:?} {others}");
        assert!(sequences.len() + others >= 21, "byte {at}: {sequences:?} {others}");
        assert!(matches!(summary.ending, Ending::WrongCrc { .. }));
    }
}

#[test]
fn missing_and_inserted_bytes_are_overcome() {
    let bytes = file(20);
    let length = Header::parse(&bytes).unwrap().length();
    for at in (length + 300..bytes.len() - 1000).step_by(37) {
        for cut in [1, 60, 512] {
            let gone = [&bytes[..at], &bytes[at + cut..]].concat();
            let (sequences, _, summary) = read(&gone, 300).unwrap();
            assert!(sequences.len() >= 20 - 2 - cut / RECORD_SIZE, "at {at} without {cut}: {sequences:?}");
            assert!(summary.damaged_places >= 1 || cut >= 277);
            let more = [&bytes[..at], &vec![0xAA; cut], &bytes[at..]].concat();
            assert!(read(&more, 300).unwrap().0.len() >= 19, "at {at} with {cut}");
        }
    }
}

#[test]
fn headers_that_are_none_are_refused() {
    let bytes = file(0);
    assert!(matches!(Header::parse(b"\x7fELF"), Err(HeaderError::Magic(0x7F))));
    assert!(matches!(Header::parse(&[0xBC, 3, 0, 0, 0]), Err(HeaderError::Version(3))));
    let mut wrong = bytes.clone();
    let at = wrong.windows(3).position(|w| w == b"(f)").unwrap();
    wrong[at + 1] = b'Q';
    assert!(matches!(Header::parse(&wrong), Err(HeaderError::Variable(_))));
    let mut many = Vec::new();
    begin(&mut |b: &[u8]| many.extend_from_slice(b), 100);
    for id in 0..100 {
        event(&mut |b: &[u8]| many.extend_from_slice(b), id, "e", 0);
    }
    let header = Header::parse(&many).unwrap();
    assert!(matches!(Layout::new(&header), Err(LayoutError::Events(_))));
}

proptest! {
    #[test]
    fn anything_is_survived(tail in prop::collection::vec(any::<u8>(), 0..2000), chunk in 1_usize..600) {
        let mut bytes = file(2);
        bytes.truncate(bytes.len() - 4);
        bytes.extend(tail);
        let (sequences, ..) = read(&bytes, chunk).unwrap();
        prop_assert!(sequences.starts_with(&[0, 1]));
    }

    #[test]
    fn any_beginning_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = bytes;
        for magic in [&[][..], &[0xBC, 2, 0, 3, 0]] {
            bytes.splice(0..0, magic.iter().copied());
            read(&bytes, 64);
        }
    }
}
