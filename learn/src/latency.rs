//! How late motion capture is, from flights alone.
//!
//! A log has no truth to compare its positions with. But they lag behind what the attitude says, the more the later
//! frames are; by how much depends on the estimator and on what is flown. So the flight is flown again in the identified
//! world with several delays, and the one with which its lag comes out is the drone's.

use rayon::prelude::*;
use steady_native::{Plan, Until};
use steady_sim::{PlantParams, Task, World, WorldError};

use crate::logged::{LoggedFlight, lag_s};
use crate::search::Path;

/// Delays that are tried, s.
const TRIED_S: [f32; 7] = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.065];

/// Lets frames reach the drone so late, s, on average.
pub(crate) fn put(world: &mut World, latency_s: f32) {
    let radio = &mut world.radio;
    world.mocap.latency_s = (latency_s - radio.latency_s - radio.jitter_mean_s).max(0.0);
    if latency_s < radio.latency_s + radio.jitter_mean_s {
        (radio.latency_s, radio.jitter_mean_s) = (0.5 * latency_s, 0.5 * latency_s);
    }
}

/// The delay with which the lag of these flights comes out, s; `None` if they do not tell, or do not fly
/// in this world.
pub(crate) fn fit(world: &World, flights: &[&LoggedFlight], path: &Path) -> Result<Option<f32>, WorldError> {
    let lags: Option<Vec<f64>> = flights.iter().map(|f| lag_s(&f.records)).collect();
    let Some(lags) = lags.filter(|lags| !lags.is_empty()) else { return Ok(None) };
    let wanted = lags.iter().sum::<f64>() / lags.len() as f64;
    let mut plants = Vec::new();
    for latency_s in TRIED_S {
        let mut world = world.clone();
        put(&mut world, latency_s);
        plants.push(PlantParams::new(&world)?);
    }
    let tries: Vec<(usize, usize)> =
        (0..plants.len()).flat_map(|p| (0..flights.len()).map(move |f| (p, f))).collect();
    let lags: Vec<Option<f64>> = tries
        .into_par_iter()
        .map(|(p, f)| {
            let (flight, seed) = (flights[f], f as u64 + 1);
            let exploration = flight.exploration(seed as u32);
            let plan = Plan {
                table: flight.table,
                exploration,
                seed,
                until: Until::Landed,
                ..Plan::new(Task::Hover)
            };
            let flown = path.fly(&plants[p], &plan, |_| {});
            lag_s(&flown.records).filter(|_| flown.failure.is_none() && !flown.guard_tripped)
        })
        .collect();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (latency_s, lags) in TRIED_S.iter().zip(lags.chunks(flights.len().max(1))) {
        let flown: Vec<f64> = lags.iter().flatten().copied().collect();
        // Rising: what is not is noise.
        if flown.len() == flights.len() {
            let mean = flown.iter().sum::<f64>() / flown.len() as f64;
            points.push((f64::from(*latency_s), points.last().map_or(mean, |last| mean.max(last.1))));
        }
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(None) };
    let found = points.windows(2).find(|pair| pair[1].1 >= wanted).map_or(last.0, |pair| {
        let [(a, lag_a), (b, lag_b)] = [pair[0], pair[1]];
        a + (b - a) * ((wanted - lag_a) / (lag_b - lag_a).max(1e-9)).clamp(0.0, 1.0)
    });
    Ok(Some(if wanted <= first.1 { first.0 } else { found } as f32))
}
