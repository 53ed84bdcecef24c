//! The state estimator: a nine-state error-state Kalman filter with motion capture.
//!
//! States: position in the world frame (m), velocity in the body frame (m/s), attitude error about
//! the body axes (rad), beside a reference quaternion that takes the error up after every round.
//! It follows the official firmware's filter and is checked against its runs: in flight the thrust
//! axis of the accelerometer is all that is used of it (the rest of what it feels is drag and
//! vibration); on the ground all three axes are, and the attitude is drawn gently to level.
//!
//! [`Estimator::tick`] is called every millisecond with the newest inertial sample and with a mocap
//! sample when one has arrived.

mod snapshot;

pub use snapshot::{SNAPSHOT_LEN, Snapshot};

use crate::{GRAVITY_M_S2, Mat3, Quat, State, Vec3, math};

/// Drag of a Crazyflie 2.1, 1/s, as its accelerometer shows it in recorded flights (`docs/reality.md`).
pub const CRAZYFLIE_DRAG_PER_S: f32 = 0.4;

/// Milliseconds between predictions.
const PREDICTION_MS: u32 = 10;
/// Bounds of the variances, and of the covariances' size.
const MIN_VARIANCE: f32 = 1e-6;
const MAX_VARIANCE: f32 = 100.0;
/// Part of the way to the start attitude that is taken in every prediction on the ground.
const GROUND_REVERSION: f32 = 0.001;
/// Attitude errors below this are left for the next round, rad.
const SMALL_ANGLE: f32 = 1e-4;
/// Older motion capture than this is taken as this old, s: what the drone did since is known to first order.
pub const MAX_AGE_S: f32 = 0.1;
/// Beyond this distance from the origin the filter has diverged, m.
const MAX_POSITION: f32 = 100.0;
/// Beyond this speed the filter has diverged, m/s per body axis.
const MAX_SPEED: f32 = 10.0;

/// Number of states.
const N: usize = 9;
type Vector = [f32; N];
type Matrix = [Vector; N];

/// Noise the filter assumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Start position, m: xy, z.
    pub initial_position: (f32, f32),
    /// Start velocity, m/s.
    pub initial_velocity: f32,
    /// Start attitude, rad.
    pub initial_attitude: f32,
    /// Acceleration that the model does not know, m/s²: xy, z.
    pub acceleration: (f32, f32),
    /// Gyroscope, rad/s.
    pub gyro: f32,
}

impl Noise {
    /// The official firmware's.
    pub const DEFAULT: Self = Self {
        initial_position: (100.0, 1.0),
        initial_velocity: 0.01,
        initial_attitude: 0.01,
        acceleration: (0.5, 1.0),
        gyro: 0.1,
    };
}

/// One inertial sample, body frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Imu {
    /// Specific force, m/s² (+9.81 on z at rest).
    pub accelerometer: Vec3,
    /// Angular velocity, rad/s.
    pub gyro: Vec3,
}

/// One motion capture sample, world frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mocap {
    /// Position, m.
    pub position: Vec3,
    /// Its standard deviation, m.
    pub position_std: f32,
    /// Attitude and its standard deviation in rad, where the system sees more than one marker.
    pub attitude: Option<(Quat, f32)>,
    /// How old it is when it arrives, s: exposure, reconstruction, network, radio. 0 as the official filter takes it.
    pub age_s: f32,
}

/// The filter has diverged and must be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged;

/// Sum of inertial samples since the last prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Gathered {
    accelerometer: Vec3,
    gyro: Vec3,
    count: f32,
}

impl Gathered {
    fn add(&mut self, imu: &Imu) {
        self.accelerometer += imu.accelerometer;
        self.gyro += imu.gyro;
        self.count += 1.0;
    }
}

/// The filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimator {
    noise: Noise,
    /// Loss of speed along body x and y in flight, 1/s.
    drag_per_s: f32,
    position: Vec3,
    /// In the body frame.
    velocity: Vec3,
    attitude_error: Vec3,
    attitude: Quat,
    start_attitude: Quat,
    rotation: Mat3,
    covariance: Matrix,
    gathered: Gathered,
    next_prediction_ms: u32,
    last_prediction_ms: u32,
    last_noise_ms: u32,
    rates: Vec3,
}

impl Estimator {
    /// Level at a position with a heading (rad), at time `now_ms`.
    #[must_use]
    pub fn new(noise: Noise, position: Vec3, yaw: f32, now_ms: u32) -> Self {
        let attitude = Quat::from_euler(Vec3::new(0.0, 0.0, yaw));
        let square = |x: f32| x * x;
        let (xy, z) = (square(noise.initial_position.0), square(noise.initial_position.1));
        let (v, a) = (square(noise.initial_velocity), square(noise.initial_attitude));
        let mut filter = Self {
            noise,
            drag_per_s: 0.0,
            position,
            velocity: Vec3::ZERO,
            attitude_error: Vec3::ZERO,
            attitude,
            start_attitude: attitude,
            rotation: attitude.to_matrix(),
            covariance: diagonal(&[xy, xy, z, v, v, v, a, a, a]),
            gathered: Gathered::default(),
            next_prediction_ms: now_ms,
            last_prediction_ms: now_ms,
            last_noise_ms: now_ms,
            rates: Vec3::ZERO,
        };
        filter.tidy();
        filter
    }

    /// With drag in the prediction, 1/s: in flight the body feels `-drag · velocity` along its x and y. The official
    /// filter has none.
    #[must_use]
    pub fn with_drag(mut self, drag_per_s: f32) -> Self {
        self.set_drag(drag_per_s);
        self
    }

    /// Drag in the prediction, 1/s.
    #[must_use]
    pub fn drag_per_s(&self) -> f32 {
        self.drag_per_s
    }

    /// Changes the drag in the prediction, 1/s, from the next prediction on.
    pub fn set_drag(&mut self, drag_per_s: f32) {
        self.drag_per_s = drag_per_s;
    }

    /// One millisecond: predicts when it is time to, takes the inertial sample up for the next
    /// prediction, and corrects by a mocap sample if there is one.
    ///
    /// # Errors
    /// If the filter has diverged; the caller resets it with [`Estimator::new`].
    // Never inlined, so that its work can be counted in the image.
    #[inline(never)]
    pub fn tick(
        &mut self,
        now_ms: u32,
        imu: &Imu,
        mocap: Option<&Mocap>,
        flying: bool,
    ) -> Result<(), Diverged> {
        if now_ms.wrapping_sub(self.next_prediction_ms) < u32::MAX / 2 {
            let dt = now_ms.wrapping_sub(self.last_prediction_ms) as f32 * 1e-3;
            self.predict(dt, flying);
            self.last_prediction_ms = now_ms;
            self.next_prediction_ms = now_ms.wrapping_add(PREDICTION_MS);
        }
        let elapsed = now_ms.wrapping_sub(self.last_noise_ms);
        if elapsed > 0 {
            self.add_process_noise(elapsed as f32 * 1e-3);
            self.last_noise_ms = now_ms;
            self.tidy();
        }
        self.rates = imu.gyro;
        self.gathered.add(imu);
        if let Some(mocap) = mocap {
            self.correct(mocap);
        }
        self.take_up_attitude_error();
        let speed_ok = self.velocity.to_array().iter().all(|v| math::abs(*v) <= MAX_SPEED);
        let place_ok = self.position.to_array().iter().all(|p| math::abs(*p) <= MAX_POSITION);
        if speed_ok && place_ok && self.attitude.is_finite() { Ok(()) } else { Err(Diverged) }
    }

    /// The estimate, with the newest gyroscope reading as rates.
    #[must_use]
    pub fn state(&self) -> State {
        State {
            position: self.position,
            velocity: self.rotation.apply(self.velocity),
            attitude: self.attitude,
            rates: self.rates,
        }
    }

    /// Standard deviation of the position, m: grows while no mocap arrives.
    #[must_use]
    pub fn position_std(&self) -> Vec3 {
        let [[x, ..], [_, y, ..], [_, _, z, ..], ..] = self.covariance;
        Vec3::new(x, y, z).map(math::sqrt)
    }

    /// The covariance's diagonal: position, body velocity, attitude error.
    #[must_use]
    pub fn variances(&self) -> [f32; N] {
        let mut diagonal = [0.0; N];
        for (index, (out, row)) in diagonal.iter_mut().zip(&self.covariance).enumerate() {
            *out = row.get(index).copied().unwrap_or(0.0);
        }
        diagonal
    }

    fn predict(&mut self, dt: f32, flying: bool) {
        let Gathered { accelerometer, gyro, count } = core::mem::take(&mut self.gathered);
        let mean = if count > 0.0 { 1.0 / count } else { 0.0 };
        let (felt, w) = (accelerometer * mean, gyro * mean);
        let (r, v) = (self.rotation, self.velocity);
        let drag = if flying { self.drag_per_s } else { 0.0 };
        let felt = if flying { Vec3::new(-drag * v.x, -drag * v.y, felt.z) } else { felt };

        self.covariance = sandwich(&transition(&r, v, w, drag, dt), &self.covariance);

        let up = Vec3::new(r.x.z, r.y.z, r.z.z);
        self.position += r.apply(v * dt + felt * (0.5 * dt * dt)) - Vec3::Z * (0.5 * GRAVITY_M_S2 * dt * dt);
        self.velocity += (felt - w.cross(v) - up * GRAVITY_M_S2) * dt;
        let turned = self.attitude.integrate_body_rate(w, dt);
        self.attitude = if flying { turned } else { blend(turned, self.start_attitude, GROUND_REVERSION) };
    }

    fn add_process_noise(&mut self, dt: f32) {
        let (xy, z) = self.noise.acceleration;
        let square = |x: f32| x * x;
        let (p_xy, p_z) = (square(xy * dt * dt), square(z * dt * dt));
        let (v_xy, v_z) = (square(xy * dt), square(z * dt));
        let a = square(self.noise.gyro * dt);
        let added = [p_xy, p_xy, p_z, v_xy, v_xy, v_z, a, a, a];
        for (index, (row, q)) in self.covariance.iter_mut().zip(added).enumerate() {
            if let Some(p) = row.get_mut(index) {
                *p += q;
            }
        }
    }

    fn correct(&mut self, mocap: &Mocap) {
        let age = if mocap.age_s > 0.0 { math::clamp(mocap.age_s, 0.0, MAX_AGE_S) } else { 0.0 };
        if mocap.position.is_finite() && mocap.position_std > 0.0 {
            self.correct_position(mocap.position, mocap.position_std, age);
        }
        if let Some((seen, std)) = mocap.attitude
            && seen.is_finite()
            && std > 0.0
        {
            let seen = seen.normalized();
            let seen = if age > 0.0 { seen.integrate_body_rate(self.rates, age) } else { seen };
            // The rotation from the estimate to what was seen, about the body axes.
            let turn = self.attitude.conjugate() * seen;
            if math::abs(turn.w) > 0.1 {
                let error = Vec3::new(turn.x, turn.y, turn.z) * (2.0 / turn.w);
                self.scalar_update(6, error.x - self.attitude_error.x, std);
                self.scalar_update(7, error.y - self.attitude_error.y, std);
                self.scalar_update(8, error.z - self.attitude_error.z, std);
            }
        }
        // Once for all of them: each leaves the covariance symmetric but for rounding.
        self.tidy();
    }

    fn correct_position(&mut self, seen: Vec3, std: f32, age: f32) {
        if age == 0.0 {
            self.scalar_update(0, seen.x - self.position.x, std);
            self.scalar_update(1, seen.y - self.position.y, std);
            self.scalar_update(2, seen.z - self.position.z, std);
            return;
        }
        // What was seen is the position of then: the state's transition backwards, as far as the position goes.
        let r = self.rotation;
        let [x, y, z, ..] = transition(&r, self.velocity, Vec3::ZERO, 0.0, -age);
        let then = |filter: &Self| filter.position - r.apply(filter.velocity) * age;
        self.row_update(&x, seen.x - then(self).x, std);
        self.row_update(&y, seen.y - then(self).y, std);
        self.row_update(&z, seen.z - then(self).z, std);
    }

    /// Corrects by a measurement of state number `index` that is `error` away from the estimate.
    fn scalar_update(&mut self, index: usize, error: f32, std: f32) {
        // The covariance is symmetric: its row is its column.
        let Some(&column) = self.covariance.get(index) else { return };
        let Some(&own) = column.get(index) else { return };
        self.update(&column, own, error, std);
    }

    /// The same for a measurement of several states, each with its part in it.
    fn row_update(&mut self, parts: &Vector, error: f32, std: f32) {
        let column = self.covariance.map(|row| dot(&row, parts));
        self.update(&column, dot(&column, parts), error, std);
    }

    /// Corrects by a measurement with these covariances with the states, and this variance of its own.
    fn update(&mut self, column: &Vector, own: f32, error: f32, std: f32) {
        let innovation = own + std * std;
        let gain = column.map(|p| p / innovation);
        for (row, (k_a, p_a)) in self.covariance.iter_mut().zip(gain.iter().zip(column)) {
            for (p, (k_b, p_b)) in row.iter_mut().zip(gain.iter().zip(column)) {
                *p += k_a * k_b * innovation - k_a * p_b - p_a * k_b;
            }
        }
        let [x, y, z, u, v, w, a, b, c] = gain.map(|k| k * error);
        self.position += Vec3::new(x, y, z);
        self.velocity += Vec3::new(u, v, w);
        self.attitude_error += Vec3::new(a, b, c);
    }

    /// Moves the attitude error into the quaternion and turns the covariance along.
    fn take_up_attitude_error(&mut self) {
        let d = self.attitude_error;
        let sizes = d.map(math::abs);
        let largest = sizes.to_array().into_iter().fold(0.0, |m: f32, x| if x > m { x } else { m });
        if largest > SMALL_ANGLE && largest < 10.0 {
            self.attitude = self.attitude.integrate_body_rate(d, 1.0);
            turn_attitude(&mut self.covariance, &attitude_block(d * 0.5));
            self.tidy();
        }
        self.attitude_error = Vec3::ZERO;
        self.rotation = self.attitude.to_matrix();
    }

    /// Keeps the covariance symmetric and inside its bounds; NaN becomes the largest value, so that
    /// the next measurement is trusted.
    fn tidy(&mut self) {
        let old = self.covariance;
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, p) in row.iter_mut().enumerate() {
                let mirrored = old.get(j).and_then(|r| r.get(i)).copied().unwrap_or(*p);
                let mean = 0.5 * (*p + mirrored);
                *p = if mean.is_nan() || mean > MAX_VARIANCE {
                    MAX_VARIANCE
                } else if i == j && mean < MIN_VARIANCE {
                    MIN_VARIANCE
                } else {
                    mean
                };
            }
        }
    }
}

/// The state's linearised transition over `dt`: body axes `r`, body velocity `v`, body rates `w`,
/// `drag` along body x and y.
#[rustfmt::skip]
fn transition(r: &Mat3, v: Vec3, w: Vec3, drag: f32, dt: f32) -> Matrix {
    // Position by velocity: R dt. Position by attitude error: R [v]×ᵀ dt.
    let p_v = [r.x * dt, r.y * dt, r.z * dt];
    let p_a = [
        (r.z * v.y - r.y * v.z) * dt,
        (r.x * v.z - r.z * v.x) * dt,
        (r.y * v.x - r.x * v.y) * dt,
    ];
    let g = Vec3::new(r.x.z, r.y.z, r.z.z) * (GRAVITY_M_S2 * dt);
    let t = w * dt;
    let d = 1.0 - drag * dt;
    let [v0, v1, v2] = p_v;
    let [a0, a1, a2] = p_a;
    let [b0, b1, b2] = attitude_block(t * 0.5);
    [
        [1.0, 0.0, 0.0, v0.x, v1.x, v2.x, a0.x, a1.x, a2.x],
        [0.0, 1.0, 0.0, v0.y, v1.y, v2.y, a0.y, a1.y, a2.y],
        [0.0, 0.0, 1.0, v0.z, v1.z, v2.z, a0.z, a1.z, a2.z],
        [0.0, 0.0, 0.0,    d,  t.z, -t.y,  0.0,  g.z, -g.y],
        [0.0, 0.0, 0.0, -t.z,    d,  t.x, -g.z,  0.0,  g.x],
        [0.0, 0.0, 0.0,  t.y, -t.x,  1.0,  g.y, -g.x,  0.0],
        [0.0, 0.0, 0.0,  0.0,  0.0,  0.0, b0.x, b0.y, b0.z],
        [0.0, 0.0, 0.0,  0.0,  0.0,  0.0, b1.x, b1.y, b1.z],
        [0.0, 0.0, 0.0,  0.0,  0.0,  0.0, b2.x, b2.y, b2.z],
    ]
}

/// How an attitude error turns along with the body, to second order in `d`, half the turn: by rows.
#[rustfmt::skip]
fn attitude_block(d: Vec3) -> [Vec3; 3] {
    let (xx, yy, zz) = (0.5 * d.x * d.x, 0.5 * d.y * d.y, 0.5 * d.z * d.z);
    let (xy, xz, yz) = (0.5 * d.x * d.y, 0.5 * d.x * d.z, 0.5 * d.y * d.z);
    [
        Vec3::new(1.0 - yy - zz, d.z + xy, xz - d.y),
        Vec3::new(xy - d.z, 1.0 - xx - zz, d.x + yz),
        Vec3::new(d.y + xz, yz - d.x, 1.0 - xx - yy),
    ]
}

/// A P Aᵀ for an A that turns the attitude error and leaves the rest as it is: a tenth of the work of
/// the whole product.
fn turn_attitude(p: &mut Matrix, block: &[Vec3; 3]) {
    for [.., x, y, z] in p.iter_mut() {
        let old = Vec3::new(*x, *y, *z);
        [*x, *y, *z] = block.map(|row| row.dot(old));
    }
    let [.., r6, r7, r8] = p;
    for ((x, y), z) in r6.iter_mut().zip(r7).zip(r8) {
        let old = Vec3::new(*x, *y, *z);
        [*x, *y, *z] = block.map(|row| row.dot(old));
    }
}

fn diagonal(values: &Vector) -> Matrix {
    let mut matrix = [[0.0; N]; N];
    for (index, (row, value)) in matrix.iter_mut().zip(values).enumerate() {
        if let Some(entry) = row.get_mut(index) {
            *entry = *value;
        }
    }
    matrix
}

fn dot(x: &Vector, y: &Vector) -> f32 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// A P Aᵀ for a symmetric P.
fn sandwich(a: &Matrix, p: &Matrix) -> Matrix {
    // Row i of A P is A's row times P's columns, which are its rows.
    let ap = a.map(|row| p.map(|column| dot(&row, &column)));
    ap.map(|row| a.map(|other| dot(&row, &other)))
}

/// A small part of the way from one attitude to another.
fn blend(from: Quat, to: Quat, part: f32) -> Quat {
    let mix = |a: f32, b: f32| a + part * (b - a);
    Quat::new(mix(from.w, to.w), mix(from.x, to.x), mix(from.y, to.y), mix(from.z, to.z)).normalized()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_the_attitude_is_the_whole_product() {
        let mut p = diagonal(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        for (i, row) in p.iter_mut().enumerate() {
            for (j, v) in row.iter_mut().enumerate() {
                *v += 0.01 * (i * j) as f32;
            }
        }
        let block = attitude_block(Vec3::new(0.02, -0.01, 0.03));
        let mut whole = diagonal(&[1.0; N]);
        for (row, b) in whole.iter_mut().skip(6).zip(block) {
            row[6..].copy_from_slice(&[b.x, b.y, b.z]);
        }
        let expected = sandwich(&whole, &p);
        turn_attitude(&mut p, &block);
        for (a, b) in p.iter().flatten().zip(expected.iter().flatten()) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}
