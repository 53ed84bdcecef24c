//! What the estimator is given, on its way to the card.

use steady_common::estimator::Estimator;
use steady_common::inputs_record::{Batch, Inputs, Tick};

/// Time between two snapshots of the estimator, µs: so much of a log is not computed again when an input is missing.
const SNAPSHOT_US: u64 = 1_000_000;

/// Makes records of every step's inputs, and now and then of the whole estimator.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputRecorder {
    batch: Option<Batch>,
    /// Counts samples.
    count: u8,
    /// How often the estimator had been started at the last sample.
    starts: Option<u32>,
    /// When the next snapshot is due; at once when there is none.
    snapshot_us: Option<u64>,
}

impl InputRecorder {
    /// Takes what the estimator was given in a step, and the estimator after it; hands over what is complete.
    pub fn add(&mut self, estimation: Option<(&Tick, &Estimator)>, mut push: impl FnMut(Inputs)) {
        let Some((tick, estimator)) = estimation else { return };
        let restarted = self.starts.is_some_and(|starts| starts != tick.starts);
        self.starts = Some(tick.starts);
        if restarted {
            self.snapshot_us = None;
        }
        let is_taken = self.batch.as_mut().is_some_and(|batch| batch.push(tick, restarted));
        if !is_taken {
            self.flush(&mut push);
            let mut batch = Batch::new(tick.time_us, self.count);
            batch.push(tick, restarted);
            self.batch = Some(batch);
        }
        self.count = self.count.wrapping_add(1);
        let is_due = self.snapshot_us.is_none_or(|due_us| tick.time_us >= due_us);
        if is_due && let Some(snapshot) = estimator.snapshot() {
            // After the sample that it includes.
            self.flush(&mut push);
            push(Inputs::Snapshot(tick.time_us, snapshot));
            self.snapshot_us = Some(tick.time_us + SNAPSHOT_US);
        } else if self.batch.is_some_and(|batch| batch.is_full()) {
            self.flush(&mut push);
        }
    }

    fn flush(&mut self, push: &mut impl FnMut(Inputs)) {
        if let Some(batch) = self.batch.take() {
            push(Inputs::Batch(batch));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;
    use steady_common::Vec3;
    use steady_common::estimator::{Imu, Mocap, Noise};

    fn tick(step: u64, starts: u32) -> Tick {
        let mocap = Mocap { position: Vec3::Z, position_std: 0.01, attitude: None, age_s: 0.0 };
        Tick {
            time_us: 1000 * step,
            imu: Imu { accelerometer: Vec3::Z * 9.81, gyro: Vec3::ZERO },
            mocap: step.is_multiple_of(10).then_some(mocap),
            flying: true,
            starts,
        }
    }

    #[test]
    fn snapshots_come_first_every_second_and_after_a_restart() {
        let mut recorder = InputRecorder::default();
        let mut filter = Estimator::new(Noise::DEFAULT, Vec3::Z, 0.0, 0);
        let (mut snapshots_ms, mut samples) = (Vec::new(), 0);
        for step in 3_u64..3000 {
            let starts = u32::from(step >= 1505);
            if step == 1505 {
                filter = Estimator::new(Noise::DEFAULT, Vec3::Z, 0.0, 1505);
            }
            let tick = tick(step, starts);
            filter.tick(step as u32, &tick.imu, tick.mocap.as_ref(), true).unwrap();
            recorder.add(Some((&tick, &filter)), |inputs| match inputs {
                Inputs::Snapshot(time_us, _) => snapshots_ms.push(time_us / 1000),
                Inputs::Batch(_) => {
                    let mut records = 0;
                    inputs.encode(|_| records += 1);
                    samples += records;
                }
            });
        }
        assert_eq!(snapshots_ms, [3, 1003, 1505, 2505]);
        // All samples but those of the last batch, and the frames.
        assert!((2989 + 299..=2997 + 299).contains(&samples), "{samples}");
    }
}
