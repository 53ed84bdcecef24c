//! The differentiable Mellinger law (the paper's appendix A), the policy that flies.
//!
//! ```text
//! e_p = p − r,  e_v = v − ṙ
//! F   = −PID_p(e_p) − PID_v(e_v) + m g z + m r̈
//! u₁  = F · z_B,   R_des from F and the heading
//! e_R = ½ (R_desᵀ R − Rᵀ R_des)^∨,   e_ω = ω − ω_des
//! [u₂ u₃ u₄] = −PID_R(e_R) − PID_ω(e_ω)
//! ```
//!
//! [`step`] is generic over the scalar of the gains: with `f32` it is the control law of the drone,
//! with [`Dual`] it gives the derivatives too ([`jacobian`]). Everything it remembers
//! from one step to the next is in [`Memory`], so that any logged step can be computed again.
//!
//! Guards that the paper leaves open: errors, rates and accelerations are limited on entry (no
//! finite input gives a NaN), the desired force always points up and its tilt is limited to
//! [`MAX_TILT_TAN`], which also keeps it away from the singularity of the heading, and integrals
//! are clamped.

use crate::gains::{Axes, GAIN_COUNT, Gains, Loop};
use crate::{Action, Dual, GRAVITY_M_S2, MAX_MOTOR_THRUST_N, Mat3, Reference, Scalar, State, Vec3, math};

/// Changes whenever the same gains would fly differently.
pub const LAW_VERSION: u16 = 1;

/// Tangent of the largest tilt the law asks for (60°).
pub const MAX_TILT_TAN: f32 = 1.732;

/// Smallest vertical force as a fraction of the weight: a drone that is far too high sinks at
/// three quarters of a free fall instead of turning over.
const MIN_LIFT: f32 = 0.25;

/// Position error beyond which the pull does not grow, m per axis.
const MAX_POSITION_ERROR: f32 = 1.0;
/// Velocity error beyond which the damping does not grow, m/s per axis.
const MAX_VELOCITY_ERROR: f32 = 3.0;
/// The gyroscope's range, rad/s (2000 °/s).
const MAX_RATE: f32 = 34.9;
/// Largest feed-forward acceleration, m/s².
const MAX_ACCELERATION: f32 = 15.0;
/// Time constant of the derivatives' low-pass filter, s.
const DERIVATIVE_TAU: f32 = 0.01;
/// Shortest and longest step that is taken as such, s.
const MIN_DT: f32 = 1e-4;
const MAX_DT: f32 = 0.1;
/// Largest roll and pitch force; yaw has half of it.
const MAX_MOMENT: f32 = 1.0;

/// What the law must know of the drone besides its gains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vehicle {
    /// Mass assumed for the feed-forward, kg.
    pub mass: f32,
    /// Limits of the four loops' integrals: position m s, velocity m, attitude rad s, rate rad.
    pub integral_limits: [Axes; 4],
}

impl Vehicle {
    /// A bare Crazyflie 2.1 as the simulator's model has it (0.027 kg).
    pub const NOMINAL: Self = Self {
        mass: 0.027,
        integral_limits: [
            Axes { xy: 2.0, z: 0.4 },
            Axes { xy: 1.0, z: 0.4 },
            Axes { xy: 1.0, z: 1.0 },
            Axes { xy: 1.0, z: 1.0 },
        ],
    };
}

/// One vector for each of the four loops.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerLoop {
    /// Position loop.
    pub position: Vec3,
    /// Velocity loop.
    pub velocity: Vec3,
    /// Attitude loop.
    pub attitude: Vec3,
    /// Rate loop.
    pub rate: Vec3,
}

/// What the law remembers from one step to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Integrals of the errors.
    pub integral: PerLoop,
    /// Filtered derivatives of the errors.
    pub derivative: PerLoop,
    /// Errors of the last step.
    pub error: PerLoop,
    /// False until the first step, whose derivatives are zero.
    pub started: bool,
}

/// Error, integral and derivative of one loop in one step.
struct Terms<S> {
    error: Vec3<S>,
    integral: Vec3<S>,
    derivative: Vec3<S>,
}

/// The time step as integrals and the derivatives' filter see it.
#[derive(Clone, Copy)]
struct Step {
    dt: f32,
    /// How much of the old filtered derivative stays, in [0, 1].
    keep: f32,
    /// Factor of the error's change: its share in the filter divided by `dt`; zero at the start.
    slope: f32,
}

impl Step {
    #[inline(always)]
    fn new(dt: f32, started: bool) -> Self {
        let dt = math::clamp(dt, MIN_DT, MAX_DT);
        let slope = if started { 1.0 / (DERIVATIVE_TAU + dt) } else { 0.0 };
        Self { dt, keep: 1.0 - slope * dt, slope }
    }

    #[inline(always)]
    fn terms<S: Scalar>(
        self,
        error: Vec3<S>,
        last_error: Vec3,
        integral: Vec3,
        derivative: Vec3,
        limit: Axes,
    ) -> Terms<S> {
        let raw = (error * self.dt) + integral;
        Terms {
            error,
            integral: Vec3::new(raw.x.bound(limit.xy), raw.y.bound(limit.xy), raw.z.bound(limit.z)),
            derivative: (error - last_error) * self.slope + derivative * self.keep,
        }
    }
}

impl<S: Scalar> Terms<S> {
    /// P e + I ∫e + D ė, with gains that may carry derivatives.
    #[inline(always)]
    fn pid<R: Scalar + core::ops::Mul<S, Output = R>>(&self, k: &Loop<R>) -> Vec3<R> {
        let axis = |p: R, i: R, d: R, e: S, ie: S, de: S| p * e + i * ie + d * de;
        let (e, ie, de) = (self.error, self.integral, self.derivative);
        Vec3::new(
            axis(k.p.xy, k.i.xy, k.d.xy, e.x, ie.x, de.x),
            axis(k.p.xy, k.i.xy, k.d.xy, e.y, ie.y, de.y),
            axis(k.p.z, k.i.z, k.d.z, e.z, ie.z, de.z),
        )
    }
}

/// One step of the law: advances `memory` by `dt` seconds and returns the desired forces.
#[inline]
pub fn step<S: Scalar>(
    gains: &Gains<S>,
    vehicle: &Vehicle,
    state: &State,
    reference: &Reference,
    memory: &mut Memory,
    dt: f32,
) -> Action<S> {
    let now = Step::new(dt, memory.started);
    let body = state.attitude.normalized().to_matrix();
    let (thrust, attitude_error) =
        outer(&gains.position, &gains.velocity, vehicle, state, &body, reference, memory, now);
    let [roll, pitch, yaw] =
        inner(&gains.attitude, &gains.rate, vehicle, state, &body, reference, attitude_error, memory, now);
    memory.started = true;
    Action { thrust, roll, pitch, yaw }
}

/// The law's first half: from position and velocity to the thrust and the attitude error e_R.
#[allow(clippy::too_many_arguments, reason = "the two halves of one function")]
#[inline(always)]
fn outer<S: Scalar>(
    position_gains: &Loop<S>,
    velocity_gains: &Loop<S>,
    vehicle: &Vehicle,
    state: &State,
    body: &Mat3,
    reference: &Reference,
    memory: &mut Memory,
    now: Step,
) -> (S, Vec3<S>) {
    let Memory { integral, derivative, error, .. } = memory;
    let [position_limit, velocity_limit, ..] = vehicle.integral_limits;
    let e_p = (state.position - reference.position).map(|e| math::bound(e, MAX_POSITION_ERROR));
    let e_v = (state.velocity - reference.velocity).map(|e| math::bound(e, MAX_VELOCITY_ERROR));
    let position = now.terms(e_p, error.position, integral.position, derivative.position, position_limit);
    let velocity = now.terms(e_v, error.velocity, integral.velocity, derivative.velocity, velocity_limit);

    let acceleration =
        reference.acceleration.map(|a| math::bound(a, MAX_ACCELERATION)) + Vec3::Z * GRAVITY_M_S2;
    let feedback = position.pid(position_gains) + velocity.pid(velocity_gains);
    let force = limit_tilt(-feedback + acceleration * vehicle.mass, MIN_LIFT * vehicle.mass * GRAVITY_M_S2);
    let thrust = force.dot(body.z) * (0.25 / MAX_MOTOR_THRUST_N);

    let (x_des, y_des, z_des) = desired_axes(force, reference.yaw, body.x);
    // The vee map of ½ (R_desᵀ R − Rᵀ R_des), written out in scalar products of the axes.
    let e_r = Vec3::new(
        z_des.dot(body.y) - y_des.dot(body.z),
        x_des.dot(body.z) - z_des.dot(body.x),
        y_des.dot(body.x) - x_des.dot(body.y),
    ) * 0.5;

    (integral.position, integral.velocity) = (position.integral, velocity.integral);
    (derivative.position, derivative.velocity) = (position.derivative, velocity.derivative);
    (error.position, error.velocity) = (e_p, e_v);
    (thrust.at_least(0.0).bound(1.0), e_r)
}

/// The law's second half: from the attitude error and the rates to the roll, pitch and yaw forces.
#[allow(clippy::too_many_arguments, reason = "the two halves of one function")]
#[inline(always)]
fn inner<S: Scalar>(
    attitude_gains: &Loop<S>,
    rate_gains: &Loop<S>,
    vehicle: &Vehicle,
    state: &State,
    body: &Mat3,
    reference: &Reference,
    e_r: Vec3<S>,
    memory: &mut Memory,
    now: Step,
) -> [S; 3] {
    let Memory { integral, derivative, error, .. } = memory;
    let [_, _, attitude_limit, rate_limit] = vehicle.integral_limits;
    let yaw_rate = math::bound(reference.yaw_rate, MAX_RATE);
    let desired_rates = Vec3::new(body.x.z, body.y.z, body.z.z) * yaw_rate;
    let e_w = state.rates.map(|w| math::bound(w, MAX_RATE)) - desired_rates;
    let attitude = now.terms(e_r, error.attitude, integral.attitude, derivative.attitude, attitude_limit);
    let rate = now.terms(e_w, error.rate, integral.rate, derivative.rate, rate_limit);
    let moment = -(attitude.pid(attitude_gains) + rate.pid(rate_gains));

    let value = |v: Vec3<S>| v.map(Scalar::to_f32);
    (integral.attitude, integral.rate) = (value(attitude.integral), rate.integral);
    (derivative.attitude, derivative.rate) = (value(attitude.derivative), rate.derivative);
    (error.attitude, error.rate) = (value(e_r), e_w);
    [
        moment.x.bound(MAX_MOMENT),
        // The power distribution counts nose-up and clockwise as positive.
        -(moment.y.bound(MAX_MOMENT)),
        -(moment.z.bound(0.5 * MAX_MOMENT)),
    ]
}

/// The force with at least `min_lift` upwards and no more tilt than [`MAX_TILT_TAN`] allows.
#[inline(always)]
fn limit_tilt<S: Scalar>(force: Vec3<S>, min_lift: f32) -> Vec3<S> {
    let z = force.z.at_least(min_lift);
    let side2 = force.x * force.x + force.y * force.y;
    let most = z * MAX_TILT_TAN;
    if side2.to_f32() <= most.to_f32() * most.to_f32() {
        return Vec3::new(force.x, force.y, z);
    }
    let shrink = most / side2.sqrt();
    Vec3::new(force.x * shrink, force.y * shrink, z)
}

/// Columns of R_des: z along the force, x and y by the heading, and of the two solutions the one
/// nearer to the present attitude.
#[inline(always)]
fn desired_axes<S: Scalar>(force: Vec3<S>, yaw: f32, x_body: Vec3) -> (Vec3<S>, Vec3<S>, Vec3<S>) {
    let one = S::from_f32(1.0);
    let z = force * (one / force.dot(force).sqrt());
    let (sin, cos) = math::sin_cos(yaw);
    // Across the force instead of its unit vector: the same direction, one division earlier.
    let side = force.cross(Vec3::new(cos, sin, 0.0));
    let mut y = side * (one / side.dot(side).sqrt());
    let mut x = y.cross(z);
    // Both solutions share z, so x alone tells which is nearer.
    if x.dot(x_body).to_f32() < 0.0 {
        (x, y) = (-x, -y);
    }
    (x, y, z)
}

/// The law and its derivatives with respect to the gains (rows: F_z, F_r, F_p, F_y; columns in the
/// order of [`GAINS`](crate::gains::GAINS)), for one step from a given memory, which is not advanced.
pub fn jacobian(
    gains: &Gains,
    vehicle: &Vehicle,
    state: &State,
    reference: &Reference,
    memory: &Memory,
    dt: f32,
) -> (Action, [[f32; GAIN_COUNT]; 4]) {
    // The outer loops know only the first half of the gains: half the derivatives to carry there.
    const OUTER: usize = GAIN_COUNT / 2;
    let Gains { position, velocity, attitude, rate } = gains;
    let now = Step::new(dt, memory.started);
    let body = state.attitude.normalized().to_matrix();
    let mut memory = *memory;
    let (thrust, attitude_error) = outer::<Dual<f32, OUTER>>(
        &position.variables(0),
        &velocity.variables(6),
        vehicle,
        state,
        &body,
        reference,
        &mut memory,
        now,
    );
    let [roll, pitch, yaw] = inner::<Dual<f32, GAIN_COUNT>>(
        &attitude.variables(12),
        &rate.variables(18),
        vehicle,
        state,
        &body,
        reference,
        attitude_error.map(Dual::widen),
        &mut memory,
        now,
    );
    let action = [thrust.widen(), roll, pitch, yaw];
    (Action::from_array(action.map(|a| a.value)), action.map(|a| a.partials))
}
