//! How fast recorded flights are scored and a world is identified from them. One line per figure, tab-separated:
//! `BENCH name value unit compared-with compared-value target`.
//!
//! `cargo run --release -p steady-reality --example bench_reality`

use std::hint::black_box;
use std::time::Instant;

use steady_native::{Plan, fly};
use steady_reality::identify::identify;
use steady_reality::{Flight, score};
use steady_sim::{PlantParams, Task, World, WorldError};

const FLIGHTS: u64 = 10;

/// Seconds of the fastest of three.
fn best(mut work: impl FnMut()) -> f64 {
    let timed = (0..3).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    timed.fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), WorldError> {
    let (world, real) = (World::sample_measured(1), World::named("real")?);
    let plant = PlantParams::new(&world)?;
    let flights: Vec<Flight> = (0..FLIGHTS)
        .filter_map(|seed| {
            let plan = Plan { seed, ..Plan::new(Task::FigureEight) };
            Flight::from_log("simulated", &fly(&plant, &plan, |_| {}).records)
        })
        .collect();
    let count = flights.len() as f64;
    // The simulator's own speed: body steps of a prediction, and nothing else.
    let params = world.compile()?;
    let rpm = [params.hover_rpm(); 4];
    let steps = 1_000_000;
    let bare_s = best(|| {
        let mut state = flights[0].samples[flights[0].take_off].state;
        (0..steps).for_each(|_| params.step_body(&mut state, &rpm, &Default::default()));
        black_box(state);
    });
    let mut predictions = 0;
    let score_s = best(|| {
        predictions = 0;
        for flight in &flights {
            if let Ok(tally) = score::world(black_box(&real), flight, false) {
                predictions += tally.score("").windows;
            }
        }
    });
    // Half a second at 500 Hz each.
    let scored_per_s = 250.0 * predictions as f64 / score_s;
    let bare_per_s = f64::from(steps) / bare_s;
    println!(
        "BENCH\tscoring flights, one core\t{scored_per_s:.4e}\tsteps/s\tbare steps of the body\t{bare_per_s:.4e}\t-"
    );
    println!("BENCH\tscoring flights, one core\t{:.1}\tflights/s\t-\t-\t-", count / score_s);
    let identify_s = best(|| {
        black_box(identify(&real, 0.027, &flights, |_, _| {}));
    });
    println!(
        "BENCH\tidentifying a world, ten flights\t{identify_s:.2}\ts\tscoring them once\t{score_s:.3}\t<=20"
    );
    Ok(())
}
