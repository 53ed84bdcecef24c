//! Motion capture and its way to the drone: frames at a rate, with noise, lost or late.
//!
//! Frames on their way live in a small fixed queue. A frame that a later one has overtaken is
//! thrown away on arrival, as a receiver that looks at time stamps would.

use steady_common::{Quat, State, Vec3};

use crate::rng::Rng;
use crate::world::{Mocap as MocapConfig, Radio};

/// Frames that can be on their way at once; a frame that finds no room is lost.
const QUEUE: usize = 32;

/// A frame as it reaches the drone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MocapSample {
    /// Position in the world frame, m.
    pub position_m: Vec3,
    /// Attitude, body to world, when the system sends poses.
    pub attitude: Option<Quat>,
    /// Physics steps since the picture was taken.
    pub age_steps: u32,
}

/// Constants of motion capture and radio.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MocapParams {
    /// Frames per physics step, at most 1.
    frames_per_step: f32,
    noise_std_m: f32,
    pose: bool,
    attitude_noise_std_rad: f32,
    latency_steps: f32,
    jitter_steps: f32,
    loss_probability: f32,
    /// Probability that a drop-out begins with a frame.
    lose: f32,
    /// Probability that a drop-out ends with a frame.
    find: f32,
}

impl MocapParams {
    pub(crate) fn new(m: &MocapConfig, r: &Radio, dt_s: f32) -> Self {
        let frame_s = 1.0 / m.rate_hz;
        let probability = |x: f32| if x < 1.0 { x } else { 1.0 };
        Self {
            frames_per_step: probability(m.rate_hz * dt_s),
            noise_std_m: m.noise_std_m,
            pose: m.pose,
            attitude_noise_std_rad: m.attitude_noise_std_rad,
            latency_steps: (m.latency_s + r.latency_s) / dt_s,
            jitter_steps: r.jitter_mean_s / dt_s,
            loss_probability: r.loss_probability,
            lose: probability(m.dropouts_per_s * frame_s),
            find: if m.dropout_mean_s > frame_s { frame_s / m.dropout_mean_s } else { 1.0 },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Frame {
    taken: u32,
    arrives: u32,
    position: Vec3,
    attitude: Quat,
}

/// Motion capture of one drone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mocap {
    step: u32,
    /// Parts of a frame since the last one.
    phase: f32,
    is_lost: bool,
    newest_delivered: u32,
    queued: usize,
    queue: [Frame; QUEUE],
}

impl Mocap {
    /// Cameras whose first frame comes at a random moment within the frame time.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            step: 0,
            phase: rng.uniform(),
            is_lost: false,
            newest_delivered: 0,
            queued: 0,
            queue: [Frame::default(); QUEUE],
        }
    }

    /// One physics step: maybe takes a frame of the true state, maybe delivers one.
    pub(crate) fn step(&mut self, p: &MocapParams, truth: &State, rng: &mut Rng) -> Option<MocapSample> {
        self.step = self.step.wrapping_add(1);
        self.phase += p.frames_per_step;
        if self.phase >= 1.0 {
            self.phase -= 1.0;
            self.expose(p, truth, rng);
        }
        self.deliver(p)
    }

    fn expose(&mut self, p: &MocapParams, truth: &State, rng: &mut Rng) {
        if p.lose > 0.0 {
            self.is_lost = if self.is_lost { !rng.chance(p.find) } else { rng.chance(p.lose) };
        }
        // Drawn for lost frames too, so that losses do not change the noise of the rest.
        let mut frame = Frame {
            taken: self.step,
            arrives: self.step,
            position: truth.position,
            attitude: truth.attitude,
        };
        if p.noise_std_m > 0.0 {
            frame.position += rng.normal_vec() * p.noise_std_m;
        }
        if p.pose && p.attitude_noise_std_rad > 0.0 {
            let error = rng.normal_vec() * p.attitude_noise_std_rad;
            frame.attitude = frame.attitude.integrate_body_rate(error, 1.0);
        }
        let mut delay = p.latency_steps;
        if p.jitter_steps > 0.0 {
            delay -= p.jitter_steps * libm::logf(1.0 - rng.uniform());
        }
        // Rounded to the nearest step; the cast truncates.
        frame.arrives = self.step.wrapping_add((delay + 0.5) as u32);
        let is_dropped = p.loss_probability > 0.0 && rng.chance(p.loss_probability);
        if self.is_lost || is_dropped {
            return;
        }
        if let Some(slot) = self.queue.get_mut(self.queued) {
            *slot = frame;
            self.queued += 1;
        }
    }

    /// Takes every frame out that has arrived and returns the newest, if it is news.
    fn deliver(&mut self, p: &MocapParams) -> Option<MocapSample> {
        let mut newest: Option<Frame> = None;
        let mut i = 0;
        while i < self.queued {
            let frame = self.queue[i];
            if frame.arrives > self.step {
                i += 1;
                continue;
            }
            self.queued -= 1;
            self.queue[i] = self.queue[self.queued];
            if frame.taken > newest.map_or(self.newest_delivered, |n| n.taken) {
                newest = Some(frame);
            }
        }
        let frame = newest?;
        self.newest_delivered = frame.taken;
        Some(MocapSample {
            position_m: frame.position,
            attitude: p.pose.then_some(frame.attitude),
            age_steps: self.step - frame.taken,
        })
    }
}
