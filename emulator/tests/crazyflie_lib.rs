//! The official Rust client against the virtual Crazyflie. Its own links are the Crazyradio and USB, so
//! it gets one over UDP; everything above the link is its code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crazyflie_lib::crazyflie_link::error::Result;
use crazyflie_lib::crazyflie_link::{
    Connection, ConnectionStatus, ConnectionTrait, Error, Packet, RadioLinkStatistics,
};
use crazyflie_lib::subsystems::log::LogPeriod;
use crazyflie_lib::{Crazyflie, NoTocCache, Value};
use tokio::net::UdpSocket;

/// One packet a datagram.
struct Udp(UdpSocket);

#[async_trait::async_trait]
impl ConnectionTrait for Udp {
    async fn wait_close(&self) -> String {
        std::future::pending().await
    }
    async fn close(&self) {}
    async fn status(&self) -> ConnectionStatus {
        ConnectionStatus::Connected
    }
    async fn wait_disconnect(&self) {
        std::future::pending().await
    }
    async fn send_packet(&self, packet: Packet) -> Result<()> {
        self.0.send(&Vec::<u8>::from(packet)).await.map(|_| ()).map_err(|_| Error::Timeout)
    }
    async fn recv_packet(&self) -> Result<Packet> {
        let mut buffer = [0; 64];
        loop {
            let length = self.0.recv(&mut buffer).await.map_err(|_| Error::Timeout)?;
            if length > 1 {
                return Ok(Packet::from(buffer[..length].to_vec()));
            }
        }
    }
    async fn link_statistics(&self) -> Option<RadioLinkStatistics> {
        None
    }
}

/// A virtual drone that ends with us.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_rust_client_connects() {
    let Some(elf) = steady_test_support::image() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_virtual-crazyflie"));
    serve.args(["serve", "--quiet", "--no-card", "--udp", "127.0.0.1:0", "--seconds", "120"]);
    serve.arg("--elf").arg(elf).arg("--out").arg(folder.path());
    let mut server = Server(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on udp://").unwrap();

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(address).await.unwrap();
    let connect = Crazyflie::connect_from_link(Connection::new(Box::new(Udp(socket))), NoTocCache);
    let drone = tokio::time::timeout(Duration::from_secs(60), connect).await.expect("in time").unwrap();

    assert_eq!(drone.platform.protocol_version().await.unwrap(), 12);
    assert_eq!(drone.platform.device_type_name().await.unwrap(), "Crazyflie 2.1");
    let (params, logs) = (drone.param.names().len(), drone.log.names().len());
    eprintln!(
        "{params} parameters, {logs} log variables, {} memories",
        drone.memory.get_memories(None).len()
    );
    assert!(params > 80 && logs > 80);
    drone.param.set("ctrlMel.kp_xy", 0.5_f32).await.unwrap();
    assert_eq!(drone.param.get::<f32>("ctrlMel.kp_xy").await.unwrap(), 0.5);
    assert!(!drone.supervisor.read_bitfield().await.unwrap().is_armed());
    let mut block = drone.log.create_block().await.unwrap();
    block.add_variable("steady.table").await.unwrap();
    let stream = block.start(LogPeriod::from_millis(20).unwrap()).await.unwrap();
    for _ in 0..5 {
        let data = stream.next().await.unwrap();
        assert!(matches!(data.data.get("steady.table"), Some(Value::U32(0))), "{data:?}");
    }
    drone.disconnect().await;
}
