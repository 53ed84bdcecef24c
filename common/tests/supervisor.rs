//! Every transition of the supervisor, and what must hold whatever happens.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use proptest::prelude::*;
use steady_common::Vec3;
use steady_common::supervisor::{
    Blockers, Conditions, Config, Directive, Facts, LandingCause, State, Supervisor, next,
};

/// A condition by its name in the table below.
fn holds(c: &Conditions, name: &str) -> bool {
    let (name, wanted) = name.strip_prefix('!').map_or((name, true), |n| (n, false));
    let value = match name {
        "always" => true,
        "emergency" => c.emergency,
        "tumbled" => c.tumbled,
        "blocked" => c.blocked,
        "armed" => c.armed,
        "flying" => c.flying,
        "warning" => c.warning,
        "must_land" => c.must_land,
        "descent_over" => c.descent_over,
        "preflight_timeout" => c.preflight_timeout,
        "landed_timeout" => c.landed_timeout,
        "recover" => c.recover,
        _ => unreachable!("{name}"),
    };
    value == wanted
}

/// From, to, and the condition, all parts of which must hold; the first row that holds wins.
#[rustfmt::skip]
const TRANSITIONS: &[(State, State, &str)] = &[
    (State::NotInitialised,  State::PreFlightFailed, "always"),
    (State::PreFlightFailed, State::FreeFall,        "emergency"),
    (State::PreFlightFailed, State::PreFlightPassed, "!blocked"),
    (State::PreFlightPassed, State::FreeFall,        "emergency"),
    (State::PreFlightPassed, State::PreFlightFailed, "blocked"),
    (State::PreFlightPassed, State::Arming,          "armed"),
    (State::Arming,          State::FreeFall,        "emergency"),
    (State::Arming,          State::PreFlightFailed, "blocked"),
    (State::Arming,          State::PreFlightFailed, "!armed"),
    (State::Arming,          State::ReadyToFly,      "always"),
    (State::ReadyToFly,      State::FreeFall,        "emergency"),
    (State::ReadyToFly,      State::PreFlightFailed, "!armed"),
    (State::ReadyToFly,      State::Flying,          "flying"),
    (State::ReadyToFly,      State::PreFlightFailed, "blocked"),
    (State::ReadyToFly,      State::PreFlightFailed, "preflight_timeout"),
    (State::Flying,          State::FreeFall,        "emergency"),
    (State::Flying,          State::Crashed,         "tumbled"),
    (State::Flying,          State::Reset,           "!armed"),
    (State::Flying,          State::Landed,          "!flying"),
    (State::Flying,          State::Descending,      "must_land"),
    (State::Flying,          State::LevelOut,        "warning"),
    (State::Landed,          State::FreeFall,        "emergency"),
    (State::Landed,          State::Reset,           "tumbled"),
    (State::Landed,          State::Reset,           "!armed"),
    (State::Landed,          State::Reset,           "landed_timeout"),
    (State::Landed,          State::Flying,          "flying"),
    (State::Reset,           State::PreFlightFailed, "always"),
    (State::LevelOut,        State::FreeFall,        "emergency"),
    (State::LevelOut,        State::Crashed,         "tumbled"),
    (State::LevelOut,        State::Reset,           "!armed"),
    (State::LevelOut,        State::Descending,      "must_land"),
    (State::LevelOut,        State::Flying,          "!warning"),
    (State::Descending,      State::FreeFall,        "emergency"),
    (State::Descending,      State::Crashed,         "tumbled"),
    (State::Descending,      State::Reset,           "!armed"),
    (State::Descending,      State::Reset,           "descent_over"),
    (State::FreeFall,        State::Locked,          "always"),
    (State::Crashed,         State::Locked,          "emergency"),
    (State::Crashed,         State::PreFlightFailed, "recover !tumbled"),
];

fn conditions(bits: u32) -> Conditions {
    let bit = |n: u32| bits >> n & 1 == 1;
    Conditions {
        emergency: bit(0),
        tumbled: bit(1),
        blocked: bit(2),
        armed: bit(3),
        flying: bit(4),
        warning: bit(5),
        must_land: bit(6),
        descent_over: bit(7),
        preflight_timeout: bit(8),
        landed_timeout: bit(9),
        recover: bit(10),
    }
}

#[test]
fn every_transition_is_the_tables_and_there_is_no_other() {
    let mut used = vec![0; TRANSITIONS.len()];
    for state in State::ALL {
        for bits in 0..1 << 11 {
            let c = conditions(bits);
            let row = TRANSITIONS
                .iter()
                .position(|(from, _, when)| *from == state && when.split(' ').all(|name| holds(&c, name)));
            let expected = row.map_or(state, |r| TRANSITIONS[r].1);
            assert_eq!(next(state, &c), expected, "{state:?} {c:?}");
            if let Some(row) = row {
                used[row] += 1;
            }
        }
    }
    assert!(used.iter().all(|n| *n > 0), "a row that never decides: {used:?}");
}

/// A drone that stands, charged and calibrated.
fn standing(now_ms: u32) -> Facts {
    Facts {
        now_ms,
        board_ok: true,
        sensors_ok: true,
        calibrated: true,
        table_ok: true,
        card_ok: true,
        accelerometer: Vec3::Z * 9.81,
        up: 1.0,
        battery_v: 4.0,
        motors_run: false,
        setpoint_age_ms: 0,
        needs_position: true,
        position_age_ms: 10,
        position: Vec3::ZERO,
        touchdown: false,
        guard_tripped: false,
        stop: false,
        stuck: false,
        switch_off: false,
    }
}

/// A supervisor with its clock.
struct Bench {
    supervisor: Supervisor,
    facts: Facts,
    config: Config,
    directive: Directive,
}

impl Bench {
    fn new() -> Self {
        Self {
            supervisor: Supervisor::new(),
            facts: standing(u32::MAX - 10_000), // The clock wraps in every test.
            config: Config::DEFAULT,
            directive: Directive::Off,
        }
    }

    fn run(&mut self, ms: u32) -> State {
        for _ in 0..ms / 2 {
            self.facts.now_ms = self.facts.now_ms.wrapping_add(2);
            self.directive = self.supervisor.update(&self.config, &self.facts);
        }
        self.supervisor.state()
    }

    fn flying() -> Self {
        let mut bench = Self::new();
        bench.run(10);
        bench.supervisor.arm(true).unwrap();
        assert_eq!(bench.run(10), State::ReadyToFly);
        bench.facts.motors_run = true;
        assert_eq!(bench.run(10), State::Flying);
        bench
    }
}

#[test]
fn a_whole_flight() {
    let mut b = Bench::new();
    assert_eq!(b.supervisor.info(0), 0);
    assert!(b.supervisor.arm(true).is_err(), "not in the first moment");
    assert_eq!(b.run(10), State::PreFlightPassed);
    assert_eq!(b.supervisor.info(0), 0b1, "can be armed");
    b.supervisor.arm(true).unwrap();
    b.run(2);
    assert_eq!(b.directive, Directive::Off, "not in the step of arming");
    b.run(2);
    assert_eq!((b.supervisor.state(), b.directive), (State::ReadyToFly, Directive::Fly));
    assert_eq!(b.supervisor.info(0b11 << 8), 0b11_0000_1010, "armed, can fly, planner's bits");
    b.facts.motors_run = true;
    assert_eq!(b.run(4), State::Flying);
    assert_eq!(b.supervisor.info(0), 0b1_1010);
    b.run(60_000);
    assert_eq!(b.supervisor.state(), State::Flying);
    b.facts.motors_run = false;
    assert_eq!(b.run(1990), State::Flying);
    assert_eq!(b.run(20), State::Landed);
    assert_eq!(b.run(2990), State::Landed);
    assert_eq!(b.run(20), State::PreFlightPassed);
    assert!(!b.supervisor.is_armed());
}

#[test]
fn every_blocker_blocks_alone_and_disarms_on_the_ground() {
    type Change = fn(&mut Facts);
    let changes: [(Change, Blockers); 9] = [
        (|f| f.sensors_ok = false, Blockers::SENSORS),
        (|f| f.calibrated = false, Blockers::CALIBRATION),
        (|f| f.up = 0.9, Blockers::TILT),
        (|f| f.up = f32::NAN, Blockers::TILT),
        (|f| f.battery_v = 3.5, Blockers::BATTERY),
        (|f| f.board_ok = false, Blockers::BOARD),
        (|f| f.battery_v = f32::NAN, Blockers::BATTERY),
        (|f| f.card_ok = false, Blockers::CARD),
        (|f| f.table_ok = false, Blockers::TABLE),
    ];
    for (change, blocker) in changes {
        let mut b = Bench::new();
        change(&mut b.facts);
        b.run(10);
        assert_eq!(b.supervisor.arm(true), Err(blocker));
        assert!(!b.supervisor.is_armed());

        let mut b = Bench::new();
        b.run(10);
        b.supervisor.arm(true).unwrap();
        assert_eq!(b.run(10), State::ReadyToFly);
        change(&mut b.facts);
        b.run(10);
        assert!(!b.supervisor.is_armed() && b.directive == Directive::Off, "{blocker:?}");
    }
    assert!(Blockers::NAMES.iter().all(|(b, name)| b.0.is_power_of_two() && !name.is_empty()));
}

#[test]
fn armed_and_forgotten_disarms() {
    let mut b = Bench::new();
    b.run(10);
    b.supervisor.arm(true).unwrap();
    assert_eq!(b.run(29_000), State::ReadyToFly);
    b.run(2000);
    assert!(!b.supervisor.is_armed());
}

#[test]
fn every_reason_to_land_lands() {
    type Change = fn(&mut Facts);
    let causes: [(Change, u32, LandingCause); 9] = [
        (|f| f.setpoint_age_ms = 2001, 0, LandingCause::SetpointLost),
        (|f| f.position_age_ms = 1001, 0, LandingCause::PositionLost),
        (|f| f.position_age_ms = u32::MAX, 0, LandingCause::PositionLost),
        (|f| f.position.z = 3.1, 0, LandingCause::Geofence),
        (|f| f.battery_v = 2.9, 5000, LandingCause::LowBattery),
        (|f| f.guard_tripped = true, 0, LandingCause::Guard),
        (|f| f.switch_off = true, 0, LandingCause::SwitchOff),
        // A NaN is no reason to fly on.
        (|f| f.position.x = f32::NAN, 0, LandingCause::Geofence),
        (|f| f.battery_v = f32::NAN, 5000, LandingCause::LowBattery),
    ];
    for (change, after_ms, cause) in causes {
        let mut b = Bench::flying();
        change(&mut b.facts);
        b.run(after_ms);
        assert_eq!(b.supervisor.state(), State::Flying);
        b.run(4);
        assert_eq!((b.supervisor.state(), b.directive), (State::Descending, Directive::Descend), "{cause:?}");
        assert_eq!(b.supervisor.landing_cause(), cause);
        // It cannot be called back.
        let now_ms = b.facts.now_ms;
        b.facts = Facts { motors_run: true, ..standing(now_ms) };
        assert_eq!(b.run(1000), State::Descending);
        b.facts.touchdown = true;
        b.run(2);
        assert_eq!(b.directive, Directive::Off);
        assert!(!b.supervisor.is_armed());
        assert_eq!(b.supervisor.landing_cause(), cause, "still known afterwards");
    }
}

#[test]
fn settings_that_are_no_numbers_switch_no_check_off() {
    type Change = fn(&mut Config);
    let changes: [(Change, u32, LandingCause); 7] = [
        (|c| c.fence_min.x = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.fence_min.y = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.fence_min.z = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.fence_max.x = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.fence_max.y = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.fence_max.z = f32::NAN, 0, LandingCause::Geofence),
        (|c| c.land_v = f32::NAN, 5000, LandingCause::LowBattery),
    ];
    for (change, after_ms, cause) in changes {
        let mut b = Bench::flying();
        change(&mut b.config);
        b.run(after_ms + 4);
        assert_eq!((b.supervisor.state(), b.supervisor.landing_cause()), (State::Descending, cause));
    }
    for change in [|c: &mut Config| c.min_arm_v = f32::NAN, |c: &mut Config| c.max_arm_tilt_rad = f32::NAN] {
        let mut b = Bench::new();
        change(&mut b.config);
        b.run(100);
        assert!(b.supervisor.arm(true).is_err());
    }
}

#[test]
fn a_drone_that_is_stuck_has_crashed() {
    let mut b = Bench::flying();
    b.facts.stuck = true;
    assert_eq!(b.run(490), State::Flying, "it may be a moment");
    b.facts.stuck = false;
    b.run(2);
    b.facts.stuck = true;
    assert_eq!(b.run(490), State::Flying, "from the beginning");
    assert_eq!(b.run(20), State::Crashed);
    assert_eq!(b.directive, Directive::Off);
    assert!(b.supervisor.recover(), "it stands upright");
    b.facts = standing(b.facts.now_ms);
    assert_eq!(b.run(10), State::PreFlightPassed);
    // On the ground it means nothing.
    b.facts.stuck = true;
    assert_eq!(b.run(2000), State::PreFlightPassed);
}

#[test]
fn switching_off_disarms_on_the_ground() {
    let mut b = Bench::new();
    b.run(10);
    b.supervisor.arm(true).unwrap();
    assert_eq!(b.run(10), State::ReadyToFly);
    b.facts.switch_off = true;
    b.run(4);
    assert!(!b.supervisor.is_armed() && !b.supervisor.state().may_fly());
    assert_eq!(b.supervisor.arm(true), Err(Blockers::SWITCH_OFF));
}

#[test]
fn a_descent_that_finds_no_floor_ends() {
    let mut b = Bench::flying();
    b.facts.guard_tripped = true;
    assert_eq!(b.run(19_990), State::Descending);
    b.run(20);
    assert_eq!(b.directive, Directive::Off);
}

#[test]
fn what_is_late_levels_out_and_recovers() {
    for late in [|f: &mut Facts| f.setpoint_age_ms = 501, |f: &mut Facts| f.position_age_ms = 501] {
        let mut b = Bench::flying();
        late(&mut b.facts);
        assert_eq!(b.run(4), State::LevelOut);
        assert_eq!(b.directive, Directive::LevelOut);
        let now_ms = b.facts.now_ms;
        b.facts = Facts { motors_run: true, ..standing(now_ms) };
        assert_eq!(b.run(4), State::Flying);
    }
    let mut b = Bench::flying();
    (b.facts.needs_position, b.facts.position_age_ms) = (false, u32::MAX);
    assert_eq!(b.run(5000), State::Flying, "manual flight needs no position");
}

#[test]
fn tumbling_is_seen_and_free_fall_is_not_tumbling() {
    let tumbles = |accelerometer: Vec3, up: f32, ms: u32| {
        let mut b = Bench::flying();
        (b.facts.accelerometer, b.facts.up) = (accelerometer, up);
        b.run(ms) == State::Crashed
    };
    assert!(!tumbles(Vec3::Z * 4.0, 1.0, 990) && tumbles(Vec3::Z * 4.0, 1.0, 1010), "on its side");
    assert!(!tumbles(Vec3::Z * -4.0, 1.0, 90) && tumbles(Vec3::Z * -4.0, 1.0, 110), "on its back");
    assert!(!tumbles(Vec3::Z * 9.81, -0.5, 90) && tumbles(Vec3::Z * 9.81, -0.5, 110), "by the estimate");
    assert!(!tumbles(Vec3::Z * 0.5, 1.0, 3000), "free fall");
    let mut b = Bench::flying();
    b.config.crash_g = 5.0;
    b.facts.accelerometer = Vec3::new(80.0, 0.0, 0.0);
    assert_eq!(b.run(2), State::Crashed, "a jolt");
    assert!(!b.supervisor.is_armed());
    b.facts.accelerometer = Vec3::Z * 9.81;
    assert_eq!(b.run(1000), State::Crashed);
    assert_eq!(b.supervisor.info(0) & 1 << 7, 1 << 7);
    assert!(b.supervisor.recover());
    b.facts.motors_run = false;
    assert_eq!(b.run(10), State::PreFlightPassed);
    assert!(!b.supervisor.recover(), "nothing to recover from");
}

#[test]
fn emergencies_lock() {
    type Act = fn(&mut Bench);
    let acts: [(Act, u32); 4] = [
        (|b| b.supervisor.emergency_stop(), 2),
        (|b| b.facts.stop = true, 2),
        (|b| b.supervisor.feed_watchdog(b.facts.now_ms), 1010),
        (|b| b.facts.sensors_ok = false, 60),
    ];
    for (act, ms) in acts {
        let mut b = Bench::flying();
        act(&mut b);
        b.run(ms);
        assert_eq!(b.directive, Directive::Off);
        b.facts = standing(b.facts.now_ms);
        assert_eq!(b.run(10_000), State::Locked);
        assert!(b.supervisor.arm(true).is_err());
        assert_eq!(b.supervisor.info(0) & 1 << 6, 1 << 6);
    }
    let mut b = Bench::flying();
    for _ in 0..20 {
        b.supervisor.feed_watchdog(b.facts.now_ms);
        b.run(900);
    }
    assert_eq!(b.supervisor.state(), State::Flying, "a fed watchdog is quiet");
}

fn facts() -> impl Strategy<Value = Facts> {
    let number = || prop_oneof![8 => -20.0_f32..20.0, 1 => prop::num::f32::ANY];
    let age = || prop_oneof![6 => 0_u32..100, 2 => 0_u32..5000, 1 => any::<u32>()];
    let mostly = || prop::bool::weighted(0.95);
    (
        (mostly(), mostly(), mostly(), mostly(), prop::array::uniform3(number())),
        (number(), 3.0_f32..4.2, any::<bool>(), age(), any::<bool>(), age()),
        (prop::array::uniform3(number()), prop::bool::weighted(0.1), prop::bool::weighted(0.05)),
        (prop::bool::weighted(0.02), prop::bool::weighted(0.05), prop::bool::weighted(0.02)),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(ok, flight, place, stop, calm)| {
            let facts = Facts {
                board_ok: true,
                sensors_ok: ok.0,
                calibrated: ok.1,
                table_ok: ok.2,
                card_ok: ok.3,
                accelerometer: Vec3::from(ok.4),
                up: flight.0,
                battery_v: flight.1,
                motors_run: flight.2,
                setpoint_age_ms: flight.3,
                needs_position: flight.4,
                position_age_ms: flight.5,
                position: Vec3::from(place.0),
                touchdown: place.1,
                guard_tripped: place.2,
                stop: stop.0,
                stuck: stop.1,
                switch_off: stop.2,
                now_ms: 0,
            };
            // Often enough nothing is wrong, or no flight would ever begin.
            if calm { Facts { motors_run: facts.motors_run, ..standing(0) } } else { facts }
        })
}

#[derive(Clone, Debug)]
enum Ask {
    Arm(bool),
    Emergency,
    Watchdog,
    Recover,
    Nothing,
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => prop::bool::weighted(0.9).prop_map(Ask::Arm),
        1 => Just(Ask::Watchdog),
        2 => Just(Ask::Recover),
        20 => Just(Ask::Nothing),
        1 => prop::bool::weighted(0.2).prop_map(|on| if on { Ask::Emergency } else { Ask::Nothing }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Motors are off in every state that may not fly, nothing flies unarmed, and nothing arms by
    /// itself.
    #[test]
    fn motors_are_off_where_nothing_may_fly(steps in prop::collection::vec((facts(), ask(), 1_u32..400), 1..80)) {
        let mut s = Supervisor::new();
        let mut now_ms = 0_u32;
        for (facts, ask, ms) in steps {
            let was_armed = s.is_armed();
            let arms = match ask {
                Ask::Arm(arm) => s.arm(arm).is_ok() && arm,
                Ask::Emergency => { s.emergency_stop(); false }
                Ask::Watchdog => { s.feed_watchdog(now_ms); false }
                Ask::Recover => { s.recover(); false }
                Ask::Nothing => false,
            };
            for _ in 0..3 {
                now_ms = now_ms.wrapping_add(ms);
                let directive = s.update(&Config::DEFAULT, &Facts { now_ms, ..facts });
                if !s.state().may_fly() {
                    prop_assert_eq!(directive, Directive::Off);
                }
                if directive != Directive::Off {
                    prop_assert!(s.is_armed());
                }
                prop_assert!(!s.is_armed() || was_armed || arms, "armed by itself");
                prop_assert_eq!(s.info(0) >> 1 & 1 == 1, s.is_armed());
                prop_assert_eq!(s.info(0) >> 3 & 1 == 1, s.state().may_fly());
            }
        }
    }
}
