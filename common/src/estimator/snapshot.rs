//! All of the filter that the next steps depend on, so that a log can compute them again.

use super::{Estimator, Gathered, Imu, N, Noise, PREDICTION_MS};
use crate::{Quat, Vec3};

/// Values of a snapshot.
pub const SNAPSHOT_LEN: usize = 3 + 1 + 3 + 3 + 4 + 4 + 6 + N * (N + 1) / 2;

/// The filter after a step that predicted: what it assumes, what it knows, the step's inertial sample, and the upper
/// half of its covariance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot(pub [f32; SNAPSHOT_LEN]);

impl Snapshot {
    /// Bits in which two snapshots differ.
    #[must_use]
    pub fn differing_bits(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a.to_bits() ^ b.to_bits()).count_ones()).sum()
    }

    /// The filter as it was after its step at `now_ms`.
    #[must_use]
    pub fn restore(&self, now_ms: u32) -> Estimator {
        let mut values = self.0.iter().copied();
        let mut next = || values.next().unwrap_or(0.0);
        let acceleration = (next(), next());
        let noise = Noise { acceleration, gyro: next(), ..Noise::DEFAULT };
        let drag_per_s = next();
        let position = Vec3::new(next(), next(), next());
        let velocity = Vec3::new(next(), next(), next());
        let attitude = Quat::new(next(), next(), next(), next());
        let start_attitude = Quat::new(next(), next(), next(), next());
        let accelerometer = Vec3::new(next(), next(), next());
        let gyro = Vec3::new(next(), next(), next());
        let mut filter = Estimator {
            position,
            velocity,
            attitude,
            start_attitude,
            rotation: attitude.to_matrix(),
            next_prediction_ms: now_ms.wrapping_add(PREDICTION_MS),
            rates: gyro,
            ..Estimator::new(noise, position, 0.0, now_ms).with_drag(drag_per_s)
        };
        filter.gathered.add(&Imu { accelerometer, gyro });
        for i in 0..N {
            for j in i..N {
                let value = next();
                for (row, column) in [(i, j), (j, i)] {
                    if let Some(p) = filter.covariance.get_mut(row).and_then(|row| row.get_mut(column)) {
                        *p = value;
                    }
                }
            }
        }
        filter
    }
}

impl Estimator {
    /// A snapshot; only right after a step that predicted.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let Gathered { accelerometer, gyro, count } = self.gathered;
        let has_one = (0.5..1.5).contains(&count);
        if !has_one || self.last_noise_ms != self.last_prediction_ms {
            return None;
        }
        let quat = |q: Quat| [q.w, q.x, q.y, q.z];
        let n = &self.noise;
        let upper = self.covariance.iter().enumerate().flat_map(|(i, row)| row.iter().skip(i));
        let all = [n.acceleration.0, n.acceleration.1, n.gyro, self.drag_per_s]
            .into_iter()
            .chain(self.position.to_array())
            .chain(self.velocity.to_array())
            .chain(quat(self.attitude))
            .chain(quat(self.start_attitude))
            .chain(accelerometer.to_array())
            .chain(gyro.to_array())
            .chain(upper.copied());
        let mut values = [0.0; SNAPSHOT_LEN];
        values.iter_mut().zip(all).for_each(|(room, value)| *room = value);
        Some(Snapshot(values))
    }
}
