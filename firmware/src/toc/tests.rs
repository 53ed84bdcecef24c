//! The tables keep what the protocol promises.

extern crate std;

use std::collections::HashSet;
use std::vec::Vec;

use proptest::prelude::*;
use steady_common::crtp::toc::MAX_NAMES;
use steady_common::gains::GAINS;

use super::*;

#[test]
fn names_are_unique_fit_and_stand_with_their_group() {
    let params = PARAMS.iter().map(|p| (p.group, p.name));
    let logs = LOGS.iter().map(|l| (l.group, l.name));
    for items in [params.collect::<Vec<_>>(), logs.collect::<Vec<_>>()] {
        let mut seen = HashSet::new();
        let mut closed = HashSet::new();
        let mut open = "";
        for (group, name) in items {
            assert!(seen.insert((group, name)), "{group}.{name} twice");
            assert!(group.len() + name.len() + 2 <= MAX_NAMES, "{group}.{name}");
            if group != open {
                assert!(closed.insert(group), "group {group} is not in one piece");
                open = group;
            }
        }
    }
}

#[test]
fn what_reads_as_a_type_writes_as_it() {
    let (mut settings, telemetry, device) = (Settings::new(), Telemetry::default(), Device::default());
    for param in PARAMS {
        let value = (param.get)(&View { settings: &settings, telemetry: &telemetry, device: &device });
        assert_eq!(value.kind(), param.kind, "{param:?}");
        if let Some(set) = param.set {
            // What a parameter starts with must be a value it takes, and nothing may change by it.
            assert_ne!(set(&mut settings, value), Set::Refused, "{param:?}");
            assert_eq!(settings, Settings::new(), "{param:?}");
            let other = if param.kind == Type::F32 { Value::U8(1) } else { Value::F32(1.0) };
            assert_eq!(set(&mut settings, other), Set::Refused, "{param:?}");
            if param.kind == Type::F32 {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    assert_eq!(set(&mut settings, Value::F32(bad)), Set::Refused, "{param:?}");
                }
            }
        }
    }
    for log in LOGS {
        let value = (log.get)(&View { settings: &settings, telemetry: &telemetry, device: &device });
        assert_eq!(value.kind(), log.kind, "{log:?}");
    }
}

#[test]
fn doubtful_self_tests_are_a_log_variable() {
    let log = LOGS.iter().find(|l| (l.group, l.name) == ("steady", "selfTest")).unwrap();
    for (gyro_rate, accelerometer_push, bits) in [(false, false, 0), (true, false, 1), (false, true, 2)] {
        let doubts = crate::drivers::Doubts { gyro_rate, accelerometer_push };
        let (settings, telemetry) = (Settings::new(), Telemetry::default());
        let device = Device { doubts, ..Device::default() };
        let view = View { settings: &settings, telemetry: &telemetry, device: &device };
        assert_eq!((log.get)(&view), Value::U8(bits));
        assert_eq!(doubts.lines().count() as u8, bits.min(1));
    }
}

proptest! {
    /// Fence, voltages, times, gains: no NaN can switch a check off.
    #[test]
    fn whatever_is_written_every_setting_stays_a_number(bits in prop::collection::vec(any::<u32>(), PARAMS.len())) {
        let (mut settings, telemetry, device) = (Settings::new(), Telemetry::default(), Device::default());
        let writable = PARAMS.iter().zip(&bits).filter(|(param, _)| param.kind == Type::F32);
        for (param, bits) in writable {
            // Half of all bit patterns are near one, where some are taken.
            let written = if bits & 1 == 0 { f32::from_bits(*bits) } else { *bits as f32 * 1e-9 };
            let outcome = param.set.map(|set| set(&mut settings, Value::F32(written)));
            let view = View { settings: &settings, telemetry: &telemetry, device: &device };
            let read = match (param.get)(&view) {
                Value::F32(read) => read,
                _ => f32::NAN,
            };
            prop_assert!(read.is_finite(), "{:?} is {read} after {written}", param);
            prop_assert!(outcome != Some(Set::Done) || read == written, "{:?}", param);
        }
    }
}

#[test]
fn every_gain_has_its_parameter_at_its_place() {
    let first = PARAMS.iter().position(|p| (p.group, p.name) == ("gain", "posPxy")).unwrap();
    let (telemetry, device) = (Telemetry::default(), Device::default());
    for (n, info) in GAINS.iter().enumerate() {
        let mut settings = Settings::new();
        let param = &PARAMS[first + n];
        let middle = f32::midpoint(info.min, info.nominal);
        assert_eq!((param.set.unwrap())(&mut settings, Value::F32(middle)), Set::Done, "{}", info.name);
        let changed = settings.try_out.gains.to_array();
        for (m, nominal) in GAINS.iter().map(|g| g.nominal).enumerate() {
            assert_eq!(changed[m], if m == n { middle } else { nominal }, "{param:?} is not {}", info.name);
        }
        let view = View { settings: &settings, telemetry: &telemetry, device: &device };
        assert_eq!((param.get)(&view), Value::F32(middle));
        assert_eq!((param.set.unwrap())(&mut settings, Value::F32(info.max * 1.01)), Set::Refused);
    }
}

#[test]
fn checksums_tell_the_tables_apart() {
    assert_ne!(params_crc(), logs_crc());
    assert_eq!(param_id("stabilizer", "controller"), Some(0));
    assert_eq!(param(param_id("usd", "canLog").unwrap()).unwrap().type_byte(), 0x48);
    assert_eq!(param(param_id("ctrlMel", "kp_xy").unwrap()).unwrap().type_byte(), 0x16);
    assert!(log_id("pm", "vbat").is_some() && log_id("pm", "vba").is_none());
}

#[test]
fn the_names_the_paper_logs_are_there() {
    for (group, names) in [
        ("stabilizer", &["roll", "pitch", "yaw"][..]),
        ("ctrlMel", &["pos_error_x", "pos_error_y", "pos_error_z", "i_err_mx", "i_err_my", "i_err_mz"]),
        ("stateEstimate", &["vx", "vy", "vz"]),
        ("stateEstimateZ", &["rateRoll", "ratePitch", "rateYaw"]),
        ("motor", &["m1req", "m2req", "m3req", "m4req"]),
    ] {
        for name in names {
            assert!(log_id(group, name).is_some(), "{group}.{name}");
        }
    }
}
