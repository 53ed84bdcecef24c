//! The differentiable Mellinger law: its derivatives, its bits, and what it does with bad input.

use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use num_dual::{Dual64, DualNum};
use proptest::prelude::*;
use steady_common::gains::{GAIN_COUNT, GAINS, Gains};
use steady_common::law::{self, Memory, PerLoop, Vehicle};
use steady_common::{Action, Dual, Quat, Reference, Scalar, State, Vec3};

const STATES: usize = 12_000;

type Jacobian = [[f64; GAIN_COUNT]; 4];

/// A small generator of its own: the states must not change when a crate's does.
struct Rng(u64);

impl Rng {
    fn uniform(&mut self, low: f32, high: f32) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (high - low) * ((self.0 >> 40) as f32 / 16_777_216.0)
    }

    fn vector(&mut self, size: f32) -> Vec3 {
        Vec3::new(self.uniform(-size, size), self.uniform(-size, size), self.uniform(-size, size))
    }

    fn per_loop(&mut self, [p, v, r, w]: [f32; 4]) -> PerLoop {
        PerLoop {
            position: self.vector(p),
            velocity: self.vector(v),
            attitude: self.vector(r),
            rate: self.vector(w),
        }
    }
}

struct Case {
    gains: Gains,
    state: State,
    reference: Reference,
    memory: Memory,
    dt: f32,
}

/// A flight situation as it may occur in training: mostly ordinary, partly violent.
fn case(rng: &mut Rng) -> Case {
    let violence = rng.uniform(0.05, 1.0);
    let gains = GAINS.map(|g| g.nominal * rng.uniform(0.5, 2.0));
    let reference = Reference {
        position: rng.vector(2.0),
        velocity: rng.vector(1.5),
        acceleration: rng.vector(3.0 * violence),
        yaw: rng.uniform(-4.0, 4.0),
        yaw_rate: rng.uniform(-2.0, 2.0),
    };
    let tilt = rng.vector(0.8 * violence);
    let state = State {
        position: reference.position + rng.vector(1.1 * violence),
        velocity: reference.velocity + rng.vector(2.0 * violence),
        attitude: Quat::from_euler(Vec3::new(tilt.x, tilt.y, reference.yaw + tilt.z)),
        rates: rng.vector(8.0 * violence),
    };
    let memory = Memory {
        integral: rng.per_loop([0.3, 0.3, 0.3, 0.3]),
        derivative: rng.per_loop([1.0, 4.0, 4.0, 40.0]),
        error: rng.per_loop([0.4 * violence, violence, 0.4 * violence, 4.0 * violence]),
        started: true,
    };
    Case { gains: Gains::from_array(gains), state, reference, memory, dt: rng.uniform(0.002, 0.005) }
}

fn cases() -> impl Iterator<Item = Case> {
    let mut rng = Rng(42);
    std::iter::repeat_with(move || case(&mut rng)).take(STATES)
}

fn run<S: Scalar>(case: &Case, gains: [S; GAIN_COUNT]) -> [S; 4] {
    let mut memory = case.memory;
    let gains = Gains::from_array(gains);
    law::step(&gains, &Vehicle::NOMINAL, &case.state, &case.reference, &mut memory, case.dt).into_array()
}

/// Derivatives with respect to the logarithms of the gains, so that all share a scale.
fn per_log_gain(case: &Case, jacobian: Jacobian) -> Jacobian {
    let gains = case.gains.to_array().map(f64::from);
    jacobian.map(|row| std::array::from_fn(|j| row[j] * gains[j]))
}

fn ours_in_double(case: &Case) -> Jacobian {
    let gains = case.gains.to_array();
    let duals = std::array::from_fn(|j| Dual::<f64, GAIN_COUNT>::variable(f64::from(gains[j]), j));
    per_log_gain(case, run(case, duals).map(|a| a.partials))
}

fn ours_in_single(case: &Case) -> Jacobian {
    let (_, jacobian) =
        law::jacobian(&case.gains, &Vehicle::NOMINAL, &case.state, &case.reference, &case.memory, case.dt);
    per_log_gain(case, jacobian.map(|row| row.map(f64::from)))
}

/// The law in double precision with gain `j` multiplied by `factor`.
fn perturbed(case: &Case, j: usize, factor: f64) -> [f64; 4] {
    let mut gains = case.gains.to_array().map(f64::from);
    gains[j] *= factor;
    run(case, gains.map(Dual::<f64, 0>::constant)).map(|a| a.value)
}

/// Largest difference of two Jacobians, relative to the row's largest entry, or to a thousandth of
/// a motor's thrust where the whole row is smaller than that.
fn row_error(a: &Jacobian, b: &Jacobian) -> f64 {
    let mut worst = 0.0_f64;
    for (a, b) in a.iter().zip(b) {
        let scale = b.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
        worst = a.iter().zip(b).fold(worst, |m, (x, y)| m.max((x - y).abs() / scale));
    }
    worst
}

/// num-dual's numbers as a scalar of the law: derivatives by somebody else's rules.
#[derive(Clone, Copy)]
struct Peer(Dual64);

macro_rules! peer_operator {
    ($($name:ident $method:ident $op:tt),*) => {$(
        impl $name for Peer {
            type Output = Self;
            fn $method(self, o: Self) -> Self { Self(self.0 $op o.0) }
        }
        impl $name<f32> for Peer {
            type Output = Self;
            fn $method(self, c: f32) -> Self { Self(self.0 $op f64::from(c)) }
        }
    )*};
}
peer_operator!(Add add +, Sub sub -, Mul mul *, Div div /);

impl Neg for Peer {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl AddAssign for Peer {
    fn add_assign(&mut self, o: Self) {
        self.0 += o.0;
    }
}

impl Scalar for Peer {
    fn from_f32(x: f32) -> Self {
        Self(f64::from(x).into())
    }
    fn to_f32(self) -> f32 {
        self.0.re as f32
    }
    fn sqrt(self) -> Self {
        Self(DualNum::sqrt(&self.0))
    }
    fn bound(self, limit: f32) -> Self {
        let limit = f64::from(limit);
        if self.0.re.abs() > limit { Self((limit * self.0.re.signum()).into()) } else { self }
    }
    fn at_least(self, floor: f32) -> Self {
        if self.0.re > f64::from(floor) { self } else { Self::from_f32(floor) }
    }
}

fn peer(case: &Case) -> Jacobian {
    let gains = case.gains.to_array();
    let mut jacobian = [[0.0; GAIN_COUNT]; 4];
    for j in 0..GAIN_COUNT {
        let mut duals = gains.map(Peer::from_f32);
        duals[j] = Peer(duals[j].0.derivative());
        for (row, action) in jacobian.iter_mut().zip(run(case, duals)) {
            row[j] = action.0.eps;
        }
    }
    per_log_gain(case, jacobian)
}

#[test]
fn jacobian_agrees_with_num_dual() {
    let (mut double, mut single) = (0.0_f64, 0.0_f64);
    for case in cases() {
        let reference = peer(&case);
        double = double.max(row_error(&ours_in_double(&case), &reference));
        single = single.max(row_error(&ours_in_single(&case), &reference));
    }
    println!("{STATES} states, worst relative error: f64 {double:.2e}, f32 {single:.2e}");
    assert!(double <= 1e-9, "f64: {double:e}");
    assert!(single <= 1e-4, "f32: {single:e}");
}

#[test]
fn jacobian_agrees_with_central_differences() {
    // Five-point stencil: its own error is far below the bound, except where a limit of the law
    // lies between the points; there the one-sided slopes differ and the entry is passed over.
    const H: f64 = 1e-4;
    let (mut worst, mut worst_single, mut kinks) = (0.0_f64, 0.0_f64, 0);
    for case in cases() {
        let (ours, single) = (ours_in_double(&case), ours_in_single(&case));
        let centre = perturbed(&case, 0, 1.0);
        let mut numeric = ours;
        let mut numeric_single = single;
        for j in 0..GAIN_COUNT {
            let [p1, m1, p2, m2] = [H, -H, 2.0 * H, -2.0 * H].map(|h| perturbed(&case, j, 1.0 + h));
            for row in 0..4 {
                let (right, left) = ((p1[row] - centre[row]) / H, (centre[row] - m1[row]) / H);
                let far = (p2[row] - m2[row]) / (4.0 * H);
                if (right - left).abs() > 0.05 * right.abs().max(left.abs()) + 1e-6
                    || (0.5 * (right + left) - far).abs() > 1e-3 * far.abs() + 1e-6
                {
                    kinks += 1;
                    continue;
                }
                numeric[row][j] = (8.0 * (p1[row] - m1[row]) - (p2[row] - m2[row])) / (12.0 * H);
                numeric_single[row][j] = numeric[row][j];
            }
        }
        worst = worst.max(row_error(&ours, &numeric));
        worst_single = worst_single.max(row_error(&single, &numeric_single));
    }
    println!(
        "{STATES} states, worst relative error: f64 {worst:.2e}, f32 {worst_single:.2e}; {kinks} entries at a limit"
    );
    assert!(worst <= 1e-9, "f64: {worst:e}");
    assert!(worst_single <= 1e-4, "f32: {worst_single:e}");
    assert!(kinks * 500 < STATES * 4 * GAIN_COUNT, "{kinks} entries passed over");
}

#[test]
fn what_is_differentiated_is_what_flies_bit_for_bit() {
    for case in cases() {
        let gains = case.gains.to_array();
        let (mut plain, mut dual) = (case.memory, case.memory);
        let flown: Action =
            law::step(&case.gains, &Vehicle::NOMINAL, &case.state, &case.reference, &mut plain, case.dt);
        let duals = std::array::from_fn(|j| Dual::<f32, GAIN_COUNT>::variable(gains[j], j));
        let differentiated = law::step(
            &Gains::from_array(duals),
            &Vehicle::NOMINAL,
            &case.state,
            &case.reference,
            &mut dual,
            case.dt,
        );
        assert_eq!(
            flown.into_array().map(f32::to_bits),
            differentiated.into_array().map(|a| a.value.to_bits()),
        );
        assert_eq!(plain, dual);
        // And the shortcut for half the gains changes no derivative.
        let (_, jacobian) = law::jacobian(
            &case.gains,
            &Vehicle::NOMINAL,
            &case.state,
            &case.reference,
            &case.memory,
            case.dt,
        );
        assert_eq!(jacobian, differentiated.into_array().map(|a| a.partials));
    }
}

#[test]
fn every_gain_has_a_say() {
    let mut largest = [0.0_f64; GAIN_COUNT];
    for case in cases().take(500) {
        for row in ours_in_double(&case) {
            for (l, x) in largest.iter_mut().zip(row) {
                *l = l.max(x.abs());
            }
        }
    }
    for (gain, l) in GAINS.iter().zip(largest) {
        assert!(l > 1e-6, "{} never changes the action", gain.name);
    }
}

fn hover_action(state: State) -> Action {
    let reference = Reference::hover(Vec3::new(0.0, 0.0, 1.0));
    law::step(&Gains::nominal(), &Vehicle::NOMINAL, &state, &reference, &mut Memory::default(), 0.002)
}

#[test]
fn pushes_back_in_the_right_direction() {
    let level = State::at(Vec3::new(0.0, 0.0, 1.0));
    let hover = hover_action(level);
    let weight =
        Vehicle::NOMINAL.mass * steady_common::GRAVITY_M_S2 / (4.0 * steady_common::MAX_MOTOR_THRUST_N);
    assert!(
        (hover.thrust - weight).abs() < 1e-6 && hover.roll == 0.0 && hover.pitch == 0.0 && hover.yaw == 0.0
    );

    let at = |x, y, z| hover_action(State::at(Vec3::new(x, y, z)));
    assert!(at(0.0, 0.0, 0.9).thrust > hover.thrust);
    // Too far forward: lean back, which is nose up, positive in the power distribution.
    assert!(at(0.2, 0.0, 1.0).pitch > 0.0);
    // Too far left: lean right, the left side up, a positive torque about x.
    assert!(at(0.0, 0.2, 1.0).roll > 0.0);
    // Turned left: turn right, clockwise, positive in the power distribution.
    let turned = State { attitude: Quat::from_euler(Vec3::new(0.0, 0.0, 0.3)), ..level };
    assert!(hover_action(turned).yaw > 0.0);
    let spinning = State { rates: Vec3::new(1.0, -2.0, 3.0), ..level };
    let action = hover_action(spinning);
    assert!(action.roll < 0.0 && action.pitch < 0.0 && action.yaw > 0.0);
}

#[test]
fn of_two_headings_the_nearer_is_taken() {
    // Facing backwards: the opposite heading carries the same force, so there is nothing to turn.
    let backwards = State {
        attitude: Quat::from_euler(Vec3::new(0.0, 0.0, std::f32::consts::PI)),
        ..State::at(Vec3::new(0.0, 0.0, 1.0))
    };
    assert!(hover_action(backwards).yaw.abs() < 1e-5);
}

#[test]
fn far_too_high_sinks_upright() {
    let action = hover_action(State::at(Vec3::new(0.0, 0.0, 3.0)));
    let weight =
        Vehicle::NOMINAL.mass * steady_common::GRAVITY_M_S2 / (4.0 * steady_common::MAX_MOTOR_THRUST_N);
    assert!((action.thrust - 0.25 * weight).abs() < 1e-6);
    assert!(action.roll.abs() < 1e-6 && action.pitch.abs() < 1e-6);
}

#[test]
fn integrals_stop_at_their_limits() {
    let mut memory = Memory::default();
    let state = State::at(Vec3::new(0.5, -0.5, 0.2));
    let reference = Reference::hover(Vec3::new(0.0, 0.0, 1.0));
    for _ in 0..20_000 {
        law::step(&Gains::nominal(), &Vehicle::NOMINAL, &state, &reference, &mut memory, 0.002);
    }
    let [limit, ..] = Vehicle::NOMINAL.integral_limits;
    assert_eq!(memory.integral.position, Vec3::new(limit.xy, -limit.xy, -limit.z));
}

#[test]
fn rates_do_not_change_what_gains_mean() {
    // The same second of flight at 240 Hz and at 500 Hz: integrals agree, so do the forces.
    let fly = |hz: u16| {
        let mut memory = Memory::default();
        let mut action = Action::default();
        for k in 0..hz {
            let t = f32::from(k) / f32::from(hz);
            let state = State {
                position: Vec3::new(0.1 * t, 0.0, 1.0 - 0.1 * t * t),
                velocity: Vec3::new(0.1, 0.0, -0.2 * t),
                ..State::default()
            };
            let reference = Reference::hover(Vec3::new(0.0, 0.0, 1.0));
            action = law::step(
                &Gains::nominal(),
                &Vehicle::NOMINAL,
                &state,
                &reference,
                &mut memory,
                1.0 / f32::from(hz),
            );
        }
        action.into_array()
    };
    for (a, b) in fly(240).into_iter().zip(fly(500)) {
        assert!((a - b).abs() < 3e-3, "{a} {b}");
    }
}

fn any_vector() -> impl Strategy<Value = Vec3> {
    let any = prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL;
    prop::array::uniform3(any).prop_map(Vec3::from)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_finite_input_gives_a_nan(
        vectors in prop::array::uniform6(any_vector()),
        q in prop::array::uniform4(prop::num::f32::NORMAL | prop::num::f32::ZERO),
        yaw in prop::num::f32::NORMAL | prop::num::f32::ZERO,
        yaw_rate in prop::num::f32::NORMAL | prop::num::f32::ZERO,
        dt in prop::num::f32::NORMAL | prop::num::f32::ZERO,
    ) {
        let [position, velocity, rates, r_position, r_velocity, acceleration] = vectors;
        let [w, x, y, z] = q;
        let state = State { position, velocity, attitude: Quat::new(w, x, y, z), rates };
        let reference = Reference { position: r_position, velocity: r_velocity, acceleration, yaw, yaw_rate };
        let mut memory = Memory::default();
        for _ in 0..3 {
            let (action, jacobian) =
                law::jacobian(&Gains::nominal(), &Vehicle::NOMINAL, &state, &reference, &memory, dt);
            prop_assert!(action.into_array().iter().all(|a| a.is_finite()), "{action:?}");
            prop_assert!(jacobian.as_flattened().iter().all(|a| a.is_finite()));
            law::step(&Gains::nominal(), &Vehicle::NOMINAL, &state, &reference, &mut memory, dt);
        }
    }
}
