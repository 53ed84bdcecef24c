//! What a new drone needs before its first flight, against the real image on the virtual Crazyflie: the
//! board is the right one, radio and trims are set, decks are found, motors turn one by one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::time::Duration;

use drone::{RealDrone, Shared, client, image, table};
use steady_common::config_block::ConfigBlock;
use steady_common::crtp::memory::{self, Data};
use steady_common::value::Value;
use steady_radio::Error;
use steady_radio::client::Client;
use steady_radio::link::Link;
use steady_radio::motors::{self, Verdict};
use steady_radio::tables::Survey;
use steady_sim::World;
use virtual_crazyflie::network::Trouble;
use virtual_crazyflie::session::Setup;

/// A drone that has been on for two seconds, its client, and what it has said.
fn started(change: impl FnOnce(&mut Setup)) -> Option<(Shared<RealDrone>, Client, String)> {
    let drone = RealDrone::with(image()?, &[table(1)], Trouble::default(), 1, change);
    let mut client = client(&drone);
    let mut text = String::new();
    while client.now() < Duration::from_secs(2) {
        text += &client.console(Duration::from_millis(100)).unwrap();
    }
    Some((drone, client, text))
}

fn wait(drone: &Shared<RealDrone>, seconds: f64) {
    let mut link = drone.clone();
    let until = link.now() + Duration::from_secs_f64(seconds);
    while link.now() < until {
        link.receive(until.saturating_sub(link.now())).unwrap();
    }
}

fn value(client: &mut Client, name: &str) -> Value {
    let param = client.param(name).unwrap();
    client.get(param).unwrap()
}

fn set(client: &mut Client, name: &str, value: Value) -> steady_radio::Result<()> {
    let param = client.param(name)?;
    client.set(name, param, value)
}

fn motors(drone: &Shared<RealDrone>) -> [u16; 4] {
    drone.0.borrow().session.machine.look().motors()
}

#[test]
fn a_board_that_is_not_a_crazyflie_21_neither_arms_nor_takes_gains() {
    for (otp, name) in [
        ("0;C21B", "Brushless"),
        ("0;CB11", "Bolt"),
        ("0;CT10", "Tag"),
        ("0;CF20", "2.0"),
        ("", "2.0"),
        ("0;XXXX", "unknown"),
    ] {
        let Some((drone, mut client, text)) = started(|setup| setup.otp = otp.to_owned()) else { return };
        assert!(text.contains(name) && text.contains("does not arm"), "{otp}: {text}");
        let platform = client.platform().unwrap();
        assert!(platform.device.contains(name), "{otp}: {}", platform.device);
        let error = client.arm(true).unwrap_err().to_string();
        assert!(error.contains("not a Crazyflie 2.1"), "{otp}: {error}");
        let error = platform.check_board().unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("Nothing was written"), "{otp}: {error}");
        let error = Survey::take(&mut client, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(name), "{otp}: {error}");
        set(&mut client, "motorPowerSet.enable", Value::U8(1)).unwrap();
        set(&mut client, "motorPowerSet.m1", Value::U16(9000)).unwrap();
        wait(&drone, 0.1);
        assert_eq!(motors(&drone), [0; 4], "{otp}: its pins may be others");
    }
    let Some((_drone, mut client, _)) = started(|_| {}) else { return };
    client.platform().unwrap().check_board().unwrap();
    client.arm(true).unwrap();
}

#[test]
fn trims_from_the_eeprom_turn_the_accelerometer() {
    let config = ConfigBlock { roll_trim_deg: 3.0, pitch_trim_deg: -2.0, ..ConfigBlock::default() };
    let measure = |eeprom: Vec<u8>| {
        let (_drone, mut client, text) = started(|setup| setup.eeprom = eeprom)?;
        let values = client.log_once(&["acc.x", "acc.y", "acc.z"]).unwrap();
        let values: Vec<f32> =
            values.iter().map(|v| if let Value::F32(x) = v { *x } else { f32::NAN }).collect();
        Some((values, text))
    };
    let Some((level, _)) = measure(Vec::new()) else { return };
    let Some((turned, text)) = measure(config.encode().to_vec()) else { return };
    assert!(text.contains("trims: roll 3.00 degrees, pitch -2.00 degrees"), "{text}");
    // As the official firmware does it: y loses sin(roll) of gravity, x loses sin(pitch).
    let (roll, pitch) = (3.0_f32.to_radians(), (-2.0_f32).to_radians());
    let expected = [-(roll.cos() * pitch.sin()), -roll.sin(), roll.cos() * pitch.cos()];
    for axis in 0..3 {
        let at_rest = if axis == 2 { 1.0 } else { 0.0 };
        assert!((level[axis] - at_rest).abs() < 0.003, "{level:?}");
        assert!((turned[axis] - expected[axis]).abs() < 0.003, "{turned:?}, not {expected:?}");
    }
}

#[test]
fn radio_settings_are_written_read_back_and_count_from_the_next_start_on() {
    let Some((drone, mut client, _)) = started(|_| {}) else { return };
    assert_eq!(client.config().unwrap(), ConfigBlock::default());
    let new = ConfigBlock {
        channel: 97,
        speed: 1,
        address: 0xE7_E7E7_E705,
        roll_trim_deg: 0.5,
        pitch_trim_deg: 0.0,
    };
    client.set_config(&new).unwrap();
    assert_eq!(client.config().unwrap(), new);
    assert_eq!(drone.0.borrow().session.machine.look().eeprom.bytes()[..21], new.encode());
    let tuned = |drone: &Shared<RealDrone>| drone.0.borrow().session.machine.look().nrf.radio_settings;
    assert_eq!(tuned(&drone).0, Some(80), "still the old ones");
    drone.0.borrow_mut().power_cut();
    wait(&drone, 2.0);
    assert_eq!(tuned(&drone), (Some(97), Some(1), Some([0x05, 0xE7, 0xE7, 0xE7, 0xE7])));

    // What is wrong is named, and nothing is lost.
    let error = client.set_config(&ConfigBlock { channel: 126, ..new }).unwrap_err().to_string();
    assert!(error.contains("channel 126"), "{error}");
    let id = client.find_memory(memory::Kind::Eeprom).unwrap().unwrap().0;
    client.console(Duration::from_millis(100)).unwrap();
    let bad = ConfigBlock { channel: 126, ..new }.encode();
    let mut link = drone.clone();
    for (address, bytes, why) in [
        (0, &bad[..], "channel 126"),
        (0, &new.encode()[..20], "20 bytes"),
        (1, &new.encode()[..], "begin at 0"),
        (0, &[0xFF; 21][..], "checksum"),
    ] {
        let data = Data::new(bytes).unwrap();
        link.send(&memory::Request::Write { id, address, data }.encode()).unwrap();
        let text = client.console(Duration::from_millis(200)).unwrap();
        assert!(text.contains("not written") && text.contains(why), "{why}: {text}");
        assert_eq!(client.config().unwrap(), new);
    }
    client.arm(true).unwrap();
    let error = client.set_config(&ConfigBlock::default()).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("armed")), "{error}");
    client.arm(false).unwrap();
    client.set_config(&ConfigBlock::default()).unwrap();
}

#[test]
fn decks_are_found_when_the_radio_processor_takes_its_time() {
    for ms in [0, 900, 4500] {
        let fault = format!("0:deck-scan={ms}");
        let Some(image) = image() else { return };
        let change = |setup: &mut Setup| setup.faults = vec![fault.parse().unwrap()];
        let drone = RealDrone::with(image, &[], Trouble::default(), 1, change);
        drone.0.borrow_mut().session.machine.board().nrf.mount_led_ring();
        let mut client = client(&drone);
        wait(&drone, 1.5 + ms as f64 / 1000.0);
        assert_eq!(value(&mut client, "deck.bcLedRing"), Value::U8(1), "{ms} ms");
        assert!(client.find_memory(memory::Kind::OneWire).unwrap().is_some(), "{ms} ms");
        let battery = client.log_once(&["pm.vbat"]).unwrap();
        assert!(matches!(battery[0], Value::F32(v) if v > 4.0), "the first report came: {battery:?}");
    }
}

#[test]
fn a_motor_is_turned_by_hand_only_disarmed_enabled_and_not_for_long() {
    let Some((drone, mut client, _)) = started(|_| {}) else { return };
    set(&mut client, "motorPowerSet.m2", Value::U16(12_000)).unwrap();
    wait(&drone, 0.1);
    assert_eq!(motors(&drone), [0; 4], "not enabled");
    set(&mut client, "motorPowerSet.enable", Value::U8(1)).unwrap();
    wait(&drone, 0.1);
    assert!(motors(&drone)[1].abs_diff(12_000) < 300, "{:?}", motors(&drone));
    assert_eq!([motors(&drone)[0], motors(&drone)[2], motors(&drone)[3]], [0; 3]);
    wait(&drone, 3.1);
    assert_eq!(motors(&drone), [0; 4], "it ends by itself");
    let error = set(&mut client, "motorPowerSet.m2", Value::U16(40_000)).unwrap_err().to_string();
    assert!(error.contains("refuses"), "{error}");
    set(&mut client, "motorPowerSet.enable", Value::U8(2)).unwrap();
    set(&mut client, "motorPowerSet.m1", Value::U16(9000)).unwrap();
    wait(&drone, 0.1);
    assert!(motors(&drone).iter().all(|m| m.abs_diff(9000) < 300), "all: {:?}", motors(&drone));
    client.arm(true).unwrap();
    wait(&drone, 0.1);
    assert_eq!(motors(&drone), [0; 4], "armed, it flies or stands still");
    client.arm(false).unwrap();
    wait(&drone, 0.3);
    set(&mut client, "motorPowerSet.m1", Value::U16(9000)).unwrap();
    wait(&drone, 0.1);
    assert_ne!(motors(&drone), [0; 4]);
    client.stop().unwrap();
    wait(&drone, 0.1);
    assert_eq!(motors(&drone), [0; 4], "the emergency stop stops a test too");
}

#[test]
fn check_motors_names_the_motor_that_shakes_or_stands_still() {
    let check = |faults: &[&str]| {
        let (drone, mut client, _) = started(|setup| {
            setup.world = World::named("paper").unwrap();
            setup.faults = faults.iter().map(|f| f.parse().unwrap()).collect();
        })?;
        let shaking = motors::check(&mut client, |_| {}).unwrap();
        eprintln!("{faults:?}: {shaking:?}");
        assert_eq!(motors(&drone), [0; 4]);
        Some(shaking.verdicts())
    };
    use Verdict::{Good, Shakes, Still};
    let Some(verdicts) = check(&[]) else { return };
    assert_eq!(verdicts, [Good; 4]);
    assert_eq!(check(&["0:unbalanced=3"]), Some([Good, Good, Shakes, Good]));
    assert_eq!(check(&["0:motor-dies=2"]), Some([Good, Still, Good, Good]));
}

#[test]
fn check_motors_refuses_an_armed_drone() {
    let Some((_drone, mut client, _)) = started(|_| {}) else { return };
    client.arm(true).unwrap();
    let error = motors::check(&mut client, |_| {}).unwrap_err().to_string();
    assert!(error.contains("armed"), "{error}");
}

/// What Crazyswarm2's colour calls do, and the colours of single LEDs.
#[test]
fn the_led_ring_shows_the_colours_that_a_client_asks_for() {
    let Some(image) = image() else { return };
    let drone = RealDrone::new(image, &[], Trouble::default(), 1);
    drone.0.borrow_mut().session.machine.board().nrf.mount_led_ring();
    let mut client = client(&drone);
    wait(&drone, 2.0);
    let shown = |drone: &Shared<RealDrone>| *drone.0.borrow().session.machine.look().ring.colours();
    set(&mut client, "ring.effect", Value::U8(7)).unwrap();
    for (name, part) in [("ring.solidRed", 10), ("ring.solidGreen", 200), ("ring.solidBlue", 30)] {
        set(&mut client, name, Value::U8(part)).unwrap();
    }
    wait(&drone, 0.2);
    assert_eq!(shown(&drone), [[10, 200, 30]; 12]);
    set(&mut client, "ring.fadeTime", Value::F32(1.0)).unwrap();
    set(&mut client, "ring.fadeColor", Value::U32(0x00C8_6432)).unwrap();
    set(&mut client, "ring.effect", Value::U8(14)).unwrap();
    wait(&drone, 0.5);
    let [red, ..] = shown(&drone)[0];
    assert!((60..160).contains(&red), "on its way: {red}");
    wait(&drone, 1.0);
    assert_eq!(shown(&drone), [[200, 100, 50]; 12]);
    let (id, size) = client.find_memory(memory::Kind::LedRing).unwrap().unwrap();
    assert_eq!(size, 24);
    let mut link = drone.clone();
    let data = Data::new(&[[0xF8, 0x00], [0x07, 0xE0]].concat()).unwrap();
    link.send(&memory::Request::Write { id, address: 0, data }.encode()).unwrap();
    set(&mut client, "ring.effect", Value::U8(13)).unwrap();
    wait(&drone, 0.2);
    assert_eq!(shown(&drone)[..3], [[255, 0, 0], [0, 255, 0], [0, 0, 0]]);
    // A show: half a second of blue, then the third LED green, as cflib writes it.
    let (id, size) = client.find_memory(memory::Kind::LedTimings).unwrap().unwrap();
    assert_eq!(size, 256);
    let steps = [[12, 0x00, 0x1F, 0x00], [25, 0x07, 0xE0, 0x03], [0; 4]];
    let data = Data::new(&steps.concat()).unwrap();
    link.send(&memory::Request::Write { id, address: 0, data }.encode()).unwrap();
    set(&mut client, "ring.effect", Value::U8(17)).unwrap();
    wait(&drone, 0.2);
    assert_eq!(shown(&drone), [[0, 0, 255]; 12]);
    wait(&drone, 0.6);
    assert_eq!(shown(&drone)[1..4], [[0, 0, 255], [0, 255, 0], [0, 0, 255]]);
    set(&mut client, "ring.effect", Value::U8(0)).unwrap();
    wait(&drone, 0.2);
    assert_eq!(shown(&drone), [[0; 3]; 12]);
}
