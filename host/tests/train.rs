//! What training must do: everything trainable moves, nothing else does, and the same seed gives the
//! same run, interrupted or not.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use steady::train::actor::{self, Twins};
use steady::train::config::Config;
use steady::train::nets::normal;
use steady::train::oracle::gains_of;
use steady::train::spectral::{Batch, Training};
use steady::train::trainer::Trainer;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::Rng;
use tch::{Kind, Tensor, no_grad};

fn trainer(changes: &[&str], seed: u64) -> Trainer {
    let changes: Vec<String> = changes.iter().map(|c| (*c).to_owned()).collect();
    Trainer::new(Config::preset("smoke", &changes).unwrap(), seed, 2).unwrap()
}

fn distance(a: &Tensor, b: &Tensor) -> f64 {
    no_grad(|| (a - b).abs().max().double_value(&[]))
}

#[test]
fn every_trainable_thing_moves() {
    let mut t = trainer(&[], 1);
    let (phi, mu, rho, std) = (
        t.skills.phi.trainable.flat().copy(),
        t.skills.mu.trainable.flat().copy(),
        t.skills.rho.trainable.flat().copy(),
        t.actor.std.trainable.flat().copy(),
    );
    let head = t.skills.head.flat().copy();
    let (w, alpha, theta) = (t.critic.w().detach().copy(), t.actor.log_alpha, t.actor.theta);
    t.round();
    assert!(distance(&phi, t.skills.phi.trainable.flat()) > 1e-4);
    assert!(distance(&mu, t.skills.mu.trainable.flat()) > 1e-4);
    assert!(distance(&head, t.skills.head.flat()) > 1e-4);
    assert!(distance(&rho, t.skills.rho.trainable.flat()) > 1e-4);
    assert!(distance(&std, t.actor.std.trainable.flat()) > 1e-5);
    assert!(distance(&w, &t.critic.w().detach()) > 1e-2);
    assert_ne!(alpha, t.actor.log_alpha);
    for (i, (before, after)) in theta.iter().zip(t.actor.theta).enumerate() {
        assert!((before - after).abs() > 1e-6, "gain {i} stands still");
    }
    assert!(t.actor.gains().check().is_ok());
}

#[test]
fn what_is_frozen_stays() {
    // Without the returns' part in its loss, φ stands still where L_feat trains μ only.
    let mut t = trainer(&["only_mu=true", "shaping=0"], 1);
    let (phi, mu) = (t.skills.phi.trainable.flat().copy(), t.skills.mu.trainable.flat().copy());
    t.round();
    assert_eq!(distance(&phi, t.skills.phi.trainable.flat()), 0.0);
    assert!(distance(&mu, t.skills.mu.trainable.flat()) > 1e-4);
    // As the authors' program: φ learns from the critic's error alone.
    let mut t = trainer(&["only_mu=true", "shaping=1"], 1);
    let (phi, mu) = (t.skills.phi.trainable.flat().copy(), t.skills.mu.trainable.flat().copy());
    t.round();
    assert!(distance(&phi, t.skills.phi.trainable.flat()) > 1e-4);
    assert!(distance(&mu, t.skills.mu.trainable.flat()) > 1e-4);
    // Improving the policy does not touch the skills, and evaluating gains touches nothing.
    let mut t = trainer(&["updates=0", "first_updates=0"], 1);
    let phi = t.skills.phi.trainable.flat().copy();
    t.round();
    assert_eq!(distance(&phi, t.skills.phi.trainable.flat()), 0.0);
    let theta = t.actor.theta;
    let _ = t.judge(&t.actor.gains());
    assert_eq!(theta, t.actor.theta);
}

#[test]
fn every_way_of_evaluating_and_improving_runs() {
    for evaluator in ["returns", "lstd", "gradient"] {
        for form in ["affine", "joint"] {
            let changes = [format!("evaluator={evaluator}"), format!("form={form}")];
            let mut t = trainer(&[&changes[0], &changes[1]], 1);
            let m = t.round();
            assert!(m.loss_feature.is_finite() && m.return_noisy.is_finite(), "{changes:?}: {m:?}");
            assert!(t.actor.theta.iter().all(|x| x.is_finite()), "{changes:?}");
        }
    }
}

#[test]
fn the_feature_loss_falls() {
    let mut t = trainer(&[], 2);
    t.round();
    let held_out = t.replay.batch(&t.replay.newest(300));
    let loss = |t: &Trainer, b: &Batch| {
        no_grad(|| t.skills.loss(b, &mut steady_sim::Rng::new(7, 7), 0.0).double_value(&[]))
    };
    let before = loss(&t, &held_out);
    let mut rng = steady_sim::Rng::new(1, 1);
    let how = Training { rate: 1e-3, smoothing: 0.0, shaping: 0.0, only_mu: false };
    for _ in 0..100 {
        let batch = t.replay.batch(&t.replay.draw(&mut rng, 128));
        t.skills.step(&batch, &mut rng, &how);
    }
    let after = loss(&t, &held_out);
    assert!(after < before - 0.5, "{before} {after}");
}

#[test]
fn the_same_seed_gives_the_same_run_also_when_interrupted() {
    let finish = |mut t: Trainer| {
        let mut last = Default::default();
        while !t.is_done() {
            last = t.round();
        }
        (last, t.actor.theta, t.critic.w().detach().copy())
    };
    let (metrics, theta, w) = finish(trainer(&[], 5));
    let mut interrupted = trainer(&[], 5);
    interrupted.round();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    interrupted.save(&path).unwrap();
    drop(interrupted);
    let mut resumed = trainer(&[], 5);
    resumed.load(&path).unwrap();
    let (metrics2, theta2, w2) = finish(resumed);
    assert_eq!(theta, theta2);
    assert_eq!(metrics, metrics2);
    assert_eq!(distance(&w, &w2), 0.0);
    assert_ne!(theta, finish(trainer(&[], 6)).1);
    // Not into another seed or another size.
    assert!(trainer(&[], 6).load(&path).is_err());
    assert!(format!("{:#}", trainer(&["features=8"], 5).load(&path).unwrap_err()).contains("shape"));
}

/// ∂Q/∂θ by the chain rule is the slope of Q(s, J Δk), with the law's Jacobian J and gains k = k₀ exp θ.
#[test]
fn the_actors_gradient_agrees_with_differences() {
    let mut t = trainer(&[], 3);
    t.round();
    let gains = t.actor.gains();
    let flown = t.task.collect(&gains, 16, 1, 1, |o| vec![0.0; o.len() / OBSERVATION_LEN * 4]);
    let n = flown.transitions.len() as i64;
    let s: Vec<f32> = flown.transitions.iter().flat_map(|t| t.from).collect();
    let s = Tensor::from_slice(&s).view([n, OBSERVATION_LEN as i64]);
    let none = Tensor::zeros([n, 4], (Kind::Float, tch::Device::Cpu));
    let dq = actor::action_gradient(&t.skills, &t.critic, Twins::Mean, &s, &none);
    let gradient = actor::gain_gradient(&dq, &flown.jacobians, &gains);
    let value = |theta: &[f32; GAIN_COUNT]| {
        let (new, old) = (gains_of(theta).to_array(), gains.to_array());
        let product =
            |row: &[f32; GAIN_COUNT]| -> f32 { (0..GAIN_COUNT).map(|k| row[k] * (new[k] - old[k])).sum() };
        let offsets: Vec<f32> = flown.jacobians.iter().flat_map(|j| j.each_ref().map(product)).collect();
        let offsets = Tensor::from_slice(&offsets).view([n, 4]);
        no_grad(|| {
            actor::q(&t.skills, &t.critic, Twins::Mean, &s, &offsets).to_kind(Kind::Double).mean(Kind::Double)
        })
        .double_value(&[])
    };
    let largest = gradient.iter().fold(0.0_f32, |m, g| m.max(g.abs()));
    for i in 0..GAIN_COUNT {
        let at = |h: f32| {
            let mut theta = t.actor.theta;
            theta[i] += h;
            value(&theta)
        };
        let slope = (at(0.02) - at(-0.02)) / 0.04;
        let error = (slope - f64::from(gradient[i])).abs();
        assert!(error < 0.03 * f64::from(largest) + 1e-3, "gain {i}: {slope} {} of {largest}", gradient[i]);
    }
}

#[test]
fn what_a_wrong_value_gets_wrong_the_returns_put_right() {
    let mut rng = Rng::new(7, 7);
    let std = Tensor::from_slice(&[0.1_f32, 0.2, 0.1, 0.05]);
    let a = normal(&mut rng, &[20_000, 4]) * &std;
    let truth = Tensor::from_slice(&[3.0_f32, -1.0, 2.0, 5.0]);
    let returns = (&a * &truth).sum_dim_intlist(1, true, Kind::Float) + normal(&mut rng, &[20_000, 1]) * 0.1;
    for wrong in [[0.0_f32; 4], [-3.0, 1.0, 0.0, 9.0]] {
        let slope = Tensor::from_slice(&wrong);
        let q = (&a * &slope).sum_dim_intlist(1, true, Kind::Float);
        let found = slope + actor::score_gradient(&(&returns - q), &a, &std).mean_dim(0, false, Kind::Float);
        assert!(distance(&found, &truth) < 0.5, "{found}");
    }
}
