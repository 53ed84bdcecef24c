//! Flights as logs have them, and what they look like.

use steady_common::GainTable;
use steady_common::estimator::{Estimator, Mocap};
use steady_common::exploration::Exploration;
use steady_common::inputs_record::{Input, InputFlags};
use steady_common::transition::Transition;
use steady_reality::Flight;

/// Flights look alike by so many numbers.
pub(crate) const LIKENESS: usize = 13;

/// A flight by its log.
#[derive(Clone, Debug)]
pub struct LoggedFlight {
    /// Where it is from.
    pub name: String,
    /// Control steps without a gap.
    pub records: Vec<Transition>,
    /// What the estimator was given, where the log has it.
    pub inputs: Vec<Input>,
    /// What flew.
    pub table: GainTable,
}

impl LoggedFlight {
    /// On samples for predictions; `None` when it is too short. With the delay of motion capture, s, states are
    /// estimated anew from frames that are known to be so old: otherwise positions lag behind attitudes, and what
    /// should be a delay looks like a force.
    #[must_use]
    pub fn flight(&self, latency_s: Option<f32>) -> Option<Flight> {
        match latency_s {
            Some(latency_s) => Flight::from_log(&self.name, &self.estimated_with(latency_s)),
            None => Flight::from_log(&self.name, &self.records),
        }
    }

    /// The control steps with the states that the drone's own filter has when it knows how old frames are. Where
    /// inputs are missing, states stay as they were.
    fn estimated_with(&self, latency_s: f32) -> Vec<Transition> {
        let mut records = self.records.clone();
        let (mut filter, mut frame, mut at): (Option<Estimator>, Option<Mocap>, _) = (None, None, 0);
        for input in &self.inputs {
            let sample = match input {
                // Later snapshots are of a filter that did not know.
                Input::Snapshot(time_us, snapshot) => {
                    filter = filter.or_else(|| Some(snapshot.restore(milliseconds(*time_us))));
                    continue;
                }
                Input::Mocap(_, mocap) => {
                    frame = Some(Mocap { age_s: latency_s, ..*mocap });
                    continue;
                }
                Input::Imu(sample) => sample,
            };
            let Some(filter) = filter.as_mut() else { continue };
            let is_flying = sample.flags.has(InputFlags::FLYING);
            // Where it diverges it starts anew by itself.
            let _ = filter.tick(milliseconds(sample.time_us), &sample.imu, frame.take().as_ref(), is_flying);
            while records.get(at).is_some_and(|record| record.time_us < sample.time_us) {
                at += 1;
            }
            if let Some(record) = records.get_mut(at).filter(|record| record.time_us == sample.time_us) {
                record.state = filter.state();
            }
        }
        records
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

fn milliseconds(us: u64) -> u32 {
    // As the drone counts them.
    (us / 1000) as u32
}

/// What a flight looks like in its log: means of position errors and motors, logarithms of the deviations of position
/// errors and rates.
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
        _ => mean[i - 3],
    })
}
