//! The simulator as a learning task: episodes of goal tracking, flown by the law with noise.
//!
//! Physics and control run at the world's rate (240 Hz). One *transition* spans [`TrainingTask::hold`] such
//! steps: the exploration noise is drawn once and held, the law reacts at every step, and the
//! reward is the discounted sum. At 240 Hz one action moves the next state by less than features can
//! resolve; over 50 ms it does not.
//!
//! Every episode has its own random stream (seed, round, episode), so a collection depends neither on
//! earlier ones nor on the number of threads.

use rayon::prelude::*;
use steady_common::gains::GAIN_COUNT;
use steady_common::law::{self, Memory, Vehicle};
use steady_common::observation::{OBSERVATION_LEN, RewardWeights, observe, reward};
use steady_common::order::Order;
use steady_common::stock::{CascadedPid, Sensed, Setpoint};
use steady_common::{Action, Gains, MAX_MOTOR_THRUST_N, Reference, State, Trajectory, Vec3};
use steady_sim::metrics::Crash;
use steady_sim::{Drone, InitialDistribution, Params, Rng};

/// Keeps the noise's random stream apart from the simulator's.
const NOISE_STREAM: u64 = 1 << 40;

/// What is flown and how it is rewarded.
#[derive(Clone, Debug)]
pub struct TrainingTask {
    /// The worlds; episode `i` is flown in world `i` modulo their number.
    pub worlds: Vec<Params>,
    /// Mass and integral limits the law assumes.
    pub vehicle: Vehicle,
    /// Where to hover, or the middle of the path, m.
    pub goal_m: Vec3,
    pub path: GoalPath,
    /// Where episodes begin.
    pub initial: InitialDistribution,
    pub weights: RewardWeights,
    pub episode_steps: usize,
    /// Physics steps of a transition.
    pub hold: usize,
    /// Discount γ of one physics step.
    pub gamma: f32,
    /// Whether episodes come in antithetic pairs: the same start, opposite noise. Only possible in simulation.
    pub mirrored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalPath {
    Hover,
    /// The figure eight around the goal, entered anywhere.
    FigureEight,
}

/// The controller of a rollout.
#[derive(Clone, Copy, Debug)]
pub enum Flyer<'a> {
    Law(&'a Gains),
    /// The built-in PID; needs a world at the control rate.
    Pid,
}

/// One transition (s, a, r, s′).
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// s, an observation.
    pub from: [f32; OBSERVATION_LEN],
    /// a: the held noise, relative to the law's action.
    pub offset: [f32; 4],
    /// Sum of γᵏ r over the transition; after a crash its last reward counts for ever.
    pub reward: f32,
    /// s′, an observation.
    pub to: [f32; OBSERVATION_LEN],
    /// γ to the number of steps, or 0 after a crash.
    pub discount: f32,
}

/// The mean of the law's derivative over the steps of a transition, rows F_z, F_r, F_p, F_y.
pub type Jacobian = [[f32; GAIN_COUNT]; 4];

/// Transitions of one round of exploration.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// The transitions, ordered by time and then by episode.
    pub transitions: Vec<Transition>,
    /// For each of them the law's mean derivative with respect to the gains.
    pub jacobians: Vec<Jacobian>,
    pub episodes: Vec<u32>,
    /// Mean undiscounted return of the episodes, with the exploration's noise.
    pub mean_return: f64,
    /// Fraction of the episodes that crashed.
    pub crashed: f64,
}

/// An evaluation of gains without noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Mean undiscounted return of an episode.
    pub mean_return: f64,
    /// Standard error of that mean.
    pub standard_error: f64,
    /// Fraction of the episodes that crashed.
    pub crashed: f64,
}

/// The official cascaded PID and its tick of 1 ms.
#[derive(Clone, Copy, Debug, Default)]
struct Pid {
    cascade: CascadedPid,
    tick: u32,
}

impl Pid {
    /// One control step: two ticks, because the loops run on even ones.
    fn action(&mut self, state: &State, reference: &Reference) -> Action {
        let (setpoint, sensed) = (Setpoint::from_reference(reference), Sensed::from_state(state));
        self.cascade.step(&setpoint, &sensed, self.tick.wrapping_add(1));
        self.tick = self.tick.wrapping_add(2);
        Order::from_command(self.cascade.step(&setpoint, &sensed, self.tick)).action
    }
}

#[derive(Clone, Debug)]
struct Episode {
    world: usize,
    drone: Drone,
    memory: Memory,
    /// Flies in place of the law.
    pid: Option<Pid>,
    /// Time on the path at the beginning, s.
    start_s: f32,
    last: Action,
    motors: [f32; 4],
    noise: Rng,
    total: f64,
    /// Steps flown so far; a crash ends the count.
    steps: usize,
    crashed: bool,
}

impl Episode {
    fn new(task: &TrainingTask, seed: u64, index: u64) -> Self {
        let world = index as usize % task.worlds.len().max(1);
        let params = &task.worlds[world];
        let mut drone = Drone::new(params, seed, index);
        let mut noise = Rng::new(seed, NOISE_STREAM + index);
        let start_s =
            if task.path == GoalPath::Hover { 0.0 } else { std::f32::consts::TAU * noise.uniform() };
        let begin = task.reference(start_s);
        let mut initial = task.initial.sample(params, begin.position, drone.rng());
        initial.state.velocity += begin.velocity;
        drone.reset(params, &initial);
        let (hover, weight) = (params.hover_rpm(), params.mass_kg * params.gravity_m_s2);
        let motors = drone.rpm().map(|rpm| {
            let part = rpm / hover;
            part * part * weight / (4.0 * MAX_MOTOR_THRUST_N)
        });
        Self {
            world,
            drone,
            memory: Memory::default(),
            pid: None,
            start_s,
            last: Action { thrust: motors.iter().sum::<f32>() / 4.0, ..Action::default() },
            motors,
            noise,
            total: 0.0,
            steps: 0,
            crashed: false,
        }
    }

    fn reference(&self, task: &TrainingTask) -> Reference {
        task.reference(self.start_s + self.steps as f32 * task.dt_s())
    }

    fn observation(&self, task: &TrainingTask) -> [f32; OBSERVATION_LEN] {
        observe(self.drone.truth(), &self.reference(task), &self.last, &self.memory, &self.motors)
    }

    /// One physics step with an offset to the law's action: the reward.
    fn step(&mut self, task: &TrainingTask, gains: &Gains, offset: &[f32; 4]) -> f32 {
        let reference = &self.reference(task);
        let params = &task.worlds[self.world];
        let state = *self.drone.truth();
        let mut action =
            law::step(gains, &task.vehicle, &state, reference, &mut self.memory, params.dt_s).into_array();
        if let Some(pid) = &mut self.pid {
            action = pid.action(&state, reference).into_array();
        }
        for (a, o) in action.iter_mut().zip(offset) {
            *a += o;
        }
        self.last = Action::from_array(action);
        self.motors = self.last.motors().thrust;
        self.drone.step(params, self.motors);
        let truth = self.drone.truth();
        let r = reward(&task.weights, truth, reference, &self.last);
        self.crashed = Crash::of(truth, reference).is_some();
        self.steps += 1;
        let counted = if self.crashed { task.episode_steps.saturating_sub(self.steps) + 1 } else { 1 };
        let r = if r.is_finite() { r } else { -10.0 };
        self.total += f64::from(r) * counted as f64;
        r
    }
}

/// Works on `items` with at most `threads` threads.
pub(crate) fn parallel<T: Send>(threads: usize, items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let chunk = items.len().div_ceil(threads.max(1)).max(1);
    items.par_chunks_mut(chunk).for_each(|part| part.iter_mut().for_each(&work));
}

impl TrainingTask {
    /// Hovering at 1 m in a world, from wide initial states, as the quick preset has it.
    pub fn hover(worlds: Vec<Params>) -> Self {
        Self {
            worlds,
            vehicle: Vehicle::NOMINAL,
            goal_m: Vec3::Z,
            path: GoalPath::Hover,
            initial: InitialDistribution::Wide(steady_sim::initial::Spread::default()),
            weights: RewardWeights::PAPER,
            episode_steps: 480,
            hold: 12,
            gamma: 0.998,
            mirrored: true,
        }
    }

    /// Length of a physics and control step, s.
    pub fn dt_s(&self) -> f32 {
        self.worlds.first().map_or(1.0 / 240.0, |w| w.dt_s)
    }

    pub fn reference(&self, time_s: f32) -> Reference {
        match self.path {
            GoalPath::Hover => Reference::hover(self.goal_m),
            GoalPath::FigureEight => {
                Trajectory::FigureEight { centre: self.goal_m, ramp_s: 0.0, duration_s: f32::INFINITY }
                    .at(time_s)
            }
        }
    }

    /// Flies `episodes` with noise around the law. `std` gives the noise's standard deviations
    /// (four for every episode) from the observations (one row for every episode).
    pub fn collect(
        &self,
        gains: &Gains,
        episodes: usize,
        seed: u64,
        threads: usize,
        std: impl FnMut(&[f32]) -> Vec<f32>,
    ) -> Collection {
        self.collect_by(Flyer::Law(gains), episodes, seed, threads, std)
    }

    /// The same with any controller.
    pub fn collect_by(
        &self,
        flyer: Flyer<'_>,
        episodes: usize,
        seed: u64,
        threads: usize,
        mut std: impl FnMut(&[f32]) -> Vec<f32>,
    ) -> Collection {
        let (gains, pid) = match flyer {
            Flyer::Law(gains) => (gains, None),
            // The law is computed too: its memory is part of the observation.
            Flyer::Pid => (&Gains::nominal(), Some(Pid::default())),
        };
        type Flown = (Episode, [f32; 4], Option<(Transition, Jacobian)>);
        let mut flown: Vec<Flown> = (0..episodes as u64)
            .map(|i| {
                (
                    Episode { pid, ..Episode::new(self, seed, if self.mirrored { i / 2 } else { i }) },
                    [0.0; 4],
                    None,
                )
            })
            .collect();
        let mut collection = Collection::default();
        let mut observations = vec![0.0; episodes * OBSERVATION_LEN];
        for _ in 0..self.episode_steps / self.hold.max(1) {
            for (row, (episode, ..)) in observations.chunks_mut(OBSERVATION_LEN).zip(&flown) {
                row.copy_from_slice(&episode.observation(self));
            }
            let std = std(&observations);
            for (i, ((episode, offset, _), std)) in flown.iter_mut().zip(std.chunks(4)).enumerate() {
                let sign = if self.mirrored && i % 2 == 1 { -1.0 } else { 1.0 };
                let (a, b) = episode.noise.normal_pair();
                let (c, d) = episode.noise.normal_pair();
                for ((o, n), s) in offset.iter_mut().zip([a, b, c, d]).zip(std) {
                    *o = sign * n * s;
                }
            }
            parallel(threads, &mut flown, |(episode, offset, out)| {
                *out = (!episode.crashed).then(|| self.transition(episode, gains, offset));
            });
            for (index, (.., out)) in (0..).zip(&mut flown) {
                if let Some((transition, jacobian)) = out.take() {
                    collection.episodes.push(index);
                    collection.transitions.push(transition);
                    collection.jacobians.push(jacobian);
                }
            }
        }
        let count = episodes.max(1) as f64;
        collection.mean_return = flown.iter().map(|(e, ..)| e.total).sum::<f64>() / count;
        collection.crashed = flown.iter().filter(|(e, ..)| e.crashed).count() as f64 / count;
        collection
    }

    fn transition(&self, episode: &mut Episode, gains: &Gains, offset: &[f32; 4]) -> (Transition, Jacobian) {
        let from = episode.observation(self);
        let (mut sum, mut discount) = (0.0, 1.0);
        let mut mean: Jacobian = [[0.0; GAIN_COUNT]; 4];
        let mut flown = 0;
        for _ in 0..self.hold {
            let state = *episode.drone.truth();
            let (_, jacobian) = law::jacobian(
                gains,
                &self.vehicle,
                &state,
                &episode.reference(self),
                &episode.memory,
                self.dt_s(),
            );
            for (m, j) in mean.iter_mut().flatten().zip(jacobian.iter().flatten()) {
                *m += j;
            }
            flown += 1;
            let r = episode.step(self, gains, offset);
            sum += discount * r;
            discount *= self.gamma;
            if episode.crashed {
                sum += discount * r / (1.0 - self.gamma);
                discount = 0.0;
                break;
            }
        }
        for m in mean.iter_mut().flatten() {
            *m /= flown as f32;
        }
        let to = episode.observation(self);
        let transition = Transition { from, offset: *offset, reward: sum, to, discount };
        (transition, mean)
    }

    /// Flies `episodes` without noise.
    pub fn evaluate(&self, gains: &Gains, episodes: usize, seed: u64, threads: usize) -> Evaluation {
        let mut flown: Vec<Episode> =
            (0..episodes as u64).map(|index| Episode::new(self, seed, index)).collect();
        parallel(threads, &mut flown, |episode| {
            while episode.steps < self.episode_steps && !episode.crashed {
                episode.step(self, gains, &[0.0; 4]);
            }
        });
        let n = flown.len().max(1) as f64;
        let mean = flown.iter().map(|e| e.total).sum::<f64>() / n;
        let variance = flown.iter().map(|e| (e.total - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Evaluation {
            mean_return: mean,
            standard_error: (variance / n).sqrt(),
            crashed: flown.iter().filter(|e| e.crashed).count() as f64 / n,
        }
    }
}
