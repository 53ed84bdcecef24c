//! How fast two drones fly in one world, each on a thread of its own: virtual over real time of the slower one, while both
//! are in the air, beside one drone alone.
//!
//! The firmware is the one `cargo xtask firmware` built, or the one `STEADY_ELF` names.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use steady_common::Vec3;
use steady_sim::{Task, World};
use virtual_crazyflie::Image;
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::scene::Swarm;
use virtual_crazyflie::session::{Session, Setup};
use virtual_crazyflie::summary::Summary;

/// Takes off, hovers and lands; virtual over real time.
fn fly(image: Image, swarm: &Arc<Swarm>, number: usize, place_m: Vec3) -> Result<f64> {
    let world = World::named("paper")?;
    let mission = Mission::new(Task::TakeoffLand, Dongle::new(&world.radio, 1)).holding(10.0);
    let setup = Setup {
        image,
        world,
        seed: 1 + number as u64,
        pages: Vec::new(),
        flash: None,
        card: None,
        eeprom: Vec::new(),
        faults: Vec::new(),
        otp: "0;CF21".to_owned(),
        profile: false,
        strict: None,
    };
    let mut session = Session::new(setup, Box::new(mission))?;
    session.join(swarm, number, place_m);
    let end = session.run(60.0, None, |_| ());
    let summary = Summary::of(&session, &end, None);
    ensure!(summary.success, "drone {number}: the flight failed: {:?}", summary.failure);
    Ok(summary.speed)
}

/// The slowest of so many drones.
fn fly_together(image: &Image, count: usize) -> Result<f64> {
    let places: Vec<Vec3> = (0..count).map(|i| Vec3::new(0.5 * i as f32, 0.0, 0.0)).collect();
    let swarm = Arc::new(Swarm::new(places.clone()));
    let speeds: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(places)
            .map(|(number, place_m)| {
                let (image, swarm) = (image.clone(), &swarm);
                scope.spawn(move || fly(image, swarm, number, place_m))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))).collect()
    });
    let speeds: Vec<f64> = speeds.into_iter().collect::<Result<_>>()?;
    eprintln!("{count} together: {speeds:.2?} x real time");
    speeds.into_iter().min_by(f64::total_cmp).context("no drone")
}

fn main() -> Result<()> {
    let image = Image::load(&steady_test_support::image().context("no firmware image")?)?;
    let (alone, two) = (fly_together(&image, 1)?, fly_together(&image, 2)?);
    println!(
        "BENCH\ttwo drones in one world, the slower one\t{two:.2}\tx real time\tone alone\t{alone:.2}\t>=1"
    );
    Ok(())
}
