//! References over time: hover, take-off and landing, the figure eight, polynomial pieces.
//!
//! Every trajectory gives position, velocity, acceleration, yaw and yaw rate that are each other's
//! derivatives; the tests check that by differences.

use crate::{Reference, Vec3, math};

/// Order of a polynomial piece (Crazyswarm's poly4d: degree 7).
pub const COEFFICIENTS: usize = 8;

/// One piece of a polynomial trajectory, coefficients from the constant term up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// How long it lasts, s.
    pub duration: f32,
    /// x, y, z in m and yaw in rad, as polynomials of the time since the piece's start.
    pub axes: [[f32; COEFFICIENTS]; 4],
}

impl Piece {
    /// The reference `t` seconds after its start; times outside give its ends.
    #[must_use]
    pub fn at(&self, t: f32) -> Reference {
        let local = math::clamp(t, 0.0, self.duration);
        let [x, y, z, yaw] = self.axes.map(|c| polynomial(&c, local));
        let vector = |d: fn(&[f32; 3]) -> f32| Vec3::new(d(&x), d(&y), d(&z));
        let [yaw, yaw_rate, _] = yaw;
        Reference {
            position: vector(|[p, _, _]| *p),
            velocity: vector(|[_, v, _]| *v),
            acceleration: vector(|[_, _, a]| *a),
            yaw,
            yaw_rate,
        }
    }
}

/// A reference over time. Times outside [0, duration] give its ends, at rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trajectory<'a> {
    /// Standing still.
    Hover {
        /// Position, m.
        position: Vec3,
    },
    /// Straight up, hover, straight down.
    TakeoffLand {
        /// On the floor, where it starts and ends.
        ground: Vec3,
        /// Hover height above the ground, m.
        height: f32,
        /// Seconds going up.
        up_s: f32,
        /// Seconds at the height.
        hover_s: f32,
        /// Seconds going down.
        down_s: f32,
    },
    /// The paper's (sin t, ½ sin 2t, 0) around a centre.
    FigureEight {
        /// Centre of the eight.
        centre: Vec3,
        /// Seconds in which the motion gathers speed at the start; 0 starts at full speed.
        ramp_s: f32,
        /// Seconds in all.
        duration_s: f32,
    },
    /// Polynomial pieces one after the other, shifted.
    Poly4d {
        /// The pieces.
        pieces: &'a [Piece],
        /// Added to every position.
        offset: Vec3,
    },
}

impl Trajectory<'_> {
    /// The paper's first task: take off, hover 7 s at 1 m, land.
    pub const TAKEOFF_LAND: Self =
        Self::TakeoffLand { ground: Vec3::ZERO, height: 1.0, up_s: 2.0, hover_s: 7.0, down_s: 3.0 };

    /// The paper's second task: two rounds of the eight at 1 m, after a gentle start.
    pub const FIGURE_EIGHT: Self = Self::FigureEight { centre: Vec3::Z, ramp_s: 2.0, duration_s: 13.57 };

    /// Length, s; a hover lasts for ever.
    #[must_use]
    pub fn duration(&self) -> f32 {
        match self {
            Self::Hover { .. } => f32::INFINITY,
            Self::TakeoffLand { up_s, hover_s, down_s, .. } => up_s + hover_s + down_s,
            Self::FigureEight { duration_s, .. } => *duration_s,
            Self::Poly4d { pieces, .. } => pieces.iter().map(|p| p.duration).sum(),
        }
    }

    /// The reference at time `t`, s.
    #[must_use]
    pub fn at(&self, t: f32) -> Reference {
        let end = self.duration();
        if t > end {
            let last = self.at(end);
            return Reference { yaw: last.yaw, ..Reference::hover(last.position) };
        }
        // Also catches NaN.
        let t = math::clamp(t, 0.0, end);
        match *self {
            Self::Hover { position } => Reference::hover(position),
            Self::TakeoffLand { ground, height, up_s, hover_s, down_s } => {
                let (t, span, rising) =
                    if t < up_s + hover_s { (t, up_s, 1.0) } else { (t - up_s - hover_s, down_s, -1.0) };
                let (s, ds, dds) = smooth_step(t, span);
                let base = if rising > 0.0 { 0.0 } else { height };
                Reference {
                    position: ground + Vec3::Z * (base + rising * height * s),
                    velocity: Vec3::Z * (rising * height * ds),
                    acceleration: Vec3::Z * (rising * height * dds),
                    ..Reference::default()
                }
            }
            Self::FigureEight { centre, ramp_s, .. } => {
                let (phase, speed, gathering) = ramp(t, ramp_s);
                let (s1, c1) = math::sin_cos(phase);
                let (s2, c2) = math::sin_cos(2.0 * phase);
                let first = Vec3::new(c1, c2, 0.0);
                let second = Vec3::new(-s1, -2.0 * s2, 0.0);
                Reference {
                    position: centre + Vec3::new(s1, 0.5 * s2, 0.0),
                    velocity: first * speed,
                    acceleration: second * (speed * speed) + first * gathering,
                    ..Reference::default()
                }
            }
            Self::Poly4d { pieces, offset } => poly4d(pieces, offset, t),
        }
    }
}

/// Quintic step from 0 to 1 over `span` seconds and its two derivatives, zero speed and
/// acceleration at both ends.
fn smooth_step(t: f32, span: f32) -> (f32, f32, f32) {
    if t >= span {
        return (1.0, 0.0, 0.0);
    }
    let (u, k) = (t / span, 1.0 / span);
    let u2 = u * u;
    (
        u2 * u * (10.0 - 15.0 * u + 6.0 * u2),
        30.0 * u2 * (1.0 - 2.0 * u + u2) * k,
        60.0 * u * (1.0 - 3.0 * u + 2.0 * u2) * k * k,
    )
}

/// A clock that starts at rest and runs at full speed after `span` seconds: its reading, speed and
/// acceleration. The speed is a quintic step, so the acceleration has no jumps.
fn ramp(t: f32, span: f32) -> (f32, f32, f32) {
    if t >= span {
        return (t - 0.5 * math::clamp(span, 0.0, t), 1.0, 0.0);
    }
    let u = t / span;
    let u4 = u * u * u * u;
    let (speed, acceleration, _) = smooth_step(t, span);
    (span * u4 * (2.5 - 3.0 * u + u * u), speed, acceleration)
}

fn poly4d(pieces: &[Piece], offset: Vec3, t: f32) -> Reference {
    let mut start = 0.0;
    let mut reference = Reference::hover(offset);
    for piece in pieces {
        let at = piece.at(t - start);
        reference = Reference { position: at.position + offset, ..at };
        start += piece.duration;
        if t <= start {
            break;
        }
    }
    reference
}

/// Value, first and second derivative by Horner's rule.
fn polynomial(coefficients: &[f32; COEFFICIENTS], t: f32) -> [f32; 3] {
    let (mut p, mut d, mut dd) = (0.0, 0.0, 0.0);
    for c in coefficients.iter().rev() {
        dd = dd * t + d;
        d = d * t + p;
        p = p * t + c;
    }
    [p, d, 2.0 * dd]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn pieces() -> Vec<Piece> {
        // Two pieces that meet at rest: out and back by the degree-7 rest-to-rest polynomial.
        let out = [0.0, 0.0, 0.0, 0.0, 35.0, -84.0, 70.0, -20.0];
        let back = [1.0, 0.0, 0.0, 0.0, -35.0, 84.0, -70.0, 20.0];
        let scaled = |c: [f32; 8], k: f32| c.map(|x| x * k);
        let piece = |c| Piece { duration: 1.0, axes: [c, scaled(c, 0.5), scaled(c, -0.3), scaled(c, 2.0)] };
        std::vec![piece(out), piece(back)]
    }

    fn check_derivatives(trajectory: &Trajectory, from: f32, to: f32, skip: &[f32]) {
        let h = 1e-2_f32;
        let mut t = from + h;
        while t < to - h {
            if skip.iter().all(|s| (s - t).abs() > 1.5 * h) {
                let (a, b, c) = (trajectory.at(t - h), trajectory.at(t), trajectory.at(t + h));
                let v = (c.position - a.position) * (0.5 / h);
                let acc = (c.velocity - a.velocity) * (0.5 / h);
                let yaw_rate = (c.yaw - a.yaw) * (0.5 / h);
                assert!((v - b.velocity).norm() < 5e-3, "{trajectory:?} at {t}: {v:?} {:?}", b.velocity);
                assert!(
                    (acc - b.acceleration).norm() < 4e-2,
                    "{trajectory:?} at {t}: {acc:?} {:?}",
                    b.acceleration
                );
                assert!((yaw_rate - b.yaw_rate).abs() < 2e-2, "{trajectory:?} at {t}");
            }
            t += 0.0137;
        }
    }

    #[test]
    fn derivatives_are_consistent() {
        check_derivatives(&Trajectory::TAKEOFF_LAND, 0.0, 12.0, &[]);
        check_derivatives(&Trajectory::FIGURE_EIGHT, 0.0, 13.57, &[]);
        let pieces = pieces();
        check_derivatives(&Trajectory::Poly4d { pieces: &pieces, offset: Vec3::Z }, 0.0, 2.0, &[]);
    }

    #[test]
    fn figure_eight_is_the_papers() {
        let eight = Trajectory::FigureEight { centre: Vec3::Z, ramp_s: 0.0, duration_s: 100.0 };
        for t in [0.0_f32, 0.7, 3.0, 11.0] {
            let r = eight.at(t);
            assert!((r.position - Vec3::new(t.sin(), 0.5 * (2.0 * t).sin(), 1.0)).norm() < 1e-5);
            assert!((r.velocity - Vec3::new(t.cos(), (2.0 * t).cos(), 0.0)).norm() < 1e-5);
        }
        check_derivatives(&eight, 0.0, 6.3, &[]);
    }

    #[test]
    fn take_off_reaches_its_height_and_comes_down() {
        let t = Trajectory::TAKEOFF_LAND;
        assert_eq!(t.at(0.0), Reference::hover(Vec3::ZERO));
        assert_eq!(t.at(2.0), Reference::hover(Vec3::Z));
        assert_eq!(t.at(8.9), Reference::hover(Vec3::Z));
        assert!(t.at(12.0).position.norm() < 1e-6 && t.at(12.0).velocity.norm() < 1e-6);
        assert_eq!(t.at(1e9).position, t.at(12.0).position);
        assert_eq!(t.at(f32::NAN).position, Vec3::ZERO);
    }

    #[test]
    fn pieces_follow_each_other() {
        let pieces = pieces();
        let t = Trajectory::Poly4d { pieces: &pieces, offset: Vec3::Z };
        assert_eq!(t.duration(), 2.0);
        assert!((t.at(1.0).position - Vec3::new(1.0, 0.5, 0.7)).norm() < 1e-5);
        assert!((t.at(2.0).position - Vec3::Z).norm() < 1e-5);
        assert_eq!(t.at(5.0).velocity, Vec3::ZERO);
        let empty = Trajectory::Poly4d { pieces: &[], offset: Vec3::Z };
        assert_eq!(empty.at(1.0), Reference::hover(Vec3::Z));
    }
}
