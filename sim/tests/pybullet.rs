//! Against rollouts of gym-pybullet-drones' CF2X, made by a program that nobody here wrote.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::{Quat, State, Vec3};
use steady_sim::world::{Integrator, RotorDrag};
use steady_sim::{Drone, Initial, Params, World};
use steady_test_support::{Table, tables};

/// One row: the state before a step and the speeds then applied.
struct Row {
    case: i64,
    state: State,
    rpm: [f32; 4],
}

fn rows(table: &Table) -> Vec<Row> {
    let to_row = |row: &steady_test_support::Row| {
        let vector = |columns: [&str; 3]| Vec3::from(columns.map(|column| row.f32(column)));
        let attitude = Quat::new(row.f32("qw"), row.f32("qx"), row.f32("qy"), row.f32("qz")).normalized();
        let state = State {
            position: vector(["x", "y", "z"]),
            velocity: vector(["vx", "vy", "vz"]),
            attitude,
            // The rollouts' angular velocity is in the world frame.
            rates: attitude.to_matrix().apply_transposed(vector(["wx", "wy", "wz"])),
        };
        let rpm = ["rpm0", "rpm1", "rpm2", "rpm3"].map(|column| row.f32(column));
        Row { case: row.int("case"), state, rpm }
    };
    table.rows.iter().map(to_row).collect()
}

/// Largest differences in position (m), velocity (m/s), attitude (rad) and rates (rad/s).
#[derive(Clone, Copy, Default, Debug)]
struct Worst {
    position: f32,
    velocity: f32,
    attitude: f32,
    rates: f32,
}

impl Worst {
    fn see(&mut self, ours: &State, theirs: &State) {
        let turn = ours.attitude.conjugate() * theirs.attitude;
        let angle = 2.0 * Vec3::new(turn.x, turn.y, turn.z).norm();
        self.position = self.position.max((ours.position - theirs.position).norm());
        self.velocity = self.velocity.max((ours.velocity - theirs.velocity).norm());
        self.attitude = self.attitude.max(angle);
        self.rates = self.rates.max((ours.rates - theirs.rates).norm());
    }
}

/// Flies rows `from..from + steps` open loop and returns the final state.
fn fly(params: &Params, rows: &[Row], from: usize, steps: usize) -> State {
    let mut drone = Drone::new(params, 0, 0);
    // The rotors' speed of the step before drives the drag; the first step has none.
    let rpm = if from == 0 { [0.0; 4] } else { rows[from - 1].rpm };
    let last_attitude = from.checked_sub(1).map(|last| rows[last].state.attitude);
    drone.reset(params, &Initial { state: rows[from].state, rpm, last_attitude });
    for row in &rows[from..from + steps] {
        drone.step_rpm(params, row.rpm);
    }
    *drone.truth()
}

/// Compares all rollouts of a stem and checks the worst of one step and of 120: position in m, velocity
/// in m/s.
fn compare(stem: &str, one_step: [f32; 2], flight: [f32; 2], change: impl Fn(&mut World)) {
    let mut world = World::named("gym").unwrap();
    change(&mut world);
    let params = world.compile().unwrap();
    for table in tables(stem) {
        let (mut one, mut many) = (Worst::default(), Worst::default());
        let (mut steps, mut flights) = (0, 0);
        for case in rows(&table).chunk_by(|a, b| a.case == b.case) {
            for k in 0..case.len() - 1 {
                one.see(&fly(&params, case, k, 1), &case[k + 1].state);
                steps += 1;
            }
            if case.len() > 120 {
                many.see(&fly(&params, case, 0, 120), &case[120].state);
                flights += 1;
            }
        }
        let name = &table.name;
        println!(
            "{name}: {steps} single steps, worst {one:?}; {flights} flights of 120 steps, worst {many:?}"
        );
        assert!(steps > 0 && flights > 0, "{name}: nothing to compare");
        assert!(one.position <= one_step[0] && one.velocity <= one_step[1], "{name}: {one:?}");
        assert!(many.position <= flight[0] && many.velocity <= flight[1], "{name}: {many:?}");
    }
}

/// The plain semi-implicit step differs from PyBullet's by one step's turn of the rotors' frame.
#[test]
fn the_nominal_world_is_near_pybullet() {
    let near = |stem, change: fn(&mut World)| compare(stem, [12e-6, 3e-3], [5e-3, 0.04], change);
    near("gpd_pyb", |_| ());
    near("gpd_pyb_gnd", |w| w.aero.ground_effect = true);
    near("gpd_pyb_drag", |w| w.aero.rotor_drag = RotorDrag::GymPybulletDrones);
}

/// The Bullet-like step leaves nothing but rounding.
#[test]
fn the_bullet_integrator_is_pybullet() {
    let same = |stem, change: fn(&mut World)| {
        compare(stem, [5e-7, 2e-6], [2e-5, 2e-4], |w| {
            w.physics.integrator = Integrator::Bullet;
            change(w);
        });
    };
    same("gpd_pyb", |_| ());
    same("gpd_pyb_gnd", |w| w.aero.ground_effect = true);
    same("gpd_pyb_drag", |w| w.aero.rotor_drag = RotorDrag::GymPybulletDrones);
}
