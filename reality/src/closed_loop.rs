//! A recorded flight flown again: its set-points, the official controller that flew it and the firmware's own
//! estimator in a world, against what really happened.

use serde::Serialize;
use steady_common::{Reference, Vec3, math};
use steady_native::{Plan, Until, fly_references};
use steady_sim::world::BatteryModel;
use steady_sim::{MAX_MOTOR_THRUST_N, PlantParams, Task, World, WorldError};

use crate::flight::{DT_S, Flight, Sample};

/// Samples after take-off and before landing that are left out.
const MARGIN: usize = 200;
/// Both are compared after the last time in a flight's first half that the real drone's height was further off than
/// this, m: a take-off that overshoots is not what a set-point says.
const SETTLED_M: f32 = 0.3;
/// Control steps a sample.
const STEPS: usize = 5;
/// Longest lag that is looked for, samples.
const MAX_LAG: usize = 120;

/// How a flight followed its set-points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Behaviour {
    /// How far below the set-point it flew on average, cm.
    pub droop_cm: f64,
    /// How far behind the set-point it flew in x and y, s.
    pub lag_s: f64,
    /// Distance from the set-point, root mean square, cm.
    pub tracking_error_cm: f64,
    /// Rates about body x and y, root mean square, rad/s.
    pub rates_rad_s: f64,
}

/// A flight and its prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Where the flight is from.
    pub flight: String,
    /// Who flew.
    pub controller: String,
    /// What happened.
    pub flown: Behaviour,
    /// What the world says; nothing if the drone is lost there.
    pub predicted: Option<Behaviour>,
}

/// What is compared of a flight at one time.
#[derive(Clone, Copy)]
struct Moment {
    set: Vec3,
    position: Vec3,
    rates: Vec3,
}

fn behaviour(moments: &[Moment]) -> Behaviour {
    let count = moments.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Moment) -> f64| moments.iter().map(of).sum::<f64>() / count;
    let square = |v: Vec3| f64::from(v.dot(v));
    let flat = |v: Vec3| Vec3::new(v.x, v.y, 0.0);
    // From the same first moment for every lag, so that all sums have the same terms.
    let apart = |lag: usize| -> f64 {
        let later = moments.iter().skip(MAX_LAG);
        let earlier = moments.iter().skip(MAX_LAG - lag);
        later.zip(earlier).map(|(now, then)| square(flat(now.position - then.set))).sum()
    };
    let sums: Vec<f64> = (0..=MAX_LAG).map(apart).collect();
    let best = (0..=MAX_LAG).min_by(|a, b| sums[*a].total_cmp(&sums[*b])).unwrap_or(0);
    Behaviour {
        droop_cm: 100.0 * mean(&|m| f64::from(m.set.z - m.position.z)),
        lag_s: best as f64 * f64::from(DT_S),
        tracking_error_cm: 100.0 * math::sqrt_f64(mean(&|m| square(m.set - m.position))),
        rates_rad_s: math::sqrt_f64(mean(&|m| square(flat(m.rates)))),
    }
}

/// The part of a flight that is compared.
struct Course<'a> {
    flown: &'a [Sample],
    set: Vec<(Vec3, f32)>,
    moments: Vec<Moment>,
}

impl<'a> Course<'a> {
    /// `None` if the recording has no set-points, or is too short.
    fn of(flight: &'a Flight) -> Option<Self> {
        let last = flight.landing.saturating_sub(MARGIN);
        let is_off = |sample: &Sample| {
            sample.set_point.is_some_and(|(set, _)| (set.z - sample.state.position.z).abs() > SETTLED_M)
        };
        let in_air = flight.samples.get(flight.take_off + MARGIN..last)?;
        let begin = in_air.get(..in_air.len() / 2)?;
        let first = begin.iter().rposition(is_off).unwrap_or(0);
        let flown = in_air.get(first..).filter(|flown| flown.len() > 4 * MAX_LAG)?;
        let set: Vec<(Vec3, f32)> = flown.iter().map(|s| s.set_point).collect::<Option<_>>()?;
        let moment = |(s, set): (&Sample, &(Vec3, f32))| Moment {
            set: set.0,
            position: s.state.position,
            rates: s.state.rates,
        };
        Some(Self { flown, moments: flown.iter().zip(&set).map(moment).collect(), set })
    }
}

/// The drone arrives from a take-off: a second later on it is compared.
fn settled(moments: &[Moment]) -> Behaviour {
    behaviour(moments.get(MARGIN / 2..).unwrap_or_default())
}

/// How a flight followed its set-points; `None` if it has none.
pub fn flown(flight: &Flight) -> Option<Behaviour> {
    Some(settled(&Course::of(flight)?.moments))
}

/// Flies a flight's set-points in a world with the controller that flew it; `None` if the recording has no
/// set-points or does not say who flew.
///
/// # Errors
/// If the world is not valid.
pub fn replay(world: &World, flight: &Flight) -> Result<Option<Comparison>, WorldError> {
    let Some((controller, course)) = flight.controller.zip(Course::of(flight)) else { return Ok(None) };
    let Course { flown, set, moments } = course;
    let mut world = world.clone();
    let loaded_v = flown.iter().map(|s| s.battery_v).sum::<f32>() / flown.len() as f32;
    set_battery(&mut world, flight.samples.first().map_or(loaded_v, |s| s.battery_v), loaded_v);
    let references: Vec<Reference> = set
        .iter()
        .flat_map(|(position, yaw)| {
            std::iter::repeat_n(Reference { yaw: *yaw, ..Reference::hover(*position) }, STEPS)
        })
        .collect();
    let plan = Plan { controller, until: Until::TaskEnd, ..Plan::new(Task::Hover) };
    let mut simulated = Vec::with_capacity(references.len());
    let result = fly_references(&PlantParams::new(&world)?, &plan, &references, |sample| {
        if sample.counts {
            simulated.push(Moment {
                set: sample.reference.position,
                position: sample.truth.position,
                rates: sample.truth.rates,
            });
        }
    });
    let simulated: Vec<Moment> = simulated.into_iter().step_by(STEPS).collect();
    Ok(Some(Comparison {
        flight: flight.name.clone(),
        controller: controller.name().to_owned(),
        flown: settled(&moments),
        predicted: result.failure.is_none().then(|| settled(&simulated)),
    }))
}

/// The battery is the flight's: its voltage before take-off, and on average in the air.
fn set_battery(world: &mut World, rest_v: f32, loaded_v: f32) {
    let rest_v = rest_v.max(loaded_v);
    let thrust = 0.25 * world.body.mass_kg * world.physics.gravity_m_s2 / MAX_MOTOR_THRUST_N;
    let power_w = 4.0 * world.motors.full_thrust_power_w * thrust * math::sqrt(thrust);
    let battery = &mut world.battery;
    battery.model = BatteryModel::Lipo;
    battery.open_circuit_v = [rest_v; 11];
    battery.resistance_ohm = (rest_v - loaded_v) / (battery.idle_current_a + power_w / loaded_v);
}
