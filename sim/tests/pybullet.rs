//! Against rollouts of gym-pybullet-drones' CF2X, made by a program that nobody here wrote.
//!
//! The files come from the folder in `STEADY_DATA`, or from `../shared/data` beside the project.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use steady_common::{Quat, State, Vec3};
use steady_sim::world::{Integrator, RotorDrag};
use steady_sim::{Drone, Initial, Params, World};

/// One row: the state before a step and the speeds then applied.
struct Row {
    case: u32,
    state: State,
    rpm: [f32; 4],
}

/// The data folder; `None` when the project stands alone.
fn data_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STEADY_DATA") {
        return Some(folder.into());
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    shared.exists().then(|| shared.join("data"))
}

/// Rollout files of a kind: `""`, `"gnd"` or `"drag"`.
fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let kind_of = |name: &str| ["gnd", "drag"].into_iter().find(|k| name.contains(k)).unwrap_or("");
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("gpd_pyb")
                && (name.ends_with(".csv") || name.ends_with(".csv.gz"))
                && kind_of(&name) == kind
            {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no gpd_pyb*{kind}*.csv[.gz] below {}", folder.display());
    found
}

fn read(path: &Path) -> Vec<Row> {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let is_packed = path.extension().is_some_and(|e| e == "gz");
    let input: Box<dyn Read> =
        if is_packed { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
    let mut reader = csv::Reader::from_reader(input);
    let header = reader.headers().unwrap().clone();
    let column =
        |name: &str| header.iter().position(|h| h == name).unwrap_or_else(|| panic!("no column {name}"));
    let names = "case x y z qw qx qy qz vx vy vz wx wy wz rpm0 rpm1 rpm2 rpm3";
    let columns: Vec<usize> = names.split(' ').map(column).collect();
    let to_row = |record: csv::StringRecord| {
        let v: Vec<f32> = columns.iter().map(|&c| record[c].parse().unwrap()).collect();
        let attitude = Quat::new(v[4], v[5], v[6], v[7]).normalized();
        let world_rates = Vec3::new(v[11], v[12], v[13]);
        let state = State {
            position: Vec3::new(v[1], v[2], v[3]),
            velocity: Vec3::new(v[8], v[9], v[10]),
            attitude,
            rates: attitude.to_matrix().apply_transposed(world_rates),
        };
        Row { case: v[0] as u32, state, rpm: [v[14], v[15], v[16], v[17]] }
    };
    reader.records().map(|r| to_row(r.unwrap())).collect()
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

/// Compares all files of a kind and returns the worst of one step and of 120.
fn compare(kind: &str, change: impl Fn(&mut World)) -> Option<(Worst, Worst)> {
    let Some(folder) = data_folder() else {
        eprintln!("no STEADY_DATA and no ../shared beside the project: PyBullet rollouts not compared");
        return None;
    };
    let mut world = World::named("gym").unwrap();
    change(&mut world);
    let params = world.compile().unwrap();
    let (mut one, mut many) = (Worst::default(), Worst::default());
    let (mut steps, mut flights) = (0, 0);
    for path in files(&folder, kind) {
        let rows = read(&path);
        assert!(rows.len() > 1, "{} has no rows", path.display());
        for case in rows.chunk_by(|a, b| a.case == b.case) {
            for k in 0..case.len() - 1 {
                one.see(&fly(&params, case, k, 1), &case[k + 1].state);
                steps += 1;
            }
            if case.len() > 120 {
                many.see(&fly(&params, case, 0, 120), &case[120].state);
                flights += 1;
            }
        }
    }
    assert!(steps > 0 && flights > 0, "{kind}: nothing to compare");
    println!("`{kind}`: {steps} single steps, worst {one:?}; {flights} flights of 120 steps, worst {many:?}");
    Some((one, many))
}

/// Tolerances of one step and of 120: position in m, velocity in m/s.
fn check((one, many): (Worst, Worst), one_step: [f32; 2], flight: [f32; 2]) {
    assert!(one.position <= one_step[0] && one.velocity <= one_step[1], "{one:?}");
    assert!(many.position <= flight[0] && many.velocity <= flight[1], "{many:?}");
}

/// The plain semi-implicit step differs from PyBullet's by one step's turn of the rotors' frame.
#[test]
fn the_nominal_world_is_near_pybullet() {
    if let Some(worst) = compare("", |_| ()) {
        check(worst, [12e-6, 3e-3], [5e-3, 0.04]);
    }
    if let Some(worst) = compare("gnd", |w| w.aero.ground_effect = true) {
        check(worst, [12e-6, 3e-3], [5e-3, 0.04]);
    }
    if let Some(worst) = compare("drag", |w| w.aero.rotor_drag = RotorDrag::GymPybulletDrones) {
        check(worst, [12e-6, 3e-3], [5e-3, 0.04]);
    }
}

/// The Bullet-like step leaves nothing but rounding.
#[test]
fn the_bullet_integrator_is_pybullet() {
    let bullet = |w: &mut World| w.physics.integrator = Integrator::Bullet;
    if let Some(worst) = compare("", bullet) {
        check(worst, [5e-7, 2e-6], [2e-5, 2e-4]);
    }
    let ground = |w: &mut World| (w.physics.integrator, w.aero.ground_effect) = (Integrator::Bullet, true);
    if let Some(worst) = compare("gnd", ground) {
        check(worst, [5e-7, 2e-6], [2e-5, 2e-4]);
    }
    let drag = |w: &mut World| {
        (w.physics.integrator, w.aero.rotor_drag) = (Integrator::Bullet, RotorDrag::GymPybulletDrones);
    };
    if let Some(worst) = compare("drag", drag) {
        check(worst, [5e-7, 2e-6], [2e-5, 2e-4]);
    }
}
