//! A drone in a place to fly: native, virtual or real.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use steady_common::exploration::Exploration;
use steady_common::{Controller, GainTable};
use steady_radio::Uri;
use steady_sim::suggest::did_you_mean;

use super::outcome::Outcome;
use crate::files;

pub trait Drone: Sync {
    /// Puts a table onto the drone, reads it back and compares. `before` is the folder that the drone's
    /// state was left in the last time, none for a new drone; its state afterwards goes into `folder`.
    fn flash(&self, before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed>;

    /// Flies once, and brings the log and everything else that is known into `folder`.
    fn fly(&self, flight: &FlightRequest, folder: &Path) -> Result<Outcome>;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flashed {
    /// Its number there.
    pub sequence: u32,
    /// Its page in the table area.
    pub page: usize,
}

#[derive(Clone, Debug)]
pub struct FlightRequest {
    /// Its number at its station, from 1.
    pub number: u32,
    /// Seed of everything random in it.
    pub seed: u64,
    pub controller: Controller,
    /// Exploration noise, where it is enabled.
    pub exploration: Exploration,
    /// Folder with the drone's state, as [`Drone::flash`] left it.
    pub drone: PathBuf,
    /// The drone's configuration memory after its last flight, which knows the proven tables.
    pub eeprom: Option<PathBuf>,
    /// What goes wrong, as `SECONDS:WHAT[=VALUE]`.
    pub faults: Vec<String>,
    /// Free room on the drone's card, MiB; all of it if not given.
    pub card_free_mib: Option<u32>,
}

impl FlightRequest {
    /// A flight of the differentiable law without noise.
    pub fn new(drone: PathBuf) -> Self {
        Self {
            number: 1,
            seed: 1,
            controller: Controller::Differentiable,
            exploration: Exploration::DEFAULT,
            drone,
            eeprom: None,
            faults: Vec::new(),
            card_free_mib: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DroneKind {
    /// The firmware's flight code, compiled for this computer.
    Native,
    /// The firmware's image on the virtual Crazyflie.
    Virtual,
    Real(Uri),
}

impl DroneKind {
    /// Name in settings: a real drone's address may change.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Virtual => "virtual",
            Self::Real(_) => "real",
        }
    }
}

impl fmt::Display for DroneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(uri) => write!(f, "{uri}"),
            _ => f.write_str(self.name()),
        }
    }
}

impl FromStr for DroneKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(Self::Native),
            "virtual" => Ok(Self::Virtual),
            _ => text.parse().map(Self::Real).map_err(|_| {
                let near = did_you_mean(text, ["native", "virtual"]);
                format!("no drone `{text}`{near}; there are: native, virtual, or the address of a real one")
            }),
        }
    }
}

/// Name of the virtual drone's flash in the folder of its state.
pub const FLASH: &str = "flash.img";
/// Name of the configuration memory's content in a flight's folder.
pub const EEPROM: &str = "eeprom.bin";
/// Name of the table that is on a native or real drone, in the folder of its state.
pub(super) const TABLE: &str = "table.bin";

/// Reads the table that [`write_table`] left.
pub(super) fn read_table(folder: &Path) -> Result<GainTable> {
    decode_table(&folder.join(TABLE))
}

/// Reads a table's page.
pub(super) fn decode_table(path: &Path) -> Result<GainTable> {
    let page = std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    GainTable::decode(&page).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))
}

/// Writes a table with the number that it has on the drone.
pub(super) fn write_table(folder: &Path, table: &GainTable, flashed: &Flashed) -> Result<()> {
    files::write(&folder.join(TABLE), &GainTable { sequence: flashed.sequence, ..*table }.encode())
}

/// Columns of `truth.csv` and `estimate.csv`.
const COLUMNS: &str = "time_us,x,y,z,roll,pitch,yaw,ref_x,ref_y,ref_z,m1,m2,m3,m4,battery_v\n";

/// A flight as the report reads it: `truth.csv`, or `estimate.csv` where there is no other truth.
#[derive(Debug)]
pub(super) struct Track(String);

impl Track {
    pub(super) fn new() -> Self {
        Self(COLUMNS.to_owned())
    }

    /// Adds a line; the reference only where there is something to follow.
    pub(super) fn add(
        &mut self,
        time_us: u64,
        state: &steady_common::State,
        reference: Option<&steady_common::Reference>,
        pwm: [u16; 4],
        battery_v: f32,
    ) {
        use fmt::Write as _;
        let (p, a, [m1, m2, m3, m4]) = (state.position, state.attitude.to_euler(), pwm);
        let reference = reference.map_or_else(
            || ",,".to_owned(),
            |r| format!("{},{},{}", r.position.x, r.position.y, r.position.z),
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.0,
            "{time_us},{},{},{},{},{},{},{reference},{m1},{m2},{m3},{m4},{battery_v}",
            p.x, p.y, p.z, a.x, a.y, a.z
        );
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        files::write(path, self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drones_have_names_or_addresses() {
        assert_eq!("native".parse(), Ok(DroneKind::Native));
        assert_eq!("virtual".parse::<DroneKind>().unwrap().to_string(), "virtual");
        assert_eq!("udp://127.0.0.1:4000".parse::<DroneKind>().unwrap().name(), "real");
        let error = "nativ".parse::<DroneKind>().unwrap_err();
        assert!(error.contains("did you mean `native`"), "{error}");
    }
}
