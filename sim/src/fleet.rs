//! Many independent drones, stepped without allocation, on any number of threads.
//!
//! A drone's bits depend on the world, the seed and its index; not on the other drones, the number
//! of threads or the order of stepping.

use std::sync::Mutex;

use steady_common::Vec3;

use crate::drone::Drone;
use crate::initial::InitialDistribution;
use crate::params::Params;
use crate::world::{World, WorldError};

/// Drones that a thread steps together: few enough for its first-level cache, enough that one
/// drone's arithmetic can overlap with the next one's.
const TILE: usize = 32;

/// Pieces of work for each thread.
const CHUNKS_PER_THREAD: usize = 8;

/// Many independent drones in the same world.
#[derive(Clone, Debug)]
pub struct Fleet {
    params: Params,
    drones: Vec<Drone>,
}

impl Fleet {
    /// `count` drones on the floor.
    ///
    /// # Errors
    /// If a value of the world is out of its range.
    pub fn new(world: &World, count: usize, seed: u64) -> Result<Self, WorldError> {
        let params = world.compile()?;
        let drones = (0..count as u64).map(|index| Drone::new(&params, seed, index)).collect();
        Ok(Self { params, drones })
    }

    /// The constants of the world.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The drones.
    #[must_use]
    pub fn drones(&self) -> &[Drone] {
        &self.drones
    }

    /// The drones and the constants to reset or step them with.
    pub fn drones_mut(&mut self) -> (&Params, &mut [Drone]) {
        (&self.params, &mut self.drones)
    }

    /// Begins a new episode for every drone, each from its own random numbers.
    pub fn reset(&mut self, distribution: &InitialDistribution, goal_m: Vec3) {
        for drone in &mut self.drones {
            let initial = distribution.sample(&self.params, goal_m, drone.rng());
            drone.reset(&self.params, &initial);
        }
    }

    /// One physics step of every drone on this thread; commands as in [`Drone::step`]. Drones
    /// without a command get none (0).
    pub fn step(&mut self, thrust_fractions: &[[f32; 4]]) {
        let driven = thrust_fractions.len().min(self.drones.len());
        let (driven, idle) = self.drones.split_at_mut(driven);
        for (drone, &command) in driven.iter_mut().zip(thrust_fractions) {
            drone.step(&self.params, command);
        }
        for drone in idle {
            drone.step(&self.params, [0.0; 4]);
        }
    }

    /// Steps every drone `steps` times on `threads` threads; `command(drone, step)` gives the
    /// motors' commands as in [`Drone::step`].
    pub fn run<F>(&mut self, threads: usize, steps: usize, command: F)
    where
        F: Fn(&Drone, usize) -> [f32; 4] + Sync,
    {
        // A vector of nothings takes no memory.
        let mut nothing = vec![(); self.drones.len()];
        self.run_with(threads, steps, &mut nothing, |(), drone, step| command(drone, step));
    }

    /// Like [`Self::run`], with something of the caller's beside every drone: a controller's
    /// memory, a place for transitions. Drones beyond the end of `beside` are not stepped.
    pub fn run_with<T, F>(&mut self, threads: usize, steps: usize, beside: &mut [T], command: F)
    where
        T: Send,
        F: Fn(&mut T, &Drone, usize) -> [f32; 4] + Sync,
    {
        let (params, command) = (&self.params, &command);
        let count = self.drones.len().min(beside.len());
        let drones = &mut self.drones[..count];
        let beside = &mut beside[..count];
        if threads <= 1 {
            return run_chunk(params, drones, beside, steps, command);
        }
        // Threads take the next chunk when they are done with one, so that a thread that the
        // system holds up does not hold up the others. Who takes which makes no difference.
        let chunk = count.div_ceil(threads * CHUNKS_PER_THREAD).max(1);
        let work = Mutex::new(drones.chunks_mut(chunk).zip(beside.chunks_mut(chunk)));
        let next = || work.lock().map_or(None, |mut work| work.next());
        let labour = || {
            while let Some((drones, beside)) = next() {
                run_chunk(params, drones, beside, steps, command);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(labour);
            }
            labour();
        });
    }
}

fn run_chunk<T>(
    params: &Params,
    drones: &mut [Drone],
    beside: &mut [T],
    steps: usize,
    command: &impl Fn(&mut T, &Drone, usize) -> [f32; 4],
) {
    for (drones, beside) in drones.chunks_mut(TILE).zip(beside.chunks_mut(TILE)) {
        for step in 0..steps {
            for (drone, beside) in drones.iter_mut().zip(beside.iter_mut()) {
                let thrust_fraction = command(beside, drone, step);
                drone.step(params, thrust_fraction);
            }
        }
    }
}
