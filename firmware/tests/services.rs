//! The radio side as a client sees it: the official client's connect sequence, parameters, log
//! blocks, memories, arming, and packets that make no sense.
#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::collections::VecDeque;

use steady_common::commander::{Command, HighLevel, Pace, Setpoint};
use steady_common::config_block::ConfigBlock;
use steady_common::crtp::{
    Packet, Port, errno, high_level, localization, log, memory, param, setpoint, supervisor,
};
use steady_common::gain_table::{GainTable, PAGE_COUNT, PAGE_SIZE};
use steady_common::syslink::{Deck, DeckId, ONE_WIRE_SIZE};
use steady_common::value::{Type, Value};
use steady_common::{Quat, Vec3, planner, supervisor as core_supervisor};
use steady_firmware::route::Route;
use steady_firmware::services::{Context, Device, Services, StoreDone, StoreRequest};
use steady_firmware::settings::{Controller, Settings};
use steady_firmware::telemetry::Telemetry;
use steady_firmware::toc::{LOGS, PARAMS, log_id, logs_crc, param_id, params_crc};

/// A drone's radio side with everything around it.
struct Drone {
    services: Services,
    settings: Settings,
    telemetry: Telemetry,
    device: Device,
    flash: Vec<u8>,
    commands: VecDeque<Command>,
    queue_full: bool,
    now_ms: u32,
    route: Route,
}

impl Drone {
    fn new() -> Self {
        Self {
            services: Services::new(),
            settings: Settings::new(),
            telemetry: Telemetry { battery_v: 3.9, ..Telemetry::default() },
            device: Device { version: "steady 0.1.0", address: 0xE7, ..Device::default() },
            flash: vec![0xFF; PAGE_COUNT * PAGE_SIZE],
            commands: VecDeque::new(),
            queue_full: false,
            now_ms: 1000,
            route: Route::Radio,
        }
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut Services, u32, &mut Context<'_>) -> R) -> R {
        let (commands, full) = (&mut self.commands, self.queue_full);
        let mut send = |command| {
            if !full {
                commands.push_back(command);
            }
            !full
        };
        let flash = self.flash.as_slice();
        let mut context = Context {
            route: self.route,
            settings: &mut self.settings,
            telemetry: &self.telemetry,
            device: &self.device,
            flash: &flash,
            send: &mut send,
        };
        work(&mut self.services, self.now_ms, &mut context)
    }

    fn handle(&mut self, packet: &Packet) -> Option<Packet> {
        self.with(|services, now, context| services.handle(now, packet, context))
    }

    fn raw(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.handle(&Packet::from_bytes(bytes).unwrap()).map(|p| p.bytes().to_vec())
    }

    fn poll(&mut self) -> Option<Packet> {
        self.with(|services, now, context| services.poll(now, context))
    }
}

/// Memory 2 is what cflib's `I2CElement` reads and writes: 16 bytes, 5 bytes, then all 21 at once.
#[test]
fn the_configuration_block_is_a_memory_for_cflib() {
    let mut drone = Drone::new();
    assert_eq!(drone.raw(&[0x4C, 0x02, 2]).unwrap()[3..8], [0x00, 21, 0, 0, 0], "type and size");
    let old = ConfigBlock { channel: 33, address: 0xE7_E7E7_E70B, ..ConfigBlock::default() };
    drone.services.set_config(&old);
    let read = |drone: &mut Drone, from: u8, length: u8| {
        drone.raw(&[0x4D, 2, from, 0, 0, 0, length]).unwrap()[7..].to_vec()
    };
    let block = [read(&mut drone, 0, 16), read(&mut drone, 16, 5)].concat();
    assert_eq!(block, old.encode());
    assert_eq!(drone.raw(&[0x4D, 2, 17, 0, 0, 0, 5]).unwrap()[6], errno::EIO, "behind its end");

    let new = ConfigBlock { channel: 34, ..old };
    let write = [&[0x4E, 2, 0, 0, 0, 0][..], &new.encode()].concat();
    assert_eq!(drone.raw(&write), None, "the answer waits for the EEPROM");
    let job = drone.services.next_store_job().unwrap();
    assert_eq!(job.request, StoreRequest::Configure(new.encode()));
    for (result, error, kept) in [(Err(()), errno::EIO, old), (Ok(None), 0, new)] {
        let done = StoreDone { job, result };
        let answer = drone.with(|services, _, context| services.store_done(&done, context)).unwrap();
        assert_eq!(answer.bytes(), [0x42, 2, 0, 0, 0, 0, error]);
        assert_eq!(read(&mut drone, 0, 21), kept.encode());
    }
    drone.telemetry.supervisor_info = 1 << 1;
    assert_eq!(drone.raw(&write).unwrap()[6], errno::EACCES, "armed");
    assert_eq!(drone.services.next_store_job(), None);
}

#[test]
fn the_official_client_connects_packet_by_packet() {
    let mut drone = Drone::new();
    // Link source, with what clients look for.
    let source = drone.raw(&[0xFD, 0x00]).unwrap();
    assert_eq!((source.len(), source[0] & 0xF3), (31, 0xF1));
    assert!(source[1..].starts_with(b"Bitcraze Crazyflie\0"));
    // Protocol version.
    assert_eq!(drone.raw(&[0xDD, 0x00]).unwrap(), [0xD1, 0x00, 12, 0, 0, 0]);
    // Log reset: at least three bytes.
    assert_eq!(drone.raw(&[0x5D, 0x05]).unwrap(), [0x51, 0x05, 0x00, 0x00]);
    // The log variables' table of contents.
    let info = drone.raw(&[0x5C, 0x03]).unwrap();
    assert_eq!(info[..2], [0x50, 0x03]);
    assert_eq!(u16::from_le_bytes([info[2], info[3]]) as usize, LOGS.len());
    assert_eq!(info[4..8], logs_crc().to_le_bytes());
    assert_eq!(info[8..], [16, 128]);
    for (id, log) in LOGS.iter().enumerate() {
        let [low, high] = u16::try_from(id).unwrap().to_le_bytes();
        let item = drone.raw(&[0x5C, 0x02, low, high]).unwrap();
        assert_eq!(item[..4], [0x50, 0x02, low, high]);
        assert!((1..=8).contains(&item[4]), "clients refuse other types");
        assert_eq!(item[5..], *format!("{}\0{}\0", log.group, log.name).as_bytes());
        assert!(item.len() <= 31);
    }
    assert_eq!(drone.raw(&[0x5C, 0x02, 0xFF, 0xFF]).unwrap(), [0x50, 0x02]);
    // Memories: at least 14 bytes after the command.
    assert_eq!(drone.raw(&[0x4C, 0x01]).unwrap(), [0x40, 0x01, 3]);
    for id in 0..3 {
        let info = drone.raw(&[0x4C, 0x02, id]).unwrap();
        assert_eq!(info.len(), 1 + 15);
        assert_ne!(info[3], 0x01, "one-wire memories would be read at once");
    }
    // The parameters' table of contents.
    let info = drone.raw(&[0x2C, 0x03]).unwrap();
    assert_eq!(info[..2], [0x20, 0x03]);
    assert_eq!(u16::from_le_bytes([info[2], info[3]]) as usize, PARAMS.len());
    assert_eq!(info[4..], params_crc().to_le_bytes());
    let mut extended = 0;
    for (id, param) in PARAMS.iter().enumerate() {
        let [low, high] = u16::try_from(id).unwrap().to_le_bytes();
        let item = drone.raw(&[0x2C, 0x02, low, high]).unwrap();
        assert_eq!(item[..4], [0x20, 0x02, low, high]);
        assert_eq!(item[5..], *format!("{}\0{}\0", param.group, param.name).as_bytes());
        if item[4] & 0x10 != 0 {
            assert_eq!(drone.raw(&[0x2F, 0x07, low, high]).unwrap(), [0x23, 0x07, low, high, 0, 1]);
            extended += 1;
        }
    }
    assert!(extended > 20);
    // Latency measurement.
    let ping = [0xFC, 0x00, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(drone.raw(&ping).unwrap(), ping);
    // Every value.
    for (id, param) in PARAMS.iter().enumerate() {
        let [low, high] = u16::try_from(id).unwrap().to_le_bytes();
        let value = drone.raw(&[0x2D, low, high]).unwrap();
        assert_eq!(value[..4], [0x21, low, high, 0]);
        assert_eq!(value.len(), 4 + param.kind.size());
    }
    // Closing: sticks at zero, no answer. Polling: nothing.
    assert_eq!(drone.raw(&[[0x3C].as_slice(), &[0; 14]].concat()), None);
    assert_eq!(drone.raw(&[0xFF]), None);
    assert_eq!(drone.services.bad_packets(), 0);
}

#[test]
fn parameters_are_written_refused_and_kept() {
    let mut drone = Drone::new();
    let id = |group, name| param_id(group, name).unwrap();
    let controller = id("stabilizer", "controller");
    let write = |drone: &mut Drone, id, value: Value| {
        let packet = param::Request::Write(id, value.into()).encode().unwrap();
        let answer = drone.handle(&packet).unwrap();
        let param::Reply::Write(got, raw) = param::Reply::decode(&answer).unwrap() else {
            panic!("{answer:?}")
        };
        assert_eq!(got, id);
        raw.value(value.kind())
    };
    assert_eq!(write(&mut drone, controller, Value::U8(2)), Some(Value::U8(2)));
    assert_eq!(drone.settings.controller, Controller::StockMellinger);
    assert_eq!(
        write(&mut drone, controller, Value::U8(9)),
        Some(Value::U8(2)),
        "refused: the value in force"
    );
    assert_eq!(write(&mut drone, id("usd", "canLog"), Value::U8(1)), Some(Value::U8(0)), "read only");
    let gain = id("gain", "posPxy");
    assert_eq!(write(&mut drone, gain, Value::F32(1e9)), Some(Value::F32(0.4)), "out of bounds");
    // Too short and too long values change nothing.
    for bytes in [&[][..], &[1, 2, 3], &[0; 8]] {
        let packet = param::Request::Write(gain, param::Raw::new(bytes).unwrap()).encode().unwrap();
        assert!(drone.handle(&packet).is_some());
        assert_eq!(drone.settings.try_out, Settings::new().try_out);
    }
    // An unknown number: the official answer.
    assert_eq!(drone.raw(&[0x2E, 0xFF, 0xFF, 7]).unwrap(), [0x22, 0xFF, 0xFF, errno::ENOENT]);
    assert_eq!(drone.raw(&[0x2D, 0xFF, 0xFF]).unwrap(), [0x21, 0xFF, 0xFF, errno::ENOENT]);
    // By name.
    let by_name = |group, name, kind, value: Value| {
        param::Request::SetByName { group, name, kind, value: value.into() }.encode().unwrap()
    };
    for (packet, wanted) in [
        (by_name("ctrlMel", "mass", 6, Value::F32(0.031)), 0),
        (by_name("ctrlMel", "mass", 8, Value::U8(1)), errno::EINVAL),
        (by_name("ctrlMel", "nope", 6, Value::F32(1.0)), errno::ENOENT),
        (by_name("deck", "bcUSD", 8, Value::U8(1)), errno::EACCES),
    ] {
        let answer = drone.handle(&packet).unwrap();
        assert!(
            matches!(param::Reply::decode(&answer), Ok(param::Reply::SetByName { error, .. }) if error == wanted)
        );
    }
    assert_eq!(drone.settings.stock_mellinger.mass, 0.031);
    // Keeping a value goes through the EEPROM, whose answer comes later.
    let mass = id("ctrlMel", "mass");
    assert_eq!(drone.handle(&param::Request::Store(mass).encode().unwrap()), None);
    let job = drone.services.next_store_job().unwrap();
    assert_eq!((job.id, job.request), (mass, StoreRequest::Keep(Value::F32(0.031).into())));
    let done = StoreDone { job, result: Ok(None) };
    let answer = drone.with(|services, _, context| services.store_done(&done, context)).unwrap();
    assert_eq!(param::Reply::decode(&answer), Ok(param::Reply::Store(mass, 0)));
    assert_eq!(drone.handle(&param::Request::StoredState(mass).encode().unwrap()), None);
    let job = drone.services.next_store_job().unwrap();
    let kept = param::Raw::from(Value::F32(0.031));
    let done = StoreDone { job, result: Ok(Some(kept)) };
    let answer = drone.with(|services, _, context| services.store_done(&done, context)).unwrap();
    let default = param::Raw::from(Value::F32(0.029));
    assert_eq!(param::Reply::decode(&answer), Ok(param::Reply::StoredState(mass, Ok((default, Some(kept))))));
    let answer = drone.handle(&param::Request::Default(mass).encode().unwrap()).unwrap();
    assert_eq!(param::Reply::decode(&answer), Ok(param::Reply::Default(mass, Ok(default))));
    // What cannot be kept is refused at once.
    let volatile = id("usd", "logging");
    let answer = drone.handle(&param::Request::Store(volatile).encode().unwrap()).unwrap();
    assert_eq!(param::Reply::decode(&answer), Ok(param::Reply::Store(volatile, errno::ENOENT)));
    // A change by the drone itself is told.
    drone.settings.logging = true;
    drone.services.param_changed("usd", "logging");
    let told = drone.poll().unwrap();
    assert_eq!(param::Reply::decode(&told), Ok(param::Reply::Changed(volatile, Value::U8(1).into())));
    // Restarting the estimator is a command.
    write(&mut drone, id("kalman", "resetEstimation"), Value::U8(1));
    assert_eq!(drone.commands.pop_front(), Some(Command::ResetEstimator));
}

#[test]
fn log_blocks_come_at_their_period() {
    let mut drone = Drone::new();
    let variable =
        |group, name, kind| log::Variable { kind: log::type_code(kind), id: log_id(group, name).unwrap() };
    let variables = [
        variable("pm", "vbat", Type::F32),
        variable("pm", "vbat", Type::F16),
        variable("motor", "m1", Type::U16),
    ];
    let ask = |drone: &mut Drone, request: log::Request| {
        let answer = drone.handle(&request.encode()).unwrap();
        let Ok(log::Reply::Control { command, error, .. }) = log::Reply::decode(&answer) else { panic!() };
        assert_eq!(command, request.command());
        error
    };
    let list = log::Variables::new(&variables).unwrap();
    assert_eq!(ask(&mut drone, log::Request::Create(3, list)), 0);
    assert_eq!(ask(&mut drone, log::Request::Create(3, list)), errno::EEXIST);
    let floats = log::Variables::new(&[variables[0]; 5]).unwrap();
    assert_eq!(ask(&mut drone, log::Request::Append(3, floats)), errno::E2BIG, "28 bytes do not fit");
    assert_eq!(ask(&mut drone, log::Request::Start { block: 9, period_ms: 10, old: false }), errno::ENOENT);
    let unknown = log::Variables::new(&[log::Variable { kind: 7, id: 9999 }]).unwrap();
    assert_eq!(ask(&mut drone, log::Request::Create(4, unknown)), errno::ENOENT);
    assert_eq!(ask(&mut drone, log::Request::Start { block: 3, period_ms: 20, old: true }), 0);
    drone.telemetry.pwm[0] = 4711;
    let mut times = Vec::new();
    for _ in 0..200 {
        drone.now_ms += 1;
        drone.raw(&[0xFF]);
        while let Some(packet) = drone.poll() {
            let Ok(log::Reply::Data { block: 3, time_ms, values }) = log::Reply::decode(&packet) else {
                panic!()
            };
            assert_eq!(values, [&3.9_f32.to_le_bytes()[..], &[0xCD, 0x43], &4711_u16.to_le_bytes()].concat());
            times.push(time_ms);
        }
    }
    assert_eq!(times, (1..=10).map(|n| 1000 + 20 * n).collect::<Vec<_>>());
    assert_eq!(ask(&mut drone, log::Request::Stop(3)), 0);
    drone.now_ms += 100;
    assert_eq!(drone.poll(), None);
    // Once only.
    assert_eq!(ask(&mut drone, log::Request::Start { block: 3, period_ms: 0, old: false }), 0);
    assert!(drone.poll().is_some());
    drone.now_ms += 100;
    assert_eq!(drone.poll(), None);
    // A client that went away leaves no blocks behind.
    drone.now_ms += 2000;
    assert_eq!(drone.poll(), None);
    assert_eq!(ask(&mut drone, log::Request::Stop(3)), errno::ENOENT);
    // No more blocks than there are.
    for id in 0..16 {
        assert_eq!(ask(&mut drone, log::Request::Create(id, log::Variables::default())), 0);
    }
    assert_eq!(ask(&mut drone, log::Request::Create(16, log::Variables::default())), errno::ENOMEM);
    assert_eq!(ask(&mut drone, log::Request::Reset), 0);
    assert_eq!(ask(&mut drone, log::Request::Create(16, log::Variables::default())), 0);
}

#[test]
fn trajectories_are_uploaded_and_gain_tables_read() {
    let mut drone = Drone::new();
    let data = memory::Data::new(&[1, 2, 3, 4, 5]).unwrap();
    let write = |id, address| memory::Request::Write { id, address, data }.encode();
    let error = |answer: Packet| match memory::Reply::decode(&answer) {
        Ok(memory::Reply::Write { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error(drone.handle(&write(0, 4091)).unwrap()), 0);
    let Some(Command::WriteTrajectory { offset: 4091, length: 5, bytes }) = drone.commands.pop_front() else {
        panic!()
    };
    assert_eq!(bytes[..5], [1, 2, 3, 4, 5]);
    for (id, address) in [(0, 4092), (0, u32::MAX), (1, 0), (7, 0)] {
        assert_eq!(error(drone.handle(&write(id, address)).unwrap()), errno::EIO, "{id} {address}");
    }
    drone.queue_full = true;
    assert_eq!(error(drone.handle(&write(0, 0)).unwrap()), errno::EIO, "the client must write again");
    assert!(drone.commands.is_empty());
    let read = |drone: &mut Drone, id, address, length| {
        let answer = drone.handle(&memory::Request::Read { id, address, length }.encode()).unwrap();
        let Ok(memory::Reply::Read { data, .. }) = memory::Reply::decode(&answer) else { panic!() };
        data.map(|d| d.bytes().to_vec())
    };
    assert_eq!(read(&mut drone, 0, 4090, 6), Ok(vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(read(&mut drone, 0, 4090, 7), Err(errno::EIO));
    let table = GainTable { sequence: 3, ..GainTable::built_in() };
    drone.flash[5 * PAGE_SIZE..6 * PAGE_SIZE].copy_from_slice(&table.encode());
    let mut page = Vec::new();
    while page.len() < PAGE_SIZE {
        let address = u32::try_from(5 * PAGE_SIZE + page.len()).unwrap();
        page.extend(read(&mut drone, 1, address, 24.min(PAGE_SIZE - page.len()) as u8).unwrap());
    }
    assert_eq!(GainTable::decode(&page), Ok(table));
    assert_eq!(read(&mut drone, 1, u32::try_from(PAGE_COUNT * PAGE_SIZE).unwrap(), 1), Err(errno::EIO));
}

#[test]
fn the_memories_of_decks_are_read_if_they_are_whole() {
    let names = b"\x00\x0A\x01\x05bcUSD\x02\x01A";
    let mut memory = [0xFF; ONE_WIRE_SIZE];
    memory[..8].copy_from_slice(&DeckId::MICRO_SD.encode(0x0E80));
    memory[8..8 + names.len()].copy_from_slice(names);
    // Low byte of the CRC-32 of the names, by Python's zlib.
    memory[8 + names.len()] = 0x38;
    let whole = Deck { id: DeckId::MICRO_SD, serial: [9, 8, 7, 6, 5, 4, 3, 2], memory };
    let mut cut = whole;
    cut.memory[12] ^= 1;
    assert!(whole.is_whole() && !cut.is_whole());

    let mut drone = Drone::new();
    drone.services.set_decks(&[cut, whole]);
    assert_eq!(drone.raw(&[0x4C, 0x01]).unwrap(), [0x40, 0x01, 4], "one of the two");
    let info = drone.raw(&[0x4C, 0x02, 3]).unwrap();
    assert_eq!(info, [0x40, 0x02, 3, 0x01, 112, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 2]);
    let read = drone.raw(&[0x4D, 3, 8, 0, 0, 0, 12]).unwrap();
    assert_eq!((&read[1..7], &read[7..]), (&[3, 8, 0, 0, 0, 0][..], &names[..]));
    let beyond = drone.raw(&[0x4D, 3, 100, 0, 0, 0, 20]).unwrap();
    assert_eq!(beyond[6], errno::EIO);
    let written = drone.raw(&[0x4E, 3, 8, 0, 0, 0, 1]).unwrap();
    assert_eq!(written[6], errno::EIO, "nothing is written to decks");
    assert_eq!(drone.raw(&[0x4C, 0x02, 4]), None);
}

#[test]
fn arming_is_answered_when_it_has_happened_or_not() {
    let mut drone = Drone::new();
    assert_eq!(drone.handle(&supervisor::Request::Arm(true).encode()), None);
    assert_eq!(drone.commands.pop_front(), Some(Command::Arm(true)));
    assert_eq!(drone.poll(), None);
    drone.now_ms += 3;
    drone.telemetry.supervisor_info = 1 << 1;
    let answer = drone.poll().unwrap();
    assert_eq!(supervisor::Reply::decode(&answer), Ok(supervisor::Reply::Arm { success: true, armed: true }));
    assert_eq!(drone.poll(), None);
    // The old way, and a drone that does not obey.
    assert_eq!(drone.raw(&[0xD0, 1, 0]), None);
    drone.now_ms += 150;
    assert_eq!(drone.poll().unwrap().bytes(), [0xD0, 1, 0, 1]);
    let bits = drone.handle(&supervisor::Request::Bitfield.encode()).unwrap();
    assert_eq!(supervisor::Reply::decode(&bits), Ok(supervisor::Reply::Bitfield(2)));
    let flag = drone.handle(&supervisor::Request::Flag(1).encode()).unwrap();
    assert_eq!(supervisor::Reply::decode(&flag), Ok(supervisor::Reply::Flag(1, true)));
    // Stopping works even when the flight task has no room for commands.
    drone.commands.clear();
    drone.queue_full = true;
    drone.handle(&supervisor::Request::EmergencyStop.encode());
    assert!(drone.settings.stop);
    assert_eq!(drone.services.lost_commands(), 1);
}

#[test]
fn high_level_commands_are_answered_at_once() {
    let mut drone = Drone::new();
    let take_off = HighLevel::TakeOff { height: 1.0, relative: false, yaw: None, pace: Pace::Duration(2.0) };
    let ask = |drone: &mut Drone, group, action| {
        let packet = high_level::Request::Fly { group, action }.encode();
        drone.handle(&packet).map(|answer| high_level::Reply::decode(&answer).unwrap().result)
    };
    assert_eq!(ask(&mut drone, 0, take_off), Some(errno::EBUSY), "not armed");
    drone.telemetry.supervisor = core_supervisor::State::ReadyToFly;
    assert_eq!(ask(&mut drone, 0, take_off), Some(0));
    assert_eq!(drone.commands.pop_front(), Some(Command::HighLevel(take_off)));
    let land = HighLevel::Land { height: 0.0, relative: false, yaw: None, pace: Pace::Duration(2.0) };
    assert_eq!(ask(&mut drone, 0, land), Some(high_level::Reply::REFUSED), "still on the ground");
    drone.telemetry.planner.phase = planner::Phase::Flying;
    assert_eq!(ask(&mut drone, 0, land), Some(0));
    let start = HighLevel::StartTrajectory {
        id: 2,
        time_scale: 1.0,
        reversed: false,
        relative_position: true,
        relative_yaw: false,
    };
    assert_eq!(ask(&mut drone, 0, start), Some(high_level::Reply::REFUSED));
    let define = HighLevel::DefineTrajectory { id: 2, offset: 0, pieces: 31 };
    assert_eq!(ask(&mut drone, 0, define), Some(0));
    assert_eq!(ask(&mut drone, 0, start), Some(0), "even before the flight task has told of it");
    let too_long = HighLevel::DefineTrajectory { id: 2, offset: 100, pieces: 31 };
    assert_eq!(ask(&mut drone, 0, too_long), Some(high_level::Reply::REFUSED));
    drone.settings.group_mask = 0b10;
    assert_eq!(ask(&mut drone, 0b01, land), None, "another group");
    assert_eq!(ask(&mut drone, 0b11, land), Some(0));
    let spiral = HighLevel::Spiral {
        sideways: false,
        clockwise: true,
        angle: 3.0,
        start_radius: 0.5,
        end_radius: 0.5,
        climb: 0.0,
        duration: 5.0,
    };
    assert_eq!(ask(&mut drone, 0, spiral), Some(0));
    // What this firmware does not know.
    assert_eq!(
        drone.raw(&[[0x80, 14].as_slice(), &[0; 23]].concat()).unwrap(),
        [0x80, 14, 0, 0, errno::ENOEXEC]
    );
}

#[test]
fn setpoints_and_motion_capture_become_commands() {
    let mut drone = Drone::new();
    let position = Setpoint::Position { position: Vec3::new(1.0, 2.0, 3.0), yaw: 0.0 };
    drone.handle(&setpoint::Request::Setpoint(position).encode());
    assert_eq!(drone.commands.pop_front(), Some(Command::Setpoint(position)));
    drone.handle(&setpoint::Request::NotifyStop { remain_valid_ms: 70 }.encode());
    assert_eq!(drone.commands.pop_front(), Some(Command::NotifySetpointsStop { remain_valid_ms: 70 }));
    // Sticks: thrust counts only after it was seen at zero.
    let sticks = |thrust| setpoint::Rpyt { roll: 0.0, pitch: 0.0, yaw_rate: 0.0, thrust }.encode();
    let thrust = |drone: &mut Drone, sent| {
        drone.handle(&sticks(sent));
        match drone.commands.pop_front() {
            Some(Command::Setpoint(Setpoint::Manual { thrust, .. })) => thrust,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(thrust(&mut drone, 40_000), 0.0);
    assert_eq!(thrust(&mut drone, 0), 0.0);
    assert!(thrust(&mut drone, 40_000) > 0.6);
    drone.now_ms += 5000;
    assert_eq!(thrust(&mut drone, 40_000), 0.0, "after a pause they start again at zero");
    // Packed broadcasts: this drone's entry only.
    let seen =
        |id| Some(localization::Seen { id, position: Vec3::new(0.5, 0.25, 1.0), attitude: Quat::IDENTITY });
    let broadcast = |drone: &mut Drone, packet: &Packet| {
        drone.with(|services, now, context| services.handle_broadcast(now, packet, context));
    };
    let poses = localization::Request::PackedPoses([seen(0x01), seen(0xE7)]).encode();
    broadcast(&mut drone, &poses);
    let Some(Command::Mocap(mocap)) = drone.commands.pop_front() else { panic!() };
    assert!((mocap.position - Vec3::new(0.5, 0.25, 1.0)).norm() < 1e-3);
    assert_eq!(mocap.attitude.unwrap().1, drone.settings.localization.attitude_std);
    broadcast(
        &mut drone,
        &localization::Request::PackedPositions([seen(1), seen(2), seen(3), seen(4)]).encode(),
    );
    assert!(drone.commands.is_empty());
    // Parameters are not for broadcasts.
    let write = param::Request::Write(0, Value::U8(1).into()).encode().unwrap();
    broadcast(&mut drone, &write);
    assert_eq!(drone.settings, Settings::new());
    assert_eq!(drone.services.bad_packets(), 1);
}

#[test]
fn console_text_comes_line_by_line() {
    let mut drone = Drone::new();
    drone.raw(&[0xFF]);
    drone.services.console.print("no end yet");
    assert_eq!(drone.poll(), None);
    drone.services.console.print(", now\nÄ sécond líne that is longer than one packet\n");
    let mut text = Vec::new();
    while let Some(packet) = drone.poll() {
        assert_eq!(packet.port(), Some(Port::Console));
        assert!(std::str::from_utf8(packet.data()).is_ok(), "{packet:?}");
        text.extend_from_slice(packet.data());
    }
    assert_eq!(
        std::str::from_utf8(&text).unwrap(),
        "no end yet, now\nÄ sécond líne that is longer than one packet\n"
    );
    assert!(!drone.services.console.print(&"x".repeat(513)));
    assert_eq!(drone.services.console.lost(), 1);
}

#[test]
fn nonsense_is_dropped_and_counted() {
    let mut drone = Drone::new();
    let nonsense: [&[u8]; 12] = [
        &[0x00, b'h', b'i'],
        &[0x10, 1],
        &[0x20],
        &[0x20, 9],
        &[0x2D, 1],
        &[0x3C, 1, 2, 3],
        &[0x41, 0, 0],
        &[0x51, 99, 1],
        &[0x70, 7, 0, 0],
        &[0x61, 77],
        &[0x90, 0x33],
        &[0xD0, 0x55],
    ];
    for (n, bytes) in nonsense.iter().enumerate() {
        assert_eq!(drone.raw(bytes), None, "{bytes:02x?}");
        assert_eq!(drone.services.bad_packets() as usize, n + 1, "{bytes:02x?}");
    }
    assert!(drone.commands.is_empty());
    assert_eq!(drone.settings, Settings::new());
}

/// A client by radio and one by USB at the same time: each gets the answers to what it asked, also those that
/// come later; what the drone says by itself goes by USB while a client is there.
#[test]
fn answers_go_back_the_way_the_question_came() {
    let mut drone = Drone::new();
    let by = |drone: &mut Drone, route: Route| {
        drone.route = route;
    };
    drone.raw(&[0xFF]);
    drone.services.set_usb(true);
    // Both ask to arm; the last one counts, and only it is answered.
    by(&mut drone, Route::Usb);
    assert_eq!(drone.handle(&supervisor::Request::Arm(true).encode()), None);
    by(&mut drone, Route::Radio);
    drone.telemetry.supervisor_info = 1 << 1;
    assert_eq!(drone.poll(), None, "the radio has not asked");
    by(&mut drone, Route::Usb);
    assert!(drone.poll().is_some());
    by(&mut drone, Route::Radio);
    assert_eq!(drone.handle(&supervisor::Request::Arm(false).encode()), None);
    drone.telemetry.supervisor_info = 0;
    by(&mut drone, Route::Usb);
    assert_eq!(drone.poll(), None, "the cable has not asked");
    by(&mut drone, Route::Radio);
    assert!(drone.poll().is_some());
    // The EEPROM's answers.
    let mass = param_id("ctrlMel", "mass").unwrap();
    for route in [Route::Usb, Route::Radio] {
        by(&mut drone, route);
        assert_eq!(drone.handle(&param::Request::Store(mass).encode().unwrap()), None);
        assert_eq!(drone.services.next_store_job().unwrap().route, route);
        assert_eq!(drone.raw(&[&[0x4E, 2, 0, 0, 0, 0][..], &ConfigBlock::default().encode()].concat()), None);
        assert_eq!(drone.services.next_store_job().unwrap().route, route);
    }
    // The console.
    drone.services.console.print("hello\n");
    by(&mut drone, Route::Radio);
    assert_eq!(drone.poll(), None);
    by(&mut drone, Route::Usb);
    assert_eq!(drone.poll().unwrap().bytes(), b"\x00hello\n");
    drone.services.set_usb(false);
    drone.services.console.print("again\n");
    assert_eq!(drone.poll(), None);
    by(&mut drone, Route::Radio);
    assert_eq!(drone.poll().unwrap().bytes(), b"\x00again\n");
}

/// Log blocks belong to the client that made them; nobody else gets them when it is gone.
#[test]
fn log_blocks_end_with_the_client_on_usb_and_begin_without_the_radios() {
    let block = |drone: &mut Drone| {
        let variable = log::Variable { kind: log::type_code(Type::F32), id: log_id("pm", "vbat").unwrap() };
        let list = log::Variables::new(&[variable]).unwrap();
        for request in
            [log::Request::Create(1, list), log::Request::Start { block: 1, period_ms: 10, old: false }]
        {
            let answer = drone.handle(&request.encode()).unwrap();
            assert_eq!(answer.bytes()[3], 0, "{request:?}");
        }
        drone.now_ms += 10;
    };
    let mut drone = Drone::new();
    block(&mut drone);
    assert!(drone.poll().is_some(), "by radio");
    drone.services.set_usb(true);
    drone.now_ms += 10;
    assert_eq!(drone.poll(), None);
    drone.route = Route::Usb;
    assert_eq!(drone.poll(), None, "the radio's block is not for the cable");
    block(&mut drone);
    // A cable's client says nothing for a long time, and still gets its block.
    drone.now_ms += 60_000;
    assert!(drone.services.is_connected(drone.now_ms));
    assert!(drone.poll().is_some());
    // The cable is pulled in the middle.
    drone.services.set_usb(false);
    assert!(!drone.services.is_connected(drone.now_ms));
    drone.now_ms += 10;
    assert_eq!(drone.poll(), None);
    drone.route = Route::Radio;
    drone.raw(&[0xFF]);
    assert_eq!(drone.poll(), None, "the cable's block is not for the radio");
}

/// Motors run by radio while somebody plugs a cable in and talks: everything the pilot sends still counts.
#[test]
fn the_radio_is_obeyed_while_a_client_is_on_usb() {
    let mut drone = Drone::new();
    drone.telemetry.supervisor_info = 1 << 1;
    drone.services.set_usb(true);
    drone.handle(&supervisor::Request::EmergencyStop.encode());
    assert_eq!(drone.commands.pop_front(), Some(Command::EmergencyStop));
    assert!(drone.settings.stop);
    let stop = supervisor::Request::EmergencyWatchdog.encode();
    drone.with(|services, now, context| services.handle_broadcast(now, &stop, context));
    assert_eq!(drone.commands.pop_front(), Some(Command::EmergencyWatchdog));
}
