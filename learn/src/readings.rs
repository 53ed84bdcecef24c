//! Discovered skills in words: their constant parts, and how they go with velocity, place, time, rates and thrust.
//!
//! A plane is fitted to what the skills say at the flown states. Forces go with the velocity in the world frame, torques
//! with that in the body frame. Velocity and rates are counted from rest, all else from its mean, so that the constant
//! part is what a drone at rest in the middle of its flights feels.

use serde::{Serialize, Serializer};
use steady_sim::residual::{OUTPUTS, Residual};

use crate::discovery::{Discovered, Transition};
use crate::ridge::Gram;

/// What is accelerated: along the world's axes, about the body's.
pub const ACCELERATIONS: [&str; OUTPUTS] = ["along x", "along y", "along z", "about x", "about y", "about z"];
/// What the skills' accelerations are read against.
pub const COUNT: usize = 17;
const ALONG: [Along; COUNT] = [
    Along::Constant,
    Along::VelocityX,
    Along::VelocityY,
    Along::VelocityZ,
    Along::PositionX,
    Along::PositionY,
    Along::PositionZ,
    Along::Time,
    Along::TiltX,
    Along::TiltY,
    Along::RateX,
    Along::RateY,
    Along::RateZ,
    Along::Thrust,
    Along::ThrustAboutX,
    Along::ThrustAboutY,
    Along::ThrustAboutZ,
];
/// Parts of a range in which means are taken, and the fewest transitions of a part.
const PARTS: usize = 24;
const FEWEST: usize = 20;
/// Outputs that are forces.
const FORCES: usize = 3;
/// 97.5 % quantile of Student's t with three degrees of freedom: one for each member but one.
const STUDENT_T: f64 = 3.182;

/// What a reading goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Along {
    /// Nothing.
    Constant,
    /// Velocity, m/s.
    VelocityX,
    /// Velocity, m/s.
    VelocityY,
    /// Velocity, m/s.
    VelocityZ,
    /// Position, m.
    PositionX,
    /// Position, m.
    PositionY,
    /// Position, m.
    PositionZ,
    /// Time since the motors began to turn, s.
    Time,
    /// Body z in the world's x.
    TiltX,
    /// Body z in the world's y.
    TiltY,
    /// Angular velocity, rad/s.
    RateX,
    /// Angular velocity, rad/s.
    RateY,
    /// Angular velocity, rad/s.
    RateZ,
    /// Mean thrust of the motors, as a part of the full one.
    Thrust,
    /// What of it turns the drone about x.
    ThrustAboutX,
    /// What of it turns the drone about y.
    ThrustAboutY,
    /// What of it turns the drone about z.
    ThrustAboutZ,
}

impl Along {
    /// Its name, and the unit in which it is counted.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Constant => ("always", ""),
            Self::VelocityX => ("velocity x", "m/s"),
            Self::VelocityY => ("velocity y", "m/s"),
            Self::VelocityZ => ("velocity z", "m/s"),
            Self::PositionX => ("position x", "m"),
            Self::PositionY => ("position y", "m"),
            Self::PositionZ => ("position z", "m"),
            Self::Time => ("time", "s"),
            Self::TiltX => ("tilt to x", "rad"),
            Self::TiltY => ("tilt to y", "rad"),
            Self::RateX => ("rate about x", "rad/s"),
            Self::RateY => ("rate about y", "rad/s"),
            Self::RateZ => ("rate about z", "rad/s"),
            Self::Thrust => ("thrust", "of full"),
            Self::ThrustAboutX => ("thrust about x", "of full"),
            Self::ThrustAboutY => ("thrust about y", "of full"),
            Self::ThrustAboutZ => ("thrust about z", "of full"),
        }
    }
}

/// One simple thing that skills say.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reading {
    /// Which of [`ACCELERATIONS`].
    #[serde(serialize_with = "named")]
    pub output: usize,
    /// What it goes with.
    pub along: Along,
    /// m/s² or rad/s², per unit of what it goes with.
    pub slope: f64,
    /// 95 % interval, by how much skills from parts of the flights differ.
    pub low: f64,
    /// 95 % interval.
    pub high: f64,
    /// Its size in the flights, m/s² or rad/s²: the constant itself, or the slope times the spread of what it goes with.
    pub size: f64,
    /// The size over the root mean square of what the simulator leaves.
    pub part: f64,
    /// The part of the square of what the simulator leaves that goes with this alone, whatever else goes with it: by means
    /// in parts of the range.
    pub alone: f64,
}

impl Reading {
    /// Whether it is surely there.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

fn named<S: Serializer>(output: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ACCELERATIONS.get(*output).copied().unwrap_or_default())
}

/// What a transition has for an output to go with.
#[must_use]
pub fn value(transition: &Transition, output: usize, along: Along) -> f64 {
    let [px, py, pz, vx, vy, vz, tilt_x, tilt_y, wx, wy, wz, m1, m2, m3, m4, time_s] = transition.input;
    let [vx, vy, vz] = if output < FORCES { [vx, vy, vz] } else { transition.body_velocity.to_array() };
    f64::from(match along {
        Along::Constant => 1.0,
        Along::VelocityX => vx,
        Along::VelocityY => vy,
        Along::VelocityZ => vz,
        Along::PositionX => px,
        Along::PositionY => py,
        Along::PositionZ => pz,
        Along::Time => time_s,
        Along::TiltX => tilt_x,
        Along::TiltY => tilt_y,
        Along::RateX => wx,
        Along::RateY => wy,
        Along::RateZ => wz,
        Along::Thrust => 0.25 * ((m1 + m2) + (m3 + m4)),
        Along::ThrustAboutX => 0.25 * ((m3 + m4) - (m1 + m2)),
        Along::ThrustAboutY => 0.25 * ((m2 + m3) - (m1 + m4)),
        Along::ThrustAboutZ => 0.25 * ((m2 + m4) - (m1 + m3)),
    })
}

/// All readings of what was discovered in transitions, those that say most of what the simulator leaves first.
#[must_use]
pub fn readings(found: &Discovered, transitions: &[Transition]) -> Vec<Reading> {
    let mut all = Vec::new();
    let slopes = planes(&found.residual, transitions);
    let of_members: Vec<_> = found.members.iter().map(|member| planes(member, transitions)).collect();
    for output in 0..OUTPUTS {
        for (i, along) in ALONG.into_iter().enumerate() {
            let slope = slopes[output][i];
            // Each member lacks one part of the flights: a jackknife.
            let count = of_members.len().max(1) as f64;
            let mean = of_members.iter().map(|m| m[output][i]).sum::<f64>() / count;
            let squares: f64 = of_members.iter().map(|m| (m[output][i] - mean).powi(2)).sum();
            let half = STUDENT_T * ((count - 1.0) / count * squares).sqrt();
            let size =
                slope.abs() * if along == Along::Constant { 1.0 } else { spread(transitions, output, along) };
            let part = size / found.unexplained[output].max(1e-12);
            let alone = alone(transitions, output, along);
            all.push(Reading {
                output,
                along,
                slope,
                low: slope - half,
                high: slope + half,
                size,
                part,
                alone,
            });
        }
    }
    all.sort_by(|a, b| b.part.total_cmp(&a.part));
    all
}

/// Transitions by what an output could go with, in parts of equal width; those with few are left out.
#[must_use]
pub fn parts(transitions: &[Transition], output: usize, along: Along) -> Vec<Vec<Transition>> {
    let values = || transitions.iter().map(|t| value(t, output, along));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let per_part = (high - low).max(1e-9) / PARTS as f64;
    let mut parts = vec![Vec::new(); PARTS];
    for transition in transitions {
        let part = ((value(transition, output, along) - low) / per_part) as usize;
        parts[part.min(PARTS - 1)].push(*transition);
    }
    parts.retain(|part| part.len() >= FEWEST);
    parts
}

fn alone(transitions: &[Transition], output: usize, along: Along) -> f64 {
    let square = |t: &Transition| t.beyond[output].powi(2);
    let said: f64 = parts(transitions, output, along)
        .iter()
        .map(|part| part.iter().map(|t| t.beyond[output]).sum::<f64>().powi(2) / part.len() as f64)
        .sum();
    said / transitions.iter().map(square).sum::<f64>().max(1e-12)
}

fn mean(transitions: &[Transition], output: usize, along: Along) -> f64 {
    let sum: f64 = transitions.iter().map(|t| value(t, output, along)).sum();
    sum / transitions.len().max(1) as f64
}

/// Standard deviation.
fn spread(transitions: &[Transition], output: usize, along: Along) -> f64 {
    let mean = mean(transitions, output, along);
    let squares: f64 = transitions.iter().map(|t| (value(t, output, along) - mean).powi(2)).sum();
    (squares / transitions.len().max(1) as f64).sqrt()
}

/// Slopes of every output.
fn planes(residual: &Residual, transitions: &[Transition]) -> [Vec<f64>; OUTPUTS] {
    // Velocities of forces and of torques are in different frames.
    let [forces, torques] = [0, FORCES].map(|output| {
        let offsets = ALONG.map(|along| match along {
            Along::Constant
            | Along::VelocityX
            | Along::VelocityY
            | Along::VelocityZ
            | Along::RateX
            | Along::RateY
            | Along::RateZ => 0.0,
            _ => mean(transitions, output, along),
        });
        let mut gram = Gram::new(COUNT);
        for transition in transitions {
            let x: [f64; COUNT] = std::array::from_fn(|i| value(transition, output, ALONG[i]) - offsets[i]);
            gram.add(&x, &residual.at(&transition.input).to_array().map(f64::from));
        }
        gram
    });
    std::array::from_fn(|output| if output < FORCES { &forces } else { &torques }.solve(output, 0.0))
}
