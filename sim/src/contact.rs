//! Standing, sliding and lying on the floor (z = 0).
//!
//! The body touches the floor with eight points: four feet and, for a toppled drone, four points
//! above them. Contact acts on velocities: impulses keep every point from moving below the floor
//! within the step, without restitution, and friction opposes sliding within Coulomb's cone. A
//! drone therefore lands without bouncing, rests without sinking, and topples about its feet.

use steady_common::{Mat3, State, Vec3, math};

use crate::params::Params;
use crate::world::Body;

/// Passes over the points; the initial guess makes a level landing exact without any.
const PASSES: usize = 12;
/// Part of a penetration that is pushed out in one step.
const PUSH_OUT: f32 = 0.2;
/// Slower than this on all feet is standing still, m/s and rad/s.
const STILL_M_S: f32 = 1e-3;
const STILL_RAD_S: f32 = 2e-2;

/// Constants of the contact.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContactParams {
    pub(crate) rest_height_m: f32,
    /// Body-frame points that may touch; the first four are the feet.
    points: [Vec3; 8],
    /// No point is farther from the centre, m.
    reach_m: f32,
    friction: f32,
}

impl ContactParams {
    pub(crate) fn new(body: &Body, friction: f32) -> Self {
        let (a, h) = (body.contact_radius_m * math::sqrt(0.5), body.rest_height_m);
        let corner = |x: f32, y: f32, z: f32| Vec3::new(x * a, y * a, z * h);
        let points = [
            corner(1.0, -1.0, -1.0),
            corner(-1.0, -1.0, -1.0),
            corner(-1.0, 1.0, -1.0),
            corner(1.0, 1.0, -1.0),
            corner(1.0, -1.0, 1.0),
            corner(-1.0, -1.0, 1.0),
            corner(-1.0, 1.0, 1.0),
            corner(1.0, 1.0, 1.0),
        ];
        let reach_m = math::sqrt(body.contact_radius_m * body.contact_radius_m + h * h);
        Self { rest_height_m: h, points, reach_m, friction }
    }

    /// Whether the floor may matter in the coming step, for a velocity after the forces.
    #[inline]
    pub(crate) fn is_near(&self, z_m: f32, vz_m_s: f32, dt_s: f32) -> bool {
        let next = z_m + vz_m_s * dt_s;
        (if next < z_m { next } else { z_m }) < self.reach_m
    }
}

/// One point's impulses, N·s: along the normal, and tangential in the body frame.
#[derive(Clone, Copy, Default)]
struct Impulse {
    normal: f32,
    tangential: Vec3,
}

/// Velocities in the body frame while the impulses are found.
struct Motion<'a> {
    p: &'a Params,
    linear: Vec3,
    angular: Vec3,
}

impl Motion<'_> {
    fn at(&self, point: Vec3) -> Vec3 {
        self.linear + self.angular.cross(point)
    }

    fn push(&mut self, impulse: Vec3, point: Vec3) {
        self.linear += impulse * self.p.inverse_mass;
        self.angular += point.cross(impulse).scale(self.p.inverse_inertia);
    }

    /// Velocity that a unit impulse along `direction` gives its own point.
    fn mobility(&self, direction: Vec3, point: Vec3) -> f32 {
        let turn = point.cross(direction);
        self.p.inverse_mass + turn.dot(turn.scale(self.p.inverse_inertia))
    }
}

/// On all feet, and slow enough to count as standing: more passes change nothing.
fn stands_still(impulses: &[Impulse; 8], motion: &Motion<'_>) -> bool {
    impulses.iter().take(4).all(|i| i.normal > 0.0)
        && motion.linear.norm() < STILL_M_S
        && motion.angular.norm() < STILL_RAD_S
}

/// Corrects the velocities in `state`, which the forces have already changed, for the floor.
/// Position and attitude (`body`) are still those of before the step.
#[cold]
pub(crate) fn resolve(p: &Params, state: &mut State, body: &Mat3) {
    let c = &p.contact;
    let up = body.apply_transposed(Vec3::Z);
    let mut motion = Motion { p, linear: body.apply_transposed(state.velocity), angular: state.rates };

    // How fast each point may move along the normal at least: up to the floor if it is above, a
    // little out of it if it is below.
    let lowest = c.points.map(|point| {
        let height = state.position.z + point.dot(up);
        -height * if height > 0.0 { 1.0 } else { PUSH_OUT } / p.dt_s
    });
    let mut impulses = [Impulse::default(); 8];
    let is_touching = |motion: &Motion<'_>, i: usize| motion.at(c.points[i]).dot(up) < lowest[i];
    let touching = (0..8).filter(|&i| is_touching(&motion, i)).count();
    if touching == 0 {
        return;
    }

    // First guess: the touching points share equally what stops the body as a whole.
    if touching == 4 && (0..4).all(|i| is_touching(&motion, i)) {
        let wanted = lowest.iter().take(4).sum::<f32>() * 0.25;
        let share = 0.25 * p.mass_kg * (wanted - motion.linear.dot(up));
        if share > 0.0 {
            for (impulse, &point) in impulses.iter_mut().zip(&c.points).take(4) {
                impulse.normal = share;
                motion.push(up * share, point);
            }
        }
    }

    for _ in 0..PASSES {
        for ((impulse, &point), &lowest) in impulses.iter_mut().zip(&c.points).zip(&lowest) {
            let needed = (lowest - motion.at(point).dot(up)) / motion.mobility(up, point);
            let normal = impulse.normal + needed;
            let normal = if normal > 0.0 { normal } else { 0.0 };
            motion.push(up * (normal - impulse.normal), point);
            impulse.normal = normal;
            if normal <= 0.0 && impulse.tangential == Vec3::ZERO {
                continue;
            }
            let velocity = motion.at(point);
            let sliding = velocity - up * velocity.dot(up);
            let speed = sliding.norm();
            let mut tangential = impulse.tangential;
            if speed > 1e-9 {
                let direction = sliding * (1.0 / speed);
                tangential = tangential - direction * (speed / motion.mobility(direction, point));
            }
            let (size, limit) = (tangential.norm(), c.friction * normal);
            if size > limit {
                tangential = tangential * (limit / size);
            }
            motion.push(tangential - impulse.tangential, point);
            impulse.tangential = tangential;
        }
        if stands_still(&impulses, &motion) {
            break;
        }
    }

    if stands_still(&impulses, &motion) {
        (motion.linear, motion.angular) = (Vec3::ZERO, Vec3::ZERO);
    }
    state.velocity = body.apply(motion.linear);
    state.rates = motion.angular;
}
