//! Flights as logs have them, and what they look like.

use steady_common::exploration::Exploration;
use steady_common::transition::Transition;
use steady_common::{GainTable, Vec3};
use steady_reality::Flight;

/// Every so many control steps count: a hundred a second.
const THIN: usize = 5;
/// Flights look alike by so many numbers.
pub(crate) const LIKENESS: usize = 14;
/// Samples before and after, of a second difference: 0.1 s.
const SPAN: usize = 10;
/// Part of the second differences that must be explained for a lag to mean anything.
const MIN_FIT: f64 = 0.9;
/// Largest lag that is looked for, samples.
const MAX_LAG: usize = 15;

/// A flight by its log.
#[derive(Clone, Debug)]
pub struct LoggedFlight {
    /// Where it is from.
    pub name: String,
    /// Control steps without a gap.
    pub records: Vec<Transition>,
    /// What flew.
    pub table: GainTable,
}

impl LoggedFlight {
    /// On samples for predictions; `None` when it is too short.
    #[must_use]
    pub fn flight(&self) -> Option<Flight> {
        Flight::from_log(&self.name, &self.records)
    }

    /// Noise like the one that it was flown with: of the same standard deviations, held as long.
    #[must_use]
    pub fn exploration(&self, seed: u32) -> Exploration {
        let mut sums = [0.0_f32; 4];
        let (mut count, mut changes, mut last) = (0, 1, [0.0; 4]);
        for r in law_steps(&self.records) {
            let (applied, action) = (r.applied.into_array(), r.action.into_array());
            let noise: [f32; 4] = std::array::from_fn(|i| applied[i] - action[i]);
            if noise.iter().zip(last).any(|(a, b)| (a - b).abs() > 1e-4) {
                changes += 1;
                last = noise;
            }
            sums.iter_mut().zip(noise).for_each(|(sum, n)| *sum += n * n);
            count += 1;
        }
        let std = sums.map(|s| (s / count.max(1) as f32).sqrt().min(Exploration::LIMIT));
        let hold = (count as f32 / changes as f32).round().clamp(1.0, 500.0) as u16;
        Exploration { enabled: std.iter().any(|s| *s > 1e-4), std, hold, seed }
    }
}

fn law_steps(records: &[Transition]) -> impl Iterator<Item = &Transition> {
    records.iter().filter(|r| r.is_law_flight())
}

/// What a flight looks like in its log: means of position errors and motors, logarithms of the deviations of position
/// errors and rates, and how late its positions are.
pub(crate) fn likeness(records: &[Transition]) -> [f64; LIKENESS] {
    let (mut n, mut sums, mut squares) = (0.0_f64, [0.0; 10], [0.0; 10]);
    for r in law_steps(records) {
        let (e, w) = (r.state.position - r.reference.position, r.state.rates);
        let motors = r.applied.motors().thrust;
        let values = [e.x, e.y, e.z, w.x, w.y, w.z, motors[0], motors[1], motors[2], motors[3]];
        n += 1.0;
        for ((sum, square), value) in sums.iter_mut().zip(&mut squares).zip(values.map(f64::from)) {
            *sum += value;
            *square += value * value;
        }
    }
    let mean = sums.map(|s| s / n.max(1.0));
    let deviation: [f64; 10] =
        std::array::from_fn(|i| (squares[i] / n.max(1.0) - mean[i] * mean[i]).max(1e-9).sqrt().ln());
    std::array::from_fn(|i| match i {
        0..3 => mean[i],
        3..9 => deviation[i - 3],
        9..13 => mean[i - 3],
        _ => lag_s(records).unwrap_or_default(),
    })
}

/// How much later positions move than the attitude says, s: motion capture's delay, as far as the estimator follows
/// it. A drone accelerates where it leans; the lag is where second differences of its positions fit that best. `None`
/// when they hardly do: it has to move.
pub(crate) fn lag_s(records: &[Transition]) -> Option<f64> {
    let steps: Vec<&Transition> = law_steps(records).step_by(THIN).collect();
    let dt_s = f64::from(steps.first()?.dt_s) * THIN as f64;
    let count = steps.len();
    if count < 4 * (SPAN + MAX_LAG) {
        return None;
    }
    let lean: Vec<Vec3> = steps
        .iter()
        .map(|s| {
            let up = s.state.attitude.to_matrix().z;
            up * (1.0 / up.z.max(0.2))
        })
        .collect();
    let axes: [fn(&Vec3) -> f32; 2] = [|v| v.x, |v| v.y];
    // A second difference of the position is the acceleration, weighted by a triangle.
    let triangle = |t: usize, of: &dyn Fn(usize) -> f32| -> f64 {
        (0..=2 * SPAN)
            .map(|k| (SPAN as f64 - (k as f64 - SPAN as f64).abs()) * f64::from(of(t + k - SPAN)))
            .sum()
    };
    let times = SPAN + MAX_LAG..count - SPAN - MAX_LAG;
    let wanted: Vec<[f64; 2]> =
        times.clone().map(|t| axes.map(|axis| triangle(t, &|t| axis(&lean[t])))).collect();
    // Part of the second differences that lean, drag and wind explain at a lag, from −MAX_LAG / 3 samples on.
    let fit = |lag: usize| -> f64 {
        let (mut left, mut all) = (0.0, 0.0);
        for (which, axis) in axes.iter().enumerate() {
            let rows: Vec<([f64; 3], f64)> = times
                .clone()
                .zip(&wanted)
                .map(|(t, wanted)| {
                    let late = t + lag - MAX_LAG / 3;
                    let at = |t: usize| f64::from(axis(&steps[t].state.position));
                    let bend = at(late + SPAN) - 2.0 * at(late) + at(late - SPAN);
                    ([wanted[which], at(late + SPAN) - at(late - SPAN), 1.0], bend)
                })
                .collect();
            let weights = least_squares(&rows);
            for (x, y) in &rows {
                let said: f64 = x.iter().zip(weights).map(|(x, w)| x * w).sum();
                left += (y - said).powi(2);
                all += y * y;
            }
        }
        1.0 - left / all.max(1e-18)
    };
    let fits: Vec<f64> = (0..=MAX_LAG).map(fit).collect();
    let best = (1..MAX_LAG).max_by(|a, b| fits[*a].total_cmp(&fits[*b])).unwrap_or(1);
    if fits[best] < MIN_FIT {
        return None;
    }
    // The top of the parabola through the best and its neighbours.
    let (a, b, c) = (fits[best - 1], fits[best], fits[best + 1]);
    let top = 0.5 * (a - c) / (a - 2.0 * b + c).min(-1e-12);
    Some((best as f64 + top.clamp(-0.5, 0.5) - (MAX_LAG / 3) as f64) * dt_s)
}

/// Weights of three columns.
fn least_squares(rows: &[([f64; 3], f64)]) -> [f64; 3] {
    let mut a = [[0.0; 4]; 3];
    for (x, y) in rows {
        for (row, xi) in a.iter_mut().zip(x) {
            for (sum, xj) in row.iter_mut().zip(x.iter().chain([y])) {
                *sum += xi * xj;
            }
        }
    }
    for i in 0..3 {
        a[i][i] += 1e-9;
        let pivot = a[i];
        for row in a.iter_mut().skip(i + 1) {
            let part = row[i] / pivot[i];
            row.iter_mut().zip(pivot).for_each(|(v, p)| *v -= part * p);
        }
    }
    let mut weights = [0.0; 3];
    for i in (0..3).rev() {
        let known: f64 = (i + 1..3).map(|k| a[i][k] * weights[k]).sum();
        weights[i] = (a[i][3] - known) / a[i][i];
    }
    weights
}
