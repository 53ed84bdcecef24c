//! Which world flew: its parameters from flights, by the errors of open-loop predictions.
//!
//! Gauss–Newton on errors at several horizons, with and without trims, beside a
//! [`Prior`]. Every kind of error at every horizon has its own scale, which is estimated
//! too, so that none has to be weighed against another by hand; outliers count less. Uncertainties come from
//! how much blocks of windows disagree.

mod linear;
pub mod parameters;
mod prior;
mod windows;

use rayon::prelude::*;
use serde::Serialize;
use steady_sim::world::RotorDrag;
use steady_sim::{Rng, World};

use crate::flight::Flight;
use linear::Matrix;
use parameters::{COUNT, PARAMETERS, Point, Scale, put};
pub use prior::Prior;
use windows::{Errors, GROUPS, Windows, errors_of_window, group};

/// What all errors of a window weigh together, in independent errors. Windows overlap and share disturbances
/// that last for seconds, so it is less than one.
const WINDOW_WEIGHT: f64 = 0.65;
/// Errors beyond this many scales count less.
const OUTLIER: f64 = 3.0;
/// Part of the squared errors that a scale is computed from, the largest left out.
const INLIERS: f64 = 0.98;
/// Windows in a row that are one observation for the uncertainty: two seconds.
const BLOCK: usize = 10;
/// No world predicts a change better than to this part of it: without such a floor, flights of a simulator would
/// make every detail of how they are sampled a certainty.
const MODEL_ERROR: f64 = 0.02;
/// Difference for slopes, in coordinates.
const STEP: f64 = 0.01;
/// Gauss–Newton steps at most.
const MAX_ITERATIONS: usize = 15;
/// A step that improves the logarithm of the posterior by less is the last.
const CONVERGED: f64 = 0.05;
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

/// Errors of all flights at a point.
type All = Vec<Vec<[Errors; 2]>>;
/// Squared scales and how many errors have them, without and with trims.
type Scales = [[(f64, usize); GROUPS]; 2];

struct Fit<'a> {
    start: World,
    windows: Vec<Windows<'a>>,
    prior: &'a Prior,
    /// Number of windows.
    count: usize,
    /// Squared errors that no world is below.
    floor: [f64; GROUPS],
}

/// The quadratic at a point.
struct Slope {
    /// Of minus the logarithm of the likelihood.
    curvature: Matrix,
    gradient: Point,
    /// Squares of the blocks' gradients.
    scatter: Matrix,
}

/// Weight of an error of a group.
fn weight(group: usize) -> f64 {
    WINDOW_WEIGHT / errors_of_window(group) as f64
}

impl Fit<'_> {
    fn world(&self, point: &Point) -> World {
        let mut world = self.start.clone();
        put(point, &mut world);
        world
    }

    fn errors(&self, point: &Point) -> All {
        let world = self.world(point);
        self.windows.par_iter().map(|w| w.errors(&world)).collect()
    }

    fn scales(&self, all: &All) -> Scales {
        [0, 1]
            .map(|half| {
                let mut squares: [Vec<f32>; GROUPS] =
                    std::array::from_fn(|_| Vec::with_capacity(3 * self.count));
                for errors in all.iter().flatten() {
                    // What no flight knows is 0 everywhere and stays out.
                    for (i, e) in errors[half].iter().enumerate().filter(|(_, e)| **e != 0.0) {
                        squares[group(i)].push(e * e);
                    }
                }
                squares.map(|mut squares| {
                    let count = squares.len();
                    squares.sort_by(f32::total_cmp);
                    squares.truncate((squares.len() as f64 * INLIERS).ceil() as usize);
                    let sum: f64 = squares.iter().map(|v| f64::from(*v)).sum();
                    (if squares.is_empty() { f64::INFINITY } else { sum / squares.len() as f64 }, count)
                })
            })
            .map(|half: [(f64, usize); GROUPS]| {
                std::array::from_fn(|g| (half[g].0 + self.floor[g], half[g].1))
            })
    }

    /// Minus the logarithm of the posterior, with the scales at their best.
    fn cost(&self, all: &All, point: &Point) -> f64 {
        let logs = self.scales(all).into_iter().flat_map(|half| {
            half.into_iter()
                .enumerate()
                .filter(|(_, (scale, _))| scale.is_finite())
                .map(|(g, (scale, count))| 0.5 * weight(g) * count as f64 * scale.ln())
        });
        let offset = self.prior.offset(point);
        let pull: f64 = self.prior.precision.apply(&offset).iter().zip(offset).map(|(a, b)| a * b).sum();
        logs.sum::<f64>() + 0.5 * pull
    }

    fn slope(&self, point: &Point, now: &All) -> Slope {
        let scales = self.scales(now);
        let moved: Vec<All> = (0..COUNT)
            .into_par_iter()
            .map(|p| {
                let mut moved = *point;
                moved[p] += STEP;
                self.errors(&moved)
            })
            .collect();
        let mut slope = Slope { curvature: Matrix::zero(), gradient: [0.0; COUNT], scatter: Matrix::zero() };
        for (f, flight) in now.iter().enumerate() {
            for (b, block) in flight.chunks(BLOCK).enumerate() {
                let mut gradient = [0.0; COUNT];
                for (w, errors) in block.iter().enumerate() {
                    for (half, errors) in errors.iter().enumerate() {
                        for (e, error) in errors.iter().enumerate().filter(|(_, e)| **e != 0.0) {
                            let (error, (scale2, _)) = (f64::from(*error), scales[half][group(e)]);
                            let relative = error.abs() / scale2.sqrt();
                            let inlying = if relative > OUTLIER { OUTLIER / relative } else { 1.0 };
                            let weight = weight(group(e)) * inlying / scale2;
                            let derivative: Point = std::array::from_fn(|p| {
                                (f64::from(moved[p][f][b * BLOCK + w][half][e]) - error) / STEP
                            });
                            slope.curvature.add_square(&derivative, weight);
                            for (sum, d) in gradient.iter_mut().zip(derivative) {
                                *sum += weight * error * d;
                            }
                        }
                    }
                }
                slope.scatter.add_square(&gradient, 1.0);
                slope.gradient.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
            }
        }
        let pull = self.prior.precision.apply(&self.prior.offset(point));
        slope.gradient.iter_mut().zip(pull).for_each(|(sum, pull)| *sum += pull);
        slope
    }

    /// The covariance of the estimate: how far it would move with other blocks of the same flights, and what the
    /// posterior's own width is; the sum, because blocks of one flight share what the world does not know.
    fn covariance(&self, slope: &Slope) -> Matrix {
        match slope.curvature.plus(&self.prior.precision).inverse() {
            Some(bread) => bread.times(&slope.scatter).times(&bread).plus(&bread),
            None => Matrix::zero(),
        }
    }
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
    let windows: Vec<Windows<'_>> = flights.iter().map(Windows::new).collect();
    let count: usize = windows.iter().map(Windows::len).sum();
    let mut floor = [1e-12; GROUPS];
    let mut changes_of = [(0.0_f64, 0_usize); GROUPS];
    for changes in windows.iter().flat_map(Windows::changes) {
        for (i, change) in changes.iter().enumerate().filter(|(_, change)| **change != 0.0) {
            let (sum, count) = &mut changes_of[group(i)];
            *sum += (MODEL_ERROR * f64::from(*change)).powi(2);
            *count += 1;
        }
    }
    for (floor, (sum, count)) in floor.iter_mut().zip(changes_of) {
        *floor += sum / count.max(1) as f64;
    }
    let fit = Fit { start: start(base, mass_kg), windows, prior, count, floor };
    let mut point = prior.mean;
    let mut now = fit.errors(&point);
    let mut cost = fit.cost(&now, &point);
    let mut slope = fit.slope(&point, &now);
    let mut damping = 1e-2;
    let mut iterations = 0;
    while iterations < MAX_ITERATIONS {
        progress(iterations, MAX_ITERATIONS);
        iterations += 1;
        let curvature = slope.curvature.plus(&prior.precision);
        let mut gained = 0.0;
        while damping < 1e6 {
            let Some(inverse) = curvature.with_diagonal_times(1.0 + damping).inverse() else {
                damping *= 10.0;
                continue;
            };
            let step = inverse.apply(&slope.gradient);
            let next: Point = std::array::from_fn(|p| point[p] - step[p].clamp(-0.5, 0.5));
            let there = fit.errors(&next);
            let cost_there = fit.cost(&there, &next);
            if cost_there < cost {
                gained = cost - cost_there;
                (point, now, cost) = (next, there, cost_there);
                damping = (damping * 0.2).max(1e-5);
                break;
            }
            damping *= 8.0;
        }
        if gained > 0.0 {
            slope = fit.slope(&point, &now);
        }
        if gained < CONVERGED {
            break;
        }
    }
    let covariance = fit.covariance(&slope);
    let mut world = fit.world(&point);
    world.base = "nominal".to_owned();
    let parameters = (0..COUNT).map(|i| estimate(i, prior, &world, &covariance)).collect();
    let confounded = confounded(&covariance);
    Identified { parameters, confounded, world, windows: count, iterations, point, covariance }
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
        is_told: covariance[(i, i)].sqrt() < TOLD * prior.deviation(i),
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
