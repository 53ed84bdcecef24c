//! A summary of the skills: their spectrum, and how well they represent the returns of policies
//! they were not trained on (the paper's claim that skills transfer between tasks).

use std::path::Path;

use serde::Serialize;
use steady_common::Gains;
use steady_common::gains::GAIN_COUNT;
use steady_common::observation::OBSERVATION_LEN;
use steady_sim::params::CONTROL_HZ;
use steady_sim::{Rng, World};
use tch::{Kind, no_grad};

use crate::plot::{Chart, Series};

use super::critic;
use super::env::{Collection, Flyer, GoalPath, TrainingTask};
use super::oracle::gains_of;
use super::replay::Replay;
use super::returns::{Features, Rows, r_squared};
use super::trainer::Trainer;

/// Episodes per policy, and the transitions they may have in all; the weights are fitted to every other
/// pair of episodes.
const EPISODES: usize = 512;
const TRANSITIONS: usize = 62_000;
/// Episodes are this many times longer than in training, and only the first third of each is used, so
/// that returns are nearly complete.
const LONGER: usize = 3;
/// Seed of these flights, apart from every training seed.
const SEED: u64 = 0x5ca1_ab1e;
/// Largest change of a random policy's gains, as a logarithm.
const RANDOM_GAINS: f32 = 0.5;

/// The skills of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) features: i64,
    /// exp of the entropy of the normalised spectrum of E φφᵀ.
    pub(crate) effective_rank: f64,
    /// L_feat on transitions that were not trained on.
    pub(crate) held_out_loss: f64,
    /// How well wᵀφ represents the returns of policies.
    pub(crate) fits: Vec<Fit>,
    /// Eigenvalues of E φφᵀ, largest first, as parts of their sum.
    pub(crate) spectrum: Vec<f64>,
}

/// How well the skills represent the returns of one policy in one task.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fit {
    pub(crate) policy: &'static str,
    pub(crate) task: &'static str,
    /// R² of wᵀφ on Monte-Carlo returns of episodes w was not fitted to.
    pub(crate) r2: f64,
    /// Fraction of the episodes that crashed.
    pub(crate) crashed: f64,
}

/// Flies other policies with noise and fits their returns with the run's skills, which stay as they are.
pub(crate) fn summarise(trainer: &Trainer) -> anyhow::Result<Summary> {
    let mut rng = Rng::new(SEED, 0);
    let random =
        gains_of(&std::array::from_fn::<f32, GAIN_COUNT, _>(|_| rng.between(-RANDOM_GAINS, RANDOM_GAINS)));
    let (learned, nominal) = (trainer.best_gains(), Gains::nominal());
    let hover = TrainingTask {
        episode_steps: trainer.task.episode_steps * LONGER,
        mirrored: false,
        ..trainer.task.clone()
    };
    let eight = TrainingTask { path: GoalPath::FigureEight, ..hover.clone() };
    let pid = at_control_rate(trainer, &hover)?;
    let flights: [(&str, &str, &TrainingTask, Flyer<'_>); 7] = [
        ("learned gains", "hover", &hover, Flyer::Law(&learned)),
        ("nominal gains", "hover", &hover, Flyer::Law(&nominal)),
        ("random gains", "hover", &hover, Flyer::Law(&random)),
        ("built-in PID", "hover", &pid, Flyer::Pid),
        ("learned gains", "figure eight", &eight, Flyer::Law(&learned)),
        ("nominal gains", "figure eight", &eight, Flyer::Law(&nominal)),
        ("random gains", "figure eight", &eight, Flyer::Law(&random)),
    ];
    let std = trainer.config.std;
    let mut fits = Vec::new();
    let mut spectrum = Vec::new();
    let mut held_out_loss = f64::NAN;
    for (policy, task_name, task, flyer) in flights {
        let episodes = (TRANSITIONS * task.hold / task.episode_steps.max(1)).clamp(8, EPISODES);
        let flown = task.collect_by(flyer, episodes, SEED, trainer.threads, |observations| {
            (0..observations.len() / OBSERVATION_LEN).flat_map(|_| std).collect()
        });
        if fits.is_empty() {
            held_out_loss = loss(trainer, &flown, &mut rng);
        }
        let rows = Rows::new(&Features::new(&trainer.skills, &flown), &flown, 1.0);
        if spectrum.is_empty() {
            spectrum = eigenvalues(&rows, trainer.skills.width() - 2);
        }
        let lookahead = task.episode_steps / task.hold.max(1) * (LONGER - 1) / LONGER;
        let (known, new) = (rows.of(&flown, 0, lookahead), rows.of(&flown, 1, lookahead));
        let w = critic::lstd(&known.phi, &known.ends, &known.r, trainer.config.ridge);
        let r2 = no_grad(|| r_squared(&(&new.r + new.ends.matmul(&w)), &new.phi.matmul(&w)));
        fits.push(Fit { policy, task: task_name, r2, crashed: flown.crashed });
    }
    let effective_rank = (-spectrum.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()).exp();
    Ok(Summary { features: trainer.skills.width() - 2, effective_rank, held_out_loss, fits, spectrum })
}

/// The task with physics at the PID's control rate, and transitions of the same length.
fn at_control_rate(trainer: &Trainer, task: &TrainingTask) -> anyhow::Result<TrainingTask> {
    let mut world = World::load(&trainer.config.world)?;
    let faster = CONTROL_HZ / world.physics.rate_hz;
    world.physics.rate_hz = CONTROL_HZ;
    let scaled = |steps: usize| ((steps as f32 * faster).round() as usize).max(1);
    let hold = scaled(task.hold);
    Ok(TrainingTask {
        worlds: vec![world.compile()?],
        hold,
        episode_steps: scaled(task.episode_steps) / hold * hold,
        gamma: task.gamma.powf(1.0 / faster),
        ..task.clone()
    })
}

/// L_feat of transitions that were not trained on, in batches of the run's size.
fn loss(trainer: &Trainer, flown: &Collection, rng: &mut Rng) -> f64 {
    let mut memory = Replay::new(flown.transitions.len());
    for transition in &flown.transitions {
        memory.push(transition, 0.0);
    }
    let batches = 20;
    let total: f64 = (0..batches)
        .map(|_| {
            let batch = memory.batch(&memory.draw(rng, trainer.config.batch));
            no_grad(|| trainer.skills.loss(&batch, rng, trainer.config.smoothing)).double_value(&[])
        })
        .sum();
    total / f64::from(batches)
}

fn eigenvalues(rows: &Rows, features: i64) -> Vec<f64> {
    no_grad(|| {
        let phi = rows.phi.narrow(1, 0, features).to_kind(Kind::Double);
        let square = phi.tr().matmul(&phi);
        let values = square.linalg_eigvalsh("L").flip([0]).clamp_min(0.0);
        let values = &values / values.sum(Kind::Double);
        Vec::<f64>::try_from(values).unwrap_or_default()
    })
}

impl Summary {
    /// Writes `skills.json` and a picture of the spectrum.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        crate::files::write_json(&folder.join("skills.json"), self)?;
        let points = (1..).zip(&self.spectrum).map(|(i, p)| (f64::from(i), p.max(1e-12).log10())).collect();
        let chart = Chart {
            title: format!(
                "Spectrum of the skills, effective rank {:.0} of {}",
                self.effective_rank, self.features
            ),
            x_label: "feature".to_owned(),
            y_label: "log10 of its part of E[φφᵀ]".to_owned(),
            series: vec![Series { name: "eigenvalues".to_owned(), points, ..Series::default() }],
            ..Chart::default()
        };
        chart.save(&folder.join("skills"))?;
        Ok(())
    }
}
