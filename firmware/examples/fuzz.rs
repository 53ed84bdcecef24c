//! Hostile input for everything that reads bytes from outside: nothing may panic, and nothing that
//! comes out may be outside its range.
//!
//! ```text
//! cargo xtask fuzz [--cases 12000000] [--seed 1] [--target crtp]
//! cargo run --profile test -p steady-firmware --example fuzz -- [the same]
//! ```
//!
//! The profile `test` is optimised and checks arithmetic for overflow, which `release` does not. Damaged
//! cards are for `release`: embedded-sdmmc's arithmetic overflows on them, which on the drone wraps
//! around, and the storage refuses the blocks that come out of it.
//! Inputs are valid ones with damage: changed, missing, repeated and swapped bytes, and extreme
//! numbers. Cases are grouped into episodes of a hundred, which share the state of what they attack.
//! An episode depends on the seed and its number only; a failure prints the command that repeats it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure is what it looks for")]

#[path = "../tests/ram_card/mod.rs"]
mod ram_card;

use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use steady_common::cload;
use steady_common::commander::{Command, HighLevel, Pace, Setpoint};
use steady_common::config_block::ConfigBlock;
use steady_common::crtp::{
    Packet, Port, console, high_level, link, localization, log, memory, param, platform, setpoint,
    supervisor, toc as crtp_toc,
};
use steady_common::gain_table::{GainTable, PAGE_SIZE};
use steady_common::syslink::{Frame, Kind, MAX_DATA, Parser};
use steady_common::transition::{Decoder, Transition};
use steady_common::usdlog::{FILE_CRC, Header, Layout, Scanner, Type, write};
use steady_common::value::Value;
use steady_common::{Quat, Vec3, planner};
use steady_firmware::eeprom::{Eeprom, Failed, SIZE, Store};
use steady_firmware::route::Route;
use steady_firmware::services::{Context, Device, Services, StoreDone};
use steady_firmware::settings::Settings;
use steady_firmware::storage::Config;
use steady_firmware::telemetry::Telemetry;
use steady_firmware::toc::{LOGS, PARAMS, Set, View};

/// Cases that share state.
const EPISODE: u64 = 100;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// Mostly ordinary numbers, sometimes the worst there are.
    fn float(&mut self) -> f32 {
        const WORST: [f32; 9] = [
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-42,
        ];
        match self.below(4) {
            0 => WORST[self.below(WORST.len())],
            1 => f32::from_bits(self.next() as u32),
            _ => (self.next() as i32) as f32 * 1e-8,
        }
    }

    fn vector(&mut self) -> Vec3 {
        Vec3::new(self.float(), self.float(), self.float())
    }

    /// Damages bytes; one in eight stays as it is.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        const WORST: [u8; 6] = [0x00, 0xFF, 0x7F, 0x80, 0xBC, b'\n'];
        for _ in 0..self.below(8) {
            let at = self.below(bytes.len() + 1);
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, WORST[self.below(WORST.len())]),
                2 if at < bytes.len() => {
                    bytes.remove(at);
                }
                3 if at < bytes.len() => bytes[at] = WORST[self.below(WORST.len())],
                4 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                5 if at + 4 <= bytes.len() => bytes[at..at + 4].copy_from_slice(&self.float().to_le_bytes()),
                6 => {
                    let end = (at + self.below(20)).min(bytes.len());
                    let again = bytes[at.min(end)..end].to_vec();
                    bytes.splice(at..at, again);
                }
                _ if at < bytes.len() => bytes[at] = self.byte(),
                _ => {}
            }
        }
    }
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future that waits"),
    }
}

/// A valid packet of any port.
fn packet(r: &mut Random) -> Packet {
    let id = r.below(PARAMS.len() + 3) as u16;
    let raw = param::Raw::new(&r.next().to_le_bytes()[..r.below(9)]).unwrap();
    let value: param::Raw = Value::F32(r.float()).into();
    let log_variables: Vec<_> = (0..r.below(10))
        .map(|_| log::Variable { kind: 1 + r.below(8) as u8, id: r.below(LOGS.len() + 2) as u16 })
        .collect();
    let variables = log::Variables::new(&log_variables).unwrap();
    let (block, flag) = (r.below(20) as u8, r.below(2) == 0);
    let data = memory::Data::new(&r.next().to_le_bytes()[..r.below(9)]).unwrap();
    let (p, q) = (r.vector(), Quat::from_euler(r.vector()));
    let (float, float2) = (r.float(), r.float());
    let seen = |id: u8| Some(localization::Seen { id, position: p, attitude: q });
    match r.below(40) {
        0 => param::Request::Read(id).encode().unwrap(),
        1 => param::Request::Write(id, raw).encode().unwrap(),
        2 | 3 => param::Request::Write(id, value).encode().unwrap(),
        4 => {
            let item = &PARAMS[r.below(PARAMS.len())];
            let (group, name) = (item.group, item.name);
            let value = if item.kind == Type::F32 { value } else { raw };
            param::Request::SetByName { group, name, kind: item.type_byte(), value }
                .encode()
                .unwrap_or(Packet::NULL)
        }
        5 => param::Request::Store(id).encode().unwrap(),
        6 => param::Request::StoredState(id).encode().unwrap(),
        7 => param::Request::Clear(id).encode().unwrap(),
        8 => param::Request::Default(id).encode().unwrap(),
        9 => param::Request::ExtendedType(id).encode().unwrap(),
        10 => crtp_toc::Request::Item(id).encode(if flag { Port::Param } else { Port::Log }),
        11 => log::Request::Create(block, variables).encode(),
        12 => log::Request::Append(block, variables).encode(),
        13 => log::Request::Start { block, period_ms: r.next() as u16 % 50, old: flag }.encode(),
        14 => log::Request::Stop(block).encode(),
        15 => log::Request::Delete(block).encode(),
        16 => memory::Request::Read { id: block % 4, address: r.next() as u32, length: block }.encode(),
        17 => memory::Request::Write { id: block % 4, address: (r.next() % 4200) as u32, data }.encode(),
        18 => memory::Request::Info(block).encode(),
        19 => setpoint::Request::Setpoint(Setpoint::Position { position: p, yaw: float }).encode(),
        20 => setpoint::Request::Setpoint(Setpoint::Velocity { velocity: p, yaw_rate: float }).encode(),
        21 => {
            let reference = steady_common::Reference {
                position: p,
                velocity: p,
                acceleration: p,
                yaw: float,
                yaw_rate: float,
            };
            setpoint::Request::Setpoint(Setpoint::FullState { reference, rates: p }).encode()
        }
        22 => setpoint::Request::Setpoint(Setpoint::Hover {
            forward: p.x,
            left: p.y,
            yaw_rate: float,
            height: p.z,
        })
        .encode(),
        23 => {
            let manual =
                Setpoint::Manual { roll: p.x, pitch: p.y, yaw_rate: p.z, thrust: float, rates: flag };
            setpoint::Request::Setpoint(manual).encode()
        }
        24 => setpoint::Rpyt { roll: p.x, pitch: p.y, yaw_rate: p.z, thrust: r.next() as u16 }.encode(),
        25 => setpoint::Request::NotifyStop { remain_valid_ms: r.next() as u32 }.encode(),
        26 => {
            let action = HighLevel::TakeOff {
                height: float,
                relative: flag,
                yaw: Some(p.x),
                pace: Pace::Speed(float2),
            };
            high_level::Request::Fly { group: block % 4, action }.encode()
        }
        27 => {
            let action =
                HighLevel::GoTo { relative: flag, linear: !flag, position: p, yaw: float, duration: float2 };
            high_level::Request::Fly { group: 0, action }.encode()
        }
        39 => {
            let action = HighLevel::Spiral {
                sideways: flag,
                clockwise: block % 2 == 0,
                angle: float,
                start_radius: p.x,
                end_radius: p.y,
                climb: p.z,
                duration: float2,
            };
            high_level::Request::Fly { group: 0, action }.encode()
        }
        28 => {
            let action =
                HighLevel::DefineTrajectory { id: r.byte(), offset: r.next() as u32, pieces: r.byte() };
            high_level::Request::everyone(action).encode()
        }
        29 => {
            let (relative_position, relative_yaw) = (flag, !flag);
            let id = r.byte() % 40;
            let action = HighLevel::StartTrajectory {
                id,
                time_scale: float,
                reversed: flag,
                relative_position,
                relative_yaw,
            };
            high_level::Request::everyone(action).encode()
        }
        30 => localization::Request::Position(p).encode(),
        31 => localization::Request::Pose(p, q).encode(),
        32 => localization::Request::PackedPositions([seen(0xE7), seen(1), None, seen(block)]).encode(),
        33 => localization::Request::PackedPoses([seen(block), seen(0xE7)]).encode(),
        34 => supervisor::Request::Arm(flag).encode(),
        35 => supervisor::Request::Flag(block % 12).encode(),
        36 => platform::Request::Notify(block).encode(),
        37 => platform::Request::Arm(flag).encode(),
        38 => Packet::new(Port::Link, block % 4, &r.next().to_le_bytes()).unwrap(),
        _ => Packet::new(Port::ALL[r.below(11)], block % 4, &r.next().to_le_bytes()[..r.below(9)]).unwrap(),
    }
}

/// What must hold of everything the flight task is told.
fn check_command(command: &Command) {
    match command {
        Command::Setpoint(setpoint) => assert!(setpoint.is_finite(), "{setpoint:?}"),
        Command::Mocap(mocap) => {
            assert!(mocap.position.is_finite() && mocap.position_std > 0.0, "{mocap:?}");
            assert!(mocap.attitude.is_none_or(|(q, std)| q.is_finite() && std > 0.0), "{mocap:?}");
        }
        Command::WriteTrajectory { offset, length, bytes } => {
            assert!(usize::from(*length) <= bytes.len(), "{command:?}");
            assert!(usize::from(*offset) + usize::from(*length) <= planner::MEMORY_LEN, "{command:?}");
        }
        Command::HighLevel(action) => assert!(
            planner::Status::default().check(action).is_ok()
                || matches!(
                    action,
                    HighLevel::Land { .. }
                        | HighLevel::GoTo { .. }
                        | HighLevel::Spiral { .. }
                        | HighLevel::StartTrajectory { .. }
                        | HighLevel::TakeOff { .. }
                ),
            "{action:?}"
        ),
        _ => {}
    }
}

/// What must hold of settings whatever was written: every parameter still takes its own value.
fn check_settings(settings: &Settings, telemetry: &Telemetry, device: &Device) {
    let mut copy = *settings;
    for param in PARAMS {
        let value = (param.get)(&View { settings, telemetry, device });
        if let Some(set) = param.set {
            assert_ne!(set(&mut copy, value), Set::Refused, "{param:?} = {value:?}");
        }
    }
}

fn crtp(r: &mut Random) {
    let mut services = Services::new();
    let mut settings = Settings::new();
    let mut telemetry = Telemetry::default();
    let device = Device { address: 0xE7, version: "fuzz", ..Device::default() };
    telemetry.supervisor = steady_common::supervisor::State::ALL[r.below(13)];
    telemetry.planner.phase =
        [planner::Phase::Idle, planner::Phase::Flying, planner::Phase::Landing][r.below(3)];
    let flash = vec![0xFF; 4096];
    let flash = flash.as_slice();
    let mut now_ms = r.next() as u32;
    for _ in 0..EPISODE {
        let mut bytes = packet(r).bytes().to_vec();
        r.damage(&mut bytes);
        now_ms = now_ms.wrapping_add(r.below(30) as u32);
        let Some(packet) = Packet::from_bytes(&bytes) else { continue };
        decode_all(&packet);
        let full = r.below(20) == 0;
        let mut send = |command: Command| {
            check_command(&command);
            !full
        };
        if r.below(50) == 0 {
            services.set_usb(r.below(2) == 0);
        }
        let mut context = Context {
            route: [Route::Radio, Route::Usb][r.below(2)],
            settings: &mut settings,
            telemetry: &telemetry,
            device: &device,
            flash: &flash,
            send: &mut send,
        };
        let answer = if r.below(8) == 0 {
            services.handle_broadcast(now_ms, &packet, &mut context);
            None
        } else {
            services.handle(now_ms, &packet, &mut context)
        };
        if let Some(answer) = answer {
            // An echo may be longer; everything else keeps to the protocol.
            assert!(answer.data().len() <= Packet::MAX_DATA || answer.port() == Some(Port::Link));
        }
        for _ in 0..3 {
            services.poll(now_ms, &context);
        }
        if let Some(job) = services.next_store_job() {
            let result = if r.below(2) == 0 { Ok(None) } else { Err(()) };
            services.store_done(&StoreDone { job, result }, &context);
        }
    }
    check_settings(&settings, &telemetry, &device);
}

fn decode_all(packet: &Packet) {
    let _ = (platform::Request::decode(packet), platform::Reply::decode(packet));
    let _ = (param::Request::decode(packet), param::Reply::decode(packet));
    let _ = (log::Request::decode(packet), log::Reply::decode(packet));
    let _ = (memory::Request::decode(packet), memory::Reply::decode(packet));
    let _ = (high_level::Request::decode(packet), high_level::Reply::decode(packet));
    let _ = (supervisor::Request::decode(packet), supervisor::Reply::decode(packet));
    let _ = (setpoint::Request::decode(packet), setpoint::Rpyt::decode(packet));
    let _ = (localization::Request::decode(packet), console::decode(packet), link::is_crazyflie(packet));
    let _ = (cload::Request::decode(packet), cload::Reply::decode(packet));
    for port in [Port::Param, Port::Log] {
        let _ = (crtp_toc::Request::decode(packet, port), crtp_toc::Reply::decode(packet, port));
    }
}

fn syslink(r: &mut Random) {
    let mut parser = Parser::new();
    for _ in 0..EPISODE {
        let data: Vec<u8> = (0..r.below(MAX_DATA + 1)).map(|_| r.byte()).collect();
        let kind = Kind::ALL[r.below(Kind::ALL.len())];
        let (bytes, length) = Frame::new(kind, &data).unwrap().encode();
        let mut bytes = bytes[..length].to_vec();
        r.damage(&mut bytes);
        for frame in bytes.iter().filter_map(|b| parser.push(*b)) {
            assert!(frame.data().len() <= MAX_DATA);
            let _ = Packet::from_bytes(frame.data()).map(|p| decode_all(&p));
            let _ = steady_common::syslink::BatteryState::decode(frame.data());
            let _ = steady_common::syslink::one_wire_read_answer(frame.data());
            let _ = steady_common::syslink::DeckId::decode(frame.data());
        }
    }
}

fn config(r: &mut Random) {
    let valid: &[u8] =
        b"1 # version\r\n512\nlog\n1\non:fixedFrequency\n250\n1\nstateEstimate.x\npm.vbat\nmotor.m1\n\
        on:estPosition\nx\non:fixedFrequency\n100\n0\nctrlMel.i_err_mx\n";
    for _ in 0..EPISODE {
        let mut bytes = valid.to_vec();
        r.damage(&mut bytes);
        if let Ok(config) = Config::parse(&bytes) {
            assert!(config.base.len() <= 6 && config.base.bytes().all(|b| b.is_ascii_graphic() && b != b'/'));
            for (_, variables) in config.plan.events() {
                assert!(variables.iter().all(|id| usize::from(*id) < LOGS.len()));
            }
        }
    }
}

fn gain_table(r: &mut Random) {
    for _ in 0..EPISODE {
        let mut table = GainTable { sequence: r.next() as u32, ..GainTable::built_in() };
        let mut gains = table.gains.to_array();
        if r.below(2) == 0 {
            gains[r.below(24)] = r.float();
            table.vehicle.mass = if r.below(4) == 0 { r.float() } else { 0.03 };
        }
        table.gains = steady_common::Gains::from_array(gains);
        // With a right checksum over wrong values, or with damage.
        let mut page = table.encode().to_vec();
        if r.below(3) > 0 {
            r.damage(&mut page);
            page.resize(PAGE_SIZE - r.below(3), 0xFF);
        }
        if let Ok(table) = GainTable::decode(&page) {
            assert!(table.check().is_ok() && table.gains.check().is_ok(), "{table:?}");
        }
    }
}

struct Memory(Vec<u8>);

impl Eeprom for Memory {
    async fn read(&mut self, at: usize, into: &mut [u8]) -> Result<(), Failed> {
        into.copy_from_slice(&self.0[at..at + into.len()]);
        Ok(())
    }

    async fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failed> {
        // Out of range would panic here.
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

fn eeprom(r: &mut Random) {
    let mut store = Store::new(Memory(vec![0xFF; SIZE]));
    for n in 0..EPISODE {
        let param = &PARAMS[r.below(PARAMS.len())];
        let key = format!("prm/{}.{}", param.group, param.name);
        let _ = now(store.keep(&key, &r.next().to_le_bytes()[..r.below(9)]));
        let mut memory = store.into_inner();
        for _ in 0..r.below(4) {
            let at = if r.below(3) == 0 { r.below(90) } else { 1024 + r.below(600) };
            memory.0[at] = r.byte();
        }
        if r.below(30) == 0 {
            let at = r.below(SIZE - 40);
            memory.0[at..at + 40].iter_mut().for_each(|b| *b = r.byte());
        }
        store = Store::new(memory);
        let config = now(store.radio_config());
        assert!(
            config.channel <= 125 && config.speed <= 2 && ConfigBlock::decode(&config.encode()) == Ok(config)
        );
        if n % 10 == 0 {
            let mut settings = Settings::new();
            let _ = now(store.load_params(&mut settings));
            check_settings(&settings, &Telemetry::default(), &Device::default());
        }
        let _ = now(store.forget(&key));
    }
}

fn usd_log(r: &mut Random) {
    let mut valid = Vec::new();
    let mut sink = |b: &[u8]| valid.extend_from_slice(b);
    write::begin(&mut sink, 2);
    write::transition_event(&mut sink);
    write::event(&mut sink, 0xFFFF, "fixedFrequency", 2);
    write::variable(&mut sink, &["pm.vbat"], Type::F32);
    write::variable(&mut sink, &["motor.m1"], Type::U16);
    let header = valid.len();
    for n in 0..4_u32 {
        let time_us = 1000 * u64::from(n);
        valid.extend(Transition { time_us, sequence: n, ..Transition::default() }.encode());
        valid.extend(write::record_prefix(0xFFFF, time_us));
        valid.extend([1, 2, 3, 4, 5, 6]);
    }
    let crc = FILE_CRC.checksum(&valid);
    valid.extend(crc.to_le_bytes());
    for _ in 0..EPISODE {
        let mut bytes = valid.clone();
        if r.below(2) == 0 {
            // The header is long; without aim the records would never be reached.
            let mut head = bytes[..header].to_vec();
            r.damage(&mut head);
            bytes.splice(..header, head);
        } else {
            let mut records = bytes.split_off(header);
            r.damage(&mut records);
            bytes.extend(records);
        }
        let Ok(header) = Header::parse(&bytes) else { continue };
        let Ok(layout) = Layout::new(&header) else { continue };
        let Ok(decoder) = Decoder::new(&header) else { continue };
        let mut scanner = Scanner::new(layout, &bytes);
        let mut at = header.length();
        let mut check = |record: steady_common::usdlog::Record<'_>| {
            let _ = decoder.as_ref().map(|d| d.decode(&record));
        };
        let split = at + r.below(bytes.len() - at + 1);
        at += scanner.push(&bytes[at..split], &mut check);
        let summary = scanner.finish(&bytes[at..], &mut check);
        assert!(summary.skipped_bytes <= bytes.len() as u64);
    }
}

/// A card whose file system is damaged: everything may fail, nothing may panic or go on for ever.
fn card(r: &mut Random) {
    use steady_firmware::storage::card::{Block, Card};
    let card = ram_card::RamCard::formatted(8);
    card.add_file("CONFIG  TXT", b"1\n512\nfly\n0\n");
    card.add_file("FLY00      ", b"old");
    let mut fat = steady_firmware::storage::FatCard::new(card);
    for _ in 0..EPISODE {
        for _ in 0..r.below(4) {
            let offset = if r.below(2) == 0 { r.below(96) } else { r.below(512) };
            let value = if r.below(2) == 0 { r.byte() } else { [0, 0xFF, 2, 3, 0x10][r.below(5)] };
            fat.device().corrupt(r.below(7), r.next() as u32, offset, value);
        }
        fat.device().limit_reads(3000);
        let mounted = fat.mount();
        let mut text = [0; 256];
        let _ = fat.read_config(&mut text);
        if mounted.is_ok() && fat.find_name("fly").is_ok() && fat.create("fly").is_ok() {
            let blocks = [Block::new(), Block::new()];
            while r.below(4) > 0 && fat.reserve_more() == Ok(true) {}
            let _ = fat.write(r.next() as u32 % 1000, &blocks);
            let _ = fat.commit(700);
            let _ = fat.close(1000);
        }
        if r.below(25) == 0 {
            fat.device().reformat();
        }
    }
}

type Target = (&'static str, fn(&mut Random));

const TARGETS: [Target; 7] = [
    ("crtp", crtp),
    ("syslink", syslink),
    ("config", config),
    ("gain_table", gain_table),
    ("eeprom", eeprom),
    ("usd_log", usd_log),
    ("card", card),
];

fn argument(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|a| a != name);
    args.next().and(args.next())
}

fn main() -> ExitCode {
    let number = |name: &str, default: u64| argument(name).map_or(Some(default), |t| t.parse().ok());
    let (Some(cases), Some(seed), Some(first)) =
        (number("--cases", 1_000_000), number("--seed", 1), number("--episode", 0))
    else {
        eprintln!("usage: fuzz [--cases N] [--seed N] [--target NAME] [--episode N]");
        return ExitCode::from(2);
    };
    let only = argument("--target");
    // Damaged cards need a build without checks of overflow: see above.
    let wanted = |name: &str| match only.as_deref() {
        Some(only) => only == name,
        None => name != "card" || !cfg!(debug_assertions),
    };
    let targets: Vec<Target> = TARGETS.into_iter().filter(|(name, _)| wanted(name)).collect();
    if targets.is_empty() {
        eprintln!("no such target; there are: {}", TARGETS.map(|(n, _)| n).join(", "));
        return ExitCode::from(2);
    }
    let episodes = cases.div_ceil(EPISODE * targets.len() as u64);
    for (name, attack) in targets {
        if name == "card" && cfg!(debug_assertions) {
            println!("{name:10} SKIPPED: needs --release");
            continue;
        }
        let start = Instant::now();
        for episode in first..first + episodes {
            let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ episode);
            let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack(&mut random)));
            if attempt.is_err() {
                eprintln!("repeat with: --target {name} --seed {seed} --episode {episode} --cases {EPISODE}");
                return ExitCode::FAILURE;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:10} {:>9} cases in {seconds:.1} s, nothing broken", episodes * EPISODE);
    }
    ExitCode::SUCCESS
}
