//! What is kept over restarts, with power cuts in every write, and with garbage in the memory.
#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use steady_common::config_block::ConfigBlock;
use steady_common::value::Value;
use steady_firmware::eeprom::{Eeprom, Failed, SIZE, Store};
use steady_firmware::route::Route;
use steady_firmware::services::{StoreJob, StoreRequest};
use steady_firmware::settings::Settings;
use steady_firmware::toc::{PARAMS, param_id};

/// A memory whose power fails in a write: its bytes then hold anything.
#[derive(Clone)]
struct Memory {
    bytes: Vec<u8>,
    /// Writes until the power fails.
    writes_left: Option<u32>,
    garbage: u8,
    writes: u32,
}

impl Memory {
    fn blank() -> Self {
        Self { bytes: vec![0xFF; SIZE], writes_left: None, garbage: 0, writes: 0 }
    }

    fn powered(&self) -> Self {
        Self { writes_left: None, writes: 0, ..self.clone() }
    }
}

impl Eeprom for Memory {
    async fn read(&mut self, at: usize, into: &mut [u8]) -> Result<(), Failed> {
        let end = at.checked_add(into.len()).ok_or(Failed)?;
        into.copy_from_slice(self.bytes.get(at..end).ok_or(Failed)?);
        Ok(())
    }

    async fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        let room = self.bytes.get_mut(at..at + bytes.len()).ok_or(Failed)?;
        match &mut self.writes_left {
            Some(0) => {
                for (n, (to, from)) in room.iter_mut().zip(bytes).enumerate() {
                    // The first bytes may have arrived; the rest is neither old nor new.
                    *to = if n < usize::from(self.garbage & 3) {
                        *from
                    } else {
                        self.garbage.wrapping_mul(31) ^ *from
                    };
                }
                self.writes_left = None;
                self.bytes.shrink_to_fit();
                self.garbage = 0;
                Err(Failed)
            }
            left => {
                if let Some(left) = left {
                    *left -= 1;
                }
                self.writes += 1;
                room.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// These futures never wait.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future that waits"),
    }
}

#[test]
fn the_configuration_block_is_the_official_one() {
    let config = ConfigBlock { channel: 100, speed: 1, address: 0xE7_0102_0304, ..ConfigBlock::default() };
    let block = config.encode();
    assert_eq!(block[..7], [0x30, 0x78, 0x42, 0x43, 1, 100, 1]);
    assert_eq!(block[15..20], [0xE7, 0x04, 0x03, 0x02, 0x01]);
    assert_eq!(block[20], block[..20].iter().fold(0_u8, |a, b| a.wrapping_add(*b)));
    assert_eq!(ConfigBlock::decode(&block), Ok(config));
    for at in 0..21 {
        let mut damaged = block;
        damaged[at] ^= 1;
        assert!(ConfigBlock::decode(&damaged).is_err(), "byte {at}");
    }
    let impossible = ConfigBlock { channel: 126, ..config }.encode();
    assert!(ConfigBlock::decode(&impossible).is_err());
    // A blank memory gives the defaults, and has them afterwards.
    let mut store = Store::new(Memory::blank());
    assert_eq!(now(store.radio_config()), ConfigBlock::default());
    let memory = store.into_inner();
    assert_eq!(memory.bytes[..21], ConfigBlock::default().encode());
}

#[test]
fn a_configuration_is_the_old_or_the_new_one_after_any_cut() {
    let (old, new) = (
        ConfigBlock { channel: 10, ..ConfigBlock::default() },
        ConfigBlock { channel: 20, ..ConfigBlock::default() },
    );
    for cut in 0..3 {
        for garbage in 1..=255 {
            let mut store = Store::new(Memory::blank());
            now(store.set_radio_config(&old)).unwrap();
            let mut memory = store.into_inner();
            (memory.writes_left, memory.garbage) = (Some(cut), garbage);
            let mut store = Store::new(memory);
            let done = now(store.set_radio_config(&new)).is_ok();
            let mut store = Store::new(store.into_inner().powered());
            let found = now(store.radio_config());
            assert!(found == old || found == new, "cut {cut} garbage {garbage}: {found:?}");
            assert!(!done || found == new);
            assert_eq!(now(store.radio_config()), found, "and it stays");
        }
    }
}

#[test]
fn kept_parameters_come_back() {
    let mut store = Store::new(Memory::blank());
    let id = |group, name| param_id(group, name).unwrap();
    let job = |id, request| StoreJob { id, route: Route::Radio, request };
    for (id, value) in [
        (id("ctrlMel", "mass"), Value::F32(0.035)),
        (id("guard", "tiltMs"), Value::U16(77)),
        (id("stabilizer", "controller"), Value::U8(2)),
        (id("ctrlMel", "mass"), Value::F32(0.031)),
    ] {
        let done = now(store.run(job(id, StoreRequest::Keep(value.into()))));
        assert_eq!(done.result, Ok(Some(value.into())));
    }
    let mut settings = Settings::new();
    assert_eq!(now(store.load_params(&mut settings)), Ok(3));
    assert_eq!((settings.stock_mellinger.mass, settings.guard.tilt_ms), (0.031, 77));
    assert_eq!(settings.controller as u8, 2);
    let mass = id("ctrlMel", "mass");
    assert_eq!(now(store.run(job(mass, StoreRequest::Look))).result, Ok(Some(Value::F32(0.031).into())));
    assert_eq!(now(store.run(job(mass, StoreRequest::Forget))).result, Ok(None));
    assert_eq!(now(store.run(job(mass, StoreRequest::Look))).result, Ok(None));
    assert_eq!(now(store.proven_table()), 0);
    now(store.keep_proven_table(12)).unwrap();
    assert_eq!(now(store.proven_table()), 12);
    // The same value again is not written again.
    let mut memory = store.into_inner();
    memory.writes = 0;
    let mut store = Store::new(memory);
    now(store.keep_proven_table(12)).unwrap();
    assert_eq!(store.into_inner().writes, 0);
}

#[test]
fn values_change_for_ever_in_bounded_room() {
    let mut store = Store::new(Memory::blank());
    let persistent: Vec<_> = PARAMS.iter().filter(|p| p.persistent).collect();
    for round in 0..50_u32 {
        for param in &persistent {
            let key = format!("prm/{}.{}", param.group, param.name);
            let value = (round as f32).to_le_bytes();
            now(store.keep(&key, &value[..param.kind.size()])).unwrap();
        }
        now(store.keep_proven_table(round)).unwrap();
    }
    for param in &persistent {
        let key = format!("prm/{}.{}", param.group, param.name);
        let (value, length) = now(store.look(&key)).unwrap().unwrap();
        assert_eq!(value[..length], 49_f32.to_le_bytes()[..param.kind.size()]);
    }
    println!("{} parameters can be kept", persistent.len());
}

#[test]
fn a_value_is_the_old_or_the_new_one_after_any_cut() {
    for before in 0..4_u32 {
        for cut in 0..7 {
            for garbage in 1..=255 {
                let mut store = Store::new(Memory::blank());
                now(store.keep("prm/ctrlMel.mass", &7_u32.to_le_bytes())).unwrap();
                for value in 0..=before {
                    now(store.keep_proven_table(100 + value)).unwrap();
                }
                let mut memory = store.into_inner();
                (memory.writes_left, memory.garbage) = (Some(cut), garbage);
                let mut store = Store::new(memory);
                let done = now(store.keep_proven_table(999)).is_ok();
                let mut store = Store::new(store.into_inner().powered());
                let found = now(store.proven_table());
                let old = 100 + before;
                assert!(found == old || found == 999, "{before} cut {cut} garbage {garbage}: {found}");
                assert!(!done || found == 999);
                assert_eq!(
                    now(store.look("prm/ctrlMel.mass")).unwrap().unwrap().0[0],
                    7,
                    "others are not touched"
                );
                // And the store goes on working.
                now(store.keep_proven_table(555)).unwrap();
                assert_eq!(now(store.proven_table()), 555, "{before} cut {cut} garbage {garbage}");
                now(store.keep("prm/guard.rateMs", &[1, 0])).unwrap();
                assert_eq!(now(store.look("prm/guard.rateMs")).unwrap().unwrap().0[..2], [1, 0]);
                assert_eq!(now(store.look("prm/ctrlMel.mass")).unwrap().unwrap().0[0], 7);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_garbage_is_survived(bytes in prop::collection::vec(any::<u8>(), 1..300), at in 0..SIZE - 300, fill in any::<u8>()) {
        let mut memory = Memory::blank();
        memory.bytes.fill(fill);
        memory.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        memory.bytes[1024..1024 + bytes.len()].copy_from_slice(&bytes);
        let mut store = Store::new(memory);
        let config = now(store.radio_config());
        prop_assert!(config.channel <= 125);
        let mut settings = Settings::new();
        let _ = now(store.load_params(&mut settings));
        let _ = now(store.proven_table());
        if now(store.keep_proven_table(42)).is_ok() {
            prop_assert_eq!(now(store.proven_table()), 42);
        }
    }
}
