//! Flights in the simulator, logged with the drone's own records.

use steady_common::exploration::{Exploration, Explorer};
use steady_common::gain_table::GainTable;
use steady_common::law::{self, Memory, Vehicle};
use steady_common::order::Order;
use steady_common::transition::{Flags, Transition as Record};
use steady_common::{Action, Gains, State};
use steady_sim::flight::{self, STEPS_PER_CONTROL};
use steady_sim::initial::Initial;
use steady_sim::metrics::Crash;
use steady_sim::{Drone, FlightMetrics, Params, Task};

use super::dynamics::BODY_LEN;
use super::flights::{Flight, Step};

/// Height from which a drone counts as flying, m.
const AIRBORNE_M: f32 = 0.05;

/// Flies a task in a world compiled by [`flight::params`] with noise on the action: the records that the
/// drone would have logged, and what came of the flight.
#[must_use]
pub fn fly(
    params: &Params,
    table: &GainTable,
    task: Task,
    exploration: &Exploration,
    seed: u64,
) -> (Vec<Record>, FlightMetrics) {
    let mut memory = Memory::default();
    let mut explorer = Explorer::new(exploration.seed);
    let mut records: Vec<Record> = Vec::new();
    let pilot = |seen: &State, reference: &steady_common::Reference, dt: f32| {
        let mut record = Record {
            sequence: records.len() as u32,
            time_us: (records.len() as f64 * f64::from(dt) * 1e6) as u64,
            state: *seen,
            reference: *reference,
            dt_s: dt,
            table: table.sequence,
            controller: 6,
            ..Record::default()
        };
        record.set_law_memory(&memory);
        record.action = law::step(&table.gains, &table.vehicle, seen, reference, &mut memory, dt);
        let airborne = seen.position.z > AIRBORNE_M;
        let explores = exploration.enabled && airborne;
        let noise = if explores { explorer.draw(exploration) } else { Action::default() };
        record.applied = Action::from_array(std::array::from_fn(|i| {
            record.action.into_array()[i] + noise.into_array()[i]
        }));
        record.flags = record
            .flags
            .with(Flags::LAW, true)
            .with(Flags::MOTORS_ON, true)
            .with(Flags::MOCAP, true)
            .with(Flags::FLYING, airborne)
            .with(Flags::NOISE, explores);
        let order = Order::from_action(record.applied);
        record.pwm = order.motors.map(|m| (m.clamp(0.0, 1.0) * 65535.0) as u16);
        records.push(record);
        order
    };
    let summary = flight::fly_by(params, pilot, task, seed, |_| {});
    (records, summary)
}

/// A logged flight's references, flown again in a simulated world.
#[derive(Clone, Debug)]
pub struct Again {
    /// What the drone saw and did.
    pub flight: Flight,
    /// Where it really was at each step.
    pub truth: Vec<State>,
}

/// Flies the references of a flight again, from where it began, with noise on the action.
#[must_use]
pub fn again(
    params: &Params,
    logged: &[Step],
    mut noise: impl FnMut(usize) -> Action,
    gains: &Gains,
    vehicle: &Vehicle,
    seed: u64,
) -> Again {
    let mut drone = Drone::new(params, seed, 0);
    let mut memory = Memory::default();
    let mut last = Action::default();
    if let Some(first) = logged.first() {
        let mut initial = Initial::hovering(params, first.state.position);
        initial.state.velocity = first.state.velocity;
        drone.reset(params, &initial);
        (memory, last) = (first.memory, first.last);
    }
    let mut flown = Again { flight: Flight::default(), truth: Vec::new() };
    for (i, step) in logged.iter().enumerate() {
        let state = *drone.perceived();
        let before = memory;
        let action = law::step(gains, vehicle, &state, &step.reference, &mut memory, step.dt_s).into_array();
        let extra = noise(i).into_array();
        let applied = Action::from_array(std::array::from_fn(|k| action[k] + extra[k]));
        flown.truth.push(*drone.truth());
        flown.flight.steps.push(Step { state, memory: before, last, applied, ..*step });
        last = applied;
        if Crash::of(drone.truth(), &step.reference).is_some() {
            flown.flight.crashed = true;
            break;
        }
        let motors = applied.motors().thrust;
        for _ in 0..STEPS_PER_CONTROL {
            drone.step(params, motors);
        }
    }
    flown
}

/// How badly a simulator predicts flights: the mean squared error of where the body is a transition of `length`
/// control steps later, with the logged actions, relative to how far it moves. This is P° alone, and the
/// gap between it and what was flown.
#[must_use]
pub fn prediction_error(params: &Params, flights: &[Flight], length: usize) -> f64 {
    let (mut missed, mut moved) = ([0.0_f64; BODY_LEN], [0.0_f64; BODY_LEN]);
    for steps in flights.iter().flat_map(|f| f.steps.windows(length + 1).step_by(length)) {
        let [first, .., last] = steps else { continue };
        let thrust = first.last.motors().thrust;
        let hover = (thrust.iter().sum::<f32>() / 4.0).max(1e-3);
        let mut drone = Drone::new(params, 0, 0);
        let rpm = thrust.map(|t| params.hover_rpm() * (t.max(0.0) / hover).sqrt());
        drone.reset(params, &Initial { state: first.state, rpm, last_attitude: None });
        for step in &steps[..length] {
            for _ in 0..STEPS_PER_CONTROL {
                drone.step(params, step.applied.motors().thrust);
            }
        }
        let (from, to, predicted) = (body(&first.state), body(&last.state), body(drone.truth()));
        for v in 0..BODY_LEN {
            missed[v] += f64::from(predicted[v] - to[v]).powi(2);
            moved[v] += f64::from(to[v] - from[v]).powi(2);
        }
    }
    missed.iter().zip(moved).map(|(miss, move_)| miss / move_.max(1e-18)).sum::<f64>() / BODY_LEN as f64
}

fn body(state: &State) -> [f32; BODY_LEN] {
    let (p, r, v, w) = (state.position, state.attitude.to_euler(), state.velocity, state.rates);
    [p.x, p.y, p.z, r.x, r.y, r.z, v.x, v.y, v.z, w.x, w.y, w.z]
}
