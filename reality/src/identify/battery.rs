//! The battery from its logged voltage: how full it was, and how far it sags.
//!
//! What the world says of the current is taken as it is, so the resistance is one to that current.

use steady_sim::world::BatteryModel;
use steady_sim::{World, WorldError};

use crate::flight::{DT_S, Flight};
use crate::predict::Predictor;

/// Resistances that are believed, ohm.
const RESISTANCE_OHM: [f32; 2] = [0.02, 1.0];
/// Voltages that are believed, V.
const VOLTAGE_V: std::ops::Range<f32> = 2.5..4.5;
/// Halvings of an interval.
const HALVINGS: usize = 16;

/// A sample of a battery under load.
struct Load {
    voltage_v: f32,
    current_a: f32,
    /// Charge that was taken before, part of the capacity.
    taken: f32,
}

/// Puts the battery that flights say into a world with a lithium-polymer one; the charge is the last flight's. A world
/// whose flights have no plausible voltage stays as it is.
pub(super) fn fit(world: &mut World, flights: &[Flight]) -> Result<(), WorldError> {
    if world.battery.model != BatteryModel::Lipo {
        return Ok(());
    }
    let params = world.compile()?;
    let mut all = Vec::new();
    for flight in flights.iter().filter(|flight| flight.has_battery) {
        let predictor = Predictor::new(world, flight)?;
        let mut taken = 0.0;
        let mut loads = Vec::new();
        for (i, sample) in flight.samples.iter().enumerate() {
            let voltage_v = sample.battery_v;
            if !VOLTAGE_V.contains(&voltage_v) {
                continue;
            }
            let current_a = params.current_a(predictor.rpm(i), voltage_v);
            taken += current_a * DT_S / (3600.0 * world.battery.capacity_ah);
            loads.push(Load { voltage_v, current_a, taken });
        }
        if !loads.is_empty() {
            all.push(loads);
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    let open_v = |charge: f32| params.open_circuit_v(charge);
    // The charge at which a flight's mean voltage comes out.
    let charge = |loads: &[Load], ohm: f32| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            let over: f32 =
                loads.iter().map(|l| open_v(middle - l.taken) - ohm * l.current_a - l.voltage_v).sum();
            if over > 0.0 { high = middle } else { low = middle }
        }
        0.5 * (low + high)
    };
    let error = |ohm: f32| -> f32 {
        all.iter()
            .map(|loads| {
                let charge = charge(loads, ohm);
                loads
                    .iter()
                    .map(|l| (open_v(charge - l.taken) - ohm * l.current_a - l.voltage_v).powi(2))
                    .sum::<f32>()
            })
            .sum()
    };
    let [mut low, mut high] = RESISTANCE_OHM;
    for _ in 0..HALVINGS {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if error(a) < error(b) { high = b } else { low = a }
    }
    world.battery.resistance_ohm = 0.5 * (low + high);
    if let Some(last) = all.last() {
        world.battery.initial_charge = charge(last, world.battery.resistance_ohm).clamp(0.05, 1.0);
    }
    Ok(())
}
