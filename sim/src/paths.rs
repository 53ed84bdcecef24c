//! Paths beyond the paper's tasks, as polynomial pieces that the drone could fly as well.

use std::f32::consts::FRAC_PI_4;

use steady_common::trajectory::{COEFFICIENTS, Piece};

/// Value, velocity, acceleration and jerk of one coordinate.
type Ends = [f32; 4];

/// Side of the square, m, and the time of one of its sides, s.
const SIDE_M: f32 = 1.0;
const SIDE_S: f32 = 1.5;
/// Radius of the helix, m; angular speed, rad/s; rise of a quarter turn, m; height of its start, m.
const RADIUS_M: f32 = 0.5;
const SPEED_RAD_S: f32 = 2.0;
const RISE_M: f32 = 0.1;
const LOW_M: f32 = 0.7;
/// Time of a quarter turn at full speed, s, and of the quarters from and to standing still.
const QUARTER_S: f32 = FRAC_PI_4;
const GENTLE_S: f32 = 2.0 * QUARTER_S;
/// Quarter turns at full speed: two rounds.
const QUARTERS: usize = 8;

/// Twice around a square at 1 m, with a stop at every corner.
pub static SQUARE: [Piece; 8] = square();

/// Up a helix, two rounds from 0.7 m.
pub static HELIX: [Piece; QUARTERS + 2] = helix();

const fn square() -> [Piece; 8] {
    let half = 0.5 * SIDE_M;
    let corners = [[half, half], [-half, half], [-half, -half], [half, -half]];
    let mut pieces = [Piece { duration: SIDE_S, axes: [[0.0; COEFFICIENTS]; 4] }; 8];
    let mut i = 0;
    while i < pieces.len() {
        let (from, to) = (corners[i % 4], corners[(i + 1) % 4]);
        pieces[i].axes = [
            joined(at_rest(from[0]), at_rest(to[0]), SIDE_S),
            joined(at_rest(from[1]), at_rest(to[1]), SIDE_S),
            joined(at_rest(1.0), at_rest(1.0), SIDE_S),
            [0.0; COEFFICIENTS],
        ];
        i += 1;
    }
    pieces
}

const fn helix() -> [Piece; QUARTERS + 2] {
    let mut pieces = [Piece { duration: QUARTER_S, axes: [[0.0; COEFFICIENTS]; 4] }; QUARTERS + 2];
    let last = pieces.len() - 1;
    let mut i = 0;
    while i <= last {
        let (mut from, mut to) = (turning(i), turning(i + 1));
        if i == 0 {
            from = [at_rest(from[0][0]), at_rest(from[1][0]), at_rest(LOW_M)];
        }
        if i == last {
            to = [at_rest(to[0][0]), at_rest(to[1][0]), at_rest(from[2][0] + RISE_M)];
        }
        let duration = if i == 0 || i == last { GENTLE_S } else { QUARTER_S };
        pieces[i] = Piece {
            duration,
            axes: [
                joined(from[0], to[0], duration),
                joined(from[1], to[1], duration),
                joined(from[2], to[2], duration),
                [0.0; COEFFICIENTS],
            ],
        };
        i += 1;
    }
    pieces
}

/// x, y and z of the helix after so many quarter turns, at full speed.
const fn turning(quarters: usize) -> [Ends; 3] {
    let (cos, sin) = match quarters % 4 {
        0 => (1.0, 0.0),
        1 => (0.0, 1.0),
        2 => (-1.0, 0.0),
        _ => (0.0, -1.0),
    };
    let (r, w) = (RADIUS_M, SPEED_RAD_S);
    let (v, a, j) = (r * w, r * w * w, r * w * w * w);
    let height = LOW_M + RISE_M * quarters as f32;
    [
        [r * cos, -v * sin, -a * cos, j * sin],
        [r * sin, v * cos, -a * sin, -j * cos],
        [height, RISE_M / QUARTER_S, 0.0, 0.0],
    ]
}

const fn at_rest(value: f32) -> Ends {
    [value, 0.0, 0.0, 0.0]
}

/// The one polynomial of degree 7 that has these ends.
const fn joined(from: Ends, to: Ends, t: f32) -> [f32; COEFFICIENTS] {
    // In units of the duration first; b4 to b7 make up what the first four miss at the end.
    let (b0, b1, b2, b3) = (from[0], from[1] * t, from[2] * t * t / 2.0, from[3] * t * t * t / 6.0);
    let h0 = to[0] - (b0 + b1 + b2 + b3);
    let h1 = to[1] * t - (b1 + 2.0 * b2 + 3.0 * b3);
    let h2 = to[2] * t * t - (2.0 * b2 + 6.0 * b3);
    let h3 = to[3] * t * t * t - 6.0 * b3;
    let b4 = 35.0 * h0 - 15.0 * h1 + 2.5 * h2 - h3 / 6.0;
    let b5 = -84.0 * h0 + 39.0 * h1 - 7.0 * h2 + h3 / 2.0;
    let b6 = 70.0 * h0 - 34.0 * h1 + 6.5 * h2 - h3 / 2.0;
    let b7 = -20.0 * h0 + 10.0 * h1 - 2.0 * h2 + h3 / 6.0;
    let mut c = [b0, b1, b2, b3, b4, b5, b6, b7];
    let (mut k, mut power) = (1, t);
    while k < COEFFICIENTS {
        c[k] /= power;
        power *= t;
        k += 1;
    }
    c
}

#[cfg(test)]
mod tests {
    use steady_common::{Trajectory, Vec3};

    use super::*;

    #[test]
    fn pieces_meet_smoothly_and_begin_and_end_at_rest() {
        for pieces in [&SQUARE[..], &HELIX[..]] {
            for pair in pieces.windows(2) {
                let (end, begin) = (pair[0].at(pair[0].duration), pair[1].at(0.0));
                assert!((end.position - begin.position).norm() < 1e-4, "{end:?} {begin:?}");
                assert!((end.velocity - begin.velocity).norm() < 1e-3, "{end:?} {begin:?}");
                assert!((end.acceleration - begin.acceleration).norm() < 1e-2, "{end:?} {begin:?}");
            }
            let (first, last) = (pieces[0].at(0.0), pieces[pieces.len() - 1]);
            assert_eq!((first.velocity, first.acceleration), (Vec3::ZERO, Vec3::ZERO));
            assert!(last.at(last.duration).velocity.norm() < 1e-3);
        }
    }

    #[test]
    fn the_helix_is_round_and_rises() {
        let helix = Trajectory::Poly4d { pieces: &HELIX, offset: Vec3::ZERO };
        let (from, to) = (GENTLE_S, helix.duration() - GENTLE_S);
        for i in 0..=100 {
            let r = helix.at(from + (to - from) * i as f32 / 100.0);
            let radius = r.position.x.hypot(r.position.y);
            assert!((radius - RADIUS_M).abs() < 1e-3, "{r:?}");
            assert!((r.velocity.z - RISE_M / QUARTER_S).abs() < 1e-3, "{r:?}");
        }
        assert!((helix.at(to).position.z - helix.at(from).position.z - 8.0 * RISE_M).abs() < 1e-3);
    }

    #[test]
    fn the_square_visits_its_corners() {
        let square = Trajectory::Poly4d { pieces: &SQUARE, offset: Vec3::ZERO };
        assert!((square.at(SIDE_S).position - Vec3::new(-0.5, 0.5, 1.0)).norm() < 1e-4);
        assert!((square.at(3.0 * SIDE_S).position - Vec3::new(0.5, -0.5, 1.0)).norm() < 1e-4);
        assert_eq!(square.duration(), 8.0 * SIDE_S);
    }
}
