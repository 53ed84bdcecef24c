//! How fast the native drone is: simulated over real time on one core.
//!
//! `cargo run --release -p steady-native --example bench_native`

use std::time::Instant;

use steady_native::{Plan, fly};
use steady_sim::{PlantParams, Task, World, WorldError};

/// The best of so many flights counts: the rest is other programs' noise.
const FLIGHTS: u64 = 7;

fn main() -> Result<(), WorldError> {
    for (name, target) in [("paper", ">=100"), ("nominal", "-")] {
        let world = PlantParams::new(&World::named(name)?)?;
        let mut best = 0.0_f64;
        for seed in 1..=FLIGHTS {
            let mut last_s = 0.0;
            let start = Instant::now();
            // Flown whole: calibration, take-off, 7 s hover, landing.
            let flown = fly(&world, &Plan { seed, ..Plan::new(Task::TakeoffLand) }, |s| last_s = s.time_s);
            assert!(flown.failure.is_none(), "{:?}", flown.failure);
            best = best.max(f64::from(last_s) / start.elapsed().as_secs_f64());
        }
        println!(
            "BENCH\tnative flight, takeoff-land, {name}\t{best:.0}\tx real time\treal time\t1\t{target}"
        );
    }
    Ok(())
}
