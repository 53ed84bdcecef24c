//! Gain tables and firmware over the bootloader, against the virtual Crazyflie in virtual time: the
//! real image for samples, the quick drone for thousands of runs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod drone;

use std::time::Duration;

use drone::{QuickDrone, RealDrone, Shared, client, image, scan, table};
use steady_common::cload::{Info, Reply, Request, Target};
use steady_common::gain_table::{FLASH_ADDRESS, PAGE_SIZE, PAGES_PER_SECTOR};
use steady_common::value::Value;
use steady_radio::bootloader::Bootloader;
use steady_radio::client::Client;
use steady_radio::firmware::{self, Image};
use steady_radio::link::Link;
use steady_radio::tables::{self, MIN_BATTERY_V, Phase, Survey};
use steady_radio::{Error, Result};
use virtual_crazyflie::chip::flash;
use virtual_crazyflie::network::Trouble;

/// A network as bad as it gets.
const BAD: Trouble = Trouble { loss: 0.3, duplicates: 0.1, delay_ms: 3.0 };

fn survey(client: &mut Client) -> Survey {
    Survey::take(client, &mut |_| {}).unwrap()
}

fn flash_table(client: &mut Client, source: u64) -> Result<tables::Written> {
    let survey = Survey::take(client, &mut |_| {})?;
    survey.check(MIN_BATTERY_V)?;
    let new = steady_common::GainTable { source, ..table(50) };
    tables::write(client, &survey, &new, &mut |_| {})
}

/// Runs seeds on both cores; `work` says what became of one.
fn over_seeds<T: Send>(seeds: std::ops::Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let run = || {
        let mut results = Vec::new();
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= seeds.end {
                return results;
            }
            results.push((seed, work(seed)));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    results.sort_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Lets a drone's time pass.
fn wait<D>(drone: &Shared<D>, seconds: f64)
where
    Shared<D>: Link,
{
    let mut link = drone.clone();
    let until = link.now() + Duration::from_secs_f64(seconds);
    while link.now() < until {
        link.receive(until.saturating_sub(link.now())).unwrap();
    }
}

#[test]
fn a_table_is_flashed_in_less_than_three_seconds_of_drone_time() {
    let Some(image) = image() else { return };
    let drone = RealDrone::new(image, &[table(1), table(2)], Trouble::default(), 1);
    let mut client = client(&drone);
    assert_eq!(client.platform().unwrap().protocol, 12);
    let start = (client.now(), client.traffic());
    let survey = survey(&mut client);
    survey.check(MIN_BATTERY_V).unwrap();
    let surveyed = (client.now(), client.traffic());
    assert_eq!(survey.active.unwrap().sequence, 2);
    assert_eq!(survey.area.tables().len(), 2);
    let written = tables::write(&mut client, &survey, &table(77), &mut |_| {}).unwrap();
    let end = (client.now(), client.traffic());
    eprintln!(
        "reading the tables: {:.2} s, {} packets up, {} down; flashing: {:.2} s, {} up, {} down; one exchange a ms",
        (surveyed.0 - start.0).as_secs_f64(),
        surveyed.1.sent - start.1.sent,
        surveyed.1.received - start.1.received,
        written.seconds,
        written.packets.0,
        written.packets.1,
    );
    assert_eq!((written.sequence, written.page, written.erased), (3, 2, false));
    assert!((end.0 - start.0).as_secs_f64() < 3.0, "{:?}", end.0 - start.0);
    assert_eq!(client.active_table().unwrap().sequence, 3);
    // Revert: the older gains, as a table of their own.
    let survey = Survey::take(&mut client, &mut |_| {}).unwrap();
    let (_, previous) = survey.area.scan().previous.unwrap();
    assert_eq!(previous.gains, table(2).gains);
    tables::write(&mut client, &survey, &previous, &mut |_| {}).unwrap();
    let area = tables::read(&mut client, &mut |_| {}).unwrap();
    let history: Vec<u32> = area.tables().iter().map(|(_, t)| t.sequence).collect();
    assert_eq!(history, [1, 2, 3, 4]);
    assert_eq!(area.scan().newest.unwrap().1.gains, table(2).gains);
}

#[test]
fn gains_are_tried_without_flashing_and_let_go_again() {
    let Some(image) = image() else { return };
    let drone = RealDrone::new(image, &[table(1)], Trouble::default(), 1);
    let mut client = client(&drone);
    tables::try_out(&mut client, &table(30)).unwrap();
    let active = client.active_table().unwrap();
    assert!(active.is_try_out && active.sequence == 1);
    tables::end_try_out(&mut client).unwrap();
    assert!(!client.active_table().unwrap().is_try_out);
    let mut bad = table(30);
    bad.gains.rate.p.xy = 100.0;
    let error = tables::try_out(&mut client, &bad).unwrap_err();
    assert!(error.to_string().contains("gain.ratePxy"), "{error}");
    assert!(!client.active_table().unwrap().is_try_out);
}

/// Every command of the bootloader, entered with the button; then the firmware again.
#[test]
fn the_bootloader_answers_after_a_cold_boot() {
    let Some(image) = image() else { return };
    let segments = image.segments.clone();
    let drone = RealDrone::new(image, &[table(1)], Trouble::default(), 1);
    drone.0.borrow_mut().cold_boot();
    let mut link = drone.clone();
    let ask = |target, request: Request| {
        let mut link = drone.clone();
        link.send(&request.encode(target)).unwrap();
        let packet = link.receive(Duration::from_secs(1)).unwrap();
        packet.map(|p| Reply::decode(&p).unwrap())
    };
    wait(&drone, 0.3);
    assert_eq!(ask(Target::Stm32, Request::GetInfo), Some((Target::Stm32, Reply::Info(Info::STM32))));
    assert_eq!(ask(Target::Nrf51, Request::GetInfo), Some((Target::Nrf51, Reply::Info(Info::NRF51))));
    assert!(matches!(ask(Target::Stm32, Request::GetMapping), Some((_, Reply::Mapping(_)))));
    assert_eq!(ask(Target::Stm32, Request::ResetInit), None, "only the radio processor resets");
    let mut loader = Bootloader::cold(&mut link).unwrap();
    let (start, bytes) = segments.iter().find(|(a, _)| *a == 0x0800_4000).unwrap();
    let parts = loader.read(&[((start - 0x0800_0000) as usize, bytes.len())], &mut |_, _| {}).unwrap();
    assert_eq!(parts[0], *bytes);
    assert_eq!(loader.read_page(768).unwrap(), table(1).encode());
    let area = tables::read_flash(&mut loader, &mut |_| {}).unwrap();
    assert_eq!(area.tables().len(), 1);
    assert!(matches!(loader.write(3, 1), Err(Error::Verification(_))), "its own pages");
    loader.leave().unwrap();
    let mut client = client(&drone);
    assert_eq!(client.active_table().unwrap().sequence, 1);
}

#[test]
fn firmware_is_written_read_back_and_started() {
    let (Some(image), Some(elf)) = (image(), steady_test_support::image()) else { return };
    let new = Image::load(&elf.with_extension("zip")).unwrap();
    let drone = RealDrone::new(image, &[table(1)], Trouble::default(), 1);
    let mut link = drone.clone();
    wait(&drone, 0.1);
    let (started, before) = (link.now(), link.traffic());
    // Interrupted in the middle: the drone stays in its bootloader, and the same command finds it.
    let mut loader = Bootloader::enter(&mut link).unwrap();
    let cut = std::cell::Cell::new(false);
    let result = firmware::write(&mut loader, &new, &mut |step| {
        if let Phase::Writing(page @ 100.., _) = step
            && !cut.replace(true)
        {
            eprintln!("power cut at page {page}");
            drone.0.borrow_mut().power_cut();
        }
    });
    // The bootloader that is there after the cut is as good as the one before.
    if let Err(error) = result {
        assert!(matches!(error, Error::NoAnswer { .. } | Error::Verification(_)), "{error}");
    }
    assert!(cut.get());
    let mut loader = Bootloader::enter(&mut link).unwrap();
    firmware::write(&mut loader, &new, &mut |_| {}).unwrap();
    loader.leave().unwrap();
    let traffic = link.traffic();
    eprintln!(
        "firmware of {} bytes, one and a half times: {:.1} s, {} packets up, {} down",
        new.len(),
        (link.now() - started).as_secs_f64(),
        traffic.sent - before.sent,
        traffic.received - before.received
    );
    assert_eq!(scan(drone.0.borrow_mut().session.machine.parts().1.flash).newest.map(|(n, _)| n), Some(0));
    let mut client = client(&drone);
    assert_eq!(client.platform().unwrap().device, "Crazyflie 2.1");
    assert_eq!(client.active_table().unwrap().sequence, 1, "the tables were not touched");
}

/// What one operation over a bad network came to: nothing, or the error.
fn operate(seed: u64) -> std::result::Result<(), String> {
    let drone = QuickDrone::new(&[table(1), table(2)], BAD, seed);
    let mut client = client(&drone);
    let outcome: Result<()> = match seed % 8 {
        0..4 => flash_table(&mut client, seed).map(|w| {
            assert_eq!(w.sequence, 3);
            let newest = scan(&drone.0.borrow().flash).newest.unwrap().1;
            assert_eq!((newest.sequence, newest.source), (3, seed), "seed {seed}");
        }),
        4 => Survey::take(&mut client, &mut |_| {}).map(|s| {
            assert_eq!(s.active.unwrap().sequence, 2);
            let tables: Vec<_> = s.area.tables().into_iter().map(|(_, t)| t).collect();
            assert_eq!(tables, [table(1), table(2)], "seed {seed}");
        }),
        5 => tables::try_out(&mut client, &table(40)).and_then(|()| client.active_table()).map(|a| {
            assert!(a.is_try_out);
        }),
        6 => client.platform().map(|p| assert_eq!(p.device, "Crazyflie 2.1")),
        _ => (|| {
            let param = client.param("ctrlMel.kp_xy")?;
            client.set("ctrlMel.kp_xy", param, Value::F32(0.625))?;
            client.store("ctrlMel.kp_xy", param)?;
            assert_eq!(client.get(param)?, Value::F32(0.625));
            Ok(())
        })(),
    };
    wait(&drone, 2.0);
    let drone = drone.0.borrow();
    assert!(drone.is_running(), "seed {seed}: {outcome:?}");
    assert!([2, 3].contains(&drone.active()), "seed {seed}: table {}", drone.active());
    outcome.map_err(|error| {
        assert!(!error.to_string().is_empty());
        format!("seed {seed}: {error}")
    })
}

#[test]
fn a_thousand_runs_over_a_bad_network_end_right_or_with_a_clear_error() {
    let outcomes = over_seeds(0..1000, operate);
    let errors: Vec<&String> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    eprintln!("{} of {} ended right", outcomes.len() - errors.len(), outcomes.len());
    errors.iter().for_each(|e| eprintln!("{e}"));
    assert!(errors.len() < 10, "{} failed", errors.len());
}

#[test]
fn the_real_image_over_a_bad_network() {
    let Some(image) = image() else { return };
    let outcomes = over_seeds(0..8, |seed| {
        let drone = RealDrone::new(image.clone(), &[table(1), table(2)], BAD, seed);
        let mut client = client(&drone);
        let outcome = flash_table(&mut client, seed).map(|w| (w.seconds, w.packets));
        let active = client.active_table().map(|a| a.sequence);
        (outcome.map_err(|e| e.to_string()), active.map_err(|e| e.to_string()))
    });
    for (seed, (outcome, active)) in outcomes.iter().enumerate() {
        eprintln!("seed {seed}: {outcome:?}, flies {active:?}");
        match outcome {
            Ok(_) => assert_eq!(*active, Ok(3)),
            Err(_) => assert!(matches!(active, Ok(2 | 3)), "{active:?}"),
        }
    }
    assert!(outcomes.iter().filter(|(o, _)| o.is_ok()).count() >= 7);
}

/// After whatever happened: the firmware runs and flies one of these tables.
fn assert_sound(drone: &Shared<QuickDrone>, allowed: &[u32], what: &str) -> u32 {
    wait(drone, 1.0);
    assert!(drone.0.borrow().is_running(), "{what}: the firmware does not run");
    let mut client = client(drone);
    let active = client.active_table().unwrap_or_else(|e| panic!("{what}: {e}")).sequence;
    assert!(allowed.contains(&active), "{what}: table {active}");
    assert_eq!(active, drone.0.borrow().active(), "{what}");
    active
}

/// Tables fill one sector, so that the next one erases the other, which holds older ones.
fn full_sector() -> Vec<u8> {
    let drone = QuickDrone::new(&[], Trouble::default(), 0);
    let mut bytes = drone.0.borrow().flash.clone();
    for n in 0..2 * PAGES_PER_SECTOR {
        // The second sector has 1 to 128, the first 129 to 256.
        let sequence = 1 + (n + PAGES_PER_SECTOR) % (2 * PAGES_PER_SECTOR);
        let at = (FLASH_ADDRESS - 0x0800_0000) as usize + n * PAGE_SIZE;
        flash::program(&mut bytes, at, &table(sequence as u32).encode());
    }
    bytes
}

#[test]
fn a_power_cut_at_any_packet_leaves_the_old_or_the_new_table() {
    let run = |cut: Option<u64>| {
        let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
        let mut client = client(&drone);
        let survey = survey(&mut client);
        drone.0.borrow_mut().nrf.cut_after_packets = cut;
        let before = drone.0.borrow().packets;
        let outcome = tables::write(&mut client, &survey, &table(9), &mut |_| {});
        let packets = drone.0.borrow().packets - before;
        let what = format!("cut at packet {cut:?}: {outcome:?}");
        let active = assert_sound(&drone, &[1, 2], &what);
        if outcome.is_ok() {
            assert_eq!(active, 2, "{what}");
        }
        let has_cut = drone.0.borrow().cuts > 0;
        assert_eq!(has_cut, cut.is_some(), "{what}");
        (packets, active)
    };
    let (packets, _) = run(None);
    let active = over_seeds(0..packets, |n| run(Some(n)).1);
    let new = active.iter().filter(|a| **a == 2).count();
    eprintln!(
        "cut at each of {packets} packets: {new} times the new table, {} times the old",
        active.len() - new
    );
    assert!(new > 0 && new < active.len());
}

#[test]
fn a_power_cut_at_any_flash_word_leaves_the_old_or_the_new_table() {
    let full = full_sector();
    assert_eq!(scan(&full).newest.unwrap().1.sequence, 256);
    assert!(scan(&full).next.erases);
    let run = |flash: Option<&Vec<u8>>, words: Option<u64>, erase: Option<f64>| {
        let (drone, old) = match flash {
            Some(bytes) => (QuickDrone::with_flash(bytes.clone(), Trouble::default(), 1), 256),
            None => (QuickDrone::new(&[table(1)], Trouble::default(), 1), 1),
        };
        let mut client = client(&drone);
        let survey = survey(&mut client);
        drone.0.borrow_mut().nrf.cut_after_words = words;
        drone.0.borrow_mut().nrf.cut_in_erase = erase;
        let outcome = tables::write(&mut client, &survey, &table(9), &mut |_| {});
        let what = format!("cut after {words:?} words, {erase:?} of the erase: {outcome:?}");
        let active = assert_sound(&drone, &[old, old + 1], &what);
        assert!(drone.0.borrow().cuts > 0, "{what}");
        // And then it works.
        let survey = Survey::take(&mut client, &mut |_| {}).unwrap();
        let written = tables::write(&mut client, &survey, &table(10), &mut |_| {}).unwrap();
        assert_eq!(written.sequence, active + 1, "{what}");
        active - old
    };
    let appended: u32 = over_seeds(0..256, |n| run(None, Some(n), None)).iter().sum();
    let erased: u32 = over_seeds(0..256, |n| run(Some(&full), Some(n), None)).iter().sum();
    let erasing: u32 = over_seeds(0..41, |n| run(Some(&full), None, Some(n as f64 / 40.0))).iter().sum();
    eprintln!(
        "new table after the cut: {appended} of 256 appended, {erased} of 256 after an erase, {erasing} of 41"
    );
    assert_eq!(erasing, 0);
}

#[test]
fn a_page_that_does_not_hold_is_left_for_the_next() {
    let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
    let mut client = client(&drone);
    let survey = survey(&mut client);
    let mut times = 0;
    let written = tables::write(&mut client, &survey, &table(9), &mut |step| {
        if step == Phase::Writing(0, 1) && times < 2 {
            times += 1;
            // The bit that is already cleared, and an error the bootloader reports.
            let page = (FLASH_ADDRESS - 0x0800_0000) as usize + times * PAGE_SIZE;
            let mut drone = drone.0.borrow_mut();
            drone.flash[page] = 0;
            drone.nrf.bootloader.as_mut().unwrap().fails_next_write = times == 1;
        }
    });
    let written = written.unwrap();
    assert_eq!((written.page, written.bad_pages), (3, 2));
    assert_sound(&drone, &[2], "after bad pages");
}

#[test]
fn a_drone_that_is_gone_is_told_how_to_be_recovered() {
    let drone = QuickDrone::new(&[table(1)], Trouble::default(), 1);
    let mut client = client(&drone);
    let survey = survey(&mut client);
    let now_ms = client.now().as_millis() as u64;
    drone.0.borrow_mut().dies_at_ms = Some(now_ms + 370);
    let error = tables::write(&mut client, &survey, &table(9), &mut |_| {}).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    assert!(text.contains("no answer") && text.contains("Switch") && text.contains("table 1"), "{text}");
}
