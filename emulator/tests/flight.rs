//! The real firmware image flies: tasks, worlds, faults, and the same bits every time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;

use steady_common::supervisor::State;
use steady_common::transition::{Decoder, Transition};
use steady_common::usdlog::{Header, Layout, Record, Scanner};
use steady_common::{GainTable, gain_table};
use steady_data::log::{Log, check, replay};
use steady_sim::{Task, World};
use virtual_crazyflie::ground::Dongle;
use virtual_crazyflie::mission::Mission;
use virtual_crazyflie::session::{End, Session, Setup};
use virtual_crazyflie::summary::Summary;
use virtual_crazyflie::{Image, sdimage};

/// The firmware image.
#[track_caller]
fn image() -> Option<Image> {
    steady_test_support::image().map(|path| Image::load(&path).unwrap())
}

/// A flight to be flown.
struct Plan {
    /// Gain tables in the flash, oldest first.
    tables: Vec<GainTable>,
    /// What the EEPROM holds.
    eeprom: Vec<u8>,
    has_ring: bool,
    task: Task,
    world: &'static str,
    seed: u64,
    faults: Vec<String>,
    has_card: bool,
    /// The card's `config.txt`.
    config: Option<&'static str>,
    limit_s: f64,
    /// Changes the image before it is put into the drone.
    damage: Option<fn(&mut Image)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            eeprom: Vec::new(),
            has_ring: false,
            task: Task::Hover,
            world: "nominal",
            seed: 1,
            faults: Vec::new(),
            has_card: true,
            config: None,
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
    /// What the EEPROM holds at the end.
    eeprom: Vec<u8>,
    /// The LED ring: pictures and the last one, pulses that were wrong.
    ring: (u64, [[u8; 3]; 12], u64),
}

impl Flown {
    fn says(&self, text: &str) -> bool {
        self.lines.iter().any(|(_, line)| line.contains(text)) || self.summary.console.contains(text)
    }

    fn log(&self) -> &virtual_crazyflie::summary::LogFile {
        self.summary.logs.first().expect("a log file")
    }
}

/// A table's address and bytes in a page of the table area.
fn page_of(page: usize, table: &GainTable) -> (u32, Vec<u8>) {
    let address = gain_table::FLASH_ADDRESS + (page * gain_table::PAGE_SIZE) as u32;
    (address, table.encode().to_vec())
}

/// Flies; `None` without an image. Hovering is cut to 2 s, so that a flight takes 12 s in all: ready
/// at 1.7 s, in the air from 2.2 s, at rest from 4.8 s, landing at 6.8 s, on the floor at 9.9 s.
#[track_caller]
fn fly(plan: Plan) -> Option<Flown> {
    let mut image = image()?;
    if let Some(damage) = plan.damage {
        damage(&mut image);
    }
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.img");
    if plan.has_card {
        let config = plan.config.map(|text| ("config.txt", text.as_bytes()));
        sdimage::create(&card, config.as_slice()).unwrap();
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
        pages: plan.tables.iter().enumerate().map(|(page, table)| page_of(page, table)).collect(),
        flash: None,
        card: card.clone(),
        eeprom: plan.eeprom,
        faults: plan.faults.iter().map(|f| f.parse().unwrap()).collect(),
        otp: "0;CF21".to_owned(),
        profile: false,
        strict: None,
    };
    let mut session = Session::new(setup, Box::new(mission)).unwrap();
    if plan.has_ring {
        session.machine.board().nrf.mount_led_ring();
    }
    let end = session.run(plan.limit_s, None, |_| ());
    let summary = Summary::of(&session, &end, card.as_deref());
    eprintln!("{}", serde_json::to_string_pretty(&summary).unwrap());
    let log = match (&card, summary.logs.first()) {
        (Some(card), Some(log)) => sdimage::read(card, &log.name).unwrap_or_default(),
        _ => Vec::new(),
    };
    let board = session.machine.board();
    let eeprom = board.eeprom.bytes().to_vec();
    let ring = (board.ring.pictures, *board.ring.colours(), board.ring.bad_pulses);
    let scene = session.scene();
    Some(Flown {
        eeprom,
        ring,
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
    let metrics = flown.summary.metrics.unwrap();
    assert!(metrics.tracking_error_m < error_m, "{metrics:?}");
    let log = flown.log();
    assert!(log.is_closed && log.lost == 0 && log.skipped_bytes == 0, "{log:?}");
    assert!(log.records as f64 > 480.0 * metrics.duration_s, "{log:?}");
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
fn flies_the_square() {
    assert_flies(Task::Square, "nominal", 0.05);
}

#[test]
fn flies_the_helix_in_the_papers_world() {
    assert_flies(Task::Helix, "paper", 0.10);
}

/// What the drone may take of its processor. Instructions are exact and gate; cycles are the cost
/// table's estimate, held to the same figure because they can only be more.
#[test]
fn the_control_step_and_the_estimator_stay_within_their_budgets() {
    let Some(flown) = fly(Plan { task: Task::FigureEight, world: "paper", limit_s: 60.0, ..Plan::default() })
    else {
        return;
    };
    assert_landed(&flown);
    let s = &flown.summary;
    // Law and mixer in half of the flight steps, the estimator in all that follow its calibration.
    assert!(s.control_step.runs > 10_000 && s.estimator.runs > 20_000, "{s:?}");
    assert!(s.flight_step.runs >= s.estimator.runs, "{s:?}");
    assert!(s.control_step.instructions_max <= 6000 && s.control_step.cycles_max <= 6000, "{s:?}");
    assert!(s.estimator.instructions_max <= 30_000 && s.estimator.cycles_max <= 30_000, "{s:?}");
    // A control period has 336,000 cycles; everything together stays below a quarter of it.
    assert!(s.flight_step.cycles_max <= 84_000, "{s:?}");
    assert!(s.cpu_load <= 0.5, "{}", s.cpu_load);
}

/// With the estimator's inputs in its log, everything from the sensors to the motors' commands is computed again; and
/// the drone has the time for it.
#[test]
fn a_log_with_inputs_replays_the_images_estimate_bit_for_bit() {
    let plan = Plan {
        task: Task::FigureEight,
        world: "paper",
        config: Some("1\n512\nlog\n0\non:estimatorInputs\n"),
        limit_s: 60.0,
        ..Plan::default()
    };
    let Some(flown) = fly(plan) else { return };
    assert_landed(&flown);
    let s = &flown.summary;
    assert!(s.flight_step.cycles_max <= 84_000 && s.cpu_load <= 0.5, "{s:?}");
    let mut log = Log::new("log00".to_owned(), Cursor::new(flown.log.clone())).unwrap();
    let replay = replay::replay(&mut log, &[]).unwrap();
    println!("{replay}");
    assert!(replay.is_exact() && replay.replayed > 5000, "{replay}");
    let estimates = replay.estimates.unwrap();
    assert!(estimates.gaps == 0 && estimates.frames > 500, "{estimates}");
    assert!(estimates.compared + 50 > replay.steps && estimates.snapshots_compared > 10, "{estimates}");
    assert_eq!(check::check(&mut log).unwrap().problems, Vec::<String>::new());
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

/// The control steps in a log.
fn records(log: &[u8]) -> Vec<Transition> {
    let header = Header::parse(log).unwrap();
    let scanner = Scanner::new(Layout::new(&header).unwrap(), log);
    let decoder = Decoder::new(&header).unwrap().unwrap();
    let mut records = Vec::new();
    let _ = scanner.finish(&log[header.length()..], |record: Record<'_>| {
        records.extend(decoder.decode(&record));
    });
    records
}

/// The log has every control step up to a time at least, and nothing that is not one.
fn assert_log_until(flown: &Flown, seconds: f64) {
    let log = flown.log();
    assert_eq!(log.problem, None);
    assert_eq!(log.lost, 0, "{log:?}");
    // It begins when the drone is armed, 1.7 s after power-on.
    assert!(log.records as f64 > 500.0 * (seconds - 1.9), "{log:?}");
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
    assert!(flown.summary.metrics.unwrap().tracking_error_m < 0.02);
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
    assert!(flown.summary.metrics.unwrap().max_error_m < 0.1);
}

#[test]
fn a_sensor_bus_that_comes_back_at_any_moment_is_taken_up_again() {
    // Sixty times on the floor, coming back 55 µs later each time: in every phase of a transfer, of
    // waiting for one, and of freeing the bus.
    let faults: Vec<String> = (0..60)
        .flat_map(|i| {
            let start = 0.5 + 0.02 * f64::from(i);
            let back = start + 0.009 + 55e-6 * f64::from(i);
            [format!("{start}:imu-stuck"), format!("{back:.6}:imu-back")]
        })
        .collect();
    let Some(flown) = fly(Plan { faults, limit_s: 25.0, ..Plan::default() }) else { return };
    assert!(flown.summary.resets.is_empty(), "{:?}", flown.summary.resets);
    assert_landed(&flown);
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
    assert!(flown.summary.metrics.unwrap().max_error_m < 0.1);
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
    // It falls for half a second; then nothing shakes the floor any more.
    assert_motors_off_from(&flown, 8.0);
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
    assert!(flown.summary.metrics.unwrap().max_error_m < 0.15);
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
fn a_power_cut_while_the_log_begins_costs_no_more_than_any_other() {
    let Some(whole) = fly(Plan { limit_s: 2.5, ..Plan::default() }) else { return };
    // From the first record on, not from when the card has a file for it.
    let began = records(&whole.log).first().unwrap().time_us as f64 * 1e-6;
    for after in [-0.02, 0.01, 0.05, 0.12, 0.2, 0.35, 0.5] {
        let cut = began + after;
        let fault = format!("{cut:.6}:power-cut");
        let flown = fly(Plan { faults: vec![fault], limit_s: cut + 1.0, ..Plan::default() }).unwrap();
        assert_eq!(flown.summary.resets.len(), 1);
        assert_motors_off_from(&flown, cut + 0.01);
        // The file system is whole, and the drone takes the card again.
        assert!(flown.says("card: ready"));
        if let Some(log) = flown.summary.logs.first() {
            let promised = 500.0 * (after - 0.1);
            assert!(log.lost == 0 && log.records as f64 >= promised, "{after} s after: {log:?}");
            assert!(after < 0.1 || log.bytes > 1000, "{after} s after: no header, {log:?}");
        } else {
            assert!(after < 0.1, "no file {after} s after");
        }
    }
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
    assert!(flown.summary.metrics.unwrap().max_error_m < 0.1);
    assert_eq!(flown.summary.serial_errors, [0, 0]);
}

#[test]
fn the_button_on_the_floor_switches_off_at_once() {
    let Some(flown) = with(&["1.2:button"]) else { return };
    assert_eq!(flown.end, End::PowerOff);
    assert!(flown.summary.virtual_s < 1.3, "at once: {}", flown.summary.virtual_s);
    assert_motors_off_from(&flown, 0.0);
}

#[test]
fn the_button_in_the_air_brings_it_down_in_the_second_that_is_left() {
    let Some(flown) = with(&["5.5:button"]) else { return };
    assert_eq!(flown.end, End::PowerOff);
    // Nothing keeps the power on for longer; until then the motors are not cut.
    assert!((6.45..6.55).contains(&flown.summary.virtual_s), "{}", flown.summary.virtual_s);
    assert!(flown.motors.iter().skip(5500).take(900).all(|m| m.iter().all(|p| *p > 0)));
    let height = *flown.heights.last().unwrap();
    assert!(height < 0.45, "1 m above the floor when it was pressed, {height} m when the power went");
    assert!(*flown.tilts.last().unwrap() > 0.95, "upright");
    assert_log_until(&flown, 6.4);
}

#[test]
fn the_led_ring_shows_the_flight() {
    let Some(flown) = fly(Plan { has_ring: true, limit_s: 5.5, ..Plan::default() }) else { return };
    assert!(flown.says("LED ring found"));
    let (pictures, colours, bad_pulses) = flown.ring;
    assert!(pictures > 50, "{pictures} pictures");
    assert_eq!(bad_pulses, 0);
    // In the air: white all around, but for the blue of the log.
    assert_eq!(colours[0], [0, 0, 40]);
    assert!(colours[1..].iter().all(|c| *c == [20, 20, 20]), "{colours:?}");
    let without = fly(Plan { limit_s: 1.0, ..Plan::default() }).unwrap();
    assert_eq!(without.ring.0, 0, "no deck, no pulses");
}

/// Gains inside every bound that cannot fly.
fn wild_table(sequence: u32) -> GainTable {
    let mut table = GainTable { sequence, ..GainTable::built_in() };
    table.gains.attitude.p.xy *= 3.9;
    table.gains.rate.p.xy /= 7.9;
    table.gains.rate.d.xy /= 15.0;
    table.gains.attitude.d.xy /= 15.0;
    table.check().unwrap();
    table
}

#[test]
fn a_table_proves_itself_and_catches_the_bad_one_after_it() {
    // A good table's first flight; the EEPROM keeps that it has proven itself.
    let good = GainTable { sequence: 4, ..GainTable::built_in() };
    let Some(first) = fly(Plan { tables: vec![good], ..Plan::default() }) else { return };
    assert_landed(&first);
    assert!(first.says("gains: table 4, proven: false"));
    assert!(first.says("gain table 4 has proven itself"));

    // The next boot knows it.
    let tables = vec![good];
    let again = fly(Plan { tables, eeprom: first.eeprom.clone(), limit_s: 1.0, ..Plan::default() }).unwrap();
    assert!(again.says("gains: table 4, proven: true"));

    // A bad table is taken out of flight, the good one lands.
    let tables = vec![good, wild_table(5)];
    let bad = fly(Plan { tables, eeprom: first.eeprom, world: "paper", ..Plan::default() }).unwrap();
    assert!(bad.says("gains: table 5, proven: false"));
    assert!(bad.says("guard: gain table 5 taken out of flight"));
    assert!(bad.summary.highest_m < 0.3, "caught at once: {}", bad.summary.highest_m);
    assert_on_the_floor(&bad);
    // Logged: from one step to the next the other table flies, and never the bad one again.
    let flown = records(&bad.log);
    let trip = flown.iter().position(|t| t.guard > 1).unwrap();
    assert!(flown[..trip].iter().all(|t| t.table == 5) && flown[trip..].iter().all(|t| t.table == 4));
    assert_eq!(flown[trip + 1].supervisor, State::Descending as u8);
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
