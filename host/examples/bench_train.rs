//! How fast learning is: transitions per second, and one update against the floor of its matrix products.
//!
//! `cargo run --release -p steady --example bench_train`

use std::time::Instant;

use steady::train::config::Config;
use steady::train::trainer::Trainer;
use steady_common::Gains;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Device, Kind, Tensor, no_grad};

/// Rows of a batch, and width of hidden layers and features.
const N: i64 = 256;

fn main() -> anyhow::Result<()> {
    let config = Config::preset("quick", &[format!("features={N}"), format!("batch={N}")])?;
    let mut trainer = Trainer::new(config, 1, 2)?;
    let start = Instant::now();
    let episodes = 512;
    let noise = |o: &[f32]| vec![0.05; o.len() / OBSERVATION_LEN * 4];
    let collected = trainer.task.collect(&Gains::nominal(), episodes, 1, 2, noise);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "collect  {:.0} transitions/s ({:.0} physics and control steps/s, with Jacobians, 2 threads)",
        collected.transitions.len() as f64 / seconds,
        (episodes * trainer.task.episode_steps) as f64 / seconds
    );
    for transition in &collected.transitions {
        trainer.replay.push(transition);
    }
    let mut rng = Rng::new(1, 2);
    let update = time(|| {
        let batch = trainer.replay.batch(&trainer.replay.draw(&mut rng, N as usize));
        trainer.skills.step(&batch, &mut rng, 0.5, 1e-3, false);
    });
    let floor = time(products);
    println!(
        "update   {:.2} ms: φ, μ and the reward's model, batch {N}, {N} features, 1 thread",
        update * 1e3
    );
    println!(
        "floor    {:.2} ms: its matrix products alone; the update takes {:.2}×",
        floor * 1e3,
        update / floor
    );
    Ok(())
}

/// Median time of a call, s.
fn time(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..120)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The matrix products of one update: forward, and backward for weights and (beyond the first layer)
/// inputs, of φ, μ and the reward's model, and those of L_feat.
fn products() {
    no_grad(|| {
        let (s, half) = (OBSERVATION_LEN as i64, N / 2);
        for layers in [[s + 4, N, N, N], [s, N, N, N], [s + 4, half, half, 1]] {
            for (i, pair) in layers.windows(2).enumerate() {
                let (x, w) = (ones(N, pair[0]), ones(pair[0], pair[1]));
                let y = x.matmul(&w);
                let _ = x.tr().matmul(&y);
                if i > 0 {
                    let _ = y.matmul(&w.tr());
                }
            }
        }
        let (phi, mu) = (ones(N, N), ones(N, N));
        let pairs = phi.matmul(&mu.tr());
        let _ = (pairs.matmul(&mu), pairs.tr().matmul(&phi));
    });
}

fn ones(rows: i64, columns: i64) -> Tensor {
    Tensor::ones([rows, columns], (Kind::Float, Device::Cpu))
}
