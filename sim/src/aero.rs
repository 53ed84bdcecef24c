//! What the air does beyond thrust: rotor drag, ground effect, downwash.
//!
//! The formulas are those of gym-pybullet-drones, so that its rollouts can check them. Its rotor
//! drag turns the world-frame force by the attitude twice, which is not what air does; a world
//! chooses between that and drag in the body frame.

use steady_common::{Mat3, Vec3, math};

use crate::world::{Aero, RotorDrag};

/// Revolutions per minute to radians per second.
const RPM_TO_RAD_S: f32 = math::TAU / 60.0;
/// Downwash is not felt at a horizontal distance beyond this, m.
const DOWNWASH_REACH_M: f32 = 10.0;

/// Constants of the air.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AeroParams {
    pub(crate) rotor_drag: RotorDrag,
    /// Drag over velocity and summed rotor speed in rpm, x, y, z.
    drag_per_rpm: Vec3,
    pub(crate) ground_effect: bool,
    /// Additional thrust of a rotor is this over its squared height.
    ground_effect_m2: f32,
    /// The ground effect grows no more below this height, m.
    lowest_height_m: f32,
    pub(crate) downwash: bool,
    /// Downwash at its centre is this over the squared distance below, N·m².
    downwash_n_m2: f32,
    downwash_spread: f32,
    downwash_width_m: f32,
}

impl AeroParams {
    pub(crate) fn new(a: &Aero) -> Self {
        let quarter_radius2 = a.propeller_radius_m * a.propeller_radius_m * (1.0 / 16.0);
        Self {
            rotor_drag: a.rotor_drag,
            drag_per_rpm: Vec3::new(a.drag_xy_n_s2_per_m, a.drag_xy_n_s2_per_m, a.drag_z_n_s2_per_m)
                * RPM_TO_RAD_S,
            ground_effect: a.ground_effect,
            ground_effect_m2: a.ground_effect_coefficient * quarter_radius2,
            lowest_height_m: 0.25 * a.propeller_radius_m * math::sqrt(3.75 * a.ground_effect_coefficient),
            downwash: a.downwash,
            downwash_n_m2: a.downwash_n * quarter_radius2,
            downwash_spread: a.downwash_spread,
            downwash_width_m: a.downwash_width_m,
        }
    }

    /// Rotor drag in the world frame, N. `rotors` is the frame in which forces on the rotors act.
    pub(crate) fn drag_n(&self, velocity: Vec3, body: &Mat3, rotors: &Mat3, rpm_sum: f32) -> Vec3 {
        let coefficients = self.drag_per_rpm * -rpm_sum;
        match self.rotor_drag {
            RotorDrag::Off => Vec3::ZERO,
            RotorDrag::Body => body.apply(body.apply_transposed(velocity).scale(coefficients)),
            RotorDrag::GymPybulletDrones => rotors.apply(body.apply(velocity.scale(coefficients))),
        }
    }

    /// What the floor adds to each rotor's thrust, N; nothing when upside down.
    pub(crate) fn ground_effect(
        &self,
        thrust_n: [f32; 4],
        body: &Mat3,
        z_m: f32,
        rotor_offset_m: f32,
    ) -> [f32; 4] {
        if body.z.z <= 0.0 {
            return [0.0; 4];
        }
        let (along_x, along_y) = (body.x.z * rotor_offset_m, body.y.z * rotor_offset_m);
        let mut more = [
            z_m + along_x - along_y,
            z_m - along_x - along_y,
            z_m - along_x + along_y,
            z_m + along_x + along_y,
        ];
        for (value, thrust) in more.iter_mut().zip(thrust_n) {
            let height = if *value > self.lowest_height_m { *value } else { self.lowest_height_m };
            *value = thrust * self.ground_effect_m2 / (height * height);
        }
        more
    }

    /// Force in N, along minus body z, that a drone at `above` exerts on one at `below`.
    pub(crate) fn downwash_n(&self, above: Vec3, below: Vec3) -> f32 {
        let down = above.z - below.z;
        let (dx, dy) = (above.x - below.x, above.y - below.y);
        let aside2 = dx * dx + dy * dy;
        if down <= 0.0 || aside2 >= DOWNWASH_REACH_M * DOWNWASH_REACH_M {
            return 0.0;
        }
        // Nearer than a propeller the formula has no meaning; the drones touch.
        let down = if down > 0.05 { down } else { 0.05 };
        let width = self.downwash_spread * down + self.downwash_width_m;
        let centre = self.downwash_n_m2 / (down * down);
        if width * width < 1e-12 {
            return if aside2 > 0.0 { 0.0 } else { centre };
        }
        centre * libm::expf(-0.5 * aside2 / (width * width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_common::Quat;

    fn params() -> AeroParams {
        AeroParams::new(&Aero::default())
    }

    #[test]
    fn downwash_pushes_only_what_is_below_and_fades() {
        let p = params();
        let above = Vec3::new(0.0, 0.0, 2.0);
        assert_eq!(p.downwash_n(Vec3::ZERO, above), 0.0);
        // 2267.18 (0.0231348 / 4)² at one metre.
        assert!((p.downwash_n(above, Vec3::new(0.0, 0.0, 1.0)) - 0.075_84).abs() < 1e-4);
        let near = p.downwash_n(above, Vec3::new(0.02, 0.0, 1.0));
        assert!(near > p.downwash_n(above, Vec3::new(0.1, 0.0, 1.0)));
        assert_eq!(p.downwash_n(above, Vec3::new(11.0, 0.0, 1.0)), 0.0);
        assert!(p.downwash_n(above, Vec3::new(0.0, 0.0, 1.999_999)).is_finite());
    }

    #[test]
    fn physical_drag_never_adds_energy() {
        let p = AeroParams::new(&Aero { rotor_drag: RotorDrag::Body, ..Aero::default() });
        let velocity = Vec3::new(1.0, -2.0, 0.5);
        let body = Quat::from_euler(Vec3::new(0.7, -0.4, 2.0)).to_matrix();
        let drag = p.drag_n(velocity, &body, &body, 58_000.0);
        assert!(drag.dot(velocity) < 0.0);
        // About 5.6e-3 N·s/m in hover.
        assert!((drag.norm() / velocity.norm() - 5.6e-3).abs() < 1e-3, "{drag:?}");
    }

    #[test]
    fn ground_effect_grows_towards_the_floor_and_stops_upside_down() {
        let p = params();
        let at = |z: f32, attitude: Quat| p.ground_effect([0.06; 4], &attitude.to_matrix(), z, 0.028)[0];
        let level = Quat::IDENTITY;
        assert!(at(0.05, level) > at(0.1, level) && at(0.1, level) > at(1.0, level));
        assert_eq!(at(0.0, level), at(0.03, level));
        assert_eq!(at(0.1, Quat::new(0.0, 1.0, 0.0, 0.0)), 0.0);
    }
}
