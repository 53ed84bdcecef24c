//! The rigid body: forces and torques, and their integration over one step.

use steady_common::{Mat3, Quat, State, Vec3, math};

use crate::contact;
use crate::params::Params;
use crate::world::{Integrator, RotorDrag};

/// Velocities are limited to this, m/s and rad/s, so that a lost drone stays a number. A
/// Crazyflie does not reach a tenth of the first; its gyroscope ends at a third of the second.
const LIMIT: f32 = 100.0;

/// What acts on the body during one step.
struct Forces {
    /// Acceleration along body z from the rotors, m/s².
    thrust: f32,
    /// Acceleration in the world frame that does not depend on the motion within the step, m/s².
    constant: Vec3,
    /// Torque in the body frame, N·m.
    torque: Vec3,
}

/// Torque of four thrusts about the centre of mass, without yaw, body frame, N·m.
#[inline(always)]
fn tilting_torque(p: &Params, [f1, f2, f3, f4]: [f32; 4], total: f32) -> Vec3 {
    let [com_x, com_y] = p.centre_of_mass_m;
    Vec3::new(
        p.rotor_offset_m * ((f3 + f4) - (f1 + f2)) - com_y * total,
        p.rotor_offset_m * ((f2 + f3) - (f1 + f4)) + com_x * total,
        0.0,
    )
}

#[inline(always)]
fn sum([a, b, c, d]: [f32; 4]) -> f32 {
    (a + b) + (c + d)
}

impl Forces {
    /// Forces at the start of a step. `rotors` is the frame in which the rotors push: the body's,
    /// or in Bullet's manner the body's of the step before.
    #[inline(always)]
    fn new(p: &Params, state: &State, body: &Mat3, rotors: &Mat3, air: &Air<'_>) -> Self {
        let squares = air.rpm.map(|r| r * r);
        let thrusts = squares.map(|s| s * p.motors.thrust_coefficient);
        let mut thrust = sum(thrusts);
        let mut torque = tilting_torque(p, thrusts, thrust);
        let [s1, s2, s3, s4] = squares;
        torque.z = p.motors.torque_coefficient * ((s2 + s4) - (s1 + s3));
        let mut push_n = air.push_n;
        if p.integrator == Integrator::Bullet {
            // The rotors are where they are now, but push along their last axis.
            let axis = body.apply_transposed(rotors.z);
            torque = Vec3::new(torque.x * axis.z, torque.y * axis.z, -torque.x * axis.x - torque.y * axis.y)
                + axis * torque.z;
            push_n += (rotors.z - body.z) * thrust;
        }
        if p.aero.ground_effect {
            let more = p.aero.ground_effect(thrusts, body, state.position.z, p.rotor_offset_m);
            let total = sum(more);
            thrust += total;
            torque += tilting_torque(p, more, total);
        }
        let mut airspeed = state.velocity;
        if let Some(wind) = &p.wind {
            airspeed = wind.airspeed(state.velocity, air.gust_m_s);
            push_n += wind.jets_n(state.position);
        }
        if let Some(moments) = &p.moments {
            torque += moments.at(body.apply_transposed(airspeed), state.rates);
        }
        if p.aero.rotor_drag != RotorDrag::Off {
            push_n += p.aero.drag_n(airspeed, body, rotors, air.drag_rpm_sum);
        }
        let constant = push_n * p.inverse_mass - Vec3::new(0.0, 0.0, p.gravity_m_s2);
        Self { thrust: thrust * p.inverse_mass, constant, torque }
    }

    /// Acceleration in the world frame.
    #[inline(always)]
    fn acceleration(&self, p: &Params, body_z: Vec3, velocity: Vec3) -> Vec3 {
        let damping = p.linear_damping_per_s * (1.0 + velocity.norm());
        body_z * self.thrust + self.constant - velocity * damping
    }

    /// Angular acceleration in the body frame.
    #[inline(always)]
    fn angular_acceleration(&self, p: &Params, rates: Vec3) -> Vec3 {
        let gyroscopic = rates.cross(rates.scale(p.inertia));
        let damping = p.angular_damping_per_s * (1.0 + rates.norm());
        (self.torque - gyroscopic).scale(p.inverse_inertia) - rates * damping
    }
}

/// What the body meets in one step.
pub(crate) struct Air<'a> {
    /// Rotor speeds of M1..M4.
    pub(crate) rpm: &'a [f32; 4],
    /// Summed rotor speed of the step before, which rotor drag goes with.
    pub(crate) drag_rpm_sum: f32,
    /// Any other force in the world frame, N.
    pub(crate) push_n: Vec3,
    /// Velocity of the air beyond the mean wind's, world frame, m/s.
    pub(crate) gust_m_s: Vec3,
    /// Attitude before the step before; only the Bullet-like integrator looks at it.
    pub(crate) last_attitude: Quat,
}

/// One physics step of the body.
#[inline]
pub(crate) fn step(p: &Params, state: &mut State, air: &Air<'_>) {
    let body = state.attitude.to_matrix();
    let rotors = if p.integrator == Integrator::Bullet { air.last_attitude.to_matrix() } else { body };
    let forces = Forces::new(p, state, &body, &rotors, air);
    let dt = p.dt_s;
    let velocity = state.velocity + forces.acceleration(p, body.z, state.velocity) * dt;
    let is_near = p.contact.is_near(state.position.z, velocity.z, dt);
    if p.integrator == Integrator::Rk4 && !is_near {
        return runge_kutta(p, state, &forces);
    }
    state.velocity = limited(velocity);
    state.rates = limited(state.rates + forces.angular_acceleration(p, state.rates) * dt);
    if is_near {
        // On the floor every integrator takes this step: contact is a matter of velocities.
        contact::resolve(p, state, &body);
    }
    state.position += state.velocity * dt;
    state.attitude = state.attitude.integrate_body_rate(state.rates, dt);
}

#[inline(always)]
fn limited(v: Vec3) -> Vec3 {
    v.map(|x| math::bound(x, LIMIT))
}

/// Time derivative of a state.
#[derive(Clone, Copy)]
struct Derivative {
    velocity: Vec3,
    acceleration: Vec3,
    attitude: Quat,
    angular: Vec3,
}

impl Derivative {
    fn at(p: &Params, s: &State, forces: &Forces) -> Self {
        let turn = s.attitude * Quat::new(0.0, 0.5 * s.rates.x, 0.5 * s.rates.y, 0.5 * s.rates.z);
        Self {
            velocity: s.velocity,
            acceleration: forces.acceleration(p, s.attitude.to_matrix().z, s.velocity),
            attitude: turn,
            angular: forces.angular_acceleration(p, s.rates),
        }
    }

    /// `s` moved along this derivative for `dt`.
    fn ahead(&self, s: &State, dt: f32) -> State {
        let (q, d) = (s.attitude, self.attitude);
        State {
            position: s.position + self.velocity * dt,
            velocity: s.velocity + self.acceleration * dt,
            attitude: Quat::new(q.w + d.w * dt, q.x + d.x * dt, q.y + d.y * dt, q.z + d.z * dt).normalized(),
            rates: s.rates + self.angular * dt,
        }
    }
}

/// One step of the classical Runge–Kutta method. Thrust, torque, rotor drag, jets and ground effect are
/// those of the step's start; direction of thrust, damping and gyroscopic torque follow the motion.
fn runge_kutta(p: &Params, state: &mut State, forces: &Forces) {
    let dt = p.dt_s;
    let a = Derivative::at(p, state, forces);
    let b = Derivative::at(p, &a.ahead(state, 0.5 * dt), forces);
    let c = Derivative::at(p, &b.ahead(state, 0.5 * dt), forces);
    let d = Derivative::at(p, &c.ahead(state, dt), forces);
    let mix = |a: f32, b: f32, c: f32, d: f32| (a + 2.0 * (b + c) + d) * (1.0 / 6.0);
    let mix3 = |a: Vec3, b: Vec3, c: Vec3, d: Vec3| (a + (b + c) * 2.0 + d) * (1.0 / 6.0);
    let mean = Derivative {
        velocity: mix3(a.velocity, b.velocity, c.velocity, d.velocity),
        acceleration: mix3(a.acceleration, b.acceleration, c.acceleration, d.acceleration),
        attitude: Quat::new(
            mix(a.attitude.w, b.attitude.w, c.attitude.w, d.attitude.w),
            mix(a.attitude.x, b.attitude.x, c.attitude.x, d.attitude.x),
            mix(a.attitude.y, b.attitude.y, c.attitude.y, d.attitude.y),
            mix(a.attitude.z, b.attitude.z, c.attitude.z, d.attitude.z),
        ),
        angular: mix3(a.angular, b.angular, c.angular, d.angular),
    };
    let next = mean.ahead(state, dt);
    *state = State { velocity: limited(next.velocity), rates: limited(next.rates), ..next };
}
