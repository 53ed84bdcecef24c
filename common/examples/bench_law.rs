//! Times the control law and its Jacobian. Run by `cargo xtask bench`.

use std::hint::black_box;
use std::time::Instant;

use steady_common::gains::Gains;
use steady_common::law::{self, Memory, Vehicle};
use steady_common::{Quat, Reference, State, Vec3};

/// Nanoseconds per call: the best of several rounds, because noise only ever adds.
fn nanoseconds(mut f: impl FnMut(usize)) -> f64 {
    const CALLS: usize = 50_000;
    let round = |f: &mut dyn FnMut(usize)| {
        let start = Instant::now();
        (0..CALLS).for_each(&mut *f);
        start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
    };
    (0..15).map(|_| round(&mut f)).fold(f64::INFINITY, f64::min)
}

fn states() -> Vec<State> {
    (0..1024)
        .map(|i| {
            let t = i as f32 * 0.1;
            State {
                position: Vec3::new(t.sin(), t.cos(), 1.0) * 0.1,
                velocity: Vec3::new(t.cos(), 0.3, -t.sin()) * 0.3,
                attitude: Quat::from_euler(Vec3::new(t.sin() * 0.2, t.cos() * 0.2, t.sin())),
                rates: Vec3::new(t.cos(), t.sin(), 0.1),
            }
        })
        .collect()
}

fn main() {
    let states = states();
    let state = |i: usize| &states[i % states.len()];
    let (gains, vehicle) = (black_box(Gains::nominal()), black_box(Vehicle::NOMINAL));
    let reference = black_box(Reference::hover(Vec3::new(0.0, 0.0, 0.1)));
    let dt = black_box(0.002);

    let mut memory = Memory::default();
    let law = nanoseconds(|i| {
        black_box(law::step(&gains, &vehicle, state(i), &reference, &mut memory, dt));
    });
    let with_motors = nanoseconds(|i| {
        black_box(law::step(&gains, &vehicle, state(i), &reference, &mut memory, dt).motors());
    });
    let jacobian = nanoseconds(|i| {
        black_box(law::jacobian(&gains, &vehicle, state(i), &reference, &memory, dt));
    });
    println!("BENCH\tcontrol law, f32\t{law:.1}\tns/call\tlaw and motors\t{with_motors:.1}\t<=100");
    println!(
        "BENCH\tJacobian, 24 gains\t{jacobian:.0}\tns/call\t25 calls of the law\t{:.0}\t<=1500",
        25.0 * law
    );
}
