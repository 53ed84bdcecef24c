//! The parameters under which flights are least surprising: Gauss–Newton on the errors of their windows.

use rayon::prelude::*;
use steady_sim::World;

use super::linear::Matrix;
use super::parameters::{COUNT, Point, put};
use super::prior::Prior;
use super::windows::{Errors, GROUPS, Windows, errors_of_window, group};
use crate::flight::Flight;

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
/// Errors of all flights at a point.
type All = Vec<Vec<[Errors; 2]>>;
/// Squared scales and how many errors have them, without and with trims.
type Scales = [[(f64, usize); GROUPS]; 2];

/// Errors of all windows of some flights, as a function of the parameters.
pub(super) struct Fit<'a> {
    start: World,
    windows: Vec<Windows<'a>>,
    prior: &'a Prior,
    /// Number of windows.
    count: usize,
    /// Squared errors that no world is below.
    floor: [f64; GROUPS],
}

/// Where a fit has converged.
pub(super) struct Found {
    pub(super) point: Point,
    pub(super) covariance: Matrix,
    /// Gauss–Newton steps.
    pub(super) iterations: usize,
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

impl<'a> Fit<'a> {
    /// A fit that starts from a world, for what the parameters are not.
    pub(super) fn new(start: World, flights: &'a [Flight], prior: &'a Prior) -> Self {
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
        Self { start, windows, prior, count, floor }
    }

    /// Number of windows.
    pub(super) fn windows(&self) -> usize {
        self.count
    }

    /// Goes down from a point. `progress` gets the number of the step and of those at most.
    pub(super) fn converge(&self, from: &Point, mut progress: impl FnMut(usize, usize)) -> Found {
        let mut point = *from;
        // What a fit starts from is a world that there can be.
        let mut now = self.errors(&point).unwrap_or_else(|| vec![Vec::new(); self.windows.len()]);
        let mut cost = self.cost(&now, &point);
        let mut slope = self.slope(&point, &now);
        let mut damping = 1e-2;
        let mut iterations = 0;
        while iterations < MAX_ITERATIONS {
            progress(iterations, MAX_ITERATIONS);
            iterations += 1;
            let curvature = slope.curvature.plus(&self.prior.precision);
            let mut gained = 0.0;
            while damping < 1e6 {
                let Some(inverse) = curvature.with_diagonal_times(1.0 + damping).inverse() else {
                    damping *= 10.0;
                    continue;
                };
                let step = inverse.apply(&slope.gradient);
                let next: Point = std::array::from_fn(|p| point[p] - step[p].clamp(-0.5, 0.5));
                if let Some(there) = self.errors(&next) {
                    let cost_there = self.cost(&there, &next);
                    if cost_there < cost {
                        gained = cost - cost_there;
                        (point, now, cost) = (next, there, cost_there);
                        damping = (damping * 0.2).max(1e-5);
                        break;
                    }
                }
                damping *= 8.0;
            }
            if gained > 0.0 {
                slope = self.slope(&point, &now);
            }
            if gained < CONVERGED {
                break;
            }
        }
        Found { point, covariance: self.covariance(&slope), iterations }
    }

    pub(super) fn world(&self, point: &Point) -> World {
        let mut world = self.start.clone();
        put(point, &mut world);
        world
    }

    /// `None` beyond what a world can have.
    fn errors(&self, point: &Point) -> Option<All> {
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
        let moved: Vec<Option<All>> = (0..COUNT)
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
                                let Some(moved) = &moved[p] else { return 0.0 };
                                (f64::from(moved[f][b * BLOCK + w][half][e]) - error) / STEP
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
