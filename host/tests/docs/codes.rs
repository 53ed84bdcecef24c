//! `docs/troubleshooting.md`: every code with what to do. A new code does not compile, or fails, without its
//! advice.

use steady_common::guard::{Status, Trip};
use steady_common::supervisor::{Blockers, LandingCause, State};
use steady_firmware::fault::ResetReason;
use steady_firmware::storage;
use steady_firmware::storage::CardError;

use super::{Table, section};

const PAGE: &str = "troubleshooting.md";

#[test]
fn supervisor_states() {
    let mut table = Table::new(&["`steady.supervisor`", "state", "what to do"]);
    for state in State::ALL {
        let advice = match state {
            State::NotInitialised => "wait: the drone has just started",
            State::PreFlightFailed => "see [arming](#arming); `steady info` names the reason",
            State::PreFlightPassed => "nothing: it can be armed",
            State::Arming | State::ReadyToFly => "keep clear: the motors may start",
            State::Flying | State::Landed => "nothing",
            State::Reset => "nothing: it disarms",
            State::LevelOut => "set-points or motion capture are late; it waits for them, then comes down",
            State::FreeFall => "the motors were cut; the next state is 10",
            State::Locked => {
                "find out why (emergency stop, silent watchdog, `stabilizer.stop`, gyroscope lost in the air), then switch it off and on"
            }
            State::Crashed => {
                "look for damage and for a blocked or dead motor, stand it upright, `steady recover`"
            }
            State::Descending => "let it land; the reason is `steady.landing`, below",
        };
        table.row(&[&(state as u8), &state.name(), &advice]);
    }
    section(PAGE, "supervisor", &table.0);
}

#[test]
fn blockers() {
    let mut table = Table::new(&["bit of `steady.blockers`", "`steady info` says", "what to do"]);
    for (blocker, name) in Blockers::NAMES {
        let advice = match blocker {
            Blockers::SENSORS => {
                "`steady console` names the sensor; restart it, away from vibration; if it stays, the board is broken"
            }
            Blockers::CALIBRATION => "put it down and leave it still for two seconds",
            Blockers::TILT => "put it on level ground (20° at most, `supervisor.armTilt`)",
            Blockers::BATTERY => "charge it (3.6 V at rest at least, `supervisor.armVolt`)",
            Blockers::CARD => {
                "insert a FAT32 card with room, see the card's codes below; or `steady param set steady.logRequired=0`"
            }
            Blockers::BOARD => {
                "only a Crazyflie 2.1 or 2.1+ flies with this firmware; put the official one on it"
            }
            Blockers::TABLE => "`steady gains revert`, or flash a table that `steady gains check` accepts",
            Blockers::TUMBLED => "stand it upright",
            Blockers::CRASHED => "look for damage, stand it upright, `steady recover`",
            Blockers::LOCKED => "switch it off and on",
            Blockers::SWITCH_OFF => "the button was pressed: it switches itself off",
            other => panic!("what about {other:?}?"),
        };
        table.row(&[&blocker.0.trailing_zeros(), &name, &advice]);
    }
    section(PAGE, "blockers", &table.0);
}

#[test]
fn landing_causes() {
    let causes = [
        LandingCause::None,
        LandingCause::SetpointLost,
        LandingCause::PositionLost,
        LandingCause::Geofence,
        LandingCause::LowBattery,
        LandingCause::Guard,
        LandingCause::SwitchOff,
    ];
    let mut table = Table::new(&["`steady.landing`", "cause", "what to do"]);
    for (number, cause) in causes.into_iter().enumerate() {
        assert_eq!(cause as usize, number);
        let advice = match cause {
            LandingCause::None => "nothing: it was not the drone's own decision",
            LandingCause::SetpointLost => {
                "the client fell silent for 2 s (`supervisor.setpointStop`): look at the link (`steady info`) and at the client"
            }
            LandingCause::PositionLost => {
                "no motion capture for 1 s (`supervisor.mocapStop`): markers hidden, system stopped, or its radio link; `steady.mocapRejected` counts frames that could not be true"
            }
            LandingCause::Geofence => {
                "it left the fence (`fence.minX` … `fence.maxZ`): fly in the middle, or move the fence"
            }
            LandingCause::LowBattery => {
                "below 3.0 V for 5 s under load (`supervisor.landVolt`, `supervisor.lowBatMs`): charge, or replace the battery"
            }
            LandingCause::Guard => "new gains left their envelope; see the gain guard",
            LandingCause::SwitchOff => "the button was pressed in the air: do not",
        };
        table.row(&[&number, &cause.name(), &advice]);
    }
    section(PAGE, "landing causes", &table.0);
}

#[test]
fn gain_guard() {
    let mut table = Table::new(&["`steady.guard`", "means", "what to do"]);
    let all = [Status::Idle, Status::Watching]
        .into_iter()
        .chain([Trip::Tracking, Trip::Tilt, Trip::Rate, Trip::NotANumber].map(Status::Tripped));
    for (number, status) in all.enumerate() {
        assert_eq!(usize::from(status.code()), number);
        let (means, advice) = match status {
            Status::Idle => ("proven gains fly, or the guard is off", "nothing"),
            Status::Watching => (
                "new gains fly inside their envelope",
                "nothing; a flight of 5 s with a normal landing proves them",
            ),
            Status::Tripped(Trip::Tracking) => (
                "too far from the reference (`guard.tracking`, `guard.trackingMs`)",
                "the gains are too weak or the reference jumped: fly the table on the virtual Crazyflie in a world like yours",
            ),
            Status::Tripped(Trip::Tilt) => ("too much tilt (`guard.tilt`, `guard.tiltMs`)", "as above"),
            Status::Tripped(Trip::Rate) => (
                "turned too fast (`guard.rate`, `guard.rateMs`)",
                "the attitude or rate loop oscillates: lower their gains; `steady log plot` shows it",
            ),
            Status::Tripped(Trip::NotANumber) => {
                ("the estimate or the action was NaN or infinite", "keep the log and report it")
            }
        };
        table.row(&[&number, &means, &advice]);
    }
    section(PAGE, "gain guard", &table.0);
}

#[test]
fn card() {
    let mut table = Table::new(&["`usd.state`", "the card", "what to do"]);
    let states = [
        storage::State::NoCard,
        storage::State::Ready,
        storage::State::Logging,
        storage::State::Full,
        storage::State::Failed,
    ];
    for (number, state) in states.into_iter().enumerate() {
        assert_eq!(state as usize, number);
        let (means, advice) = match state {
            storage::State::NoCard => ("none, or none that can be used", "see `usd.error`"),
            storage::State::Ready => ("ready", "nothing"),
            storage::State::Logging => ("a log is being written", "do not pull it out"),
            storage::State::Full => ("full", "copy the logs and delete them"),
            storage::State::Failed => (
                "failed while a log was being written",
                "the log is whole up to the last 60 ms; try another card",
            ),
        };
        table.row(&[&number, &means, &advice]);
    }
    section(PAGE, "card states", &table.0);

    let mut table = Table::new(&["`usd.error`", "the console says", "what to do"]);
    let errors = [
        CardError::Missing,
        CardError::Device,
        CardError::Format,
        CardError::Full,
        CardError::Names,
        CardError::Closed,
    ];
    for (number, error) in (1..).zip(errors) {
        assert_eq!(error.code(), number);
        let advice = match error {
            CardError::Missing => "push the card in, look at the deck's pins",
            CardError::Device => "clean the contacts, try another card",
            CardError::Format => {
                "one partition with FAT32 (`mkfs.vfat -F 32`); exFAT and cards without a partition table are not read"
            }
            CardError::Full | CardError::Names => "copy the logs and delete them",
            CardError::Closed => "keep the log and report it",
        };
        table.row(&[&number, &error.text(), &advice]);
    }
    section(PAGE, "card errors", &table.0);
}

#[test]
fn reset_reasons() {
    let mut table = Table::new(&["the console says `start by` …", "means", "what to do"]);
    for reason in [
        ResetReason::PowerOn,
        ResetReason::BrownOut,
        ResetReason::Pin,
        ResetReason::Software,
        ResetReason::Watchdog,
        ResetReason::Unknown,
    ] {
        let (means, advice) = match reason {
            ResetReason::PowerOn => ("it was switched on", "nothing"),
            ResetReason::BrownOut => {
                ("the supply sagged", "charge; if it happens in flight, replace battery or its plug")
            }
            ResetReason::Pin => (
                "the radio processor or a debugger restarted it",
                "nothing after `steady gains flash`, `steady flash` or a client's restart",
            ),
            ResetReason::Software => (
                "a panic or fault; the next line, `last run: …`, says which",
                "report that line and the version",
            ),
            ResetReason::Watchdog => {
                ("the flight loop missed its deadline", "report it with the log: this must not happen")
            }
            ResetReason::Unknown => ("no flag was set", "nothing"),
        };
        table.row(&[&reason, &means, &advice]);
    }
    section(PAGE, "reset reasons", &table.0);
}
