//! Which world flew: its parameters from flights, by the errors of open-loop predictions.
//!
//! Gauss–Newton on errors at several horizons, with and without trims, beside a
//! [`Prior`]. Every kind of error at every horizon has its own scale, which is estimated
//! too, so that none has to be weighed against another by hand; outliers count less. Uncertainties come from
//! how much blocks of windows disagree.

mod battery;
mod fit;
mod linear;
pub mod parameters;
mod prior;
mod windows;

use serde::Serialize;
use steady_sim::world::RotorDrag;
use steady_sim::{Rng, World};

use crate::flight::Flight;
use fit::{Fit, Found};
use linear::Matrix;
use parameters::{COUNT, PARAMETERS, Point, Scale, put};
pub use prior::Prior;

/// Flights tell a parameter when they narrow its prior to this part.
const TOLD: f64 = 0.5;
/// Two parameters whose errors are correlated by more than this cannot be told apart.
const APART: f64 = 0.9;

/// A parameter as it was found.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// As in a world's file.
    pub name: &'static str,
    /// The most probable value.
    pub value: f64,
    /// 95 % interval.
    pub low: f64,
    /// 95 % interval.
    pub high: f64,
    /// The flights say it, not the prior.
    pub is_told: bool,
    /// The fit was made without it.
    pub is_left_out: bool,
    /// How far from the prior's mean (a typical Crazyflie's), in its standard deviations.
    pub from_typical: f64,
}

/// The world that flights say.
#[derive(Clone, Debug, Serialize)]
pub struct Identified {
    /// The world.
    #[serde(skip)]
    pub world: World,
    /// Its parameters.
    pub parameters: Vec<Estimate>,
    /// Parameters that the flights cannot tell apart.
    pub confounded: Vec<(&'static str, &'static str)>,
    /// Windows that were predicted.
    pub windows: usize,
    /// Gauss–Newton steps.
    pub iterations: usize,
    #[serde(skip)]
    point: Point,
    /// Of the point.
    #[serde(skip)]
    covariance: Matrix,
}

/// The world that a fit starts from: `base` without what stands for damping in a game's physics engine.
fn start(base: &World, mass_kg: f32) -> World {
    let mut world = base.clone();
    world.body.mass_kg = mass_kg;
    world.physics.linear_damping_per_s = 0.0;
    world.physics.angular_damping_per_s = 0.0;
    world.physics.gravity_m_s2 = crate::flight::GRAVITY_M_S2;
    world.aero.rotor_drag = RotorDrag::Body;
    world
}

/// Fits a world to flights of one drone. What flights cannot tell (sensors, battery, floor) is `base`'s, the mass is
/// as given. `progress` gets the number of the step and of those at most.
pub fn identify(
    base: &World,
    mass_kg: f32,
    flights: &[Flight],
    progress: impl FnMut(usize, usize),
) -> Identified {
    identify_from(&Prior::crazyflie(), base, mass_kg, flights, progress)
}

/// The same with another prior.
pub fn identify_from(
    prior: &Prior,
    base: &World,
    mass_kg: f32,
    flights: &[Flight],
    mut progress: impl FnMut(usize, usize),
) -> Identified {
    let start = start(base, mass_kg);
    let fit = Fit::new(start.clone(), flights, prior);
    let Found { point, mut covariance, iterations } = fit.converge(&prior.mean, &mut progress);
    if flights.iter().any(|flight| !flight.has_battery) {
        // What another voltage would change is as uncertain as the voltage.
        let others: Vec<Flight> = flights.iter().map(Flight::with_other_battery).collect();
        let other = Fit::new(start, &others, prior).converge(&point, |_, _| {}).point;
        covariance.add_square(&std::array::from_fn(|i| other[i] - point[i]), 1.0);
    }
    let mut world = fit.world(&point);
    // Parameters keep to their ranges, so the world is valid and its battery is fitted.
    let _ = battery::fit(&mut world, flights);
    world.base = "nominal".to_owned();
    let parameters = (0..COUNT).map(|i| estimate(i, prior, &world, &covariance)).collect();
    let confounded = confounded(&covariance);
    Identified { parameters, confounded, world, windows: fit.windows(), iterations, point, covariance }
}

impl Identified {
    /// A world that the flights could be of as well.
    #[must_use]
    pub fn sample(&self, rng: &mut Rng) -> World {
        let normal: Point = std::array::from_fn(|_| f64::from(rng.normal()));
        let mut point = self.point;
        if let Some(root) = self.covariance.cholesky() {
            point.iter_mut().zip(root.apply(&normal)).for_each(|(value, offset)| *value += offset);
        }
        let mut world = self.world.clone();
        put(&point, &mut world);
        world
    }
}

fn estimate(i: usize, prior: &Prior, world: &World, covariance: &Matrix) -> Estimate {
    let parameter = &PARAMETERS[i];
    let value = parameter.get(world);
    let half = 1.96 * covariance[(i, i)].max(0.0).sqrt();
    let (low, high) = match parameter.scale {
        Scale::Log => (value * (-half).exp(), value * half.exp()),
        Scale::Linear => (value - half * parameter.spread, value + half * parameter.spread),
    };
    Estimate {
        name: parameter.name,
        value,
        low,
        high,
        is_told: !prior.is_left_out[i] && covariance[(i, i)].sqrt() < TOLD * prior.deviation(i),
        is_left_out: prior.is_left_out[i],
        from_typical: (parameter.coordinate(value) - prior.mean[i]).abs() / prior.deviation(i),
    }
}

fn confounded(covariance: &Matrix) -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for i in 0..COUNT {
        for j in 0..i {
            let scale = (covariance[(i, i)] * covariance[(j, j)]).sqrt();
            if covariance[(i, j)].abs() > APART * scale {
                pairs.push((PARAMETERS[j].name, PARAMETERS[i].name));
            }
        }
    }
    pairs
}

/// A parameter of several drones.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// As in a world's file.
    pub name: &'static str,
    /// Mean; of the logarithms for what is always positive.
    pub mean: f64,
    /// Standard deviation between the drones.
    pub deviation: f64,
}

/// Several drones in one world.
#[derive(Clone, Debug, Serialize)]
pub struct Combined {
    /// The mean of their worlds.
    #[serde(skip)]
    pub world: World,
    /// How they differ.
    pub parameters: Vec<Spread>,
}

/// The world between those of several drones.
pub fn combine(drones: &[&Identified]) -> Combined {
    let mut world = drones.first().map_or_else(World::default, |d| d.world.clone());
    let count = drones.len().max(1) as f64;
    let mut point: Point = [0.0; COUNT];
    let mut parameters = Vec::new();
    for (i, parameter) in PARAMETERS.iter().enumerate() {
        let coordinates: Vec<f64> =
            drones.iter().map(|d| parameter.coordinate(parameter.get(&d.world))).collect();
        let mean = coordinates.iter().sum::<f64>() / count;
        let squares: f64 = coordinates.iter().map(|c| (c - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        point[i] = mean;
        let value = parameter.value(mean);
        let unit = match parameter.scale {
            Scale::Log => value,
            Scale::Linear => parameter.spread,
        };
        parameters.push(Spread { name: parameter.name, mean: value, deviation: deviation * unit });
    }
    put(&point, &mut world);
    world.summary = format!("the mean of {} drones", drones.len());
    Combined { world, parameters }
}
