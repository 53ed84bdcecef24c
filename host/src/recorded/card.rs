//! Card logs of the official firmware with what a fit needs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use steady_common::Vec3;
use steady_reality::Flight;
use steady_reality::card::Reading;
use steady_reality::flight::GRAVITY_M_S2;

use crate::log::{self, Event, Log};

/// What must be in a record, in this order: accelerometer, g, gyroscope, degrees/s, what the motors got.
const WANTED: [&str; 10] =
    ["acc.x", "acc.y", "acc.z", "gyro.x", "gyro.y", "gyro.z", "motor.m1", "motor.m2", "motor.m3", "motor.m4"];
/// Used if it is there, V.
const BATTERY: &str = "pm.vbat";

/// The flights of logs that have no control steps of this firmware.
///
/// # Errors
/// If a log cannot be read, lacks a variable, or has no flight that is long enough.
pub(super) fn flights(logs: &[PathBuf]) -> Result<Vec<Flight>> {
    let mut flights = Vec::new();
    for path in logs {
        flights.extend(flights_of(path)?);
    }
    Ok(flights)
}

fn flights_of(path: &Path) -> Result<Vec<Flight>> {
    let mut log = Log::open(path)?;
    let events: Vec<Event> = log.events().to_vec();
    let Some((wanted, places)) = events.iter().enumerate().find_map(|(i, e)| Some((i, places(e)?))) else {
        bail!(
            "{}: no flight of this firmware, and as a log of the official one it lacks {}; log them together, at 1 kHz \
             if the card can",
            path.display(),
            missing(&events).join(", ")
        );
    };
    let event = &events[wanted];
    let battery = place(event, BATTERY);
    let mut readings = Vec::new();
    log.scan(|record| {
        if record.event != wanted {
            return;
        }
        let read = |place: usize| {
            event.variables[place].read(record.values).map_or(f32::NAN, |value| value.to_f64() as f32)
        };
        let [ax, ay, az, gx, gy, gz, pwm @ ..] = places.map(read);
        readings.push(Reading {
            time_s: record.time_us as f64 * 1e-6 * log::OFFICIAL_CLOCK,
            acc_m_s2: Vec3::new(ax, ay, az) * GRAVITY_M_S2,
            gyro_rad_s: Vec3::new(gx, gy, gz) * 1_f32.to_radians(),
            pwm,
            battery_v: battery.map(read),
        });
    })?;
    let flights = Flight::from_card(&path.display().to_string(), &readings);
    if flights.is_empty() {
        bail!(
            "{}: {} records, and no four seconds of flight in them with 100 records a second or more",
            path.display(),
            readings.len()
        );
    }
    Ok(flights)
}

fn place(event: &Event, name: &str) -> Option<usize> {
    event.variables.iter().position(|variable| variable.name == name)
}

/// Where the wanted values stand in an event, if it has them all.
fn places(event: &Event) -> Option<[usize; WANTED.len()]> {
    let mut places = [0; WANTED.len()];
    for (to, name) in places.iter_mut().zip(WANTED) {
        *to = place(event, name)?;
    }
    Some(places)
}

/// What the event that has most of them lacks.
fn missing(events: &[Event]) -> Vec<&'static str> {
    let lacks =
        |event: &Event| WANTED.into_iter().filter(|name| place(event, name).is_none()).collect::<Vec<_>>();
    events.iter().map(lacks).min_by_key(Vec::len).unwrap_or_else(|| WANTED.to_vec())
}
