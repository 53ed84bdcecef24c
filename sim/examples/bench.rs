//! How fast the simulator is. One line per figure, tab-separated:
//! `BENCH name value unit compared-with compared-value target`.
//!
//! `cargo run --release -p steady-sim --example bench`

use std::time::Instant;

use steady_common::Vec3;
use steady_sim::{Fleet, InitialDistribution, MAX_MOTOR_THRUST_N, World, WorldError};

const DRONES: usize = 16_384;
/// A quarter of a second: nobody steers, so later some drones would lie on the floor.
const STEPS: usize = 60;
const REPEATS: usize = 15;

/// A fleet to measure, and its best physics steps per second so far: the rest is other programs' noise.
struct Course {
    fleet: Fleet,
    threads: usize,
    best: f64,
}

impl Course {
    fn new(world: &str, threads: usize) -> Result<Self, WorldError> {
        Ok(Self { fleet: Fleet::new(&World::named(world)?, DRONES, 1)?, threads, best: 0.0 })
    }

    fn run(&mut self) {
        let params = self.fleet.params();
        let hover = 0.25 * params.mass_kg * params.gravity_m_s2 / MAX_MOTOR_THRUST_N;
        self.fleet.reset(&InitialDistribution::Paper, Vec3::new(0.0, 0.0, 1.0));
        let start = Instant::now();
        // Looks at the drone, as a controller would, so that nothing can be computed beforehand.
        self.fleet.run(self.threads, STEPS, |drone, _| {
            let s = drone.perceived();
            [hover + 0.5 * (1.0 - s.position.z) - 0.2 * s.velocity.z; 4]
        });
        self.best = self.best.max((DRONES * STEPS) as f64 / start.elapsed().as_secs_f64());
    }
}

fn main() -> Result<(), WorldError> {
    let mut courses = [Course::new("nominal", 1)?, Course::new("nominal", 2)?, Course::new("paper", 1)?];
    // In turns, so that a busy moment of the machine meets all of them.
    for _ in 0..REPEATS {
        courses.iter_mut().for_each(Course::run);
    }
    let [one, two, paper] = courses.map(|course| course.best);
    println!(
        "BENCH\tsim physics, world nominal, one core\t{one:.3e}\tsteps/s\tworld paper\t{paper:.3e}\t>=8e6"
    );
    let scaling = two / one;
    println!("BENCH\tsim scaling, two cores\t{scaling:.2}\tx\tone core, steps/s\t{one:.3e}\t>=1.8");
    Ok(())
}
