//! How fast a whole flight runs: virtual over real time, and instructions a second beside those of the engine alone.
//!
//! The firmware is the one `cargo xtask firmware` built, or the one `STEADY_ELF` names. The official firmware flies as
//! well when `STEADY_OFFICIAL_ELF` names an image of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use steady_common::Vec3;
use steady_sim::{Task, World};
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::scene::Swarm;
use virtual_crazyflie::session::{METERED, Session, Setup};
use virtual_crazyflie::summary::Summary;
use virtual_crazyflie::{Image, sdimage};

const OFFICIAL: &str = "STEADY_OFFICIAL_ELF";
/// The flight step, the largest function whose work is counted: estimator, law and what is around them.
const STEP: usize = 2;
/// When the step is looked at that the engine alone repeats: the drone flies then.
const STEP_AT_S: f64 = 12.0;
const STEP_CALLS: u32 = 20_000;
/// Drones of one world stand so far apart, m.
const SPACING_M: f32 = 0.5;

fn main() -> Result<()> {
    let elf = steady_test_support::image().context("no firmware image")?;
    let image = || Image::load(&elf);
    let alone = fly(image()?, Task::FigureEight, "paper", 1, &[], None)?;
    let s = &alone.summary;
    alone.tell_speed("virtual flight, figure8, paper", 6);
    let bare = engine_alone(image()?)?;
    println!(
        "BENCH\temulated instructions\t{:.0}\t1/s\tbare engine, flight step\t{bare:.0}\t-",
        s.instructions as f64 / alone.busy_s
    );
    println!(
        "BENCH\tinstructions the drone executes\t{:.0}\t1/s\tcycles of the drone\t168e6\t-",
        s.instructions as f64 / s.virtual_s
    );
    let two = together(&elf, 2)?;
    let slowest = two.iter().map(|f| f.summary.speed).fold(f64::INFINITY, f64::min);
    println!(
        "BENCH\teach of two drones in one world\t{slowest:.2}\tx real time\tone alone\t{:.2}\t>=1",
        s.speed
    );
    if let Some(elf) = std::env::var_os(OFFICIAL) {
        let settings = ["stabilizer.estimator=2", "stabilizer.controller=2"];
        let official = fly(
            Image::load(Path::new(&elf)).context(OFFICIAL)?,
            Task::FigureEight,
            "nominal",
            1,
            &settings,
            None,
        )?;
        official.tell_speed("official firmware, figure8", 3);
    }
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

/// A flight and what it took.
struct Flight {
    summary: Summary,
    /// Time on a processor, s.
    busy_s: f64,
}

impl Flight {
    /// The speed on a core of its own, beside the one by the clock, which depends on what else the machine does.
    fn tell_speed(&self, name: &str, target: u32) {
        let speed = self.summary.virtual_s / self.busy_s;
        println!("BENCH\t{name}\t{speed:.2}\tx real time\treal time\t1\t>={target}");
        println!(
            "BENCH\t{name}, by the clock\t{:.2}\tx real time\tby processor time\t{speed:.2}\t-",
            self.summary.speed
        );
    }
}

/// A world that is shared, the drone's number in it, and a start for all at once.
type Place<'a> = (&'a Arc<Swarm>, usize, &'a Barrier);

fn fly(
    image: Image,
    task: Task,
    world: &str,
    seed: u64,
    settings: &[&str],
    place: Option<Place<'_>>,
) -> Result<Flight> {
    let card = Card::create(seed)?;
    let mut session = session(image, task, world, seed, settings, &card)?;
    if let Some((swarm, number, start)) = place {
        session.join(swarm, number, place_m(number));
        start.wait();
    }
    let watch = Watch::start();
    let end = session.run(60.0, None, |_| ());
    let busy_s = watch.busy_s();
    let summary = Summary::of(&session, &end, Some(&card.0));
    ensure!(summary.success, "the flight failed: {:?}", summary.failure);
    Ok(Flight { summary, busy_s })
}

fn place_m(number: usize) -> Vec3 {
    Vec3::new(number as f32 * SPACING_M, 0.0, 0.0)
}

/// Drones that hover in one world, each on a thread of its own.
fn together(elf: &Path, drones: usize) -> Result<Vec<Flight>> {
    let swarm = Arc::new(Swarm::new((0..drones).map(place_m).collect()));
    let start = Barrier::new(drones);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..drones)
            .map(|number| {
                let place = (&swarm, number, &start);
                let image = Image::load(elf);
                scope.spawn(move || fly(image?, Task::Hover, "paper", 1 + number as u64, &[], Some(place)))
            })
            .collect();
        let flown = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| anyhow::bail!("a drone's thread panicked")));
        flown.collect()
    })
}

/// Instructions a second of the engine alone, without any callback: one flight step, again and again.
fn engine_alone(image: Image) -> Result<f64> {
    let entry = image.address_of(METERED[STEP]).context("the image has no flight step")?;
    let card = Card::create(0)?;
    let mut session = session(image, Task::FigureEight, "paper", 1, &[], &card)?;
    session.run(STEP_AT_S, None, |_| ());
    let to_entry = |session: &mut Session| {
        for _ in 0..1_000_000 {
            let now = session.machine.look().now;
            ensure!(session.machine.run_until(now + 1).is_none(), "the flight stopped");
            if session.machine.pc() == entry {
                return Ok(());
            }
        }
        anyhow::bail!("the flight step is not called any more")
    };
    to_entry(&mut session)?;
    // How many instructions this very call takes is known when the next one begins.
    let call = session.machine.call();
    let before = session.machine.look().meters.work(STEP);
    session.machine.run_until(session.machine.look().now + 1);
    to_entry(&mut session)?;
    let after = session.machine.look().meters.work(STEP);
    ensure!(after.calls == before.calls + 1, "the flight step did not return once");
    let instructions = after.instructions - before.instructions;
    // The first one translates the code.
    session.machine.repeat_uncounted(&call, 1)?;
    let watch = Watch::start();
    session.machine.repeat_uncounted(&call, STEP_CALLS)?;
    Ok(f64::from(STEP_CALLS) * instructions as f64 / watch.busy_s())
}

fn session(
    image: Image,
    task: Task,
    world: &str,
    seed: u64,
    settings: &[&str],
    card: &Card,
) -> Result<Session> {
    let world = World::named(world)?;
    let settings = settings.iter().map(|text| text.parse()).collect::<Result<Vec<_>>>()?;
    let mut mission = Mission::new(task, Dongle::new(&world.radio, seed)).with_settings(settings);
    if !image.is_ours() {
        mission = mission.identifying();
    }
    let setup = Setup {
        image,
        world,
        seed,
        pages: Vec::new(),
        flash: None,
        card: Some(card.0.clone()),
        eeprom: Vec::new(),
        faults: Vec::new(),
        otp: "0;CF21".to_owned(),
        profile: false,
        strict: None,
    };
    Session::new(setup, Box::new(mission))
}

/// A card's image, gone with the flight.
struct Card(PathBuf);

impl Card {
    fn create(number: u64) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("steady-bench-{}-{number}.img", std::process::id()));
        sdimage::create(&path, &[])?;
        Ok(Self(path))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // What is left in the temporary folder is the system's to clean up.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures the time that this thread has had on a processor: other programs do not lengthen it, apart from what
/// they take of the caches.
struct Watch {
    processor_s: Option<f64>,
    started: Instant,
}

impl Watch {
    fn start() -> Self {
        Self { processor_s: processor_s(), started: Instant::now() }
    }

    /// Time on a processor, s; by the clock where the system does not tell.
    fn busy_s(&self) -> f64 {
        let processor_s = processor_s().zip(self.processor_s).map(|(now, before)| now - before);
        processor_s.unwrap_or_else(|| self.started.elapsed().as_secs_f64())
    }
}

fn processor_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}
