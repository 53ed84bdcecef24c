//! Several drones in one world: `virtual-crazyflie serve --drones`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use steady_common::crtp::localization;
use steady_common::value::Value;
use steady_radio::client::Client;
use steady_radio::toc::Cache;

/// The program, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first of three ports in a row that nobody has.
fn free_ports() -> u16 {
    loop {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX - 2 && (1..3).all(|i| UdpSocket::bind(("127.0.0.1", port + i)).is_ok()) {
            return port;
        }
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn two_drones_stand_apart_and_a_broadcast_reaches_both() {
    let Some(elf) = steady_test_support::image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_ports();
    let mut command = Command::new(env!("CARGO_BIN_EXE_virtual-crazyflie"));
    command.args(["serve", "--drones", "2", "--quiet", "--seconds", "600", "--elf"]).arg(elf);
    command.args(["--udp", &format!("127.0.0.1:{port}"), "--broadcast", &format!("127.0.0.1:{}", port + 2)]);
    let mut server = Server(command.arg("--out").arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("udp://127.0.0.1:"), "{line}");
    }
    let mut drones = [0, 1].map(|i| {
        let uri = format!("udp://127.0.0.1:{}", port + i).parse().unwrap();
        Client::new(steady_radio::link::open(&uri).unwrap(), Cache::new(None))
    });
    for (i, drone) in drones.iter_mut().enumerate() {
        // By motion capture, which sees each of them where it is.
        wait_for("the estimate", || {
            let found = drone.log_once(&["stateEstimate.x"]).unwrap_or_default();
            matches!(found.first(), Some(Value::F32(x)) if (x - 0.5 * i as f32).abs() < 0.02)
        });
        assert!(!drone.flags().unwrap().is_locked());
    }
    let everybody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stop = localization::Request::EmergencyStop.encode();
    everybody.send_to(stop.bytes(), ("127.0.0.1", port + 2)).unwrap();
    for drone in &mut drones {
        wait_for("the stop", || drone.flags().is_ok_and(|f| f.is_locked()));
    }
}

#[test]
fn drones_that_share_a_world_do_not_share_files() {
    let refused = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_virtual-crazyflie"));
        let output = command.args(["serve", "--drones", "2"]).args(more).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--eeprom", "x"]).contains("leave out --flash, --card, --eeprom"));
    assert!(refused(&["--udp", "127.0.0.1:0"]).contains("give a port"));
    assert!(refused(&["--udp", "127.0.0.1:65535"]).contains("65536"));
    assert!(refused(&["--udp", "here"]).contains("not an address"));
}
