//! How fast a whole flight runs: virtual over real time, and instructions a second.
//!
//! The firmware is the one `cargo xtask firmware` built, or the one `STEADY_ELF` names.

use anyhow::{Context, Result};
use steady_sim::{Task, World};
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::session::{Session, Setup};
use virtual_crazyflie::summary::Summary;
use virtual_crazyflie::{Image, sdimage};

fn main() -> Result<()> {
    let elf = steady_test_support::image().context("no firmware image")?;
    let card = std::env::temp_dir().join(format!("steady-bench-{}.img", std::process::id()));
    sdimage::create(&card, &[])?;
    let world = World::named("paper")?;
    let mission = Mission::new(Task::FigureEight, Dongle::new(&world.radio, 1));
    let setup = Setup {
        image: Image::load(&elf)?,
        world,
        seed: 1,
        pages: Vec::new(),
        flash: None,
        card: Some(card.clone()),
        eeprom: Vec::new(),
        faults: Vec::new(),
        otp: "0;CF21".to_owned(),
        profile: false,
        strict: None,
    };
    let mut session = Session::new(setup, Box::new(mission))?;
    let end = session.run(60.0, None, |_| ());
    let s = Summary::of(&session, &end, Some(&card));
    std::fs::remove_file(&card)?;
    anyhow::ensure!(s.success, "the flight failed: {:?}", s.failure);
    println!("BENCH\tvirtual flight, figure8, paper\t{:.2}\tx real time\treal time\t1\t>=2", s.speed);
    let rate = s.instructions as f64 / s.real_s;
    println!(
        "BENCH\temulated instructions\t{rate:.0}\t1/s\tthe drone in flight\t{:.0}\t-",
        s.instructions as f64 / s.virtual_s
    );
    println!("BENCH\tprocessor load in flight\t{:.1}\t%\tits limit\t50\t<=50", 100.0 * s.cpu_load);
    println!(
        "BENCH\tflight executor, worst run\t{}\tcycles\tmean\t{:.0}\t-",
        s.flight.cycles_max, s.flight.cycles_mean
    );
    for (name, effort, limit) in
        [("law and mixer", &s.control_step, 6000), ("estimator", &s.estimator, 30_000)]
    {
        println!(
            "BENCH\t{name}, worst call (estimate)\t{}\tcycles\tmean\t{:.0}\t<={limit}",
            effort.cycles_max, effort.cycles_mean
        );
    }
    Ok(())
}
