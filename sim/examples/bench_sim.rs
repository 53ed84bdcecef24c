//! How fast the simulator is. One line per figure, tab-separated:
//! `BENCH name value unit compared-with compared-value target`.
//!
//! `cargo run --release -p steady-sim --example bench_sim`

use std::time::Instant;

use steady_common::law::{self, Memory, Vehicle};
use steady_common::{Gains, Reference, Vec3};
use steady_sim::{Fleet, InitialDistribution, MAX_MOTOR_THRUST_N, World, WorldError};

const DRONES: usize = 16_384;
/// A quarter of a second: long enough to measure, and a drone that nobody steers is still in the air.
const STEPS: usize = 60;
const REPEATS: usize = 15;
/// Where the drones hover.
const GOAL_M: Vec3 = Vec3::new(0.0, 0.0, 1.0);

/// Who steers.
#[derive(Clone, Copy)]
enum Pilot {
    /// A line of code that only looks at the height.
    Simple,
    /// The differentiable Mellinger, one control step per physics step.
    Law,
}

/// A fleet to measure, and its best steps per second so far: the rest is other programs' noise.
struct Course {
    fleet: Fleet,
    memories: Vec<Memory>,
    threads: usize,
    pilot: Pilot,
    best: f64,
}

impl Course {
    fn new(world: &str, threads: usize, pilot: Pilot) -> Result<Self, WorldError> {
        let fleet = Fleet::new(&World::named(world)?, DRONES, 1)?;
        Ok(Self { fleet, memories: vec![Memory::default(); DRONES], threads, pilot, best: 0.0 })
    }

    fn run(&mut self) {
        let params = self.fleet.params();
        let hover = 0.25 * params.mass_kg * params.gravity_m_s2 / MAX_MOTOR_THRUST_N;
        let dt = params.dt_s;
        let (gains, vehicle, reference) = (Gains::nominal(), Vehicle::NOMINAL, Reference::hover(GOAL_M));
        self.fleet.reset(&InitialDistribution::Paper, GOAL_M);
        self.memories.fill(Memory::default());
        let start = Instant::now();
        match self.pilot {
            // Looks at the drone, as a controller would, so that nothing can be computed beforehand.
            Pilot::Simple => self.fleet.run(self.threads, STEPS, |drone, _| {
                let s = drone.truth();
                [hover + 0.5 * (1.0 - s.position.z) - 0.2 * s.velocity.z; 4]
            }),
            Pilot::Law => {
                self.fleet.run_with(self.threads, STEPS, &mut self.memories, |memory, drone, _| {
                    law::step(&gains, &vehicle, drone.truth(), &reference, memory, dt).motors().thrust
                });
            }
        }
        self.best = self.best.max((DRONES * STEPS) as f64 / start.elapsed().as_secs_f64());
    }
}

fn main() -> Result<(), WorldError> {
    let mut courses = [
        Course::new("nominal", 1, Pilot::Simple)?,
        Course::new("nominal", 2, Pilot::Simple)?,
        Course::new("paper", 1, Pilot::Simple)?,
        Course::new("nominal", 1, Pilot::Law)?,
        Course::new("nominal", 2, Pilot::Law)?,
    ];
    // In turns, so that a busy moment of the machine meets all of them.
    for _ in 0..REPEATS {
        courses.iter_mut().for_each(Course::run);
    }
    let [one, two, paper, law, law_two] = courses.map(|course| course.best);
    println!("BENCH\tphysics, world nominal, one core\t{one:.3e}\tsteps/s\tworld paper\t{paper:.3e}\t>=8e6");
    println!("BENCH\tphysics, scaling to two cores\t{:.2}\tx\tone core\t1\t>=1.8", two / one);
    println!("BENCH\tphysics and control law, one core\t{law:.3e}\tsteps/s\tphysics alone\t{one:.3e}\t>=4e6");
    println!("BENCH\tphysics and law, scaling to two\t{:.2}\tx\tone core\t1\t>=1.8", law_two / law);
    Ok(())
}
