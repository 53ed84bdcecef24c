//! The real firmware image on parts that behave like the real ones: pins, sensors that need more than one
//! attempt, a debugger that asks for too much, lines that must be answered in time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use steady_sim::{Task, World};
use virtual_crazyflie::board::{Board, TICKS_PER_MS};
use virtual_crazyflie::chip::rcc::ResetCause;
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::session::{End, Session, Setup};
use virtual_crazyflie::summary::Summary;
use virtual_crazyflie::{Image, sdimage};

/// A drone that is about to hover for a second, without a card; `None` without an image.
#[track_caller]
fn drone(faults: &[&str]) -> Option<Session> {
    drone_with(faults, None)
}

#[track_caller]
fn drone_with(faults: &[&str], card: Option<PathBuf>) -> Option<Session> {
    let image = steady_test_support::image().map(|path| Image::load(&path).unwrap())?;
    let world = World::named("nominal").unwrap();
    let mission = Mission::new(Task::Hover, Dongle::new(&world.radio, 1)).holding(1.0);
    let setup = Setup {
        image,
        world,
        seed: 1,
        pages: Vec::new(),
        flash: None,
        card,
        eeprom: Vec::new(),
        faults: faults.iter().map(|f| f.parse().unwrap()).collect(),
        profile: false,
        strict: None,
        otp: "0;CF21".to_owned(),
    };
    Some(Session::new(setup, Box::new(mission)).unwrap())
}

/// Flies to the end and looks whether it went well.
#[track_caller]
fn assert_flies(session: &mut Session) -> Summary {
    let end = session.run(20.0, None, |_| ());
    assert_flew(session, &end)
}

#[track_caller]
fn assert_flew(session: &Session, end: &End) -> Summary {
    let summary = Summary::of(session, end, None);
    assert!(summary.success, "{:?}\n{}", summary.failure, summary.console);
    assert!(summary.is_landed && summary.highest_m > 0.9, "{summary:?}");
    assert!(summary.resets.is_empty() && summary.faults.is_empty(), "{:?}", summary.resets);
    summary
}

/// Lets it run until a time.
#[track_caller]
fn run_until(session: &mut Session, seconds: f64) {
    assert_eq!(session.machine.run_until((seconds * 168e6) as u64), None);
}

/// Two bits of a pin's register.
fn field(board: &Board, port: usize, register: u32, pin: u32) -> u32 {
    board.gpio.read(port, register).unwrap() >> (2 * pin) & 3
}

#[test]
fn pins_are_as_fast_and_pulled_as_the_official_firmware_has_them() {
    const SPEED: u32 = 0x08;
    const PULL: u32 = 0x0C;
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.img");
    sdimage::create(&card, &[]).unwrap();
    let Some(mut session) = drone_with(&[], Some(card)) else { return };
    run_until(&mut session, 1.5);
    let now = session.machine.look().now;
    let board = session.machine.board();
    for (name, port, pin) in [("M1", 0, 1), ("M2", 1, 11), ("M3", 0, 15), ("M4", 1, 9)] {
        assert_eq!(field(board, port, SPEED, pin), 0b11, "{name}: 100 MHz");
    }
    for (name, pin) in [("SCK", 5), ("MISO", 6), ("MOSI", 7)] {
        assert_eq!(field(board, 0, SPEED, pin), 0b10, "{name}: 50 MHz");
    }
    for (name, port, pin) in [("radio", 2, 6), ("SCL3", 0, 8), ("SDA3", 2, 9), ("SCL1", 1, 6), ("SDA1", 1, 7)]
    {
        assert_eq!(field(board, port, SPEED, pin), 0b01, "{name}: 25 MHz");
    }
    assert_eq!(field(board, 0, PULL, 4), 0b01, "flow control is pulled up");
    assert_eq!(field(board, 0, PULL, 15), 0b00, "M3 is not pulled up, as its pin is after a reset");
    assert_eq!(board.motor_frequency_hz(), 328_125.0);
    for (name, bus) in [("I2C1", &mut board.i2c1), ("I2C3", &mut board.i2c3)] {
        assert_eq!(bus.read(0x08, now).unwrap() & 1 << 14, 1 << 14, "{name}: bit 14 of OAR1");
    }
}

#[test]
fn a_barometer_that_comes_up_at_the_fourth_attempt_is_used() {
    let Some(mut session) = drone(&[]) else { return };
    session.machine.board().sensors.barometer_silences = 3;
    let summary = assert_flies(&mut session);
    assert!(!summary.console.contains("barometer"), "{}", summary.console);
}

#[test]
fn sensors_that_do_not_acknowledge_twice_are_flown_with() {
    let Some(mut session) = drone(&["0.1:imu-shy"]) else { return };
    assert_flies(&mut session);
}

#[test]
fn bus_errors_on_the_sensor_bus_are_cleared_and_flown_over() {
    let Some(mut session) = drone(&["0.1:imu-noisy"]) else { return };
    assert_flies(&mut session);
}

#[test]
fn doubtful_self_tests_are_told_and_flown_with() {
    let Some(mut session) = drone(&[]) else { return };
    let sensors = &mut session.machine.board().sensors;
    // Ready, not failed, the rates not called plausible; masses that hardly move.
    sensors.gyro_self_test = 0b0_0010;
    sensors.push_g = sensors.push_g * 0.2;
    let summary = assert_flies(&mut session);
    for line in ["gyroscope: doubtful rate", "accelerometer: moves too little"] {
        assert!(summary.console.contains(line), "{}", summary.console);
    }
}

#[test]
fn a_gyroscope_that_fails_its_self_test_is_not_flown_with() {
    let Some(mut session) = drone(&[]) else { return };
    session.machine.board().sensors.gyro_self_test = 0b1_0110;
    session.run(4.0, None, |_| ());
    let mission_says = session.scene().ground.mission().unwrap().console.clone();
    assert!(mission_says.contains("gyroscope fails its self-test"), "{mission_says}");
    assert!(session.scene().samples.iter().all(|s| s.motors == [0; 4]));
}

/// Offset of the first up channel in RTT's control block, and of its fields there.
const UP: u32 = 24;
const WRITE: u32 = 12;
const READ: u32 = 16;
const FLAGS: u32 = 20;

#[test]
fn a_full_trace_buffer_in_blocking_mode_does_not_stall_the_flight() {
    let Some(mut session) = drone(&[]) else { return };
    let channel = session.image().rtt.unwrap() + UP;
    run_until(&mut session, 0.05);
    // A debugger that asks for blocking mode and then does not read any more: no room is left.
    let (_, mut memory) = session.machine.parts();
    let write = memory.word(channel + WRITE).unwrap();
    let size = memory.word(channel + 8).unwrap();
    assert!(memory.set_word(channel + READ, (write + 1) % size));
    assert!(memory.set_word(channel + FLAGS, 2));
    // Not through `Session::run`, which reads the buffer.
    let mut end = End::Over;
    for ms in (0..20_000).step_by(10) {
        if session.scene().ground.mission().unwrap().is_over() {
            break;
        }
        let stop = session.machine.run_until((50 + ms) * TICKS_PER_MS);
        if let Some(stop) = stop {
            end = match stop {
                virtual_crazyflie::board::Stop::PowerOff => End::PowerOff,
                stop => End::Stopped(session.machine.explain(&stop, session.image())),
            };
            break;
        }
    }
    let summary = assert_flew(&session, &end);
    assert!(summary.console.contains("Steady"), "the console still works: {}", summary.console);
    let (_, memory) = session.machine.parts();
    assert_eq!(memory.word(channel + WRITE), Some(write), "not a line was written over the reader");
}

#[test]
fn a_debugger_that_halts_it_in_the_air_stops_the_motors() {
    // At different places of the PWM's period of 3 µs.
    for halt_us in [5_000_000, 5_100_001, 5_200_002] {
        let fault = format!("{:.6}:debug-halt", f64::from(halt_us) * 1e-6);
        let Some(mut session) = drone(&[&fault]) else { return };
        session.run(6.0, None, |_| ());
        let (reset, cause) = *session.machine.resets.first().expect("the watchdog bites");
        assert_eq!(cause, ResetCause::Watchdog);
        let halt = u64::from(halt_us as u32) * (TICKS_PER_MS / 1000);
        assert!((halt..halt + 200 * TICKS_PER_MS).contains(&reset), "{reset}, halted at {halt}");
        let scene = session.scene();
        let motors = |ms: u64| scene.samples[ms as usize].motors;
        assert_ne!(motors(halt / TICKS_PER_MS - 1), [0; 4], "it flew");
        assert!((reset / TICKS_PER_MS + 2..5990).all(|ms| motors(ms) == [0; 4]), "the motors stand still");
    }
}

#[test]
fn a_debugger_may_halt_it_on_the_ground_for_as_long_as_it_likes() {
    let Some(mut session) = drone(&["0.8:debug-halt", "2.8:debug-go"]) else { return };
    session.run(4.0, None, |_| ());
    assert_eq!(session.machine.resets, []);
}

/// Bytes that the radio processor's receiver still takes after it has said stop.
const RADIO_FIFO: u64 = 6;

#[test]
fn flow_control_acts_within_twenty_microseconds_in_every_state() {
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.img");
    sdimage::create(&card, &[]).unwrap();
    // Flight with a log, long lines on the trace output and the console, sensors that do not answer, resets.
    let trouble = ["4.5:imu-shy", "5:imu-stuck", "5.002:imu-back", "5.5:reset"].map(str::to_owned);
    // The line rises in the middle of frames as well: every 3.01 ms, for 1 ms.
    let stops = (0..900).map(|i| format!("{:.6}:flow-blocked=1", 0.02 + 0.00301 * f64::from(i)));
    for faults in [trouble.to_vec(), stops.collect()] {
        let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
        let Some(mut session) = drone_with(&faults, Some(card.clone())) else { return };
        session.run(7.0, None, |_| ());
        let board = session.machine.look();
        let (longest_us, place) = (board.locks.longest / 168, session.image().place(board.locks.longest_at));
        eprintln!("interrupts were off for {longest_us} µs at most, at {place}");
        // Half of the time there is: cycles are an estimate.
        assert!((1..10).contains(&longest_us), "{longest_us} µs at {place}");
        let bytes = board.bytes_against_flow;
        eprintln!("{bytes} bytes left against flow control");
        // One in the shift register, one behind it, and what leaves until the interrupt acts.
        assert!(bytes <= RADIO_FIFO, "{bytes} bytes after the radio processor said stop");
        assert!(bytes > 0 || faults.len() < 10, "no frame was stopped in its middle");
    }
}

#[test]
fn the_bootloader_takes_a_busy_radio_processor_for_a_missing_one() {
    let Some(mut session) = drone(&[]) else { return };
    run_until(&mut session, 2.0);
    let mut missing = 0;
    for _ in 0..50 {
        let until = session.machine.look().now + 37 * TICKS_PER_MS + 1234;
        assert_eq!(session.machine.run_until(until), None);
        session.machine.reset(ResetCause::Watchdog);
        assert_eq!(session.machine.run_until(until + 10 * TICKS_PER_MS), None);
        if session.machine.is_in_rom {
            missing += 1;
            assert_eq!(session.machine.run_until(until + 1000 * TICKS_PER_MS), None);
            assert!(session.machine.is_in_rom, "it does not leave by itself");
            session.machine.power_cycle();
            let until = session.machine.look().now + 2000 * TICKS_PER_MS;
            assert_eq!(session.machine.run_until(until), None);
            assert!(!session.machine.is_in_rom, "a power cycle helps");
        }
    }
    eprintln!("{missing} of 50 resets ended in the ROM's bootloader");
    assert!((1..50).contains(&missing), "{missing}");
}

#[test]
fn a_fault_resets_only_when_the_radio_processor_is_quiet() {
    let Some(mut session) = drone(&[]) else { return };
    let mut until = 0;
    for fault in 0..120 {
        // The link is up 0.2 s after a start. At any moment of the radio's traffic.
        until += 250 * TICKS_PER_MS + 3571;
        assert_eq!(session.machine.run_until(until), None);
        assert!(!session.machine.is_in_rom, "fault {fault} ended in the ROM's bootloader");
        session.machine.hard_fault();
    }
    assert_eq!(session.machine.resets.len(), 119, "each of them is a reset");
}

/// The task stands still, interrupts do not: the reset waits for a quiet radio processor.
#[test]
fn a_flight_loop_that_stands_still_never_ends_in_the_roms_bootloader() {
    let Some(mut session) = drone(&[]) else { return };
    let step = session.image().address_of("<steady_firmware::flight::Flight>::step").expect("not inlined");
    // `b .`, a jump to itself, as the first instruction.
    let (_, memory) = session.machine.parts();
    let at = (step & !1) as usize - 0x0800_0000;
    memory.flash[at..at + 2].copy_from_slice(&[0xFE, 0xE7]);
    let mut until = 0;
    while session.machine.resets.len() < 25 {
        until += 100 * TICKS_PER_MS;
        assert_eq!(session.machine.run_until(until), None);
        assert!(!session.machine.is_in_rom, "reset {}", session.machine.resets.len());
        assert!(until < 200 * 1000 * TICKS_PER_MS, "{:?}", session.machine.resets);
    }
    let causes = session.machine.resets.iter().map(|(_, cause)| *cause);
    assert!(causes.into_iter().all(|cause| cause == ResetCause::Software), "{:?}", session.machine.resets);
    let (board, _) = session.machine.parts();
    assert_eq!(board.motors(), [0; 4]);
}

#[test]
fn it_starts_from_the_reset_clock_as_from_the_bootloaders() {
    let Some(mut session) = drone(&[]) else { return };
    session.machine.board().skip_bootloader();
    let summary = assert_flies(&mut session);
    assert!(summary.console.contains("start by reset line"), "{}", summary.console);
    assert_eq!(session.machine.board().motor_frequency_hz(), 328_125.0);
}

/// probe-rs and defmt-print read the same ring with the same decoder and the same texts.
#[test]
fn what_the_firmware_says_to_a_debugger_decodes_with_the_texts_of_its_elf() {
    let Some(mut session) = drone(&[]) else { return };
    session.run(2.0, None, |_| ());
    assert_eq!(session.damaged_lines, 0);
    let console = session.scene().ground.mission().unwrap().console.clone();
    let said: Vec<&str> = console.lines().filter(|line| !line.is_empty()).collect();
    assert!(said.len() >= 3 && said[0].starts_with("Steady "), "{console}");
    for line in said {
        assert!(session.lines.iter().any(|(_, text)| text.contains(line)), "{line}: {:?}", session.lines);
    }
    // Each has the time of the firmware's own clock, a moment before the debugger read it.
    for (read_us, text) in &session.lines {
        let written_us: f64 = text.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e6;
        assert!(written_us <= *read_us as f64 && written_us + 20e3 > *read_us as f64, "{read_us}: {text}");
    }
}
