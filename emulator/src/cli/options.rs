//! Options that both commands have.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use steady_common::gain_table::{FLASH_ADDRESS, GainTable, PAGE_SIZE};
use steady_sim::World;
use virtual_crazyflie::fault::{self, Fault};
use virtual_crazyflie::ground::Ground;
use virtual_crazyflie::session::{Session, Setup};
use virtual_crazyflie::{Image, sdimage};

/// What the drone is made of.
#[derive(Args)]
pub(crate) struct Options {
    /// Firmware: an ELF file, or a binary for 0x08004000.
    #[arg(long, env = "STEADY_ELF", default_value = "target/firmware/steady.elf")]
    elf: PathBuf,
    /// World by name, or a TOML file.
    #[arg(long, default_value = "nominal", value_parser = World::load)]
    pub(crate) world: World,
    /// Of all random numbers; the same seed gives the same flight, bit for bit.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Gain table pages (1 KiB each) that are in the drone's flash, oldest first.
    #[arg(long, value_name = "TABLE.bin")]
    gains: Vec<PathBuf>,
    /// The drone's flash, kept from one session to the next. Where the file exists, the drone starts
    /// with it, and the firmware named by --elf only tells what the trace means.
    #[arg(long, value_name = "FILE", conflicts_with = "gains")]
    flash: Option<PathBuf>,
    /// Card image to use and keep; a new one is made when the file does not exist.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// A file for the root folder of a new card (config.txt, for example).
    #[arg(long, value_name = "FILE")]
    card_file: Vec<PathBuf>,
    /// Leave only so much room on a new card, MiB.
    #[arg(long, value_name = "MIB", conflicts_with = "no_card")]
    card_free_mib: Option<u32>,
    /// Fly without the micro-SD deck.
    #[arg(long, conflicts_with_all = ["card", "card_file"])]
    no_card: bool,
    /// Mount the LED-ring deck; its colours are in the summary.
    #[arg(long)]
    led_ring: bool,
    /// Content of the configuration memory; written back at the end.
    #[arg(long, value_name = "FILE")]
    eeprom: Option<PathBuf>,
    /// Which board it is, as its one-time programmable memory says (0;C21B is a Brushless).
    #[arg(long, value_name = "TEXT", default_value = "0;CF21")]
    otp: String,
    /// Something that goes wrong, as SECONDS:WHAT[=VALUE]; may be given several times.
    #[arg(long, value_name = "FAULT", long_help = long_fault_help())]
    fault: Vec<Fault>,
    /// Also stop at what a chip puts up with, but no firmware should do: a store into locked flash, a DMA stream
    /// started with old flags or changed while it is on. Default for Steady's own firmware.
    #[arg(long, conflicts_with = "lenient")]
    strict: bool,
    /// Put up with what a chip puts up with. Default for the firmware of others.
    #[arg(long)]
    lenient: bool,
    /// A TOML file with a list `faults` of such texts.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

fn long_fault_help() -> String {
    format!(
        "Something that goes wrong, as SECONDS:WHAT[=VALUE]; may be given several times.\nWhat: {}",
        fault::HELP
    )
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    faults: Vec<String>,
}

impl Options {
    /// Everything but the ground; a card is made in `folder` unless one is named.
    pub(crate) fn setup(&self, folder: &Path, profile: bool) -> Result<Setup> {
        if !self.elf.is_file() {
            bail!("there is no firmware at {}: build it with `cargo xtask firmware`", self.elf.display());
        }
        let card = match (&self.card, self.no_card) {
            (_, true) => None,
            (Some(path), _) if path.exists() => Some(path.clone()),
            (path, _) => {
                let path = path.clone().unwrap_or_else(|| folder.join("card.img"));
                let files: Vec<(String, Vec<u8>)> =
                    self.card_file.iter().map(|p| named_file(p)).collect::<Result<_>>()?;
                let files: Vec<(&str, &[u8])> =
                    files.iter().map(|(n, c)| (n.as_str(), c.as_slice())).collect();
                sdimage::create(&path, &files)?;
                if let Some(room) = self.card_free_mib {
                    sdimage::leave_room(&path, room)?;
                }
                Some(path)
            }
        };
        let eeprom = match &self.eeprom {
            Some(path) if path.exists() => {
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
            }
            _ => Vec::new(),
        };
        let mut faults = self.fault.clone();
        if let Some(path) = &self.faults {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let file: FaultFile = toml::from_str(&text)
                .with_context(|| format!("{} is not a list of faults", path.display()))?;
            for text in file.faults {
                faults.push(text.parse().with_context(|| format!("in {}", path.display()))?);
            }
        }
        Ok(Setup {
            image: Image::load(&self.elf)?,
            world: self.world.clone(),
            seed: self.seed,
            pages: self.pages()?,
            flash: self.flash.clone(),
            card,
            eeprom,
            otp: self.otp.clone(),
            faults,
            profile,
            strict: match (self.strict, self.lenient) {
                (false, false) => None,
                (strict, _) => Some(strict),
            },
        })
    }

    /// A session of this drone, with all its decks.
    pub(crate) fn session(&self, setup: Setup, ground: Box<dyn Ground>) -> Result<Session> {
        let mut session = Session::new(setup, ground)?;
        if self.led_ring {
            session.machine.board().nrf.mount_led_ring();
        }
        Ok(session)
    }

    /// True when files are named that one drone alone can have.
    pub(crate) fn names_files(&self) -> bool {
        self.flash.is_some() || self.card.is_some() || self.eeprom.is_some()
    }

    fn pages(&self) -> Result<Vec<(u32, Vec<u8>)>> {
        let mut pages = Vec::new();
        for (i, path) in self.gains.iter().enumerate() {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            if bytes.len() != PAGE_SIZE {
                bail!("{} has {} bytes; a gain table has {PAGE_SIZE}", path.display(), bytes.len());
            }
            if let Err(error) = GainTable::decode(&bytes) {
                eprintln!(
                    "note: {} is not a valid gain table ({error}); the drone will skip it",
                    path.display()
                );
            }
            pages.push((FLASH_ADDRESS + (i * PAGE_SIZE) as u32, bytes));
        }
        Ok(pages)
    }

    /// Keeps what the configuration memory holds.
    pub(crate) fn keep_eeprom(&self, bytes: &[u8]) -> Result<()> {
        match &self.eeprom {
            Some(path) => {
                std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
            }
            None => Ok(()),
        }
    }
}

fn named_file(path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.file_name().and_then(|n| n.to_str()).context("the file has no name")?;
    let content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((name.to_owned(), content))
}
