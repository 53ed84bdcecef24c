//! Flights of the official firmware, as far as its logs tell of them.
//!
//! Such a log has the errors, the attitude, velocities, rates and what the motors were asked for, in the variables
//! that the paper's authors logged. It has neither the law's memory nor its gains: the memory is computed as
//! this law would have had it, and the motors' actions count as exploration around what this law would do. The
//! reference is assumed to stand still; where it moved, its motion counts as a disturbance.

use std::path::PathBuf;

use anyhow::{Result, bail};
use steady_common::law::{self, Memory, Vehicle};
use steady_common::{Action, Gains, Quat, Reference, State, Vec3};
use steady_reality::Flight;
use steady_reality::flight::DT_S;
use steady_sim::World;

use crate::log::{self, Event, Log};

use super::flights::{ControlStep, FlightData};

/// What must be in a record, in this order.
const WANTED: [&str; 16] = [
    "stabilizer.roll",
    "stabilizer.pitch",
    "stabilizer.yaw",
    "ctrlMel.pos_error_x",
    "ctrlMel.pos_error_y",
    "ctrlMel.pos_error_z",
    "stateEstimate.vx",
    "stateEstimate.vy",
    "stateEstimate.vz",
    "stateEstimateZ.rateRoll",
    "stateEstimateZ.ratePitch",
    "stateEstimateZ.rateYaw",
    "motor.m1req",
    "motor.m2req",
    "motor.m3req",
    "motor.m4req",
];
/// Where the reference is assumed to stand, m: away from the floor.
const HOVER_M: Vec3 = Vec3::Z;
/// Full command of a motor.
const FULL: f32 = 65535.0;
/// Records further apart than this many usual distances belong to two flights.
const GAP: f64 = 3.0;

/// Flights in logs that have no control steps of this firmware; pieces shorter than `min_s` are left out.
pub fn flights(logs: &[PathBuf], gains: &Gains, vehicle: &Vehicle, min_s: f32) -> Result<Vec<FlightData>> {
    let mut flights = Vec::new();
    for path in log::find(logs)?.logs {
        let mut log = Log::open(&path)?;
        let places: Vec<Option<Vec<usize>>> = log.events().iter().map(places).collect();
        let events: Vec<Event> = log.events().to_vec();
        let mut rows: Vec<(f64, [f32; 16])> = Vec::new();
        log.scan(|record| {
            let Some(Some(places)) = places.get(record.event) else { return };
            let mut row = [0.0; 16];
            for (to, place) in row.iter_mut().zip(places) {
                let value = events[record.event].variables[*place].read(record.values);
                *to = value.map_or(f32::NAN, |v| v.to_f64() as f32);
            }
            rows.push((record.time_us as f64 * 1e-6 * log::OFFICIAL_CLOCK, row));
        })?;
        flights.extend(pieces(&rows, gains, vehicle, min_s));
    }
    Ok(flights)
}

/// Where the wanted values stand in an event, if it has them all.
fn places(event: &Event) -> Option<Vec<usize>> {
    WANTED.iter().map(|name| event.variables.iter().position(|v| v.name == *name)).collect()
}

fn pieces(rows: &[(f64, [f32; 16])], gains: &Gains, vehicle: &Vehicle, min_s: f32) -> Vec<FlightData> {
    let mut distances: Vec<f64> = rows.windows(2).map(|w| w[1].0 - w[0].0).filter(|d| *d > 0.0).collect();
    distances.sort_by(f64::total_cmp);
    let Some(&usual) = distances.get(distances.len() / 2) else { return Vec::new() };
    let dt_s = usual as f32;
    let mut flights = Vec::new();
    let mut flight = FlightData::default();
    let mut memory = Memory::default();
    let mut before: Option<(f64, Action)> = None;
    for (time_s, row) in rows {
        let motors = [12, 13, 14, 15].map(|i| row[i] / FULL);
        let (state, reference, applied) =
            (state(row), Reference::hover(HOVER_M), Action::from_motors(motors));
        let last = before.map_or(applied, |(_, action)| action);
        let step = |memory| ControlStep {
            state,
            reference,
            memory,
            last,
            applied,
            // Another controller flew, without exploration noise.
            noise: Action::default(),
            dt_s,
            reference_rates: Vec3::ZERO,
        };
        let flies = motors[0] > 0.0 && step(Memory::default()).is_plausible();
        let follows = before.is_some_and(|(t, _)| (0.0..GAP * usual).contains(&(time_s - t)));
        if !flies || !follows {
            flights.push(std::mem::take(&mut flight));
            memory = Memory::default();
        }
        if flies {
            flight.steps.push(step(memory));
            law::step(gains, vehicle, &state, &reference, &mut memory, dt_s);
        }
        before = flies.then_some((*time_s, applied));
    }
    flights.push(flight);
    let min_steps = (min_s / dt_s.max(1e-4)) as usize;
    flights.into_iter().filter(|f| f.steps.len() >= min_steps.max(1)).collect()
}

/// A recorded flight with motion capture. As in a log of the official firmware, another law flew it: what the motors
/// were asked for is by the thrust curve, and the memory is as this law would have had it.
pub fn captured(flight: &Flight, gains: &Gains, vehicle: &Vehicle) -> Result<FlightData> {
    let curve = World::default().compile()?;
    let mut data = FlightData::default();
    let mut memory = Memory::default();
    let mut last: Option<Action> = None;
    for sample in flight.in_air() {
        let Some((position, yaw)) = sample.set_point else {
            bail!("{}: there are no set-points (columns set_x_m … set_yaw_rad)", flight.name);
        };
        let reference = Reference { yaw, ..Reference::hover(position) };
        let applied = Action::from_motors(curve.thrust_asked(sample.pwm, sample.battery_v));
        let step = ControlStep {
            state: sample.state,
            reference,
            memory,
            last: last.unwrap_or(applied),
            applied,
            noise: Action::default(),
            dt_s: DT_S,
            reference_rates: Vec3::ZERO,
        };
        if step.is_plausible() {
            data.steps.push(step);
        }
        law::step(gains, vehicle, &sample.state, &reference, &mut memory, DT_S);
        last = Some(applied);
    }
    Ok(data)
}

/// The state relative to the reference. The official firmware's pitch and pitch rate have the other sign, its error
/// is the reference minus the position, its rates are in mrad/s.
fn state(row: &[f32; 16]) -> State {
    let at = |i: usize| Vec3::new(row[i], row[i + 1], row[i + 2]);
    let (angles, rates) = (at(0) * 1.0_f32.to_radians(), at(9) * 1e-3);
    State {
        position: HOVER_M - at(3),
        velocity: at(6),
        attitude: Quat::from_euler(Vec3::new(angles.x, -angles.y, angles.z)),
        rates: Vec3::new(rates.x, -rates.y, rates.z),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_official_signs_become_right_handed() {
        let mut row = [0.0; 16];
        (row[1], row[4], row[10]) = (10.0, 0.2, 500.0);
        let state = state(&row);
        // Nose up by the official sign is down about +y; the error is from the drone to the reference.
        assert!((state.attitude.to_euler().y + 10.0_f32.to_radians()).abs() < 1e-6);
        assert!((state.rates.y + 0.5).abs() < 1e-6);
        assert_eq!(state.position, HOVER_M - Vec3::new(0.0, 0.2, 0.0));
    }

    #[test]
    fn a_gap_parts_a_flight_and_motors_off_end_it() {
        let mut row = [0.0_f32; 16];
        row[12..].fill(30_000.0);
        let mut rows: Vec<(f64, [f32; 16])> = (0..300).map(|i| (0.004 * f64::from(i), row)).collect();
        rows[150..].iter_mut().for_each(|r| r.0 += 0.1);
        rows[250..].iter_mut().for_each(|r| r.1[12] = 0.0);
        let flights = pieces(&rows, &Gains::nominal(), &Vehicle::NOMINAL, 0.1);
        assert_eq!(flights.iter().map(|f| f.steps.len()).collect::<Vec<_>>(), [150, 100]);
        assert!((flights[0].steps[0].dt_s - 0.004).abs() < 1e-5);
        // A non-finite or implausible value ends a flight too, and the next begins after it.
        for bad in [f32::NAN, 1e30] {
            rows[50].1[3] = bad;
            let flights = pieces(&rows, &Gains::nominal(), &Vehicle::NOMINAL, 0.1);
            assert_eq!(flights.iter().map(|f| f.steps.len()).collect::<Vec<_>>(), [50, 99, 100], "{bad}");
        }
    }
}
