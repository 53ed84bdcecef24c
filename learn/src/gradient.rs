//! The gains' gradient at a real flight through the training's simulator, as DiffTune has it. A baseline: it does not ask
//! how the drone differs from the simulator.
//!
//! The simulator flies along the flight. What it gets wrong in a control step is added to every step, so that with the gains
//! that flew it repeats the flight; with other gains it says what they would have changed, by the law's and the
//! simulator's own slopes at the states that were flown.

use std::ops::RangeInclusive;

use rayon::prelude::*;
use steady_common::gains::GAIN_COUNT;
use steady_common::{Action, MAX_MOTOR_THRUST_N, Quat, State, Vec3, law};
use steady_native::{Plan, Until};
use steady_sim::params::CONTROL_HZ;
use steady_sim::residual::Unexplained;
use steady_sim::world::Integrator;
use steady_sim::{Params, PlantParams, Task, World, WorldError};

use crate::LoggedFlight;
use crate::cma::{Theta, clamp, gains_of, theta_of};
use crate::newton::{self, Differences, Track};
use crate::search::{Path, RADIUS};

/// By how much a gain's logarithm differs in the flights that tell the slopes: little, since these have no noise.
const DIFFERENCE: f32 = 0.02;

/// Gains of a flight, moved within `scale` times the radius of a search's first step; `None` where the flight has no
/// control steps that count.
///
/// # Errors
/// If the world is not valid.
pub fn follow(
    flight: &LoggedFlight,
    world: &World,
    path: &Path,
    scale: f32,
) -> Result<Option<Theta>, WorldError> {
    let Some(counted) = counted(flight, world, path)? else { return Ok(None) };
    let Some(shadow) = Shadow::new(flight, world, counted)? else { return Ok(None) };
    let at = theta_of(&flight.table.gains);
    let flown = shadow.fly(&at);
    let moved: Vec<Track> = (0..GAIN_COUNT)
        .into_par_iter()
        .map(|gain| {
            let mut theta = at;
            theta[gain] += DIFFERENCE;
            shadow.fly(&theta)
        })
        .collect();
    let differences = Differences { at: &flown, moved: moved.iter().map(Some).collect(), by: DIFFERENCE };
    let limit = [scale * RADIUS; GAIN_COUNT];
    let step = newton::step(&[differences], &limit.map(|l| -l), &limit, 0.0);
    let mut theta: Theta = std::array::from_fn(|gain| at[gain] + step[gain]);
    clamp(&mut theta);
    Ok(Some(theta))
}

/// When control steps count, µs since power-on: when those of a flight by the same script do.
fn counted(
    flight: &LoggedFlight,
    world: &World,
    path: &Path,
) -> Result<Option<RangeInclusive<u64>>, WorldError> {
    let plan = Plan { table: flight.table, until: Until::TaskEnd, ..Plan::new(Task::Hover) };
    let mut counted: Option<RangeInclusive<u64>> = None;
    path.fly(&PlantParams::new(world)?, &plan, |sample| {
        if sample.counts {
            let now_us = (f64::from(sample.time_s) * 1e6).round() as u64;
            let first_us = counted.as_ref().map_or(now_us, |counted| *counted.start());
            counted = Some(first_us..=now_us);
        }
    });
    Ok(counted)
}

/// What a control step changes beyond what the simulator says.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    position_m: Vec3,
    velocity_m_s: Vec3,
    rates_rad_s: Vec3,
    turn: Quat,
}

/// A simulator that flies along a flight.
struct Shadow<'a> {
    flight: &'a LoggedFlight,
    params: Params,
    /// Part of the way that rotors go to their target in a step.
    follow: f32,
    thrust_n_per_rpm2: f32,
    /// The first control step of the law, from which on it flies.
    first: usize,
    memory: law::Memory,
    counted: RangeInclusive<u64>,
    beyond: Vec<Beyond>,
}

impl<'a> Shadow<'a> {
    /// `None` where the law did not fly at a time that counts.
    fn new(
        flight: &'a LoggedFlight,
        world: &World,
        counted: RangeInclusive<u64>,
    ) -> Result<Option<Self>, WorldError> {
        let mut world = world.clone();
        (world.physics.rate_hz, world.physics.integrator) = (CONTROL_HZ, Integrator::SemiImplicit);
        world.mocap.rate_hz = world.mocap.rate_hz.min(world.physics.rate_hz);
        let records = &flight.records;
        let last = records.partition_point(|record| record.time_us <= *counted.end()).saturating_sub(1);
        // A log may begin in the air, and the law's memory needs the step before.
        let memory_at = |i: usize| records[i].law_memory(i.checked_sub(1).map(|before| &records[before]));
        let known = (0..last).filter(|i| records[*i].is_law_flight());
        let Some((first, memory)) = known.filter_map(|i| Some((i, memory_at(i)?))).next() else {
            return Ok(None);
        };
        let lag_s = 0.5 * (world.motors.tau_rise_s + world.motors.tau_fall_s);
        let mut shadow = Self {
            flight,
            params: world.compile()?,
            follow: 1.0 - (-1.0 / (CONTROL_HZ * lag_s.max(1e-6))).exp(),
            thrust_n_per_rpm2: world.motors.thrust_n_per_rpm2,
            first,
            memory,
            counted,
            beyond: Vec::new(),
        };
        let mut rpm = shadow.target_rpm(&records[first].applied);
        for pair in records[first..=last].windows(2) {
            let mut state = pair[0].state;
            shadow.step(&mut state, &mut rpm, &pair[0].applied);
            let flown = &pair[1].state;
            shadow.beyond.push(Beyond {
                position_m: flown.position - state.position,
                velocity_m_s: flown.velocity - state.velocity,
                rates_rad_s: flown.rates - state.rates,
                turn: state.attitude.conjugate() * flown.attitude,
            });
        }
        Ok(Some(shadow))
    }

    /// The flight with other gains, its noise included.
    fn fly(&self, theta: &Theta) -> Track {
        let (gains, vehicle) = (gains_of(theta), &self.flight.table.vehicle);
        let mut memory = self.memory;
        let mut state = self.flight.records[self.first].state;
        let mut rpm = self.target_rpm(&self.flight.records[self.first].applied);
        let mut track = Track::default();
        for (k, beyond) in (self.first..).zip(&self.beyond) {
            let record = &self.flight.records[k];
            let reference = &record.reference;
            let action = law::step(&gains, vehicle, &state, reference, &mut memory, record.dt_s).into_array();
            let (applied, said) = (record.applied.into_array(), record.action.into_array());
            let applied = Action::from_array(std::array::from_fn(|i| action[i] + applied[i] - said[i]));
            if self.counted.contains(&record.time_us) {
                track.push(&state, reference, &applied);
            }
            self.step(&mut state, &mut rpm, &applied);
            state.position += beyond.position_m;
            state.velocity += beyond.velocity_m_s;
            state.rates += beyond.rates_rad_s;
            state.attitude = (state.attitude * beyond.turn).normalized();
        }
        track
    }

    fn step(&self, state: &mut State, rpm: &mut [f32; 4], action: &Action) {
        for (rpm, target) in rpm.iter_mut().zip(self.target_rpm(action)) {
            *rpm += self.follow * (target - *rpm);
        }
        self.params.step_body(state, rpm, &Unexplained::default());
    }

    fn target_rpm(&self, action: &Action) -> [f32; 4] {
        action.motors().thrust.map(|part| (part * MAX_MOTOR_THRUST_N / self.thrust_n_per_rpm2).sqrt())
    }
}
