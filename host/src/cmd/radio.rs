//! `steady radio`: how a drone's radio is tuned, and its trims.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use steady_common::config_block::ConfigBlock;
use steady_radio::DataRate;

use super::drone::{Address, Consent};

/// Show or change channel, data rate, address and trims, which the drone keeps in its EEPROM.
#[derive(Debug, Args)]
pub(crate) struct Cmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show them.
    Show(Address),
    /// Change those that are given. They count from the drone's next start on.
    Set(Set),
}

#[derive(Debug, Args)]
struct Set {
    #[command(flatten)]
    address: Address,
    #[command(flatten)]
    consent: Consent,
    /// Channel, 0 to 125; a Crazyradio reaches 0 to 100.
    #[arg(long)]
    channel: Option<u8>,
    /// Data rate: 250K, 1M or 2M.
    #[arg(long, value_parser = rate)]
    rate: Option<u8>,
    /// Address, ten hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = hex)]
    radio_address: Option<u64>,
    /// Trim of the roll, degrees: turns the accelerometer.
    #[arg(long, value_name = "DEG", allow_negative_numbers = true)]
    roll_trim: Option<f32>,
    /// Trim of the pitch, degrees.
    #[arg(long, value_name = "DEG", allow_negative_numbers = true)]
    pitch_trim: Option<f32>,
}

fn rate(text: &str) -> Result<u8, String> {
    let rates = DataRate::ALL.iter().position(|rate| rate.name() == text);
    rates.and_then(|n| u8::try_from(n).ok()).ok_or_else(|| "it is 250K, 1M or 2M".to_owned())
}

fn hex(text: &str) -> Result<u64, String> {
    let is_whole = text.len() == 10;
    let value = u64::from_str_radix(text, 16).ok().filter(|_| is_whole);
    value.ok_or_else(|| "it has ten hexadecimal digits, as E7E7E7E7E7".to_owned())
}

fn show(config: &ConfigBlock) -> String {
    let rate = DataRate::ALL.get(usize::from(config.speed)).map_or("?", |rate| rate.name());
    format!(
        "radio://0/{}/{rate}/{:010X}, trims: roll {} and pitch {} degrees",
        config.channel, config.address, config.roll_trim_deg, config.pitch_trim_deg
    )
}

impl Cmd {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Show(address) => {
                println!("{}", show(&address.connect()?.config()?));
                Ok(())
            }
            Verb::Set(set) => set.run(),
        }
    }
}

impl Set {
    fn run(self) -> Result<()> {
        let mut client = self.address.connect()?;
        let old = client.config()?;
        let new = ConfigBlock {
            channel: self.channel.unwrap_or(old.channel),
            speed: self.rate.unwrap_or(old.speed),
            pitch_trim_deg: self.pitch_trim.unwrap_or(old.pitch_trim_deg),
            roll_trim_deg: self.roll_trim.unwrap_or(old.roll_trim_deg),
            address: self.radio_address.unwrap_or(old.address),
        };
        new.check().context("nothing was written")?;
        eprintln!("now   {}\nthen  {}", show(&old), show(&new));
        if !self.consent.ask(&format!("Write it to {}?", self.address.uri))? {
            return Ok(());
        }
        client.set_config(&new)?;
        println!("written and read back; switch the drone off and on, then it is {}", show(&new));
        Ok(())
    }
}
