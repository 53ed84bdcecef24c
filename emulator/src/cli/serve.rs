//! `virtual-crazyflie serve`: a drone on the network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use steady_common::Vec3;
use steady_common::crtp::Packet;
use virtual_crazyflie::ground::{Broadcast, Udp};
use virtual_crazyflie::network::Trouble;
use virtual_crazyflie::scene::Swarm;
use virtual_crazyflie::session::{End, Setup};

use super::options::Options;

/// Distance of the drones on the floor, m.
const SPACING_M: f32 = 0.5;

/// Be a drone on the network: one CRTP packet a datagram, as the official Python client speaks it.
///
/// Motion capture and battery are simulated; everything else is up to who connects to
/// udp://127.0.0.1:19850. Ends when the drone switches itself off, with Ctrl-C, or after --seconds.
#[derive(Args)]
pub(crate) struct Cmd {
    #[command(flatten)]
    options: Options,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:19850")]
    udp: String,
    /// So many drones in one world, half a metre apart along x: each has its own port from --udp's on, its own
    /// folder, and feels the downwash of the others.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    drones: u8,
    /// Address for packets that reach all drones, as broadcasts by radio do.
    #[arg(long, value_name = "ADDRESS")]
    broadcast: Option<String>,
    /// Virtual seconds in a real second; 0 runs as fast as possible.
    #[arg(long, default_value_t = 1.0)]
    pace: f64,
    /// End after this virtual time, s.
    #[arg(long, default_value_t = 1e9)]
    seconds: f64,
    /// Part of the datagrams that are lost, each way.
    #[arg(long, default_value_t = 0.0, value_parser = part)]
    loss: f64,
    /// Part of the datagrams that arrive twice, each way.
    #[arg(long, default_value_t = 0.0, value_parser = part)]
    duplicates: f64,
    /// Mean delay of a datagram, ms; they overtake each other.
    #[arg(long, default_value_t = 0.0, value_parser = delay)]
    delay_ms: f64,
    /// Start in the bootloader, as with the button held at power-on.
    #[arg(long)]
    cold: bool,
    /// Folder for the card's image.
    #[arg(long, default_value = "flight")]
    out: PathBuf,
    /// Write where the drone truly is into a CSV file, a line every 10 ms of virtual time.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Do not print what the firmware says.
    #[arg(long, short)]
    quiet: bool,
}

impl Cmd {
    /// Serves.
    pub(crate) fn run(self) -> Result<()> {
        let count = usize::from(self.drones);
        let first: SocketAddr = self
            .udp
            .parse()
            .with_context(|| format!("{} is not an address such as 127.0.0.1:19850", self.udp))?;
        ensure!(
            count == 1 || !self.options.names_files() && self.truth.is_none() && first.port() != 0,
            "with --drones every drone has files and a port of its own: leave out --flash, --card, --eeprom and \
             --truth, and give a port"
        );
        let last = usize::from(first.port()) + count - 1;
        ensure!(
            last <= usize::from(u16::MAX),
            "{count} drones from port {} on need port {last}",
            first.port()
        );
        let places: Vec<Vec3> = (0..count).map(|i| Vec3::new(i as f32 * SPACING_M, 0.0, 0.0)).collect();
        let swarm = Arc::new(Swarm::new(places.clone()));
        let mut everybody: Vec<Option<Receiver<Packet>>> = Vec::new();
        if let Some(address) = &self.broadcast {
            everybody.extend(Broadcast::listen(address, count)?.into_iter().map(Some));
        }
        everybody.resize_with(count, || None);
        // All are made before the first one starts.
        std::thread::scope(|scope| {
            let drones: Vec<_> = places
                .iter()
                .zip(everybody)
                .enumerate()
                .map(|(number, (place, broadcast))| {
                    let (this, swarm) = (&self, &swarm);
                    let mut address = first;
                    if count > 1 {
                        address.set_port(first.port() + number as u16);
                    }
                    scope.spawn(move || this.serve(number, address, *place, swarm, broadcast))
                })
                .collect();
            let ended: Vec<Result<()>> = drones
                .into_iter()
                .map(|drone| drone.join().unwrap_or_else(|_| Err(anyhow!("the drone's thread panicked"))))
                .collect();
            ended.into_iter().collect()
        })
    }

    /// Serves one drone.
    fn serve(
        &self,
        number: usize,
        address: SocketAddr,
        place_m: Vec3,
        swarm: &Arc<Swarm>,
        broadcast: Option<Receiver<Packet>>,
    ) -> Result<()> {
        let (out, name) = match self.drones {
            1 => (self.out.clone(), String::new()),
            _ => (self.out.join(format!("drone-{number}")), format!("drone {number}: ")),
        };
        std::fs::create_dir_all(&out).with_context(|| format!("cannot make the folder {}", out.display()))?;
        let trouble = Trouble { loss: self.loss, duplicates: self.duplicates, delay_ms: self.delay_ms };
        let seed = self.options.seed + number as u64;
        let mut ground = Udp::listen(&address.to_string(), &self.options.world.radio, seed, trouble)?;
        if let Some(broadcast) = broadcast {
            ground = ground.with_broadcast(broadcast);
        }
        let address = ground.address()?;
        let setup = Setup { seed, ..self.options.setup(&out, false)? };
        let mut session = self.options.session(setup, Box::new(ground))?;
        session.forget_history();
        if self.drones > 1 {
            session.join(swarm, number, place_m);
        }
        if let Some(path) = &self.truth {
            session.write_truth_to(path)?;
        }
        if self.cold {
            let (board, memory) = session.machine.parts();
            board.nrf.cold_boot(memory.flash, board.now);
        }
        println!("{name}listening on udp://{address}");
        let pace = (self.pace > 0.0).then_some(self.pace);
        let end = session.run(self.seconds, pace, |(time_us, line)| {
            if !self.quiet {
                println!("{name}{:10.3} s  {line}", *time_us as f64 / 1e6);
            }
        });
        if self.pace == 0.0 && !self.quiet {
            println!("{name}{:.1} x real time", session.virtual_s() / session.real_s());
        }
        self.options.keep_eeprom(session.machine.look().eeprom.bytes())?;
        match end {
            End::Stopped(why) => bail!("{name}the drone stopped: {why}"),
            _ => Ok(()),
        }
    }
}

fn part(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err("not in 0 to 1".to_owned()) }
}

fn delay(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1000.0).contains(&value) { Ok(value) } else { Err("not in 0 to 1000 ms".to_owned()) }
}
