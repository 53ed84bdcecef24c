//! Everything a parameter can change, as plain data: written by the radio side, read by the flight step.

pub use steady_common::Controller;
pub use steady_common::exploration::Exploration;
use steady_common::guard::Envelope;
use steady_common::stock::{Propeller, mellinger};
use steady_common::{Gains, Vec3, estimator, supervisor};

use crate::ring::{self, Colour};

/// Gains to try without writing a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TryOut {
    /// They replace the table's gains, once the drone is disarmed or hovers, if they are in bounds.
    pub enabled: bool,
    /// The gains.
    pub gains: Gains,
}

/// Motion capture and estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Localization {
    /// Standard deviation of external positions, m (`locSrv.extPosStdDev`).
    pub position_std: f32,
    /// Standard deviation of external attitudes, rad (`locSrv.extQuatStdDev`).
    pub attitude_std: f32,
    /// Where the estimator starts, m (`kalman.initialX` …).
    pub initial_position: Vec3,
    /// Heading the estimator starts with, rad (`kalman.initialYaw`).
    pub initial_yaw: f32,
    /// How old motion capture is when it arrives, ms (`locSrv.extDelayMs`).
    pub delay_ms: u16,
    /// Noise the filter assumes.
    pub noise: estimator::Noise,
    /// Drag in the filter's prediction, 1/s (`kalman.drag`).
    pub drag_per_s: f32,
}

impl Localization {
    /// How old motion capture is when it arrives, s.
    #[must_use]
    pub fn delay_s(&self) -> f32 {
        f32::from(self.delay_ms) * 1e-3
    }
}

/// Which propellers are mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PropellerKind {
    /// Crazyflie 2.1+: the official build's default.
    #[default]
    Cf21Plus = 0,
    /// The original ones of the Crazyflie 2.0 and 2.1.
    Legacy = 1,
    /// The thrust upgrade kit.
    ThrustUpgrade = 2,
}

impl PropellerKind {
    /// By the value of its parameter.
    #[must_use]
    pub fn from_param(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Cf21Plus),
            1 => Some(Self::Legacy),
            2 => Some(Self::ThrustUpgrade),
            _ => None,
        }
    }

    /// Its thrust curve.
    #[must_use]
    pub fn curve(self) -> &'static Propeller {
        match self {
            Self::Cf21Plus => &Propeller::CF21_PLUS,
            Self::Legacy => &Propeller::CF2_LEGACY,
            Self::ThrustUpgrade => &Propeller::THRUST_UPGRADE,
        }
    }
}

/// What the LED ring shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingSettings {
    /// Number of the effect (`ring.effect`), see [`crate::ring`].
    pub effect: u8,
    /// Colour of the effect "solid" (`ring.solidRed` …).
    pub solid: Colour,
    /// Colour that the effect "fade" goes to, 0xRRGGBB (`ring.fadeColor`).
    pub fade_colour: u32,
    /// How long it takes to get there, s (`ring.fadeTime`).
    pub fade_time_s: f32,
}

/// Which motors a test turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MotorTest {
    /// None.
    #[default]
    Off = 0,
    /// Each with its own power.
    Single = 1,
    /// All with the first one's power.
    All = 2,
}

impl MotorTest {
    /// By the value of its parameter.
    #[must_use]
    pub fn from_param(value: u8) -> Option<Self> {
        [Self::Off, Self::Single, Self::All].into_iter().find(|test| *test as u8 == value)
    }
}

/// Every value a parameter can change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Who computes the action (`stabilizer.controller`).
    pub controller: Controller,
    /// Motors off while this is set, locked until the next boot (`stabilizer.stop`).
    pub stop: bool,
    /// Exploration noise.
    pub exploration: Exploration,
    /// Gains to try without writing a table.
    pub try_out: TryOut,
    /// Parameters of the stock Mellinger (`ctrlMel.*`).
    pub stock_mellinger: mellinger::Params,
    /// What unproven gains may do.
    pub guard: Envelope,
    /// Thresholds of the supervisor.
    pub supervisor: supervisor::Config,
    /// Motion capture and estimator.
    pub localization: Localization,
    /// Which propellers are mounted.
    pub propeller: PropellerKind,
    /// Refuse to arm without a card that can take a log.
    pub logging_required: bool,
    /// Write transitions to the card: start and stop (`usd.logging`).
    pub logging: bool,
    /// Write transitions to the card whenever armed.
    pub logging_on_arm: bool,
    /// What the LED ring shows.
    pub ring: RingSettings,
    /// The LED-ring deck's headlights are on (`ring.headlightEnable`).
    pub headlights: bool,
    /// The high-level planner listens to these groups (`hlCommander.groupmask`); 0 means to all.
    pub group_mask: u8,
    /// Which motors are turned by hand (`motorPowerSet.enable`).
    pub motor_test: MotorTest,
    /// Their powers, of 65536 (`motorPowerSet.m1` …).
    pub motor_power: [u16; 4],
}

impl Settings {
    /// What the firmware starts with; persistent parameters come on top.
    #[must_use]
    pub fn new() -> Self {
        Self {
            controller: Controller::default(),
            stop: false,
            exploration: Exploration::DEFAULT,
            try_out: TryOut { enabled: false, gains: Gains::nominal() },
            stock_mellinger: mellinger::Params::DEFAULT,
            guard: Envelope::DEFAULT,
            supervisor: supervisor::Config::DEFAULT,
            localization: Localization {
                position_std: 0.01,
                attitude_std: 0.0045,
                initial_position: Vec3::ZERO,
                initial_yaw: 0.0,
                delay_ms: 0,
                noise: estimator::Noise::DEFAULT,
                drag_per_s: 0.0,
            },
            propeller: PropellerKind::default(),
            logging_required: false,
            logging: false,
            logging_on_arm: true,
            ring: RingSettings {
                effect: ring::DEFAULT_EFFECT,
                solid: Colour { red: 20, green: 20, blue: 20 },
                fade_colour: 0,
                fade_time_s: 0.5,
            },
            headlights: false,
            group_mask: 0,
            motor_test: MotorTest::Off,
            motor_power: [0; 4],
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
