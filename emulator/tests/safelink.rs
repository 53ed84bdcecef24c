//! The PC's side of the radio after a client that has left safelink on, as cflib and Crazyswarm2 do, and
//! with it being switched on in between: the very code that drives the dongle, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::time::Duration;

use drone::{Antenna, InReach, QuickDrone, RealDrone, Shared, image, scan, table};
use steady_common::crtp::{Packet, link};
use steady_common::value::Value;
use steady_radio::bootloader::Bootloader;
use steady_radio::client::Client;
use steady_radio::firmware::{self, Image};
use steady_radio::link::Esb;
use steady_radio::tables::{self, Survey};
use steady_radio::toc::Cache;
use virtual_crazyflie::network::Trouble;

/// A client that switches safelink on, sends some packets, and goes.
fn visit<D: InReach>(drone: &Shared<D>, packets: usize) {
    let mut drone = drone.0.borrow_mut();
    let mut waited = 0;
    while drone.exchange(&link::safelink(true)).is_none() {
        waited += 1;
        assert!(waited < 5000, "the drone does not answer");
    }
    // Sensors and flight have started.
    (0..1500).for_each(|_| drone.idle());
    let mut number = false;
    for _ in 0..packets {
        drone.exchange(&Packet::NULL.numbered(number, number));
        number = !number;
    }
}

fn client<D: InReach + 'static>(antenna: Antenna<D>) -> Client {
    Client::new(Box::new(Esb::new(antenna).unwrap()), Cache::default())
}

#[test]
fn stop_is_confirmed_after_a_client_that_left_safelink_on() {
    let Some(image) = image() else { return };
    for packets in 0..4 {
        let drone = RealDrone::new(image.clone(), &[], Trouble::default(), 1);
        visit(&drone, packets);
        let mut client = client(Antenna::new(&drone, 0.0, 1));
        let began = client.now();
        client.stop().unwrap_or_else(|error| panic!("after {packets} packets: {error}"));
        let took = client.now() - began;
        assert!(took < Duration::from_millis(200), "after {packets} packets: {took:?}");
    }
}

#[test]
fn stop_is_confirmed_with_safelink_switched_on_in_between() {
    let Some(image) = image() else { return };
    for at in [0, 1, 2, 3, 5, 8, 13] {
        let drone = RealDrone::new(image.clone(), &[], Trouble::default(), 1);
        visit(&drone, 1);
        let mut antenna = Antenna::new(&drone, 0.2, at);
        antenna.switches_on_in = Some(at);
        client(antenna).stop().unwrap_or_else(|error| panic!("switched on at packet {at}: {error}"));
    }
}

#[test]
fn console_and_param_work_after_a_client_that_left_safelink_on() {
    let Some(image) = image() else { return };
    for packets in 0..2 {
        let drone = RealDrone::new(image.clone(), &[], Trouble::default(), 1);
        visit(&drone, packets);
        let mut antenna = Antenna::new(&drone, 0.0, 1);
        antenna.switches_on_in = Some(400);
        let mut client = client(antenna);
        let mut text = String::new();
        for _ in 0..20 {
            text += &client.console(Duration::from_millis(100)).unwrap();
        }
        assert!(text.contains("board 0;CF21"), "{text}");
        let param = client.param("fence.maxX").unwrap();
        client.set("fence.maxX", param, Value::F32(1.5)).unwrap();
        client.store("fence.maxX", param).unwrap();
        assert_eq!(client.get(param).unwrap(), Value::F32(1.5));
    }
}

/// Time it takes to read the tables and write one, after a client that left safelink on or without one.
fn gains_flash_s(is_left_on: bool) -> f64 {
    let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
    visit(&drone, 0);
    if !is_left_on {
        drone.0.borrow_mut().exchange(&link::safelink(false));
    }
    let mut client = client(Antenna::new(&drone, 0.0, 1));
    let began = client.now();
    let survey = Survey::take(&mut client, &mut |_| {}).unwrap();
    tables::write(&mut client, &survey, &table(9), &mut |_| {}).unwrap();
    (client.now() - began).as_secs_f64()
}

#[test]
fn gains_flash_is_as_fast_after_a_client_that_left_safelink_on() {
    let (without, with) = (gains_flash_s(false), gains_flash_s(true));
    eprintln!("{without:.2} s, after a client that left safelink on {with:.2} s");
    assert!(with < without + 0.05, "{without:.2} s, after a client that left safelink on {with:.2} s");
}

/// A lost acknowledgement carries a lost answer: with safelink it comes again with the next packet, without
/// it the question is repeated after 40 ms.
#[test]
fn many_answers_come_faster_over_a_bad_radio_with_safelink() {
    let mean_s = |loss: f32| {
        let all = (0..10).map(|seed| {
            let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
            visit(&drone, 0);
            let mut client = client(Antenna::new(&drone, loss, seed));
            let began = client.now();
            Survey::take(&mut client, &mut |_| {}).unwrap();
            assert!(!drone.0.borrow().nrf.has_safelink(), "off again");
            (client.now() - began).as_secs_f64()
        });
        all.sum::<f64>() / 10.0
    };
    let (good, bad) = (mean_s(0.0), mean_s(0.2));
    eprintln!("reading the tables: {good:.2} s, with 20 % loss each way {bad:.2} s");
    assert!(bad < 1.1, "{bad:.2} s; 1.3 s without safelink");
}

/// Packets that the radio processor dropped as repeats.
fn repeats(drone: &Shared<RealDrone>) -> u64 {
    drone.0.borrow().session.machine.look().nrf.repeats
}

#[test]
fn gains_flash_works_after_a_client_that_left_safelink_on() {
    let mut took_s = 0.0;
    for seed in 0..40 {
        let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
        visit(&drone, (seed % 2) as usize);
        let mut antenna = Antenna::new(&drone, 0.1, seed);
        antenna.switches_on_in = Some(17 * seed);
        let mut client = client(antenna);
        let began = client.now();
        let survey = Survey::take(&mut client, &mut |_| {}).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        tables::write(&mut client, &survey, &table(9), &mut |_| {})
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(scan(&drone.0.borrow().flash).newest.unwrap().1.sequence, 2, "seed {seed}");
        assert_eq!(client.active_table().unwrap().sequence, 2, "seed {seed}");
        took_s += (client.now() - began).as_secs_f64() / 40.0;
    }
    eprintln!("{took_s:.2} s each");
    assert!(took_s < 2.3, "{took_s:.2} s each; 3.2 s without numbering and switching it off");
}

#[test]
fn flash_works_after_a_client_that_left_safelink_on() {
    let (Some(image), Some(elf)) = (image(), steady_test_support::image()) else { return };
    let new = Image::load(&elf.with_extension("zip")).unwrap();
    let drone = RealDrone::new(image, &[table(1)], Trouble::default(), 1);
    visit(&drone, 1);
    let mut client = client(Antenna::new(&drone, 0.0, 1));
    let before = repeats(&drone);
    let mut loader = Bootloader::enter(client.link()).unwrap();
    firmware::write(&mut loader, &new, &mut |_| {}).unwrap();
    loader.leave().unwrap();
    // Somebody comes by while the drone restarts.
    visit(&drone, 2);
    assert_eq!(client.platform().unwrap().device, "Crazyflie 2.1");
    assert_eq!(client.active_table().unwrap().sequence, 1, "the tables were not touched");
    assert_eq!(repeats(&drone) - before, 0, "packets that the radio processor dropped");
}
