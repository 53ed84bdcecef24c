//! The simulator as a learning task: episodes of goal tracking, flown by the law with noise.
//!
//! Physics and control run at the world's rate (240 Hz). One *transition* spans [`Task::hold`] such
//! steps: the exploration noise is drawn once and held, the law reacts at every step, and the
//! reward is the discounted sum. At 240 Hz one action moves the next state by less than features can
//! resolve; over 50 ms it does not.
//!
//! Every episode begins with random numbers of its own (seed, round, episode), so a collection
//! depends on nothing that came before it, and not on the number of threads.

use steady_common::gains::GAIN_COUNT;
use steady_common::law::{self, Memory, Vehicle};
use steady_common::observation::{OBSERVATION_LEN, RewardWeights, observe, reward};
use steady_common::{Action, Gains, MAX_MOTOR_THRUST_N, Reference, State, Trajectory, Vec3};
use steady_sim::metrics::{FLIPPED_COS, LOST_M};
use steady_sim::pilot::Pilot;
use steady_sim::{Drone, InitialDistribution, Params, Rng};

/// Values beside the observation that the law needs to compute a step again.
pub const EXTRA_LEN: usize = 24;

/// Keeps the noise's random numbers apart from the simulator's.
const NOISE_STREAM: u64 = 1 << 40;

/// What is flown and how it is rewarded.
#[derive(Clone, Debug)]
pub struct Task {
    /// The worlds; episode `i` is flown in world `i` modulo their number.
    pub worlds: Vec<Params>,
    /// Mass and integral limits the law assumes.
    pub vehicle: Vehicle,
    /// Where to hover, or the middle of the path, m.
    pub goal_m: Vec3,
    /// The path.
    pub path: Path,
    /// Where episodes begin.
    pub initial: InitialDistribution,
    /// Weights of the reward.
    pub weights: RewardWeights,
    /// Physics steps of an episode.
    pub episode_steps: usize,
    /// Physics steps of a transition.
    pub hold: usize,
    /// Discount γ of one physics step.
    pub gamma: f32,
    /// Whether collected episodes come in pairs that begin alike and explore in opposite directions:
    /// what a pair has in common then says nothing about the actions. Only a simulator can do that.
    pub mirrored: bool,
}

/// Which path is flown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Staying at the goal.
    Hover,
    /// The figure eight about the goal, entered anywhere.
    FigureEight,
}

/// Who flies.
#[derive(Clone, Copy, Debug)]
pub enum Flyer<'a> {
    /// The law with these gains.
    Law(&'a Gains),
    /// The built-in PID; needs a world at the control rate.
    Pid,
}

/// An instant of a flight: what the learner sees, and what the law must know to be computed again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instant {
    /// The observation s.
    pub observation: [f32; OBSERVATION_LEN],
    /// The reference's acceleration, yaw and yaw rate; integral and derivative of the velocity loop;
    /// the last errors of all loops; 1 if there are any.
    pub extra: [f32; EXTRA_LEN],
}

/// One transition (s, a, r, s′).
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// s.
    pub from: Instant,
    /// a: the law's first action with the held noise.
    pub action: [f32; 4],
    /// The held noise: a minus the law's action.
    pub offset: [f32; 4],
    /// Sum of γᵏ r over the transition; after a crash the rest of time counts as the crash.
    pub reward: f32,
    /// s′.
    pub to: Instant,
    /// γ to the number of steps, or 0 after a crash.
    pub discount: f32,
}

/// The mean of the law's derivative over the steps of a transition, rows F_z, F_r, F_p, F_y.
pub type Jacobian = [[f32; GAIN_COUNT]; 4];

/// What a collection brings.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// The transitions, in the order of time and then of episodes.
    pub transitions: Vec<Transition>,
    /// For each of them the law's mean derivative with respect to the gains.
    pub jacobians: Vec<Jacobian>,
    /// For each of them its episode.
    pub episodes: Vec<u32>,
    /// Mean undiscounted return of the episodes, with the exploration's noise.
    pub mean_return: f64,
    /// Part of the episodes that crashed.
    pub crashed: f64,
}

/// How gains fly without noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Mean undiscounted return of an episode.
    pub mean_return: f64,
    /// Standard error of that mean.
    pub standard_error: f64,
    /// Mean distance from the goal, m.
    pub error_m: f64,
    /// Part of the episodes that crashed.
    pub crashed: f64,
}

impl Instant {
    /// The law's inputs: the state relative to the reference, the reference, and the memory.
    ///
    /// The law looks only at differences of positions and velocities, so the reference is put at
    /// the origin and every bit of the law's output stays the same.
    #[must_use]
    pub fn law_inputs(&self) -> (State, Reference, Memory) {
        let (o, x) = (&self.observation, &self.extra);
        let o3 = |i: usize| Vec3::new(o[i], o[i + 1], o[i + 2]);
        let x3 = |i: usize| Vec3::new(x[i], x[i + 1], x[i + 2]);
        let state = State {
            position: o3(0),
            velocity: o3(10),
            attitude: steady_common::Quat { w: o[3], x: o[4], y: o[5], z: o[6] },
            rates: o3(13),
        };
        let reference = Reference { acceleration: x3(0), yaw: x[3], yaw_rate: x[4], ..Reference::default() };
        let memory = Memory {
            integral: law::PerLoop { position: o3(20), velocity: x3(5), attitude: o3(23), rate: o3(26) },
            derivative: law::PerLoop { position: o3(29), velocity: x3(8), attitude: o3(32), rate: o3(35) },
            error: law::PerLoop { position: x3(11), velocity: x3(14), attitude: x3(17), rate: x3(20) },
            started: x[23] > 0.5,
        };
        (state, reference, memory)
    }

    /// The law's action here.
    #[must_use]
    pub fn action(&self, gains: &Gains, vehicle: &Vehicle, dt: f32) -> [f32; 4] {
        let (state, reference, mut memory) = self.law_inputs();
        law::step(gains, vehicle, &state, &reference, &mut memory, dt).into_array()
    }

    /// The law's action here and its derivative with respect to the gains.
    #[must_use]
    pub fn jacobian(&self, gains: &Gains, vehicle: &Vehicle, dt: f32) -> ([f32; 4], Jacobian) {
        let (state, reference, memory) = self.law_inputs();
        let (action, jacobian) = law::jacobian(gains, vehicle, &state, &reference, &memory, dt);
        (action.into_array(), jacobian)
    }

    /// Of a control step: what the law is given, its memory before the step, and the last action.
    #[must_use]
    pub fn new(
        state: &State,
        reference: &Reference,
        last: &Action,
        memory: &Memory,
        motors: &[f32; 4],
    ) -> Self {
        let mut extra = [0.0; EXTRA_LEN];
        let Memory { integral, derivative, error, started } = memory;
        let vectors = [
            reference.acceleration,
            Vec3::new(reference.yaw, reference.yaw_rate, 0.0),
            integral.velocity,
            derivative.velocity,
            error.position,
            error.velocity,
            error.attitude,
            error.rate,
        ];
        let flat = vectors.iter().enumerate().flat_map(|(i, v)| {
            // The second is a pair, not a vector.
            [v.x, v.y, v.z].into_iter().take(if i == 1 { 2 } else { 3 })
        });
        for (to, from) in extra.iter_mut().zip(flat.chain([f32::from(*started)])) {
            *to = from;
        }
        Self { observation: observe(state, reference, last, memory, motors), extra }
    }
}

/// One episode in progress.
#[derive(Clone, Debug)]
struct Episode {
    world: usize,
    drone: Drone,
    memory: Memory,
    /// Who flies in place of the law.
    pilot: Option<Pilot>,
    /// Time on the path at the beginning, s.
    start_s: f32,
    last: Action,
    motors: [f32; 4],
    noise: Rng,
    total: f64,
    error: f64,
    /// Steps flown so far; a crash ends the count.
    steps: usize,
    crashed: bool,
}

impl Episode {
    fn new(task: &Task, seed: u64, index: u64) -> Self {
        let world = index as usize % task.worlds.len().max(1);
        let params = &task.worlds[world];
        let mut drone = Drone::new(params, seed, index);
        let mut noise = Rng::new(seed, NOISE_STREAM + index);
        let start_s = if task.path == Path::Hover { 0.0 } else { std::f32::consts::TAU * noise.uniform() };
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
            pilot: None,
            start_s,
            last: Action { thrust: motors.iter().sum::<f32>() / 4.0, ..Action::default() },
            motors,
            noise,
            total: 0.0,
            error: 0.0,
            steps: 0,
            crashed: false,
        }
    }

    fn reference(&self, task: &Task) -> Reference {
        task.reference(self.start_s + self.steps as f32 * task.dt_s())
    }

    fn instant(&self, task: &Task) -> Instant {
        Instant::new(self.drone.perceived(), &self.reference(task), &self.last, &self.memory, &self.motors)
    }

    /// One physics step with an offset to the law's action: the reward.
    fn step(&mut self, task: &Task, gains: &Gains, offset: &[f32; 4]) -> f32 {
        let reference = &self.reference(task);
        let params = &task.worlds[self.world];
        let seen = *self.drone.perceived();
        let mut action =
            law::step(gains, &task.vehicle, &seen, reference, &mut self.memory, params.dt_s).into_array();
        if let Some(pilot) = &mut self.pilot {
            action = pilot.order(&seen, reference, params.dt_s).action.into_array();
        }
        for (a, o) in action.iter_mut().zip(offset) {
            *a += o;
        }
        self.last = Action::from_array(action);
        self.motors = self.last.motors().thrust;
        self.drone.step(params, self.motors);
        let truth = self.drone.truth();
        let r = reward(&task.weights, truth, reference, &self.last);
        let distance = (truth.position - reference.position).norm();
        // Written so that a state which is no number counts as lost.
        let fine = distance < LOST_M && truth.attitude.to_matrix().z.z > FLIPPED_COS;
        self.steps += 1;
        let counted = if fine { 1 } else { task.episode_steps.saturating_sub(self.steps) + 1 };
        self.crashed = !fine;
        let r = if r.is_finite() { r } else { -10.0 };
        self.total += f64::from(r) * counted as f64;
        self.error += f64::from(distance.min(LOST_M)) * counted as f64;
        r
    }
}

/// Divides the work on `items` among `threads`.
pub(crate) fn parallel<T: Send>(threads: usize, items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let chunk = items.len().div_ceil(threads.max(1)).max(1);
    if chunk >= items.len() {
        return items.iter_mut().for_each(work);
    }
    let work = &work;
    std::thread::scope(|scope| {
        for part in items.chunks_mut(chunk) {
            scope.spawn(move || part.iter_mut().for_each(work));
        }
    });
}

impl Task {
    /// Hovering at 1 m in a world, from wide initial states, in the quick presets' form.
    #[must_use]
    pub fn hover(worlds: Vec<Params>) -> Self {
        Self {
            worlds,
            vehicle: Vehicle::NOMINAL,
            goal_m: Vec3::Z,
            path: Path::Hover,
            initial: InitialDistribution::Wide(steady_sim::initial::Spread::default()),
            weights: RewardWeights::PAPER,
            episode_steps: 480,
            hold: 12,
            gamma: 0.998,
            mirrored: true,
        }
    }

    /// Length of a physics and control step, s.
    #[must_use]
    pub fn dt_s(&self) -> f32 {
        self.worlds.first().map_or(1.0 / 240.0, |w| w.dt_s)
    }

    /// The reference at a time on the path.
    #[must_use]
    pub fn reference(&self, time_s: f32) -> Reference {
        match self.path {
            Path::Hover => Reference::hover(self.goal_m),
            Path::FigureEight => {
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

    /// The same, whoever flies.
    pub fn collect_by(
        &self,
        flyer: Flyer<'_>,
        episodes: usize,
        seed: u64,
        threads: usize,
        mut std: impl FnMut(&[f32]) -> Vec<f32>,
    ) -> Collection {
        let (gains, pilot) = match flyer {
            Flyer::Law(gains) => (gains, None),
            // The law goes along for its memory, which is part of the observation.
            Flyer::Pid => (&Gains::nominal(), Some(Pilot::pid())),
        };
        type Flown = (Episode, [f32; 4], Option<(Transition, Jacobian)>);
        let mut flown: Vec<Flown> = (0..episodes as u64)
            .map(|i| {
                (
                    Episode { pilot, ..Episode::new(self, seed, if self.mirrored { i / 2 } else { i }) },
                    [0.0; 4],
                    None,
                )
            })
            .collect();
        let mut collection = Collection::default();
        let mut observations = vec![0.0; episodes * OBSERVATION_LEN];
        for _ in 0..self.episode_steps / self.hold.max(1) {
            for (row, (episode, ..)) in observations.chunks_mut(OBSERVATION_LEN).zip(&flown) {
                row.copy_from_slice(&episode.instant(self).observation);
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
        let from = episode.instant(self);
        let mut first = [0.0; 4];
        let (mut sum, mut discount) = (0.0, 1.0);
        let mut mean: Jacobian = [[0.0; GAIN_COUNT]; 4];
        let mut flown = 0;
        for k in 0..self.hold {
            let seen = *episode.drone.perceived();
            let (_, jacobian) = law::jacobian(
                gains,
                &self.vehicle,
                &seen,
                &episode.reference(self),
                &episode.memory,
                self.dt_s(),
            );
            for (m, j) in mean.iter_mut().flatten().zip(jacobian.iter().flatten()) {
                *m += j;
            }
            flown += 1;
            let r = episode.step(self, gains, offset);
            if k == 0 {
                first = episode.last.into_array();
            }
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
        let transition = Transition {
            from,
            action: first,
            offset: *offset,
            reward: sum,
            to: episode.instant(self),
            discount,
        };
        (transition, mean)
    }

    /// ∂Q/∂a by differences in the simulator itself, the truth that a critic should tell: episodes
    /// are flown without noise, and from every `every`-th transition on once more with each
    /// component of the action moved up and down by `delta` for one transition, for the rest of an
    /// episode's length. Returns states, gradients and mean Jacobians.
    #[must_use]
    pub fn true_action_gradients(
        &self,
        gains: &Gains,
        episodes: usize,
        seed: u64,
        every: usize,
        delta: f32,
        threads: usize,
    ) -> Vec<(Instant, [f32; 4], Jacobian)> {
        let mut flown: Vec<(u64, Vec<_>)> = (0..episodes as u64).map(|i| (i, Vec::new())).collect();
        parallel(threads, &mut flown, |(index, out)| {
            let mut episode = Episode::new(self, seed, *index);
            for k in 0..self.episode_steps / self.hold.max(1) {
                if episode.crashed {
                    break;
                }
                let before = episode.clone();
                let (t, jacobian) = self.transition(&mut episode, gains, &[0.0; 4]);
                if !(k + *index as usize).is_multiple_of(every.max(1)) {
                    continue;
                }
                let value = |i: usize, d: f32| {
                    let mut e = before.clone();
                    let mut offset = [0.0; 4];
                    offset[i] = d;
                    let first = self.transition(&mut e, gains, &offset).0;
                    let (mut sum, mut discount) = (first.reward, first.discount);
                    for _ in 0..self.episode_steps {
                        if discount == 0.0 {
                            break;
                        }
                        let r = e.step(self, gains, &[0.0; 4]);
                        sum += discount * r;
                        discount *= self.gamma;
                    }
                    sum
                };
                let gradient = [0, 1, 2, 3].map(|i| (value(i, delta) - value(i, -delta)) / (2.0 * delta));
                out.push((t.from, gradient, jacobian));
            }
        });
        flown.into_iter().flat_map(|(_, out)| out).collect()
    }

    /// Flies `episodes` without noise.
    #[must_use]
    pub fn evaluate(&self, gains: &Gains, episodes: usize, seed: u64, threads: usize) -> Evaluation {
        let mut flown: Vec<Episode> = Vec::new();
        let mut indices: Vec<(u64, Option<Episode>)> = (0..episodes as u64).map(|i| (i, None)).collect();
        parallel(threads, &mut indices, |(index, out)| {
            let mut episode = Episode::new(self, seed, *index);
            while episode.steps < self.episode_steps && !episode.crashed {
                episode.step(self, gains, &[0.0; 4]);
            }
            *out = Some(episode);
        });
        flown.extend(indices.into_iter().filter_map(|(_, e)| e));
        let n = flown.len().max(1) as f64;
        let mean = flown.iter().map(|e| e.total).sum::<f64>() / n;
        let variance = flown.iter().map(|e| (e.total - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Evaluation {
            mean_return: mean,
            standard_error: (variance / n).sqrt(),
            error_m: flown.iter().map(|e| e.error).sum::<f64>() / (n * self.episode_steps.max(1) as f64),
            crashed: flown.iter().filter(|e| e.crashed).count() as f64 / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_sim::World;

    fn task() -> Task {
        Task::hover(vec![World::named("nominal").unwrap().compile().unwrap()])
    }

    #[test]
    fn the_law_can_be_computed_again_from_an_instant() {
        let task = task();
        let gains = Gains::nominal();
        let collection = task.collect(&gains, 8, 1, 1, |o| vec![0.0; o.len() / OBSERVATION_LEN * 4]);
        assert_eq!(collection.transitions.len(), 8 * 40);
        for t in &collection.transitions {
            // Without noise the action is the law's, bit for bit.
            assert_eq!(t.from.action(&gains, &task.vehicle, task.dt_s()), t.action);
        }
        // s′ of one transition is s of the episode's next one.
        assert_eq!(collection.transitions[3].to, collection.transitions[8 + 3].from);
    }

    #[test]
    fn collections_repeat_and_do_not_depend_on_threads() {
        let task = task();
        let run = |seed, threads| {
            let c = task
                .collect(&Gains::nominal(), 7, seed, threads, |o| vec![0.05; o.len() / OBSERVATION_LEN * 4]);
            (c.mean_return, c.transitions.iter().map(|t| t.reward).sum::<f32>())
        };
        assert_eq!(run(1, 1), run(1, 3));
        assert_ne!(run(1, 1), run(2, 1));
    }

    #[test]
    fn a_crash_is_worth_less_than_flying_on() {
        let task = task();
        let mut bad = Gains::nominal();
        bad.attitude.p.xy = -1.0;
        let (good, bad) = (task.evaluate(&Gains::nominal(), 8, 1, 2), task.evaluate(&bad, 8, 1, 2));
        assert_eq!((good.crashed, bad.crashed), (0.0, 1.0));
        assert!(bad.mean_return < good.mean_return - 100.0, "{good:?} {bad:?}");
    }
}
