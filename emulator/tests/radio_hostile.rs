//! A drone that answers nonsense: the PC's side neither panics nor hangs, writes no file but its own,
//! and never touches the flash outside the gain tables.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::path::Path;
use std::time::Duration;

use drone::{QuickDrone, Shared, table};
use steady_common::crtp::{Packet, Port};
use steady_common::value::Value;
use steady_radio::Result;
use steady_radio::client::Client;
use steady_radio::link::{Link, Peer, Traffic};
use steady_radio::tables::{self, Survey};
use steady_radio::toc::Cache;
use steady_sim::Rng;
use virtual_crazyflie::network::Trouble;

/// Changes, swaps and invents answers of a real drone.
struct Liar {
    drone: Shared<QuickDrone>,
    rng: Rng,
    /// Part of the answers that are not left alone.
    part: f32,
    last: Packet,
}

impl Liar {
    fn below(&mut self, n: usize) -> usize {
        (self.rng.uniform() * n as f32) as usize % n
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    fn lie(&mut self, packet: Packet) -> Packet {
        let mut bytes = packet.bytes().to_vec();
        match self.below(6) {
            0 => {
                let at = self.below(bytes.len());
                bytes[at] ^= 1 << self.below(8);
            }
            1 => bytes.truncate(1 + self.below(bytes.len())),
            2 => {
                while bytes.len() < 32 {
                    bytes.push(self.byte());
                }
            }
            3 => {
                let len = 2 + self.below(31);
                bytes = (0..len).map(|_| self.byte()).collect();
            }
            // Right up to the header and the first bytes, then anything: numbers, lengths, texts.
            4 => {
                let from = bytes.len().min(1 + self.below(6));
                let rest: Vec<u8> = (from..bytes.len()).map(|_| self.byte()).collect();
                bytes.splice(from.., rest);
            }
            _ => bytes = self.last.bytes().to_vec(),
        }
        Packet::from_bytes(&bytes).unwrap_or(packet)
    }
}

impl Link for Liar {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        self.drone.send(packet)
    }
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let Some(packet) = self.drone.receive(wait)? else { return Ok(None) };
        let told = if self.rng.chance(self.part) { self.lie(packet) } else { packet };
        self.last = packet;
        Ok(Some(told))
    }
    fn now(&self) -> Duration {
        self.drone.now()
    }
    fn traffic(&self) -> Traffic {
        self.drone.traffic()
    }
    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        self.drone.switch_to(peer)
    }
}

/// Everything a client can ask, one after the other; what comes back does not matter here.
fn ask_everything(client: &mut Client) -> usize {
    let mut answered = 0;
    let mut count = |ok: bool| answered += usize::from(ok);
    count(client.platform().is_ok());
    count(client.battery_v().is_ok());
    count(client.flags().is_ok());
    count(client.params().is_ok());
    count(client.logs().is_ok());
    count(client.blockers().is_ok());
    count(client.console(Duration::from_millis(50)).is_ok());
    count(client.echo(5).is_ok());
    if let Ok(param) = client.param("ctrlMel.kp_xy") {
        count(client.set("ctrlMel.kp_xy", param, Value::F32(0.5)).is_ok());
        count(client.store("ctrlMel.kp_xy", param).is_ok());
    }
    count(client.arm(true).is_ok());
    count(client.recover().is_ok());
    count(tables::try_out(client, &table(3)).is_ok());
    if let Ok(survey) = Survey::take(client, &mut |_| {}) {
        count(survey.check(3.4).is_ok());
        count(tables::write(client, &survey, &table(9), &mut |_| {}).is_ok());
    }
    count(client.active_table().is_ok());
    answered
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn lies_neither_panic_nor_leave_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let (mut answered, mut hours) = (0, 0.0);
    for seed in 0..1000 {
        let drone = QuickDrone::new(&[table(1)], Trouble::default(), seed);
        let before = drone.0.borrow().flash[..0xC_0000].to_vec();
        let part = [0.02, 0.2, 0.6, 1.0][seed as usize % 4];
        let liar = Liar { drone: drone.clone(), rng: Rng::new(seed, 77), part, last: Packet::NULL };
        let cache = folder.path().join("place").join("cache");
        let mut client = Client::new(Box::new(liar), Cache::new(Some(cache.clone())));
        answered += ask_everything(&mut client);
        hours += client.now().as_secs_f64() / 3600.0;
        assert!(client.now() < Duration::from_secs(1800), "seed {seed} takes {:?}", client.now());
        assert_eq!(drone.0.borrow().flash[..0xC_0000], before, "seed {seed}: the firmware's flash");
        for file in files(folder.path()) {
            let is_ours = Path::new(&file).parent() == Some(&cache) && file.ends_with(".json");
            assert!(is_ours, "seed {seed}: {file}");
        }
    }
    eprintln!("1000 liars, {answered} questions answered, {hours:.1} hours of drone time");
    assert!(answered > 3000);
}

/// A drone that does not know the supervisor's port, as official releases before 2026.04.
struct WithoutSupervisor(Shared<QuickDrone>);

impl Link for WithoutSupervisor {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        if packet.port() == Some(Port::Supervisor) { Ok(()) } else { self.0.send(packet) }
    }
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        self.0.receive(wait)
    }
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }
    fn switch_to(&mut self, peer: Peer) -> Result<()> {
        self.0.switch_to(peer)
    }
}

#[test]
fn the_supervisors_state_is_read_where_the_firmware_has_it() {
    let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
    let asked = Client::new(Box::new(drone.clone()), Cache::new(None)).flags().unwrap();
    let mut client = Client::new(Box::new(WithoutSupervisor(drone)), Cache::new(None));
    assert_eq!(client.flags().unwrap(), asked);
}
