//! The native drone: the firmware's flight code compiled for this computer, in closed loop with the simulator.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use steady_common::GainTable;
use steady_common::gain_table::PAGE_COUNT;
use steady_common::transition::Flags;
use steady_native::{Flown, Plan};
use steady_sim::plant::PlantParams;
use steady_sim::script::Course;
use steady_sim::{Task, World};

use super::drone::{Drone, EEPROM, Flashed, FlightRequest, Track, decode_table, read_table, write_table};
use super::outcome::Outcome;
use crate::files;

/// Every so many control steps are written to `truth.csv`: fifty a second.
const THIN: usize = 10;
const LOG: &str = "log00";

/// A native drone in a world, with a task.
#[derive(Clone, Debug)]
pub struct NativeDrone {
    world: PlantParams,
    course: Course,
}

impl NativeDrone {
    pub fn new(world: &World, course: Course) -> Result<Self> {
        Ok(Self { world: PlantParams::new(world)?, course })
    }
}

impl Drone for NativeDrone {
    fn flash(&self, before: Option<&Path>, table: &GainTable, folder: &Path) -> Result<Flashed> {
        // Numbers and pages as on a drone's flash: the next one each time.
        let last = before.map(read_table).transpose()?.map_or(0, |t| t.sequence);
        let sequence = last.checked_add(1).context("the table's number is too large")?;
        let flashed = Flashed { sequence, page: last as usize % PAGE_COUNT };
        write_table(folder, table, &flashed)?;
        Ok(flashed)
    }

    fn fly(&self, flight: &FlightRequest, folder: &Path) -> Result<Outcome> {
        ensure!(
            flight.faults.is_empty() && flight.card_free_mib.is_none(),
            "a native drone has no faults and no card: fly with --drone virtual"
        );
        files::make_folder(folder)?;
        // The configuration memory of a native drone holds the table that was proven last, and nothing else.
        let plan = Plan {
            table: read_table(&flight.drone)?,
            proven: flight.eeprom.as_deref().map(decode_table).transpose()?,
            controller: flight.controller,
            exploration: flight.exploration,
            // They tell how late motion capture is.
            log_inputs: flight.exploration.enabled,
            seed: flight.seed,
            ..Plan::new(Task::default())
        };
        let (mut track, mut step) = (Track::new(), 0_usize);
        let flown = steady_native::fly_course(&self.world, &plan, self.course.clone(), |s| {
            if step.is_multiple_of(THIN) {
                let time_us = (f64::from(s.time_s) * 1e6) as u64;
                track.add(time_us, &s.truth, s.counts.then_some(&s.reference), s.pwm, s.battery_v);
            }
            step += 1;
        });
        track.write(&folder.join("truth.csv"))?;
        if let Some(proven) = if flown.table_proven { Some(plan.table) } else { plan.proven } {
            files::write(&folder.join(EEPROM), &proven.encode())?;
        }
        // Nobody learns from the other flights, and a log takes a megabyte.
        if flight.exploration.enabled {
            let path = folder.join(LOG);
            flown.write_log(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
        }
        let outcome = outcome(flight, &flown);
        write_summary(folder, &flown, outcome.steps, flight.exploration.enabled)?;
        Ok(outcome)
    }
}

fn outcome(flight: &FlightRequest, flown: &Flown) -> Outcome {
    let law = Flags(Flags::LAW.0 | Flags::MOTORS_ON.0);
    Outcome {
        flight: flight.number,
        seed: flight.seed,
        trouble: trouble(
            flown.guard_tripped,
            flown.failure.as_deref(),
            flown.is_landed,
            flown.metrics.is_some(),
        ),
        metrics: flown.metrics,
        steps: flown.records.iter().filter(|r| r.flags.has(law)).count() as u64,
        lost: 0,
        cpu_load: 0.0,
        new_card: false,
    }
}

/// Why a flight did not end as it should.
pub(super) fn trouble(
    guard_tripped: bool,
    failure: Option<&str>,
    landed: bool,
    measured: bool,
) -> Option<String> {
    if guard_tripped {
        Some("the gain guard took the table out of flight and landed".to_owned())
    } else if let Some(why) = failure {
        Some(why.to_owned())
    } else if !landed {
        Some("it did not land".to_owned())
    } else if !measured {
        Some("nothing of it counts: it has no metrics".to_owned())
    } else {
        None
    }
}

/// The parts of the virtual Crazyflie's summary that there are.
fn write_summary(folder: &Path, flown: &Flown, steps: u64, has_log: bool) -> Result<()> {
    let log = json!({"name": LOG, "records": flown.records.len(), "law_records": steps, "lost": 0});
    let summary = json!({
        "success": flown.failure.is_none(),
        "failure": flown.failure,
        "is_landed": flown.is_landed,
        "guard_tripped": flown.guard_tripped,
        "metrics": flown.metrics.filter(steady_sim::FlightMetrics::is_finite),
        "logs": if has_log { vec![log] } else { Vec::new() },
    });
    files::write_json(&folder.join("summary.json"), &summary)
}
