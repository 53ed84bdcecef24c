//! What the radio can read and change by name: parameters and log variables.
//!
//! Each table is the only list of its items; numbers, types, access and checksum follow from it.
//! Names are the official firmware's where the meaning and the unit are the same, so that the
//! tools of the ecosystem work; the rest is in the groups `steady`, `gain`, `guard` and `fence`.
//! Here, as everywhere at the protocol's edge, angles are in degrees and pitch has the Crazyflie's
//! inverted sign where the official variable does.

mod logs;
mod params;

pub use logs::LOGS;
pub use params::{PARAMS, Param, Set};

use steady_common::crtp::log as crtp_log;
use steady_common::crtp::param as crtp_param;
use steady_common::crtp::toc::TocCrc;
use steady_common::value::{Type, Value};

use crate::services::Device;
use crate::settings::Settings;
use crate::telemetry::Telemetry;

/// Everything a parameter or a log variable can be read from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What parameters change.
    pub settings: &'a Settings,
    /// The last flight step.
    pub telemetry: &'a Telemetry,
    /// The rest of the drone.
    pub device: &'a Device,
}

/// A log variable.
#[derive(Clone, Copy)]
pub struct Log {
    /// Group.
    pub group: &'static str,
    /// Name in the group.
    pub name: &'static str,
    /// Type.
    pub kind: Type,
    /// Reads it.
    pub get: fn(&View<'_>) -> Value,
}

impl core::fmt::Debug for Log {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.group, self.name)
    }
}

/// A parameter by its number.
#[must_use]
pub fn param(id: u16) -> Option<&'static Param> {
    PARAMS.get(usize::from(id))
}

/// A log variable by its number.
#[must_use]
pub fn log(id: u16) -> Option<&'static Log> {
    LOGS.get(usize::from(id))
}

/// The number of a parameter.
#[must_use]
pub fn param_id(group: &str, name: &str) -> Option<u16> {
    PARAMS.iter().position(|p| (p.group, p.name) == (group, name)).and_then(|n| u16::try_from(n).ok())
}

/// The number of a log variable.
#[must_use]
pub fn log_id(group: &str, name: &str) -> Option<u16> {
    LOGS.iter().position(|p| (p.group, p.name) == (group, name)).and_then(|n| u16::try_from(n).ok())
}

/// Checksum of the parameters' table of contents.
#[must_use]
pub fn params_crc() -> u32 {
    crc(PARAMS.iter().map(|p| (p.group, p.name, p.type_byte())))
}

/// Checksum of the log variables' table of contents.
#[must_use]
pub fn logs_crc() -> u32 {
    crc(LOGS.iter().map(|l| (l.group, l.name, crtp_log::type_code(l.kind))))
}

fn crc(items: impl Iterator<Item = (&'static str, &'static str, u8)>) -> u32 {
    let mut crc = TocCrc(0);
    let mut open: Option<&str> = None;
    for (group, name, kind) in items {
        if open != Some(group) {
            if let Some(last) = open {
                crc = crc.with(TocCrc::GROUP_STOP, last);
            }
            crc = crc.with(TocCrc::GROUP_START, group);
            open = Some(group);
        }
        crc = crc.with(kind, name);
    }
    open.map_or(crc, |last| crc.with(TocCrc::GROUP_STOP, last)).0
}

impl Param {
    /// Type, access and persistence as the protocol's byte.
    #[must_use]
    pub fn type_byte(&self) -> u8 {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        crtp_param::type_code(self.kind)
            | bit(self.set.is_none(), crtp_param::READ_ONLY)
            | bit(self.persistent, crtp_param::EXTENDED)
    }
}

#[cfg(test)]
mod tests;
