//! How late motion capture is, from one flight's inertial samples and frames.
//!
//! Between two frames the accelerometer says how the drone moved, whatever pushed it. So the path by the accelerometer,
//! moved in time, is laid onto the positions: in windows of two seconds, each with a place, a velocity and a constant
//! acceleration of its own, and one that grows with time, which take up what the path drifts by. Where it fits best is the delay. No model of the
//! drone has a part in it.

use steady_common::inputs_record::Input;
use steady_common::transition::Flags;
use steady_common::{GRAVITY_M_S2, Quat, Vec3};
use steady_firmware::flight::imu::ACCELEROMETER_DELAY_S;
use steady_sim::World;

use crate::logged::LoggedFlight;

/// Time between two inertial samples, s.
const DT_S: f32 = 1e-3;
/// Length of a window, ms.
const WINDOW_MS: usize = 2000;
/// Windows with fewer frames say nothing.
const MIN_FRAMES: usize = 100;
/// Delays that are tried, in steps of the inertial samples' time: up to 0.15 s.
const TRIED_MS: std::ops::RangeInclusive<usize> = 0..=150;
/// Every so many of them.
const EVERY_MS: usize = 2;
/// A delay that is known worse than this is not told, s.
const MAX_STD_S: f64 = 0.004;
/// Frames whose errors count as one, because they have the same cause.
const TOGETHER: f64 = 4.0;

/// Lets frames reach the drone so late, s, on average.
pub(crate) fn put(world: &mut World, latency_s: f32) {
    let radio = &mut world.radio;
    world.mocap.latency_s = (latency_s - radio.latency_s - radio.jitter_mean_s).max(0.0);
    if latency_s < radio.latency_s + radio.jitter_mean_s {
        (radio.latency_s, radio.jitter_mean_s) = (0.5 * latency_s, 0.5 * latency_s);
    }
}

/// The delay by which motion capture's frames reach the drone, s, on average; `None` if a flight's log does not have
/// the estimator's inputs, or does not tell.
pub(crate) fn latency_s(flights: &[LoggedFlight]) -> Option<f32> {
    let mut errors = vec![0.0; TRIED_MS.count().div_ceil(EVERY_MS)];
    let mut frames = 0;
    for path in flights.iter().filter_map(Path::of) {
        frames += path.add_errors(&mut errors);
    }
    let last = errors.len().checked_sub(2)?;
    let best = (1..=last).min_by(|a, b| errors[*a].total_cmp(&errors[*b]))?;
    // The parabola through it and its neighbours.
    let [before, at, after] = [errors[best - 1], errors[best], errors[best + 1]];
    let bend = before - 2.0 * at + after;
    let step_s = EVERY_MS as f64 * 1e-3;
    let variance = at / frames.max(1) as f64;
    let std_s = step_s * (2.0 * TOGETHER * variance / bend.max(1e-18)).sqrt();
    let filtered_s = (best as f64 + 0.5 * (before - after) / bend.max(1e-18)) * step_s;
    let is_told = frames > 0 && bend > 0.0 && std_s < MAX_STD_S && best < last;
    // The accelerations are late, too, by their filter.
    is_told.then_some(filtered_s as f32 + ACCELEROMETER_DELAY_S)
}

/// What the inertial sensors felt, a thousand times a second, and the frames that arrived meanwhile.
struct Path {
    /// Specific force, m/s², and rates, rad/s, in the body frame.
    felt: Vec<(Vec3, Vec3)>,
    /// Control steps: milliseconds since the beginning, and attitudes.
    attitudes: Vec<(usize, Quat)>,
    /// Milliseconds since the beginning, and positions.
    frames: Vec<(usize, Vec3)>,
}

impl Path {
    fn of(flight: &LoggedFlight) -> Option<Self> {
        let flying = || flight.records.iter().filter(|r| r.flags.has(Flags::FLYING));
        let (first_us, last_us) = (flying().next()?.time_us, flying().next_back()?.time_us);
        let now = |time_us: u64| ((time_us - first_us) / 1000) as usize;
        let (mut felt, mut frames, mut pending) = (Vec::new(), Vec::new(), None);
        for input in &flight.inputs {
            match input {
                Input::Mocap(_, mocap) => pending = Some(mocap.position),
                Input::Imu(sample) if (first_us..=last_us).contains(&sample.time_us) => {
                    let now = now(sample.time_us);
                    // Samples that are missing count as this one: a window that has some fits badly and says little.
                    felt.resize(now + 1, (sample.imu.accelerometer, sample.imu.gyro));
                    frames.extend(pending.take().map(|position| (now, position)));
                }
                _ => {}
            }
        }
        let attitudes = flying().map(|r| (now(r.time_us), r.state.attitude)).collect();
        (!frames.is_empty()).then_some(Self { felt, attitudes, frames })
    }

    /// Adds the squared distances that are left with every delay; returns how many frames there were.
    fn add_errors(&self, errors: &mut [f64]) -> usize {
        let mut count = 0;
        let longest = *TRIED_MS.end();
        let frames = self.frames.iter().copied().filter(|(now, _)| *now >= longest).collect::<Vec<_>>();
        for frames in frames.chunk_by(|(a, _), (b, _)| a / WINDOW_MS == b / WINDOW_MS) {
            let begin = frames[0].0 - longest;
            let places_m = self.places(begin, frames[frames.len() - 1].0);
            if frames.len() < MIN_FRAMES || places_m.is_empty() {
                continue;
            }
            count += frames.len();
            for (error, late_ms) in errors.iter_mut().zip(TRIED_MS.step_by(EVERY_MS)) {
                for axis in [|v: Vec3| v.x, |v: Vec3| v.y, |v: Vec3| v.z] {
                    *error += left_over(frames.iter().map(|(now, position)| {
                        let x = (now % WINDOW_MS) as f64 / WINDOW_MS as f64 - 0.5;
                        (x, f64::from(axis(*position - places_m[now - late_ms - begin])))
                    }));
                }
            }
        }
        count
    }

    /// Where the drone went from a moment on until another, m: the gyroscope turns the attitude that the filter had in
    /// the beginning, which knows nothing of wind later.
    fn places(&self, begin: usize, end: usize) -> Vec<Vec3> {
        let at = self.attitudes.partition_point(|(now, _)| *now < begin);
        let Some((_, mut attitude)) = self.attitudes.get(at).copied() else { return Vec::new() };
        let (mut place, mut velocity) = (Vec3::ZERO, Vec3::ZERO);
        let felt = self.felt.get(begin..=end).unwrap_or_default().iter();
        felt.map(|(force, rates)| {
            attitude = attitude.integrate_body_rate(*rates, DT_S);
            velocity += (attitude.to_matrix().apply(*force) - Vec3::Z * GRAVITY_M_S2) * DT_S;
            place += velocity * DT_S;
            place
        })
        .collect()
    }
}

/// Squares that a cubic leaves.
fn left_over(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let mut a = [[0.0; 5]; 4];
    for (x, y) in points.clone() {
        let row = [1.0, x, x * x, x * x * x, y];
        for (sums, f) in a.iter_mut().zip(row) {
            sums.iter_mut().zip(row).for_each(|(sum, g)| *sum += f * g);
        }
    }
    for i in 0..4 {
        let pivot = a[i];
        for row in a.iter_mut().skip(i + 1) {
            let part = row[i] / pivot[i];
            row.iter_mut().zip(pivot).for_each(|(v, p)| *v -= part * p);
        }
    }
    let mut c = [0.0; 4];
    for i in (0..4).rev() {
        let known: f64 = (i + 1..4).map(|k| a[i][k] * c[k]).sum();
        c[i] = (a[i][4] - known) / a[i][i];
    }
    points.map(|(x, y)| (y - (((c[3] * x + c[2]) * x + c[1]) * x + c[0])).powi(2)).sum()
}
