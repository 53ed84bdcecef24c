//! How fast learning is: transitions per second, and one update against the floor of its matrix products.
//!
//! `cargo run --release -p steady --example bench_train`

use std::time::Instant;

use steady::train::actor::{self, Twins};
use steady::train::config::Config;
use steady::train::env::Jacobian;
use steady::train::trainer::Trainer;
use steady_common::Gains;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Device, Kind, Tensor, no_grad};

/// Rows of a batch, width of hidden layers, and features.
const N: i64 = 256;
/// Observations and actions.
const S: i64 = OBSERVATION_LEN as i64;
const A: i64 = 4;
/// Values of s′ that μ looks at.
const OUTCOME: i64 = 15;
/// Width of the deviation's network.
const STD: i64 = 64;
/// Times everything is measured; the best counts, since other work only adds to it.
const REPEATS: usize = 60;
/// Feature updates for one of critic and actor in the authors' program, and what such a mix takes it.
const AUTHORS_FEATURE_UPDATES: f64 = 4.0;
const AUTHORS_MS: f64 = 56.0;

/// Which gradients of a network are computed.
#[derive(Clone, Copy, PartialEq)]
enum Backward {
    None,
    Weights,
    Inputs,
}

fn main() -> anyhow::Result<()> {
    let mut bench = Bench::new()?;
    println!("BENCH\tcollecting, two threads\t{:.3e}\ttransitions/s\t-\t-\t-", bench.transitions_per_s);
    let one = bench.measure(1);
    println!(
        "BENCH\tone update: features, critic, actor\t{:.2}\tms\tmatrix products alone\t{:.2}\t-",
        one.update(),
        one.floor
    );
    let ratio = one.update() / one.floor;
    println!("BENCH\tone update over its floor\t{ratio:.2}\tx\tmatrix products alone\t1\t<=1.6");
    println!("BENCH\tupdates, batch {N}, {N} features\t{:.0}\tupdates/s\t-\t-\t-", 1e3 / one.update());
    let two = bench.measure(2);
    println!(
        "BENCH\tthe authors' mix of updates\t{:.2}\tms\ttwo threads\t{:.2}\t-",
        one.authors_mix(),
        two.authors_mix()
    );
    println!(
        "BENCH\tthe authors' mix, two threads\t{:.2}\tms\ttheir program\t{AUTHORS_MS}\t<={}",
        two.authors_mix(),
        AUTHORS_MS / 1.6
    );
    Ok(())
}

/// Shortest times on a number of threads, ms.
struct Times {
    features: f64,
    critic: f64,
    actor: f64,
    /// Matrix products alone, of all three.
    floor: f64,
}

impl Times {
    fn update(&self) -> f64 {
        self.features + self.critic + self.actor
    }

    fn authors_mix(&self) -> f64 {
        AUTHORS_FEATURE_UPDATES * self.features + self.critic + self.actor
    }
}

/// A trainer of the paper's sizes with something in its memory.
struct Bench {
    trainer: Trainer,
    jacobians: Vec<Jacobian>,
    rng: Rng,
    transitions_per_s: f64,
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        let config = Config::preset("paper", &[format!("features={N}"), format!("batch={N}")])?;
        let mut trainer = Trainer::new(config, 1, 2)?;
        let start = Instant::now();
        let noise = |o: &[f32]| vec![0.05; o.len() / OBSERVATION_LEN * 4];
        let flown = trainer.task.collect(&Gains::nominal(), 256, 1, 2, noise);
        let transitions_per_s = flown.transitions.len() as f64 / start.elapsed().as_secs_f64();
        for transition in flown.transitions.iter().take(20_000) {
            trainer.replay.push(transition, 0.0);
        }
        let jacobians = flown.jacobians.into_iter().take(N as usize).collect();
        Ok(Self { trainer, jacobians, rng: Rng::new(1, 2), transitions_per_s })
    }

    /// Everything on so many threads, the floor included.
    fn measure(&mut self, threads: usize) -> Times {
        steady::torch::set_threads(threads);
        let mut best = [f64::INFINITY; 6];
        // In turns, so that a busy moment of the machine meets all of them.
        for _ in 0..REPEATS {
            let times = [
                time(|| self.features()),
                time(|| self.critic()),
                time(|| self.actor()),
                time(feature_products),
                time(critic_products),
                time(actor_products),
            ];
            for (best, time) in best.iter_mut().zip(times) {
                *best = best.min(time * 1e3);
            }
        }
        let [features, critic, actor, floors @ ..] = best;
        let names = ["features", "critic", "actor"];
        for ((name, time), floor) in names.iter().zip([features, critic, actor]).zip(floors) {
            println!("{threads} threads: {name:<9} {time:.2} ms, its matrix products alone {floor:.2} ms");
        }
        Times { features, critic, actor, floor: floors.iter().sum() }
    }

    fn features(&mut self) {
        let Trainer { replay, skills, config, .. } = &mut self.trainer;
        let batch = replay.batch(&replay.draw(&mut self.rng, N as usize));
        skills.step(&batch, &mut self.rng, &config.training());
    }

    fn critic(&mut self) {
        let Trainer { replay, skills, critic, .. } = &mut self.trainer;
        let batch = replay.batch(&replay.draw(&mut self.rng, N as usize));
        let (phi, next) = no_grad(|| {
            let next = skills.features(&batch.s2, &batch.a.zeros_like());
            (skills.features(&batch.s, &batch.a), next * &batch.discount)
        });
        critic.gradient_step(&phi, &next, &batch.r, 1e-3, 0.005);
    }

    fn actor(&mut self) {
        let Trainer { replay, skills, critic, actor, .. } = &mut self.trainer;
        let batch = replay.batch(&replay.draw(&mut self.rng, N as usize));
        let none = batch.a.zeros_like();
        let dq = actor::action_gradient(skills, critic, Twins::Min, &batch.s, &none);
        let gradient = actor::gain_gradient(&dq, &self.jacobians, &actor.gains());
        actor.climb(&gradient, 1e-6, 0.8);
        actor.explore(skills, critic, Twins::Min, (&batch.s, &none), &mut self.rng, 1e-4);
    }
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The matrix products of a network.
fn network(layers: [i64; 4], backward: Backward) {
    for (i, pair) in layers.windows(2).enumerate() {
        let (x, w) = (ones(N, pair[0]), ones(pair[0], pair[1]));
        let y = x.matmul(&w);
        if backward == Backward::Weights {
            let _ = x.tr().matmul(&y);
        }
        if backward == Backward::Inputs || (backward == Backward::Weights && i > 0) {
            let _ = y.matmul(&w.tr());
        }
    }
}

const PHI: [i64; 4] = [S + A, N, N, N];
const RHO: [i64; 4] = [S + A, N / 2, N / 2, 1];

/// Of φ, μ, the reward's model, and L_feat.
fn feature_products() {
    no_grad(|| {
        network(PHI, Backward::Weights);
        network([OUTCOME, N, N, N], Backward::Weights);
        network(RHO, Backward::Weights);
        let (phi, mu) = (ones(N, N), ones(N, N));
        let pairs = phi.matmul(&mu.tr());
        let _ = (pairs.matmul(&mu), pairs.tr().matmul(&phi));
    });
}

/// Of Q here, Q there, and the weights' gradient.
fn critic_products() {
    no_grad(|| {
        for _ in 0..2 {
            network(PHI, Backward::None);
            network(RHO, Backward::None);
        }
        let (phi, w) = (ones(N, N + 2), ones(N + 2, 2));
        let q = phi.matmul(&w);
        let _ = (phi.matmul(&w), phi.tr().matmul(&q));
    });
}

/// Of ∂Q/∂a for the gains, and of the deviation's network with ∂Q/∂a again.
fn actor_products() {
    no_grad(|| {
        for _ in 0..2 {
            network(PHI, Backward::Inputs);
            network(RHO, Backward::Inputs);
        }
        network([S, STD, STD, A], Backward::Weights);
    });
}

fn ones(rows: i64, columns: i64) -> Tensor {
    Tensor::ones([rows, columns], (Kind::Float, Device::Cpu))
}
