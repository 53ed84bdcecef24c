//! The real image on a cable: a computer finds it, and `steady`'s own code talks to it by the controller's
//! registers, in virtual time, while the radio goes on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::time::Duration;

use drone::{RealDrone, Shared, client as radio_client, image, table};
use steady_common::value::Value;
use steady_radio::Result;
use steady_radio::client::Client;
use steady_radio::link::{Cable, Link, Usb};
use steady_radio::tables::Survey;
use steady_radio::toc::Cache;
use steady_sim::{Task, World};
use virtual_crazyflie::chip::otg::{Handshake, Otg};
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::network::Trouble;
use virtual_crazyflie::session::{Session, Setup};
use virtual_crazyflie::summary::Summary;

/// The address that the computer gives it.
const ADDRESS: u8 = 5;
/// Longest time for an answer to a request, ms.
const PATIENCE_MS: u32 = 100;

/// A computer at the other end of the cable. Time passes while it waits.
#[derive(Clone)]
struct Computer {
    drone: Shared<RealDrone>,
    address: u8,
}

/// Request type, request, value, index, and most bytes that come back.
type Request = (u8, u8, u16, u16, u16);

impl Computer {
    fn wait(&self, ms: u32) {
        let mut link = self.drone.clone();
        let until = link.now() + Duration::from_millis(ms.into());
        while link.now() < until {
            link.receive(until.saturating_sub(link.now())).unwrap();
        }
    }

    fn otg<T>(&self, work: impl FnOnce(&mut Otg) -> T) -> T {
        work(&mut self.drone.0.borrow_mut().session.machine.board().otg)
    }

    /// A transaction again and again while the drone says "not now"; nothing when it takes too long.
    fn insist<T>(
        &self,
        mut transaction: impl FnMut(&mut Otg) -> Handshake<T>,
        ms: u32,
    ) -> Option<Handshake<T>> {
        for waited in 0..=ms {
            match self.otg(&mut transaction) {
                Handshake::Nak if waited < ms => self.wait(1),
                Handshake::Nak => {}
                done => return Some(done),
            }
        }
        None
    }

    /// A control transfer; nothing when the drone refuses it.
    fn control(&self, (kind, request, value, index, length): Request) -> Option<Vec<u8>> {
        let address = self.address;
        let ([v0, v1], [i0, i1], [l0, l1]) = (value.to_le_bytes(), index.to_le_bytes(), length.to_le_bytes());
        let setup = [kind, request, v0, v1, i0, i1, l0, l1];
        assert_eq!(self.otg(|otg| otg.setup(address, setup)), Handshake::Done(()), "{setup:x?}");
        let mut bytes = Vec::new();
        loop {
            // An empty one is the confirmation of a request without data.
            match self.insist(|otg| otg.input(address, 0), PATIENCE_MS).expect("an answer") {
                Handshake::Done(part) => bytes.extend(part),
                Handshake::Stall => return None,
                other => panic!("{other:?}"),
            }
            if bytes.len() % 64 != 0 || bytes.is_empty() || bytes.len() >= usize::from(length) {
                break;
            }
        }
        if kind & 0x80 != 0 {
            let confirmed = self.insist(|otg| otg.output(address, 0, &[]), PATIENCE_MS);
            assert_eq!(confirmed, Some(Handshake::Done(())));
            self.wait(3);
        }
        Some(bytes)
    }

    /// Plugs the cable in and does what a computer does before a program may use the device.
    fn plug(drone: &Shared<RealDrone>) -> Self {
        let mut computer = Self { drone: drone.clone(), address: 0 };
        assert!(computer.otg(Otg::plug), "no device shows itself");
        computer.wait(20);
        assert_eq!(computer.control((0x80, 6, 0x100, 0, 64)).unwrap().len(), 18);
        computer.control((0x00, 5, ADDRESS.into(), 0, 0)).unwrap();
        computer.address = ADDRESS;
        computer.wait(3);
        computer.control((0x00, 9, 1, 0, 0)).unwrap();
        computer
    }

    fn text(&self, number: u8) -> String {
        let bytes = self.control((0x80, 6, 0x300 | u16::from(number), 0x409, 255)).unwrap();
        let units: Vec<u16> = bytes[2..].as_chunks().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        String::from_utf16(&units).unwrap()
    }

    fn client(&self) -> Client {
        Client::new(Box::new(Usb::new(self.clone()).unwrap()), Cache::default())
    }
}

impl Cable for Computer {
    fn route(&mut self, to_usb: bool) -> Result<()> {
        // A pulled cable is noticed by nobody but the drone.
        if self.otg(|otg| otg.is_connected()) {
            self.control((0x40, 1, 1, u16::from(to_usb), 0)).expect("what cflib asks for");
        }
        Ok(())
    }
    fn write(&mut self, bytes: &[u8], wait: Duration) -> Result<bool> {
        let address = self.address;
        let done = self.insist(|otg| otg.output(address, 1, bytes), wait.as_millis() as u32);
        Ok(done == Some(Handshake::Done(())))
    }
    fn read(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let address = self.address;
        match self.insist(|otg| otg.input(address, 1), wait.as_millis() as u32) {
            Some(Handshake::Done(bytes)) => Ok(Some(bytes)),
            Some(Handshake::Nothing) => {
                self.wait(wait.as_millis().max(1) as u32);
                Ok(None)
            }
            _ => Ok(None),
        }
    }
    fn now(&self) -> Duration {
        self.drone.now()
    }
}

/// A drone that has been on for two seconds, and what it has said by radio.
fn started() -> Option<(Shared<RealDrone>, String)> {
    let drone = RealDrone::new(image()?, &[table(1)], Trouble::default(), 1);
    let (mut client, mut text) = (radio_client(&drone), String::new());
    while client.now() < Duration::from_secs(2) {
        text += &client.console(Duration::from_millis(100)).unwrap();
    }
    Some((drone, text))
}

fn value(client: &mut Client, name: &str) -> Value {
    let param = client.param(name).unwrap();
    client.get(param).unwrap()
}

#[test]
fn a_computer_finds_the_drone_by_what_the_official_clients_look_for() {
    let Some((drone, said)) = started() else { return };
    let computer = Computer::plug(&drone);
    let about = computer.control((0x80, 6, 0x100, 0, 18)).unwrap();
    assert_eq!(about[8..12], [0x83, 0x04, 0x40, 0x57], "0483:5740");
    assert_eq!(computer.text(about[14]), "Bitcraze AB");
    assert_eq!(computer.text(about[15]), "Crazyflie 2.X");
    let serial = computer.text(about[16]);
    assert!(serial.len() == 24 && said.contains(&format!("serial {serial}")), "{serial}: {said}");
    let configuration = computer.control((0x80, 6, 0x200, 0, 255)).unwrap();
    assert_eq!(
        configuration[9..32],
        [9, 4, 0, 0, 2, 255, 0, 0, 0, 7, 5, 0x81, 2, 64, 0, 0, 7, 5, 1, 2, 64, 0, 0]
    );
    assert_eq!(computer.control((0x40, 7, 0, 0, 0)), None, "an unknown request");
    // The bus is reset in the middle: everything begins anew.
    let again = Computer::plug(&drone);
    assert_eq!(again.text(about[14]), "Bitcraze AB");
}

#[test]
fn the_same_services_by_cable_as_by_radio() {
    let Some((drone, _)) = started() else { return };
    let computer = Computer::plug(&drone);
    let mut client = computer.client();
    assert_eq!(client.platform().unwrap().device, "Crazyflie 2.1");
    let (echoes, mean_s) = client.echo(200).unwrap();
    eprintln!("{echoes} of 200 echoes by cable, {:.2} ms each", 1e3 * mean_s);
    assert!(echoes == 200 && mean_s < 0.004, "{echoes} echoes, {mean_s} s");
    // Parameters, kept in the EEPROM; log variables; memories.
    let param = client.param("fence.maxX").unwrap();
    client.set("fence.maxX", param, Value::F32(1.5)).unwrap();
    client.store("fence.maxX", param).unwrap();
    assert_eq!(value(&mut radio_client(&drone), "fence.maxX"), Value::F32(1.5), "the radio sees it too");
    assert!((3.0..4.3).contains(&client.battery_v().unwrap()));
    let mut config = client.config().unwrap();
    config.channel = 33;
    client.set_config(&config).unwrap();
    let text = client.console(Duration::from_millis(100)).unwrap();
    assert!(text.contains("radio settings were written"), "the console: {text}");
    assert_eq!(client.config().unwrap().channel, 33);
    assert_eq!(client.active_table().unwrap().sequence, 1);
    let survey = Survey::take(&mut client, &mut |_| {}).unwrap();
    let error =
        steady_radio::tables::write(&mut client, &survey, &table(2), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("only the radio"), "{error}");
    // A motor by hand.
    for (name, value) in [("motorPowerSet.enable", Value::U8(1)), ("motorPowerSet.m3", Value::U16(9000))] {
        let param = client.param(name).unwrap();
        client.set(name, param, value).unwrap();
    }
    computer.wait(50);
    let motors = drone.0.borrow().session.machine.look().motors();
    assert!(motors[2] > 5000 && motors[0] == 0, "{motors:?}");
}

#[test]
fn an_armed_drone_on_the_radio_does_not_mind_the_cable() {
    let Some((drone, _)) = started() else { return };
    let mut radio = radio_client(&drone);
    radio.arm(true).unwrap();
    let computer = Computer::plug(&drone);
    {
        let mut client = computer.client();
        assert!(client.flags().unwrap().is_armed());
        assert!(radio.flags().unwrap().is_armed(), "both are answered");
        assert_eq!(client.platform().unwrap().device, radio.platform().unwrap().device);
        // The cable is pulled with a client on it.
        computer.otg(Otg::unplug);
        computer.wait(50);
        assert!(client.flags().is_err());
    }
    assert!(radio.flags().unwrap().is_armed());
    // It comes back, and the radio's emergency stop counts while a client is there.
    let computer = Computer::plug(&drone);
    let mut client = computer.client();
    assert!(client.flags().unwrap().is_armed());
    radio.stop().unwrap();
    assert!(client.flags().unwrap().is_locked());
    let drone = drone.0.borrow();
    let locks = &drone.session.machine.look().locks;
    let (longest_us, place) = (locks.longest as f64 / 168.0, drone.session.image().place(locks.longest_at));
    eprintln!("interrupts were off for {longest_us:.1} µs at most, in {place}");
    assert!(longest_us < 10.0, "interrupts were off for {longest_us:.1} µs in {place}");
}

#[test]
fn a_flight_by_radio_goes_on_while_a_cable_is_plugged_in_used_and_pulled() {
    let Some(image) = image() else { return };
    let world = World::named("nominal").unwrap();
    let mission = Mission::new(Task::Hover, Dongle::new(&world.radio, 1)).holding(2.0);
    let setup = Setup {
        image,
        world,
        seed: 1,
        pages: Vec::new(),
        flash: None,
        card: None,
        eeprom: Vec::new(),
        faults: Vec::new(),
        profile: false,
        strict: None,
        otp: "0;CF21".to_owned(),
    };
    let drone = RealDrone::on(Session::new(setup, Box::new(mission)).unwrap());
    Computer { drone: drone.clone(), address: 0 }.wait(1500);
    let computer = Computer::plug(&drone);
    let mut client = computer.client();
    let mut seen_flying = 0;
    while seen_flying < 50 && computer.now() < Duration::from_secs(15) {
        seen_flying += u32::from(client.flags().unwrap().is_flying());
        assert_eq!(client.echo(1).unwrap().0, 1);
    }
    assert_eq!(seen_flying, 50, "asked by cable while it flies by radio");
    computer.otg(Otg::unplug);
    let mut session = drone.0.borrow_mut();
    let end = session.session.run(20.0, None, |_| ());
    let summary = Summary::of(&session.session, &end, None);
    assert!(summary.success && summary.is_landed && summary.highest_m > 0.9, "{summary:?}");
    assert!(summary.resets.is_empty() && summary.faults.is_empty(), "{summary:?}");
    let load = session.session.flight_load().unwrap();
    eprintln!("the processor was awake for {:.1} % of the flight", 100.0 * load);
}

#[test]
fn a_dead_usb_controller_does_not_keep_the_drone_from_flying() {
    let Some(image) = image() else { return };
    for is_broken in [true, false] {
        let drone = RealDrone::new(image.clone(), &[], Trouble::default(), 1);
        drone.0.borrow_mut().session.machine.board().otg.is_broken = is_broken;
        let mut client = radio_client(&drone);
        let mut text = String::new();
        while client.now() < Duration::from_secs(2) {
            text += &client.console(Duration::from_millis(100)).unwrap();
        }
        assert_eq!(text.contains("USB controller does not answer"), is_broken, "{text}");
        client.arm(true).unwrap();
    }
}
