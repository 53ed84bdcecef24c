//! The native drone flies every task, repeats bit for bit, and says what went wrong.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use steady_common::exploration::Exploration;
use steady_common::transition::{Flags, Transition};
use steady_common::{Controller, GainTable, Reference, Vec3};
use steady_native::{Flown, Plan, Until, fly, fly_references};
use steady_sim::metrics::Crash;
use steady_sim::world::RotorDrag;
use steady_sim::{PlantParams, Task, World};

fn world(name: &str) -> PlantParams {
    PlantParams::new(&World::named(name).unwrap()).unwrap()
}

/// Flies and expects a good flight, whose log replays bit for bit.
fn flies(world: &PlantParams, plan: &Plan, max_error_m: f64) -> Flown {
    let flown = fly(world, plan, |_| {});
    assert_eq!(flown.failure, None, "{}", plan.task);
    assert!(flown.is_landed && !flown.guard_tripped);
    let metrics = flown.metrics.unwrap();
    println!("{}: {}", plan.task, metrics.line());
    assert!(metrics.tracking_error_m < max_error_m, "{}: {metrics:?}", plan.task);
    assert!((metrics.duration_s - f64::from(plan.task.duration_s())).abs() < 0.01, "{metrics:?}");
    flown
}

#[test]
fn every_task_is_flown_and_landed_in_the_nominal_world() {
    let world = world("nominal");
    for task in Task::ALL {
        let flown = flies(&world, &Plan::new(task), 0.05);
        assert_replays(&flown, 4000);
    }
}

#[test]
fn every_controller_lands_every_task_in_the_papers_world() {
    let world = world("paper");
    for controller in Controller::ALL {
        for task in Task::ALL {
            // The PID ignores the reference's velocity: on paths it lags far behind.
            let max_error_m = if controller == Controller::Pid { 1.2 } else { 0.15 };
            let plan = Plan { controller, ..Plan::new(task) };
            let flown = fly(&world, &plan, |_| {});
            let metrics = flown.metrics.unwrap();
            println!("{} {task}: {} {:?}", controller.name(), metrics.line(), flown.failure);
            assert!(flown.is_landed && flown.failure.is_none(), "{:?}", flown.failure);
            assert!(metrics.tracking_error_m < max_error_m, "{metrics:?}");
        }
    }
}

#[test]
fn built_in_gains_land_where_a_fitted_simulator_does_not_reach() {
    let names: Vec<&str> = World::names().skip_while(|name| *name != "wind").collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let world = world(name);
        for task in [Task::FigureEight, Task::TakeoffLand] {
            let flown = fly(&world, &Plan::new(task), |_| {});
            let metrics = flown.metrics.unwrap();
            println!("{name} {task}: {} {:?}", metrics.line(), flown.failure);
            assert!(flown.is_landed && flown.failure.is_none(), "{name} {task}: {:?}", flown.failure);
        }
    }
}

/// Every law step of the log computes again to the same bits.
fn assert_replays(flown: &Flown, min_steps: usize) {
    let mut previous: Option<&Transition> = None;
    let (mut replayed, mut table) = (0, &flown.gains[0].table);
    let mut gains = flown.gains.iter().peekable();
    for record in &flown.records {
        while let Some(next) = gains.next_if(|g| g.time_us <= record.time_us) {
            table = &next.table;
        }
        if record.flags.has(Flags::LAW)
            && let Some(action) = record.replay(previous, table)
        {
            replayed += 1;
            let bits = |a: steady_common::Action| a.into_array().map(f32::to_bits);
            assert_eq!(bits(action), bits(record.action), "step {}", record.sequence);
        }
        previous = Some(record);
    }
    assert!(replayed > min_steps, "{replayed}");
}

#[test]
fn flights_repeat_bit_for_bit_on_any_thread_and_differ_by_seed() {
    let world = world("paper");
    let run = |seed| {
        let plan = Plan { seed, ..Plan::new(Task::FigureEight) };
        let flown = fly(&world, &plan, |_| {});
        (flown.metrics.unwrap(), flown.records)
    };
    let (one, two) = std::thread::scope(|scope| {
        let handles = [scope.spawn(|| run(3)), scope.spawn(|| run(3))];
        let [one, two] = handles.map(|h| h.join().unwrap());
        (one, two)
    });
    assert!(one == two);
    assert_ne!(one.0, run(4).0);
}

#[test]
fn noise_is_in_the_records_and_only_where_it_was_asked_for() {
    let world = world("nominal");
    let exploration = Exploration { enabled: true, ..Exploration::DEFAULT };
    let noisy = |flown: &Flown| flown.records.iter().filter(|r| r.flags.has(Flags::NOISE)).count();
    let plan = Plan { exploration, ..Plan::new(Task::Hover) };
    let flown = flies(&world, &plan, 0.1);
    assert!(noisy(&flown) > 4000);
    assert_replays(&flown, 4000);
    assert_eq!(noisy(&flies(&world, &Plan::new(Task::Hover), 0.03)), 0);
}

/// A table that flies badly: the guard takes it out, the drone lands itself on the proven gains.
#[test]
fn bad_gains_trip_the_guard_and_the_log_has_both_tables() {
    let world = world("nominal");
    let mut table = GainTable { sequence: 9, ..GainTable::built_in() };
    table.gains.attitude.p.xy *= 3.9;
    table.gains.rate.p.xy /= 7.9;
    table.gains.rate.d.xy /= 15.0;
    table.gains.attitude.d.xy /= 15.0;
    assert!(table.check().is_ok());
    let flown = fly(&world, &Plan { table, ..Plan::new(Task::FigureEight) }, |_| {});
    assert!(flown.guard_tripped && !flown.table_proven);
    assert!(flown.failure.as_ref().is_some_and(|f| f.contains("gain guard")), "{:?}", flown.failure);
    let tables: Vec<u32> = flown.gains.iter().map(|g| g.table.sequence).collect();
    assert_eq!(tables, [9, 0]);
    assert_replays(&flown, 500);
}

#[test]
fn a_good_new_table_proves_itself() {
    let table = GainTable { sequence: 2, ..GainTable::built_in() };
    let flown = flies(&world("nominal"), &Plan { table, ..Plan::new(Task::Hover) }, 0.03);
    assert!(flown.table_proven);
}

#[test]
fn a_flight_can_end_with_the_part_that_counts() {
    let world = world("nominal");
    for task in Task::ALL {
        let whole = fly(&world, &Plan::new(task), |_| {});
        let short = fly(&world, &Plan { until: Until::TaskEnd, ..Plan::new(task) }, |_| {});
        assert_eq!(short.failure, None, "{task}");
        assert_eq!(short.metrics, whole.metrics, "{task}");
        assert!(short.records.len() < whole.records.len(), "{task}");
    }
}

#[test]
fn samples_tell_which_steps_count() {
    let (mut counted, mut all) = (0_usize, 0_usize);
    let flown = fly(&world("paper"), &Plan::new(Task::Square), |sample| {
        all += 1;
        counted += usize::from(sample.counts);
        assert!(sample.truth.position.is_finite() && sample.battery_v > 3.0);
        let estimate_error = (sample.truth.position - sample.estimate.position).norm();
        assert!(estimate_error < 0.05, "{estimate_error} at {} s", sample.time_s);
    });
    assert_eq!(all, flown.records.len());
    assert_eq!(counted, (Task::Square.duration_s() * 500.0) as usize);
}

#[test]
fn logged_references_are_flown_again() {
    let world = world("paper");
    let plan = Plan::new(Task::FigureEight);
    let first = flies(&world, &plan, 0.15);
    let flying = |r: &&Transition| r.flags.has(Flags::FLYING) && r.reference.position.z > 0.5;
    let references: Vec<Reference> =
        first.records.iter().filter(flying).map(|r| r.reference).take(8000).collect();
    let again = fly_references(&world, &plan, &references, |_| {});
    assert_eq!(again.failure, None);
    assert!(again.is_landed);
    let metrics = again.metrics.unwrap();
    println!("{}", metrics.line());
    assert!((metrics.duration_s - 0.002 * references.len() as f64).abs() < 1e-3);
    assert!(metrics.tracking_error_m < 0.15, "{metrics:?}");
    let steps = again.records.iter().filter(|r| references.contains(&r.reference)).count();
    assert!(steps >= references.len(), "every reference reached the controller: {steps}");

    // From the floor, somewhere else.
    let reference = |k: u32| {
        let t = k as f32 * 0.002;
        let mut r = Task::TakeoffLand.trajectory().at(t);
        r.position += Vec3::new(1.0, -0.5, 0.0);
        r
    };
    let references: Vec<Reference> = (0..6000).map(reference).collect();
    let flown = fly_references(&world, &plan, &references, |_| {});
    assert_eq!(flown.failure, None);
    assert!(flown.is_landed && flown.metrics.unwrap().tracking_error_m < 0.15, "{:?}", flown.metrics);
}

#[test]
fn references_that_cannot_be_flown_are_a_failure_with_a_reason() {
    let world = world("nominal");
    let plan = Plan::new(Task::Hover);
    let failure =
        |references: &[Reference]| fly_references(&world, &plan, references, |_| {}).failure.unwrap();
    assert!(failure(&[]).contains("no references"));
    let nan = Reference::hover(Vec3::new(f32::NAN, 0.0, 1.0));
    assert!(failure(&[nan]).contains("not finite"));
    let mut later = vec![Reference::hover(Vec3::Z); 600];
    later[500].yaw = f32::INFINITY;
    assert!(failure(&later).contains("refused a set-point"));
    // Out of reach within a step: the drone stays behind.
    let mut far = vec![Reference::hover(Vec3::Z); 600];
    far.extend(vec![Reference::hover(Vec3::new(2.5, 0.0, 1.0)); 600]);
    let flown = fly_references(&world, &plan, &far, |_| {});
    assert_eq!(flown.metrics.unwrap().crash, Some(Crash::Lost));
    assert!(flown.failure.is_some());
}

#[test]
fn the_log_is_the_drones_own_format() {
    let folder = std::env::temp_dir().join(format!("steady-native-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("log00");
    let flown = flies(&world("nominal"), &Plan::new(Task::Hover), 0.03);
    flown.write_log(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let header = steady_common::usdlog::Header::parse(&bytes).unwrap();
    let layout = steady_common::usdlog::Layout::new(&header).unwrap();
    let (head, rest) = bytes.split_at(header.length());
    let mut records = Vec::new();
    let summary = steady_common::usdlog::Scanner::new(layout, head).finish(rest, |record| {
        records.extend(Transition::decode(record.bytes).ok());
    });
    assert_eq!(summary.ending, steady_common::usdlog::Ending::Complete);
    assert_eq!(summary.skipped_bytes, 0);
    assert!(records == flown.records);
}

#[test]
fn an_estimator_that_knows_the_worlds_drag_tracks_better() {
    let figure8_cm = |world: &World, drag_per_s: f32| {
        let plan = Plan { drag_per_s, ..Plan::new(Task::FigureEight) };
        100.0 * fly(&PlantParams::new(world).unwrap(), &plan, |_| {}).metrics.unwrap().tracking_error_m
    };
    let nominal = World::named("nominal").unwrap();
    // About 0.4 1/s with the damping there is, as recorded flights of real drones have it.
    let mut draggy = nominal.clone();
    draggy.aero.rotor_drag = RotorDrag::Body;
    draggy.aero.drag_xy_n_s2_per_m = 1.6e-6;
    for (world, right, wrong) in [(&nominal, 0.0, 0.4), (&draggy, 0.4, 0.0)] {
        let (right_cm, wrong_cm) = (figure8_cm(world, right), figure8_cm(world, wrong));
        println!("drag {right}: {right_cm:.2} cm, {wrong}: {wrong_cm:.2} cm");
        assert!(right_cm < 0.5 * wrong_cm, "{right_cm} {wrong_cm} cm");
    }
}
