//! Round trips of every port, known packets, and hostile input.

#![allow(clippy::panic, reason = "that is how a test fails")]

use super::*;
use crate::commander::{HighLevel, Pace, Setpoint};
use crate::value::{Type, Value};
use crate::{Quat, Reference, Vec3};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

fn packet(bytes: &[u8]) -> Packet {
    Packet::from_bytes(bytes).unwrap()
}

fn raw() -> impl Strategy<Value = param::Raw> {
    prop::collection::vec(any::<u8>(), 0..=8).prop_map(|b| param::Raw::new(&b).unwrap())
}

fn vec3(limit: f32) -> impl Strategy<Value = Vec3> {
    (-limit..limit, -limit..limit, -limit..limit).prop_map(|(x, y, z)| Vec3::new(x, y, z))
}

fn quat() -> impl Strategy<Value = Quat> {
    (vec3(3.0)).prop_map(Quat::from_euler)
}

/// Angle between two attitudes, rad.
fn angle(a: Quat, b: Quat) -> f32 {
    let d = a.conjugate() * b;
    2.0 * (d.x * d.x + d.y * d.y + d.z * d.z).sqrt().min(1.0).asin()
}

#[test]
fn packets_have_one_to_32_bytes() {
    assert!(Packet::from_bytes(&[]).is_none());
    assert!(Packet::from_bytes(&[0; 33]).is_none());
    assert!(Packet::new(Port::Param, 1, &[0; 31]).is_none());
    let p = packet(&[0x5D, 5]);
    assert_eq!((p.port(), p.channel(), p.data(), p.is_null()), (Some(Port::Log), 1, &[5][..], false));
    assert!(packet(&[0xF3]).is_null() && packet(&[0xFF, 1]).is_null() && Packet::NULL.is_null());
    assert_eq!(packet(&[0x10]).port(), None);
}

#[test]
fn the_official_clients_packets_are_understood() {
    assert_eq!(platform::Request::decode(&packet(&[0xDD, 0])), Ok(platform::Request::ProtocolVersion));
    assert_eq!(log::Request::decode(&packet(&[0x5D, 5])), Ok(log::Request::Reset));
    assert_eq!(toc::Request::decode(&packet(&[0x5C, 3]), Port::Log), Ok(toc::Request::Info));
    assert_eq!(toc::Request::decode(&packet(&[0x2C, 2, 1, 2]), Port::Param), Ok(toc::Request::Item(513)));
    assert_eq!(memory::Request::decode(&packet(&[0x4C, 1])), Ok(memory::Request::Count));
    assert_eq!(param::Request::decode(&packet(&[0x2F, 7, 9, 0])), Ok(param::Request::ExtendedType(9)));
    assert_eq!(param::Request::decode(&packet(&[0x2D, 9, 0])), Ok(param::Request::Read(9)));
    // Nine variables and a stray byte.
    let mut bytes = std::vec![0x5D, 6, 3];
    for id in 0..9 {
        bytes.extend([0x77, id, 0]);
    }
    bytes.push(0x77);
    let Ok(log::Request::Create(3, variables)) = log::Request::decode(&packet(&bytes)) else { panic!() };
    assert_eq!(variables.iter().count(), 9);
}

#[test]
fn the_drones_answers_are_the_official_ones() {
    let info = toc::Reply::Info(toc::Info { count: 0x0102, crc: 0x0A0B_0C0D });
    assert_eq!(info.encode(Port::Param).unwrap().bytes(), [0x20, 3, 2, 1, 0x0D, 0x0C, 0x0B, 0x0A]);
    let bytes = info.encode(Port::Log).unwrap();
    assert_eq!(bytes.bytes(), [0x50, 3, 2, 1, 0x0D, 0x0C, 0x0B, 0x0A, 16, 128]);
    let item = toc::Reply::Item(toc::Item { id: 1, kind: 7, group: "pm", name: "vbat" });
    assert_eq!(item.encode(Port::Log).unwrap().bytes(), b"\x50\x02\x01\x00\x07pm\0vbat\0");
    let version = platform::Reply::ProtocolVersion(PROTOCOL_VERSION);
    assert_eq!(version.encode().unwrap().bytes(), [0xD1, 0, 12, 0, 0, 0]);
    assert_eq!(link::source().bytes().len(), 31);
    assert!(link::is_crazyflie(&link::source()));
    assert_eq!(supervisor::Reply::Bitfield(0x0102).encode().bytes(), [0x90, 0x8C, 2, 1]);
}

#[test]
fn pitch_and_old_yaw_rates_are_inverted_on_the_wire_only() {
    let rpyt = setpoint::Rpyt { roll: 0.1, pitch: 0.2, yaw_rate: 0.3, thrust: 40_000 };
    let bytes = rpyt.encode();
    let mut r = Reader::new(bytes.data());
    assert!((r.f32().unwrap() - 5.729_578).abs() < 1e-4);
    assert!((r.f32().unwrap() + 11.459_156).abs() < 1e-4);
    assert!((r.f32().unwrap() + 17.188_734).abs() < 1e-4);
    let hover = |kind: u8| {
        let mut b = Builder::new(Port::Setpoint, 0);
        b.put(&[kind]).f32(0.1).f32(0.2).f32(90.0).f32(1.0);
        match setpoint::Request::decode(&b.packet()) {
            Ok(setpoint::Request::Setpoint(Setpoint::Hover { yaw_rate, .. })) => yaw_rate,
            other => panic!("{other:?}"),
        }
    };
    assert!(
        (hover(10) - core::f32::consts::FRAC_PI_2).abs() < 1e-5
            && (hover(5) + core::f32::consts::FRAC_PI_2).abs() < 1e-5
    );
    let dead = setpoint::Rpyt { thrust: 999, ..rpyt };
    assert!(matches!(dead.setpoint(), Setpoint::Manual { thrust: 0.0, .. }));
}

#[test]
fn setpoints_that_are_no_numbers_are_refused() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut b = Builder::new(Port::Setpoint, 0);
        b.put(&[7]).f32(0.0).f32(bad).f32(1.0).f32(0.0);
        assert_eq!(setpoint::Request::decode(&b.packet()), Err(Malformed::Value));
        let position = localization::Request::Position(Vec3::new(0.0, bad, 0.0)).encode();
        assert_eq!(localization::Request::decode(&position), Err(Malformed::Value));
        let pose = localization::Request::Pose(Vec3::ZERO, Quat::new(1.0, bad, 0.0, 0.0)).encode();
        assert_eq!(localization::Request::decode(&pose), Err(Malformed::Value));
    }
    let no_rotation = localization::Request::Pose(Vec3::ZERO, Quat::new(0.0, 0.0, 0.0, 0.0)).encode();
    assert_eq!(localization::Request::decode(&no_rotation), Err(Malformed::Value));
}

#[test]
fn an_emergency_stop_is_understood_whatever_follows() {
    for tail in [&[][..], &[1, 2, 3]] {
        let with = |head: &[u8]| packet(&[head, tail].concat());
        assert_eq!(supervisor::Request::decode(&with(&[0x91, 3])), Ok(supervisor::Request::EmergencyStop));
        assert_eq!(
            localization::Request::decode(&with(&[0x61, 3])),
            Ok(localization::Request::EmergencyStop)
        );
    }
}

#[test]
fn console_text_is_split_between_characters() {
    let text = "Höhe in µm und Ähnliches: čřž 0123456789 ✈✈✈✈✈✈✈✈✈✈✈✈";
    let (mut rest, mut joined, mut packets) = (text, String::new(), 0);
    while !rest.is_empty() {
        let (packet, after) = console::encode(rest);
        joined.push_str(std::str::from_utf8(console::decode(&packet).unwrap()).unwrap());
        (rest, packets) = (after, packets + 1);
    }
    assert_eq!(joined, text);
    assert!(packets >= text.len().div_ceil(30));
}

#[test]
fn toc_checksums_depend_on_everything() {
    let crc = |entries: &[(u8, &str)]| entries.iter().fold(toc::TocCrc(0), |c, (k, n)| c.with(*k, n)).0;
    let one = crc(&[(0x81, "pm"), (7, "vbat"), (0x80, "pm")]);
    assert_ne!(one, crc(&[(0x81, "pm"), (6, "vbat"), (0x80, "pm")]));
    assert_ne!(one, crc(&[(0x81, "pm"), (7, "vbaT"), (0x80, "pm")]));
    assert_ne!(one, crc(&[(7, "vbat"), (0x81, "pm"), (0x80, "pm")]));
}

#[test]
fn types_have_the_official_codes() {
    for kind in Type::ALL {
        assert_eq!(param::type_of(param::type_code(kind) | param::READ_ONLY), Some(kind));
        assert_eq!(log::type_of(log::type_code(kind) | 0x70), Some(kind));
    }
    assert_eq!((param::type_code(Type::F32), log::type_code(Type::F32)), (6, 7));
    assert_eq!(param::Raw::from(Value::I16(-2)).bytes(), [0xFE, 0xFF]);
    assert_eq!(param::Raw::from(Value::I16(-2)).value(Type::I16), Some(Value::I16(-2)));
    assert_eq!(param::Raw::from(Value::I16(-2)).value(Type::F32), None);
}

fn param_request() -> impl Strategy<Value = (u8, u16, param::Raw)> {
    (0_u8..10, any::<u16>(), raw())
}

proptest! {
    #[test]
    fn parameter_requests((kind, id, value) in param_request()) {
        use param::Request as R;
        let request = match kind {
            0 => R::Read(id),
            1 => R::Write(id, value),
            2 => R::SetByName { group: "ctrlMel", name: "kp_xy", kind: 6, value },
            3 => R::ExtendedTypeOld(id),
            4 => R::Store(id),
            5 => R::StoredState(id),
            6 => R::Clear(id),
            7 => R::DefaultOld(id),
            8 => R::ExtendedType(id),
            _ => R::Default(id),
        };
        let packet = request.encode().unwrap();
        prop_assert_eq!(R::decode(&packet), Ok(request));
    }

    #[test]
    fn parameter_replies(kind in 0..14_u8, id in any::<u16>(), value in raw(), v4 in any::<[u8; 4]>(), e in 2_u8..30) {
        use param::Reply as R;
        let four = param::Raw::new(&v4).unwrap();
        let reply = match kind {
            0 => R::Read(id, Ok(value)),
            1 => R::Read(id, Err(e)),
            2 => R::Write(id, value),
            3 => R::SetByName { group: "g", name: "n", error: e },
            4 => R::Changed(id, value),
            5 => R::ExtendedTypeOld(id, e),
            6 => R::Store(id, e),
            7 => R::StoredState(id, Ok((four, None))),
            8 => R::StoredState(id, Ok((four, Some(four)))),
            9 => R::StoredState(id, Err(e)),
            10 => R::Clear(id, 0),
            11 => R::ExtendedType(id, Ok(1)),
            12 => R::Default(id, Ok(value)),
            _ => R::Default(id, Err(e)),
        };
        let packet = reply.encode().unwrap();
        prop_assert_eq!(R::decode(&packet), Ok(reply));
    }

    #[test]
    fn log_requests(
        kind in 0..7_u8, block in any::<u8>(), period in any::<u16>(),
        list in prop::collection::vec((any::<u8>(), any::<u16>()), 0..=9),
    ) {
        use log::Request as R;
        let list: Vec<_> = list.into_iter().map(|(kind, id)| log::Variable { kind, id }).collect();
        let variables = log::Variables::new(&list).unwrap();
        let request = match kind {
            0 => R::Create(block, variables),
            1 => R::Append(block, variables),
            2 => R::Delete(block),
            3 => R::Start { block, period_ms: period, old: false },
            4 => R::Start { block, period_ms: period % 256 * 10, old: true },
            5 => R::Stop(block),
            _ => R::Reset,
        };
        prop_assert_eq!(R::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn log_replies(command in any::<u8>(), block in any::<u8>(), time in 0..1_u32 << 24,
                   values in prop::collection::vec(any::<u8>(), 0..=log::MAX_PAYLOAD)) {
        let control = log::Reply::Control { command, block, error: 2 };
        let packet = control.encode().unwrap();
        prop_assert_eq!(log::Reply::decode(&packet), Ok(control));
        let data = log::Reply::Data { block, time_ms: time, values: &values };
        let packet = data.encode().unwrap();
        prop_assert_eq!(log::Reply::decode(&packet), Ok(data));
    }

    #[test]
    fn memory_both_ways(kind in 0..8_u8, id in any::<u8>(), address in any::<u32>(), n in 0..=24_u8,
                        bytes in prop::collection::vec(any::<u8>(), 0..=24), serial in any::<[u8; 8]>()) {
        use memory::{Data, Reply, Request};
        let data = Data::new(&bytes).unwrap();
        let request = match kind {
            0 => Request::Count,
            1 => Request::Info(id),
            2 => Request::Read { id, address, length: n },
            _ => Request::Write { id, address, data },
        };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        let reply = match kind {
            0 => Reply::Count(n),
            1 => Reply::Info { id, kind: n, size: address, serial },
            2 => Reply::Read { id, address, data: Ok(data) },
            3 => Reply::Read { id, address, data: Err(errno::EIO) },
            _ => Reply::Write { id, address, error: n },
        };
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn tables_of_contents(id in any::<u16>(), kind in any::<u8>(), group in "[a-z]{1,12}", name in "[a-zA-Z_]{1,12}") {
        for port in [Port::Param, Port::Log] {
            for request in [toc::Request::Info, toc::Request::Item(id)] {
                prop_assert_eq!(toc::Request::decode(&request.encode(port), port), Ok(request));
            }
            let item = toc::Reply::Item(toc::Item { id, kind, group: &group, name: &name });
            let info = toc::Reply::Info(toc::Info { count: id, crc: u32::from(kind) });
            for reply in [item, info, toc::Reply::NoItem] {
                let packet = reply.encode(port).unwrap();
                prop_assert_eq!(toc::Reply::decode(&packet, port), Ok(reply));
            }
        }
    }

    #[test]
    fn platform_and_supervisor_both_ways(a in any::<bool>(), b in any::<bool>(), n in 0..11_u8, bits in any::<u16>(),
                                         text in "[ -~]{0,29}", version in any::<i32>()) {
        {
            use platform::{Reply, Request};
            for request in [Request::ContinuousWave(a), Request::Arm(a), Request::Recover, Request::Notify(n),
                            Request::ProtocolVersion, Request::FirmwareVersion, Request::DeviceName] {
                prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
            for reply in [Reply::Arm { success: a, armed: b }, Reply::Recover { success: a, recovered: b },
                          Reply::ContinuousWave(a), Reply::Notified, Reply::ProtocolVersion(version),
                          Reply::FirmwareVersion(&text), Reply::DeviceName(&text)] {
                let packet = reply.encode().unwrap();
                prop_assert_eq!(Reply::decode(&packet), Ok(reply));
            }
        }
        use supervisor::{Reply, Request};
        for request in [Request::Flag(n), Request::Bitfield, Request::Arm(a), Request::Recover,
                        Request::EmergencyStop, Request::EmergencyWatchdog] {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for reply in [Reply::Flag(n, a), Reply::Bitfield(bits), Reply::Arm { success: a, armed: b },
                      Reply::Recover { success: a, recovered: b }] {
            prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn high_level_commands(group in any::<u8>(), p in vec3(5.0), yaw in -3.0_f32..3.0, s in 0.1_f32..9.0,
                           flags in any::<[bool; 3]>(), id in any::<u8>(), offset in any::<u32>()) {
        use high_level::{Reply, Request};
        let [relative, linear, keep] = flags;
        let yaw_or = (!keep).then_some(yaw);
        let actions = [
            HighLevel::TakeOff { height: p.z, relative: false, yaw: yaw_or, pace: Pace::Duration(s) },
            HighLevel::TakeOff { height: p.z, relative, yaw: yaw_or, pace: Pace::Speed(s) },
            HighLevel::Land { height: p.z, relative: false, yaw: yaw_or, pace: Pace::Duration(s) },
            HighLevel::Land { height: p.z, relative, yaw: yaw_or, pace: Pace::Speed(s) },
            HighLevel::Stop,
            HighLevel::GoTo { relative, linear, position: p, yaw, duration: s },
            HighLevel::Spiral { sideways: relative, clockwise: linear, angle: yaw, start_radius: p.x,
                                end_radius: p.y, climb: p.z, duration: s },
            HighLevel::StartTrajectory { id, time_scale: s, reversed: relative, relative_position: linear, relative_yaw: keep },
        ];
        for action in actions {
            let request = Request::Fly { group, action };
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        let define = Request::everyone(HighLevel::DefineTrajectory { id, offset, pieces: group });
        prop_assert_eq!(Request::decode(&define.encode()), Ok(define));
        let mask = Request::SetGroupMask(group);
        prop_assert_eq!(Request::decode(&mask.encode()), Ok(mask));
        let reply = Reply::to(&define.encode(), errno::EBUSY);
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn setpoints(p in vec3(5.0), v in vec3(3.0), angle_a in -1.0_f32..1.0, angle_b in -1.0_f32..1.0,
                 rate in -6.0_f32..6.0, unit in 0.0_f32..1.0, on in any::<bool>(), ms in any::<u32>()) {
        use setpoint::Request;
        let (roll, pitch, yaw_rate) = (angle_a, angle_b, rate);
        let reference = Reference { position: p, velocity: v, acceleration: v, yaw: rate / 2.0, yaw_rate: v.z };
        let near = |a: f32, b: f32| (a - b).abs() < 1e-5 * (1.0 + b.abs());
        let check = |s: Setpoint| match Request::decode(&Request::Setpoint(s).encode()) {
            Ok(Request::Setpoint(got)) => got,
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(check(Setpoint::Stop), Setpoint::Stop);
        let Setpoint::Position { position, yaw } = check(Setpoint::Position { position: p, yaw: angle_a }) else { panic!() };
        prop_assert!(position == p && near(yaw, angle_a));
        let Setpoint::Velocity { velocity, yaw_rate: r } = check(Setpoint::Velocity { velocity: v, yaw_rate }) else { panic!() };
        prop_assert!(velocity == v && near(r, yaw_rate));
        let Setpoint::Hover { yaw_rate: r, height, .. } =
            check(Setpoint::Hover { forward: v.x, left: v.y, yaw_rate, height: p.z }) else { panic!() };
        prop_assert!(height == p.z && near(r, yaw_rate));
        let Setpoint::HeightAttitude { roll: a, pitch: b, yaw_rate: r, .. } =
            check(Setpoint::HeightAttitude { roll, pitch, yaw_rate, height: p.z }) else { panic!() };
        prop_assert!(near(a, roll) && near(b, pitch) && near(r, yaw_rate));
        let Setpoint::ClimbAttitude { roll: a, pitch: b, yaw_rate: r, .. } =
            check(Setpoint::ClimbAttitude { roll, pitch, yaw_rate, climb: v.z }) else { panic!() };
        prop_assert!(near(a, roll) && near(b, pitch) && near(r, yaw_rate));
        let Setpoint::Manual { roll: a, pitch: b, thrust, rates, .. } =
            check(Setpoint::Manual { roll, pitch, yaw_rate, thrust: unit, rates: on }) else { panic!() };
        prop_assert!(near(a, roll) && near(b, pitch) && (thrust - unit).abs() < 1e-5 && rates == on);
        let Setpoint::FullState { reference: got, rates } =
            check(Setpoint::FullState { reference, rates: v }) else { panic!() };
        prop_assert!((got.position - p).norm() < 1e-3 && (got.velocity - v).norm() < 1e-3);
        prop_assert!((got.yaw - reference.yaw).abs() < 4e-3 && (rates - v).norm() < 1e-3, "{} {}", got.yaw, reference.yaw);
        let stop = Request::NotifyStop { remain_valid_ms: ms };
        prop_assert_eq!(Request::decode(&stop.encode()), Ok(stop));
        let rpyt = setpoint::Rpyt { roll, pitch, yaw_rate, thrust: 30_000 };
        let got = setpoint::Rpyt::decode(&rpyt.encode()).unwrap();
        prop_assert!(near(got.pitch, pitch) && near(got.yaw_rate, yaw_rate) && got.thrust == 30_000);
    }

    #[test]
    fn motion_capture(p in vec3(30.0), q in quat(), ids in any::<[u8; 4]>(), n in 0..=4_usize) {
        use localization::{Request, Seen};
        let position = Request::Position(p);
        prop_assert_eq!(Request::decode(&position.encode()), Ok(position));
        let Ok(Request::Pose(at, attitude)) = Request::decode(&Request::Pose(p, q).encode()) else { panic!() };
        prop_assert!(at == p && angle(attitude, q) < 1e-3);
        let seen = |i: usize| (i < n).then_some(Seen { id: ids[i], position: p, attitude: q });
        let all = [seen(0), seen(1), seen(2), seen(3)];
        let Ok(Request::PackedPositions(got)) = Request::decode(&Request::PackedPositions(all).encode()) else { panic!() };
        prop_assert_eq!(got.iter().flatten().count(), n);
        prop_assert!(got.iter().flatten().zip(ids).all(|(s, id)| s.id == id && (s.position - p).norm() < 1e-3));
        let Ok(Request::PackedPoses(got)) = Request::decode(&Request::PackedPoses([seen(0), seen(1)]).encode()) else { panic!() };
        prop_assert_eq!(got.iter().flatten().count(), n.min(2));
        prop_assert!(got.iter().flatten().all(|s| angle(s.attitude, q) < 5e-3));
    }

    #[test]
    fn any_number_unpacks_to_a_rotation(packed in any::<u32>()) {
        let q = quaternion::decompress(packed);
        let n2 = q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z;
        prop_assert!((n2 - 1.0).abs() < 1e-3, "{q:?}");
    }

    #[test]
    fn anything_is_survived(bytes in prop::collection::vec(any::<u8>(), 1..=32)) {
        decode_everything(&packet(&bytes));
    }
}

fn decode_everything(packet: &Packet) {
    let _ = (platform::Request::decode(packet), platform::Reply::decode(packet));
    let _ = (param::Request::decode(packet), param::Reply::decode(packet));
    let _ = (log::Request::decode(packet), log::Reply::decode(packet));
    let _ = (memory::Request::decode(packet), memory::Reply::decode(packet));
    let _ = (high_level::Request::decode(packet), high_level::Reply::decode(packet));
    let _ = (supervisor::Request::decode(packet), supervisor::Reply::decode(packet));
    let _ = (setpoint::Request::decode(packet), setpoint::Rpyt::decode(packet));
    let _ = (localization::Request::decode(packet), console::decode(packet));
    for port in [Port::Param, Port::Log] {
        let _ = (toc::Request::decode(packet, port), toc::Reply::decode(packet, port));
    }
}
