//! The real firmware image flies: tasks, worlds, faults, and the same bits every time.
//!
//! Needs the image that `cargo xtask firmware` builds, or the one `STEADY_ELF` names; without it these
//! tests say that they were skipped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use steady_sim::World;
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::{Mission, Task};
use virtual_crazyflie::session::{End, Session, Setup};
use virtual_crazyflie::summary::Summary;
use virtual_crazyflie::{Image, sdimage};

/// The image, or `None` after saying so.
fn image() -> Option<Image> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/firmware/steady.elf");
    let path = std::env::var_os("STEADY_ELF").map_or_else(|| PathBuf::from(default), PathBuf::from);
    if !path.is_file() {
        eprintln!("skipped: no firmware at {}; build it with `cargo xtask firmware`", path.display());
        return None;
    }
    Some(Image::load(&path).unwrap())
}

/// A flight to be flown.
struct Plan {
    task: Task,
    world: &'static str,
    seed: u64,
    faults: Vec<String>,
    has_card: bool,
    limit_s: f64,
    /// Changes the image before it is put into the drone.
    damage: Option<fn(&mut Image)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            task: Task::Hover,
            world: "nominal",
            seed: 1,
            faults: Vec::new(),
            has_card: true,
            limit_s: 20.0,
            damage: None,
        }
    }
}

/// What came of it, with everything that a run can differ in.
struct Flown {
    summary: Summary,
    end: End,
    motors: Vec<[u16; 4]>,
    heights: Vec<f32>,
    tilts: Vec<f32>,
    lines: Vec<(u64, String)>,
    log: Vec<u8>,
}

impl Flown {
    fn says(&self, text: &str) -> bool {
        self.lines.iter().any(|(_, line)| line.contains(text)) || self.summary.console.contains(text)
    }

    fn log(&self) -> &virtual_crazyflie::summary::LogFile {
        self.summary.logs.first().expect("a log file")
    }
}

/// Flies; `None` without an image. Hovering is cut to 2 s, so that a flight takes 12 s in all: ready
/// at 1.5 s, in the air from 2 s, at rest from 4.6 s, landing at 6.6 s, on the floor at 9.7 s.
fn fly(plan: Plan) -> Option<Flown> {
    let mut image = image()?;
    if let Some(damage) = plan.damage {
        damage(&mut image);
    }
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.img");
    if plan.has_card {
        sdimage::create(&card, &[]).unwrap();
    }
    let world = World::named(plan.world).unwrap();
    let is_hover = plan.task == Task::Hover;
    let mut mission = Mission::new(plan.task, Dongle::new(&world.radio, plan.seed));
    if is_hover {
        mission = mission.holding(2.0);
    }
    let card = plan.has_card.then_some(card);
    let setup = Setup {
        image,
        world,
        seed: plan.seed,
        pages: Vec::new(),
        flash: None,
        card: card.clone(),
        eeprom: Vec::new(),
        faults: plan.faults.iter().map(|f| f.parse().unwrap()).collect(),
        profile: false,
    };
    let mut session = Session::new(setup, Box::new(mission)).unwrap();
    let end = session.run(plan.limit_s, None, |_| ());
    let summary = Summary::of(&session, &end, card.as_deref());
    eprintln!("{}", serde_json::to_string_pretty(&summary).unwrap());
    let log = match (&card, summary.logs.first()) {
        (Some(card), Some(log)) => sdimage::read(card, &log.name).unwrap_or_default(),
        _ => Vec::new(),
    };
    let scene = session.scene();
    Some(Flown {
        motors: scene.samples.iter().map(|s| s.motors).collect(),
        heights: scene.samples.iter().map(|s| s.truth.position.z).collect(),
        tilts: scene.samples.iter().map(|s| s.truth.attitude.to_matrix().z.z).collect(),
        lines: session.lines.clone(),
        summary,
        end,
        log,
    })
}

fn with(faults: &[&str]) -> Option<Flown> {
    fly(Plan { faults: faults.iter().map(|f| (*f).to_owned()).collect(), ..Plan::default() })
}

/// A flight that ended as flights should.
fn assert_landed(flown: &Flown) {
    assert!(flown.summary.success, "{:?}", flown.summary.failure);
    assert!(flown.summary.is_landed);
    assert!(flown.summary.highest_m > 0.9);
}

fn assert_flies(task: Task, world: &'static str, error_m: f64) {
    let Some(flown) = fly(Plan { task, world, limit_s: 60.0, ..Plan::default() }) else { return };
    assert_landed(&flown);
    assert_eq!(flown.end, End::PowerOff, "the button switches it off");
    let tracking = flown.summary.tracking.unwrap();
    assert!(tracking.tracking_error_m < error_m, "{tracking:?}");
    let log = flown.log();
    assert!(log.is_closed && log.lost == 0 && log.skipped_bytes == 0, "{log:?}");
    assert!(log.records as f64 > 480.0 * tracking.duration_s, "{log:?}");
    assert!(flown.summary.cpu_load < 0.5, "{}", flown.summary.cpu_load);
    assert_eq!(flown.summary.serial_errors, [0, 0]);
    assert!(flown.summary.resets.is_empty() && flown.summary.faults.is_empty());
}

#[test]
fn takes_off_and_lands_in_the_nominal_world() {
    assert_flies(Task::TakeoffLand, "nominal", 0.02);
}

#[test]
fn takes_off_and_lands_in_the_papers_world() {
    assert_flies(Task::TakeoffLand, "paper", 0.10);
}

#[test]
fn flies_the_figure_eight_in_the_nominal_world() {
    assert_flies(Task::FigureEight, "nominal", 0.05);
}

#[test]
fn flies_the_figure_eight_in_the_papers_world() {
    assert_flies(Task::FigureEight, "paper", 0.15);
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_does_not() {
    let run = |seed| fly(Plan { world: "paper", seed, ..Plan::default() });
    let (Some(a), Some(b), Some(c)) = (run(7), run(7), run(8)) else { return };
    assert_eq!(a.motors, b.motors);
    assert!(a.log == b.log && !a.log.is_empty(), "the logs differ");
    assert_eq!(a.lines, b.lines);
    assert_eq!(a.summary.instructions, b.summary.instructions);
    assert_ne!(a.motors, c.motors);
}

// Faults. Where one strikes in the air it is at 5.5 s: at rest, 1 m above the floor.

/// The log has every control step up to a time at least, and nothing that is not one.
fn assert_log_until(flown: &Flown, seconds: f64) {
    let log = flown.log();
    assert_eq!(log.problem, None);
    assert_eq!(log.lost, 0, "{log:?}");
    // It begins when the drone is armed, 1.5 s after power-on.
    assert!(log.records as f64 > 500.0 * (seconds - 1.7), "{log:?}");
}

/// The motors stand still from a time on.
fn assert_motors_off_from(flown: &Flown, seconds: f64) {
    let from = (seconds * 1000.0) as usize;
    let running = flown.motors.iter().skip(from).position(|m| *m != [0; 4]);
    assert_eq!(running, None, "a motor turns so many ms after {seconds} s");
}

/// It came down on its own: no longer in the air, motors off, upright.
fn assert_on_the_floor(flown: &Flown) {
    assert!(*flown.heights.last().unwrap() < 0.05, "{:?}", flown.heights.last());
    assert!(*flown.tilts.last().unwrap() > 0.9);
    assert_eq!(*flown.motors.last().unwrap(), [0; 4]);
}

#[test]
fn a_card_pulled_in_flight_costs_only_the_log_after_it() {
    let Some(flown) = with(&["5.5:card-pulled"]) else { return };
    assert_landed(&flown);
    // What was not flushed yet is lost with the card.
    assert_log_until(&flown, 4.5);
    assert!(flown.says("the card failed"));
}

#[test]
fn a_card_that_wears_out_in_flight_costs_only_the_log_after_it() {
    let Some(flown) = with(&["5.5:card-read-only"]) else { return };
    assert_landed(&flown);
    assert_log_until(&flown, 4.5);
}

#[test]
fn a_slow_card_drops_whole_records_and_never_disturbs_the_flight() {
    let Some(flown) = with(&["1:card-slow=20"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.tracking.unwrap().tracking_error_m < 0.02);
    let log = flown.log();
    assert!(log.lost > 0 && log.skipped_bytes == 0, "{log:?}");
}

#[test]
fn without_a_card_it_flies_all_the_same() {
    let Some(flown) = fly(Plan { has_card: false, ..Plan::default() }) else { return };
    assert_landed(&flown);
    assert!(flown.summary.logs.is_empty());
}

#[test]
fn a_sensor_bus_that_hangs_for_good_stops_the_motors() {
    let Some(flown) = with(&["5.5:imu-stuck"]) else { return };
    assert!(!flown.summary.success);
    assert_motors_off_from(&flown, 5.8);
    assert_log_until(&flown, 4.5);
}

#[test]
fn a_sensor_bus_that_hangs_for_a_moment_is_brought_back() {
    let Some(flown) = with(&["5.5:imu-stuck", "5.515:imu-back"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.resets.is_empty());
    assert!(flown.summary.tracking.unwrap().worst_error_m < 0.1);
}

#[test]
fn sensors_that_fall_silent_stop_the_motors() {
    let Some(flown) = with(&["5.5:imu-dead"]) else { return };
    assert!(!flown.summary.success);
    assert_motors_off_from(&flown, 5.8);
    assert_log_until(&flown, 4.5);
}

#[test]
fn lost_motion_capture_ends_in_a_landing_of_its_own() {
    let Some(flown) = with(&["5.5:mocap-lost"]) else { return };
    assert_on_the_floor(&flown);
    let drift = flown.summary.final_position_m;
    assert!(drift[0].hypot(drift[1]) < 0.5, "{drift:?}");
}

#[test]
fn motion_capture_lost_for_a_moment_is_flown_over() {
    let Some(flown) = with(&["5.5:mocap-lost", "5.8:mocap-back"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.tracking.unwrap().worst_error_m < 0.1);
    assert_log_until(&flown, 9.0);
}

#[test]
fn a_silent_radio_ends_in_a_landing_without_the_ground() {
    let Some(flown) = with(&["5.5:radio-silent"]) else { return };
    assert!(!flown.summary.success, "the ground cannot know");
    assert_on_the_floor(&flown);
    assert_log_until(&flown, 5.5);
}

#[test]
fn a_dead_motor_ends_with_the_motors_off_and_the_log_whole() {
    let Some(flown) = with(&["5.5:motor-dies=1"]) else { return };
    assert_eq!(*flown.motors.last().unwrap(), [0; 4]);
    assert_log_until(&flown, 5.5);
}

#[test]
fn weak_motors_bring_it_down_and_then_stand_still() {
    let Some(flown) = with(&["5.5:motors-weak=0.5"]) else { return };
    assert_on_the_floor(&flown);
    assert_log_until(&flown, 5.5);
}

#[test]
fn a_battery_that_reads_low_at_once_is_flown_and_landed_with() {
    let Some(flown) = with(&["5.5:battery-sag=0.6"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.tracking.unwrap().worst_error_m < 0.15);
}

#[test]
fn a_brown_out_stops_the_motors_and_is_told_at_the_next_start() {
    let Some(flown) = with(&["5.5:brown-out"]) else { return };
    assert_motors_off_from(&flown, 5.51);
    assert_eq!(flown.summary.resets.len(), 1);
    assert!(flown.says("start by brown-out"));
    assert_log_until(&flown, 4.5);
}

#[test]
fn a_pulled_reset_line_stops_the_motors_and_is_told() {
    let Some(flown) = with(&["5.5:reset"]) else { return };
    assert_motors_off_from(&flown, 5.51);
    assert!(flown.says("start by reset line"));
    assert_log_until(&flown, 4.5);
}

#[test]
fn a_power_cut_between_any_two_instructions_leaves_a_whole_log() {
    for moment in ["5.5000017:power-cut", "4.1234567:power-cut", "3.0000101:power-cut"] {
        let Some(flown) = with(&[moment]) else { return };
        let cut: f64 = moment.split(':').next().unwrap().parse().unwrap();
        assert_motors_off_from(&flown, cut + 0.01);
        assert_log_until(&flown, cut - 1.0);
    }
}

#[test]
fn a_power_cut_while_the_log_begins_leaves_a_card_that_can_be_used() {
    let Some(flown) = with(&["1.53:power-cut"]) else { return };
    assert_eq!(flown.summary.resets.len(), 1);
    assert_motors_off_from(&flown, 1.54);
    // The file may be empty, but the file system is whole and the drone takes the card again.
    assert!(flown.summary.logs.iter().all(|log| log.lost == 0), "{:?}", flown.summary.logs);
    assert!(flown.says("card: ready"));
}

#[test]
fn a_short_stall_of_the_processor_is_flown_over() {
    let Some(flown) = with(&["5.5:stall=30"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.resets.is_empty());
}

#[test]
fn a_long_stall_wakes_the_watchdog_and_is_told() {
    let Some(flown) = with(&["5.5:stall=2000"]) else { return };
    let (time, cause) = flown.summary.resets.first().unwrap();
    assert_eq!(cause, "Watchdog");
    assert!(*time < 5.75, "{time}");
    assert_motors_off_from(&flown, 5.76);
    assert!(flown.says("start by watchdog"));
    assert_log_until(&flown, 4.5);
}

#[test]
fn a_radio_processor_that_takes_no_bytes_does_not_disturb_the_flight() {
    let Some(flown) = with(&["5.2:flow-blocked=500"]) else { return };
    assert_landed(&flown);
    assert!(flown.summary.tracking.unwrap().worst_error_m < 0.1);
    assert_eq!(flown.summary.serial_errors, [0, 0]);
}

#[test]
fn the_button_closes_the_log_before_the_power_goes() {
    let Some(flown) = with(&["5.5:button"]) else { return };
    assert_eq!(flown.end, End::PowerOff);
    assert!(flown.log().is_closed);
    assert_log_until(&flown, 5.4);
}

#[test]
fn bits_that_flip_in_memory_never_lock_the_processor_up() {
    let faults: Vec<String> = (0..8)
        .map(|i| format!("{}:bit-flip={:#010x}.{i}", 5.0 + 0.1 * f64::from(i), 0x2000_4000 + 0x37F1 * i))
        .collect();
    let Some(flown) = fly(Plan { faults, ..Plan::default() }) else { return };
    assert!(!matches!(flown.end, End::Stopped(_)), "{:?}", flown.end);
    assert_eq!(*flown.motors.last().unwrap(), [0; 4]);
}

#[test]
fn an_image_whose_code_is_damaged_never_turns_a_motor() {
    let damage: fn(&mut Image) = |image| {
        let (_, entry) = image.vectors().unwrap();
        for (address, bytes) in &mut image.segments {
            if let Some(at) =
                (entry & !1).checked_sub(*address).map(|o| o as usize).filter(|o| o + 2 < bytes.len())
            {
                bytes[at..at + 2].copy_from_slice(&0xDE00u16.to_le_bytes());
            }
        }
    };
    let Some(flown) = fly(Plan { damage: Some(damage), limit_s: 3.0, ..Plan::default() }) else { return };
    assert!(!flown.summary.faults.is_empty());
    assert_motors_off_from(&flown, 0.0);
}

#[test]
fn several_faults_at_once_still_end_on_the_floor() {
    let faults = ["5.5:card-pulled", "5.5:mocap-lost", "5.5:flow-blocked=3000", "5.6:battery-sag=0.3"];
    let Some(flown) = with(&faults) else { return };
    assert_on_the_floor(&flown);
}
