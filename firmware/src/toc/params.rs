//! The parameters.

use steady_common::commander::Command;
use steady_common::gains::GAINS;
use steady_common::value::{Type, Value};

use super::View;
use crate::flight::MAX_TEST_POWER;
use crate::ring;
use crate::settings::{Controller, Exploration, MotorTest, PropellerKind, Settings};

/// The result of writing a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    /// It has the new value.
    Done,
    /// The value is not possible; it keeps the old one.
    Refused,
    /// The flight task needs the new value.
    Send(Command),
}

/// A parameter.
#[derive(Clone, Copy)]
pub struct Param {
    /// Group.
    pub group: &'static str,
    /// Name in the group.
    pub name: &'static str,
    /// Type.
    pub kind: Type,
    /// It can be kept over a restart.
    pub persistent: bool,
    /// Reads it.
    pub get: fn(&View<'_>) -> Value,
    /// Writes it; nothing for those that can only be read.
    pub set: Option<fn(&mut Settings, Value) -> Set>,
}

impl core::fmt::Debug for Param {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.group, self.name)
    }
}

/// A number in the settings, between limits.
macro_rules! number {
    ($group:literal, $name:literal, $variant:ident, $range:expr, $persistent:literal, $($path:ident).+ $(($axis:tt))?) => {
        Param {
            group: $group,
            name: $name,
            kind: Type::$variant,
            persistent: $persistent,
            get: |v| Value::$variant(v.settings.$($path).+ $(.$axis)?),
            set: Some(|s, value| match value {
                Value::$variant(x) if ($range).contains(&x) => {
                    s.$($path).+ $(.$axis)? = x;
                    Set::Done
                }
                _ => Set::Refused,
            }),
        }
    };
}

/// A yes or no in the settings.
macro_rules! switch {
    ($group:literal, $name:literal, $persistent:literal, $($path:ident).+) => {
        Param {
            group: $group,
            name: $name,
            kind: Type::U8,
            persistent: $persistent,
            get: |v| Value::U8(u8::from(v.settings.$($path).+)),
            set: Some(|s, value| match value {
                Value::U8(x) => {
                    s.$($path).+ = x != 0;
                    Set::Done
                }
                _ => Set::Refused,
            }),
        }
    };
}

/// A number that can only be read.
macro_rules! fixed {
    ($group:literal, $name:literal, $variant:ident, $get:expr) => {
        Param {
            group: $group,
            name: $name,
            kind: Type::$variant,
            persistent: false,
            get: |v| Value::$variant(($get)(v)),
            set: None,
        }
    };
}

/// A gain to try, between the bounds of its gain in the table.
macro_rules! gain {
    ($name:literal, $index:literal, $($path:ident).+) => {
        number!("gain", $name, F32, GAINS[$index].min..=GAINS[$index].max, false, try_out.gains.$($path).+)
    };
}

/// Standard deviation of the exploration noise on one component of the action.
macro_rules! noise {
    ($name:literal, $index:literal) => {
        Param {
            group: "steady",
            name: $name,
            kind: Type::F32,
            persistent: false,
            get: |v| Value::F32(v.settings.exploration.std[$index]),
            set: Some(|s, value| match value {
                Value::F32(x) if (0.0..=Exploration::LIMIT).contains(&x) => {
                    s.exploration.std[$index] = x;
                    Set::Done
                }
                _ => Set::Refused,
            }),
        }
    };
}

/// A parameter of the stock Mellinger.
macro_rules! stock {
    ($name:literal, $field:ident) => {
        number!("ctrlMel", $name, F32, 0.0..=1e6, true, stock_mellinger.$field)
    };
}

/// Power of a motor in a motor test. Every write lets the test go on for a while.
macro_rules! motor {
    ($name:literal, $index:literal) => {
        Param {
            group: "motorPowerSet",
            name: $name,
            kind: Type::U16,
            persistent: false,
            get: |v| Value::U16(v.settings.motor_power[$index]),
            set: Some(|s, value| match value {
                Value::U16(x) if x <= MAX_TEST_POWER => {
                    s.motor_power[$index] = x;
                    Set::Send(Command::TestMotors)
                }
                _ => Set::Refused,
            }),
        }
    };
}

/// Distances from the origin that make sense, m.
const DISTANCE: core::ops::RangeInclusive<f32> = -100.0..=100.0;
/// Times that make sense, ms.
const TIME: core::ops::RangeInclusive<u32> = 0..=600_000;
/// Standard deviations that make sense.
const STD: core::ops::RangeInclusive<f32> = 1e-5..=100.0;
/// Cell voltages that make sense.
const VOLTS: core::ops::RangeInclusive<f32> = 0.0..=4.5;

/// Delays of motion capture, ms: what the estimator can compensate.
const MAX_DELAY_MS: u16 = (steady_common::estimator::MAX_AGE_S * 1000.0) as u16;

/// Every parameter; its place in the list is its number. Items of a group stand together.
pub const PARAMS: &[Param] = &[
    Param {
        group: "stabilizer",
        name: "controller",
        kind: Type::U8,
        persistent: true,
        get: |v| Value::U8(v.settings.controller as u8),
        set: Some(|s, value| match value {
            Value::U8(x) => match Controller::from_param(x) {
                Some(controller) => {
                    s.controller = controller;
                    Set::Done
                }
                None => Set::Refused,
            },
            _ => Set::Refused,
        }),
    },
    // There is one estimator, which clients that know others call Kalman.
    Param {
        group: "stabilizer",
        name: "estimator",
        kind: Type::U8,
        persistent: false,
        get: |_| Value::U8(2),
        set: Some(|_, value| match value {
            Value::U8(0 | 2) => Set::Done,
            _ => Set::Refused,
        }),
    },
    switch!("stabilizer", "stop", false, stop),
    stock!("kp_xy", kp_xy),
    stock!("kd_xy", kd_xy),
    stock!("ki_xy", ki_xy),
    stock!("i_range_xy", i_range_xy),
    stock!("kp_z", kp_z),
    stock!("kd_z", kd_z),
    stock!("ki_z", ki_z),
    stock!("i_range_z", i_range_z),
    stock!("mass", mass),
    stock!("massThrust", massThrust),
    stock!("kR_xy", kR_xy),
    stock!("kR_z", kR_z),
    stock!("kw_xy", kw_xy),
    stock!("kw_z", kw_z),
    stock!("ki_m_xy", ki_m_xy),
    stock!("ki_m_z", ki_m_z),
    stock!("kd_omega_rp", kd_omega_rp),
    stock!("i_range_m_xy", i_range_m_xy),
    stock!("i_range_m_z", i_range_m_z),
    switch!("gain", "tryOut", false, try_out.enabled),
    gain!("posPxy", 0, position.p.xy),
    gain!("posPz", 1, position.p.z),
    gain!("posIxy", 2, position.i.xy),
    gain!("posIz", 3, position.i.z),
    gain!("posDxy", 4, position.d.xy),
    gain!("posDz", 5, position.d.z),
    gain!("velPxy", 6, velocity.p.xy),
    gain!("velPz", 7, velocity.p.z),
    gain!("velIxy", 8, velocity.i.xy),
    gain!("velIz", 9, velocity.i.z),
    gain!("velDxy", 10, velocity.d.xy),
    gain!("velDz", 11, velocity.d.z),
    gain!("attPxy", 12, attitude.p.xy),
    gain!("attPz", 13, attitude.p.z),
    gain!("attIxy", 14, attitude.i.xy),
    gain!("attIz", 15, attitude.i.z),
    gain!("attDxy", 16, attitude.d.xy),
    gain!("attDz", 17, attitude.d.z),
    gain!("ratePxy", 18, rate.p.xy),
    gain!("ratePz", 19, rate.p.z),
    gain!("rateIxy", 20, rate.i.xy),
    gain!("rateIz", 21, rate.i.z),
    gain!("rateDxy", 22, rate.d.xy),
    gain!("rateDz", 23, rate.d.z),
    switch!("steady", "explore", false, exploration.enabled),
    noise!("noiseThrust", 0),
    noise!("noiseRoll", 1),
    noise!("noisePitch", 2),
    noise!("noiseYaw", 3),
    number!("steady", "noiseHold", U16, 1..=5000, false, exploration.hold),
    number!("steady", "noiseSeed", U32, 0..=u32::MAX, false, exploration.seed),
    Param {
        group: "steady",
        name: "propeller",
        kind: Type::U8,
        persistent: true,
        get: |v| Value::U8(v.settings.propeller as u8),
        set: Some(|s, value| match value {
            Value::U8(x) => match PropellerKind::from_param(x) {
                Some(kind) => {
                    s.propeller = kind;
                    Set::Done
                }
                None => Set::Refused,
            },
            _ => Set::Refused,
        }),
    },
    switch!("steady", "logRequired", true, logging_required),
    switch!("steady", "logOnArm", true, logging_on_arm),
    switch!("guard", "enable", true, guard.enabled),
    number!("guard", "tracking", F32, 0.01..=10.0, true, guard.tracking_m),
    number!("guard", "trackingMs", U16, 0..=10_000, true, guard.tracking_ms),
    number!("guard", "tilt", F32, 0.05..=3.2, true, guard.tilt_rad),
    number!("guard", "tiltMs", U16, 0..=10_000, true, guard.tilt_ms),
    number!("guard", "rate", F32, 0.1..=40.0, true, guard.rate_rad_s),
    number!("guard", "rateMs", U16, 0..=10_000, true, guard.rate_ms),
    switch!("supervisor", "tmblChckEn", true, supervisor.tumble_check),
    number!("supervisor", "crashG", F32, 0.0..=20.0, true, supervisor.crash_g),
    number!("supervisor", "setpointWarn", U32, TIME, true, supervisor.setpoint_warning_ms),
    number!("supervisor", "setpointStop", U32, TIME, true, supervisor.setpoint_timeout_ms),
    number!("supervisor", "mocapWarn", U32, TIME, true, supervisor.position_warning_ms),
    number!("supervisor", "mocapStop", U32, TIME, true, supervisor.position_timeout_ms),
    number!("supervisor", "preflightTmo", U32, TIME, true, supervisor.preflight_timeout_ms),
    number!("supervisor", "landedTmo", U32, TIME, true, supervisor.landed_timeout_ms),
    number!("supervisor", "armTilt", F32, 0.05..=1.5, true, supervisor.max_arm_tilt_rad),
    number!("supervisor", "armVolt", F32, VOLTS, true, supervisor.min_arm_v),
    number!("supervisor", "landVolt", F32, VOLTS, true, supervisor.land_v),
    number!("supervisor", "lowBatMs", U32, TIME, true, supervisor.low_battery_ms),
    number!("fence", "minX", F32, DISTANCE, true, supervisor.fence_min.x),
    number!("fence", "minY", F32, DISTANCE, true, supervisor.fence_min.y),
    number!("fence", "minZ", F32, DISTANCE, true, supervisor.fence_min.z),
    number!("fence", "maxX", F32, DISTANCE, true, supervisor.fence_max.x),
    number!("fence", "maxY", F32, DISTANCE, true, supervisor.fence_max.y),
    number!("fence", "maxZ", F32, DISTANCE, true, supervisor.fence_max.z),
    number!("locSrv", "extPosStdDev", F32, STD, true, localization.position_std),
    number!("locSrv", "extQuatStdDev", F32, STD, true, localization.attitude_std),
    number!("locSrv", "extDelayMs", U16, 0..=MAX_DELAY_MS, true, localization.delay_ms),
    number!("kalman", "initialX", F32, DISTANCE, true, localization.initial_position.x),
    number!("kalman", "initialY", F32, DISTANCE, true, localization.initial_position.y),
    number!("kalman", "initialZ", F32, DISTANCE, true, localization.initial_position.z),
    number!("kalman", "initialYaw", F32, -7.0..=7.0, true, localization.initial_yaw),
    number!("kalman", "pNAcc_xy", F32, STD, true, localization.noise.acceleration(0)),
    number!("kalman", "pNAcc_z", F32, STD, true, localization.noise.acceleration(1)),
    number!("kalman", "mNGyro_rollpitch", F32, STD, true, localization.noise.gyro),
    number!("kalman", "drag", F32, 0.0..=5.0, true, localization.drag_per_s),
    // Writing 1 starts the estimator again; clients write 0 afterwards.
    Param {
        group: "kalman",
        name: "resetEstimation",
        kind: Type::U8,
        persistent: false,
        get: |_| Value::U8(0),
        set: Some(|_, value| match value {
            Value::U8(0) => Set::Done,
            Value::U8(_) => Set::Send(Command::ResetEstimator),
            _ => Set::Refused,
        }),
    },
    number!("hlCommander", "groupmask", U8, 0..=u8::MAX, true, group_mask),
    // The high-level commander is always there; clients that switch it on find it so.
    Param {
        group: "commander",
        name: "enHighLevel",
        kind: Type::U8,
        persistent: false,
        get: |_| Value::U8(1),
        set: Some(|_, value| if value == Value::U8(1) { Set::Done } else { Set::Refused }),
    },
    switch!("usd", "logging", false, logging),
    fixed!("usd", "canLog", U8, |v: &View<'_>| u8::from(v.device.storage.can_log)),
    number!("ring", "effect", U8, 0..=ring::LAST_EFFECT, true, ring.effect),
    fixed!("ring", "neffect", U8, |_: &View<'_>| ring::LAST_EFFECT),
    number!("ring", "solidRed", U8, 0..=u8::MAX, true, ring.solid.red),
    number!("ring", "solidGreen", U8, 0..=u8::MAX, true, ring.solid.green),
    number!("ring", "solidBlue", U8, 0..=u8::MAX, true, ring.solid.blue),
    number!("ring", "fadeColor", U32, 0..=0xFF_FFFF, false, ring.fade_colour),
    number!("ring", "fadeTime", F32, 0.0..=600.0, false, ring.fade_time_s),
    switch!("ring", "headlightEnable", false, headlights),
    Param {
        group: "motorPowerSet",
        name: "enable",
        kind: Type::U8,
        persistent: false,
        get: |v| Value::U8(v.settings.motor_test as u8),
        set: Some(|s, value| match value {
            Value::U8(x) => match MotorTest::from_param(x) {
                Some(test) => {
                    s.motor_test = test;
                    Set::Send(Command::TestMotors)
                }
                None => Set::Refused,
            },
            _ => Set::Refused,
        }),
    },
    motor!("m1", 0),
    motor!("m2", 1),
    motor!("m3", 2),
    motor!("m4", 3),
    fixed!("deck", "bcUSD", U8, |v: &View<'_>| u8::from(v.device.micro_sd_deck)),
    fixed!("deck", "bcLedRing", U8, |v: &View<'_>| u8::from(v.device.led_ring_deck)),
    fixed!("system", "selftestPassed", U8, |v: &View<'_>| u8::from(v.device.self_test_passed)),
    fixed!("firmware", "revision0", U32, |v: &View<'_>| v.device.revision),
    fixed!("firmware", "modified", U8, |v: &View<'_>| u8::from(v.device.modified)),
];
