//! `virtual-crazyflie serve`: a drone on the network.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use virtual_crazyflie::ground::Udp;
use virtual_crazyflie::network::Trouble;
use virtual_crazyflie::session::{End, Session};

use super::options::Options;

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
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make the folder {}", self.out.display()))?;
        let trouble = Trouble { loss: self.loss, duplicates: self.duplicates, delay_ms: self.delay_ms };
        let ground = Udp::listen(&self.udp, &self.options.world.radio, self.options.seed, trouble)?;
        let address = ground.address()?;
        let mut session = Session::new(self.options.setup(&self.out, false)?, Box::new(ground))?;
        if let Some(path) = &self.truth {
            session.write_truth_to(path)?;
        }
        if self.cold {
            let (board, memory) = session.machine.parts();
            board.nrf.cold_boot(memory.flash, board.now);
        }
        println!("listening on udp://{address}");
        let pace = (self.pace > 0.0).then_some(self.pace);
        let end = session.run(self.seconds, pace, |(time_us, line)| {
            if !self.quiet {
                println!("{:10.3} s  {line}", *time_us as f64 / 1e6);
            }
        });
        self.options.keep_eeprom(session.machine.look().eeprom.bytes())?;
        match end {
            End::Stopped(why) => bail!("the drone stopped: {why}"),
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
