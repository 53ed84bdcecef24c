//! The flight task: sample, estimate, decide, control, motors; a thousand times a second.

use core::sync::atomic::Ordering;

use embassy_time::{Delay, Duration, with_timeout};
use heapless::spsc::{Consumer, Producer};
use steady_common::GRAVITY_M_S2;
use steady_common::Vec3;
use steady_common::commander::Command;
use steady_common::estimator::Imu;
use steady_common::gains_record::GainsRecord;
use steady_firmware::drivers::sensors::{SensorChips, SensorSample};
use steady_firmware::flight::{self, Event, Flight};
use steady_firmware::services::Device;
use steady_firmware::settings::Settings;
use steady_firmware::storage::{Feed, Item, Sampler};
use steady_firmware::toc::View;

use super::shared::{
    CARD_READY, DEVICE, DOUBTS, LOGGING, PLAN, SENSOR_FAILURE, SENSORS_OK, SETTINGS, TELEMETRY, battery_v,
};
use crate::board::motors::Motors;
use crate::board::watchdog::Watchdog;
use crate::board::{exti, i2c, time};

/// A step that is not done this long after its sample has missed its deadline, µs: one control period.
const DEADLINE_US: u32 = 2000;
/// A sample that does not come in this time is done without.
const SAMPLE_LIMIT: Duration = Duration::from_millis(3);
/// Samples lost in a row from which on the sensors count as failed.
const LOST_SAMPLES: u8 = 5;

/// What the task owns.
pub(crate) struct Parts {
    pub(crate) bus: i2c::SensorBus,
    pub(crate) motors: Motors,
    pub(crate) watchdog: Watchdog,
    pub(crate) flight: &'static mut Flight,
    pub(crate) commands: Consumer<'static, Command>,
    pub(crate) records: Feed<'static>,
    pub(crate) events: Producer<'static, Event>,
    pub(crate) settings: Settings,
    pub(crate) device: Device,
    /// The gains that the log knows of.
    pub(crate) logged_gains: Option<GainsRecord>,
}

/// Never returns.
#[embassy_executor::task]
pub(crate) async fn run(mut parts: Parts) {
    let mut sensors = match SensorChips::start(&mut parts.bus, &mut Delay).await {
        Ok(sensors) => {
            DOUBTS.set(sensors.doubts());
            SENSORS_OK.store(true, Ordering::Relaxed);
            Some(sensors)
        }
        Err(failure) => {
            SENSOR_FAILURE.set(failure);
            None
        }
    };
    if let Some(failure) = sensors.as_ref().and_then(SensorChips::barometer_failure) {
        SENSOR_FAILURE.set(failure);
    }

    let mut imu = Imu { accelerometer: Vec3::new(0.0, 0.0, GRAVITY_M_S2), gyro: Vec3::ZERO };
    // Until the first good sample the sensors count as failed.
    let mut lost = LOST_SAMPLES;
    let (mut seen, mut seen_plan, mut seen_device) = (0, 0, 0);
    let mut sampler = Sampler::default();
    parts.watchdog.start();
    loop {
        let edge = with_timeout(SAMPLE_LIMIT, exti::data_ready()).await.ok();
        let sample = match (&mut sensors, edge) {
            (Some(sensors), Some(_)) => sensors.read(&mut parts.bus).await.map_err(Some),
            _ => Err(None),
        };
        // A bus that hangs is the supervisor's business, not the watchdog's: without a sample the
        // deadline runs from here.
        let started = if sample.is_ok() { edge } else { None };
        let started = started.unwrap_or_else(time::now_us_low);
        let barometer = match sample {
            Ok(sample) => {
                (imu, lost) = (sample.imu, 0);
                sample.barometer
            }
            Err(failure) => {
                lost = lost.saturating_add(1);
                if let (LOST_SAMPLES, Some(failure)) = (lost, failure) {
                    SENSOR_FAILURE.set(failure);
                }
                None
            }
        };
        if let Some(settings) = SETTINGS.if_new(&mut seen) {
            parts.settings = settings;
        }
        if let Some(device) = DEVICE.if_new(&mut seen_device) {
            parts.device = device;
        }
        // Only when it differs: the sampler's clock would start over.
        if let Some(plan) = PLAN.if_new(&mut seen_plan) {
            sampler = Sampler::new(plan);
        }
        step(&mut parts, &mut sampler, SensorSample { imu, barometer }, lost < LOST_SAMPLES);
        if time::now_us_low().wrapping_sub(started) < DEADLINE_US {
            parts.watchdog.feed();
        }
    }
}

/// One flight step, motors first.
fn step(parts: &mut Parts, sampler: &mut Sampler, sample: SensorSample, healthy: bool) {
    let now_us = time::now_us();
    let Parts { motors, watchdog, flight, commands, records, events, settings, device, logged_gains, .. } =
        parts;
    while let Some(command) = commands.dequeue() {
        // A refusal is counted in the telemetry, where the radio sees it.
        let _ = flight.command(now_us, &command, settings);
    }
    let card_ready = CARD_READY.load(Ordering::Relaxed);
    let SensorSample { imu, barometer } = sample;
    let measured = flight::Sensors { imu, battery_v: battery_v(), healthy, card_ready, barometer };
    let output = flight.step(now_us, &measured, settings);
    motors.set(output.pwm);
    watchdog.bite_in_halt(output.pwm != [0; 4]);
    if LOGGING.load(Ordering::Relaxed) {
        if let Some(transition) = output.transition {
            // Before the step that flew with them.
            let gains = flight.gains();
            let is_known = |g: &GainsRecord| g.table == gains.table && g.try_out == gains.try_out;
            if !logged_gains.as_ref().is_some_and(is_known) && records.push(Item::Gains(gains)) {
                *logged_gains = Some(gains);
            }
            records.push(Item::Transition(transition));
        }
        let view = View { settings, telemetry: flight.telemetry(), device };
        sampler.sample(&view, flight.estimation(), |record| _ = records.push(record));
    } else {
        sampler.rest();
        *logged_gains = None;
    }
    if let Some(event) = output.event {
        // Eight places for what happens once in a flight.
        let _ = events.enqueue(event);
    }
    TELEMETRY.set(*flight.telemetry());
}
