//! The virtual Crazyflie: tables go into its flash by the radio's protocol and its bootloader, and the
//! firmware's own image flies.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail, ensure};
use steady_common::GainTable;
use steady_radio::client::Client;
use steady_radio::tables::{self, MIN_BATTERY_V, Survey};
use steady_radio::toc::Cache;
use steady_radio::{Uri, link};

use super::drone::{Drone, EEPROM, FLASH, Flashed, FlightRequest};
use super::native_drone::trouble;
use super::outcome::Outcome;
use crate::files;
use crate::fly::{FlightResult, Program, VirtualFlight};

/// An exploring flight that logged less than two seconds of the law is flown again if its card is to blame.
const MIN_STEPS: u64 = 1000;
/// Every so many lines of the truth are kept: a hundred a second.
const THIN: usize = 10;

/// The virtual Crazyflie in a world, with a task.
#[derive(Clone, Debug)]
pub struct VirtualDrone {
    pub program: Program,
    /// As for `steady fly`.
    pub task: String,
    /// As for `steady fly`.
    pub world: String,
}

/// A virtual drone on the network that ends with this value.
struct Served {
    process: Child,
    uri: Uri,
}

impl Drop for Served {
    fn drop(&mut self) {
        // Its flash is on disk, and it has nothing else to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Served {
    fn start(program: &Program, folder: &Path) -> Result<Self> {
        let mut command = program.command("serve");
        command.args(["--quiet", "--no-card", "--udp", "127.0.0.1:0", "--seconds", "300", "--flash"]);
        command.arg(folder.join(FLASH)).arg("--out").arg(folder).stdout(Stdio::piped());
        let mut process = command.spawn().context("the virtual drone cannot be started")?;
        let stdout = process.stdout.take();
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).context("the virtual drone says nothing")?;
        }
        let Some(uri) = line.trim().strip_prefix("listening on ") else {
            let _ = process.kill();
            let _ = process.wait();
            bail!(
                "the virtual drone did not start{}",
                if line.is_empty() { "" } else { ": " }.to_owned() + &line
            );
        };
        let uri = uri.parse()?;
        Ok(Self { process, uri })
    }
}

impl Drone for VirtualDrone {
    fn flash(&self, before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed> {
        if let Some(before) = before {
            let (from, to) = (before.join(FLASH), folder.join(FLASH));
            fs::copy(&from, &to).with_context(|| format!("{}: cannot be read", from.display()))?;
        }
        let drone = Served::start(&self.program, folder)?;
        let mut client = Client::new(link::open(&drone.uri)?, Cache::of_user());
        client.platform()?;
        let survey = Survey::take(&mut client, &mut |_| {})?;
        survey.check(MIN_BATTERY_V)?;
        flash_by_radio(&mut client, &survey, table)
    }

    fn fly(&self, flight: &FlightRequest, folder: &Path) -> Result<Outcome> {
        let (outcome, flown) = self.fly_once(flight, folder)?;
        if !flight.exploration.enabled || outcome.steps >= MIN_STEPS {
            return Ok(outcome);
        }
        let has_card_trouble = flight.card_free_mib.is_some() || flown.log_files().is_empty();
        if !has_card_trouble && outcome.lost == 0 {
            return Ok(outcome);
        }
        fs::remove_dir_all(folder).with_context(|| format!("{}: cannot be removed", folder.display()))?;
        let again = FlightRequest {
            card_free_mib: None,
            // Its faults go with the card.
            faults: flight.faults.iter().filter(|f| !f.contains(":card-")).cloned().collect(),
            ..flight.clone()
        };
        let (outcome, _) = self.fly_once(&again, folder)?;
        Ok(Outcome { new_card: true, ..outcome })
    }
}

/// Writes a table over the bootloader and compares what the firmware itself has afterwards.
pub(super) fn flash_by_radio(client: &mut Client, survey: &Survey, table: &GainTable) -> Result<Flashed> {
    let written = tables::write(client, survey, table, &mut |_| {})?;
    let area = tables::read(client, &mut |_| {})?;
    let expected = GainTable { sequence: written.sequence, ..*table };
    let found = area.tables().last().map(|(_, found)| *found);
    ensure!(
        found == Some(expected),
        steady_radio::Error::Verification(format!("table {} came back changed", written.sequence))
    );
    Ok(Flashed { sequence: written.sequence, page: written.page })
}

impl VirtualDrone {
    fn fly_once(&self, flight: &FlightRequest, folder: &Path) -> Result<(Outcome, FlightResult)> {
        files::make_folder(folder)?;
        let eeprom = folder.join(EEPROM);
        if let Some(from) = &flight.eeprom {
            fs::copy(from, &eeprom).with_context(|| format!("{}: cannot be read", from.display()))?;
        }
        let plan = VirtualFlight {
            task: self.task.clone(),
            world: self.world.clone(),
            controller: flight.controller,
            exploration: flight.exploration,
            faults: flight.faults.clone(),
            seed: flight.seed,
            // The firmware of others has no table that was flashed.
            flash: self.program.is_steady()?.then(|| flight.drone.join(FLASH)),
            eeprom: Some(eeprom),
            card_free_mib: flight.card_free_mib,
            // They tell how late motion capture is.
            log_inputs: flight.exploration.enabled,
            ..VirtualFlight::default()
        };
        let flown = plan.fly(&self.program, folder)?;
        let outcome = outcome(flight, &flown);
        slim(folder)?;
        Ok((outcome, flown))
    }
}

fn outcome(flight: &FlightRequest, flown: &FlightResult) -> Outcome {
    let landed = flown.success && flown.summary["is_landed"].as_bool().unwrap_or(false);
    let failure = flown.summary["failure"].as_str();
    let logs = flown.summary["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sum = |name: &str| logs.iter().filter_map(|log| log[name].as_u64()).sum();
    Outcome {
        flight: flight.number,
        seed: flight.seed,
        trouble: trouble(flown.guard_tripped, failure, landed, flown.metrics.is_some()),
        metrics: flown.metrics,
        steps: sum("law_records"),
        lost: sum("lost"),
        cpu_load: flown.summary["cpu_load"].as_f64().unwrap_or(0.0),
        new_card: false,
    }
}

/// Leaves what a loop needs of a flight: the card's image and the motors are in the log and the truth, and
/// the truth is not looked at in milliseconds.
fn slim(folder: &Path) -> Result<()> {
    for name in ["card.img", "motors.bin"] {
        // That it is not there is just as well.
        let _ = fs::remove_file(folder.join(name));
    }
    let path = folder.join("truth.csv");
    let text = fs::read_to_string(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let mut thin = String::with_capacity(text.len() / THIN + header.len() + 1);
    for line in std::iter::once(header).chain(lines.step_by(THIN)) {
        thin.push_str(line);
        thin.push('\n');
    }
    crate::files::write(&path, thin.as_bytes())
}
