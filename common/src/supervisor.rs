//! The supervisor: whether the motors may run, and what flies.
//!
//! A pure state machine. [`Supervisor::update`] gets [`Facts`] in every control step and answers
//! with a [`Directive`]; [`next`] is the whole of its transitions. It follows the official
//! firmware's, with these differences: arming is always needed; losing set-points or the position
//! ends in a controlled descent instead of a fall; the fence, a low battery and the gain guard end
//! in one too; a drone that tumbles while it levels out has crashed (which can be recovered
//! from) instead of being locked; and so has one that stands still far from where it should be.

use crate::{Vec3, math};

/// State of the drone. Numbers as in the official firmware, and one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Just booted.
    #[default]
    NotInitialised = 0,
    /// Something blocks arming.
    PreFlightFailed = 1,
    /// Can be armed.
    PreFlightPassed = 2,
    /// Armed in this step.
    Arming = 3,
    /// Armed, motors off.
    ReadyToFly = 4,
    /// Motors run.
    Flying = 5,
    /// Armed, motors have stopped after a flight.
    Landed = 6,
    /// Disarms.
    Reset = 7,
    /// Set-points or position are missing: holds still and waits for them.
    LevelOut = 8,
    /// Motors off, whatever happens.
    FreeFall = 9,
    /// Motors off until the next boot.
    Locked = 10,
    /// Tumbled in flight or got stuck: motors off until recovery is asked for.
    Crashed = 11,
    /// Comes down by itself; cannot be called back.
    Descending = 12,
}

impl State {
    /// Every state, in the order of its number.
    pub const ALL: [Self; 13] = [
        Self::NotInitialised,
        Self::PreFlightFailed,
        Self::PreFlightPassed,
        Self::Arming,
        Self::ReadyToFly,
        Self::Flying,
        Self::Landed,
        Self::Reset,
        Self::LevelOut,
        Self::FreeFall,
        Self::Locked,
        Self::Crashed,
        Self::Descending,
    ];

    /// True in the states in which motors may run.
    #[must_use]
    pub fn may_fly(self) -> bool {
        matches!(self, Self::ReadyToFly | Self::Flying | Self::Landed | Self::LevelOut | Self::Descending)
    }

    /// True in the states in which the drone is in the air.
    #[must_use]
    pub fn is_airborne(self) -> bool {
        matches!(self, Self::Flying | Self::LevelOut | Self::Descending)
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInitialised => "not initialised",
            Self::PreFlightFailed => "pre-flight checks failed",
            Self::PreFlightPassed => "pre-flight checks passed",
            Self::Arming => "arming",
            Self::ReadyToFly => "ready to fly",
            Self::Flying => "flying",
            Self::Landed => "landed",
            Self::Reset => "reset",
            Self::LevelOut => "levelling out",
            Self::FreeFall => "motors cut",
            Self::Locked => "locked until the next boot",
            Self::Crashed => "crashed",
            Self::Descending => "descending",
        }
    }

    fn keeps_armed(self) -> bool {
        matches!(self, Self::PreFlightPassed | Self::Arming) || self.may_fly()
    }
}

/// What blocks arming, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blockers(pub u16);

impl Blockers {
    /// A sensor has failed its self-test or is silent.
    pub const SENSORS: Self = Self(1);
    /// The gyroscope is not calibrated: the drone has not been still yet.
    pub const CALIBRATION: Self = Self(1 << 1);
    /// Tilted too much.
    pub const TILT: Self = Self(1 << 2);
    /// The battery is too empty to start.
    pub const BATTERY: Self = Self(1 << 3);
    /// Logging is required, and the card is missing or full.
    pub const CARD: Self = Self(1 << 4);
    /// The gains to fly are outside their bounds.
    pub const TABLE: Self = Self(1 << 5);
    /// Lies on its side or back.
    pub const TUMBLED: Self = Self(1 << 6);
    /// Crashed; recovery has not been asked for.
    pub const CRASHED: Self = Self(1 << 7);
    /// Stopped in an emergency; needs a boot.
    pub const LOCKED: Self = Self(1 << 8);
    /// The button was pressed: the power goes off in a moment.
    pub const SWITCH_OFF: Self = Self(1 << 9);
    /// The board is not one this firmware can fly.
    pub const BOARD: Self = Self(1 << 10);

    /// Every blocker and what reports call it.
    pub const NAMES: [(Self, &'static str); 11] = [
        (Self::SENSORS, "sensors"),
        (Self::CALIBRATION, "not still yet"),
        (Self::TILT, "tilt"),
        (Self::BATTERY, "battery"),
        (Self::CARD, "card"),
        (Self::TABLE, "gain table"),
        (Self::TUMBLED, "tumbled"),
        (Self::CRASHED, "crashed"),
        (Self::LOCKED, "locked"),
        (Self::SWITCH_OFF, "switching off"),
        (Self::BOARD, "not a Crazyflie 2.1"),
    ];

    /// True when nothing blocks arming.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when this one is among them.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn add(&mut self, other: Self, when: bool) {
        if when {
            self.0 |= other.0;
        }
    }
}

/// Why the drone lands by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LandingCause {
    /// It does not.
    #[default]
    None = 0,
    /// No set-point for too long.
    SetpointLost = 1,
    /// No motion capture for too long.
    PositionLost = 2,
    /// Left the fence.
    Geofence = 3,
    /// The battery is empty.
    LowBattery = 4,
    /// The gain guard has taken a table out of flight.
    Guard = 5,
    /// The button was pressed, and the power goes off in a moment.
    SwitchOff = 6,
}

impl LandingCause {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SetpointLost => "set-point lost",
            Self::PositionLost => "position lost",
            Self::Geofence => "left the fence",
            Self::LowBattery => "low battery",
            Self::Guard => "gain guard",
            Self::SwitchOff => "switched off",
        }
    }
}

/// What flies in this step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directive {
    /// Motors off.
    #[default]
    Off,
    /// The commanded reference.
    Fly,
    /// Hold still and level.
    LevelOut,
    /// Come down slowly.
    Descend,
}

/// Thresholds. Times and angles of the official firmware where it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// A set-point older than this makes the drone level out, ms.
    pub setpoint_warning_ms: u32,
    /// A set-point older than this makes it come down, ms.
    pub setpoint_timeout_ms: u32,
    /// Without motion capture for this long it levels out, ms.
    pub position_warning_ms: u32,
    /// Without motion capture for this long it comes down, ms.
    pub position_timeout_ms: u32,
    /// Armed without starting for this long it disarms, ms.
    pub preflight_timeout_ms: u32,
    /// With motors off for this long the drone is no longer flying, ms.
    pub flying_hold_ms: u32,
    /// Landed for this long it disarms, ms.
    pub landed_timeout_ms: u32,
    /// A watchdog not fed for this long stops the drone, ms.
    pub watchdog_ms: u32,
    /// A descent ends after this long, ms, whether the floor was felt or not.
    pub descent_timeout_ms: u32,
    /// Maximum tilt for arming, rad.
    pub max_arm_tilt_rad: f32,
    /// Minimum battery voltage for arming, V.
    pub min_arm_v: f32,
    /// A battery below this under load comes down, V …
    pub land_v: f32,
    /// … when it stays below for this long, ms.
    pub low_battery_ms: u32,
    /// Look for tumbling.
    pub tumble_check: bool,
    /// A jolt of this much beyond 1 g is a crash, g; 0 is off.
    pub crash_g: f32,
    /// Lowest corner of the fence, m.
    pub fence_min: Vec3,
    /// Highest corner of the fence, m.
    pub fence_max: Vec3,
}

impl Config {
    /// Defaults of the firmware.
    pub const DEFAULT: Self = Self {
        setpoint_warning_ms: 500,
        setpoint_timeout_ms: 2000,
        position_warning_ms: 500,
        position_timeout_ms: 1000,
        preflight_timeout_ms: 30_000,
        flying_hold_ms: 2000,
        landed_timeout_ms: 3000,
        watchdog_ms: 1000,
        descent_timeout_ms: 20_000,
        max_arm_tilt_rad: 0.35,
        min_arm_v: 3.6,
        land_v: 3.0,
        low_battery_ms: 5000,
        tumble_check: true,
        crash_g: 0.0,
        fence_min: Vec3::new(-5.0, -5.0, -1.0),
        fence_max: Vec3::new(5.0, 5.0, 3.0),
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Inputs of the supervisor in every control step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Time, ms; may wrap.
    pub now_ms: u32,
    /// The board is one this firmware can fly.
    pub board_ok: bool,
    /// Sensors have passed their tests and answer.
    pub sensors_ok: bool,
    /// The gyroscope's bias is known.
    pub calibrated: bool,
    /// The gains to fly are inside their bounds.
    pub table_ok: bool,
    /// The card can take a log, or none is required.
    pub card_ok: bool,
    /// Filtered specific force in the body frame, m/s².
    pub accelerometer: Vec3,
    /// Cosine of the estimated tilt.
    pub up: f32,
    /// Filtered battery voltage, V.
    pub battery_v: f32,
    /// Some motor ran in the last step.
    pub motors_run: bool,
    /// Age of what is flown, ms.
    pub setpoint_age_ms: u32,
    /// What is flown needs to know where the drone is.
    pub needs_position: bool,
    /// Time since motion capture last saw the drone, ms; `u32::MAX` if never.
    pub position_age_ms: u32,
    /// Estimated position, m.
    pub position: Vec3,
    /// A descent has found the floor.
    pub touchdown: bool,
    /// The gain guard has taken a table out of flight.
    pub guard_tripped: bool,
    /// A client holds the stop parameter.
    pub stop: bool,
    /// Motors run, but the drone stands on the floor, far from where it should be.
    pub stuck: bool,
    /// The button was pressed: the power goes off in a moment.
    pub switch_off: bool,
}

/// Conditions of the transitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Emergency stop, by command, parameter or watchdog.
    pub emergency: bool,
    /// Lies on its side or back, has had a jolt, or is stuck.
    pub tumbled: bool,
    /// Something blocks arming.
    pub blocked: bool,
    /// Armed.
    pub armed: bool,
    /// Motors have run lately.
    pub flying: bool,
    /// Set-point or position are late.
    pub warning: bool,
    /// There is a reason to come down.
    pub must_land: bool,
    /// The descent has found the floor or lasted too long.
    pub descent_over: bool,
    /// Armed for too long without starting.
    pub preflight_timeout: bool,
    /// Landed for long enough.
    pub landed_timeout: bool,
    /// Recovery was asked for.
    pub recover: bool,
}

/// The state after `state`: the first condition that holds wins.
#[must_use]
pub fn next(state: State, c: &Conditions) -> State {
    let first = |rules: &[(bool, State)]| rules.iter().find(|(holds, _)| *holds).map_or(state, |(_, to)| *to);
    match state {
        State::NotInitialised | State::Reset => State::PreFlightFailed,
        State::PreFlightFailed => {
            first(&[(c.emergency, State::FreeFall), (!c.blocked, State::PreFlightPassed)])
        }
        State::PreFlightPassed => first(&[
            (c.emergency, State::FreeFall),
            (c.blocked, State::PreFlightFailed),
            (c.armed, State::Arming),
        ]),
        State::Arming => first(&[
            (c.emergency, State::FreeFall),
            (c.blocked || !c.armed, State::PreFlightFailed),
            (true, State::ReadyToFly),
        ]),
        State::ReadyToFly => first(&[
            (c.emergency, State::FreeFall),
            (!c.armed, State::PreFlightFailed),
            (c.flying, State::Flying),
            (c.blocked || c.preflight_timeout, State::PreFlightFailed),
        ]),
        State::Flying => first(&[
            (c.emergency, State::FreeFall),
            (c.tumbled, State::Crashed),
            (!c.armed, State::Reset),
            (!c.flying, State::Landed),
            (c.must_land, State::Descending),
            (c.warning, State::LevelOut),
        ]),
        State::LevelOut => first(&[
            (c.emergency, State::FreeFall),
            (c.tumbled, State::Crashed),
            (!c.armed, State::Reset),
            (c.must_land, State::Descending),
            (!c.warning, State::Flying),
        ]),
        State::Descending => first(&[
            (c.emergency, State::FreeFall),
            (c.tumbled, State::Crashed),
            (!c.armed || c.descent_over, State::Reset),
        ]),
        State::Landed => first(&[
            (c.emergency, State::FreeFall),
            (c.tumbled || !c.armed || c.landed_timeout, State::Reset),
            (c.flying, State::Flying),
        ]),
        State::FreeFall | State::Locked => State::Locked,
        State::Crashed => {
            first(&[(c.emergency, State::Locked), (c.recover && !c.tumbled, State::PreFlightFailed)])
        }
    }
}

/// Below this much of a g upwards the drone lies on its side …
const TILTED_G: f32 = 0.5;
/// … when it lasts this long, ms.
const TILTED_MS: u32 = 1000;
/// Below this much of a g upwards it lies on its back …
const UPSIDE_DOWN_G: f32 = -0.2;
/// … when it lasts this long, ms.
const UPSIDE_DOWN_MS: u32 = 100;
/// Cosine of the estimated tilt that is on the back (about 100°).
const UPSIDE_DOWN_COS: f32 = -0.17;
/// Stuck for this long has crashed, ms.
const STUCK_MS: u32 = 500;
/// Sensors silent for this long in the air are lost, ms.
const SENSORS_LOST_MS: u32 = 50;
/// Less than this on every axis is free fall, g.
const FREE_FALL_G: f32 = 0.1;

/// A condition that must last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lasting {
    since_ms: Option<u32>,
}

impl Lasting {
    /// True once `holds` has been true for longer than `ms`.
    fn update(&mut self, holds: bool, now_ms: u32, ms: u32) -> bool {
        if !holds {
            self.since_ms = None;
            return false;
        }
        let since = *self.since_ms.get_or_insert(now_ms);
        now_ms.wrapping_sub(since) > ms
    }
}

/// The state machine with its timers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Supervisor {
    state: State,
    entered_ms: u32,
    armed: bool,
    emergency: bool,
    watchdog_fed_ms: Option<u32>,
    recover: bool,
    blockers: Blockers,
    landing_cause: LandingCause,
    tilted: Lasting,
    upside_down: Lasting,
    turned_over: Lasting,
    stuck: Lasting,
    low_battery: Lasting,
    sensors_lost: Lasting,
    motors_ran_ms: Option<u32>,
    tumbled: bool,
}

impl Supervisor {
    /// As after boot: not armed.
    #[must_use]
    pub fn new() -> Self {
        Self { blockers: Blockers(Blockers::SENSORS.0 | Blockers::CALIBRATION.0), ..Self::default() }
    }

    /// Arms or disarms.
    ///
    /// # Errors
    /// What blocks arming.
    pub fn arm(&mut self, arm: bool) -> Result<(), Blockers> {
        if !arm {
            self.armed = false;
            return Ok(());
        }
        if self.armed {
            return Ok(());
        }
        if self.state != State::PreFlightPassed {
            return Err(self.blockers);
        }
        self.armed = true;
        Ok(())
    }

    /// Motors off from now to the next boot.
    pub fn emergency_stop(&mut self) {
        self.emergency = true;
    }

    /// Feeds the watchdog; the first time starts it.
    pub fn feed_watchdog(&mut self, now_ms: u32) {
        self.watchdog_fed_ms = Some(now_ms);
    }

    /// Asks to leave the crashed state; granted when the drone stands upright.
    ///
    /// Returns false when there is nothing to recover from.
    pub fn recover(&mut self) -> bool {
        self.recover = self.state == State::Crashed && !self.tumbled;
        self.recover
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// True when armed.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// What blocks arming.
    #[must_use]
    pub fn blockers(&self) -> Blockers {
        self.blockers
    }

    /// Why the drone comes, or last came, down by itself.
    #[must_use]
    pub fn landing_cause(&self) -> LandingCause {
        self.landing_cause
    }

    /// The official `supervisor.info` bits; `planner` has the bits of the high-level planner.
    #[must_use]
    pub fn info(&self, planner: u16) -> u16 {
        let bit = |on: bool, number: u16| u16::from(on) << number;
        bit(self.state == State::PreFlightPassed, 0)
            | bit(self.armed, 1)
            | bit(self.state.may_fly(), 3)
            | bit(self.state.is_airborne(), 4)
            | bit(self.tumbled, 5)
            | bit(matches!(self.state, State::FreeFall | State::Locked), 6)
            | bit(self.state == State::Crashed, 7)
            | planner & (7 << 8)
    }

    /// One control step.
    pub fn update(&mut self, config: &Config, facts: &Facts) -> Directive {
        let now = facts.now_ms;
        self.tumbled = self.is_tumbled(config, facts);
        let stuck = self.stuck.update(facts.stuck && self.state.is_airborne(), now, STUCK_MS);
        if facts.switch_off && !self.state.is_airborne() {
            self.armed = false;
        }
        if facts.motors_run {
            self.motors_ran_ms = Some(now);
        }
        let starved = self.watchdog_fed_ms.is_some_and(|fed| now.wrapping_sub(fed) > config.watchdog_ms);
        // Without its gyroscope a flying drone has no way to stay upright.
        let blind = self.sensors_lost.update(!facts.sensors_ok, now, SENSORS_LOST_MS);
        self.emergency |= facts.stop || starved || blind && self.state.is_airborne();
        self.blockers = self.find_blockers(config, facts);
        let cause = self.find_landing_cause(config, facts);
        let in_state = now.wrapping_sub(self.entered_ms);
        let late = |age: u32, limit: u32| age > limit;
        let conditions = Conditions {
            emergency: self.emergency,
            tumbled: self.tumbled || stuck,
            blocked: !self.blockers.is_empty(),
            armed: self.armed,
            flying: self.motors_ran_ms.is_some_and(|ran| now.wrapping_sub(ran) <= config.flying_hold_ms),
            warning: late(facts.setpoint_age_ms, config.setpoint_warning_ms)
                || facts.needs_position && late(facts.position_age_ms, config.position_warning_ms),
            must_land: cause != LandingCause::None,
            descent_over: facts.touchdown || in_state > config.descent_timeout_ms,
            preflight_timeout: in_state > config.preflight_timeout_ms,
            landed_timeout: in_state > config.landed_timeout_ms,
            recover: core::mem::take(&mut self.recover),
        };
        let state = next(self.state, &conditions);
        if state != self.state {
            match state {
                State::Descending => self.landing_cause = cause,
                State::ReadyToFly => {
                    self.landing_cause = LandingCause::None;
                    self.motors_ran_ms = None;
                }
                _ => {}
            }
            (self.state, self.entered_ms) = (state, now);
        }
        self.armed &= self.state.keeps_armed();
        self.directive(config, facts)
    }

    fn directive(&self, config: &Config, facts: &Facts) -> Directive {
        match self.state {
            // Nothing that needs a position starts without one.
            State::ReadyToFly | State::Landed
                if facts.needs_position && facts.position_age_ms > config.position_warning_ms
                    || facts.setpoint_age_ms > config.setpoint_warning_ms =>
            {
                Directive::Off
            }
            State::ReadyToFly | State::Flying | State::Landed => Directive::Fly,
            State::LevelOut => Directive::LevelOut,
            State::Descending => Directive::Descend,
            _ => Directive::Off,
        }
    }

    fn is_tumbled(&mut self, config: &Config, facts: &Facts) -> bool {
        let g = facts.accelerometer * (1.0 / crate::GRAVITY_M_S2);
        let falls = g.to_array().iter().all(|a| math::abs(*a) < FREE_FALL_G);
        let now = facts.now_ms;
        // All are looked at in every step, so that none misses a part of its time.
        let tilted = self.tilted.update(!falls && g.z < TILTED_G, now, TILTED_MS);
        let upside_down = self.upside_down.update(!falls && g.z < UPSIDE_DOWN_G, now, UPSIDE_DOWN_MS);
        let turned_over = self.turned_over.update(facts.up < UPSIDE_DOWN_COS, now, UPSIDE_DOWN_MS);
        let jolt =
            config.crash_g > 0.0 && self.state.is_airborne() && math::abs(g.norm() - 1.0) > config.crash_g;
        config.tumble_check && (tilted || upside_down || turned_over) || jolt
    }

    fn find_blockers(&self, config: &Config, facts: &Facts) -> Blockers {
        let mut b = Blockers::default();
        b.add(Blockers::SENSORS, !facts.sensors_ok);
        b.add(Blockers::CALIBRATION, !facts.calibrated);
        // Written so that a NaN blocks.
        let tilt = config.max_arm_tilt_rad;
        let upright = tilt.is_finite() && facts.up >= math::cos(tilt);
        let charged = facts.battery_v >= config.min_arm_v;
        b.add(Blockers::TILT, !upright);
        b.add(Blockers::BATTERY, !charged);
        b.add(Blockers::CARD, !facts.card_ok);
        b.add(Blockers::TABLE, !facts.table_ok);
        b.add(Blockers::TUMBLED, self.tumbled);
        b.add(Blockers::CRASHED, self.state == State::Crashed);
        b.add(Blockers::LOCKED, self.emergency);
        b.add(Blockers::SWITCH_OFF, facts.switch_off);
        b.add(Blockers::BOARD, !facts.board_ok);
        b
    }

    fn find_landing_cause(&mut self, config: &Config, facts: &Facts) -> LandingCause {
        // Written so that a NaN, in the setting or in the measurement, is a reason to land.
        let enough = facts.battery_v >= config.land_v;
        let empty = self.low_battery.update(!enough, facts.now_ms, config.low_battery_ms);
        let outside = |p: f32, low: f32, high: f32| !(low..=high).contains(&p);
        let (p, low, high) = (facts.position, config.fence_min, config.fence_max);
        let position_is_fresh = facts.position_age_ms <= config.position_warning_ms;
        if facts.switch_off {
            LandingCause::SwitchOff
        } else if facts.guard_tripped {
            LandingCause::Guard
        } else if facts.needs_position && facts.position_age_ms > config.position_timeout_ms {
            LandingCause::PositionLost
        } else if position_is_fresh
            && (outside(p.x, low.x, high.x) || outside(p.y, low.y, high.y) || outside(p.z, low.z, high.z))
        {
            LandingCause::Geofence
        } else if empty {
            LandingCause::LowBattery
        } else if facts.setpoint_age_ms > config.setpoint_timeout_ms {
            LandingCause::SetpointLost
        } else {
            LandingCause::None
        }
    }
}
